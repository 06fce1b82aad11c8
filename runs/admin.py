"""Hosts in the admin site. Events and runs are not there: the log is append-only and has pages of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin

from openwop_ui import vault
from openwop_ui.tenancy.admin import OfOneTenant

from .models import Host


class HostForm(forms.ModelForm):  # type: ignore[type-arg]
    credential = forms.CharField(
        required=False,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text="Sent to the host as a bearer token. Kept encrypted and never shown; leave empty to keep it.",
    )

    class Meta:
        model = Host
        fields: ClassVar = ["tenant", "slug", "name", "origin", "following"]

    def save(self, commit: bool = True) -> Any:
        if self.cleaned_data.get("credential"):
            self.instance.sealed_credential = vault.seal(self.cleaned_data["credential"])
        self.instance.origin = self.instance.origin.rstrip("/")
        return super().save(commit)


@admin.register(Host)
class HostAdmin(OfOneTenant):
    form = HostForm
    list_display = ["slug", "tenant", "name", "origin", "following", "credential", "created_at"]
    list_filter = ["following", "tenant"]
    search_fields = ["slug", "name", "origin", "tenant__slug"]
    list_select_related = ["tenant"]
    readonly_fields = ["major", "listed_at", "last_error", "leaking_since", "created_at"]

    @admin.display(description="credential")
    def credential(self, host: Host) -> str:
        """The fingerprint of the secret, as the protocol shows one."""
        if not host.sealed_credential:
            return "none"
        try:
            return vault.fingerprint(vault.unseal(host.sealed_credential))
        except vault.UnreadableSecret:
            return "unreadable: CREDENTIALS_KEY changed"
