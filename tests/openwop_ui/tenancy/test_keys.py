"""API keys: shown once, kept as a digest, found by what they are."""

from __future__ import annotations

import hashlib
import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from openwop_ui.tenancy.keys import USED_EVERY, create_api_key, find_caller, revoke
from openwop_ui.tenancy.models import ApiKey, Scope, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from tests.factories import make_key, make_tenant

pytestmark = pytest.mark.django_db


def kept(tenant: Tenant) -> ApiKey:
    with tenant_scope(tenant.pk):
        return ApiKey.objects.get(tenant_id=tenant.pk)


def test_what_is_kept_is_the_digest_and_the_first_characters() -> None:
    tenant = make_tenant()
    plain = make_key(tenant)
    row = kept(tenant)
    assert row.digest == hashlib.sha256(plain.encode()).hexdigest()
    assert plain.startswith(row.prefix)
    assert len(plain) - len(row.prefix) >= 32
    assert plain not in repr(row.__dict__)


def test_a_key_leads_to_its_tenant_and_scopes() -> None:
    first, second = make_tenant("acme"), make_tenant("globex")
    make_key(first)
    caller = find_caller(make_key(second, Scope.INGEST))
    assert caller is not None
    assert (caller.tenant_id, caller.tenant_slug, caller.scopes) == (second.pk, "globex", frozenset({"ingest"}))


@pytest.mark.parametrize(
    ("scopes", "may"),
    [({"read"}, {"read"}), ({"ingest", "write"}, {"ingest", "write"}), ({"admin"}, set(Scope.values))],
)
def test_a_scope_allows_itself_and_admin_allows_all(scopes: set[str], may: set[str]) -> None:
    caller = find_caller(make_key(make_tenant(), *scopes))
    assert caller is not None
    assert {scope for scope in Scope if caller.may(scope)} == may


@pytest.mark.parametrize("plain", ["", "owp_", "owp_unknown", "\x00", "\udcff", "x" * 100_000])
def test_an_unknown_key_leads_nowhere(plain: str) -> None:
    make_key(make_tenant())
    assert find_caller(plain) is None


def test_a_revoked_key_leads_nowhere_at_once() -> None:
    tenant = make_tenant()
    stored, plain = create_api_key(tenant_id=tenant.pk, name="n", scopes=["read"])
    assert revoke(tenant_id=tenant.pk, key_id=stored.pk) is True
    assert find_caller(plain) is None
    assert revoke(tenant_id=tenant.pk, key_id=stored.pk) is False


def test_another_tenant_can_not_revoke_a_key() -> None:
    stored, plain = create_api_key(tenant_id=make_tenant().pk, name="n", scopes=["read"])
    assert revoke(tenant_id=make_tenant("globex").pk, key_id=stored.pk) is False
    assert find_caller(plain) is not None


def test_its_use_is_noted_but_not_at_every_request() -> None:
    tenant = make_tenant()
    plain = make_key(tenant)
    began = timezone.now()
    noted = []
    for later in (timedelta(0), USED_EVERY / 2, USED_EVERY):
        find_caller(plain, now=began + later)
        noted.append(kept(tenant).last_used_at)
    assert noted == [began, began, began + USED_EVERY]


@pytest.mark.parametrize("scopes", [[], ["read", "root"]])
def test_a_key_without_a_known_scope_is_not_made(scopes: list[str]) -> None:
    tenant = make_tenant()
    with pytest.raises(ValueError, match="scopes"):
        create_api_key(tenant_id=tenant.pk, name="n", scopes=scopes)
    with tenant_scope(tenant.pk):
        assert not ApiKey.objects.exists()


def test_the_command_prints_the_key_alone() -> None:
    make_tenant()
    out = io.StringIO()
    call_command("create_api_key", tenant="acme", name="push", scopes="ingest, read", stdout=out)
    caller = find_caller(out.getvalue().removesuffix("\n"))
    assert caller is not None
    assert caller.scopes == {"ingest", "read"}


@pytest.mark.parametrize("told", [{"tenant": "nobody"}, {"scopes": "root"}, {"scopes": ","}])
def test_the_command_refuses_what_can_not_be(told: dict[str, str]) -> None:
    make_tenant()
    with pytest.raises(CommandError):
        call_command("create_api_key", **{"tenant": "acme", "name": "n", "scopes": "read"} | told)
