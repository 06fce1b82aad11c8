"""Which command lines get a database, and what the watch does about one that has ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openwop_ui import postgres
from openwop_ui.launch import database
from openwop_ui.launch.database import DatabaseWatch, database_for, needs_database


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("manage.py", False),
        ("manage.py help", False),
        ("manage.py --version", False),
        ("manage.py ingest --help", False),
        ("manage.py check", False),
        ("manage.py check --database default", True),
        ("manage.py collectstatic --noinput", False),
        ("manage.py ingest a.ndjson --tenant t --host h", True),
        ("manage.py migrate", True),
        ("manage.py up", True),
        ("manage.py a_command_of_the_future", True),
    ],
)
def test_only_commands_that_may_read_a_row_get_a_database(line: str, needs: bool) -> None:
    assert needs_database(line.split()) is needs


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder whose server is a stand-in that keeps no files."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setattr(postgres, "ensure", lambda data_dir: f"postgresql://u@127.0.0.1/{data_dir.name}")
    monkeypatch.setattr(postgres, "stop", lambda data_dir: stopped.append(data_dir))
    stopped.clear()
    return tmp_path


stopped: list[Path] = []


@pytest.mark.parametrize(("command", "lacks"), [("ingest", True), ("migrate", False), ("up", False)])
def test_first_command_on_an_empty_folder_learns_that_tables_are_missing(
    data_dir: Path, command: str, lacks: bool
) -> None:
    with database_for(["manage.py", command]) as lacks_tables:
        assert lacks_tables is lacks
        assert os.environ["DATABASE_URL"] == f"postgresql://u@127.0.0.1/{data_dir.name}"
        assert not stopped
    assert stopped == [data_dir]


def test_server_is_let_go_when_the_command_fails(data_dir: Path) -> None:
    with pytest.raises(SystemExit), database_for(["manage.py", "ingest"]):
        raise SystemExit(1)
    assert stopped == [data_dir]


def test_given_database_is_used_as_it_is(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u@elsewhere/x")
    with database_for(["manage.py", "ingest"]) as lacks_tables:
        assert not lacks_tables
        assert os.environ["DATABASE_URL"] == "postgresql://u@elsewhere/x"
    assert not stopped


@pytest.mark.parametrize(
    ("url", "moved", "said"),
    [
        (None, False, []),
        ("postgresql://u@old/x", False, ["The database had ended and was started again."]),
        ("postgresql://u@new/x", True, ["The database had ended and was started again."]),
    ],
)
def test_programs_hear_of_a_database_that_came_back_elsewhere(
    monkeypatch: pytest.MonkeyPatch, url: str | None, moved: bool, said: list[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u@old/x")
    monkeypatch.setattr(postgres, "revive", lambda data_dir: url)
    lines: list[str] = []
    assert DatabaseWatch(Path("/data"), print_line=lines.append)() is moved
    assert lines == said
    assert os.environ["DATABASE_URL"] == (url or "postgresql://u@old/x")


def test_database_that_does_not_come_back_is_said_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data_dir: Path) -> None:
        raise postgres.Failure("disk full")

    monkeypatch.setattr(postgres, "revive", fail)
    monkeypatch.setattr(database, "SECONDS_AFTER_FAILURE", 1000)
    lines: list[str] = []
    watch = DatabaseWatch(Path("/data"), print_line=lines.append)
    assert [watch(), watch(), watch()] == [False] * 3
    assert lines == ["The database has ended and does not start: disk full"]
