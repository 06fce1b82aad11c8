"""What is asked of the ledger: filters, pages, counts, and where an entry comes from."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from ledger import queries
from ledger.queries import BrokenCursor, EntryFilter, EntryList, EntryRef, Lineage, LineageRow, entries
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from runs.queries import Option
from tests.factories import make_event, make_host, make_tenant, take
from tests.ledger.test_store import LATER, arrive, at, compaction, read_all, write

APP = Path(__file__).parent.parent / "fixtures" / "recordings" / "openwop-app"


def listed(
    tenant: Tenant, *, before: str | None = None, after: str | None = None, limit: int = 50, **told: Any
) -> EntryList:
    with tenant_scope(tenant.pk):
        return queries.entry_list(tenant.pk, EntryFilter(**told), before=before, after=after, limit=limit)


def ids(found: EntryList) -> list[str]:
    return [row.memory_id for row in found.rows]


def lineage_of(tenant: Tenant, memory_id: str, *, host: str = "alpha", ref: str = "notes") -> Lineage:
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, host, ref, memory_id)
        assert entry is not None
        return queries.lineage(tenant.pk, entry)


# --- Lists ---


def test_an_entry_is_shown_with_its_last_write(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0, node="sum", agentId="writer", tags=["old"], at=at(5)),
        write(0, run="run-2", node="edit", tags=["new", "newer"], at=at(9)),
        write(1, run="run-2", at=at(7)),
    )
    read_all(tenant)
    (row,) = listed(tenant).rows
    assert (row.host, row.memory_ref, row.memory_id, row.state) == ("alpha", "notes", "m1", "announced")
    assert (row.node, row.agent, row.tags) == ("edit", None, ("new", "newer"))
    assert (row.run_host, row.run_id, row.sequence, row.last_write_at) == ("alpha", "run-2", 0, at(9))
    assert (row.writes, row.writers) == (3, 2)
    assert (row.excerpt, row.expires_at) == (None, None)


@pytest.mark.parametrize(
    "writers, expected",
    [
        ([("a", "x")], 1),
        ([(None, None)], 0),
        ([("a", "x"), ("a", "x")], 1),
        ([("a", "x"), ("a", "y"), ("b", "x"), ("a", None), (None, "x"), (None, None)], 5),
    ],
)
def test_writers_are_distinct_pairs_of_node_and_agent(
    tenant: Tenant, host: Host, writers: list[tuple[str | None, str | None]], expected: int
) -> None:
    arrive(host, *(write(place, node=node, agentId=agent) for place, (node, agent) in enumerate(writers)))
    read_all(tenant)
    assert listed(tenant).rows[0].writers == expected
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "notes", "m1")
    assert entry is not None and (entry.writers, entry.writes) == (expected, len(writers))


def test_an_entry_that_only_a_merge_names_has_no_last_write(tenant: Tenant, host: Host) -> None:
    arrive(host, compaction(0, sourceIds=["m1"]))
    read_all(tenant)
    for row in listed(tenant).rows:
        assert (row.run_id, row.run_host, row.sequence, row.node, row.last_write_at) == (None,) * 5
        assert (row.writes, row.writers, row.tags) == (0, 0, ())


@pytest.fixture
def shelf(tenant: Tenant, host: Host) -> Tenant:
    """Newest first: m9, Über, m100%, m_1, m1."""
    arrive(
        host,
        write(0, "m1", node="sum", agentId="writer", tags=["kind:plain", "100%"]),
        write(1, "m_1", ref="other", node="edit", agentId="Writer-2"),
        write(2, "m100%", node="sum"),
        write(3, "Über", ref="other", tags=["Ärger"]),
    )
    arrive(make_host(tenant, "beta"), write(9, "m9", ref="notes", node="sum_all", tags=["back\\slash"]))
    read_all(tenant, now=LATER)
    return tenant


@pytest.mark.parametrize(
    "told, expected",
    [
        ({}, ["m9", "Über", "m100%", "m_1", "m1"]),
        ({"host": "alpha"}, ["Über", "m100%", "m_1", "m1"]),
        ({"host": "beta"}, ["m9"]),
        ({"host": "gamma"}, []),
        ({"ref": "notes"}, ["m9", "m100%", "m1"]),
        ({"ref": "other"}, ["Über", "m_1"]),
        ({"ref": "note"}, []),
        ({"ref": "notes", "host": "alpha"}, ["m100%", "m1"]),
        ({"ref": "other", "host": "beta"}, []),
        ({"node": "sum"}, ["m100%", "m1"]),
        ({"node": "su"}, []),
        ({"agent": "writer"}, ["m1"]),
        ({"tag": "kind:plain"}, ["m1"]),
        ({"tag": "kind"}, []),
        ({"tag": "back\\slash"}, ["m9"]),
        ({"state": "announced"}, ["m9", "Über", "m100%", "m_1", "m1"]),
        ({"state": "stored"}, []),
        ({"node": "sum", "tag": "kind:plain", "host": "alpha"}, ["m1"]),
        ({"node": "edit", "tag": "kind:plain"}, []),
        ({"q": "m1"}, ["m100%", "m1"]),
        ({"q": "M1"}, ["m100%", "m1"]),
        ({"q": "_"}, ["m9", "m_1"]),
        ({"q": "%"}, ["m100%", "m1"]),
        ({"q": "\\"}, ["m9"]),
        ({"q": "othe"}, ["Über", "m_1"]),
        ({"q": "KIND:"}, ["m1"]),
        ({"q": "writer"}, ["m_1", "m1"]),
        ({"q": "sum"}, ["m9", "m100%", "m1"]),
        ({"q": "über"}, ["Über"]),
        ({"q": "ärg"}, ["Über"]),
        ({"q": "nothing"}, []),
        ({"q": "sum", "host": "alpha"}, ["m100%", "m1"]),
        ({"q": "sum", "ref": "notes", "node": "sum_all"}, ["m9"]),
    ],
)
@pytest.mark.parametrize("near", [entries.NEAR, 1])
def test_filters(
    shelf: Tenant, monkeypatch: pytest.MonkeyPatch, near: int, told: dict[str, Any], expected: list[str]
) -> None:
    monkeypatch.setattr(entries, "NEAR", near)
    found = listed(shelf, **told)
    assert ids(found) == expected
    assert (found.total, found.total_is_estimate) == (len(expected), False)
    assert (found.newer, found.older) == (None, None)


@pytest.mark.parametrize("hostile", ["%", "_", "\\", "'", '"; DROP TABLE x', "\0", "%s", "%(tenant)s", "\ue000", "{}"])
@pytest.mark.parametrize("member", ["q", "host", "ref", "node", "agent", "tag", "state"])
def test_whatever_a_filter_says_it_is_only_text(shelf: Tenant, member: str, hostile: str) -> None:
    asked: dict[str, Any] = {member: hostile}
    listed(shelf, **asked)
    assert len(listed(shelf).rows) == 5


def test_odd_ids_are_found_by_themselves(tenant: Tenant, host: Host) -> None:
    odd: dict[str, Any] = {"nodeId": "n\0", "agentId": "a\ud800", "tags": ["t\ue000"]}
    arrive(host, write(0), write(1, "m\0", ref="r\ud800", **odd))
    read_all(tenant)
    asked: list[dict[str, Any]] = [
        {"node": "n\0"},
        {"agent": "a\ud800"},
        {"tag": "t\ue000"},
        {"ref": "r\ud800"},
        {"q": "\0"},
    ]
    for told in asked:
        (row,) = listed(tenant, **told).rows
        assert (row.memory_ref, row.memory_id, row.node, row.agent, row.tags) == (
            "r\ud800",
            "m\0",
            "n\0",
            "a\ud800",
            ("t\ue000",),
        )


def test_options_count_entries(shelf: Tenant) -> None:
    with tenant_scope(shelf.pk):
        assert queries.host_options(shelf.pk) == (Option("alpha", "alpha", 4), Option("beta", "beta", 1))
        assert queries.ref_options(shelf.pk) == (Option("notes", "notes", 3), Option("other", "other", 2))
        assert queries.totals(shelf.pk) == queries.Totals(entries=5, writes=5, attributed=80)


def test_nothing_is_written_by_nobody_and_its_share_is_unknown(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        assert queries.totals(tenant.pk) == queries.Totals(entries=0, writes=0, attributed=None)


def test_no_read_sees_another_tenant(shelf: Tenant) -> None:
    other = make_tenant("globex")
    make_host(other)
    assert listed(other).rows == ()
    assert listed(other, q="m1").rows == listed(other, ref="notes").rows == ()
    with tenant_scope(other.pk):
        assert queries.totals(other.pk).entries == 0
        assert not queries.ref_options(other.pk) and not queries.latest_writes(other.pk)
        assert queries.find_entry(other.pk, "alpha", "notes", "m1") is None
    with tenant_scope(shelf.pk):
        entry = queries.find_entry(shelf.pk, "alpha", "notes", "m1")
        assert entry is not None
    with tenant_scope(other.pk):
        assert queries.entry_writes(other.pk, entry.pk).rows == ()
        assert queries.lineage(other.pk, entry) == Lineage((), ())


# --- Pages ---


def walk(tenant: Tenant, *, limit: int, **told: Any) -> tuple[list[list[str]], list[list[str]]]:
    """The pages going down, and the same going up again."""
    page = listed(tenant, limit=limit, **told)
    down, up = [ids(page)], []
    while page.older:
        total = page.total
        page = listed(tenant, limit=limit, before=page.older, **told)
        assert page.total == total
        down.append(ids(page))
    up.append(ids(page))
    while page.newer:
        page = listed(tenant, limit=limit, after=page.newer, **told)
        up.append(ids(page))
    return down, up


@pytest.mark.parametrize("told", [{}, {"host": "alpha"}, {"ref": "notes"}, {"node": "sum"}, {"q": "m"}, {"q": "sum"}])
@pytest.mark.parametrize("near", [entries.NEAR, 2])
def test_pages_show_every_entry_once_even_where_many_have_one_time(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch, near: int, told: dict[str, Any]
) -> None:
    monkeypatch.setattr(entries, "NEAR", near)
    arrive(host, *(write(place, f"m{place}", node="sum", at=at(place // 4)) for place in range(11)))
    read_all(tenant)
    down, up = walk(tenant, limit=4, **told)
    assert [len(page) for page in down] == [4, 4, 3]
    assert sorted(sum(down, [])) == sorted(f"m{place}" for place in range(11))
    assert [int(one[1:]) // 4 for one in sum(down, [])] == [2] * 3 + [1] * 4 + [0] * 4
    assert up[-1] == down[0] and len(up[1]) == 4
    assert listed(tenant, limit=4, **told).total == 11


def test_what_comes_meanwhile_moves_no_page(tenant: Tenant, host: Host) -> None:
    arrive(host, *(write(place, f"m{place}") for place in range(6)))
    read_all(tenant)
    first = listed(tenant, limit=2)
    arrive(host, write(6, "m6"), write(7, "m7"))
    read_all(tenant)
    second = listed(tenant, limit=2, before=first.older)
    assert ids(second) == ["m3", "m2"]
    assert ids(listed(tenant, limit=2, after=second.newer)) == ["m5", "m4"]


def test_going_up_to_the_top_fills_the_first_page(tenant: Tenant, host: Host) -> None:
    arrive(host, *(write(place, f"m{place}") for place in range(6)))
    read_all(tenant)
    below = listed(tenant, limit=4, before=listed(tenant, limit=2).older)
    assert ids(below) == ["m3", "m2", "m1", "m0"]
    top = listed(tenant, limit=4, after=below.newer)
    assert ids(top) == ["m5", "m4", "m3", "m2"]
    assert (top.newer is None, top.older is None) == (True, False)


def test_common_and_rare_matches_are_counted(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(host, *(write(place, f"m{place}", node="even" if place % 2 == 0 else "odd") for place in range(40)))
    read_all(tenant)
    monkeypatch.setattr(entries, "NEAR", 10)
    common = listed(tenant, q="even", limit=3)
    assert (ids(common), common.total, common.total_is_estimate) == (["m38", "m36", "m34"], 20, True)
    rare = listed(tenant, q="m7", limit=3)
    assert (ids(rare), rare.total, rare.total_is_estimate) == (["m7"], 1, False)
    found = listed(tenant, q="m1", limit=3)
    assert (ids(found), found.total, found.total_is_estimate) == (["m19", "m18", "m17"], 11, False)
    monkeypatch.setattr(entries, "COUNTED", 15)
    counted = listed(tenant, node="odd", limit=3)
    assert (counted.total, counted.total_is_estimate) == (15, True)
    assert (listed(tenant, limit=3).total, listed(tenant, ref="notes", limit=3).total) == (40, 40)


def cursor(*place: Any) -> str:
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


ID = "0b1f6f0e-6a53-4f0c-9a39-4a8b7f0d2c11"


@pytest.mark.parametrize(
    "broken",
    [
        *("", "x", "%", "é", "=" * 4, "A" * 5, "bnVsbA", cursor(), cursor(1, 2), cursor("2026-03-01T09:00:00Z")),
        cursor("2026-03-01T09:00:00", ID),
        cursor("2026-03-01T09:00:00Z", "m1"),
        cursor("soon", ID),
        cursor("2026-03-01T09:00:00Z", 5),
        cursor("2026-03-01T09:00:00Z", ID, 1),
        urlsafe_b64encode(b"[" * 100_000).decode(),
        urlsafe_b64encode(b"\xff\xfe").decode(),
        urlsafe_b64encode(json.dumps({"a": 1}).encode()).decode(),
    ],
)
def test_a_cursor_that_was_never_given_out_is_refused(tenant: Tenant, broken: str) -> None:
    with pytest.raises(BrokenCursor):
        listed(tenant, before=broken)
    with pytest.raises(BrokenCursor):
        listed(tenant, after=broken)


@pytest.mark.parametrize(
    "place",
    [
        ("2026-03-01T09:00:00Z", ID),
        ("2026-03-01T09:00:00Z", 1, -1),
        ("2026-03-01T09:00:00Z", 1.5, 1),
        ("2026-03-01T09:00:00Z", True, 1),
        ("2026-03-01T09:00:00Z", 2**63, 1),
    ],
)
def test_a_cursor_of_another_list_is_refused(tenant: Tenant, host: Host, place: tuple[Any, ...]) -> None:
    arrive(host, write(0))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "notes", "m1")
        assert entry is not None
        with pytest.raises(BrokenCursor):
            queries.entry_writes(tenant.pk, entry.pk, before=cursor(*place))


# --- One entry ---


def test_the_facts_of_an_entry(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0, node="sum", tags=["old"], at=at(10)),
        write(1, at=at(30), tags=["new"]),
        write(0, run="run-2", node="sum", at=at(20)),
    )
    read_all(tenant)
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "notes", "m1")
    assert entry is not None
    assert (entry.host, entry.host_name, entry.memory_ref, entry.memory_id) == ("alpha", "alpha", "notes", "m1")
    assert (entry.writes, entry.runs, entry.writers, entry.unattributed) == (3, 2, 1, 1)
    assert (entry.first_write_at, entry.last_write_at, entry.tags) == (at(10), at(30), ("new",))
    assert (entry.state, entry.is_read, entry.looks.total) == ("announced", False, 0)


@pytest.mark.parametrize(
    "host, ref, memory_id", [("beta", "notes", "m1"), ("alpha", "note", "m1"), ("alpha", "notes", "m")]
)
def test_what_no_event_names_is_not_found(tenant: Tenant, host: str, ref: str, memory_id: str) -> None:
    arrive(make_host(tenant), write(0))
    make_host(tenant, "beta")
    read_all(tenant)
    with tenant_scope(tenant.pk):
        assert queries.find_entry(tenant.pk, host, ref, memory_id) is None


def test_all_writes_of_an_entry_newest_first_in_pages(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        *(write(place, run="run-1", node=f"n{place}", at=at(1)) for place in range(3)),
        *(write(place, run="run-2", agentId="writer", at=at(2 + place)) for place in range(2)),
        write(2, "m2", run="run-2", at=at(9)),
    )
    read_all(tenant)
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "notes", "m1")
        assert entry is not None
        first = queries.entry_writes(tenant.pk, entry.pk, limit=2)
        second = queries.entry_writes(tenant.pk, entry.pk, limit=2, before=first.older)
        third = queries.entry_writes(tenant.pk, entry.pk, limit=2, before=second.older)
        again = queries.entry_writes(tenant.pk, entry.pk, limit=2, after=second.newer)
    assert [(row.run_id, row.sequence) for page in (first, second, third) for row in page.rows] == [
        ("run-2", 1),
        ("run-2", 0),
        ("run-1", 2),
        ("run-1", 1),
        ("run-1", 0),
    ]
    assert (first.newer, third.older) == (None, None)
    assert again.rows == first.rows
    row = third.rows[0]
    assert (row.node, row.agent, row.at, row.memory_ref, row.memory_id) == ("n0", None, at(1), "notes", "m1")
    assert row.received_at is not None and row.received_at.isoformat() == "2026-03-02T00:00:00+00:00"
    assert first.rows[0].agent == "writer" and first.rows[0].node is None


def test_the_latest_writes_of_a_tenant_with_those_of_no_known_entry(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(1, "m2"), make_event(2, "memory.written", node="sum", payload={"memoryRef": "notes"}))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        found = queries.latest_writes(tenant.pk, limit=2)
    assert [(row.sequence, row.memory_id, row.node) for row in found] == [(2, "", "sum"), (1, "m2", None)]


# --- Lineage ---


def came(kind: str, sequence: int, entries: list[tuple[str, bool]], named: str, **told: Any) -> LineageRow:
    return LineageRow(
        kind=kind,
        host="alpha",
        run_id=told.get("run", "run-1"),
        sequence=sequence,
        at=at(sequence),
        trigger=told.get("trigger"),
        count=told.get("count"),
        outputs=told.get("outputs"),
        entries=tuple(EntryRef("alpha", "notes", memory_id, known) for memory_id, known in entries),
        named=named,
    )


def test_a_compaction_that_names_its_sources(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(1, "m2"), compaction(2, sourceIds=["m2", "m1"], sourceCount=2, trigger="both"))
    read_all(tenant)
    told = {"count": 2, "outputs": 1, "trigger": "both"}
    into = came("compaction", 2, [("all", True)], "event", **told)
    assert lineage_of(tenant, "all") == Lineage(
        (came("compaction", 2, [("m1", True), ("m2", True)], "event", **told),), ()
    )
    assert lineage_of(tenant, "m1") == lineage_of(tenant, "m2") == Lineage((), (into,))


def test_a_compaction_that_names_none_and_nothing_else_does(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), compaction(1, sourceCount=412))
    read_all(tenant)
    assert lineage_of(tenant, "all").came_from == (came("compaction", 1, [], "count only", count=412, outputs=1),)
    assert lineage_of(tenant, "m1") == Lineage((), ())


def test_tags_say_what_the_event_of_the_same_run_does_not(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0),
        write(1, "all", tags=["compacted-from:m1", "compacted-from:gone"]),
        compaction(2, sourceCount=2),
    )
    read_all(tenant)
    assert lineage_of(tenant, "all").came_from == (
        came("compaction", 2, [("m1", True), ("gone", False)], "tag", count=2, outputs=1),
    )
    assert lineage_of(tenant, "m1").went_into == (came("compaction", 1, [("all", True)], "tag"),)


def test_of_several_tagged_writes_in_a_merges_run_the_newest_speaks_for_it(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0, "all", tags=["compacted-from:m1"]),
        write(1, "all", tags=["compacted-from:m2"]),
        compaction(2, sourceCount=1),
    )
    read_all(tenant)
    (row,) = lineage_of(tenant, "all").came_from
    assert ([other.memory_id for other in row.entries], row.named) == (["m2"], "tag")


def test_tags_alone_are_a_row_of_their_own(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0),
        write(1, "all", tags=["compacted-from:m1"]),
        write(2, "all", tags=["compacted-from:m7"]),
        compaction(3, run="run-2", sourceCount=9),
    )
    read_all(tenant, now=LATER)
    assert lineage_of(tenant, "all").came_from == (
        came("compaction", 3, [], "count only", count=9, outputs=1, run="run-2"),
        came("compaction", 2, [("m7", False)], "tag"),
        came("compaction", 1, [("m1", True)], "tag"),
    )


def test_an_event_is_not_told_again_by_a_tag(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), compaction(1, sourceIds=["m1"]), write(2, "all", tags=["compacted-from:m1"]))
    read_all(tenant)
    assert [row.named for row in lineage_of(tenant, "m1").went_into] == ["event"]
    assert [row.named for row in lineage_of(tenant, "all").came_from] == ["event"]


def test_tags_of_another_ref_or_host_are_of_other_entries(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(1, "all", ref="other", tags=["compacted-from:m1"]))
    arrive(make_host(tenant, "beta"), write(0, "all", tags=["compacted-from:m1"]))
    read_all(tenant)
    assert lineage_of(tenant, "m1") == Lineage((), ())


def test_a_consolidation_names_what_went_in_and_how_many_came_out(tenant: Tenant, host: Host) -> None:
    told = {"memoryRef": "notes", "inputCount": 9, "outputCount": 4, "mergedIds": ["m1"], "trigger": "scheduled"}
    arrive(host, write(0), make_event(1, "agent.memory.consolidated", payload=told))
    read_all(tenant)
    assert lineage_of(tenant, "m1").went_into == (
        came("consolidation", 1, [], "count only", count=9, outputs=4, trigger="scheduled"),
    )


def test_every_merge_of_an_entry_stays_visible(tenant: Tenant, host: Host) -> None:
    arrive(host, *(compaction(place, f"all-{place}", sourceIds=["m1"]) for place in range(3)))
    read_all(tenant)
    found = lineage_of(tenant, "m1").went_into
    assert [row.entries[0].memory_id for row in found] == ["all-2", "all-1", "all-0"]


# --- Recordings of the public host ---


def test_the_trail_of_a_recorded_run(tenant: Tenant, host: Host) -> None:
    take(host, (APP / "memory-trail" / "events.ndjson").read_text().splitlines())
    read_all(tenant)
    with tenant_scope(tenant.pk):
        found = queries.latest_writes(tenant.pk)
    assert [(row.sequence, row.node, row.memory_id, row.memory_ref) for row in found] == [
        (17, None, "mem_703dc230-8be", "tenant-memory"),
        (15, "remember-verdict", "mem_fbe24c44-b8a", "tenant-memory"),
        (10, "remember-sources", "mem_58258d11-cb8", "tenant-memory"),
        (5, "remember-goal", "mem_5774859e-710", "tenant-memory"),
    ]
    assert found[3].tags == ("demo-write", "node:remember-goal", "run-id:e9325e91-2d6e-4feb-b9dd-f51efb470153")
    with tenant_scope(tenant.pk):
        assert queries.totals(tenant.pk) == queries.Totals(entries=4, writes=4, attributed=75)


def test_forks_write_the_entries_of_their_source_again(tenant: Tenant, host: Host) -> None:
    expected: set[tuple[str, int]] = set()
    for file in sorted((APP / "forks").glob("*/events.ndjson")):
        lines = file.read_text().splitlines()
        take(host, lines)
        for event in map(json.loads, lines):
            if event["type"] == "memory.written" and event["payload"]["memoryId"] == "mem_b239b7d9-8a9":
                expected.add((event["runId"], event["sequence"]))
    read_all(tenant, now=LATER)
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "tenant-memory", "mem_b239b7d9-8a9")
        assert entry is not None
        found = queries.entry_writes(tenant.pk, entry.pk)
    assert {(row.run_id, row.sequence) for row in found.rows} == expected
    assert len(found.rows) == entry.writes == entry.runs == 4
