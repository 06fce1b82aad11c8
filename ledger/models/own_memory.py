"""Memory that this ledger keeps itself: what was put here and deleted by whom, and the snapshots that runs read.

``OwnPut``, ``OwnDelete`` and ``RunSnapshot`` are facts and append-only. The content of an entry is its first
observation, like that of any entry that was seen; these rows say what an observation does not: who acted, with which
credential, for which run.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models


class OwnPut(models.Model):
    """An entry that was put here, under an id of our own making. Entries never change: there is one put of each.

    ``run_host_id`` and ``run_id`` name the run that it was put for, as the caller said. ``key_id``, ``key_name`` and
    ``writer`` are the credential's, as they were then; ``redacted`` are the names of the secrets that were taken out.
    """

    pk = models.CompositePrimaryKey("tenant_id", "entry_id")
    tenant_id = models.BigIntegerField()
    entry_id = models.UUIDField()
    scope_id = models.UUIDField()
    host_id = models.BigIntegerField()
    memory_ref = models.TextField()
    memory_id = models.TextField()
    tags = ArrayField(models.TextField(), default=list)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    run_host_id = models.BigIntegerField(null=True)
    run_id = models.TextField(blank=True)
    key_id = models.BigIntegerField()
    key_name = models.TextField()
    writer = models.TextField(blank=True)
    redacted = ArrayField(models.TextField(), default=list)


class OwnDelete(models.Model):
    """That an entry was deleted here, and with which credential."""

    pk = models.CompositePrimaryKey("tenant_id", "entry_id")
    tenant_id = models.BigIntegerField()
    entry_id = models.UUIDField()
    deleted_at = models.DateTimeField()
    key_id = models.BigIntegerField()
    key_name = models.TextField()
    writer = models.TextField(blank=True)


class RunSnapshot(models.Model):
    """The moment whose memory a run reads, kept when it is first asked for: what is learned of the run later does not
    move it. ``of_run_id`` is the run whose start it is, another one for a replay."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    of_run_id = models.BigIntegerField()
    taken_at = models.DateTimeField()
    noted_at = models.DateTimeField()


class RunSecret(models.Model):
    """A secret of a run, sealed. Not a fact: it is gone with the run's end. ``run_key`` is derived from the run's
    address, so that secrets may be registered before the run's first event is here."""

    pk = models.CompositePrimaryKey("tenant_id", "run_key", "secret_id")
    tenant_id = models.BigIntegerField()
    run_key = models.UUIDField()
    secret_id = models.CharField(max_length=128)
    host_id = models.BigIntegerField()
    run_id = models.TextField()
    sealed = models.TextField()
    registered_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "host_id", "registered_at"], name="run_secret_by_age"),
        ]
