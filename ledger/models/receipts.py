"""What became of each memory write that an agent attempted. ``receipt_store`` is the only writer.

``Receipt`` is derived: dropping its rows and reading the log again gives them back.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models


class MemoryTools(models.Model):
    """The names under which a tenant's agents know their memory tools. Without a row the names are the usual ones."""

    tenant_id = models.BigIntegerField(primary_key=True)
    writes = ArrayField(models.TextField())
    reads = ArrayField(models.TextField())
    changed_at = models.DateTimeField()
    changed_by = models.TextField()


class Receipt(models.Model):
    """One attempt, at the event of its call, or of its return where the log shows no call.

    ``evidence`` is a list of [trace, sequence, whether that is inferred]. An address that was not told has no identity.
    ``entry_id`` is derived from the address of the entry that was answered or written, and there need not be such an
    entry. ``write_sequence`` is the ``memory.written`` that goes with it; ``repeats`` is an earlier attempt at the same
    effect. ``claimed_only``: the tool says it was done, and no event of the log shows it.
    """

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    host_id = models.BigIntegerField()
    occurred_at = models.DateTimeField()
    tool = models.TextField()
    state = models.TextField()
    reasons = ArrayField(models.TextField())
    evidence = models.JSONField()
    call_id = models.TextField(null=True)  # noqa: DJ001 - null says that none was told
    node_id = models.TextField(null=True)  # noqa: DJ001 - as above
    agent_id = models.TextField(null=True)  # noqa: DJ001 - as above
    digest = models.BinaryField(max_length=32, null=True)
    asked_key = models.TextField(null=True)  # noqa: DJ001 - as above
    asked_scope = models.TextField(null=True)  # noqa: DJ001 - as above
    asked_identity = models.TextField(null=True)  # noqa: DJ001 - as above
    returned_key = models.TextField(null=True)  # noqa: DJ001 - as above
    returned_scope = models.TextField(null=True)  # noqa: DJ001 - as above
    returned_identity = models.TextField(null=True)  # noqa: DJ001 - as above
    memory_ref = models.TextField(null=True)  # noqa: DJ001 - as above
    memory_id = models.TextField(null=True)  # noqa: DJ001 - as above
    entry_id = models.UUIDField(null=True)
    write_sequence = models.BigIntegerField(null=True)
    repeat = models.TextField()
    repeats = models.BigIntegerField(null=True)
    attempt = models.IntegerField()
    claimed_only = models.BooleanField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"], name="receipt_by_time"),
            models.Index(
                fields=["tenant_id", "state", "-occurred_at", "-run_id", "-sequence"], name="receipt_by_state"
            ),
            models.Index(
                fields=["tenant_id", "entry_id", "-occurred_at"],
                condition=models.Q(entry_id__isnull=False),
                name="receipt_by_entry",
            ),
            models.Index(
                fields=["tenant_id", "run_id", "write_sequence"],
                condition=models.Q(write_sequence__isnull=False),
                name="receipt_by_write",
            ),
            models.Index(
                fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"],
                condition=models.Q(claimed_only=True),
                name="receipt_claimed_only",
            ),
        ]


class ReceiptReading(models.Model):
    """Whether the receipts of a run are behind what was read of its log, and until when the run is left alone."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    is_stale = models.BooleanField()
    rest_until = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["tenant_id", "rest_until"], condition=models.Q(is_stale=True), name="receipt_reading_stale"
            )
        ]
