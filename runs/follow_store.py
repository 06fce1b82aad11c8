"""What the follower keeps, in the database. Every call is a thread's work of its own: the follower is async."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain
from threading import Barrier
from typing import Any, TypeVar
from uuid import uuid4

from django.conf import settings
from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    close_old_connections,
    connection,
    connections,
)
from django.utils import timezone

from openwop_ui import vault
from openwop_ui.live.announce import announce
from openwop_ui.tenancy.lookup import all_tenants
from openwop_ui.tenancy.scope import operator_scope, tenant_scope

from .domain.dead_letters import DeadLetter
from .domain.event import Refusal, RunEvent
from .domain.normalise import ANOTHER_RUN
from .domain.snapshots import Parent, parent_in_snapshot
from .domain.storable import original, storable
from .doors import configured_limits
from .follower.host import Settings
from .follower.state import UNANNOUNCED_END, FollowState, HostState, Phase
from .follower.store import FollowedHost, ListedRun, ResumePoint
from .gathering import Gathering
from .models import Follow, Host, Incident, Run, Subscription
from .store import HostRef, Receipt, keep_parents, notice, take_in
from .store.aliases import run_named
from .store.dead_letters import keep_dead_letters
from .store.documents import keep_document
from .store.unstarted import notice_unstarted

T = TypeVar("T")
Brought = tuple[str, Sequence[RunEvent | Refusal]]
"""A run's id, and what its host told of it."""
logger = logging.getLogger(__name__)

THREADS = 8
GATHER = 0.1
"""Seconds: what the runs of one host bring in so short a time is committed together."""
MOST_TOGETHER = 100
KNOWN = 500
"""So many unfinished runs of a host are offered at once, newest first."""
LEASE = timedelta(seconds=15)
RENEW_EVERY = LEASE.total_seconds() / 3
"""A worker that was killed is succeeded after a lease at the most. Two at work on one run would double nothing:
the intake counts a known event as repeated."""


class DatabaseFollowStore:
    """Implements ``runs.follower.store.FollowStore``. With ``only`` one host (and perhaps one run) is followed."""

    def __init__(self, *, only: HostRef | None = None, run_id: str | None = None) -> None:
        self._only = only
        self._run_id = run_id
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="follow-store")
        self._commits: Gathering[FollowedHost, Brought] = Gathering(
            partial(self._in_thread, _commit_all), every=GATHER, most=MOST_TOGETHER, is_shared=_is_away
        )
        self._states: Gathering[FollowedHost, FollowState] = Gathering(
            partial(self._in_thread, _save_states), every=GATHER, most=MOST_TOGETHER, is_shared=_is_away
        )

    async def _in_thread(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _fresh, work, args)

    async def hosts_to_follow(self) -> Sequence[FollowedHost]:
        return await self._in_thread(_hosts_to_follow, self._only)

    async def discovered(self, host: FollowedHost, runs: Sequence[ListedRun]) -> Collection[str]:
        wanted = await self._in_thread(_discovered, host, runs, self._name)
        return [run for run in wanted if run == self._run_id] if self._run_id is not None else wanted

    async def paused(self, host: FollowedHost) -> Collection[str]:
        return await self._in_thread(_paused, host)

    async def resume_point(self, host: FollowedHost, run_id: str) -> ResumePoint:
        return await self._in_thread(_resume_point, host, run_id)

    async def commit(self, host: FollowedHost, run_id: str, items: Sequence[RunEvent | Refusal]) -> None:
        await self._commits.add(host, (run_id, items))

    async def webhooks(self, host: FollowedHost) -> Sequence[str]:
        return await self._in_thread(_webhooks, host)

    async def keep_dead_letters(
        self, host: FollowedHost, remote_id: str, letters: Sequence[DeadLetter]
    ) -> Collection[str]:
        return await self._in_thread(keep_dead_letters, _ref(host), remote_id, letters)

    async def save_state(self, host: FollowedHost, state: FollowState) -> None:
        await self._states.add(host, state)

    async def save_host_state(self, host: FollowedHost, state: HostState) -> None:
        await self._in_thread(_save_host_state, host, state)

    async def renew_leases(self, stop: asyncio.Event) -> None:
        """Until told to stop; then the leases are given back, so that another worker need not wait for their end."""
        while not stop.is_set():
            await self._try_in_thread(_release, self._name, LEASE)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RENEW_EVERY)
        await self._try_in_thread(_release, self._name, timedelta())

    async def _try_in_thread(self, work: Callable[..., T], *args: Any) -> None:
        try:
            await self._in_thread(work, *args)
        except DatabaseError as exc:
            logger.warning("leases were not renewed (%s); they end by themselves", type(exc).__name__)

    async def has_ended(self, host: HostRef, run_id: str) -> bool:
        """Following ends only when the log, and polls after it, say that the run has."""
        return await self._in_thread(_has_ended, host, run_id)

    def close(self) -> None:
        """What has begun is finished, and every thread gives its connection back."""
        all_threads = Barrier(THREADS)
        for let_go in [self._threads.submit(_let_go, all_threads) for _ in range(THREADS)]:
            let_go.result()
        self._threads.shutdown()


def configured() -> Settings:
    """The follower's settings, with the limits that hold for every door."""
    return Settings(limits=configured_limits())


def _fresh(work: Callable[..., T], args: tuple[Any, ...]) -> T:
    """A thread of the pool lives on: its connection is checked before and closed after when it is too old."""
    close_old_connections()
    try:
        return work(*args)
    finally:
        close_old_connections()


def _let_go(all_threads: Barrier) -> None:
    connections.close_all()
    all_threads.wait()


def _has_ended(host: HostRef, run_id: str) -> bool:
    with tenant_scope(host.tenant_id):
        return Follow.objects.filter(
            tenant_id=host.tenant_id, host_id=host.id, run_id=storable(run_id), finished_at__isnull=False
        ).exists()


def _hosts_to_follow(only: HostRef | None) -> list[FollowedHost]:
    with operator_scope():
        hosts = Host.objects.filter(following=True).exclude(origin="").order_by("id")
        if only:
            hosts = hosts.filter(tenant_id=only.tenant_id, id=only.id)
        return [_followed(host) for host in hosts]


def _followed(host: Host) -> FollowedHost:
    try:
        credential = vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        credential = ""
    return FollowedHost(
        tenant_id=host.tenant_id,
        host_id=host.pk,
        slug=host.slug,
        origin=host.origin,
        credential=credential,
        major=host.major,
        allow_private=settings.ALLOW_PRIVATE_HOSTS,
    )


def _discovered(host: FollowedHost, runs: Sequence[ListedRun], worker: str) -> list[str]:
    with tenant_scope(host.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            """
                INSERT INTO runs_follow (tenant_id, host_id, run_id, phase, last_error, leased_by, updated_at)
                SELECT %s, %s, k, 'waiting', '', '', now() FROM unnest(%s::text[]) k
                ON CONFLICT (tenant_id, host_id, run_id) DO NOTHING
                """,
            # Oldest first, so that a later run has the later row.
            [host.tenant_id, host.host_id, [storable(run.run_id) for run in reversed(runs)]],
        )
        _keep_lineage(host, runs)
        cursor.execute(
            """
                UPDATE runs_follow SET leased_by = %(worker)s, leased_until = now() + make_interval(secs => %(lease)s)
                WHERE tenant_id = %(tenant)s AND host_id = %(host)s AND id = ANY (ARRAY(
                    SELECT id FROM runs_follow
                    WHERE tenant_id = %(tenant)s AND host_id = %(host)s AND finished_at IS NULL AND NOT paused
                        AND (leased_until IS NULL OR leased_until < now() OR leased_by = %(worker)s)
                    ORDER BY id DESC LIMIT %(most)s FOR UPDATE SKIP LOCKED))
                RETURNING id, run_id
                """,
            {
                "worker": worker,
                "lease": LEASE.total_seconds(),
                "tenant": host.tenant_id,
                "host": host.host_id,
                "most": KNOWN,
            },
        )
        wanted = [original(run_id) for _, run_id in sorted(cursor.fetchall(), reverse=True)]
        keep_parents(_ref(host), {run.run_id: parent for run in runs if (parent := _parent(host, run))})
        notice_unstarted(_ref(host), now=timezone.now())
        return wanted


def _keep_lineage(host: FollowedHost, runs: Sequence[ListedRun]) -> None:
    """Notes where runs come from, as far as the host says; what is known already stays."""
    told = [run for run in runs if run.parent_run_id]
    if not told:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE runs_run r SET parent_run_id = t.parent, parent_sequence = t.sequence, relation = t.relation
            FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[]) AS t (run_id, parent, sequence, relation)
            WHERE r.tenant_id = %s AND r.host_id = %s AND r.parent_run_id = ''
                AND r.id = runs_run_named(r.tenant_id, r.host_id, t.run_id)
            """,
            [
                [storable(run.run_id) for run in told],
                [storable(run.parent_run_id) for run in told],
                [run.parent_sequence for run in told],
                [_relation(run) for run in told],
                host.tenant_id,
                host.host_id,
            ],
        )


def _relation(run: ListedRun) -> str:
    """A parent alone says nothing: the second major names the source of a fork and the parent of a child alike."""
    if run.fork_mode in ("replay", "branch"):
        return run.fork_mode
    return "child" if run.parent_node_id else ""


def _release(worker: str, after: timedelta) -> None:
    """Lets a worker's leases end after this time, counted from now."""
    for tenant in all_tenants():
        with tenant_scope(tenant.pk):
            held = Follow.objects.filter(tenant_id=tenant.pk, leased_by=worker, finished_at__isnull=True)
            # Locked in the order in which states are saved, so that neither waits for the other for ever.
            ids = list(held.order_by("id").select_for_update().values_list("pk", flat=True))
            held.filter(pk__in=ids).update(leased_until=timezone.now() + after)


def _paused(host: FollowedHost) -> list[str]:
    with tenant_scope(host.tenant_id):
        resting = Follow.objects.filter(tenant_id=host.tenant_id, host_id=host.host_id, paused=True)
        return [original(run_id) for run_id in resting.values_list("run_id", flat=True)]


def _webhooks(host: FollowedHost) -> list[str]:
    with tenant_scope(host.tenant_id):
        active = Subscription.objects.filter(tenant_id=host.tenant_id, host_id=host.host_id, state="active")
        return [original(one) for one in active.exclude(remote_id="").values_list("remote_id", flat=True)]


def _resume_point(host: FollowedHost, run_id: str) -> ResumePoint:
    with tenant_scope(host.tenant_id):
        key = run_named(host.tenant_id, host.host_id, run_id)
        known = Run.objects.filter(tenant_id=host.tenant_id, pk=-1 if key is None else key)
        run = known.values_list("pk", "contiguous_through", "status_is_terminal").first()
    if run is None:
        return ResumePoint()
    pk, through, ended = run
    partial = _first_partial(host.tenant_id, pk)
    if partial is not None:
        # What came without its payload has to be read again: a webhook may leave it out, a stream does not.
        through, ended = min(through, partial - 1), False
    return ResumePoint(through=through if through >= 0 else None, ended=ended)


def _first_partial(tenant_id: int, run: int) -> int | None:
    with tenant_scope(tenant_id), connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT min(e.sequence) FROM runs_event e
            WHERE e.tenant_id = %s AND e.run_id = %s AND NOT e.has_payload AND NOT EXISTS (
                SELECT FROM runs_eventcopy c WHERE c.tenant_id = e.tenant_id AND c.run_id = e.run_id
                    AND c.sequence = e.sequence AND c.kind = 'completion')
            """,
            [tenant_id, run],
        )
        row = cursor.fetchone()
    return row[0] if row else None


def _commit(host: FollowedHost, run_id: str, items: Sequence[RunEvent | Refusal]) -> Receipt:
    return _commit_all(host, [(run_id, items)])


def _commit_all(host: FollowedHost, brought: Sequence[Brought]) -> Receipt:
    receipt = take_in(_ref(host), chain.from_iterable(items for _, items in brought))
    for run_id, items in brought:
        if any(isinstance(item, Refusal) and item.reason == ANOTHER_RUN for item in items):
            notice(_ref(host), run_id, Incident.Kind.FOREIGN_RUN)
    return receipt


def _is_away(problem: Exception) -> bool:
    """The database is, whatever it is asked."""
    return isinstance(problem, OperationalError | InterfaceError)


def _ref(host: FollowedHost) -> HostRef:
    return HostRef(host.tenant_id, host.host_id, host.slug)


def _parent(host: FollowedHost, run: ListedRun) -> Parent | None:
    told = {
        "parentRunId": run.parent_run_id,
        "parentNodeId": run.parent_node_id,
        "parentSeq": run.parent_sequence,
        "forkMode": run.fork_mode,
    }
    return parent_in_snapshot(told, major=host.major)


def _save_state(host: FollowedHost, state: FollowState) -> None:
    _save_states(host, [state])


def _save_states(host: FollowedHost, states: Sequence[FollowState]) -> None:
    with tenant_scope(host.tenant_id):
        _write_states(host, {state.run_id: state for state in states})
        announce(host.tenant_id, {"hosts": None})
    for state in states:
        if state.phase is Phase.FINISHED and state.note == UNANNOUNCED_END:
            notice(_ref(host), state.run_id, Incident.Kind.EARLY_STATUS)


def _write_states(host: FollowedHost, states: Mapping[str, FollowState]) -> None:
    told = list(states.values())
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH locked AS (
                SELECT id FROM runs_follow
                WHERE tenant_id = %(tenant)s AND host_id = %(host)s AND run_id = ANY (%(runs)s::text[])
                ORDER BY id FOR UPDATE)
            UPDATE runs_follow f SET phase = n.phase, connected_since = n.connected_since,
                last_event_at = coalesce(n.last_event_at, f.last_event_at), last_error = n.last_error,
                retry_at = n.retry_at,
                finished_at = CASE WHEN n.phase = %(finished)s THEN now() END, updated_at = now()
            FROM locked, unnest(%(runs)s::text[], %(phases)s::text[], %(connected)s::timestamptz[],
                %(last)s::timestamptz[], %(errors)s::text[], %(retries)s::timestamptz[])
                AS n (run_id, phase, connected_since, last_event_at, last_error, retry_at)
            WHERE f.tenant_id = %(tenant)s AND f.id = locked.id AND f.run_id = n.run_id
            """,
            {
                "tenant": host.tenant_id,
                "host": host.host_id,
                "finished": Phase.FINISHED.value,
                "runs": [storable(state.run_id) for state in told],
                "phases": [state.phase.value for state in told],
                "connected": [state.connected_since for state in told],
                "last": [state.last_event_at for state in told],
                "errors": [storable(state.last_error or state.note) for state in told],
                "retries": [state.retry_at for state in told],
            },
        )


def _save_host_state(host: FollowedHost, state: HostState) -> None:
    with tenant_scope(host.tenant_id):
        Host.objects.filter(tenant_id=host.tenant_id, id=host.host_id).update(
            major=state.major,
            last_error=storable(state.last_error),
            lists_runs=state.lists_runs,
            listed_at=state.listed_at,
        )
        if state.document:
            keep_document(tenant_id=host.tenant_id, host_id=host.host_id, document=state.document)
        announce(host.tenant_id, {"hosts": None})
