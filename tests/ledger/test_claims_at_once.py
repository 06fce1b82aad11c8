"""Writers at the same moment, each on a connection of their own: the constraint and the locks, not luck."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection

from ledger.claims_store import Actor, Ask, Taken, decide_conflict
from ledger.domain.decisions import StaleDecision, Verdict
from ledger.models import ClaimRow, Holding, Job, SourceEvent
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from tests.factories import make_tenant
from tests.ledger.claims import body, conflicts, make_writer, plan, say, shown


@pytest.fixture
def writers(committed: None) -> Iterator[Tenant]:
    tenant = make_tenant()
    for key in ("billing", "crm"):
        make_writer(tenant, key)
    yield tenant


def at_once(*work: Callable[[], Any]) -> list[Any]:
    results: list[Any] = [None] * len(work)
    gate = threading.Barrier(len(work))

    def run(place: int) -> None:
        gate.wait()
        try:
            results[place] = work[place]()
        except Exception as problem:
            results[place] = problem
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_m2_eight_threads_with_one_source_event_are_one_row_and_one_answer(writers: Tenant) -> None:
    said = body("e1", claims=[plan("Growth")])
    answers: list[list[Taken]] = at_once(*[lambda: say(writers, said)] * 8)
    assert len({(taken.job, taken.source_event) for (taken,) in answers}) == 1
    assert sorted(taken.is_repeat for (taken,) in answers) == [False] + [True] * 7
    with tenant_scope(writers.pk):
        for model in (SourceEvent, Job, ClaimRow, Holding):
            assert model.objects.filter(tenant_id=writers.pk).count() == 1


def test_m3_two_values_at_once_for_one_key_are_one_active_and_one_open_conflict(writers: Tenant) -> None:
    def tell(service: str, subject: str, value: str) -> list[Taken]:
        hour = {"billing": 1, "crm": 2}[service]
        return say(
            writers, body(f"{service} {subject}", service=service, subject=subject, hour=hour, claims=[plan(value)])
        )

    for turn in range(5):
        subject = f"user-{turn}"
        answers = at_once(partial(tell, "billing", subject, "Growth"), partial(tell, "crm", subject, "Starter"))
        assert not [one for one in answers if isinstance(one, Exception)]
    assert shown(writers) == [(f"user-{turn}", "Growth") for turn in range(5)]
    assert [one.state for one in conflicts(writers)] == ["open"] * 5


def test_many_keys_in_opposite_orders_do_not_lock_each_other_out(writers: Tenant) -> None:
    def tell(service: str, order: list[int], turn: int) -> list[Taken]:
        told = [
            body(f"{service}-{turn}-{n}", service=service, subject=f"s{n}", claims=[plan(f"{service} {turn}")])
            for n in order
        ]
        return say(writers, *told)

    for turn in range(3):
        answers = at_once(
            partial(tell, "billing", list(range(12)), turn), partial(tell, "crm", list(reversed(range(12))), turn)
        )
        assert not [one for one in answers if isinstance(one, Exception)], answers
    assert len(conflicts(writers, "open")) == 12


def test_t19_two_decisions_at_once_are_one_decision_and_one_refusal(writers: Tenant) -> None:
    say(writers, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    say(writers, body("e2", service="crm", hour=2, claims=[plan("Starter")]))
    (conflict,) = conflicts(writers)

    def decide(name: str) -> Any:
        ask = Ask(1, Verdict.NEITHER)
        return decide_conflict(
            tenant_id=writers.pk, conflict=conflict.id, ask=ask, actor=Actor("person", f"person:{name}")
        )

    answers = at_once(lambda: decide("ada"), lambda: decide("ben"))
    refused = [one for one in answers if isinstance(one, StaleDecision)]
    assert len(refused) == 1 and (refused[0].seen, refused[0].latest) == (1, 2)
    assert [one.state for one in answers if not isinstance(one, Exception)] == ["decided"]
