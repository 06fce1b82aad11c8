"""Secrets of a run, known for as long as it lasts: sealed, taken out of what is put for the run, gone with its end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from django.db import connection
from django.utils import timezone

from openwop_ui import vault
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import storable
from runs.models import Run

from .domain.errors import LedgerError
from .domain.redaction import SHORTEST_SECRET, BadSecretId, redact
from .models import RunSecret

MOST_SECRETS = 100
LONGEST_SECRET = 8192
UNHEARD = timedelta(days=1)
"""For so long the secrets of a run are kept of which nothing has been heard yet."""

_RUNS = UUID("6c1b1f2e-7a4c-4d3c-9b61-0e9b5d0c8a44")
_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


class SecretRefused(LedgerError):
    """Secrets that can not be registered. Names the place, never the secret."""


class RunHasEnded(LedgerError):
    """A run that is over has no secrets any more."""

    code = "run_ended"


def run_key(host_id: int, run_id: str) -> UUID:
    return uuid5(_RUNS, f"{host_id}:{run_id}")


def register(*, tenant_id: int, host_id: int, run_id: str, secrets: Mapping[str, str]) -> list[str]:
    """Keeps secrets, value by id, in place of those with the same ids. Returns the ids of the values that are too short
    to be looked for: they are not kept. Raises SecretRefused and RunHasEnded."""
    _check(secrets)
    kept = {secret_id: value for secret_id, value in secrets.items() if len(value) >= SHORTEST_SECRET}
    key = run_key(host_id, run_id)
    with tenant_scope(tenant_id, durable=True):
        # The run's end takes this lock, too: nothing is registered behind it.
        run = Run.objects.select_for_update().filter(tenant_id=tenant_id, host_id=host_id, run_id=storable(run_id))
        if any(one.status_is_terminal for one in run):
            raise RunHasEnded("the run is over", field="run")
        known = _known(tenant_id, key)
        if len(known | kept) > MOST_SECRETS:
            raise SecretRefused(f"there are more than {MOST_SECRETS} secrets of this run", field="secrets")
        try:
            redact("", secrets=known | kept)
        except BadSecretId as problem:
            raise SecretRefused(str(problem), field="secrets") from None
        RunSecret.objects.filter(tenant_id=tenant_id, run_key=key, secret_id__in=kept).delete()
        RunSecret.objects.bulk_create(
            RunSecret(
                tenant_id=tenant_id,
                run_key=key,
                secret_id=secret_id,
                host_id=host_id,
                run_id=storable(run_id),
                sealed=vault.seal(value),
                registered_at=timezone.now(),
            )
            for secret_id, value in kept.items()
        )
    return sorted(secrets.keys() - kept.keys())


def _check(secrets: Mapping[str, str]) -> None:
    for secret_id, value in secrets.items():
        if not _ID.fullmatch(secret_id):
            raise SecretRefused("an id has 1 to 128 letters, digits and any of . _ : / -", field="secrets")
        if not 0 < len(value) <= LONGEST_SECRET:
            raise SecretRefused(f"a secret has 1 to {LONGEST_SECRET} characters", field="secrets")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise SecretRefused("a secret is text that UTF-8 can say", field="secrets")


def forget(*, tenant_id: int, host_id: int, run_id: str) -> int:
    """Takes away the secrets of a run before its end. Returns how many there were."""
    with tenant_scope(tenant_id, durable=True):
        count, _ = RunSecret.objects.filter(tenant_id=tenant_id, run_key=run_key(host_id, run_id)).delete()
    return count


def secrets_of(tenant_id: int, host_id: int, run_id: str) -> dict[str, str]:
    """Value by id; none of a run that is over. Within the tenant's scope."""
    over = Run.objects.filter(
        tenant_id=tenant_id, host_id=host_id, run_id=storable(run_id), status_is_terminal=True
    ).exists()
    return {} if over else _known(tenant_id, run_key(host_id, run_id))


def _known(tenant_id: int, key: UUID) -> dict[str, str]:
    found = RunSecret.objects.filter(tenant_id=tenant_id, run_key=key).values_list("secret_id", "sealed")
    return {secret_id: vault.unseal(sealed) for secret_id, sealed in found}


def forget_ended(tenant_id: int, *, now: datetime | None = None) -> int:
    """Takes away the secrets of the runs that are over, and of those that were never heard of. Returns how many."""
    with tenant_scope(tenant_id, durable=True), connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM ledger_runsecret s WHERE s.tenant_id = %(tenant)s AND CASE
                WHEN EXISTS (SELECT FROM runs_run r WHERE r.tenant_id = s.tenant_id AND r.host_id = s.host_id
                    AND r.run_id = s.run_id)
                THEN EXISTS (SELECT FROM runs_run r WHERE r.tenant_id = s.tenant_id AND r.host_id = s.host_id
                    AND r.run_id = s.run_id AND r.status_is_terminal)
                ELSE s.registered_at < %(unheard)s END
            """,
            {"tenant": tenant_id, "unheard": (now or timezone.now()) - UNHEARD},
        )
        return int(cursor.rowcount)
