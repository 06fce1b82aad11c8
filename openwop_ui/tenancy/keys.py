"""API keys: made, hashed, looked up.

A key is 32 random bytes, so one SHA-256 is enough to keep it: there is nothing to guess that a slow hash would slow.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from .models import ApiKey, Scope
from .scope import key_scope, tenant_scope

PREFIX = "owp_"
USED_EVERY = timedelta(minutes=1)
"""``last_used_at`` is as fine as this, so that a busy key does not write a row per request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The program behind a request: the tenant and scopes its key gives it, and the writer that it speaks for."""

    tenant_id: int
    tenant_slug: str
    key_id: int
    scopes: frozenset[str]
    writer: str | None = None
    name: str = ""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def new_key() -> tuple[str, str, str]:
    """A fresh key: its plain text, the part of it that stays visible, and its digest."""
    plain = PREFIX + secrets.token_urlsafe(32)
    return plain, plain[: len(PREFIX) + 6], digest_of(plain)


def create_api_key(
    *, tenant_id: int, name: str, scopes: Iterable[str], writer: str | None = None
) -> tuple[ApiKey, str]:
    """Stores a new key and returns it with its plain text, which is not kept and can not be shown again.

    Raises ValueError on an unknown scope, with its name.
    """
    wanted = list(dict.fromkeys(scopes))
    unknown = [scope for scope in wanted if scope not in Scope.values]
    if unknown or not wanted:
        raise ValueError(f"scopes: {', '.join(unknown) or 'none given'}; use {', '.join(Scope.values)}")
    plain, prefix, digest = new_key()
    with tenant_scope(tenant_id):
        stored = ApiKey.objects.create(
            tenant_id=tenant_id,
            name=name,
            prefix=prefix,
            digest=digest,
            scopes=wanted,
            writer=writer or None,
        )
    return stored, plain


def find_caller(plain: str, *, now: datetime | None = None) -> Caller | None:
    """The caller behind a key, or None when it is unknown or revoked: the two are not told apart."""
    digest = digest_of(plain)
    with key_scope(digest):
        key = (
            ApiKey.objects.filter(digest=digest, revoked_at__isnull=True)
            .values("id", "tenant_id", "tenant__slug", "scopes", "last_used_at", "writer", "name")
            .first()
        )
    if key is None:
        return None
    _note_use(key["tenant_id"], key["id"], key["last_used_at"], now or timezone.now())
    return Caller(
        tenant_id=key["tenant_id"],
        tenant_slug=key["tenant__slug"],
        key_id=key["id"],
        scopes=frozenset(key["scopes"]),
        writer=key["writer"] or None,
        name=key["name"],
    )


def _note_use(tenant_id: int, key_id: int, last_used_at: datetime | None, now: datetime) -> None:
    if last_used_at is not None and now - last_used_at < USED_EVERY:
        return
    with tenant_scope(tenant_id):
        ApiKey.objects.filter(tenant_id=tenant_id, id=key_id).update(last_used_at=now)


def revoke(*, tenant_id: int, key_id: int) -> bool:
    """Ends a key. True when this call ended it."""
    with tenant_scope(tenant_id):
        return bool(
            ApiKey.objects.filter(tenant_id=tenant_id, id=key_id, revoked_at__isnull=True).update(
                revoked_at=timezone.now()
            )
        )
