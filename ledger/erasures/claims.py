"""Takes claims and what they rest on away: they are taken back and settled without them, and then lose their texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from runs.domain.storable import original

from ..claims_store.actor import Actor
from ..claims_store.conflict_rows import Cause
from ..claims_store.loading import load, lock_known, subject_key_id
from ..claims_store.revising import store_withdrawals
from ..claims_store.rules import share_rules
from ..claims_store.settling import settle
from ..domain.erasing import ERASED, Quotes, scrubbed, spellings
from ..domain.key_registry import Key
from ..queries.paging import rows_of

WHY = "erased"


def erase_claims(tenant_id: int, claims: Sequence[UUID], quotes: Quotes, actor: Actor, at: datetime) -> None:
    """The caller holds the rules, and has said that facts may lose their texts."""
    if not claims:
        return
    keys = [row[0] for row in rows_of(
        "SELECT DISTINCT subject_key_id FROM ledger_claimrow WHERE tenant_id = %s AND id = ANY (%s::uuid[])",
        [tenant_id, list(claims)],
    )]  # fmt: skip
    _take_back(tenant_id, keys, set(claims), actor, at)
    _empty_claims(tenant_id, claims)
    _read_again(tenant_id, keys, actor, at)
    _empty_conflicts(tenant_id, claims, quotes)


def _take_back(tenant_id: int, keys: Sequence[UUID], claims: set[UUID], actor: Actor, at: datetime) -> None:
    rules = share_rules(tenant_id)
    ledgers = lock_known(tenant_id, sorted(keys))
    load(tenant_id, ledgers, rules.keys)
    standing = [
        claim for ledger in ledgers.values() for claim in ledger.claims if claim.id in claims and not claim.withdrawn
    ]
    store_withdrawals(tenant_id, ledgers.values(), standing, actor, at, reason=WHY)
    settle(tenant_id, ledgers.values(), rules.rules, Cause(at, actor.label))


def _read_again(tenant_id: int, keys: Sequence[UUID], actor: Actor, at: datetime) -> None:
    """What is derived from the values is derived from what stands in their place now."""
    rules = share_rules(tenant_id)
    ledgers = lock_known(tenant_id, sorted(keys))
    for ledger in ledgers.values():
        ledger.reading = ""
    load(tenant_id, ledgers, rules.keys)
    settle(tenant_id, ledgers.values(), rules.rules, Cause(at, actor.label))


def _empty_claims(tenant_id: int, claims: Sequence[UUID]) -> None:
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "claims": list(claims),
        "erased": ERASED,
        "value": json.dumps(ERASED),
        "why": WHY,
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_claimrow SET value = %(value)s, display = %(erased)s, normal = NULL, problem = '',"
            " content = '' WHERE tenant_id = %(tenant)s AND id = ANY (%(claims)s::uuid[])",
            values,
        )
        cursor.execute(
            "UPDATE ledger_claimrevision SET content = '', reason = CASE WHEN reason IN ('', %(why)s) THEN reason"
            " ELSE %(erased)s END WHERE tenant_id = %(tenant)s AND claim_id = ANY (%(claims)s::uuid[])",
            values,
        )


def _empty_conflicts(tenant_id: int, claims: Sequence[UUID], quotes: Quotes) -> None:
    """Of conflicts that one of the claims was in, what was weighed and what people wrote about it."""
    touched = rows_of(
        """
        SELECT id, explanation FROM ledger_conflict WHERE tenant_id = %(tenant)s AND id IN (
            SELECT conflict_id FROM ledger_conflictclaim
            WHERE tenant_id = %(tenant)s AND claim_id = ANY (%(claims)s::uuid[])
            UNION SELECT conflict_id FROM ledger_conflictchange WHERE tenant_id = %(tenant)s
                AND (added && %(claims)s::uuid[] OR removed && %(claims)s::uuid[])
            UNION SELECT conflict_id FROM ledger_decision WHERE tenant_id = %(tenant)s
                AND (considered && %(claims)s::uuid[] OR kept = ANY (%(claims)s::uuid[])
                    OR id IN (SELECT decision_id FROM ledger_claimrow
                        WHERE tenant_id = %(tenant)s AND id = ANY (%(claims)s::uuid[]))))
        """,
        {"tenant": tenant_id, "claims": list(claims)},
    )
    with connection.cursor() as cursor:
        for conflict, explanation in touched:
            told = json.loads(explanation) if isinstance(explanation, str) else explanation
            cursor.execute(
                "UPDATE ledger_conflict SET explanation = %s, inputs = '[]' WHERE tenant_id = %s AND id = %s",
                [json.dumps(_without_words(told, quotes)), tenant_id, conflict],
            )
        cursor.execute(
            "UPDATE ledger_decision SET inputs = '[]', reason = CASE WHEN reason = '' THEN '' ELSE %(erased)s END,"
            " evidence = CASE WHEN evidence = '' THEN '' ELSE %(erased)s END"
            " WHERE tenant_id = %(tenant)s AND conflict_id = ANY (%(conflicts)s::uuid[])",
            {"erased": ERASED, "tenant": tenant_id, "conflicts": [conflict for conflict, _ in touched]},
        )


def _without_words(explanation: Any, quotes: Quotes) -> Any:
    told = scrubbed(explanation, quotes)
    if isinstance(told, dict):
        told = {name: ERASED if name in ("reason", "problems", "error") else value for name, value in told.items()}
    return told


def erase_sources(tenant_id: int, sources: Sequence[UUID], at: datetime) -> None:
    """Payloads and evidence go, the hash and the writer's own event id stay. What waits to be read is read no more."""
    values: dict[str, Any] = {"tenant": tenant_id, "sources": list(sources), "at": at}
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_sourceevent SET payload = NULL, evidence = '[]',"
            " payload_redacted_at = CASE WHEN payload IS NULL THEN payload_redacted_at ELSE %(at)s END"
            " WHERE tenant_id = %(tenant)s AND id = ANY (%(sources)s::uuid[])",
            values,
        )
        cursor.execute(
            "UPDATE ledger_job SET error = '', next_at = NULL,"
            " status = CASE WHEN status IN ('queued', 'running') THEN 'done' ELSE status END,"
            " finished_at = coalesce(finished_at, %(at)s), result = coalesce(result,"
            ' \'{"claims": [], "conflicts": [], "nothing_to_extract": true}\')'
            " WHERE tenant_id = %(tenant)s AND source_event_id = ANY (%(sources)s::uuid[])",
            values,
        )


def forget_answers(tenant_id: int, quotes: Quotes) -> None:
    """Answers that were kept for the case that a request is sent again."""
    parts = [spelling for text in (*quotes.texts, *quotes.words) for spelling in spellings(text)]
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM ledger_idempotentanswer a WHERE a.tenant_id = %s AND EXISTS ("
            "SELECT FROM unnest(%s::text[]) AS t (part) WHERE position(t.part IN a.body) > 0)",
            [tenant_id, parts],
        )


def rename_subject(tenant_id: int, subject: str, name: str) -> None:
    """What is left of a subject's keys is another subject's: whatever is said of it later begins anew."""
    keys = rows_of(
        "SELECT id, category, key, revision, decision_count, reading FROM ledger_subjectkey"
        " WHERE tenant_id = %s AND subject = %s ORDER BY id FOR UPDATE",
        [tenant_id, subject],
    )
    with connection.cursor() as cursor:
        for old, category, key, *rest in keys:
            new = subject_key_id(name, Key(original(category), original(key)))
            cursor.execute(
                "INSERT INTO ledger_subjectkey"
                " (tenant_id, id, subject, category, key, revision, decision_count, reading)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                [tenant_id, new, name, category, key, *rest],
            )
            for table in ("claimrow", "conflict", "decision", "claimstate", "holding"):
                cursor.execute(
                    f"UPDATE ledger_{table} SET subject_key_id = %s"  # noqa: S608 - constants
                    " WHERE tenant_id = %s AND subject_key_id = %s",
                    [new, tenant_id, old],
                )
            cursor.execute(
                "UPDATE ledger_claimstate SET subject = %s WHERE tenant_id = %s AND subject_key_id = %s",
                [name, tenant_id, new],
            )
            cursor.execute("DELETE FROM ledger_subjectkey WHERE tenant_id = %s AND id = %s", [tenant_id, old])
        cursor.execute(
            "UPDATE ledger_sourceevent SET subject = %s WHERE tenant_id = %s AND subject = %s",
            [name, tenant_id, subject],
        )
