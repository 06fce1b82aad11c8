"""What a command says when the database is not as it should be: one line, and exit status 1."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.db import connection

MANAGE = Path(__file__).parents[3] / "manage.py"


def run(url: str, *arguments: str) -> tuple[int, str]:
    told = subprocess.run(
        [sys.executable, str(MANAGE), *arguments],
        env=os.environ | {"DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return told.returncode, told.stdout + told.stderr


@pytest.fixture
def empty_database(db: None) -> Iterator[str]:
    told = connection.settings_dict
    name = f"{told['NAME']}_empty"
    base = (
        f"postgresql://{told['USER']}:{told['PASSWORD']}@{told['HOST'] or 'localhost'}:{told['PORT'] or 5432}/postgres"
    )
    with psycopg.connect(base, autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}"')
        server.execute(f'CREATE DATABASE "{name}"')
        yield urlunsplit(urlsplit(base)._replace(path=f"/{name}"))
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.parametrize(
    "arguments",
    [
        ("follow", "--tenant", "acme", "--host", "alpha"),
        ("ingest", "-", "--tenant", "acme", "--host", "alpha"),
        ("rotate_credentials",),
    ],
)
def test_a_database_without_tables_is_said_in_a_line(empty_database: str, arguments: tuple[str, ...]) -> None:
    status, said = run(empty_database, *arguments)
    assert (status, said.count("\n")) == (1, 1), said
    assert "manage.py migrate" in said and "Traceback" not in said


def test_a_database_that_does_not_answer_is_said_in_a_line() -> None:
    status, said = run("postgresql://someone:unsaid-password@127.0.0.1:1/x", "create_tenant", "acme")
    assert (status, said.count("\n")) == (1, 1), said
    assert said.startswith("error: the database does not answer:") and "unsaid-password" not in said
