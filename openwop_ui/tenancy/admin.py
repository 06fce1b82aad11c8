"""Tenants, members and keys in the admin site."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from .console import administered
from .keys import new_key
from .models import ApiKey, Membership, Scope, Tenant

site = admin.site


class OfOneTenant(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows with a tenant. A tenant's admin sees and makes their own only, and is not asked which tenant it is."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        tenant = administered(request)
        rows = super().get_queryset(request)
        return rows.filter(tenant_id=tenant.id) if tenant else rows

    def _runs_it(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser or administered(request))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self._runs_it(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._runs_it(request)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._runs_it(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._runs_it(request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._runs_it(request)

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("tenant",) if administered(request) else super().get_exclude(request, obj)

    def get_list_filter(self, request: HttpRequest) -> Any:
        kept = super().get_list_filter(request)
        return [f for f in kept if f != "tenant"] if administered(request) else kept

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        tenant = administered(request)
        if tenant:
            obj.tenant_id = tenant.id
        super().save_model(request, obj, form, change)


class MembershipForm(forms.ModelForm):  # type: ignore[type-arg]
    """Members are named, not chosen from a list: a list would show who else has an account here."""

    username = forms.CharField(max_length=150, help_text="The login of an existing account.")

    class Meta:
        model = Membership
        fields: ClassVar = ["tenant", "role"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["username"].initial = self.instance.user.get_username()
            self.fields["username"].disabled = True

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        user = User.objects.filter(username=name).first()
        if user is None:
            raise forms.ValidationError(f"There is no account {name}.")
        self.instance.user = user
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        tenant = cleaned.get("tenant") or self.instance.tenant_id
        user = getattr(self.instance, "user_id", None)
        others = Membership.objects.exclude(pk=self.instance.pk)
        if tenant and user and others.filter(tenant=tenant, user_id=int(user)).exists():
            raise forms.ValidationError("This account is a member already.")
        return cleaned


@admin.register(Membership, site=site)
class MembershipAdmin(OfOneTenant):
    form = MembershipForm
    list_display = ["user", "tenant", "role", "created_at"]
    list_filter = ["role", "tenant"]
    search_fields = ["user__username", "user__email", "tenant__slug", "tenant__name"]
    list_select_related = ["user", "tenant"]
    ordering = ["tenant__slug", "user__username"]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        tenant = administered(request)
        if tenant is None:
            return form

        own = tenant.pk

        class ForTenant(form):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.instance.tenant_id = own

        return ForTenant


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(choices=Scope.choices, widget=forms.CheckboxSelectMultiple)

    class Meta:
        model = ApiKey
        fields: ClassVar = ["tenant", "name", "scopes", "writer"]


@admin.register(ApiKey, site=site)
class ApiKeyAdmin(OfOneTenant):
    form = ApiKeyForm
    list_display = ["name", "tenant", "prefix", "may", "writer", "created_at", "last_used_at", "state"]
    list_filter = ["tenant", ("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "prefix", "tenant__slug", "tenant__name"]
    list_select_related = ["tenant"]
    readonly_fields = ["prefix", "created_at", "last_used_at", "revoked_at"]
    actions = ["revoke"]

    @admin.display(description="scopes")
    def may(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @admin.display(description="state", ordering="revoked_at")
    def state(self, key: ApiKey) -> str:
        return "revoked" if key.revoked_at else "active"

    @admin.action(description="Revoke the selected keys")
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        count = keys.filter(revoked_at__isnull=True).update(revoked_at=timezone.now())
        self.message_user(request, f"{count} revoked. They stop working at once.", messages.SUCCESS)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if not change:
            obj.plain, obj.prefix, obj.digest = new_key()  # type: ignore[attr-defined]  # for the answer, not stored
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """Shows the key in the answer itself: a message would be kept in a cookie or session until it is read."""
        response = render(
            request,
            "admin/tenancy/key_made.html",
            {**self.admin_site.each_context(request), "key": obj, "plain": obj.plain},
        )
        response["Cache-Control"] = "no-store"
        return response


@admin.register(Tenant, site=site)
class TenantAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["slug", "name", "members", "keys", "created_at"]
    search_fields = ["slug", "name"]
    readonly_fields = ["created_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        tenant = administered(request)
        rows: QuerySet[Tenant] = super().get_queryset(request)
        rows = rows.filter(id=tenant.id) if tenant else rows
        return rows.annotate(
            member_count=Count("memberships", distinct=True), key_count=Count("api_keys", distinct=True)
        )

    @admin.display(description="members", ordering="member_count")
    def members(self, tenant: Any) -> int:
        return int(tenant.member_count)

    @admin.display(description="API keys", ordering="key_count")
    def keys(self, tenant: Any) -> int:
        return int(tenant.key_count)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # URLs and scripts hold the slug: it is chosen once.
        return ("slug", "created_at") if obj else ("created_at",)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser or administered(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_module_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_module_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # A tenant's events are append-only: leaving is an erasure with its own record, not a row deleted here.
        return False
