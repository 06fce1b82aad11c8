"""What is told of a run beside its events: by a debug bundle, and by a host's snapshot of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.bundle import BundleFacts
from ..domain.capabilities import has_credential
from ..domain.projection import project
from ..domain.snapshots import Parent, settled
from ..domain.storable import storable
from ..models import Incident
from .hosts import HostRef
from .incidents import CLOSED, Found, keep_incidents
from .receipt import Noticed

NO_REASON = "no reason given"

_CHILD = "sub-workflow"


def keep_import(
    host: HostRef, run_id: str, facts: BundleFacts, *, strays: int, noticed_at: datetime | None = None
) -> list[Noticed]:
    """Keeps what a bundle says of its run, and notices where it is not whole or contradicts itself.

    ``strays`` of its events were refused, as another run's. A bundle of which no event was taken may be of a run that
    has no row: then there is nothing to keep but what was noticed.
    """
    now = noticed_at or timezone.now()
    with tenant_scope(host.tenant_id, durable=True):
        run = _lock_run(host, run_id)
        is_cut = _is_cut(facts) and not (run and run.has(_whole(facts)))
        noticed = keep_incidents(
            host.tenant_id, _found(host, run, run_id, facts, is_cut=is_cut, strays=strays), noticed_at=now
        )
        if run is not None:
            if _is_of_a_whole_log(facts):
                _keep_truncation(host.tenant_id, run.pk, _reason(facts) if is_cut else "", now)
            if parent := _parent(facts):
                keep_parents(host, {run_id: parent})
            topic = f"run:{host.slug}/{project(run_id)}"
            announce(host.tenant_id, {"hosts": None, "runs": None, topic: run.last_sequence} if noticed else {})
    return noticed


def keep_parents(host: HostRef, parents: Mapping[str, Parent]) -> None:
    """Keeps what runs came out of, by their ids. What was told first stays; what it left open may be told later.

    To be called within the tenant's scope.
    """
    told = {run: parent for run, parent in parents.items() if parent.run_id != run}
    if not told:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE runs_run r SET parent_run_id = n.parent,
                relation = CASE WHEN r.relation IN ('', 'fork') AND n.relation <> '' THEN n.relation
                    ELSE r.relation END,
                parent_sequence = coalesce(r.parent_sequence, n.sequence)
            FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) AS n (run_id, parent, relation, sequence)
            WHERE r.tenant_id = %s AND r.host_id = %s AND r.id = runs_run_named(r.tenant_id, r.host_id, n.run_id)
                AND r.parent_run_id IN ('', n.parent)
                AND (r.parent_run_id = '' OR (r.relation IN ('', 'fork') AND n.relation NOT IN ('', r.relation))
                    OR (r.parent_sequence IS NULL AND n.sequence IS NOT NULL))
            """,
            [
                [storable(run) for run in told],
                [storable(parent.run_id) for parent in told.values()],
                [_relation(parent) for parent in told.values()],
                [parent.from_sequence for parent in told.values()],
                host.tenant_id,
                host.id,
            ],
        )


def _relation(parent: Parent) -> str:
    """``Run.relation``: the kind of fork where it is told."""
    if parent.relation == _CHILD:
        return "child"
    return parent.mode or ("fork" if parent.relation == "fork" else "")


def _parent(facts: BundleFacts) -> Parent | None:
    return settled((facts.snapshot.parent if facts.snapshot else None, facts.source))


@dataclass(frozen=True, slots=True)
class _Locked:
    pk: int
    event_count: int
    last_sequence: int
    contiguous_through: int

    def has(self, whole: int | None) -> bool:
        """Whether the log has so many events and no gap, whatever one bundle lacks of them."""
        return whole is not None and self.event_count >= whole and self.contiguous_through == self.last_sequence


def _lock_run(host: HostRef, run_id: str) -> _Locked | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, event_count, last_sequence, contiguous_through FROM runs_run"
            " WHERE tenant_id = %s AND id = runs_run_named(%s, %s, %s) FOR NO KEY UPDATE",
            [host.tenant_id, host.tenant_id, host.id, storable(run_id)],
        )
        row = cursor.fetchone()
    return _Locked(*row) if row else None


def _keep_truncation(tenant_id: int, run: int, reason: str, now: datetime) -> None:
    """With "", what an import that was cut has said holds no longer."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_run SET truncated = %s WHERE tenant_id = %s AND id = %s AND truncated <> %s",
            [reason, tenant_id, run, reason],
        )
        if not reason:
            cursor.execute(
                "UPDATE runs_incident SET detail = detail || jsonb_build_object(%s::text, %s::text)"
                " WHERE tenant_id = %s AND run_id = %s AND kind = %s AND NOT jsonb_exists(detail, %s)",
                [CLOSED, now.isoformat(), tenant_id, run, Incident.Kind.TRUNCATED, CLOSED],
            )


def _is_of_a_whole_log(facts: BundleFacts) -> bool:
    """A page of a poll has events in an object too, and does not claim to have all of them."""
    return bool(facts.version) or facts.told_count is not None or facts.is_truncated


def _is_cut(facts: BundleFacts) -> bool:
    is_short = facts.told_count is not None and facts.told_count > facts.event_count
    return _is_of_a_whole_log(facts) and (facts.is_truncated or is_short or facts.hole_count > 0)


def _whole(facts: BundleFacts) -> int | None:
    """How many events the log has as a whole, None where nothing says it. A host that cut its bundle may count what is
    left of it."""
    told = facts.told_count or 0
    if facts.is_truncated and told <= facts.event_count:
        return None
    return max(told, facts.event_count + facts.missing_count)


def _reason(facts: BundleFacts) -> str:
    """The host's word for it, unless a credential hides in it."""
    if not facts.truncated_reason or has_credential(facts.truncated_reason):
        return NO_REASON
    return storable(facts.truncated_reason)


def _found(
    host: HostRef, run: _Locked | None, run_id: str, facts: BundleFacts, *, is_cut: bool, strays: int
) -> Iterator[Found]:
    def found(kind: Incident.Kind, sequence: int | None = None, **detail: Any) -> Found:
        unknown = {"run": run_id} if run is None else {}
        return Found(host.id, run.pk if run else None, run_id, kind, sequence, detail | unknown)

    told = facts.told_count
    if is_cut:
        yield found(Incident.Kind.TRUNCATED, facts.holes[0].first if facts.holes else None, **_cut(facts))
    if told is not None and told < facts.event_count:
        yield found(Incident.Kind.CONFLICTING_MEMBERS, note="event_count", events=facts.event_count, told=told)
    if any(warning.kind == "malformed_redaction" for warning in facts.warnings):
        yield found(Incident.Kind.CONFLICTING_MEMBERS, note="malformed_redaction")
    if strays:
        yield found(Incident.Kind.FOREIGN_RUN, place="bundle", events=strays)


def _cut(facts: BundleFacts) -> dict[str, Any]:
    detail: dict[str, Any] = {"events": facts.event_count}
    if facts.is_truncated:
        detail["reason"] = _reason(facts)
    if facts.told_count is not None:
        detail["told"] = facts.told_count
    if (whole := _whole(facts)) is not None:
        detail["whole"] = whole
    if facts.holes:
        first = facts.holes[0]
        detail |= {"holes": facts.hole_count, "missing": facts.missing_count, "first": first.first, "last": first.last}
    return detail
