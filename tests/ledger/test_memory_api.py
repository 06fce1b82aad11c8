"""The memory contract over REST: put, list, get and delete, what a run sees, and what ends an entry."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from django.db import ProgrammingError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from psycopg import errors

from ledger import own_memory, queries
from ledger.domain.memory_put import read_put
from ledger.domain.observing import GONE, Sight
from ledger.domain.redaction import Policy
from ledger.domain.snapshot_rule import MAX_PAGE
from ledger.models import LedgerSettings, OwnDelete, OwnPut, RunSnapshot
from ledger.observations import Look, Source, begin_observing, observe
from ledger.policies import lay_down
from ledger.queries import EntryFilter
from ledger.queries.own_memory import Visible, memory_entry, memory_list
from ledger.rebuild import rebuild
from openwop_ui.tenancy.keys import find_caller
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host, Run
from tests.factories import bearer, make_event, make_host, make_key, make_member, make_tenant, take

SCHEMAS = Path(__file__).parents[2] / "schemas"
ENTRY = jsonschema_rs.validator_for(json.loads((SCHEMAS / "memory-entry.json").read_text()), validate_formats=True)
MILLISECOND = timedelta(milliseconds=1)
JSON = "application/json"


@pytest.fixture
def api(tenant: Tenant) -> Client:
    return Client(headers=bearer(make_key(tenant, "read", "write", name="the assistant")))


def put(api: Client, content: str = "text", *, ref: str = "notes", status: int = 201, **told: Any) -> Any:
    entry = {"content": content, "tags": told.pop("tags", [])}
    if "expires" in told:
        entry["expiresAt"] = told.pop("expires").isoformat()
    answer = api.post("/v1/memory", {"memoryRef": ref, "entry": entry, **told}, content_type=JSON)
    assert answer.status_code == status, answer.content
    return answer.json()


def ids(api: Client, ref: str = "notes", **asked: Any) -> list[str]:
    return [entry["id"] for entry in listed(api, ref, **asked)["entries"]]


def listed(api: Client, ref: str = "notes", **asked: Any) -> Any:
    answer = api.get("/v1/memory", {"memoryRef": ref, **asked})
    assert answer.status_code == 200, answer.content
    return answer.json()


def got(api: Client, memory_id: str, ref: str = "notes", **asked: Any) -> int:
    return api.get(f"/v1/memory/{memory_id}", {"memoryRef": ref, **asked}).status_code


def removed(api: Client, memory_id: str, ref: str = "notes") -> bool:
    answer = api.delete(f"/v1/memory/{memory_id}", query_params={"memoryRef": ref})
    assert answer.status_code == 200
    assert answer.json() == {"memoryRef": ref, "memoryId": memory_id, "removed": answer.json()["removed"]}
    return bool(answer.json()["removed"])


def start(host: Host, run: str = "run-1", *, at: datetime | None = None, **told: Any) -> Run:
    """A run that starts now."""
    now = at or timezone.now()
    take(host, [make_event(0, "run.started", run=run, at=now)], received_at=now)
    with tenant_scope(host.tenant_id):
        Run.objects.filter(tenant_id=host.tenant_id, run_id=run).update(**told)
        return Run.objects.get(tenant_id=host.tenant_id, host_id=host.pk, run_id=run)


# --- Put and get ---


def test_what_is_put_is_given_back_as_the_protocol_has_it(api: Client) -> None:
    until = datetime(2099, 1, 1, 12, 0, 0, 250000, tzinfo=UTC)
    before = timezone.now()
    said = put(api, "The plan is Growth.", tags=["plan", "", "  ", "plan", "crm"], expires=until)
    entry = said["entry"]
    assert said == {"memoryRef": "notes", "entry": entry}
    assert ENTRY.is_valid(entry)
    assert (entry["content"], entry["tags"]) == ("The plan is Growth.", ["plan", "crm"])
    assert entry["expiresAt"] == "2099-01-01T12:00:00.250000Z"
    assert before <= datetime.fromisoformat(entry["createdAt"]) <= timezone.now()
    assert api.get(f"/v1/memory/{entry['id']}", {"memoryRef": "notes"}).json() == said
    assert listed(api) == {"memoryRef": "notes", "entries": [entry], "nextCursor": None}


def test_field_report_m5_the_id_just_returned_is_there(api: Client) -> None:
    for number in range(20):
        memory_id = put(api, f"text {number}")["entry"]["id"]
        assert got(api, memory_id) == 200


@pytest.mark.parametrize("content", ["", "two\nlines", "\x00 nul", "\ud800 lone", "𝔘\u202eright", "x" * 65000])
def test_content_comes_back_exactly(api: Client, content: str) -> None:
    body = json.dumps({"memoryRef": "notes", "entry": {"content": content, "tags": ["\x00t"]}})
    entry = api.post("/v1/memory", body, content_type=JSON).json()["entry"]
    found = listed(api)["entries"]
    assert [(one["content"], one["tags"]) for one in (entry, *found)] == [(content, ["\x00t"])] * 2


REFUSED: list[tuple[Any, str]] = [
    ("{", "body"),
    ([], "body"),
    ({"entry": {"content": "c"}}, "memoryRef"),
    ({"memoryRef": "", "entry": {"content": "c"}}, "memoryRef"),
    ({"memoryRef": 5, "entry": {"content": "c"}}, "memoryRef"),
    ({"memoryRef": "r" * 1501, "entry": {"content": "c"}}, "memoryRef"),
    ({"memoryRef": "r"}, "entry"),
    ({"memoryRef": "r", "entry": {}}, "entry.content"),
    ({"memoryRef": "r", "entry": {"content": 5}}, "entry.content"),
    ({"memoryRef": "r", "entry": {"content": "c", "tags": "t"}}, "entry.tags"),
    ({"memoryRef": "r", "entry": {"content": "c", "tags": [5]}}, "entry.tags"),
    ({"memoryRef": "r", "entry": {"content": "c", "tags": ["t" * 257]}}, "entry.tags"),
    ({"memoryRef": "r", "entry": {"content": "c", "tags": ["t"] * 101}}, "entry.tags"),
    ({"memoryRef": "r", "entry": {"content": "c", "expiresAt": 5}}, "entry.expiresAt"),
    ({"memoryRef": "r", "entry": {"content": "c", "expiresAt": "2099-01-01T00:00:00"}}, "entry.expiresAt"),
    ({"memoryRef": "r", "entry": {"content": "c", "expiresAt": "2020-01-01T00:00:00Z"}}, "entry.expiresAt"),
    ({"memoryRef": "r", "entry": {"content": "c", "id": "m1"}}, "entry.id"),
    ({"memoryRef": "r", "entry": {"content": "c", "createdAt": "2099-01-01T00:00:00Z"}}, "entry.createdAt"),
    ({"memoryRef": "r", "entry": {"content": "c"}, "actor": "somebody"}, "actor"),
    ({"memoryRef": "r", "entry": {"content": "c"}, "run": ""}, "run"),
]


@pytest.mark.parametrize(("body", "field"), REFUSED)
def test_what_is_no_entry_is_refused_with_its_field(api: Client, tenant: Tenant, body: Any, field: str) -> None:
    sent = body if isinstance(body, str) else json.dumps(body)
    answer = api.post("/v1/memory", sent, content_type=JSON)
    said = answer.json()
    assert (answer.status_code, said["error"]) == (422, "validation_error")
    assert said["details"]["fields"][0]["field"] == field
    with tenant_scope(tenant.pk):
        assert not OwnPut.objects.exists()
    put(api)


def test_schema_and_door_agree_on_what_an_entry_is() -> None:
    schema = jsonschema_rs.validator_for(json.loads((SCHEMAS / "memory-put.json").read_text()))
    whole = {"memoryRef": "r", "entry": {"content": "c", "tags": [], "expiresAt": "2099-01-01T00:00:00Z"}, "run": "x"}
    assert schema.is_valid(whole)
    assert read_put(json.dumps(whole).encode()).run == "x"
    no_time = [body for body, field in REFUSED if field != "entry.expiresAt" and not isinstance(body, str)]
    assert [body for body in no_time if schema.is_valid(body)] == []


def test_the_largest_entry_is_the_tenants(api: Client, tenant: Tenant) -> None:
    put(api, "x" * 65530, tags=["123456"])
    said = put(api, "x" * 65530, tags=["1234567"], status=413)
    assert said["error"] == "too_large"
    assert said["details"] == {"limit": "maxEntrySizeBytes", "bytes": 65536}
    assert "maxEntrySizeBytes" in said["message"]
    lay_down(tenant_id=tenant.pk, secrets=Policy.REWRITE, max_entry_bytes=300, payload_days=None, event_days=None)
    put(api, "ü" * 150)
    assert put(api, "ü" * 151, status=413)["details"]["bytes"] == 300


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/memory", {"memoryRef": "notes", "tags": "a"}),
        ("/v1/memory", {"memoryRef": "notes", "query": "a"}),
        ("/v1/memory", {"memoryRef": "notes", "limit": "-1"}),
        ("/v1/memory", {"memoryRef": "notes", "limit": "x"}),
        ("/v1/memory", {"memoryRef": "notes", "cursor": "x"}),
        ("/v1/memory", {}),
        ("/v1/memory/m1", {"memoryRef": "notes", "tag": "a"}),
        ("/v1/memory/m1", {}),
    ],
)
def test_field_report_m15_an_unknown_or_odd_filter_is_refused(api: Client, path: str, asked: dict[str, str]) -> None:
    put(api)
    answer = api.get(path, asked)
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")


# --- List ---


def test_newest_first_in_pages_with_a_cursor(api: Client) -> None:
    made = [put(api, f"text {number}")["entry"]["id"] for number in range(7)]
    assert ids(api) == made[::-1]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(4):
        said = listed(api, limit=2, **cursor)
        seen += [entry["id"] for entry in said["entries"]]
        cursor = {"cursor": said["nextCursor"]}
    assert seen == made[::-1]
    assert cursor == {"cursor": None}


def test_no_limit_is_bounded_by_the_page_and_leads_on(api: Client, tenant: Tenant, monkeypatch: Any) -> None:
    monkeypatch.setattr("ledger.queries.own_memory.MAX_PAGE", 3)
    made = [put(api)["entry"]["id"] for _ in range(4)]
    choices: list[dict[str, Any]] = [{"limit": 0}, {}, {"limit": 100}]
    for asked in choices:
        said = listed(api, **asked)
        assert [entry["id"] for entry in said["entries"]] == made[:0:-1]
        assert ids(api, cursor=said["nextCursor"], **asked) == made[:1]
    assert MAX_PAGE == 500


def test_a_tag_is_one_of_the_tags_and_not_a_part_of_one(api: Client) -> None:
    one = put(api, tags=["plan", "crm"])["entry"]["id"]
    put(api, tags=["planning"])
    put(api)
    assert ids(api, tag="plan") == [one]
    assert ids(api, tag="crm") == [one]
    assert ids(api, tag="pla") == []
    assert ids(api, tag="") == []


def test_a_page_filtered_has_a_cursor_as_long_as_there_is_more(api: Client) -> None:
    """Field report M28."""
    made = [put(api, tags=["odd"] if number % 2 else ["even"])["entry"]["id"] for number in range(9)]
    said = listed(api, tag="even", limit=2)
    assert [entry["id"] for entry in said["entries"]] == [made[8], made[6]]
    assert ids(api, tag="even", limit=9, cursor=said["nextCursor"]) == [made[4], made[2], made[0]]


ALIKE = ["unknown", "", " ", "r" * 5000, "\x00", "../notes", "notes\u202e", "'; --"]


@pytest.mark.parametrize("ref", ALIKE)
def test_unknown_and_malformed_refs_answer_alike(api: Client, ref: str) -> None:
    memory_id = put(api)["entry"]["id"]
    assert got(api, memory_id) == 200
    assert listed(api, ref) == {"memoryRef": ref, "entries": [], "nextCursor": None}
    answer = api.get(f"/v1/memory/{memory_id}", {"memoryRef": ref})
    assert (answer.status_code, answer.json()) == (
        404,
        {"error": "not_found", "message": "There is no such entry."},
    )
    assert removed(api, memory_id, ref) is False


@pytest.mark.parametrize("host", ["nobody", "theirs"])
def test_unknown_and_foreign_hosts_answer_alike(api: Client, host: str) -> None:
    there = make_host(make_tenant("other"), "theirs")
    look = Look("notes", "m1", Sight("content", "text"))
    observe(tenant_id=there.tenant_id, host_id=there.pk, looks=[look], source=Source.READ)
    assert listed(api, host=host) == {"memoryRef": "notes", "entries": [], "nextCursor": None}
    assert got(api, "m1", host=host) == 404


def test_a_list_asks_as_often_for_many_as_for_few(api: Client, django_assert_max_num_queries: Any) -> None:
    put(api)
    with CaptureQueriesContext(connection) as few:
        listed(api)
    for _ in range(30):
        put(api)
    with CaptureQueriesContext(connection) as many:
        assert len(ids(api)) == 31
    assert len(many) == len(few) <= 20


# --- Tenants ---


def test_h_agent_memory_cross_tenant_isolation(api: Client, tenant: Tenant) -> None:
    """agentMemoryCrossTenantIsolation: found by its own tenant, and by the other nothing at all."""
    memory_id = put(api, "ours", tags=["t"])["entry"]["id"]
    theirs = Client(headers=bearer(make_key(make_tenant("other"), "read", "write")))
    assert (ids(api), got(api, memory_id)) == ([memory_id], 200)
    for asked in ({}, {"tag": "t"}, {"host": "openwop-ui"}, {"limit": 0}):
        assert listed(theirs, **asked)["entries"] == []
    assert got(theirs, memory_id) == 404
    assert removed(theirs, memory_id) is False
    put(theirs, "theirs")
    assert [entry["content"] for entry in listed(theirs)["entries"]] == ["theirs"]
    assert [entry["content"] for entry in listed(api)["entries"]] == ["ours"]
    assert got(theirs, memory_id) == 404


def test_row_security_keeps_what_is_kept_here_apart(api: Client, tenant: Tenant) -> None:
    put(api)
    other = make_tenant("other")
    with tenant_scope(other.pk):
        assert not OwnPut.objects.exists()
        assert not LedgerSettings.objects.exists()
    assert not OwnPut.objects.exists()
    with tenant_scope(tenant.pk):
        assert OwnPut.objects.count() == 1


@pytest.mark.parametrize(
    ("scopes", "reads", "writes"), [(("read",), 200, 403), (("write",), 403, 201), (("ingest", "review"), 403, 403)]
)
def test_a_key_does_what_its_scopes_allow(tenant: Tenant, scopes: tuple[str, ...], reads: int, writes: int) -> None:
    api = Client(headers=bearer(make_key(tenant, *scopes)))
    body = {"memoryRef": "notes", "entry": {"content": "c", "tags": []}}
    assert api.post("/v1/memory", body, content_type=JSON).status_code == writes
    assert api.get("/v1/memory", {"memoryRef": "notes"}).status_code == reads
    assert api.get("/v1/memory/x", {"memoryRef": "notes"}).status_code == (404 if reads == 200 else 403)
    assert api.delete("/v1/memory/x?memoryRef=notes").status_code == (200 if writes == 201 else 403)
    assert Client().get("/v1/memory", {"memoryRef": "notes"}).status_code == 401


# --- Who ---


def test_field_report_m24_who_wrote_comes_from_the_credential(tenant: Tenant) -> None:
    first = Client(headers=bearer(make_key(tenant, "write", name="first")))
    second = Client(headers=bearer(make_key(tenant, "write", "read", name="second")))
    memory_id = put(first)["entry"]["id"]
    assert removed(second, memory_id)
    with tenant_scope(tenant.pk):
        (stored,) = OwnPut.objects.all()
        (gone,) = OwnDelete.objects.all()
    assert (stored.memory_id, stored.key_name, gone.key_name) == (memory_id, "first", "second")
    assert stored.key_id != gone.key_id


@pytest.mark.parametrize("table", ["ledger_ownput", "ledger_owndelete", "ledger_runsnapshot"])
@pytest.mark.parametrize("change", ["UPDATE {} SET tenant_id = tenant_id", "DELETE FROM {}"])
def test_facts_take_no_change(api: Client, tenant: Tenant, table: str, change: str) -> None:
    removed(api, put(api)["entry"]["id"])
    with tenant_scope(tenant.pk), pytest.raises(Exception) as refused, transaction.atomic():
        connection.cursor().execute(change.format(table))
    assert isinstance(refused.value.__cause__, errors.RestrictViolation)


def test_a_put_can_not_name_another_tenants_entry(tenant: Tenant) -> None:
    with tenant_scope(tenant.pk), pytest.raises(ProgrammingError), transaction.atomic():
        connection.cursor().execute(
            "INSERT INTO ledger_runsnapshot (tenant_id, run_id, of_run_id, taken_at, noted_at)"
            " VALUES (%s, 1, 1, now(), now())",
            [tenant.pk + 1],
        )


# --- Time ---


def test_h_agent_memory_ttl_expiry(api: Client, tenant: Tenant) -> None:
    """agentMemoryTtlExpiry: to the millisecond, in list and get, and the ledger keeps where it came from."""
    until = (timezone.now() + timedelta(milliseconds=900)).replace(microsecond=0) + timedelta(seconds=1)
    memory_id = put(api, "short", expires=until)["entry"]["id"]
    stays = put(api, "stays")["entry"]["id"]
    with tenant_scope(tenant.pk):
        host = OwnPut.objects.values_list("host_id", flat=True)[0]
        for at, is_there in ((until - MILLISECOND, True), (until, False), (until + MILLISECOND, False)):
            visible = Visible(at)
            found = memory_list(tenant.pk, host, "notes", is_own=True, visible=visible)
            one = memory_entry(tenant.pk, host, "notes", memory_id, is_own=True, visible=visible)
            assert [row.id for row in found.rows] == [stays, *[memory_id] * is_there]
            assert (one is not None) is is_there
    while True:
        asked_at = timezone.now()
        is_listed, is_got = memory_id in ids(api), got(api, memory_id) == 200
        if timezone.now() < until:
            assert is_listed and is_got
        elif asked_at >= until:
            assert not is_listed and not is_got
            break
        time.sleep(0.02)
    assert ids(api) == [stays]
    assert removed(api, memory_id) is False
    with tenant_scope(tenant.pk):
        facts = queries.find_entry(tenant.pk, "openwop-ui", "notes", memory_id)
        assert facts is not None
        assert facts.state == queries.EXPIRED
        assert queries.entry_content(tenant.pk, facts, now=timezone.now()).total == 1


def test_an_expiry_in_the_past_is_refused_to_the_millisecond(api: Client) -> None:
    said = put(api, expires=timezone.now() - MILLISECOND, status=422)
    assert said["error"] == "validation_error"
    assert said["details"]["fields"][0]["field"] == "entry.expiresAt"
    put(api, expires=timezone.now() + timedelta(seconds=30))


# --- Delete ---


def test_what_is_deleted_is_gone_once(api: Client) -> None:
    one, two = (put(api)["entry"]["id"] for _ in range(2))
    assert removed(api, one) is True
    assert removed(api, one) is False
    assert removed(api, "mem_unknown") is False
    assert (ids(api), got(api, one), got(api, two)) == ([two], 404, 200)


def test_field_report_m17_a_deleted_entry_is_nowhere_but_its_tombstone_is(api: Client, tenant: Tenant) -> None:
    memory_id = put(api, "the secret garden", tags=["hedge"])["entry"]["id"]
    browser = Client()
    browser.force_login(make_member(tenant, "viewer", Role.VIEWER))
    ledger = reverse("ledger:ledger", args=[tenant.slug])
    address = reverse("ledger:entry", args=[tenant.slug, "openwop-ui", "notes", memory_id])
    for found in (browser.get(ledger, {"q": "secret garden"}), browser.get(address)):
        assert b"the secret garden" in found.content
    assert removed(api, memory_id)
    for page in (browser.get(ledger), browser.get(ledger, {"q": "secret garden"}), browser.get(address)):
        assert page.status_code == 200
        assert b"the secret garden" not in page.content
        assert b"hedge" not in page.content
    assert memory_id.encode() not in browser.get(ledger, {"q": "secret garden"}).content
    told = browser.get(address).content.decode()
    assert "deleted" in told
    assert "the assistant" in told


# --- What a run sees ---


def test_a_run_sees_what_was_visible_when_it_started(api: Client, tenant: Tenant, host: Host) -> None:
    before = put(api, "before")["entry"]["id"]
    soon = timezone.now() + timedelta(seconds=1)
    ending = put(api, "ending", expires=soon)["entry"]["id"]
    gone = put(api, "gone")["entry"]["id"]
    removed(api, gone)
    start(host)
    later = put(api, "later")["entry"]["id"]
    assert ids(api, run="run-1") == [ending, before]
    assert removed(api, before)
    own = put(api, "own", run="run-1")["entry"]["id"]
    time.sleep(max(0.0, (soon - timezone.now()).total_seconds()) + 0.01)
    for run in ("run-1", "alpha/run-1"):
        assert ids(api, run=run) == [ending, before]
        assert [got(api, one, run=run) for one in (before, ending, gone, later, own)] == [200, 200, 404, 404, 404]
    assert ids(api) == [own, later]


def test_a_replay_sees_what_the_run_saw_that_it_replays(api: Client, host: Host) -> None:
    before = put(api, "before")["entry"]["id"]
    start(host)
    later = put(api, "later")["entry"]["id"]
    removed(api, before)
    start(host, "replay-1", relation="replay", parent_run_id="run-1")
    start(host, "replay-2", relation="replay", parent_run_id="replay-1")
    start(host, "fork-1", relation="fork", parent_run_id="run-1")
    start(host, "branch-1", relation="branch", parent_run_id="run-1")
    start(host, "child-1", relation="child", parent_run_id="run-1")
    for run in ("replay-2", "replay-1", "run-1", "fork-1"):
        assert ids(api, run=run) == [before]
    for run in ("branch-1", "child-1"):
        assert ids(api, run=run) == [later]


def test_what_is_learned_of_a_run_later_does_not_move_what_it_sees(api: Client, tenant: Tenant, host: Host) -> None:
    put(api, "before")
    run = start(host)
    seen = ids(api, run="run-1")
    put(api, "later")
    now = timezone.now()
    with tenant_scope(tenant.pk):
        Run.objects.filter(tenant_id=tenant.pk, pk=run.pk).update(started_at=now, first_received_at=now)
    assert ids(api, run="run-1") == seen
    assert len(seen) == 1


def test_a_hosts_clock_does_not_put_the_start_into_the_future(api: Client, tenant: Tenant, host: Host) -> None:
    put(api, "before")
    run = start(host)
    with tenant_scope(tenant.pk):
        Run.objects.filter(pk=run.pk).update(started_at=timezone.now() + timedelta(days=1))
    assert len(ids(api, run="run-1")) == 1
    put(api, "later")
    assert len(ids(api, run="run-1")) == 1
    assert len(ids(api)) == 2


def test_replays_in_a_circle_end(api: Client, host: Host) -> None:
    put(api, "before")
    start(host, "a", relation="replay", parent_run_id="b")
    start(host, "b", relation="replay", parent_run_id="a")
    assert len(ids(api, run="a")) == len(ids(api, run="b")) == 1


@pytest.mark.parametrize("run", ["run-9", "theirs", "alpha/run-9", "beta/theirs", "", "/", "alpha/"])
def test_unknown_and_foreign_runs_answer_alike(api: Client, host: Host, run: str) -> None:
    start(make_host(make_tenant("other"), "beta"), "theirs")
    put(api)
    for path in ("/v1/memory", "/v1/memory/m1"):
        answer = api.get(path, {"memoryRef": "notes", "run": run})
        assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
        assert answer.json()["message"] == "There is no such run."


def test_a_run_id_of_several_hosts_has_to_be_said_with_its_host(api: Client, tenant: Tenant, host: Host) -> None:
    start(host)
    put(api, "between")
    start(make_host(tenant, "beta"))
    assert api.get("/v1/memory", {"memoryRef": "notes", "run": "run-1"}).status_code == 422
    assert [len(ids(api, run=f"{slug}/run-1")) for slug in ("alpha", "beta")] == [0, 1]


def test_a_run_with_a_slash_in_its_id_is_named_by_it_or_by_its_address(api: Client, host: Host) -> None:
    start(host, "acme/r-9")
    put(api)
    for run in ("acme/r-9", "alpha/acme/r-9", "alpha/acme~2Fr-9"):
        assert ids(api, run=run) == []


# --- A host's entries ---


def see(host: Host, memory_id: str, content: str | None, *, ref: str = "notes", **told: Any) -> None:
    sight = GONE if content is None else Sight("content", content, **told)
    observe(tenant_id=host.tenant_id, host_id=host.pk, looks=[Look(ref, memory_id, sight)], source=Source.READ)


def test_what_was_seen_of_a_host_is_listed_by_its_name(api: Client, host: Host) -> None:
    ours = put(api, "kept here")["entry"]["id"]
    see(host, "old", "of a host", created_at=datetime(2026, 1, 1, tzinfo=UTC), tags=("t",))
    see(host, "new", "newer", created_at=datetime(2026, 2, 1, tzinfo=UTC))
    see(host, "gone", "was there")
    see(host, "gone", None)
    see(host, "over", "over", expires_at=timezone.now() - MILLISECOND)
    assert ids(api, host="alpha") == ["new", "old"]
    assert ids(api, host="alpha", tag="t") == ["old"]
    assert ids(api, host="alpha", limit=1, cursor=listed(api, host="alpha", limit=1)["nextCursor"]) == ["old"]
    assert [got(api, one, host="alpha") for one in ("new", "gone", "over", ours)] == [200, 404, 404, 404]
    assert ids(api) == ids(api, host="openwop-ui") == [ours]


def test_a_run_sees_what_a_host_held_as_far_as_it_was_seen_then(api: Client, host: Host) -> None:
    see(host, "m1", "first")
    see(host, "m2", "there")
    start(host)
    see(host, "m1", "second")
    see(host, "m2", None)
    see(host, "m3", "later")
    then, now = listed(api, host="alpha", run="run-1")["entries"], listed(api, host="alpha")["entries"]
    assert [(one["id"], one["content"]) for one in then] == [("m2", "there"), ("m1", "first")]
    assert [(one["id"], one["content"]) for one in now] == [("m3", "later"), ("m1", "second")]


def test_entries_that_are_kept_here_can_not_be_handed_in_as_a_hosts(api: Client, tenant: Tenant) -> None:
    memory_id = put(api)["entry"]["id"]
    entry = {"id": memory_id, "content": "forged", "tags": [], "createdAt": "2026-01-01T00:00:00Z"}
    pusher = Client(headers=bearer(make_key(tenant, "ingest")))
    body = {"memoryRef": "notes", "entries": [entry]}
    answer = pusher.put("/v1/hosts/openwop-ui/memory", body, content_type=JSON)
    assert (answer.status_code, answer.json()["error"]) == (409, "own_memory")
    assert listed(api)["entries"][0]["content"] == "text"


# --- The ledger's pages ---


def test_entries_are_in_the_ledger_with_their_content(api: Client, tenant: Tenant) -> None:
    memory_id = put(api, "A plan named Growth", tags=["plan"])["entry"]["id"]
    with tenant_scope(tenant.pk):
        for wanted in (
            {},
            {"q": "named growth"},
            {"q": memory_id},
            {"tag": "plan"},
            {"q": "PLAN"},
            {"host": "openwop-ui"},
        ):
            (row,) = queries.entry_list(tenant.pk, EntryFilter(**wanted)).rows
            assert (row.memory_id, row.excerpt, row.state) == (memory_id, "A plan named Growth", "stored")
            assert row.tags == ("plan",)
        assert queries.entry_list(tenant.pk, EntryFilter(tag="pla")).rows == ()
    assert rebuild(tenant.pk, check=True)
    assert not any(one.lost or one.gained for one in rebuild(tenant.pk))
    assert ids(api) == [memory_id]


def test_a_hosts_slug_that_is_taken_is_left_alone(api: Client, tenant: Tenant) -> None:
    theirs = make_host(tenant, "openwop-ui")
    put(api)
    with tenant_scope(tenant.pk):
        own = Host.objects.get(tenant_id=tenant.pk, slug="openwop-ui-2")
        assert OwnPut.objects.get().host_id == own.pk != theirs.pk
        assert not own.following


# --- At once ---


def at_once(work: Callable[[int], Any], count: int) -> list[Any]:
    results: list[Any] = [None] * count
    ready = threading.Barrier(count)

    def one(number: int) -> None:
        try:
            ready.wait(30)
            results[number] = work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


def test_fifty_puts_at_once_are_fifty_entries(committed: None) -> None:
    tenant = make_tenant()
    headers = bearer(make_key(tenant, "read", "write"))
    made = at_once(lambda number: put(Client(headers=headers), f"text {number}")["entry"]["id"], 50)
    assert len(set(made)) == 50
    found = listed(Client(headers=headers))["entries"]
    assert sorted(entry["id"] for entry in found) == sorted(made)
    assert sorted(entry["content"] for entry in found) == sorted(f"text {number}" for number in range(50))
    with tenant_scope(tenant.pk):
        assert OwnPut.objects.count() == 50
        assert Host.objects.filter(tenant_id=tenant.pk).count() == 1
        assert queries.totals(tenant.pk).entries == 50


def test_of_many_deletes_at_once_one_takes_it_away(committed: None) -> None:
    tenant = make_tenant()
    headers = bearer(make_key(tenant, "read", "write"))
    memory_id = put(Client(headers=headers))["entry"]["id"]
    told = at_once(lambda _: removed(Client(headers=headers), memory_id), 8)
    assert sorted(told) == [False] * 7 + [True]


def test_a_snapshot_waits_for_what_is_being_put(committed: None) -> None:
    """An entry from before a run's start, committed behind the first look, would come up in the second one."""
    tenant = make_tenant()
    key = make_key(tenant, "read", "write")
    host = make_host(tenant)
    caller = find_caller(key)
    assert caller is not None
    own_memory.own_host(tenant.pk)
    seen: list[list[str]] = []

    def look() -> None:
        try:
            seen.append(ids(Client(headers=bearer(key)), run="run-1"))
        finally:
            connection.close()

    def begin(at: datetime) -> None:
        try:
            start(host, at=at)
        finally:
            connection.close()

    looking = threading.Thread(target=look)
    with tenant_scope(tenant.pk, durable=True):
        begin_observing(tenant.pk)
        before = own_memory.clock()
        started = threading.Thread(target=begin, args=(before + MILLISECOND,))
        started.start()
        started.join(30)
        looking.start()
        looking.join(0.5)
        assert looking.is_alive(), "it looked while an entry was being put"
    looking.join(30)
    assert seen == [[]]
    with tenant_scope(tenant.pk):
        taken_at = RunSnapshot.objects.get().taken_at
    assert timedelta() <= before + MILLISECOND - taken_at < MILLISECOND  # the event tells milliseconds


def test_answers_are_as_documented(tenant: Tenant, host: Host) -> None:
    api = Client(headers=bearer(make_key(tenant, "read", "write", "admin")))
    first = put(api, expires=timezone.now() + timedelta(days=1))["entry"]["id"]
    second = put(api)["entry"]["id"]
    address = {"memoryRef": "notes", "memoryId": second}
    erased = api.post("/v1/tenant/erasures", {"entry": address}, content_type=JSON).json()["id"]
    document = api.get("/v1/openapi.json").json()
    closed = json.loads(json.dumps(document["components"]["schemas"]))
    for one in closed.values():
        one["additionalProperties"] = False
    for path, url in {
        "/v1/memory": "/v1/memory?memoryRef=notes",
        "/v1/memory/{memory_id}": f"/v1/memory/{first}?memoryRef=notes",
        "/v1/tenant/erasures": "/v1/tenant/erasures",
        "/v1/tenant/erasures/{erasure}": f"/v1/tenant/erasures/{erased}",
    }.items():
        schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        answer = api.get(url)
        assert answer.status_code == 200
        jsonschema_rs.validator_for({**schema, "components": {"schemas": closed}}).validate(answer.json())
