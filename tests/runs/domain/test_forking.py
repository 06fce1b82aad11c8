from __future__ import annotations

import json
import shlex

import pytest

from runs.domain.forking import Fork

PATHS = {
    # major, run id → path; the second major's by RFC 0184, the first one's percent-encoded
    (1, "run-1"): "/v1/runs/run-1:fork",
    (2, "acme/r-9"): "/runs/acme~2Fr-9:fork",
    (1, "acme/r-9"): "/v1/runs/acme%2Fr-9:fork",
    (2, "a~b:c 目"): "/runs/a~7Eb~3Ac~20~E7~9B~AE:fork",
    (1, "a~b:c 目"): "/v1/runs/a~b%3Ac%20%E7%9B%AE:fork",
    (1, "'; rm -rf / #"): "/v1/runs/%27%3B%20rm%20-rf%20%2F%20%23:fork",
    (2, ".."): "/runs/~2E~2E:fork",
    (1, "\ud800"): "/v1/runs/%ED%A0%80:fork",
}


@pytest.mark.parametrize(("major", "run"), PATHS)
def test_the_path(major: int, run: str) -> None:
    assert Fork(major, run, "replay", 0).path == PATHS[major, run]


@pytest.mark.parametrize("major", [1, 2])
@pytest.mark.parametrize("run", ["run-1", "acme/r-9", "'; rm -rf / #", '$(id)`id`\\"\n'])
def test_the_command_is_read_by_a_shell_as_it_is_meant(major: int, run: str) -> None:
    fork = Fork(major, run, "branch", 12)
    command = fork.command("https://agents.example/base/")
    words = shlex.split(command.replace("\\\n", ""))
    assert words[:4] == ["curl", "-X", "POST", f"https://agents.example/base{fork.path}"]
    headers = [words[at + 1] for at, word in enumerate(words) if word == "-H"]
    assert "Authorization: Bearer $OPENWOP_HOST_KEY" in headers
    assert ("OpenWOP-Version: 2" in headers) == (major == 2)
    assert json.loads(words[words.index("-d") + 1]) == {"mode": "branch", "fromSeq": 12}


def test_without_an_origin_there_is_a_place_for_one() -> None:
    assert Fork(1, "r", "replay", 3).command("").startswith("curl -X POST https://HOST/v1/runs/r:fork")
