"""Writers, keys and settings in the admin site. What was said is not there: claims are facts and have pages of their
own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from openwop_ui.tenancy.admin import OfOneTenant
from openwop_ui.tenancy.console import administered
from openwop_ui.tenancy.scope import tenant_scope

from .claims_store.rules import hold_rules, mark_key_stale, mark_writer_stale
from .domain.errors import LedgerError
from .domain.key_registry import read_key
from .domain.units import find_unit
from .domain.writers import read_authority_rules, read_service_key
from .models import ClaimKey, LedgerSettings, ServiceWriter


class WriterForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ServiceWriter
        fields: ClassVar = ["tenant", "service_key", "display_name", "default_priority", "categories", "retired_at"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if retired := self.fields.get("retired_at"):
            for part, widget in zip(("date", "time"), retired.widget.widgets, strict=True):
                widget.attrs["aria-label"] = f"Retired at, {part}"

    def clean_service_key(self) -> str:
        try:
            return read_service_key(self.cleaned_data["service_key"])
        except LedgerError as problem:
            raise forms.ValidationError(str(problem)) from None

    def clean_categories(self) -> dict[str, int]:
        try:
            rules = read_authority_rules({"categories": self.cleaned_data["categories"] or {}})
        except LedgerError as problem:
            raise forms.ValidationError(str(problem)) from None
        return dict(rules.categories)


class RulesAdmin(OfOneTenant):
    """What is changed here is settled again in the background."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @contextmanager
    def changing(self, request: HttpRequest, obj: ServiceWriter | ClaimKey) -> Iterator[None]:
        tenant = administered(request)
        tenant_id = tenant.pk if tenant else obj.tenant_id
        with tenant_scope(tenant_id):
            hold_rules(tenant_id)
            yield


@admin.register(ServiceWriter)
class ServiceWriterAdmin(RulesAdmin):
    form = WriterForm
    list_display = ["service_key", "tenant", "display_name", "default_priority", "categories", "retired_at"]
    list_filter = ["tenant", ("retired_at", admin.EmptyFieldListFilter)]
    search_fields = ["service_key", "display_name", "tenant__slug"]
    list_select_related = ["tenant"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # What it said is kept under the key.
        return ("service_key", "revision", "created_at") if obj else ("revision", "created_at")

    def save_model(self, request: HttpRequest, obj: ServiceWriter, form: Any, change: bool) -> None:
        if change:
            obj.revision += 1
        with self.changing(request, obj):
            super().save_model(request, obj, form, change)
            mark_writer_stale(obj.tenant_id, obj.service_key)


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ClaimKey
        fields: ClassVar = ["tenant", "category", "name", "cardinality", "kind", "unit", "recency_between_equals"]

    def clean_unit(self) -> str:
        unit: str = self.cleaned_data["unit"]
        if unit and find_unit(unit) is None:
            raise forms.ValidationError("There is no such unit.")
        return unit

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.instance.pk:
            return cleaned
        try:
            key = read_key(cleaned.get("category"), cleaned.get("name") or "")
        except LedgerError as problem:
            raise forms.ValidationError(str(problem)) from None
        return {**cleaned, "category": key.category, "name": key.name}


@admin.register(ClaimKey)
class ClaimKeyAdmin(RulesAdmin):
    form = KeyForm
    list_display = ["category", "name", "tenant", "cardinality", "kind", "unit", "recency_between_equals"]
    list_filter = ["tenant", "cardinality", "kind"]
    search_fields = ["category", "name", "tenant__slug"]
    list_select_related = ["tenant"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("category", "name") if obj else ()

    def save_model(self, request: HttpRequest, obj: ClaimKey, form: Any, change: bool) -> None:
        with self.changing(request, obj):
            super().save_model(request, obj, form, change)
            mark_key_stale(obj.tenant_id, obj.category, obj.name)


class LedgerSettingsForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = LedgerSettings
        fields: ClassVar = ["tenant", "secret_policy", "max_entry_bytes", "payload_days", "event_days"]


@admin.register(LedgerSettings)
class LedgerSettingsAdmin(OfOneTenant):
    form = LedgerSettingsForm
    list_display = ["tenant", "secret_policy", "max_entry_bytes", "payload_days", "event_days", "changed_at"]
    list_filter = ["tenant", "secret_policy"]
    search_fields = ["tenant__slug", "tenant__name"]
    list_select_related = ["tenant"]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        tenant = administered(request)
        is_there = tenant is not None and LedgerSettings.objects.filter(tenant_id=tenant.pk).exists()
        return super().has_add_permission(request, obj) and not is_there

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The row also says which host is the tenant's own.
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("tenant", "changed_at") if obj else ("changed_at",)
