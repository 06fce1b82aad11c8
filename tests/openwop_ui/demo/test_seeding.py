"""The demo's tenants, logins, hosts and runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import call_command

from openwop_ui.demo import RECORDINGS, seeding
from openwop_ui.demo.seeding import HOST_KEY, RECORDED, seed
from openwop_ui.tenancy.models import Membership, Role, Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope
from openwop_ui.vault import unseal
from runs.models import Event, Host, Incident, Run

pytestmark = pytest.mark.django_db(transaction=True)

PORT = 8010


def tenant(slug: str) -> Tenant:
    with operator_scope():
        return Tenant.objects.get(slug=slug)


def counts() -> dict[str, tuple[int, ...]]:
    """Per tenant: members, hosts, runs, events, incidents."""
    told = {}
    for slug in ("demo", "other"):
        owner = tenant(slug)
        with tenant_scope(owner.pk):
            kinds = (Membership, Host, Run, Event, Incident)
            told[slug] = tuple(kind.objects.filter(tenant_id=owner.pk).count() for kind in kinds)
    return told


def test_everything_recorded_is_brought_in() -> None:
    brought = seed(host_port=PORT)

    files = list(RECORDINGS.glob("*/*.ndjson"))
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    assert brought == len(files) + 2
    assert counts()["demo"][:4] == (3, len(RECORDED) + 1, len(files), lines)
    assert counts()["other"][:4] == (1, 1, 2, 10)


def test_nothing_recorded_is_refused_or_marked() -> None:
    seed(host_port=PORT)
    owner = tenant("demo")

    with tenant_scope(owner.pk):
        incidents = Incident.objects.filter(tenant_id=owner.pk)
        assert list(incidents.values_list("kind", flat=True)) == []
        leaking = Host.objects.filter(tenant_id=owner.pk, leaking_since__isnull=False)
        assert list(leaking) == []


def test_a_second_time_changes_nothing_and_is_quick() -> None:
    seed(host_port=PORT)
    before = counts()
    started = time.perf_counter()
    assert seed(host_port=PORT) == 0

    assert time.perf_counter() - started < 1.0
    assert counts() == before


def test_what_came_half_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "openwop-app/memory-trail.ndjson"
    half = tmp_path / name
    half.parent.mkdir()
    half.write_bytes(b"".join((RECORDINGS / name).read_bytes().splitlines(keepends=True)[:7]))
    with monkeypatch.context() as patched:
        patched.setattr(seeding, "RECORDINGS", tmp_path)
        assert seed(host_port=PORT) == 1 + 2
        assert counts()["demo"][2:4] == (1, 7)

    files = list(RECORDINGS.glob("*/*.ndjson"))
    assert seed(host_port=PORT) == len(files)
    assert counts()["demo"][2] == len(files)


@pytest.mark.parametrize(
    ("name", "slug", "role", "is_staff"),
    [
        ("dev", "demo", Role.REVIEWER, False),
        ("reviewer", "demo", Role.REVIEWER, False),
        ("admin", "demo", Role.ADMIN, True),
        ("outsider", "other", Role.ADMIN, False),
    ],
)
def test_logins(name: str, slug: str, role: Role, is_staff: bool) -> None:
    seed(host_port=PORT)

    user = authenticate(username=name, password=name)
    assert isinstance(user, User)
    assert (user.is_staff, user.is_superuser) == (is_staff, False)
    owner = tenant(slug)
    with tenant_scope(owner.pk):
        memberships = list(Membership.objects.filter(user=user).values_list("tenant__slug", "role"))
    assert memberships == [(slug, role)]


def test_a_changed_password_is_kept() -> None:
    seed(host_port=PORT)
    user = User.objects.get(username="dev")
    user.set_password("mine")
    user.save()
    seed(host_port=PORT)

    assert authenticate(username="dev", password="mine") is not None
    assert authenticate(username="dev", password="dev") is None


def test_the_demo_host_is_followed_where_it_listens() -> None:
    seed(host_port=PORT)
    seed(host_port=PORT + 1)
    owner = tenant("demo")

    with tenant_scope(owner.pk):
        hosts = {host.slug: host for host in Host.objects.filter(tenant_id=owner.pk)}
    assert hosts["demo"].origin == f"http://127.0.0.1:{PORT + 1}"
    assert unseal(hosts["demo"].sealed_credential) == HOST_KEY
    assert {slug for slug, host in hosts.items() if host.origin} == {"demo"}


def test_the_other_tenants_every_value_says_whose_it_is() -> None:
    seed(host_port=PORT)
    owner = tenant("other")

    with tenant_scope(owner.pk):
        bodies = [json.loads(body) for body in Event.objects.filter(tenant_id=owner.pk).values_list("body", flat=True)]
    marks = [json.dumps(body).count("other-tenant-secret-") for body in bodies]
    assert len(bodies) == 10
    assert min(marks) >= 2


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("seed_demo")
    call_command("seed_demo")
    call_command("seed_demo", verbosity=0)

    files = len(list(RECORDINGS.glob("*/*.ndjson")))
    assert capsys.readouterr().out == f"{files + 2} runs brought in\nthe demo is there already\n"
