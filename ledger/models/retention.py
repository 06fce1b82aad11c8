"""What was taken away for good: tombstones, which keep the hashes, and how far retention has got in the logs."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Erasure(models.Model):
    """One erasure: when and by whom, of what, and how much went. Append-only, and without anything of the content.

    ``actor`` is ``person:<login>``, ``key:<name>`` or ``retention``. ``subject_hash`` is the SHA-256 of a subject's
    name. What retention takes away in one day under one period is one row, whose ``counts`` grow.
    """

    class Kind(models.TextChoices):
        ENTRY = "entry", "An entry"
        SUBJECT = "subject", "A subject"
        PAYLOADS = "payloads", "Payloads of source events"
        EVENTS = "events", "Payloads of runs' events"

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    kind = models.TextField(choices=Kind.choices)
    at = models.DateTimeField()
    actor = models.TextField()
    user_id = models.BigIntegerField(null=True)
    key_id = models.BigIntegerField(null=True)
    entry_id = models.UUIDField(null=True)
    subject_hash = models.BinaryField(max_length=32, null=True)
    counts = models.JSONField(default=dict)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["tenant_id", "-at", "-id"], name="erasure_by_time")]


class ErasedItem(models.Model):
    """One thing that went, with the SHA-256 of what it held, where it held a text. ``item`` is its id."""

    pk = models.CompositePrimaryKey("tenant_id", "erasure_id", "kind", "item")
    tenant_id = models.BigIntegerField()
    erasure_id = models.UUIDField()
    kind = models.TextField()
    item = models.TextField()
    digest = models.BinaryField(max_length=32, null=True)


class WithheldRun(models.Model):
    """How far the payloads of a run's events were taken away: up to and including ``through``, of the log that had
    ``event_count`` events. Derived, and gone through again when the log has others."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    through = models.BigIntegerField(default=-1)
    event_count = models.BigIntegerField(default=0)
    is_done = models.BooleanField(default=False)
    withheld_at = models.DateTimeField()
