"""Exports of a run: ascending, lossless, taken in again without a change, and inert."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from ledger.store import read_backlog
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import project
from runs.doors import read_items
from runs.doors import take as take_items
from runs.models import Host
from runs.store import ref
from tests.factories import bearer, make_event, make_host, make_key, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db
FORKS = Path(__file__).resolve().parents[1] / "fixtures" / "recordings" / "openwop-app"
HOSTILE = '<img src=x onerror="alert(1)">\'"/:%~ \u202egnp.\u202c目标 \x00</script>'


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


def export(tenant: Tenant, format: str, run: str = "run-1", **query: str) -> bytes:
    api = Client(headers=bearer(make_key(tenant)))
    answer = api.get(f"/v1/hosts/alpha/runs/{project(run)}/export", {"format": format, **query})
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content)  # type: ignore[attr-defined]


def import_text(host: Host, text: bytes) -> Any:
    return take_items(ref(host), read_items([text]))


TABLES = {
    # what there is of a run, but for when it was learned and by which number its row is called
    "runs_event": "sequence, type, reported_type, node_id, agent_id, event_id, causation_id, occurred_at, digest,"
    " has_payload, body",
    "runs_eventcopy": "sequence, digest, kind, body, occurred_at",
    "runs_runnode": "node_id, status, attempts, event_count, first_sequence, last_sequence",
    "runs_attempt": "node_id, ordinal, from_sequence, to_sequence, started_at, ended_at, status, start_seen, label,"
    " waits::text",
    "runs_run": "run_id, workflow_id, status, status_sequence, started_at, ended_at, first_sequence, last_sequence,"
    " contiguous_through, event_count, write_count, attributed_count, parent_run_id, parent_sequence, relation",
    "ledger_memoryentry": "memory_ref, memory_id, write_count, attributed_count, first_at, last_at, last_sequence",
    "ledger_memorywrite": "sequence, node_id, agent_id, tags, occurred_at",
}


def stored(tenant: Tenant) -> dict[str, list[tuple[Any, ...]]]:
    read_backlog(tenant.pk)
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        found = {}
        for table, columns in TABLES.items():
            cursor.execute(f"SELECT {columns} FROM {table} ORDER BY {columns.partition(',')[0]}, 2")
            found[table] = cursor.fetchall()
        cursor.execute("SELECT kind, sequence FROM runs_incident WHERE kind = 'changed_event' ORDER BY 1, 2")
        found["incidents"] = cursor.fetchall()
        return found


def strange_log() -> list[dict[str, Any] | str]:
    """Big integers, broken order of members, line breaks, hostile texts, several copies of one event."""
    return [
        make_event(1, "run.started", payload={"workflowId": HOSTILE}),
        '{"runId": "run-1",\n  "sequence": 2, "type": "node.started",\r\n "nodeId": "a/b",'
        ' "timestamp": "2026-03-01T09:00:02Z", "payload": {"n": 3544790567247868102, "f": 1.10, "e": 1e5}}',
        make_event(3, "memory.written", node=HOSTILE.replace("\x00", ""), payload={"memoryRef": "r", "memoryId": "m"}),
        {**make_event(4, "node.completed", node="a/b"), "data": {"x": "\u2028"}, "payload": None},
        make_event(5, "vendor.thing", payload={"k": HOSTILE, "unknown": [True, None]}, extra={"kept": 1}),
        make_event(6, "run.completed"),
    ]


def brought(host: Host) -> None:
    take(host, strange_log())
    partial = make_event(7, "vendor.later")
    del partial["payload"]
    take(host, [partial])
    take(host, [make_event(7, "vendor.later", payload={"said": "more"})])
    take(host, [make_event(5, "vendor.thing", payload={"said": "something else"})])


@pytest.mark.parametrize("format", ["ndjson", "bundle"])
def test_it_comes_back_without_a_change(tenant: Tenant, host: Host, format: str) -> None:
    brought(host)
    before, text = stored(tenant), export(tenant, format)
    receipt = import_text(host, text)
    assert (receipt.accepted, receipt.refused_total) == (0, 0)
    assert receipt.repeated == 9  # seven events, a fuller copy and one that contradicts
    assert stored(tenant) == before

    other = make_tenant("globex")
    receipt = import_text(make_host(other), text)
    assert (receipt.accepted, receipt.repeated, receipt.refused_total) == (7, 2, 0)
    after = stored(other)
    whitespace = {row[0]: row[-1] for row in before["runs_event"]}
    for row in after["runs_event"]:
        assert json.loads(row[-1]) == json.loads(whitespace[row[0]])
    assert [row[:-1] for row in after["runs_event"]] == [row[:-1] for row in before["runs_event"]]
    for table in set(before) - {"runs_event"}:
        assert after[table] == before[table], table


@pytest.mark.parametrize(
    "recorded",
    sorted(
        path.parent.relative_to(FORKS).as_posix()
        for path in FORKS.rglob("events.ndjson")
        if path.parent.name in ("source", "fork-branch-mid", "memory-trail", "agents", "approval-accepted", "child")
    ),
)
def test_recorded_runs_come_back_byte_for_byte(tenant: Tenant, host: Host, recorded: str) -> None:
    text = (FORKS / recorded / "events.ndjson").read_bytes()
    import_text(host, text)
    run = json.loads(text.split(b"\n")[0])["runId"]
    lines = sorted(text.strip().split(b"\n"), key=lambda line: json.loads(line)["sequence"])
    assert export(tenant, "ndjson", run).strip().split(b"\n") == lines


def test_it_is_ascending_whatever_the_order_of_arrival(tenant: Tenant, host: Host) -> None:
    log = make_log(nodes=40)
    take(host, reversed(log))
    sequences = [json.loads(line)["sequence"] for line in export(tenant, "ndjson").splitlines()]
    assert sequences == [event["sequence"] for event in log]


def test_numbers_and_unknown_members_are_what_the_host_sent(tenant: Tenant, host: Host) -> None:
    brought(host)
    text = export(tenant, "ndjson").decode()
    assert '"n": 3544790567247868102, "f": 1.10, "e": 1e5' in text
    assert '"extra": {"kept": 1}' in text


def test_the_log_is_read_in_parts(
    tenant: Tenant, host: Host, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.exports.PART_BYTES", 200_000)
    filler = "x" * 2_000
    take(host, [make_event(number, "log.appended", payload={"filler": filler}) for number in range(600)])
    api = Client(headers=bearer(make_key(tenant)))
    with django_assert_max_num_queries(70):
        answer = api.get("/v1/hosts/alpha/runs/run-1/export", {"format": "ndjson"})
        parts = [len(part) for part in answer.streaming_content]  # type: ignore[attr-defined]
    assert len(parts) > 5 and max(parts) < 300_000
    assert sum(parts) == len(export(tenant, "ndjson"))


def test_what_comes_meanwhile_stays_out(tenant: Tenant, host: Host) -> None:
    take(host, make_log(nodes=1))
    api = Client(headers=bearer(make_key(tenant)))
    answer = api.get("/v1/hosts/alpha/runs/run-1/export")
    take(host, [make_event(5, "log.appended"), make_event(6, "log.appended")])
    assert len(b"".join(answer.streaming_content).splitlines()) == 5  # type: ignore[attr-defined]


def test_a_bundle_says_what_is_known_of_the_run(tenant: Tenant, host: Host) -> None:
    take(host, make_log())
    told = json.loads(export(tenant, "bundle"))
    assert told["run"] == {
        "runId": "run-1",
        "workflowId": "briefing",
        "status": "completed",
        "startedAt": "2026-03-01T09:00:00Z",
        "endedAt": "2026-03-01T09:00:07Z",
    }
    assert told["metrics"] == {"eventCount": 8} and len(told["events"]) == 8
    assert (told["redactionApplied"], told["redactionMode"], told["truncated"]) == (False, "passthrough", False)


def test_a_bundle_of_a_log_with_a_gap_says_so(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0, "run.started"), make_event(3, "run.completed")])
    told = json.loads(export(tenant, "bundle"))
    assert (told["truncated"], told["truncatedReason"]) == (True, "2 of 4 events have not come")


def test_withheld_content_is_in_no_export(tenant: Tenant, host: Host) -> None:
    canary = "a secret of the host's memory"
    payload = {"memoryRef": "r", "memoryId": "m", "content": canary}
    take(host, [make_event(0, "run.started"), make_event(1, "memory.written", payload=payload)])
    read_backlog(tenant.pk)
    for format in ("ndjson", "bundle", "csv", "html"):
        assert canary.encode() not in export(tenant, format)
    assert json.loads(export(tenant, "bundle"))["redactionApplied"] is True
    before = stored(tenant)
    assert import_text(host, export(tenant, "ndjson")).repeated == 2
    assert stored(tenant) == before


# --- the memory trail ---


def trail(tenant: Tenant) -> list[dict[str, str]]:
    read_backlog(tenant.pk)
    return list(csv.DictReader(io.StringIO(export(tenant, "csv").decode("utf-8-sig"), newline="")))


def test_the_memory_trail_names_each_write(tenant: Tenant, host: Host) -> None:
    take(host, make_log())
    rows = trail(tenant)
    assert [(row["sequence"], row["memory_id"], row["node"], row["agent"]) for row in rows] == [
        ("2", "run-1-m0", "step-0", "writer"),
        ("5", "run-1-m1", "step-1", "writer"),
    ]
    assert {row["reported_at"] for row in rows} == {"2026-03-01T09:00:02.000000Z", "2026-03-01T09:00:05.000000Z"}
    assert {(row["host"], row["run"], row["memory_ref"]) for row in rows} == {("alpha", "run-1", "notes")}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "|", "%", "\n="])
def test_no_cell_is_a_formula(tenant: Tenant, host: Host, start: str) -> None:
    text = f"{start}HYPERLINK(1)"
    payload = {"memoryRef": text, "memoryId": text, "agentId": text, "tags": [text, 'a"b', "c,d"]}
    take(host, [make_event(0, "memory.written", node=text, payload=payload)])
    (row,) = trail(tenant)
    for cell in row.values():
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")), cell
    assert row["memory_id"] == f"'{text}"


# --- the report ---


class Markup(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_is_one_inert_file(tenant: Tenant, host: Host) -> None:
    """T20: hostile names in every place."""
    brought(host)
    text = export(tenant, "html").decode()
    read = Markup()
    read.feed(text)
    assert not read.tags & {"script", "img", "link", "iframe", "object", "form", "a", "base", "video", "audio"}
    assert not read.attributes & {"onerror", "onclick", "src", "style", "srcset", "action"}
    assert "url(" not in text and "@import" not in text
    assert "default-src 'none'" in text
    assert '<img src=x onerror=\\"alert(1)\\">' in read.text
    assert "3544790567247868102" in read.text
    assert "7 of 7 events" in read.text


def test_an_answer_is_kept_by_nobody_and_starts_nothing(tenant: Tenant, host: Host) -> None:
    take(host, make_log(run="a/b ~'\""))
    api = Client(headers=bearer(make_key(tenant)))
    answer = api.get(f"/v1/hosts/alpha/runs/{project('a/b ~' + chr(39) + chr(34))}/export", {"format": "html"})
    assert answer["Content-Disposition"] == 'attachment; filename="a~2Fb~20~7E~27~22.html"'
    assert answer["Cache-Control"] == "no-store"
    assert "sandbox" in answer["Content-Security-Policy"]


def test_who_may_have_it(tenant: Tenant, host: Host) -> None:
    take(host, make_log())
    vera = Client()
    vera.force_login(make_member(tenant, "vera", Role.VIEWER))
    page = vera.get("/t/acme/runs/alpha/run-1/export?format=ndjson")
    assert b"".join(page.streaming_content) == export(tenant, "ndjson")  # type: ignore[attr-defined]
    assert vera.get("/t/acme/runs/alpha/run-1/export?format=xlsx").status_code == 404
    other = make_tenant("globex")
    olga = Client()
    olga.force_login(make_member(other, "olga", Role.ADMIN))
    assert olga.get("/t/acme/runs/alpha/run-1/export?format=ndjson").status_code == 404
    foreign = Client(headers=bearer(make_key(other)))
    assert foreign.get("/v1/hosts/alpha/runs/run-1/export").status_code == 404
    ingest_only = Client(headers=bearer(make_key(tenant, "ingest")))
    assert ingest_only.get("/v1/hosts/alpha/runs/run-1/export").status_code == 403
    unknown = Client(headers=bearer(make_key(tenant))).get("/v1/hosts/alpha/runs/run-1/export?format=pdf")
    assert unknown.status_code == 422 and unknown.json()["details"]["fields"][0]["field"] == "format"
