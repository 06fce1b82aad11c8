"""Whether the database's role lets row-level security hold at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Critical, Tags, register
from django.db import connections


def role_problem(alias: str = "default") -> str | None:
    """Why row-level security does not bind the role that the application runs as; None when it does."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user")
        role, superuser, bypasses = cursor.fetchone()
    if superuser:
        return f"The role {role} is a superuser, whom row-level security does not bind."
    if bypasses:
        return f"The role {role} has BYPASSRLS, so row-level security does not bind it."
    return None


@register(Tags.database)
def role_is_bound(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    return [
        Critical(
            problem,
            hint="Give the application a role of its own: CREATE ROLE … LOGIN NOSUPERUSER NOBYPASSRLS.",
            id="tenancy.C001",
        )
        for alias in databases or ()
        if (problem := role_problem(alias))
    ]
