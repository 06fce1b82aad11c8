from __future__ import annotations

from collections.abc import Iterator

import pytest
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


@pytest.fixture
def committed(own_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with committed_rows(django_db_blocker):
        yield
