"""Who is served next: fair between tenants, then between the hosts of one, within the places there are."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple


class Job(NamedTuple):
    """One run of one host of one tenant."""

    tenant_id: int
    host_id: int
    run_id: str


@dataclass(slots=True)
class _HostQueue:
    """Jobs by the time from which they can be served; equal times in order of arrival."""

    jobs: list[tuple[float, int, Job]] = field(default_factory=list)
    running: int = 0
    served: int = -1


@dataclass(slots=True)
class _TenantQueue:
    hosts: dict[int, _HostQueue] = field(default_factory=dict)
    running: int = 0
    served: int = -1


class Schedule:
    """Pure bookkeeping: time is given as a number that only has to grow.

    The next job is of the tenant with the fewest running ones, of equals the one served longest ago; the same way
    down to the host. So one tenant with ten thousand runs can not keep another one's single run waiting.
    """

    def __init__(self, *, places: int, per_host: int) -> None:
        self._places = places
        self._per_host = per_host
        self._tenants: dict[int, _TenantQueue] = defaultdict(_TenantQueue)
        self._known: set[Job] = set()
        self._running: set[Job] = set()
        self._order = count()

    def __contains__(self, job: Job) -> bool:
        """Whether it is waiting or running."""
        return job in self._known

    def add(self, job: Job, due: float) -> None:
        """Nothing happens when it is there already."""
        if job in self._known:
            return
        self._known.add(job)
        self._push(job, due)

    def take(self, now: float) -> Job | None:
        """A job to run now, which holds a place until `again` or `done`."""
        if len(self._running) >= self._places:
            return None
        found = self._next(now)
        if found is None:
            return None
        tenant, host = found
        _, order, job = heapq.heappop(host.jobs)
        tenant.served = host.served = next(self._order)
        tenant.running += 1
        host.running += 1
        self._running.add(job)
        return job

    def again(self, job: Job, due: float) -> None:
        """A job that ran gives its place back and comes again."""
        self._release(job)
        if job in self._known:
            self._push(job, due)

    def done(self, job: Job) -> None:
        self._release(job)
        self._known.discard(job)

    def forget_host(self, tenant_id: int, host_id: int) -> None:
        """Drops what waits. Nothing of this host may be running."""
        self._known = {job for job in self._known if job[:2] != (tenant_id, host_id)}
        self._tenants[tenant_id].hosts.pop(host_id, None)

    def should_give_place(self, job: Job, now: float) -> bool:
        """Whether another job could be served now, did this one not hold its place."""
        host = self._tenants[job.tenant_id].hosts[job.host_id]
        if host.running >= self._per_host and host.jobs and host.jobs[0][0] <= now:
            return True
        return len(self._running) >= self._places and self._next(now) is not None

    def next_due(self) -> float | None:
        """The earliest time at which a waiting job can be served; None as long as something has to end before."""
        if len(self._running) >= self._places:
            return None
        dues = [
            host.jobs[0][0]
            for tenant in self._tenants.values()
            for host in tenant.hosts.values()
            if host.jobs and host.running < self._per_host
        ]
        return min(dues, default=None)

    @property
    def running(self) -> int:
        return len(self._running)

    def _push(self, job: Job, due: float) -> None:
        host = self._tenants[job.tenant_id].hosts.setdefault(job.host_id, _HostQueue())
        heapq.heappush(host.jobs, (due, next(self._order), job))

    def _release(self, job: Job) -> None:
        if job not in self._running:
            return
        self._running.remove(job)
        tenant = self._tenants[job.tenant_id]
        tenant.running -= 1
        tenant.hosts[job.host_id].running -= 1

    def _next(self, now: float) -> tuple[_TenantQueue, _HostQueue] | None:
        ready = [
            (tenant, host)
            for tenant in self._tenants.values()
            for host in tenant.hosts.values()
            if host.jobs and host.jobs[0][0] <= now and host.running < self._per_host
        ]
        return min(
            ready,
            key=lambda pair: (pair[0].running, pair[0].served, pair[1].running, pair[1].served),
            default=None,
        )
