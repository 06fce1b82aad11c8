"""Statements about subjects, with their revisions, and which of them holds when.

``ClaimRow`` and ``ClaimRevision`` are facts and append-only. ``ClaimState`` and ``Holding`` are derived: settling a
subject's key again from its claims and decisions gives the same rows.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models

from ..domain.policy import Rule
from ..domain.settlement import Status

STATUSES = [(status.value, status.value.replace("_", " ")) for status in Status]
RULES = [(rule.value, rule.value.replace("_", " ")) for rule in Rule]


class SubjectKey(models.Model):
    """One key of one subject: what is locked while its claims are settled. Its id is derived from all three.

    ``reading`` names the rule by which the values of its claims were read last. ``stale_since`` says that authority or
    the key's rule has changed since it was settled.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    subject = models.TextField()
    category = models.TextField()
    key = models.TextField()
    revision = models.IntegerField(default=0)
    decision_count = models.IntegerField(default=0)
    reading = models.TextField(blank=True)
    stale_since = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["subject", "tenant_id"], name="subject_key_by_subject"),
            models.Index(
                fields=["tenant_id", "stale_since", "id"],
                condition=models.Q(stale_since__isnull=False),
                name="subject_key_stale",
            ),
        ]


class ClaimRow(models.Model):
    """The first revision of a claim, in full, with its origin: a source event, or the decision that made it.

    ``value`` is what was said, as JSON; ``normal`` is its form under the rule of that time, null where there was none,
    and then ``problem`` says why.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    subject_key_id = models.UUIDField()
    scope = models.TextField()
    value = models.TextField()
    display = models.TextField()
    normal = models.TextField(null=True)  # noqa: DJ001 - null: none
    normaliser = models.TextField()
    problem = models.TextField(blank=True)
    content = models.TextField(blank=True)
    valid_from = models.DateTimeField(null=True)
    valid_to = models.DateTimeField(null=True)
    confidence = models.FloatField(null=True)
    writer = models.TextField()
    observed_at = models.DateTimeField()
    received_at = models.DateTimeField()
    ordinal = models.IntegerField(default=0)
    extractor = models.TextField(blank=True)
    source_event_id = models.UUIDField(null=True)
    decision_id = models.UUIDField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(source_event_id__isnull=False, decision_id__isnull=True)
                | models.Q(source_event_id__isnull=True, decision_id__isnull=False),
                name="claim_has_one_origin",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["subject_key_id", "tenant_id"], name="claim_by_subject_key"),
            models.Index(fields=["source_event_id", "tenant_id"], name="claim_by_source_event"),
            models.Index(fields=["writer", "tenant_id", "subject_key_id"], name="claim_by_writer"),
        ]


class ClaimRevision(models.Model):
    """A later revision of a claim: what it says better, or that it was taken back. By whom, in ``revised_by``."""

    pk = models.CompositePrimaryKey("tenant_id", "claim_id", "revision")
    tenant_id = models.BigIntegerField()
    claim_id = models.UUIDField()
    revision = models.IntegerField()
    scope = models.TextField()
    content = models.TextField(blank=True)
    valid_from = models.DateTimeField(null=True)
    valid_to = models.DateTimeField(null=True)
    confidence = models.FloatField(null=True)
    withdrawn = models.BooleanField(default=False)
    revised_by = models.TextField()
    revised_by_kind = models.TextField()
    reason = models.TextField(blank=True)
    received_at = models.DateTimeField()


class ClaimState(models.Model):
    """How a claim stands. ``revision`` is its latest, ``normal`` its value as it is read now, ``to_claim`` the claim
    that stands in its place or before it."""

    pk = models.CompositePrimaryKey("tenant_id", "claim_id")
    tenant_id = models.BigIntegerField()
    claim_id = models.UUIDField()
    subject_key_id = models.UUIDField()
    subject = models.TextField()
    status = models.TextField(choices=STATUSES)
    rule = models.TextField(blank=True, choices=RULES)
    to_claim = models.UUIDField(null=True)
    revision = models.IntegerField(default=1)
    normal = models.TextField(null=True)  # noqa: DJ001 - null: it has none
    normaliser = models.TextField()
    problem = models.TextField(blank=True)
    observed_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["tenant_id", "subject", "status", "-observed_at", "-claim_id"], name="claim_state_by_subject"
            ),
            models.Index(fields=["tenant_id", "-observed_at", "-claim_id"], name="claim_state_by_time"),
            models.Index(fields=["tenant_id", "subject_key_id"], name="claim_state_by_subject_key"),
            models.Index(
                fields=["tenant_id", "to_claim"], condition=models.Q(to_claim__isnull=False), name="claim_state_by_to"
            ),
        ]


class Holding(models.Model):
    """An active claim and the time for which it is. In one lane, a single-valued key in a scope or one value of a
    many-valued key, never two at once: the database sees to it."""

    pk = models.CompositePrimaryKey("tenant_id", "claim_id", "valid")
    tenant_id = models.BigIntegerField()
    claim_id = models.UUIDField()
    valid = DateTimeRangeField()
    lane = models.UUIDField()
    subject_key_id = models.UUIDField()
    scope = models.TextField()
    rule = models.TextField(choices=RULES)
    is_open = models.BooleanField(default=False)
    decision_id = models.UUIDField(null=True)

    class Meta:
        constraints: ClassVar = [
            ExclusionConstraint(
                name="one_holding_at_a_time",
                expressions=[
                    ("tenant_id", RangeOperators.EQUAL),
                    ("lane", RangeOperators.EQUAL),
                    ("valid", RangeOperators.OVERLAPS),
                ],
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant_id", "subject_key_id"], name="holding_by_subject_key")]
