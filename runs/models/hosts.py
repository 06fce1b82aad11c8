"""Hosts, how each is followed, what it says of itself, and the webhooks it delivers by."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from django.db import models

from openwop_ui.tenancy.models import SLUG, Tenant


class Host(models.Model):
    """One OpenWOP server that a tenant follows or that delivers to it."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="hosts", db_index=False)
    slug = models.CharField(max_length=63, validators=[SLUG])
    name = models.CharField(max_length=200, blank=True)
    origin = models.CharField(
        max_length=300, blank=True, help_text="Where the host answers, e.g. https://agents.example"
    )
    major = models.PositiveSmallIntegerField(null=True, blank=True, editable=False)
    sealed_credential = models.TextField(blank=True, editable=False)
    following = models.BooleanField(default=True, help_text="Runs of a host with an origin are followed.")
    memory_route = models.TextField(blank=True, editable=False)
    """How the host's memory is read: the name of a preset, or a route of its own as JSON; "" is not read."""
    leaking_since = models.DateTimeField(null=True, blank=True, editable=False)
    lists_runs = models.BooleanField(null=True, blank=True, editable=False)
    """Whether it has a list of its runs. Without one, runs are followed that became known in another way."""
    listed_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["slug"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="host_slug_per_tenant"),
            models.UniqueConstraint(fields=["tenant", "id"], name="host_tenant_id"),
        ]

    def __str__(self) -> str:
        return self.name or self.slug


class Follow(models.Model):
    """How following one run of a host is going, and which worker does it: until its lease ends, or it renews it."""

    tenant_id = models.BigIntegerField()
    host = models.ForeignKey(
        Host, on_delete=models.PROTECT, related_name="follows", db_constraint=False, db_index=False
    )
    run_id = models.TextField()
    phase = models.TextField(default="waiting")
    connected_since = models.DateTimeField(null=True)
    last_event_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True)
    retry_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    asked_here = models.BooleanField(db_default=False)
    """The run was begun from here, as a fork."""
    paused = models.BooleanField(db_default=False)
    leased_by = models.TextField(blank=True)
    leased_until = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "host", "run_id"], name="follow_identity"),
            models.UniqueConstraint(fields=["tenant_id", "id"], name="follow_tenant_id"),
        ]


class HostDocument(models.Model):
    """A host's discovery document as it was from ``read_at`` on; the next row is the next different one."""

    tenant_id = models.BigIntegerField()
    host = models.ForeignKey(
        Host, on_delete=models.PROTECT, related_name="documents", db_constraint=False, db_index=False
    )
    digest = models.BinaryField(max_length=32)
    body = models.TextField()
    read_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "id"], name="hostdocument_tenant_id"),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant_id", "host", "-id"], name="document_by_host")]


class Subscription(models.Model):
    """One webhook of a host: where it delivers (``/hooks/<id>``), in which dialect, signed with which secrets."""

    class State(models.TextChoices):
        ACTIVE = "active"
        ENDED = "ended"

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    tenant_id = models.BigIntegerField()
    host = models.ForeignKey(
        Host, on_delete=models.PROTECT, related_name="subscriptions", db_constraint=False, db_index=False
    )
    dialect = models.TextField()
    sealed_secrets = models.TextField(blank=True)
    """A JSON list of the secrets that are live now, newest first, sealed."""
    remote_id = models.TextField(blank=True)
    """The host's own id of the subscription, where this side registered it."""
    state = models.TextField(choices=State.choices, default=State.ACTIVE)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    last_delivery_at = models.DateTimeField(null=True)
    accepted_count = models.BigIntegerField(default=0)
    refused_count = models.BigIntegerField(default=0)
    dead_count = models.BigIntegerField(db_default=0)
    last_dead_at = models.DateTimeField(null=True)
    """Of what the host gave up delivering: how much of it, and when the newest."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "id"], name="subscription_tenant_id"),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant_id", "host"], name="subscription_by_host")]


class Delivery(models.Model):
    """What became of one webhook request. Only its outcome is kept: the event is in the log."""

    class Outcome(models.TextChoices):
        ACCEPTED = "accepted"
        REPEATED = "repeated"
        TEST = "test"
        REFUSED = "refused"

    tenant_id = models.BigIntegerField()
    subscription = models.ForeignKey(
        Subscription, on_delete=models.CASCADE, related_name="deliveries", db_constraint=False, db_index=False
    )
    outcome = models.TextField(choices=Outcome.choices)
    reason = models.TextField(blank=True)
    run_id = models.TextField(blank=True)
    sequence = models.BigIntegerField(null=True)
    received_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "id"], name="delivery_tenant_id"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant_id", "subscription", "-id"], name="delivery_by_subscription"),
        ]
