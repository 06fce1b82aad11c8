"""The ledger is a reading of the log: taken away and read again it is the same, row by row."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from ledger import store
from ledger.rebuild import Difference, rebuild
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import make_host, make_tenant, take
from tests.ledger.ledger_rows import ledger_rows
from tests.ledger.test_store import LATER, arrive, compaction, read_all, write

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "recordings"
LOGS = sorted(RECORDINGS.glob("**/events.ndjson"))

TAMPERING = {
    "a write made up": (
        "INSERT INTO ledger_memorywrite (tenant_id, run_id, sequence, tags, occurred_at)"
        " SELECT tenant_id, run_id, 1, '{}', occurred_at FROM ledger_memorywrite WHERE sequence = 3",
        {"ledger_memorywrite": (1, 0)},
    ),
    "a source gone": (
        "DELETE FROM ledger_mergesource WHERE entry_id = (SELECT id FROM ledger_memoryentry WHERE memory_id = 'm2')",
        {"ledger_mergesource": (0, 1)},
    ),
    "another node": (
        "UPDATE ledger_memorywrite SET node_id = 'somebody-else' WHERE node_id = 'sum'",
        {"ledger_memorywrite": (1, 1)},
    ),
    "another tag": (
        "UPDATE ledger_memorywrite SET tags = '{other}' WHERE node_id = 'sum'",
        {"ledger_memorywrite": (1, 1)},
    ),
    "another count": (
        "UPDATE ledger_memoryentry SET write_count = write_count + 1 WHERE memory_id = 'm1'",
        {"ledger_memoryentry": (1, 1)},
    ),
    "another time": (
        "UPDATE ledger_memoryentry SET last_at = last_at + interval '1 microsecond' WHERE memory_id = 'm1'",
        {"ledger_memoryentry": (1, 1)},
    ),
    "another sum": ("UPDATE ledger_memoryscope SET entry_count = 0", {"ledger_memoryscope": (1, 1)}),
    "another trigger": ("UPDATE ledger_merge SET trigger = 'both'", {"ledger_merge": (1, 1)}),
    "a hint gone": ("DELETE FROM ledger_taggedsource", {"ledger_taggedsource": (0, 1)}),
    "all of it gone": (
        "DELETE FROM ledger_mergesource; DELETE FROM ledger_taggedsource; DELETE FROM ledger_merge;"
        " DELETE FROM ledger_memorywrite; DELETE FROM ledger_memoryentry; DELETE FROM ledger_memoryscope",
        {
            "ledger_memoryscope": (0, 1),
            "ledger_memoryentry": (0, 3),
            "ledger_memorywrite": (0, 3),
            "ledger_merge": (0, 1),
            "ledger_taggedsource": (0, 1),
            "ledger_mergesource": (0, 2),
        },
    ),
}


def fill(host: Host) -> None:
    arrive(
        host,
        write(0, node="sum", tags=["a"]),
        compaction(1, sourceIds=["m1", "m2"]),
        write(3, "all", tags=["compacted-from:m1"]),
        write(0, run="run-2"),
    )


def tamper(tenant: Tenant, sql: str) -> None:
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute(sql)


def changes(differences: list[Difference]) -> dict[str, tuple[int, int]]:
    return {one.table: (one.lost, one.gained) for one in differences if one.lost or one.gained}


@pytest.fixture
def filled(committed: None) -> Tenant:
    tenant = make_tenant()
    fill(make_host(tenant))
    read_all(tenant, now=LATER)
    return tenant


def test_a_ledger_read_again_is_the_same(filled: Tenant) -> None:
    before = ledger_rows(filled)
    differences = rebuild(filled.pk)
    assert [(one.table, one.rows) for one in differences] == [
        ("ledger_memoryscope", 1),
        ("ledger_memoryentry", 3),
        ("ledger_memorywrite", 3),
        ("ledger_merge", 1),
        ("ledger_taggedsource", 1),
        ("ledger_mergesource", 2),
        ("ledger_receipt", 0),
        ("ledger_claimstate", 0),
        ("ledger_holding", 0),
        ("ledger_conflict", 0),
    ]
    assert changes(differences) == {}
    assert ledger_rows(filled) == before


def test_a_check_finds_every_change_and_changes_nothing_and_a_rebuild_mends_it(filled: Tenant) -> None:
    before = ledger_rows(filled)
    for what, (sql, expected) in TAMPERING.items():
        tamper(filled, sql)
        tampered = ledger_rows(filled)
        assert tampered != before, what
        assert changes(rebuild(filled.pk, check=True)) == expected, what
        assert ledger_rows(filled) == tampered, what
        assert changes(rebuild(filled.pk)) == expected, what
        assert ledger_rows(filled) == before, what
        assert changes(rebuild(filled.pk, check=True)) == {}, what


def test_differences_come_with_samples(filled: Tenant) -> None:
    tamper(filled, "UPDATE ledger_memorywrite SET node_id = 'somebody-else' WHERE node_id = 'sum'")
    (found,) = (one for one in rebuild(filled.pk, check=True) if one.samples)
    lost, gained = found.samples
    assert lost.startswith("lost (") and "somebody-else" in lost
    assert gained.startswith("gained (") and "sum" in gained


def test_a_rebuild_in_parts_gives_the_same(filled: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ledger_rows(filled)
    monkeypatch.setattr(store, "EVENTS_AT_ONCE", 1)
    assert changes(rebuild(filled.pk)) == {}
    assert ledger_rows(filled) == before


def test_what_nobody_has_read_yet_is_no_difference(filled: Tenant) -> None:
    with tenant_scope(filled.pk):
        host = Host.objects.get(tenant_id=filled.pk)
    arrive(host, write(2, "m9"), write(4, "m8"), write(0, run="run-3"))
    assert changes(rebuild(filled.pk, check=True)) == {}
    assert "m9" not in [row[1] for row in ledger_rows(filled)["entries"]]
    read_all(filled, now=LATER)
    assert [row[1] for row in ledger_rows(filled)["entries"]] == ["all", "m1", "m2", "m8", "m9"]


def test_a_rebuild_leaves_other_tenants_alone(filled: Tenant) -> None:
    other = make_tenant("globex")
    fill(make_host(other))
    read_all(other, now=LATER)
    tamper(other, "UPDATE ledger_memoryentry SET write_count = 7")
    tampered = ledger_rows(other)
    assert changes(rebuild(filled.pk)) == {}
    assert ledger_rows(other) == tampered


def rebuild_ledger(*arguments: str) -> tuple[int, str]:
    """Exit code and what is printed."""
    told = StringIO()
    try:
        call_command("rebuild_ledger", *arguments, stdout=told, stderr=told)
    except SystemExit as exc:
        return int(exc.code or 0), told.getvalue()
    return 0, told.getvalue()


def test_the_command_exits_1_on_any_difference_and_only_for_a_check(filled: Tenant) -> None:
    assert rebuild_ledger("--tenant", "acme", "--check")[0] == 0
    tamper(filled, "UPDATE ledger_memoryentry SET write_count = 7 WHERE memory_id = 'm1'")
    code, told = rebuild_ledger("--tenant", "acme", "--check")
    assert code == 1
    assert "memoryentry: 3 rows, 1 lost, 1 gained" in told and "memorywrite: 3 rows, the same" in told
    assert rebuild_ledger("--tenant", "acme")[0] == 0
    code, told = rebuild_ledger("--tenant", "acme", "--check")
    assert code == 0 and "lost" not in told


def test_the_command_names_the_tenants_that_there_are(tenant: Tenant) -> None:
    with pytest.raises(CommandError, match="acme"):
        rebuild_ledger("--tenant", "acmee")


def test_the_ledger_of_every_recording_is_the_same_read_again(committed: None) -> None:
    tenant = make_tenant()
    announced = 0
    for file in LOGS:
        lines = file.read_text().splitlines()
        take(make_host(tenant, str(file.parent.relative_to(RECORDINGS)).replace("/", "-").lower()), lines)
        events = [json.loads(line) for line in lines]
        announced += len({(e["runId"], e["sequence"]) for e in events if e["type"] == "memory.written"})
    read_all(tenant, now=LATER)
    assert len(ledger_rows(tenant)["writes"]) == announced > 100
    assert rebuild_ledger("--tenant", "acme", "--check")[0] == 0
