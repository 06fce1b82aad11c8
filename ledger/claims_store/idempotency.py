"""A request that is sent again under its ``Idempotency-Key`` gets the answer that it got the first time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

LONGEST_KEY = 255


class KeyReused(ValueError):
    """The key came with another request before."""


@dataclass(frozen=True, slots=True)
class Kept:
    status: int
    body: str


def first_answer(
    tenant_id: int, *, key_id: int, idempotency_key: str, request_hash: bytes, at: datetime
) -> Kept | None:
    """None when the request is the first one; whoever sends it at the same time waits for the transaction to end.
    KeyReused when another request had the key."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_idempotentanswer"
            " (tenant_id, key_id, idempotency_key, request_hash, status, body, created_at)"
            " VALUES (%s, %s, %s, %s, 0, '', %s) ON CONFLICT DO NOTHING",
            [tenant_id, key_id, idempotency_key, request_hash, at],
        )
        if cursor.rowcount:
            return None
        cursor.execute(
            "SELECT request_hash, status, body FROM ledger_idempotentanswer"
            " WHERE tenant_id = %s AND key_id = %s AND idempotency_key = %s",
            [tenant_id, key_id, idempotency_key],
        )
        known, status, body = cursor.fetchone() or (b"", 0, "")
    if bytes(known) != request_hash:
        raise KeyReused("the Idempotency-Key was used for another request")
    return Kept(status, body)


def keep_answer(tenant_id: int, *, key_id: int, idempotency_key: str, kept: Kept) -> None:
    """In the transaction in which the request was the first one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_idempotentanswer SET status = %s, body = %s"
            " WHERE tenant_id = %s AND key_id = %s AND idempotency_key = %s",
            [kept.status, kept.body, tenant_id, key_id, idempotency_key],
        )
