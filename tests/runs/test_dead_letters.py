"""Deliveries that a host gave up: counted once, shown, and filled by reading the run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.dead_letters import DeadLetter
from runs.models import Follow, Host, Subscription
from runs.store import ref
from runs.store.dead_letters import keep_dead_letters
from runs.store.subscriptions import end_subscription, open_subscription
from tests.factories import make_host, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db

HOOK = "acme/hook-0123456789abcdef"
RUN = "acme/run-0123456789abcdef"
AT = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant, origin="https://host.example")


@pytest.fixture
def hook(host: Host) -> Subscription:
    return open_subscription(
        ref(host), dialect="openwop-2", secret="a-secret-of-32-characters-at-least", remote_id=HOOK
    )


def followed(tenant: Tenant) -> list[str]:
    with tenant_scope(tenant.pk):
        return list(
            Follow.objects.filter(tenant_id=tenant.pk, finished_at__isnull=True).values_list("run_id", flat=True)
        )


def counted(tenant: Tenant, hook: Subscription) -> int:
    with tenant_scope(tenant.pk):
        return Subscription.objects.get(pk=hook.pk).dead_count


def test_they_are_counted_once_and_their_runs_are_read(tenant: Tenant, host: Host, hook: Subscription) -> None:
    letters = [DeadLetter(RUN, f"evt-{n}", AT + timedelta(seconds=n)) for n in range(3)]
    assert keep_dead_letters(ref(host), HOOK, letters) == [RUN]
    assert keep_dead_letters(ref(host), HOOK, letters) == []
    assert (counted(tenant, hook), followed(tenant)) == (3, [RUN])
    assert keep_dead_letters(ref(host), HOOK, [*letters, DeadLetter(RUN, "evt-9", AT + timedelta(hours=1))]) == [RUN]
    assert counted(tenant, hook) == 4


def test_a_run_whose_following_had_ended_is_read_again(tenant: Tenant, host: Host, hook: Subscription) -> None:
    with tenant_scope(tenant.pk):
        Follow.objects.create(tenant_id=tenant.pk, host_id=host.pk, run_id=RUN, phase="finished", finished_at=AT)
    assert keep_dead_letters(ref(host), HOOK, [DeadLetter(RUN, "evt-1", AT)]) == [RUN]
    assert followed(tenant) == [RUN]


def test_an_event_that_is_here_needs_no_reading(tenant: Tenant, host: Host, hook: Subscription) -> None:
    log = make_log(RUN)
    take(host, log)
    assert keep_dead_letters(ref(host), HOOK, [DeadLetter(RUN, log[1]["eventId"], AT)]) == []
    assert (counted(tenant, hook), followed(tenant)) == (1, [])


def test_a_letter_about_another_tenants_run_is_left_alone(tenant: Tenant, host: Host, hook: Subscription) -> None:
    assert keep_dead_letters(ref(host), HOOK, [DeadLetter("beta/run-0123456789abcdef", "evt-1", AT)]) == []
    assert counted(tenant, hook) == 0


def test_of_a_webhook_that_ended_nothing_is_kept(tenant: Tenant, host: Host, hook: Subscription) -> None:
    end_subscription(tenant.pk, hook.pk)
    assert keep_dead_letters(ref(host), HOOK, [DeadLetter(RUN, "evt-1", AT)]) == []


def test_the_hosts_page_says_so(tenant: Tenant, host: Host, hook: Subscription) -> None:
    keep_dead_letters(ref(host), HOOK, [DeadLetter(RUN, "evt-1", AT)])
    client = Client()
    client.force_login(make_member(tenant, "vera", Role.VIEWER))
    page = client.get("/t/acme/hosts/alpha").content.decode()
    assert "The host gave up delivering 1 event," in page and "read from the host instead" in page
