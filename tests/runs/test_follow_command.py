"""`follow --run`: ends by itself when the run has, and a poll says so too."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.conf import LazySettings
from django.core.management import call_command

from openwop_ui.tenancy.scope import tenant_scope
from runs.follow_store import configured
from runs.management.commands import follow
from runs.models import Follow, Run
from tests.factories import make_host, make_tenant
from tests.hosts.follow_doubles import FastClock
from tests.hosts.misbehaving import MisbehavingHost, PollManners, log_of

pytestmark = pytest.mark.usefixtures("transactional_db")


@contextmanager
def served_elsewhere(host: MisbehavingHost) -> Iterator[str]:
    """In a thread of its own, since the command keeps this one."""
    started, origin = threading.Event(), ""

    async def serve() -> None:
        nonlocal origin
        async with host.serving() as origin:
            started.set()
            await asyncio.to_thread(stopped.wait)

    stopped = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(5)
        yield origin
    finally:
        stopped.set()
        thread.join(5)


def test_it_ends_with_the_run(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ALLOW_PRIVATE_HOSTS = True
    monkeypatch.setattr(follow, "configured", lambda: replace(configured(), clock=FastClock(40)))
    monkeypatch.setattr(follow, "LOOK_EVERY", 0.05)
    host = MisbehavingHost(log_of(12), poll=PollManners(status_early=True))
    said = io.StringIO()
    with served_elsewhere(host) as origin:
        tenant = make_tenant()
        made = make_host(tenant, origin=origin)
        call_command("follow", tenant="acme", host="alpha", run="run-1", stderr=said)
        call_command("follow", tenant="acme", host="alpha", run="run-1", stderr=said)
    with tenant_scope(tenant.pk):
        run = Run.objects.get(tenant_id=tenant.pk, host_id=made.pk)
        assert (run.status, run.event_count) == ("completed", 12)
        assert Follow.objects.get(tenant_id=tenant.pk).finished_at is not None
    assert said.getvalue().count("The run has ended.") == 2
    assert len(host.polls_asked) > 0
