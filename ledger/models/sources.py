"""What claims rest on: observations by writers, and what became of reading each.

Texts of writers and hosts are kept in their storable form (`runs.domain.storable`); scopes, evidence and payloads are
JSON in ASCII, whose escapes can say everything.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

ANY_TENANT = models.Q(tenant_id__gt=0)
"""Of an index that begins with the tenant, on a table that foreign keys refer to. A session plans the check of such a
key once, mostly while the table is small and every such index looks as good as the primary key; and for any tenant, of
which this can not be proved. So it is left to the reads, which name one."""


class SourceEvent(models.Model):
    """One observation by a writer, under the writer's own event id. Append-only, but for the payload, which retention
    takes away: its hash stays.

    ``writer`` is a service key, or ``host:<slug>`` for an entry that a host holds; then ``entry_id`` and
    ``entry_number`` name the observation of the entry that was read. ``received_from`` is the credential that brought
    it. ``is_observed`` says that ``observed_at`` is the writer's own.
    """

    class Kind(models.TextChoices):
        ADD = "add"
        ENTRY = "entry"

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    kind = models.TextField(choices=Kind.choices)
    writer = models.TextField()
    event_id = models.TextField()
    subject = models.TextField()
    scope = models.TextField()
    observed_at = models.DateTimeField()
    is_observed = models.BooleanField()
    received_at = models.DateTimeField()
    received_from = models.TextField()
    payload_hash = models.BinaryField(max_length=32)
    evidence = models.TextField()
    payload = models.TextField(null=True)  # noqa: DJ001 - null: taken away
    payload_redacted_at = models.DateTimeField(null=True)
    entry_id = models.UUIDField(null=True)
    entry_number = models.IntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["writer", "event_id", "tenant_id"], name="source_event_identity"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "-received_at", "-id"], condition=ANY_TENANT, name="source_by_time"),
            models.Index(fields=["subject", "tenant_id", "-received_at", "-id"], name="source_by_subject"),
            models.Index(
                fields=["tenant_id", "entry_id", "entry_number"],
                condition=models.Q(entry_id__isnull=False),
                name="source_by_entry",
            ),
        ]


class Job(models.Model):
    """The reading of one source event: which extractor did it and what came of it. ``result`` is
    ``{claims, conflicts, nothing_to_extract}`` once it is done."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    source_event_id = models.UUIDField()
    status = models.TextField(choices=Status.choices)
    extractor = models.TextField(blank=True)
    result = models.JSONField(null=True)
    error = models.TextField(blank=True)
    attempts = models.IntegerField(default=0)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    next_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "source_event_id"], name="job_per_source_event"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant_id", "next_at"],
                condition=models.Q(next_at__isnull=False),
                name="job_due",
            ),
        ]


class IdempotentAnswer(models.Model):
    """What was answered to a request with an ``Idempotency-Key``, for when it is sent again."""

    pk = models.CompositePrimaryKey("tenant_id", "key_id", "idempotency_key")
    tenant_id = models.BigIntegerField()
    key_id = models.BigIntegerField()
    idempotency_key = models.TextField()
    request_hash = models.BinaryField(max_length=32)
    status = models.IntegerField()
    body = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["tenant_id", "created_at"], name="idempotent_answer_by_age")]


class UnreadEntry(models.Model):
    """An observation of a host's entry that is still to be read for claims. Gone once it has been."""

    pk = models.CompositePrimaryKey("tenant_id", "entry_id", "number")
    tenant_id = models.BigIntegerField()
    entry_id = models.UUIDField()
    number = models.IntegerField()
