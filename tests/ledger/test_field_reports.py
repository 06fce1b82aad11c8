"""Complaints about comparable products (M1 to M28 and T19 of the field reports), over the database and the API.

Those about threads are in `test_claims_at_once`, those about the pure rules in `domain/test_field_reports`.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from ledger.claims_rebuild import check_claims
from ledger.claims_store import Actor, Ask, Revision, change_writer, decide_conflict, revise_claim
from ledger.claims_store.stale import settle_stale
from ledger.claims_worker import work_for
from ledger.domain.decisions import StaleDecision, Verdict
from ledger.domain.memory_batch import read_batch
from ledger.domain.scopes import UNSCOPED
from ledger.domain.writers import AuthorityRules
from ledger.models import ClaimRow, SourceEvent, SubjectKey
from ledger.observations import Source, take_batch
from ledger.queries.claims import ClaimFilter, find_claim, memories
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from runs.store import ref
from tests.factories import bearer, make_key, make_tenant
from tests.ledger.claims import at, body, conflicts, make_writer, plan, say, shown, statuses

pytestmark = pytest.mark.django_db
ADA = Actor("person", "person:ada", user_id=7)


@pytest.fixture
def writers(tenant: Tenant) -> Tenant:
    for key in ("billing", "crm", "chat"):
        make_writer(tenant, key)
    return tenant


@pytest.fixture
def api(writers: Tenant) -> Client:
    return Client(headers=bearer(make_key(writers, "read", "write", "review")))


def post(api: Client, path: str, said: Any) -> Any:
    return api.post(f"/v1/{path}", said, content_type="application/json")


def retrieved(api: Client, **asked: Any) -> list[Any]:
    answer = post(api, "memories/retrieve", {"external_user_id": "user-1", **asked})
    assert answer.status_code == 200, answer.content
    return list(answer.json()["memories"])


def counts(tenant: Tenant) -> tuple[int, ...]:
    with tenant_scope(tenant.pk):
        return tuple(model.objects.count() for model in (SourceEvent, ClaimRow, SubjectKey))


def test_m1_the_same_fact_twice_is_one_active_claim_with_two_observations(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", service="chat", hour=1, messages=["I live in Berlin."]))
    (first,) = retrieved(api)
    say(writers, body("e2", service="chat", hour=2, messages=["I live in Berlin."]))
    (again,) = retrieved(api)
    assert again["id"] == first["id"]
    assert (first["observations"], again["observations"]) == (1, 2)
    assert counts(writers)[:2] == (2, 2)


def test_m4_a_stream_taken_in_twice_changes_no_count(writers: Tenant) -> None:
    stream = [body(f"e{n}", hour=n, claims=[plan(f"plan {n % 3}")]) for n in range(6)]
    say(writers, *stream)
    before = counts(writers), shown(writers), statuses(writers)
    say(writers, *stream)
    for one in reversed(stream):
        say(writers, one)
    assert (counts(writers), shown(writers), statuses(writers)) == before


def test_m5_an_id_just_returned_is_there_for_ever(writers: Tenant, api: Client) -> None:
    taken = post(api, "memories/add", body("e1", hour=1, claims=[plan("Growth")])).json()
    (claim,) = api.get(f"/v1/jobs/{taken['job_id']}").json()["result"]["claims"]

    def got() -> Any:
        (found,) = post(api, "memories/get", {"ids": [claim]}).json()["found"]
        return found["status"]

    assert got() == "active"
    say(writers, body("e2", hour=2, claims=[plan("Starter")]))
    assert got() == "superseded"
    api.delete("/v1/memories?external_user_id=user-1")
    assert got() == "withdrawn"
    assert api.get(f"/v1/jobs/{taken['job_id']}").status_code == 200


def test_m6_a_change_of_heart_leaves_the_new_value_active_and_the_old_one_readable(
    writers: Tenant, api: Client
) -> None:
    say(writers, body("e1", service="chat", hour=1, messages=["I love coffee."]))
    say(writers, body("e2", service="chat", hour=2, messages=["I hate coffee."]))
    (active,) = retrieved(api)
    assert active["content"] == "I hate coffee"
    assert [(one["content"], one["status"]) for one in retrieved(api, include_superseded=True)] == [
        ("I hate coffee", "active"),
        ("I love coffee", "superseded"),
    ]


def test_m7_default_retrieval_gives_the_active_one_only(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", hour=1, claims=[{"key": "favourite_drink", "value": "coffee"}]))
    say(writers, body("e2", hour=2, claims=[{"key": "favourite_drink", "value": "tea"}]))
    assert [one["value"] for one in retrieved(api)] == ["tea"]
    assert len(retrieved(api, include_superseded=True)) == 2


def test_m8_unrelated_facts_do_not_conflict(writers: Tenant) -> None:
    say(writers, body("e1", service="billing", claims=[{"key": "uses", "value": "B"}], subject="A"))
    say(writers, body("e2", service="crm", claims=[{"key": "uses", "value": "C"}], subject="B"))
    assert conflicts(writers) == [] and len(shown(writers)) == 2


def test_m9_a_contradiction_in_another_script_is_one_conflict(writers: Tenant) -> None:
    say(writers, body("e1", service="chat", hour=1, messages=["我不喜欢茶。"]))
    say(writers, body("e2", service="chat", hour=2, messages=["我喜欢茶。"]))
    (conflict,) = conflicts(writers)
    assert conflict.state == "decided"
    assert sorted(statuses(writers).values()) == ["active", "superseded"]


def test_m10_neither_ids_nor_arrival_change_the_winner(db: None) -> None:
    told = [
        body("{}1", service="billing", hour=1, claims=[plan("Growth")]),
        body("{}2", service="crm", hour=2, claims=[plan("Starter")]),
    ]
    won = set()
    for number, (order, prefix) in enumerate([(1, "a"), (-1, "a"), (1, "zz"), (-1, "q")]):
        tenant = make_tenant(f"t{number}")
        for key in ("billing", "crm"):
            make_writer(tenant, key)
        for one in told[::order]:
            source = {**one["source"], "event_id": one["source"]["event_id"].format(prefix)}
            say(tenant, {**one, "source": source})
        won.add((tuple(shown(tenant)), tuple(one.state for one in conflicts(tenant))))
    assert won == {((("user-1", "Growth"),), ("open",))}


def test_m11_every_write_path_detects(writers: Tenant, host: Host, api: Client) -> None:
    """add over REST, the batch door, an entry of a host, a revision and a corrected value."""
    subject = "host:alpha/notes"

    def latest() -> str:
        return str(max(conflicts(writers), key=lambda one: one.changed_at).rule)

    post(api, "memories/add", body("e1", service="billing", subject=subject, hour=1, claims=[plan("Growth")]))
    assert conflicts(writers) == []
    post(api, "memories/add", body("e2", service="crm", subject=subject, hour=2, claims=[plan("Starter")]))
    assert latest() == "equal_authority"
    say(writers, body("e3", service="chat", subject=subject, hour=3, claims=[plan("Scale")]))
    (conflict,) = conflicts(writers)
    assert conflict.revision == 2
    told = {
        "memoryRef": "notes",
        "entries": [
            {"id": "m1", "content": "My subscription plan is Free.", "tags": [], "createdAt": at(4).isoformat()}
        ],
    }
    take_batch(ref(host), read_batch(json.dumps(told).encode()), source=Source.PUSH)
    work_for(writers.pk)
    (conflict,) = conflicts(writers)
    assert conflict.revision == 3
    say(writers, body("e4", service="chat", hour=1, subject=subject, claims=[plan("Old", scope={"team": "x"})]))
    with tenant_scope(writers.pk):
        moved = ClaimRow.objects.get(display="Old").id
    edit = Revision(scope=UNSCOPED)
    revise_claim(tenant_id=writers.pk, claim=moved, based_on=1, revision=edit, actor=ADA)
    (conflict,) = conflicts(writers)
    assert conflict.revision == 4
    ask = Ask(4, Verdict.CORRECT, value="Enterprise", evidence="contract")
    decide_conflict(tenant_id=writers.pk, conflict=conflict.id, ask=ask, actor=ADA)
    assert latest() == "person" and shown(writers) == [(subject, "Enterprise")]


def test_m12_two_conflicts_settled_in_turn_change_only_themselves(writers: Tenant, api: Client) -> None:
    for subject in ("a", "b", "c"):
        say(writers, body(f"1{subject}", service="billing", subject=subject, hour=1, claims=[plan("Growth")]))
        say(writers, body(f"2{subject}", service="crm", subject=subject, hour=2, claims=[plan("Starter")]))
    items = {one["external_user_id"]: one for one in api.get("/v1/conflicts?state=open").json()["items"]}
    for subject in ("c", "a"):
        said = {"revision": 1, "outcome": "neither"}
        assert post(api, f"conflicts/{items[subject]['id']}/decision", said).status_code == 200
    (left,) = api.get("/v1/conflicts?state=open").json()["items"]
    assert (left["id"], left["revision"]) == (items["b"]["id"], 1)
    assert shown(writers) == [("b", "Growth")]


def test_m13_a_rescan_reopens_nothing_and_new_evidence_names_the_decision(writers: Tenant) -> None:
    say(writers, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    say(writers, body("e2", service="crm", hour=2, claims=[plan("Starter")]))
    (conflict,) = conflicts(writers)
    with tenant_scope(writers.pk):
        starter = ClaimRow.objects.get(display="Starter").id
    decided = decide_conflict(
        tenant_id=writers.pk, conflict=conflict.id, ask=Ask(1, Verdict.CHOOSE, claim=starter), actor=ADA, at=at(500)
    )
    assert decided is not None
    check_claims(writers.pk, mend=True)
    change_writer(tenant_id=writers.pk, service_key="billing", authority=AuthorityRules(100))
    settle_stale(writers.pk)
    say(writers, body("e3", service="billing", hour=3, claims=[plan("Growth")]))
    assert [one.state for one in conflicts(writers)] == ["decided"]
    assert shown(writers) == [("user-1", "Starter")]
    say(writers, body("e4", service="billing", hour=600, claims=[plan("Growth")]))
    (reopened,) = conflicts(writers, "open")
    assert reopened.follows == decided.decision
    assert shown(writers) == [("user-1", "Starter")]


def test_m14_delete_for_one_leaves_the_other_and_says_how_many(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", subject="A", claims=[plan("Growth"), {"key": "city", "value": "Bern"}]))
    say(writers, body("e2", subject="B", claims=[plan("Growth")]))
    assert api.delete("/v1/memories?external_user_id=A").json() == {"withdrawn": 2}
    assert api.delete("/v1/memories").status_code == 422
    assert shown(writers) == [("B", "Growth")]


def test_m15_an_unknown_filter_is_refused(api: Client) -> None:
    for path in ("memories?user=1", "conflicts?status=open", "tenant/source-events?service=x"):
        assert api.get(f"/v1/{path}").status_code == 422


def test_m16_no_id_of_another_tenant_over_any_list(writers: Tenant, api: Client) -> None:
    other = make_tenant("globex")
    for tenant in (writers, other):
        for key in ("billing", "crm"):
            if tenant is other:
                make_writer(tenant, key)
        for number in range(7):
            for service, value in (("billing", "Growth"), ("crm", "Starter")):
                said = body(
                    f"{tenant.slug}-{service}-{number}", service=service, subject=f"u{number}", claims=[plan(value)]
                )
                say(tenant, said)
    with tenant_scope(other.pk):
        # The same events would have the same ids: of what is told apart by them there is nothing.
        foreign = {str(row.id) for row in ClaimRow.objects.all()} | {str(row.id) for row in SourceEvent.objects.all()}
    seen = 0
    for path, member in (
        ("memories?include_superseded=true&", "memories"),
        ("conflicts?", "items"),
        ("tenant/source-events?", "items"),
    ):
        cursor = ""
        while True:
            answer = api.get(f"/v1/{path}limit=3{cursor}")
            assert not [one for one in foreign if one in answer.content.decode()]
            told = answer.json()
            seen += len(told[member])
            if told["nextCursor"] is None:
                break
            cursor = f"&cursor={told['nextCursor']}"
    assert seen == 14 + 7 + 14


def test_m20_a_time_without_its_zone_is_refused_by_name(api: Client) -> None:
    said = body("e1", claims=[plan("Growth")], observed_at="2026-03-01T12:00:00")
    said["source"]["observed_at"] = "2026-03-01T12:00:00"
    answer = post(api, "memories/add", said)
    assert (answer.status_code, answer.json()["details"]["field"]) == (422, "source.observed_at")
    answer = post(api, "memories/add", body("e2", claims=[plan("Growth", valid_from="2026-03-01T12:00:00")]))
    assert (answer.status_code, answer.json()["details"]["field"]) == (422, "claims.0.valid_from")
    answer = api.get("/v1/memories?external_user_id=u&valid_at=2026-03-01T12:00:00")
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (422, "valid_at")


def test_m21_a_backfilled_yesterday_stays_yesterday(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", service="billing", hour=10, claims=[plan("Growth")]), received=11)
    say(writers, body("e2", service="billing", hour=1, claims=[plan("Starter")]), received=12)
    (active,) = retrieved(api)
    assert active["value"] == "Growth"
    old = next(one for one in retrieved(api, include_superseded=True) if one["value"] == "Starter")
    assert (old["provenance"]["observed_at"], old["provenance"]["received_at"]) == (
        "2026-03-01T13:00:00Z",
        "2026-03-02T00:00:00Z",
    )
    late = {
        **body("e3", claims=[plan("x")]),
        "source": {"service": "billing", "event_id": "e3", "observed_at": "2100-01-01T00:00:00Z"},
    }
    assert post(api, "memories/add", late).json()["error"] == "PROV_422"


def test_m22_every_path_keeps_the_same_fields(writers: Tenant, api: Client) -> None:
    post(api, "memories/add", body("e1", service="billing", subject="one", claims=[plan("Growth")]))
    say(
        writers,
        body("e2", service="billing", subject="two", claims=[plan("Growth")]),
        body("e3", subject="three", claims=[plan("x")]),
    )
    with tenant_scope(writers.pk):
        rows = memories(writers.pk, ClaimFilter()).rows
        events = list(SourceEvent.objects.all())
    assert len(rows) == 3
    for row in rows:
        assert row.writer == "billing" and row.source_event and row.payload_hash and row.event_id and row.received_at
    assert {one.received_from for one in events} == {"key:a program", "key:test"}


def test_m23_an_edit_leaves_the_origin_as_it_was(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", service="billing", hour=1, claims=[plan("Growth", content="on Growth")]))
    (memory,) = retrieved(api)
    answer = api.patch(
        f"/v1/memories/{memory['id']}",
        {"revision": 1, "content": "on the Growth plan"},
        content_type="application/json",
    )
    assert answer.json() == {"id": memory["id"], "revision": 2}
    (edited,) = retrieved(api)
    assert edited["content"] == "on the Growth plan" and edited["provenance"] == memory["provenance"]
    with tenant_scope(writers.pk):
        found = find_claim(writers.pk, UUID(memory["id"]))
    assert found is not None
    assert [(one.number, one.by) for one in found.revisions] == [(1, "billing"), (2, "key:a program")]


def test_m24_the_actor_comes_from_the_credential(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    say(writers, body("e2", service="crm", hour=2, claims=[plan("Starter")]))
    (conflict,) = conflicts(writers)
    forged = {"revision": 1, "outcome": "neither", "actor": "person:ada"}
    assert post(api, f"conflicts/{conflict.id}/decision", forged).status_code == 422
    del forged["actor"]
    assert post(api, f"conflicts/{conflict.id}/decision", forged).status_code == 200
    (decision,) = api.get(f"/v1/conflicts/{conflict.id}").json()["decisions"]
    assert (decision["actor"], decision["actor_kind"]) == ("key:a program", "key")


def test_m25_a_change_without_its_base_is_refused(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    (memory,) = retrieved(api)
    path = f"/v1/memories/{memory['id']}"
    assert api.patch(path, {"content": "x"}, content_type="application/json").status_code == 422
    assert api.patch(path, {"content": "x", "revision": 1}, content_type="application/json").status_code == 200
    stale = api.patch(path, {"content": "y", "revision": 1}, content_type="application/json")
    assert (stale.status_code, stale.json()["details"]) == (409, {"revision": 2})


def test_m26_distinct_keys_stay_distinct_and_two_spellings_of_one_are_one(writers: Tenant) -> None:
    say(
        writers,
        body(
            "e1", service="billing", hour=1, claims=[{"key": "城市", "value": "北京"}, {"key": "城事", "value": "音乐"}]
        ),
    )
    assert len(shown(writers)) == 2 and conflicts(writers) == []
    say(writers, body("e2", service="billing", hour=2, claims=[{"key": "Café", "value": "a"}]))
    say(writers, body("e3", service="crm", hour=3, claims=[{"key": "cafe\u0301", "value": "b"}]))
    (conflict,) = conflicts(writers)
    assert conflict.state == "open"


def test_m28_a_cursor_as_long_as_there_is_more(writers: Tenant, api: Client) -> None:
    said = [body(f"e{n}", hour=n, claims=[{"key": f"k{n}", "value": "rare" if n == 0 else "common"}]) for n in range(9)]
    say(writers, *said)
    page = post(api, "memories/retrieve", {"external_user_id": "user-1", "query": "rare", "limit": 1}).json()
    assert [one["key"] for one in page["memories"]] == ["k0"] and page["nextCursor"] is None
    page = post(api, "memories/retrieve", {"external_user_id": "user-1", "query": "common", "limit": 4}).json()
    assert len(page["memories"]) == 4 and page["nextCursor"]
    asked = {"external_user_id": "user-1", "query": "common", "limit": 4, "cursor": page["nextCursor"]}
    last = post(api, "memories/retrieve", asked).json()
    assert len(last["memories"]) == 4 and last["nextCursor"] is None


def test_t19_a_second_reviewer_is_told_what_changed(writers: Tenant, api: Client) -> None:
    say(writers, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    say(writers, body("e2", service="crm", hour=2, claims=[plan("Starter")]))
    (conflict,) = conflicts(writers)
    said = {"revision": 1, "outcome": "neither"}
    answers = [post(api, f"conflicts/{conflict.id}/decision", said) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 409]
    details = answers[1].json()["details"]
    assert (details["revision"], details["state"], details["changes"][0]["change"]) == (2, "decided", "decided")
    with pytest.raises(StaleDecision):
        decide_conflict(tenant_id=writers.pk, conflict=conflict.id, ask=Ask(1, Verdict.NEITHER), actor=ADA)
