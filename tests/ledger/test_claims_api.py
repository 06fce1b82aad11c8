"""Writers, memories and conflicts over REST."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from ledger.domain.redaction import Policy
from ledger.policies import lay_down
from openwop_ui.tenancy.keys import create_api_key
from openwop_ui.tenancy.models import Tenant
from tests.factories import bearer, make_key, make_tenant
from tests.ledger.claims import body, conflicts, make_writer, plan, say, shown

pytestmark = pytest.mark.django_db
ALL = ("read", "write", "review", "admin")


@pytest.fixture
def api(tenant: Tenant) -> Client:
    for key in ("billing", "crm"):
        make_writer(tenant, key)
    return Client(headers=bearer(make_key(tenant, *ALL)))


def post(api: Client, path: str, said: Any, **headers: str) -> Any:
    return api.post(f"/v1/{path}", said, content_type="application/json", headers=headers)


def added(api: Client, *args: Any, **told: Any) -> dict[str, Any]:
    answer = post(api, "memories/add", body(*args, **told))
    assert answer.status_code == 202, answer.content
    return dict(answer.json())


def test_add_then_job_then_retrieve(api: Client) -> None:
    taken = added(api, "e1", messages=["My plan is Growth.", "Hello!"], evidence=[{"url": "https://x.test/1"}])
    job = api.get(f"/v1/jobs/{taken['job_id']}").json()
    assert (job["status"], job["extractor"]) == ("done", "statements-1")
    (claim,) = job["result"]["claims"]
    answer = post(api, "memories/retrieve", {"external_user_id": "user-1"}).json()
    (memory,) = answer["memories"]
    assert answer["nextCursor"] is None
    assert memory["id"] == claim and memory["source_event_id"] == taken["source_event_id"]
    assert (memory["value"], memory["status"], memory["content"]) == ("Growth", "active", "My plan is Growth")
    provenance = memory["provenance"]
    assert (provenance["service"], provenance["event_id"]) == ("billing", "e1")
    assert provenance["observed_at"] == "2026-03-01T12:00:00Z"
    assert len(provenance["payload_hash"]) == 64
    assert post(api, "memories/get", {"ids": [claim, "nonsense"]}).json()["notFound"] == ["nonsense"]
    (event,) = api.get("/v1/tenant/source-events?source_service=billing").json()["items"]
    assert event["evidence"] == [{"url": "https://x.test/1"}] and event["received_from"] == "key:a program"
    assert api.get(f"/v1/tenant/source-events/{event['id']}").json()["payload"]["messages"][1]["content"] == "Hello!"


# --- writers ---


def test_writers_are_registered_listed_and_changed(api: Client) -> None:
    told = {"service_key": "chat", "authority_rules": {"default_priority": 30, "categories": {"Fact": 70}}}
    made = post(api, "tenant/service-writers", told)
    assert made.status_code == 201
    assert made.json()["authority_rules"] == {"default_priority": 30, "categories": {"fact": 70}}
    assert post(api, "tenant/service-writers", told).status_code == 409
    listed = api.get("/v1/tenant/service-writers").json()
    assert [one["service_key"] for one in listed["items"]] == ["billing", "chat", "crm"]
    path = "/v1/tenant/service-writers/chat"
    changed = api.patch(path, {"display_name": "Chat", "revision": 1}, content_type="application/json")
    assert (changed.json()["display_name"], changed.json()["revision"]) == ("Chat", 2)
    stale = api.patch(path, {"retired": True, "revision": 1}, content_type="application/json")
    assert stale.status_code == 409 and stale.json()["details"] == {"revision": 2}
    assert api.get("/v1/tenant/service-writers/nobody").status_code == 404


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"service_key": "Not a slug"}, "service_key"),
        ({"service_key": "x", "authority_rules": {"default_priority": 101}}, "authority_rules.default_priority"),
        ({"service_key": "x", "authority_rules": {"fact": 1}}, "authority_rules.fact"),
        ({"service_key": "x", "priority": 1}, "priority"),
        ([], "body"),
    ],
)
def test_what_is_no_writer_is_refused_by_name(api: Client, said: Any, field: str) -> None:
    answer = post(api, "tenant/service-writers", said)
    assert answer.status_code == 422
    assert answer.json()["details"]["fields"][0]["field"] == field


def test_keys_are_laid_down_whole(api: Client, tenant: Tenant) -> None:
    added(api, "e1", service="billing", hour=1, claims=[plan("Growth")])
    added(api, "e2", service="crm", hour=2, claims=[plan("Starter")])
    rules = {"keys": [{"key": "Subscription_Plan", "recency_between_equals": True}]}
    answer = api.put("/v1/tenant/claim-keys", rules, content_type="application/json")
    assert answer.json() == api.get("/v1/tenant/claim-keys").json()
    assert answer.json()["keys"][0]["key"] == "subscription_plan"
    assert shown(tenant) == [("user-1", "Starter")]
    assert api.put("/v1/tenant/claim-keys", {"keys": []}, content_type="application/json").json() == {"keys": []}
    assert shown(tenant) == [("user-1", "Growth")]
    for bad in ({"key": ""}, {"key": "x", "kind": "colour"}, {"key": "x", "unit": "blorp"}, {"key": "x", "size": 1}):
        answer = api.put("/v1/tenant/claim-keys", {"keys": [bad]}, content_type="application/json")
        assert answer.status_code == 422, bad


# --- add ---


def test_provenance_errors_keep_their_codes(api: Client, tenant: Tenant) -> None:
    added(api, "e1", claims=[plan("Growth")])
    for said, status in (
        (body("e2", service="nobody", claims=[plan("Growth")]), 404),
        (body("e1", claims=[plan("Starter")]), 409),
        (body("e3"), 422),
        (body("", claims=[plan("Growth")]), 422),
        (body("e4", claims=[{"key": "", "value": 1}]), 422),
        (body("e5", claims=[plan(None)]), 422),
        (body("e6", claims=[plan("x", colour="red")]), 422),
        (body("e7", claims=[plan(2**60)]), 422),
        (body("e8", subject="a\x00b", claims=[plan("x")]), 422),
        ({**body("e9", claims=[plan("x")]), "tenant": "other"}, 422),
        ([], 422),
    ):
        answer = post(api, "memories/add", said)
        assert (answer.status_code, answer.json()["error"]) == (status, f"PROV_{status}"), said
    assert shown(tenant) == [("user-1", "Growth")]


def test_a_key_bound_to_a_writer_speaks_for_that_one_only(api: Client, tenant: Tenant) -> None:
    _, plain = create_api_key(tenant_id=tenant.pk, name="crm's own", scopes=["write", "read"], writer="crm")
    own = Client(headers=bearer(plain))
    refused = post(own, "memories/add", body("e1", service="billing", claims=[plan("Growth")]))
    assert (refused.status_code, refused.json()["error"]) == (403, "PROV_403")
    said = body("e1", claims=[plan("Growth")])
    del said["source"]["service"]
    assert post(own, "memories/add", said).status_code == 202
    (event,) = api.get("/v1/tenant/source-events").json()["items"]
    assert (event["source_service"], event["received_from"]) == ("crm", "key:crm's own")
    # Nor does it revise another writer's.
    added(api, "e2", service="billing", subject="user-2", claims=[plan("Growth")])
    (memory,) = post(api, "memories/retrieve", {"external_user_id": "user-2"}).json()["memories"]
    answer = own.patch(f"/v1/memories/{memory['id']}", {"revision": 1, "content": "x"}, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]) == (403, "PROV_403")
    assert own.delete("/v1/memories?external_user_id=user-2").json() == {"withdrawn": 0}


def test_an_idempotency_key_replays_the_answer(api: Client) -> None:
    said = body("e1", claims=[plan("Growth")])
    first = post(api, "memories/add", said, **{"Idempotency-Key": "k1"})
    again = post(api, "memories/add", said, **{"Idempotency-Key": "k1"})
    assert (first.status_code, first.json()) == (202, again.json())
    other = post(api, "memories/add", body("e2", claims=[plan("x")]), **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]) == (422, "idempotency_key_reused")
    # What failed was not kept.
    assert post(api, "memories/add", body("e3"), **{"Idempotency-Key": "k2"}).status_code == 422
    assert post(api, "memories/add", body("e3", claims=[plan("y")]), **{"Idempotency-Key": "k2"}).status_code == 202


def test_a_tenant_may_refuse_secrets(api: Client, tenant: Tenant) -> None:
    lay_down(tenant_id=tenant.pk, secrets=Policy.REFUSE, max_entry_bytes=10_000, payload_days=None, event_days=None)
    secret = "ghp_" + "a1B2c3D4e5F6a7B8c9D0a1B2c3D4e5F6a7B8"
    answer = post(api, "memories/add", body("e1", messages=[f"token {secret}"]))
    assert (answer.status_code, answer.json()["error"]) == (422, "secret_leakage")
    assert secret not in answer.content.decode()
    assert api.get("/v1/tenant/source-events").json()["items"] == []


def test_a_name_told_twice_is_refused(api: Client) -> None:
    answer = api.post("/v1/memories/add", b'{"external_user_id": "a", "external_user_id": "b"}', "application/json")
    assert answer.status_code == 422 and "twice" in answer.json()["message"]


# --- reading ---


def test_filters_pages_and_times(api: Client) -> None:
    for number in range(5):
        added(api, f"e{number}", hour=number, claims=[{"key": f"k{number}", "value": f"value {number}"}])
    added(api, "o", subject="user-2", hour=9, claims=[{"category": "taste", "key": "k1", "value": "x"}])
    seen: list[str] = []
    cursor = None
    while True:
        asked = {"external_user_id": "user-1", "limit": 2, "cursor": cursor}
        page = post(api, "memories/retrieve", asked).json()
        seen += [one["key"] for one in page["memories"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == ["k4", "k3", "k2", "k1", "k0"]
    found = post(api, "memories/retrieve", {"external_user_id": "user-1", "query": "value 3"}).json()["memories"]
    assert [one["key"] for one in found] == ["k3"]
    assert [one["key"] for one in api.get("/v1/memories?key=k1&category=taste").json()["memories"]] == ["k1"]
    assert len(api.get("/v1/memories").json()["memories"]) == 6


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"external_user_id": "u", "colour": "red"}, "colour"),
        ({}, "external_user_id"),
        ({"external_user_id": "u", "as_of": "2026-03-01T12:00:00"}, "as_of"),
        ({"external_user_id": "u", "valid_at": "yesterday"}, "valid_at"),
        ({"external_user_id": "u", "limit": 0}, "limit"),
        ({"external_user_id": "u", "cursor": "nonsense"}, "cursor"),
    ],
)
def test_what_can_not_be_asked_is_refused_by_name(api: Client, said: Any, field: str) -> None:
    answer = post(api, "memories/retrieve", said)
    assert answer.status_code == 422 and answer.json()["details"]["fields"][0]["field"] == field
    for query in ("colour=red", "as_of=2026-03-01T12:00:00&external_user_id=u", "as_of=2026-03-01T12:00:00Z"):
        assert api.get(f"/v1/memories?{query}").status_code == 422


def test_as_of_and_valid_at(api: Client, tenant: Tenant) -> None:
    say(tenant, body("e1", hour=1, claims=[plan("Growth", valid_to="2026-06-01T00:00:00Z")]), received=1)
    say(tenant, body("e2", hour=2, claims=[plan("Starter")]), received=50)

    def values(**asked: str) -> list[tuple[str, str]]:
        answer = post(api, "memories/retrieve", {"external_user_id": "user-1", **asked})
        return [(one["value"], one["status"]) for one in answer.json()["memories"]]

    assert values(as_of="2026-03-01T11:00:00Z") == []
    assert values(as_of="2026-03-01T14:00:00Z") == [("Growth", "active")]
    assert values(as_of="2026-03-01T14:00:00Z", valid_at="2026-07-01T00:00:00Z") == []
    assert values(as_of="2026-03-10T00:00:00Z") == [("Starter", "active")]
    assert values() == values(valid_at="2026-07-01T00:00:00Z") == [("Starter", "active")]


# --- conflicts ---


def disputed(api: Client) -> dict[str, Any]:
    added(api, "e1", service="billing", hour=1, claims=[plan("Growth")])
    added(api, "e2", service="crm", hour=2, claims=[plan("Starter")])
    (item,) = api.get("/v1/conflicts?state=open").json()["items"]
    return dict(api.get(f"/v1/conflicts/{item['id']}").json())


def test_a_conflict_is_shown_decided_and_taken_back(api: Client, tenant: Tenant) -> None:
    conflict = disputed(api)
    assert [(side["value"], side["writers"]) for side in conflict["sides"]] == [
        ("Growth", ["billing"]),
        ("Starter", ["crm"]),
    ]
    assert [one["authority"] for one in conflict["claims"]] == [50, 50]
    assert conflict["claims"][1]["memory"]["provenance"]["event_id"] == "e2"
    path = f"conflicts/{conflict['id']}/decision"
    choice = {
        "revision": 1,
        "outcome": "choose",
        "claim_id": conflict["claims"][1]["memory"]["id"],
        "reason": "Invoice",
    }
    decided = post(api, path, choice)
    assert decided.status_code == 200 and decided.json()["state"] == "decided"
    assert shown(tenant) == [("user-1", "Starter")]
    stale = post(api, path, {**choice, "revision": 1})
    assert stale.status_code == 409
    (change,) = stale.json()["details"]["changes"]
    assert (change["change"], change["actor"], change["revision"]) == ("decided", "key:a program", 2)
    assert post(api, path, {**choice, "revision": 2}).json()["error"] == "conflict"
    undone = post(api, f"decisions/{decided.json()['decision_id']}/undo", {"reason": "Wrong invoice"})
    assert undone.status_code == 200 and undone.json()["state"] == "open"
    assert api.generic("POST", f"/v1/decisions/{decided.json()['decision_id']}/undo").status_code == 409
    first, second = api.get(f"/v1/conflicts/{conflict['id']}").json()["decisions"]
    assert (first["outcome"], first["actor"], first["undone_by"]) == ("choose", "key:a program", second["id"])
    counts = api.get("/v1/conflicts").json()["counts"]
    assert counts["open"] == 1 and sum(counts.values()) == 1


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({}, "revision"),
        ({"revision": 1}, "outcome"),
        ({"revision": 1, "outcome": "undo"}, "outcome"),
        ({"revision": 1, "outcome": "choose"}, "claim"),
        ({"revision": 1, "outcome": "choose", "claim_id": str(uuid4())}, "claim_id"),
        ({"revision": 1, "outcome": "choose", "claim_id": "first"}, "claim_id"),
        ({"revision": 1, "outcome": "neither", "value": 1}, "value"),
        ({"revision": 1, "outcome": "correct", "value": "Scale"}, "evidence"),
        ({"revision": 1, "outcome": "both"}, "placements"),
        ({"revision": 1, "outcome": "neither", "actor": "human"}, "actor"),
        (
            {"revision": 1, "outcome": "correct", "value": 1, "reason": "r", "valid_from": "2026-03-01T00:00"},
            "valid_from",
        ),
    ],
)
def test_what_is_no_decision_is_refused_by_name(api: Client, told: dict[str, Any], field: str) -> None:
    conflict = disputed(api)
    answer = post(api, f"conflicts/{conflict['id']}/decision", told)
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (422, field)
    assert api.get(f"/v1/conflicts/{conflict['id']}").json()["revision"] == 1


def test_both_and_a_correction_over_rest(api: Client, tenant: Tenant) -> None:
    conflict = disputed(api)
    one, other = (claim["memory"]["id"] for claim in conflict["claims"])
    placements = [{"claim_id": one, "scope": {"team": "a"}}, {"claim_id": other}]
    both = post(
        api, f"conflicts/{conflict['id']}/decision", {"revision": 1, "outcome": "both", "placements": placements}
    )
    assert both.status_code == 200, both.content
    assert [value for _, value in shown(tenant)] == ["Growth", "Starter"]
    post(api, f"decisions/{both.json()['decision_id']}/undo", {})
    said = {"revision": 3, "outcome": "correct", "value": "Scale", "reason": "The contract says so"}
    corrected = post(api, f"conflicts/{conflict['id']}/decision", said).json()
    (memory,) = post(api, "memories/get", {"ids": [corrected["correction_id"]]}).json()["found"]
    assert (memory["value"], memory["status"], memory["provenance"]["service"]) == ("Scale", "active", "key:a program")
    assert memory["provenance"]["decision_id"] == corrected["decision_id"]


def test_scopes_of_keys_hold(tenant: Tenant, api: Client) -> None:
    reader = Client(headers=bearer(make_key(tenant, "read")))
    assert post(reader, "memories/add", body("e1", claims=[plan("x")])).status_code == 403
    assert post(reader, f"conflicts/{uuid4()}/decision", {}).status_code == 403
    assert post(reader, "tenant/service-writers", {"service_key": "x"}).status_code == 403
    assert post(reader, "memories/retrieve", {"external_user_id": "u"}).status_code == 200


def test_nothing_of_another_tenant_comes_out(api: Client) -> None:
    conflict = disputed(api)
    ids = [one["memory"]["id"] for one in conflict["claims"]]
    source = conflict["claims"][0]["memory"]["source_event_id"]
    job = api.get(f"/v1/tenant/source-events/{source}").json()["job"]["job_id"]
    other = make_tenant("globex")
    foreign = Client(headers=bearer(make_key(other, *ALL)))
    assert post(foreign, "memories/get", {"ids": ids}).json() == {"found": [], "notFound": ids}
    assert post(foreign, "memories/retrieve", {"external_user_id": "user-1"}).json()["memories"] == []
    for path in ("memories", "tenant/source-events", "conflicts", "tenant/service-writers", "tenant/claim-keys"):
        assert "user-1" not in foreign.get(f"/v1/{path}").content.decode()
    for path in (f"conflicts/{conflict['id']}", f"jobs/{job}", f"tenant/source-events/{source}"):
        assert foreign.get(f"/v1/{path}").status_code == 404
    decision = {"revision": 1, "outcome": "neither"}
    assert post(foreign, f"conflicts/{conflict['id']}/decision", decision).status_code == 404
    assert conflicts(other) == []
