"""One server for all processes of one data folder: the first starts it, the last one out stops it."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from openwop_ui.environment import kept_secret
from openwop_ui.postgres import locks
from openwop_ui.postgres.account import Account, choose_account
from openwop_ui.postgres.address import recorded_url, url_file
from openwop_ui.postgres.binaries import Binaries, find_binaries
from openwop_ui.postgres.failure import Failure
from openwop_ui.postgres.layout import Layout
from openwop_ui.postgres.postmaster import (
    ADDRESS,
    end_leftovers,
    find_postmaster,
    shut_down,
    start_postmaster,
    wait_until_ready,
)

SUPERUSER = "postgres"
ROLE = "openwop"
DATABASE = "openwop"
LONGEST_INITDB = 300
LONGEST_SILENCE = 60.0

# By data folder: this process's share in the server, and the server itself where it is our child.
_shares: dict[Path, int] = {}
_children: dict[Path, subprocess.Popen[bytes]] = {}


def ensure(data_dir: Path) -> str:
    """The URL of a running server with the application's role and database; started if it is not.

    This process counts as one of its users until it calls `stop` or ends.
    """
    data_dir = data_dir.resolve()
    layout = Layout(data_dir)
    _make_folder(layout)
    with locks.turn(layout.turn):
        if data_dir not in _shares:
            _shares[data_dir] = locks.share(layout.users)
        try:
            return _running(layout)
        except BaseException:
            os.close(_shares.pop(data_dir))
            raise


def revive(data_dir: Path) -> str | None:
    """For a process that uses the server: start it again if it has ended. Its URL if so, otherwise None."""
    data_dir = data_dir.resolve()
    if data_dir not in _shares or find_postmaster(Layout(data_dir)):
        return None
    return ensure(data_dir)


def exists(data_dir: Path) -> bool:
    """Whether there is a cluster, running or not."""
    return Layout(data_dir).data.exists()


def stop(data_dir: Path) -> bool:
    """Be a user of the server no longer, and stop it unless others are. Whether it was stopped."""
    data_dir = data_dir.resolve()
    layout = Layout(data_dir)
    if not layout.folder.is_dir():
        return False
    with locks.turn(layout.turn):
        if data_dir in _shares:
            os.close(_shares.pop(data_dir))
        if not locks.is_free(layout.users):
            return False
        shut_down(layout)
    if child := _children.pop(data_dir, None):
        child.wait()
    return True


def _make_folder(layout: Layout) -> None:
    try:
        layout.folder.mkdir(parents=True, exist_ok=True)
        layout.folder.chmod(0o711)
    except OSError as problem:
        raise Failure(f"DATA_DIR cannot be used: {problem}.") from problem


def _running(layout: Layout) -> str:
    deadline = time.monotonic() + LONGEST_SILENCE
    while True:
        try:
            return _reach(layout)
        except psycopg.OperationalError as problem:
            # One that is being killed or stopped may still be found a moment before it cannot be asked.
            if time.monotonic() > deadline:
                raise Failure(
                    f"The PostgreSQL on {layout.data} does not answer; end it and try again. ({problem})"
                ) from problem
            time.sleep(0.05)


def _reach(layout: Layout) -> str:
    port = _join(layout) or _start(layout)
    url = _url(ROLE, kept_secret(layout.secrets / "postgres_openwop"), port, DATABASE)
    recorded = recorded_url(layout.data_dir)
    if recorded is None or not _logs_in(url):
        _make_role_and_database(layout, port)
    if recorded != url:
        _record(url_file(layout.data_dir), url)
    return url


def _join(layout: Layout) -> int | None:
    ready = wait_until_ready(layout) if find_postmaster(layout) else None
    return ready.port if ready else None


def _start(layout: Layout) -> int:
    if child := _children.pop(layout.data_dir, None):
        child.wait()  # the one we started has ended; without this it would stay as a zombie
    binaries = _binaries_for(layout)
    account = choose_account(layout.data, programs=binaries.folder)
    if layout.data.exists():
        end_leftovers(layout)
    else:
        _create(layout, account, binaries)
    ready, _children[layout.data_dir] = start_postmaster(
        layout, account, binaries, preferred_port=_recorded_port(layout)
    )
    return ready.port


def _binaries_for(layout: Layout) -> Binaries:
    if not layout.data.exists():
        return find_binaries()
    try:
        major = int((layout.data / "PG_VERSION").read_text("ascii"))
    except (OSError, ValueError) as problem:
        raise Failure(f"{layout.data} is not a PostgreSQL data folder: {problem}.") from problem
    try:
        return find_binaries(major)
    except Failure as missing:
        raise Failure(
            f"{layout.data} was written by PostgreSQL {major}, and only that version can read it. {missing}"
            " To keep the data, dump it with that version and restore it into a new DATA_DIR."
        ) from missing


def _create(layout: Layout, account: Account, binaries: Binaries) -> None:
    """Make PGDATA under another name first, so that an interrupted attempt is not taken for a cluster."""
    shutil.rmtree(layout.draft, ignore_errors=True)
    layout.draft.mkdir(mode=0o700)
    account.give(layout.draft)
    password = layout.folder / "initdb.password"
    try:
        password.touch(0o600)
        account.give(password)
        password.write_text(kept_secret(layout.secrets / "postgres_superuser"), "ascii")
        _initdb(layout, account, binaries, password)
    finally:
        password.unlink(missing_ok=True)
    layout.draft.rename(layout.data)


def _initdb(layout: Layout, account: Account, binaries: Binaries, password: Path) -> None:
    # Sorting by code point, the same on every system, with upper and lower case for all of Unicode.
    if binaries.major >= 17:
        locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    else:
        locale = ["--locale=C.UTF-8" if sys.platform == "linux" else "--locale=C", "--lc-messages=C"]
    line = account.command(
        binaries.program("initdb"),
        f"--pgdata={layout.draft}",
        f"--username={SUPERUSER}",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--data-checksums",
        *locale,
    )
    try:
        subprocess.run(
            line,
            cwd="/",
            env={"LC_ALL": "C", "PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_INITDB,
            check=True,
        )
    except subprocess.CalledProcessError as problem:
        raise Failure(f"PostgreSQL could not create {layout.data}:\n{problem.stdout}") from problem


def _make_role_and_database(layout: Layout, port: int) -> None:
    """Make what is missing. The role owns its database and may make others; it is bound by row security."""
    superuser = _url(SUPERUSER, kept_secret(layout.secrets / "postgres_superuser"), port, "postgres")
    try:
        connection = psycopg.connect(superuser, autocommit=True)
    except psycopg.OperationalError as problem:
        if not _was_refused(problem):
            raise
        raise Failure(
            f"The passwords in {layout.secrets} are not those of {layout.data}: put back the files that"
            f" belong to it, or choose another DATA_DIR. ({problem})"
        ) from problem
    with connection:
        _make_role(connection, kept_secret(layout.secrets / "postgres_openwop"))
        if not _exists(connection, "SELECT FROM pg_database WHERE datname = %s", DATABASE):
            names = {"database": sql.Identifier(DATABASE), "role": sql.Identifier(ROLE)}
            connection.execute(sql.SQL("CREATE DATABASE {database} OWNER {role}").format(**names))


def _make_role(connection: psycopg.Connection, password: str) -> None:
    verb = "ALTER" if _exists(connection, "SELECT FROM pg_roles WHERE rolname = %s", ROLE) else "CREATE"
    # Only the verifier travels, so no log can hold the password.
    verifier = connection.pgconn.encrypt_password(password.encode(), ROLE.encode(), b"scram-sha-256")
    rights = "LOGIN CREATEDB NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS"
    connection.execute(
        sql.SQL(f"{verb} ROLE {{role}} {rights} PASSWORD {{verifier}}").format(
            role=sql.Identifier(ROLE), verifier=sql.Literal(verifier.decode())
        )
    )


def _exists(connection: psycopg.Connection, query: str, name: str) -> bool:
    return connection.execute(query.encode(), [name]).fetchone() is not None


def _logs_in(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as problem:
        if not _was_refused(problem):
            raise
        return False
    return True


def _was_refused(problem: psycopg.OperationalError) -> bool:
    """Whether a live server said no. Failures to connect carry no SQLSTATE; the server speaks English here."""
    return "password authentication failed" in str(problem) or "does not exist" in str(problem)


def _url(user: str, password: str, port: int, database: str) -> str:
    return f"postgresql://{user}:{password}@{ADDRESS}:{port}/{database}"


def _recorded_port(layout: Layout) -> int | None:
    port = conninfo_to_dict(recorded_url(layout.data_dir) or "").get("port")
    return int(port) if port else None


def _record(file: Path, url: str) -> None:
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(url)
    draft.replace(file)
