"""For tests in which other connections have to see what is stored: rows are committed, and deleted afterwards.

Deleting the few rows of a test takes a fraction of the time that truncating every table does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from graphlib import TopologicalSorter

from asgiref.sync import SyncToAsync
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope


@contextmanager
def committed_rows(blocker: DjangoDbBlocker) -> Iterator[None]:
    with blocker.unblock():
        try:
            yield
        finally:
            # What runs beside an event loop keeps a connection of its own.
            SyncToAsync.single_thread_executor.submit(connections.close_all).result()
            delete_everything()


def delete_everything() -> None:
    name = str(connection.settings_dict["NAME"])
    assert name.startswith("test_"), f"{name} is no test's database"
    with operator_scope():
        tenants = list(Tenant.objects.values_list("id", flat=True))
    for tenant in tenants:
        with tenant_scope(tenant), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('openwop.retention', 'on', true)")
            for table in tables_of_tenants():
                cursor.execute(f"DELETE FROM {table} WHERE tenant_id = %s", [tenant])
    with operator_scope():
        Tenant.objects.all().delete()
    User.objects.all().delete()
    Session.objects.all().delete()


@lru_cache(maxsize=1)
def tables_of_tenants() -> tuple[str, ...]:
    """The tables with a tenant, each before those that it refers to."""
    refers: TopologicalSorter[str] = TopologicalSorter({"runs_event": {"runs_run"}})  # a trigger, no declared key
    with connection.cursor() as cursor:
        cursor.execute(
            # Keys that are checked at commit ask for no order, and may go in a circle.
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint"
            " WHERE contype = 'f' AND NOT condeferred"
        )
        for table, referred in cursor.fetchall():
            refers.add(table, referred)
        cursor.execute("SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id'")
        owned = {table for (table,) in cursor.fetchall()}
    for table in sorted(owned):
        refers.add(table)
    return tuple(table for table in reversed([*refers.static_order()]) if table in owned)
