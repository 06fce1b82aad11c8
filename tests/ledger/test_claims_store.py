"""The claims store over the database: what is said is stored, settled, decided, revised, and told."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from ledger.claims_store import (
    Actor,
    Ask,
    Decided,
    Revision,
    change_writer,
    decide_conflict,
    revise_claim,
    set_key_rule,
    undo_decision,
    withdraw_subject,
)
from ledger.claims_store.loading import subject_key_id
from ledger.claims_store.settling import lane
from ledger.claims_store.stale import settle_stale
from ledger.domain.claims import StaleRevision
from ledger.domain.decisions import NothingToUndo, NotOpen, Placement, StaleDecision, StillCompeting, Verdict
from ledger.domain.key_registry import KeyRule, read_key
from ledger.domain.normalisers import Kind
from ledger.domain.periods import Period
from ledger.domain.scopes import read_scope
from ledger.domain.sources import ProvenanceError
from ledger.domain.writers import AuthorityRules
from ledger.models import ClaimRow, Conflict, Holding, SourceEvent
from ledger.queries import claims as reads
from ledger.queries.conflicts import changes_since, find_conflict
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from tests.ledger.claims import NOON, PLAN, at, body, conflicts, make_writer, plan, say, shown, statuses

pytestmark = pytest.mark.django_db
ADA = Actor("person", "person:ada", user_id=7)


@pytest.fixture
def writers(tenant: Tenant) -> Tenant:
    for key in ("billing", "crm", "chat"):
        make_writer(tenant, key)
    return tenant


def disagree(tenant: Tenant) -> Conflict:
    say(tenant, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    say(tenant, body("e2", service="crm", hour=2, claims=[plan("Starter")]))
    (conflict,) = conflicts(tenant)
    return conflict


def claim_of(tenant: Tenant, event: str) -> UUID:
    with tenant_scope(tenant.pk):
        source = SourceEvent.objects.get(tenant_id=tenant.pk, event_id=event)
        return UUID(str(ClaimRow.objects.get(tenant_id=tenant.pk, source_event_id=source.id).id))


def decide(tenant: Tenant, conflict: Conflict, verdict: Verdict, revision: int = 1, **told: Any) -> Decided:
    ask = Ask(revision, verdict, **told)
    decided = decide_conflict(tenant_id=tenant.pk, conflict=conflict.id, ask=ask, actor=ADA, at=at(1100))
    assert decided is not None
    return decided


# --- the rules, with what would have happened otherwise ---


@pytest.mark.parametrize(
    ("priorities", "hours", "recency", "holds", "state", "rule"),
    [
        pytest.param((50, 50), (1, 2), False, ["Growth"], "open", "equal_authority", id="equals go to a person"),
        pytest.param((50, 50), (2, 1), False, ["Starter"], "open", "equal_authority", id="the earlier stays active"),
        pytest.param((50, 50), (1, 1), False, [], "open", "equal_authority", id="of equally old ones none is"),
        pytest.param((80, 40), (1, 2), False, ["Growth"], "decided", "authority", id="80 beats a later 40"),
        pytest.param((80, 40), (2, 1), False, ["Growth"], "decided", "authority", id="80 beats an earlier 40"),
        pytest.param((40, 80), (1, 2), False, ["Starter"], "decided", "authority", id="whoever says it"),
        pytest.param((50, 50), (1, 2), True, ["Starter"], "decided", "recency", id="recency where it is allowed"),
        pytest.param((50, 50), (1, 1), True, [], "open", "exact_tie", id="and an exact tie goes to a person"),
    ],
)
def test_two_writers_disagree(
    tenant: Tenant,
    priorities: tuple[int, int],
    hours: tuple[float, float],
    recency: bool,
    holds: list[str],
    state: str,
    rule: str,
) -> None:
    make_writer(tenant, "billing", 10, fact=priorities[0])
    make_writer(tenant, "crm", 10, fact=priorities[1])
    set_key_rule(
        tenant_id=tenant.pk,
        key=read_key("fact", "subscription_plan"),
        rule=KeyRule(recency_between_equals=recency),
    )
    say(tenant, body("e1", service="billing", hour=hours[0], claims=[plan("Growth")]))
    say(tenant, body("e2", service="crm", hour=hours[1], claims=[plan("Starter")]))
    assert [value for _, value in shown(tenant)] == holds
    (conflict,) = conflicts(tenant)
    assert (conflict.state, conflict.rule) == (state, rule)


@pytest.mark.parametrize(
    ("first", "second", "holds", "count"),
    [
        pytest.param({}, {"service": "billing"}, ["Starter"], 1, id="a writer corrects itself"),
        pytest.param({}, {"service": "crm", "subject": "user-2"}, ["Growth", "Starter"], 0, id="other subject"),
        pytest.param({}, {"service": "crm", "scope": {"team": "x"}}, ["Growth", "Starter"], 0, id="other scope"),
    ],
)
def test_what_is_no_dispute(
    writers: Tenant, first: dict[str, Any], second: dict[str, Any], holds: list[str], count: int
) -> None:
    say(writers, body("e1", hour=1, claims=[plan("Growth")], **first))
    say(writers, body("e2", hour=2, claims=[plan("Starter")], **second))
    assert sorted(value for _, value in shown(writers)) == holds
    assert len(conflicts(writers)) == count
    assert conflicts(writers, "open") == []


def test_other_times_do_not_compete(writers: Tenant) -> None:
    say(writers, body("e1", service="billing", claims=[plan("Growth", valid_to="2026-02-01T00:00:00Z")]))
    say(writers, body("e2", service="crm", claims=[plan("Starter", valid_from="2026-02-01T00:00:00Z")]))
    assert conflicts(writers) == []
    assert sorted(value for _, value in shown(writers)) == ["Growth", "Starter"]


def test_many_valued_keys_hold_side_by_side(writers: Tenant) -> None:
    say(writers, body("e1", service="billing", claims=[{"key": "tags", "value": "vip"}]))
    say(writers, body("e2", service="crm", claims=[{"key": "tags", "value": "beta"}]))
    assert [value for _, value in shown(writers)] == ["beta", "vip"]
    assert conflicts(writers) == []


def test_the_same_value_from_another_writer_corroborates(writers: Tenant) -> None:
    say(writers, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    say(writers, body("e2", service="crm", hour=2, claims=[plan("growth ")]))
    assert sorted(statuses(writers).values()) == ["active", "corroborates"]
    assert shown(writers) == [("user-1", "Growth")]


# --- events ---


def test_the_same_event_with_another_payload_is_refused(writers: Tenant) -> None:
    (first,) = say(writers, body("e1", messages=["My plan is Growth."]))
    (again,) = say(writers, body("e1", messages=["My plan is Growth."]))
    assert again.is_repeat and (again.job, again.source_event) == (first.job, first.source_event)
    (other,) = say(writers, body("e1", messages=["My plan is Starter."]))
    assert other.refused is not None and other.refused.provenance.value == "PROV_409"
    assert shown(writers) == [("user-1", "Growth")]


def test_writers_are_who_they_are_registered_as(writers: Tenant) -> None:
    with pytest.raises(ProvenanceError, match="unknown"):
        say(writers, body("e1", service="nobody", claims=[plan("Growth")]))
    change_writer(tenant_id=writers.pk, service_key="crm", retired=True)
    with pytest.raises(ProvenanceError, match="unknown"):
        say(writers, body("e2", service="crm", claims=[plan("Growth")]))


def test_facts_can_not_be_changed(writers: Tenant) -> None:
    say(writers, body("e1", claims=[plan("Growth")]))
    with tenant_scope(writers.pk):
        for statement in (
            "UPDATE ledger_claimrow SET display = 'x'",
            "DELETE FROM ledger_claimrow",
            "UPDATE ledger_sourceevent SET subject = 'x'",
            "UPDATE ledger_sourceevent SET payload = NULL",
            "DELETE FROM ledger_sourceevent",
        ):
            with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE ledger_sourceevent SET payload = NULL, payload_redacted_at = now()")
            assert cursor.rowcount == 1


def test_two_active_claims_in_one_lane_can_not_be_stored(writers: Tenant) -> None:
    say(writers, body("e1", claims=[plan("Growth")]))
    with tenant_scope(writers.pk):
        held = Holding.objects.get(tenant_id=writers.pk)
        assert held.lane == lane(held.subject_key_id, held.scope)
        again = (
            "INSERT INTO ledger_holding SELECT tenant_id, claim_id, tstzrange('2026-01-01', NULL), lane,"
            " subject_key_id, scope, rule, is_open, decision_id FROM ledger_holding"
        )
        refused = pytest.raises(IntegrityError, match="one_holding_at_a_time")
        with refused, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(again)


def test_a_batch_takes_as_many_statements_as_one(writers: Tenant) -> None:
    def count(first: int, most: int) -> int:
        bodies = [
            body(f"e{n}", service=("billing", "crm")[n % 2], subject=f"user-{first + n // 2}", claims=[plan(f"p{n}")])
            for n in range(first, first + most)
        ]
        with CaptureQueriesContext(connection) as queries:
            say(writers, *bodies)
        return len(queries)

    assert count(0, 2) == count(100, 40) == count(200, 80)


# --- secrets ---


def test_secrets_do_not_reach_the_disk(writers: Tenant) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6a7B8c9D0a1B2c3D4e5F6a7B8"
    say(
        writers,
        body(
            "e1",
            messages=[f"My plan is {secret}."],
            claims=[plan("Growth", content=f"token {secret}")],
            evidence=[{"log": f"auth {secret}"}],
        ),
    )
    with tenant_scope(writers.pk), connection.cursor() as cursor:
        for table in ("sourceevent", "claimrow", "claimstate", "job", "conflict", "conflictchange"):
            cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM ledger_{table} t")
            (text,) = cursor.fetchone() or ("",)
            assert secret not in text, table
        assert re.search("REDACTED", SourceEvent.objects.get(tenant_id=writers.pk).payload or "")


# --- what people decide ---


def test_a_choice_holds_and_can_be_taken_back(writers: Tenant) -> None:
    conflict = disagree(writers)
    starter = claim_of(writers, "e2")
    decided = decide(writers, conflict, Verdict.CHOOSE, claim=starter, reason="The invoice says so.")
    assert (decided.state, decided.revision) == ("decided", 2)
    assert shown(writers) == [("user-1", "Starter")]
    assert statuses(writers)[claim_of(writers, "e1")] == "archived"
    assert decided.decision is not None
    undone = undo_decision(tenant_id=writers.pk, decision=decided.decision, actor=ADA)
    assert undone is not None and (undone.state, undone.conflict) == ("open", conflict.id)
    assert shown(writers) == [("user-1", "Growth")]
    with pytest.raises(NothingToUndo):
        undo_decision(tenant_id=writers.pk, decision=decided.decision, actor=ADA)
    assert undone.decision is not None
    back = undo_decision(tenant_id=writers.pk, decision=undone.decision, actor=ADA)
    assert back is not None and back.state == "decided"
    assert shown(writers) == [("user-1", "Starter")]
    again = undo_decision(tenant_id=writers.pk, decision=decided.decision, actor=ADA)
    assert again is not None and again.state == "open"
    with tenant_scope(writers.pk):
        changes = [change.change for change in changes_since(writers.pk, conflict.id, 0)]
    assert changes == ["opened", "decided", "reopened", "decided", "reopened"]


def test_neither_both_and_a_correction(writers: Tenant) -> None:
    conflict = disagree(writers)
    growth, starter = claim_of(writers, "e1"), claim_of(writers, "e2")
    neither = decide(writers, conflict, Verdict.NEITHER)
    assert shown(writers) == []
    assert neither.decision is not None
    undo_decision(tenant_id=writers.pk, decision=neither.decision, actor=ADA)

    with pytest.raises(StillCompeting):
        decide(writers, conflict, Verdict.BOTH, 3, placements=(Placement(growth), Placement(starter)))
    placements = (Placement(growth, read_scope({"team": "a"})), Placement(starter, None, Period(NOON, None)))
    both = decide(writers, conflict, Verdict.BOTH, 3, placements=placements)
    assert sorted(value for _, value in shown(writers)) == ["Growth", "Starter"]
    assert both.decision is not None
    undo_decision(tenant_id=writers.pk, decision=both.decision, actor=ADA)

    corrected = decide(writers, conflict, Verdict.CORRECT, 5, value="Scale", evidence="Contract of 1 March")
    assert shown(writers) == [("user-1", "Scale")]
    with tenant_scope(writers.pk):
        assert corrected.correction is not None
        row = reads.memories_by_id(writers.pk, [corrected.correction])[corrected.correction]
        assert (row.writer, row.decision, row.source_event) == ("person:ada", corrected.decision, None)


def test_a_stale_decision_is_refused_and_nothing_is_stored(writers: Tenant) -> None:
    conflict = disagree(writers)
    say(writers, body("e3", service="chat", hour=3, claims=[plan("Scale")]))
    with pytest.raises(StaleDecision) as stale:
        decide(writers, conflict, Verdict.CHOOSE, claim=claim_of(writers, "e1"))
    assert (stale.value.seen, stale.value.latest) == (1, 2)
    with tenant_scope(writers.pk):
        (change,) = changes_since(writers.pk, conflict.id, 1)
        found = find_conflict(writers.pk, conflict.id)
    assert (change.change, change.added) == ("extended", (claim_of(writers, "e3"),))
    assert found is not None and found.decisions == ()


def test_new_evidence_after_a_decision_is_a_new_conflict_that_names_it(writers: Tenant) -> None:
    conflict = disagree(writers)
    decided = decide(writers, conflict, Verdict.CHOOSE, claim=claim_of(writers, "e1"))
    with pytest.raises(NotOpen):
        decide(writers, conflict, Verdict.NEITHER, 2)
    say(writers, body("e3", service="crm", hour=2000, claims=[plan("Starter")]), received=2001)
    old, new = conflicts(writers)
    assert (old.id, old.state) == (conflict.id, "decided")
    assert (new.state, new.rule, new.follows) == ("open", "after_decision", decided.decision)
    assert shown(writers) == [("user-1", "Growth")]
    # Undoing the first one makes the two matters one again.
    assert decided.decision is not None
    undo_decision(tenant_id=writers.pk, decision=decided.decision, actor=ADA)
    assert [(one.id, one.state) for one in conflicts(writers, "open", "decided")] == [(conflict.id, "open")]
    assert next(one for one in conflicts(writers) if one.id == new.id).merged_into == conflict.id


# --- authority and keys change ---


def test_authority_settles_again_what_it_touches_but_not_what_a_person_decided(writers: Tenant) -> None:
    disagree(writers)
    say(writers, body("d1", subject="user-2", service="billing", hour=1, claims=[plan("Growth")]))
    say(writers, body("d2", subject="user-2", service="crm", hour=2, claims=[plan("Starter")]))
    second = subject_key_id("user-2", read_key("fact", PLAN))
    decided_one = next(one for one in conflicts(writers) if one.subject_key_id == second)
    decide(writers, decided_one, Verdict.CHOOSE, claim=claim_of(writers, "d1"))
    change_writer(tenant_id=writers.pk, service_key="crm", authority=AuthorityRules(90))
    assert not settle_stale(writers.pk)
    assert shown(writers) == [("user-1", "Starter"), ("user-2", "Growth")]
    assert sorted((one.state, one.rule) for one in conflicts(writers)) == [
        ("decided", "authority"),
        ("decided", "person"),
    ]


def test_what_could_not_be_compared_is_told_and_tried_again_under_a_new_rule(writers: Tenant) -> None:
    key = read_key("fact", "seats")
    say(writers, body("e1", service="billing", hour=1, claims=[{"key": "seats", "value": "a dozen"}]))
    say(writers, body("e2", service="crm", hour=2, claims=[{"key": "seats", "value": 12}]))
    assert [one.state for one in conflicts(writers)] == ["open"]
    set_key_rule(tenant_id=writers.pk, key=key, rule=KeyRule(kind=Kind.NUMBER))
    settle_stale(writers.pk)
    assert {one.kind: one.state for one in conflicts(writers)} == {"contest": "dissolved", "check": "check_failed"}
    assert shown(writers) == [("user-1", "12")]
    check = next(one for one in conflicts(writers) if one.kind == "check")
    assert list(check.explanation["problems"].values()) == ["not_a_number"]
    set_key_rule(tenant_id=writers.pk, key=key, rule=KeyRule(kind=Kind.TEXT))
    settle_stale(writers.pk)
    assert {one.kind: one.state for one in conflicts(writers)} == {"contest": "open", "check": "dissolved"}
    assert "unchecked" not in statuses(writers).values()


def test_detection_that_fails_is_a_state_of_its_own(writers: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr("ledger.claims_store.settling.alone", broken)
        say(writers, body("e1", service="billing", claims=[plan("Growth")]))
    (conflict,) = conflicts(writers)
    assert (conflict.state, conflict.rule, conflict.explanation) == (
        "check_failed",
        "detection_failed",
        {"error": "RuntimeError"},
    )
    assert shown(writers) == []
    say(writers, body("e2", service="billing", hour=1, claims=[plan("Growth")]))
    assert shown(writers) == [("user-1", "Growth")]
    assert [one.state for one in conflicts(writers)] == ["dissolved"]


# --- text without a key ---


def test_similar_text_only_suggests_a_review(writers: Tenant) -> None:
    say(writers, body("e1", claims=[plan("Growth", content="The subscription plan is Growth")]))
    say(writers, body("e2", service="chat", messages=["Is the subscription plan of this account really Growth?"]))
    say(writers, body("e3", service="chat", messages=["Thanks, see you on Monday!"]))
    (suggested,) = conflicts(writers)
    assert (suggested.state, suggested.kind, suggested.rule) == ("suggested", "suggestion", "similar_text")
    assert shown(writers) == [("user-1", "Growth")]
    dismissed = decide(writers, suggested, Verdict.BOTH, reason="Only a question.")
    assert (dismissed.state, dismissed.decision) == ("dismissed", None)
    assert shown(writers) == [("user-1", "Growth")]


def test_a_suggestion_can_be_followed_and_taken_back(writers: Tenant) -> None:
    say(writers, body("e1", claims=[plan("Growth", content="The subscription plan is Growth")]))
    say(writers, body("e2", service="chat", messages=["Was the subscription plan ever Growth?"]))
    (suggested,) = conflicts(writers)
    decided = decide(writers, suggested, Verdict.NEITHER)
    assert shown(writers) == [] and decided.state == "decided"
    assert decided.decision is not None
    undone = undo_decision(tenant_id=writers.pk, decision=decided.decision, actor=ADA)
    assert undone is not None and undone.state == "suggested"
    assert shown(writers) == [("user-1", "Growth")]


# --- revisions ---


def test_an_edit_is_a_revision_of_its_own_and_the_origin_stays(writers: Tenant) -> None:
    say(writers, body("e1", claims=[plan("Growth", content="On Growth")]))
    claim = claim_of(writers, "e1")
    edit = Revision(content="Is on the Growth plan", valid=Period(NOON, None))
    assert revise_claim(tenant_id=writers.pk, claim=claim, based_on=1, revision=edit, actor=ADA) == 2
    with pytest.raises(StaleRevision):
        revise_claim(tenant_id=writers.pk, claim=claim, based_on=1, revision=edit, actor=ADA)
    with tenant_scope(writers.pk):
        found = reads.find_claim(writers.pk, claim)
    assert found is not None
    assert [(one.content, one.by) for one in found.revisions] == [
        ("On Growth", "billing"),
        ("Is on the Growth plan", "person:ada"),
    ]
    assert (found.claim.writer, found.claim.valid_from, found.claim.revision) == ("billing", NOON, 2)
    assert found.periods == ((NOON, None),)


def test_taking_back_one_subject_leaves_the_others(writers: Tenant) -> None:
    say(writers, body("e1", subject="a", claims=[plan("Growth"), {"key": "city", "value": "Bern"}]))
    say(writers, body("e2", subject="b", claims=[plan("Growth")]))
    assert withdraw_subject(tenant_id=writers.pk, subject="a", actor=ADA) == 2
    assert withdraw_subject(tenant_id=writers.pk, subject="a", actor=ADA) == 0
    assert shown(writers) == [("b", "Growth")]
