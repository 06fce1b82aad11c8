"""Who may write, with how much authority, and what a tenant laid down about its keys.

Both have an id of their own, so that the admin site and plain foreign keys can name them.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from openwop_ui.tenancy.models import Tenant

from ..domain.key_registry import MAX_NAME_LENGTH
from ..domain.normalisers import Kind
from ..domain.writers import DEFAULT_PRIORITY


class ServiceWriter(models.Model):
    """A registered service identity. Retired, its authority still counts for what it said; it can say nothing new."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="writers", db_index=False)
    service_key = models.CharField(max_length=64)
    display_name = models.CharField(max_length=200, blank=True)
    default_priority = models.PositiveSmallIntegerField(
        default=DEFAULT_PRIORITY, validators=[MinValueValidator(0), MaxValueValidator(100)]
    )
    categories = models.JSONField(default=dict, blank=True, help_text='Priorities by category, e.g. {"fact": 80}.')
    revision = models.IntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["service_key"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "service_key"], name="writer_key_per_tenant"),
            models.UniqueConstraint(fields=["tenant", "id"], name="writer_tenant_id"),
        ]

    def __str__(self) -> str:
        return self.display_name or self.service_key


class ClaimKey(models.Model):
    """What a tenant laid down about one key; a key without a row has the built-in rule."""

    class Cardinality(models.TextChoices):
        SINGLE = "single", "One value at a time"
        MANY = "many", "Many values side by side"

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="claim_keys", db_index=False)
    category = models.CharField(max_length=MAX_NAME_LENGTH)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    cardinality = models.CharField(max_length=8, choices=Cardinality.choices, default=Cardinality.SINGLE)
    kind = models.CharField(
        max_length=16, choices=[(kind.value, kind.value) for kind in Kind], default=Kind.PLAIN.value
    )
    unit = models.CharField(max_length=64, blank=True, help_text="What a bare number means.")
    recency_between_equals = models.BooleanField(
        default=False, help_text="The newer of two writers of equal authority wins; otherwise a person is asked."
    )
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "claim key"
        ordering: ClassVar = ["category", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "category", "name"], name="claim_key_per_tenant"),
            models.UniqueConstraint(fields=["tenant", "id"], name="claim_key_tenant_id"),
        ]

    def __str__(self) -> str:
        return f"{self.category}: {self.name}"
