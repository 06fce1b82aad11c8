"""What a person keeps for themselves about the pages of this app."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class SavedView(models.Model):
    """A name for the state of a run's page: filters, zoom, axis, zone. It belongs to one member of the tenant, and
    goes with their membership. ``query`` is the part of an address behind the question mark."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.BigIntegerField()
    id = models.UUIDField()
    user_id = models.BigIntegerField()
    name = models.TextField()
    query = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant_id", "user_id", "name"], name="savedview_name_per_person"),
        ]
