"""What a tenant laid down about its memory: secrets, sizes, and for how long what is kept."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from openwop_ui.tenancy.models import Tenant

from ..domain.redaction import Policy

KIB = 1024
DEFAULT_ENTRY_BYTES = 64 * KIB
LARGEST_ENTRY_BYTES = 1024 * KIB
SMALLEST_ENTRY_BYTES = 256
LONGEST_DAYS = 36_500


class LedgerSettings(models.Model):
    """One row a tenant, made when something is first laid down. An empty period keeps for ever.

    ``own_host_id`` is the host under which the entries that are put here are listed.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="ledger_settings")
    secret_policy = models.CharField(
        max_length=8,
        choices=[(Policy.REWRITE.value, "Replace them with a mark"), (Policy.REFUSE.value, "Refuse the entry")],
        default=Policy.REWRITE.value,
        help_text="What becomes of an entry with secrets in it.",
    )
    max_entry_bytes = models.PositiveIntegerField(
        "largest entry",
        default=DEFAULT_ENTRY_BYTES,
        validators=[MinValueValidator(SMALLEST_ENTRY_BYTES), MaxValueValidator(LARGEST_ENTRY_BYTES)],
        help_text="In bytes: content and tags of one entry, in UTF-8. Advertised as maxEntrySizeBytes.",
    )
    payload_days = models.PositiveIntegerField(
        "payload retention",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(LONGEST_DAYS)],
        help_text="Days after which the payloads of source events are taken away. Empty: never.",
    )
    event_days = models.PositiveIntegerField(
        "event retention",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(LONGEST_DAYS)],
        help_text="Days after which the payloads of runs' events are taken away. Empty: never.",
    )
    own_host_id = models.BigIntegerField(null=True, editable=False)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = verbose_name_plural = "ledger settings"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="ledger_settings_tenant_id"),
        ]

    def __str__(self) -> str:
        return f"Settings of {self.tenant}"
