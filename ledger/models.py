"""What is remembered and who wrote it: a reading of the event log.

All of these rows are derived. ``store`` is the only writer; dropping them and reading the log again gives them back.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models


class MemoryScope(models.Model):
    """One memory ref of one host, and how many entries events name in it. Its id is derived from both."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    host_id = models.BigIntegerField()
    memory_ref = models.TextField()
    entry_count = models.BigIntegerField()


class MemoryEntry(models.Model):
    """An entry that events speak of. Its id is derived from its address (host, memory ref, memory id)."""

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
    last_run_id = models.BigIntegerField()
    last_sequence = models.BigIntegerField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "-last_at", "-id"], name="entry_by_last_write"),
            models.Index(fields=["tenant_id", "host_id", "-last_at"], name="entry_by_host"),
            # By id and not by name: a memory ref may be longer than an index takes.
            models.Index(fields=["tenant_id", "scope_id", "-last_at", "-id"], name="entry_by_scope"),
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
        indexes: ClassVar = [models.Index(fields=["tenant_id", "output_id"], name="merge_by_output")]


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
