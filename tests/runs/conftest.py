from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.committed import committed_rows


@pytest.fixture
def transactional_db(own_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Like pytest-django's, and sooner done."""
    with committed_rows(django_db_blocker):
        yield
