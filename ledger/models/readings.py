"""What is remembered and who wrote it: a reading of the event log, and what was seen of the entries themselves.

``Observation`` holds facts of its own, ``ContentState`` how they are gathered; ``observations`` is their only writer.
All other rows are derived: ``store`` is their only writer, and dropping them and reading the log and the observations
again gives them back.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

CLOCK = models.Func(function="clock_timestamp", output_field=models.DateTimeField())
"""The time at which a row is made, and not that at which its transaction began."""


class MemoryScope(models.Model):
    """One memory ref of one host, and how many entries events name in it. Its id is derived from both."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    host_id = models.BigIntegerField()
    memory_ref = models.TextField()
    entry_count = models.BigIntegerField()


class MemoryEntry(models.Model):
    """An entry that events speak of or that was seen. Its id is derived from its address (host, memory ref, memory id).

    Without an event that names it, ``first_at`` and ``last_at`` are the time of its first observation, and it has no
    last run.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    scope_id = models.UUIDField()
    host_id = models.BigIntegerField()
    memory_ref = models.TextField()
    memory_id = models.TextField()
    write_count = models.BigIntegerField(default=0)
    attributed_count = models.BigIntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    last_run_id = models.BigIntegerField(null=True)
    last_sequence = models.BigIntegerField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "-last_at", "-id"], name="entry_by_last_write"),
            models.Index(fields=["tenant_id", "host_id", "-last_at"], name="entry_by_host"),
            # By id and not by name: a memory ref may be longer than an index takes.
            models.Index(fields=["tenant_id", "scope_id", "-last_at", "-id"], name="entry_by_scope"),
            models.Index(
                fields=["tenant_id", "-last_at", "-id"], condition=models.Q(write_count=0), name="entry_without_write"
            ),
        ]


class MemoryWrite(models.Model):
    """One ``memory.written``: which entry, by which node and agent, in which run at which sequence."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    entry_id = models.UUIDField(null=True)
    node_id = models.TextField(null=True)  # noqa: DJ001 - null says the host named none
    agent_id = models.TextField(null=True)  # noqa: DJ001 - as above
    tags = ArrayField(models.TextField(), default=list)
    occurred_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "entry_id", "-occurred_at"], name="write_by_entry"),
            models.Index(fields=["tenant_id", "-occurred_at"], name="write_by_time"),
            models.Index(
                fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"],
                condition=models.Q(node_id__isnull=True),
                name="write_without_node",
            ),
        ]


class Merge(models.Model):
    """One ``memory.compacted`` or ``agent.memory.consolidated``: entries that became fewer."""

    class Kind(models.TextChoices):
        COMPACTION = "compaction"
        CONSOLIDATION = "consolidation"

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    kind = models.TextField(choices=Kind.choices)
    memory_ref = models.TextField()
    output_id = models.UUIDField(null=True)
    source_count = models.BigIntegerField(null=True)
    output_count = models.BigIntegerField(null=True)
    byte_size = models.BigIntegerField(null=True)
    trigger = models.TextField(blank=True)
    sources_named = models.BooleanField()
    occurred_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "output_id"], name="merge_by_output"),
            models.Index(
                fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"],
                condition=models.Q(sources_named=False),
                name="merge_without_sources",
            ),
        ]


class MergeSource(models.Model):
    """An entry that a merge names as one of its sources."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence", "entry_id")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    entry_id = models.UUIDField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["tenant_id", "entry_id"], name="merge_source_by_entry")]


class TaggedSource(models.Model):
    """An entry that a tag of a write names as a source of the entry written. A hint: shown as one, never counted."""

    pk = models.CompositePrimaryKey("tenant_id", "run_id", "sequence", "entry_id")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    sequence = models.BigIntegerField()
    entry_id = models.UUIDField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["tenant_id", "entry_id"], name="tagged_source_by_entry")]


class ReadingCursor(models.Model):
    """How far a run's log has been read.

    ``read_beyond`` is the last sequence that was read, ``read_through`` the last one before a gap. ``event_count`` is
    how many events the log had up to ``read_beyond`` then: more of them now mean that one came late. Another
    ``revision`` of the run, or another ``reader``, means that all of it is read again.
    """

    pk = models.CompositePrimaryKey("tenant_id", "run_id")
    tenant_id = models.BigIntegerField()
    run_id = models.BigIntegerField()
    read_through = models.BigIntegerField(default=-1)
    read_beyond = models.BigIntegerField(default=-1)
    event_count = models.BigIntegerField(default=0)
    revision = models.IntegerField(default=0)
    reader = models.IntegerField(default=1)


class Observation(models.Model):
    """An entry as it was found at one moment, and kept because it differs from what was found before.

    Append-only, and numbered per entry. It names the entry by its address, so that an entry which no event speaks of
    outlives the derived rows. Finding the same again is no row: ``ContentState.seen_at`` tells of it, and the next
    different observation takes that time over into ``unchanged_until``, which is about the one before it.

    Entries that this ledger keeps itself are put, deleted and erased ``HERE``. ``recorded_at`` is when the row was
    made, null for rows from before there was such a time.
    """

    class Outcome(models.TextChoices):
        CONTENT = "content"
        GONE = "gone"
        DELETED = "deleted"
        ERASED = "erased"

    class Source(models.TextChoices):
        READ = "read"
        PUSH = "push"
        IMPORT = "import"
        HERE = "here"

    pk = models.CompositePrimaryKey("tenant_id", "entry_id", "number")
    tenant_id = models.BigIntegerField()
    entry_id = models.UUIDField()
    number = models.IntegerField()
    host_id = models.BigIntegerField()
    memory_ref = models.TextField()
    memory_id = models.TextField()
    outcome = models.TextField(choices=Outcome.choices)
    source = models.TextField(choices=Source.choices)
    observed_at = models.DateTimeField()
    recorded_at = models.DateTimeField(null=True, db_default=CLOCK)
    unchanged_until = models.DateTimeField(null=True)
    content = models.TextField(null=True)  # noqa: DJ001 - null says that none came, "" is a content
    digest = models.BinaryField(max_length=32, null=True)
    tags = ArrayField(models.TextField(), default=list)
    created_at_reported = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    redactions = models.IntegerField(default=0)
    looks_secret = models.BooleanField(default=False)
    detail = models.TextField(blank=True)


class ContentState(models.Model):
    """How the content of one entry stands, in short, and when its host is asked for it.

    ``outcome``, ``excerpt`` and ``expires_at`` sum up the observations up to ``number``; null says that there is none.
    ``expires_at`` is forgotten when an entry is gone before. ``error`` is why the last attempt brought nothing: that is
    no fact about the entry, so it stands here and not among the observations.
    """

    class Urgency(models.IntegerChoices):
        WRITTEN = 0
        BACKLOG = 1
        AGAIN = 2

    pk = models.CompositePrimaryKey("tenant_id", "entry_id")
    tenant_id = models.BigIntegerField()
    entry_id = models.UUIDField()
    host_id = models.BigIntegerField()
    number = models.IntegerField(default=0)
    outcome = models.TextField(null=True, choices=Observation.Outcome.choices)  # noqa: DJ001 - null: never seen
    excerpt = models.TextField(null=True)  # noqa: DJ001 - null: none that a list may show
    expires_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    unchanged = models.IntegerField(default=0)
    urgency = models.SmallIntegerField(choices=Urgency.choices, default=Urgency.BACKLOG)
    next_at = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0)
    error = models.TextField(blank=True)
    error_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["tenant_id", "host_id", "urgency", "next_at"],
                condition=models.Q(next_at__isnull=False),
                name="content_due",
            ),
            models.Index(
                fields=["tenant_id", "outcome", "expires_at"],
                condition=models.Q(outcome__isnull=False),
                name="content_by_outcome",
            ),
            models.Index(
                fields=["tenant_id", "host_id", "-error_at"],
                condition=models.Q(failures__gt=0),
                name="content_failed",
            ),
        ]
