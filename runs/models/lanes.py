"""The lanes of a run: nodes and their attempts, and its log as columns. All of it is derived from the log."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class RunNode(models.Model):
    """One lane of a run: what the events of a node add up to. Derived from the log."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "node_id")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    node_id = models.TextField()
    status = models.TextField(default="unknown")
    attempts = models.IntegerField(default=0)
    event_count = models.BigIntegerField(default=0)
    first_sequence = models.BigIntegerField()
    last_sequence = models.BigIntegerField()
    folded_through = models.BigIntegerField(default=-1)


class Attempt(models.Model):
    """One try of a node, from its start to its end, with its waits. Derived from the log."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "node_id", "ordinal")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    node_id = models.TextField()
    ordinal = models.IntegerField()
    from_sequence = models.BigIntegerField()
    to_sequence = models.BigIntegerField(null=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    status = models.TextField()
    start_seen = models.BooleanField()
    may_restart = models.BooleanField(default=False)
    label = models.TextField(blank=True)
    waits = models.JSONField(default=list)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "run_id", "node_id", "from_sequence"], name="attempt_of_lane"),
        ]


class EventChunk(models.Model):
    """A stretch of a run's log as columns (``domain.columns``); stale where the log has other than ``events``."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "number")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    number = models.BigIntegerField()
    events = models.IntegerField()
    body = models.BinaryField()
