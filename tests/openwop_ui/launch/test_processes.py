"""The supervisor with real, small programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openwop_ui.launch.processes import GaveUp, Patience, Program, Supervisor

ROOT = Path(__file__).resolve().parents[3]
QUICK = Patience(first_pause=0.02, longest_pause=0.08, to_stop=5.0, between_looks=0.01, failed_starts=4)
FOR_EVER = "import time\nprint('up', flush=True)\nwhile True: time.sleep(60)"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent's life")


def program(code: str, *, name: str = "it", **environment: str) -> Program:
    return Program(name, (sys.executable, "-I", "-S", "-c", code), environment)


def stop_ourselves() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def run(
    *programs: Program,
    ready: Callable[[list[str]], bool] = lambda lines: True,
    when_ready: Callable[[], None] = stop_ourselves,
    patience: Patience = QUICK,
) -> list[str]:
    """Everything printed until the programs have been stopped."""
    lines: list[str] = []
    supervisor = Supervisor(programs, print_line=lines.append, patience=patience)
    supervisor.run(is_ready=lambda: ready(lines), when_ready=when_ready)
    assert all(child.has_ended() for child in supervisor.children)
    return lines


def is_alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in ("", "Z")


def wait_until(holds: Callable[[], bool], *, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_lines_carry_the_name_of_who_said_them() -> None:
    said = (
        "import os, time\nprint(os.environ['WORD'], flush=True)\nos.write(2, b'caf\\xc3\\xa9 \\xff\\n')\ntime.sleep(60)"
    )
    lines = run(
        program(said, name="web", WORD="one"),
        program(said, name="worker", WORD="two"),
        ready=lambda lines: len(lines) >= 4,
    )
    assert sorted(lines) == ["web    | café \ufffd", "web    | one", "worker | café \ufffd", "worker | two"]


def test_a_program_that_ends_is_started_again_after_growing_pauses() -> None:
    lines = run(program("raise SystemExit(3)"), ready=lambda lines: len(lines) >= 3)
    assert lines[:3] == [
        "it | ended with exit code 3; starting again in 0.02 s",
        "it | ended with exit code 3; starting again in 0.04 s",
        "it | ended with exit code 3; starting again in 0.08 s",
    ]


def test_a_killed_program_is_started_again() -> None:
    code = "import os\nprint(os.getpid(), flush=True)\nos.kill(os.getpid(), 9)"
    lines = run(program(code), ready=lambda lines: len(lines) >= 3)
    assert lines[1] == "it | ended by SIGKILL; starting again in 0.02 s"
    assert lines[0] != lines[2]


def test_a_long_life_makes_the_next_pause_short_again() -> None:
    patience = Patience(first_pause=0.02, healthy_after=0.0, to_stop=5.0, between_looks=0.01)
    lines = run(program("raise SystemExit(1)"), ready=lambda lines: len(lines) >= 3, patience=patience)
    assert set(lines[:3]) == {"it | ended with exit code 1; starting again in 0.02 s"}


def test_a_program_that_never_starts_is_given_up() -> None:
    with pytest.raises(GaveUp, match=r"\Abroken does not start"):
        run(program("raise SystemExit(1)", name="broken"), program(FOR_EVER), ready=lambda lines: False)


def test_programs_may_end_in_their_own_way() -> None:
    code = (
        "import signal, sys, time\n"
        "def bye(*_): print('bye', flush=True); sys.exit()\n"
        "signal.signal(signal.SIGTERM, bye)\nprint('up', flush=True)\nwhile True: time.sleep(60)"
    )
    assert run(program(code), ready=lambda lines: "it | up" in lines) == ["it | up", "it | bye"]


DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOR_EVER


def test_a_program_that_does_not_listen_is_killed_in_time() -> None:
    patience = Patience(to_stop=0.2, between_looks=0.01)
    started = time.monotonic()
    lines = run(program(DEAF), ready=lambda lines: "it | up" in lines, patience=patience)
    assert lines == ["it | up", "it | did not end when asked and was killed"]
    assert time.monotonic() - started < 3


def test_asking_twice_forces() -> None:
    second = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))

    def ask_twice() -> None:
        stop_ourselves()
        second.start()

    started = time.monotonic()
    lines = run(
        program(DEAF),
        ready=lambda lines: "it | up" in lines,
        when_ready=ask_twice,
        patience=Patience(to_stop=60.0, between_looks=0.01),
    )
    assert lines[-1] == "it | did not end when asked and was killed"
    assert time.monotonic() - started < 10


def test_what_a_program_started_ends_with_it() -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\nwhile True: time.sleep(60)"
    )
    lines = run(program(code), ready=lambda lines: bool(lines))
    pid = int(lines[0].split("| ")[1])
    wait_until(lambda: not is_alive(pid))


def test_signals_mean_again_what_they_meant_before() -> None:
    before = [signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    run(program(FOR_EVER))
    assert [signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_programs_are_started_anew_when_the_rest_changed() -> None:
    lines: list[str] = []
    changed = iter([False] * 20 + [True])

    def both_said() -> bool:
        return len(lines) >= 2

    supervisor = Supervisor(
        [program("import os\nprint(os.getpid(), flush=True)\n" + FOR_EVER.replace("'up'", "''"))],
        print_line=lambda line: lines.append(line) if line != "it | " else None,
        look_after_the_rest=lambda: bool(lines) and next(changed, False),
        patience=QUICK,
    )
    supervisor.run(is_ready=both_said, when_ready=stop_ourselves)
    assert len(set(lines)) == 2


@on_linux
def test_programs_do_not_outlive_a_killed_supervisor() -> None:
    code = (
        "import sys\n"
        "from openwop_ui.launch.processes import Program, Supervisor\n"
        "it = Program('it', (sys.executable, '-c', 'import os, time; print(os.getpid()); time.sleep(60)'))\n"
        "Supervisor([it], print_line=lambda line: print(line, flush=True))"
        ".run(is_ready=lambda: False, when_ready=lambda: None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline().split("| ")[1])
        assert is_alive(pid)
        supervisor.kill()
        wait_until(lambda: not is_alive(pid))
