"""What an admin does from a host's page: rest and resume following, of the host and of a run; its credential; and
sealing all secrets anew."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from django.apps import apps
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db import models
from django.test import Client

from openwop_ui import vault
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.follow_store import _discovered, _followed, _hosts_to_follow, _paused, _save_host_state, _save_state
from runs.follower.state import FollowState, HostPhase, HostState, Phase
from runs.follower.store import ListedRun
from runs.management.commands.rotate_credentials import sealed_columns
from runs.models import Follow, Host, Subscription
from runs.store import ref
from runs.store.subscriptions import follow_delivered_run, open_subscription, unseal_secrets
from tests.factories import make_host, make_log, make_member, make_tenant, take
from tests.hosts.follow_doubles import MemoryStore, followed
from tests.hosts.misbehaving import HostOfMany
from tests.runs.follower.test_worker import beating_run, run_of, until, working

OLD, NEW = "an-old-key-of-32-characters-and-more", "a-new-key-of-32-characters-and-more!"


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant, origin="https://host.example", credential="the-first-credential")


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "ada", Role.ADMIN))
    return client


def post(client: Client, to: str, **told: str) -> str:
    """The page that is shown afterwards."""
    answer = client.post(f"/t/acme/hosts/alpha/{to}", told, follow=True)
    assert answer.status_code == 200, answer
    return answer.content.decode()


def stored(host: Host) -> Host:
    with tenant_scope(host.tenant_id):
        return Host.objects.get(pk=host.pk)


def test_a_paused_host_is_not_followed_until_it_is_resumed(admin: Client, host: Host) -> None:
    page = post(admin, "following", following="0")
    assert "Following is paused" in page and "Follow the host again" in page
    assert _hosts_to_follow(None) == []
    page = post(admin, "following", following="1")
    assert "Following is paused" not in page and "Pause the host" in page
    assert [one.slug for one in _hosts_to_follow(None)] == ["alpha"]


def test_a_paused_run_rests_while_the_others_go_on(admin: Client, tenant: Tenant, host: Host) -> None:
    followed_host = _followed(stored(host))
    runs = [ListedRun("run-1"), ListedRun("run-2")]
    assert set(_discovered(followed_host, runs, "worker")) == {"run-1", "run-2"}
    page = post(admin, "following", following="0", run="run-1")
    assert "paused" in page and "Paused. What the run tells meanwhile is read afterwards." in page
    assert (_discovered(followed_host, [], "worker"), _paused(followed_host)) == (["run-2"], ["run-1"])
    _save_state(followed_host, FollowState("run-1", Phase.PAUSED))
    with tenant_scope(tenant.pk):
        follow_delivered_run(tenant_id=tenant.pk, host_id=host.pk, run_id="run-1")
    assert _discovered(followed_host, [], "worker") == ["run-2"], "a webhook does not undo it"
    post(admin, "following", following="1", run="run-1")
    assert set(_discovered(followed_host, [], "worker")) == {"run-1", "run-2"}
    with tenant_scope(tenant.pk):
        Follow.objects.filter(run_id="run-2").update(phase="finished", finished_at=host.created_at)
    assert "not being followed any more" in post(admin, "following", following="0", run="run-2")


def test_a_run_that_the_host_does_not_list_is_followed_by_its_name(admin: Client, tenant: Tenant, host: Host) -> None:
    _save_host_state(_followed(stored(host)), HostState(HostPhase.FOLLOWING, major=1, lists_runs=False))
    page = admin.get("/t/acme/hosts/alpha").content.decode()
    assert "It has no list of its runs" in page and "it has no list" in page
    assert "followed from its first event" not in page and "a run appears here when it starts" not in page

    assert "There is no run id in the field." in post(admin, "following", following="1", named="1", run="  ")
    page = post(admin, "following", following="1", named="1", run=" run-9 ")
    assert "The run is followed from its first event." in page and "run-9" in page
    assert _discovered(_followed(stored(host)), [], "worker") == ["run-9"]
    post(admin, "following", following="0", run="run-9")
    post(admin, "following", following="1", named="1", run="run-9")
    assert _discovered(_followed(stored(host)), [], "worker") == ["run-9"], "naming it again resumes it"
    with tenant_scope(tenant.pk):
        Follow.objects.filter(run_id="run-9").update(phase="finished", finished_at=host.created_at)
    assert "That run was followed to its end." in post(admin, "following", following="1", named="1", run="run-9")
    assert "run: more than 512 characters" in post(admin, "following", following="1", named="1", run="x" * 513).lower()


def test_a_host_with_a_list_says_when_it_was_read(admin: Client, host: Host) -> None:
    listed = HostState(HostPhase.FOLLOWING, major=1, lists_runs=True, listed_at=host.created_at)
    _save_host_state(_followed(stored(host)), listed)
    page = admin.get("/t/acme/hosts/alpha").content.decode()
    assert "it has no list" not in page and "The next one is followed from its first event." in page


def test_a_new_credential_is_sealed_and_shown_by_its_fingerprint(admin: Client, host: Host) -> None:
    page = post(admin, "credential", credential="another-credential-of-it")
    sealed = stored(host).sealed_credential
    assert vault.unseal(sealed) == "another-credential-of-it" and "another-credential" not in sealed + page
    assert vault.fingerprint("another-credential-of-it") in page
    assert _hosts_to_follow(None)[0].credential == "another-credential-of-it"
    assert "there is no credential in the field" in post(admin, "credential", credential="  ").lower()
    assert "printable ASCII" in post(admin, "credential", credential="tab\there")
    assert vault.unseal(stored(host).sealed_credential) == "another-credential-of-it"
    post(admin, "credential", forget="1")
    assert stored(host).sealed_credential == ""


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_only_admins_change_a_host(tenant: Tenant, host: Host, role: Role) -> None:
    member = Client()
    member.force_login(make_member(tenant, "mia", role))
    for to in ("following", "credential"):
        assert member.post(f"/t/acme/hosts/alpha/{to}", {"following": "0", "credential": "x" * 20}).status_code == 403
    page = member.get("/t/acme/hosts/alpha").content.decode()
    assert "Pause the host" not in page and vault.fingerprint("the-first-credential") not in page
    assert stored(host).following


def test_a_host_of_another_tenant_is_not_there(admin: Client) -> None:
    make_host(make_tenant("other"), "beta", origin="https://beta.example")
    assert admin.post("/t/acme/hosts/beta/following", {"following": "0"}).status_code == 404
    assert admin.post("/t/other/hosts/beta/following", {"following": "0"}).status_code == 404


@asynccontextmanager
async def two_runs(store: MemoryStore) -> AsyncIterator[HostOfMany]:
    host = HostOfMany([beating_run("rests"), run_of("goes-on", 6)])
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            yield host


async def test_the_worker_leaves_a_paused_run_and_comes_back_to_it() -> None:
    store = MemoryStore()

    def last_phase() -> Phase | None:
        return next((state.phase for state in reversed(store.states) if state.run_id == "rests"), None)

    async with two_runs(store) as host:
        await until(lambda: last_phase() is Phase.STREAMING)
        store.resting.append("rests")
        await until(lambda: last_phase() is Phase.PAUSED)
        asked = len(host.runs[0].asked)
        await asyncio.sleep(0.3)
        assert len(host.runs[0].asked) == asked, "nothing is asked of the host about it"
        store.resting.clear()
        await until(lambda: last_phase() is Phase.STREAMING)


def test_incidents_appear_on_the_runs_page_while_it_is_open(admin: Client, tenant: Tenant, host: Host) -> None:
    take(host, make_log())
    page = admin.get("/t/acme/runs/alpha/run-1").content.decode()
    assert "?known=0" in page and "incidents-note" not in page
    asked = {"HX-Request": "true", "HX-Target": "incidents"}
    assert admin.get("/t/acme/runs/alpha/run-1?known=0", headers=asked).status_code == 204
    take(host, [make_log()[0] | {"payload": {"workflowId": "another"}}])
    fragment = admin.get("/t/acme/runs/alpha/run-1?known=0", headers=asked).content.decode()
    assert "1 incident:" in fragment and "?known=1" in fragment


def rotate() -> str:
    out = io.StringIO()
    call_command("rotate_credentials", stdout=out)
    return out.getvalue()


def test_secrets_are_sealed_again_with_the_first_key(tenant: Tenant, settings: LazySettings) -> None:
    settings.CREDENTIALS_KEY = OLD
    host = make_host(tenant, credential="the-first-credential")
    hook = open_subscription(ref(host), dialect="openwop-1", secret="a-secret-of-32-characters-at-least")
    make_host(tenant, "without")
    settings.CREDENTIALS_KEY = f"{NEW},{OLD}"
    told = rotate()
    assert "hosts: 1 sealed again, 0 sealed with" in told and "subscriptions: 1 sealed again" in told
    assert "hosts: 0 sealed again, 1 sealed with" in rotate()
    settings.CREDENTIALS_KEY = NEW
    assert vault.unseal(stored(host).sealed_credential) == "the-first-credential"
    with tenant_scope(tenant.pk):
        sealed = Subscription.objects.get(pk=hook.pk).sealed_secrets
    assert unseal_secrets(sealed) == ("a-secret-of-32-characters-at-least",)
    assert "credential" not in told.replace("credentials", "") and "a-secret" not in told


def test_what_no_key_opens_is_left_and_said(tenant: Tenant, settings: LazySettings) -> None:
    settings.CREDENTIALS_KEY = OLD
    host = make_host(tenant, credential="the-first-credential")
    before = stored(host).sealed_credential
    settings.CREDENTIALS_KEY = NEW
    with pytest.raises(CommandError, match="left as it is"):
        rotate()
    assert stored(host).sealed_credential == before


def test_every_sealed_column_is_one_that_the_command_knows() -> None:
    named = {
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if isinstance(field, models.Field) and "sealed" in field.name
    }
    assert {(Host, "sealed_credential"), (Subscription, "sealed_secrets")} <= named == set(sealed_columns())
