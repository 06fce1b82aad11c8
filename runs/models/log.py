"""Runs and the append-only log of their events. ``store`` is the only writer."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from .hosts import Host


class Run(models.Model):
    """One run of one host, with what its events add up to so far."""

    tenant_id = models.BigIntegerField()
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="runs", db_constraint=False, db_index=False)
    run_id = models.TextField()
    workflow_id = models.TextField(blank=True)
    status = models.TextField(default="pending")
    status_sequence = models.BigIntegerField(default=-1)
    status_is_terminal = models.BooleanField(default=False)
    started_at = models.DateTimeField(null=True)
    started_sequence = models.BigIntegerField(null=True)
    ended_at = models.DateTimeField(null=True)
    first_sequence = models.BigIntegerField(null=True)
    last_sequence = models.BigIntegerField(default=-1)
    contiguous_through = models.BigIntegerField(default=-1)
    event_count = models.BigIntegerField(default=0)
    write_count = models.BigIntegerField(default=0)
    attributed_count = models.BigIntegerField(default=0)
    revision = models.IntegerField(default=0)
    watched_through = models.BigIntegerField(db_default=-1)
    watched_revision = models.IntegerField(db_default=0)
    watch_state = models.BinaryField(db_default=b"")
    """Where looking for contradictions has got to in this log (``store.watching``)."""
    parent_run_id = models.TextField(blank=True, db_default="")
    parent_sequence = models.BigIntegerField(null=True)
    relation = models.TextField(blank=True, db_default="")
    """replay, branch, fork (a replay or a branch), child, or "" where nothing says so; never from likeness."""
    truncated = models.TextField(blank=True, db_default="")
    """Why an import of this run says it is not whole; "" where none does."""
    first_received_at = models.DateTimeField()
    last_received_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "host", "run_id"], name="run_identity"),
            models.UniqueConstraint(fields=["tenant_id", "id"], name="run_tenant_id"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "host", "-id"], name="run_by_host"),
            models.Index(fields=["tenant_id", "last_received_at"], name="run_by_activity"),
            models.Index(fields=["tenant_id", "status", "-id"], name="run_by_status"),
        ]


class RunAlias(models.Model):
    """Another name of a run: its id in the other major. ``run_id`` is None where several runs would have it."""

    pk = models.CompositePrimaryKey("tenant_id", "host", "alias")
    tenant_id = models.BigIntegerField()
    host = models.ForeignKey(
        Host, on_delete=models.PROTECT, related_name="run_aliases", db_constraint=False, db_index=False
    )
    alias = models.TextField()
    run_id = models.BigIntegerField(null=True)


class Event(models.Model):
    """One fact of a run's log. Written once, never changed.

    ``body`` is the event's own JSON text, so that numbers, unknown members and NULs are what the host sent.
    """

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    type = models.TextField()
    reported_type = models.TextField(null=True)  # noqa: DJ001 - null says "the same", the usual case, for a byte less
    node_id = models.TextField(null=True)  # noqa: DJ001 - null says the host named none
    agent_id = models.TextField(null=True)  # noqa: DJ001 - as above
    event_id = models.TextField(null=True)  # noqa: DJ001 - as above
    causation_id = models.TextField(null=True)  # noqa: DJ001 - as above
    occurred_at = models.DateTimeField()
    received_at = models.DateTimeField()
    digest = models.BinaryField(max_length=16)
    has_payload = models.BooleanField()
    body = models.TextField()


class EventCopy(models.Model):
    """A further copy of a known event that says more than the first (completion) or something else (contradiction)."""

    class Kind(models.TextChoices):
        COMPLETION = "completion"
        CONTRADICTION = "contradiction"

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence", "digest")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    digest = models.BinaryField(max_length=16)
    kind = models.TextField(choices=Kind.choices)
    body = models.TextField()
    occurred_at = models.DateTimeField()
    received_at = models.DateTimeField()


class Incident(models.Model):
    """A contradiction in what a host told us. Each is stored once, however often it is seen again."""

    class Kind(models.TextChoices):
        CHANGED_EVENT = "changed_event", "A known event came again with another content"
        CONTENT_LEAK = "content_leak", "Memory content in an event"
        CREDENTIAL_LEAK = "credential_leak", "A bearer credential in an event"
        CONFLICTING_MEMBERS = "conflicting_members", "Two spellings of one member disagree"
        FOREIGN_RUN = "foreign_run", "An event of another run in a run's stream"
        GAP = "gap", "Sequences missing in the middle of a log"
        LATE_EVENTS = "late_events", "Events after the run's end"
        MEMORY_AFTER_TERMINAL = "memory_after_terminal", "A memory write after the run's end"
        SECOND_TERMINAL = "second_terminal", "A second terminal event"
        SECOND_START = "second_start", "A second start of the run"
        TIME_REVERSAL = "time_reversal", "Time running backwards"
        TWIN_EVENT = "twin_event", "A vendor's twin of a memory event"
        EARLY_STATUS = "early_status", "A terminal status before its event"
        TRUNCATED = "truncated", "An import that is not whole"
        FOREIGN_TENANT = "foreign_tenant", "A delivery about another tenant's run"
        UNSTARTED_RUN = "unstarted_run", "A run that nobody here started"

    tenant_id = models.BigIntegerField()
    host = models.ForeignKey(
        Host, on_delete=models.PROTECT, related_name="incidents", db_constraint=False, db_index=False
    )
    run_id = models.BigIntegerField(null=True)
    sequence = models.BigIntegerField(null=True)
    kind = models.TextField(choices=Kind.choices)
    detail = models.JSONField(default=dict)
    fingerprint = models.UUIDField()
    noticed_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "fingerprint"], name="incident_once"),
            models.UniqueConstraint(fields=["tenant_id", "id"], name="incident_tenant_id"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "run_id", "sequence"], name="incident_by_run"),
            models.Index(fields=["tenant_id", "host", "-id"], name="incident_by_host"),
        ]
