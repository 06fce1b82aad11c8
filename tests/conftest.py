"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

DATABASE_FIXTURES = {"db", "transactional_db", "live_server"}


def pytest_configure() -> None:
    from django.conf import settings

    # Slow on purpose in production; tests make users by the dozen and guess no passwords.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def _is_late(item: pytest.Item) -> int:
    if "browser" in item.path.parts:
        return 2
    return 1 if "whole" in item.path.parts else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the database, so that it can be run on its own against another PostgreSQL."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if item.get_closest_marker("django_db") or fixtures & DATABASE_FIXTURES:
            item.add_marker(pytest.mark.database)
    # The browser's driver runs an event loop in this thread until the end of the session, where no other may run.
    # Whole sites come before it: they start servers of their own and want the machine to themselves.
    items.sort(key=_is_late)


@pytest.fixture(scope="session")
def own_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """pytest-django makes no database of its own when no chosen test asks for one in pytest-django's words.

    Without this, a test that commits would work on, and empty, the database that DATABASE_URL names.
    """
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    if str(connection.settings_dict["NAME"]).startswith("test_"):
        yield
        return
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, aliases={"default": None})
    yield
    with django_db_blocker.unblock():
        teardown_databases(made, verbosity=0)
