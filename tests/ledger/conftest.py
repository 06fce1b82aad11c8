from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import setup_databases, teardown_databases
from pytest_django import DjangoDbBlocker

from openwop_ui.tenancy.models import Tenant
from runs.models import Host
from tests.committed import committed_rows
from tests.factories import make_host, make_tenant


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture(scope="session")
def own_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """pytest-django makes no database of its own when no chosen test asks for one in pytest-django's words.

    Without this, a test that commits would work on, and empty, the database that DATABASE_URL names.
    """
    if str(connection.settings_dict["NAME"]).startswith("test_"):
        yield
        return
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, aliases={"default": None})
    yield
    with django_db_blocker.unblock():
        teardown_databases(made, verbosity=0)


@pytest.fixture
def committed(own_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with committed_rows(django_db_blocker):
        yield
