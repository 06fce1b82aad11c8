"""Tenants, who belongs to them, and the keys programs use. Everything else that is stored belongs to a tenant."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models

SLUG = RegexValidator(
    r"\A[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z",
    "Use 1 to 63 lower-case letters, digits and inner hyphens.",
)


class Role(models.TextChoices):
    """What a member may do. Each role includes the ones before it."""

    VIEWER = "viewer", "Viewer: reads"
    REVIEWER = "reviewer", "Reviewer: reads, settles conflicts, brings in files"
    ADMIN = "admin", "Admin: runs the tenant's hosts, members and keys"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def includes(self, other: Role) -> bool:
        return self.rank >= other.rank


class Scope(models.TextChoices):
    """What an API key may do."""

    INGEST = "ingest", "ingest: bring in events"
    READ = "read", "read: runs and the ledger"
    WRITE = "write", "write: memory entries and claims"
    REVIEW = "review", "review: settle conflicts"
    ADMIN = "admin", "admin: hosts and writers"


class Tenant(models.Model):
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["slug"]

    def __str__(self) -> str:
        return self.name or self.slug


class Membership(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "user"], name="one_membership_per_user_and_tenant"),
            models.UniqueConstraint(fields=["tenant", "id"], name="membership_tenant_id"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant}"

    def may(self, role: Role) -> bool:
        return Role(self.role).includes(role)


class ApiKey(models.Model):
    """A program's credential. The key itself is shown once; what is kept is its digest and its first characters."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=16, choices=Scope.choices), default=list)
    writer = models.CharField(  # noqa: DJ001 - null: none
        max_length=64,
        null=True,
        blank=True,
        help_text="The service key of the writer that this key speaks for, and for no other. Empty: none.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        ordering: ClassVar = ["-created_at"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "id"], name="api_key_tenant_id")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
