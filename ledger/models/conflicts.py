"""Claims that cannot all be active, how each such conflict stands, what happened to it, and what people decided.

``Decision`` and ``ConflictChange`` are append-only. What a ``Conflict`` says is derived from claims and decisions; its
id and its revisions are not, so that people and programs can keep them.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from ..domain.decisions import Verdict
from .claims import RULES
from .sources import ANY_TENANT


class Conflict(models.Model):
    """``kind`` says what it is about: claims that compete, a text that resembles a claim, or claims whose values could
    not be compared.

    ``inputs`` is what was weighed, a finding for each period in question; ``explanation`` the rule with what goes into
    its sentence. ``follows`` is the decision that it came after, ``merged_into`` the conflict that it turned out to be.
    """

    class Kind(models.TextChoices):
        CONTEST = "contest"
        SUGGESTION = "suggestion"
        CHECK = "check"

    class State(models.TextChoices):
        OPEN = "open", "Open"
        DECIDED = "decided", "Decided"
        SUGGESTED = "suggested", "Suggested"
        CHECK_FAILED = "check_failed", "Check failed"
        DISSOLVED = "dissolved", "Dissolved"
        DISMISSED = "dismissed", "Dismissed"

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    kind = models.TextField(choices=Kind.choices)
    subject_key_id = models.UUIDField()
    scope = models.TextField()
    state = models.TextField(choices=State.choices)
    revision = models.IntegerField(default=1)
    opened_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    follows = models.UUIDField(null=True)
    decision_id = models.UUIDField(null=True)
    merged_into = models.UUIDField(null=True)
    rule = models.TextField(blank=True)
    policy = models.TextField(blank=True)
    explanation = models.JSONField(default=dict)
    inputs = models.JSONField(default=list)

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["tenant_id", "state", "-opened_at", "-id"], condition=ANY_TENANT, name="conflict_by_state"
            ),
            models.Index(fields=["tenant_id", "-opened_at", "-id"], condition=ANY_TENANT, name="conflict_by_time"),
            models.Index(fields=["subject_key_id", "tenant_id"], name="conflict_by_subject_key"),
        ]


class ConflictClaim(models.Model):
    """A claim of a conflict. Claims with one value are one side; sides are numbered by who spoke first."""

    pk = models.CompositePrimaryKey("tenant_id", "conflict_id", "claim_id")
    tenant_id = models.BigIntegerField()
    conflict_id = models.UUIDField()
    claim_id = models.UUIDField()
    side = models.SmallIntegerField(default=0)
    is_contender = models.BooleanField(default=False)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["tenant_id", "claim_id"], name="conflict_by_claim")]


class ConflictChange(models.Model):
    """What made a conflict's revision: what somebody who saw an earlier one is told."""

    class Change(models.TextChoices):
        OPENED = "opened"
        DECIDED = "decided"
        EXTENDED = "extended"
        REOPENED = "reopened"
        DISSOLVED = "dissolved"
        WEIGHED = "weighed"
        SUGGESTED = "suggested"
        DISMISSED = "dismissed"
        CHECK_FAILED = "check_failed"

    pk = models.CompositePrimaryKey("tenant_id", "conflict_id", "revision")
    tenant_id = models.BigIntegerField()
    conflict_id = models.UUIDField()
    revision = models.IntegerField()
    at = models.DateTimeField()
    change = models.TextField(choices=Change.choices)
    state = models.TextField(choices=Conflict.State.choices)
    added = ArrayField(models.UUIDField(), default=list)
    removed = ArrayField(models.UUIDField(), default=list)
    decision_id = models.UUIDField(null=True)
    actor = models.TextField(blank=True)
    rule = models.TextField(blank=True)


class Decision(models.Model):
    """What a person, or a program with a person's right, decided. ``ordinal`` counts the decisions about one key of a
    subject; ``undoes`` names the decision that this one takes back. ``inputs`` is what was weighed when it was made."""

    class ActorKind(models.TextChoices):
        PERSON = "person"
        KEY = "key"

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    subject_key_id = models.UUIDField()
    ordinal = models.IntegerField()
    conflict_id = models.UUIDField()
    verdict = models.TextField(choices=[(verdict.value, verdict.value) for verdict in Verdict])
    considered = ArrayField(models.UUIDField(), default=list)
    kept = models.UUIDField(null=True)
    placements = models.JSONField(default=list)
    undoes = models.UUIDField(null=True)
    follows = models.UUIDField(null=True)
    reason = models.TextField(blank=True)
    evidence = models.TextField(blank=True)
    revision = models.IntegerField()
    actor = models.TextField()
    actor_kind = models.TextField(choices=ActorKind.choices)
    user_id = models.BigIntegerField(null=True)
    key_id = models.BigIntegerField(null=True)
    decided_at = models.DateTimeField()
    policy = models.TextField()
    rule = models.TextField(blank=True, choices=RULES)
    inputs = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["subject_key_id", "ordinal", "tenant_id"], name="decision_ordinal"),
            models.UniqueConstraint(fields=["undoes", "tenant_id"], name="decision_undone_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["conflict_id", "tenant_id"], name="decision_by_conflict"),
            models.Index(fields=["tenant_id", "-decided_at", "-id"], condition=ANY_TENANT, name="decision_by_time"),
        ]
