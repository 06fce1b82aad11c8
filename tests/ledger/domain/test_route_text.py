"""The text that says how a host's memory is read."""

from __future__ import annotations

import json

import pytest

from ledger.domain.route_text import read_route, write_route
from runs.domain.memory_read import PRESETS, BadRoute, MemoryRoute


def test_nothing_and_hosts_that_serve_nothing_are_not_read() -> None:
    assert read_route("") is None
    assert read_route("openwop-host-sqlite") is None


@pytest.mark.parametrize("name, base, major", [("openwop-app", "/v1/host", 1), ("openwop-app-2", "/host", 2)])
def test_presets_of_both_majors(name: str, base: str, major: int) -> None:
    route = read_route(name)
    assert route == PRESETS[name]
    assert route is not None
    assert (route.list_path, route.major, route.default_ref) == (f"{base}/openwop-app/memory", major, "tenant-memory")


def test_a_route_of_its_own_comes_back() -> None:
    text = write_route("/m", "/m/{memoryId}", major=2, ref="team:\0support")
    assert read_route(text) == MemoryRoute("/m", "/m/{memoryId}", 2, "team:\0support")
    assert read_route(write_route("/m", "/m/{memoryId}", major=1)) == MemoryRoute("/m", "/m/{memoryId}", 1, None)


@pytest.mark.parametrize(
    "list_path, entry_path",
    [
        ("", "/m/{memoryId}"),
        ("//evil.example", "/m/{memoryId}"),
        ("https://evil.example/m", "/m/{memoryId}"),
        ("/m", "/m"),
        ("/m", "/{memoryId}/{memoryId}"),
        ("/m/{memoryRef}", "/m/{memoryId}"),
        ("/m?x=1", "/m/{memoryId}"),
        ("/../m", "/m/{memoryId}"),
        ("/%2e%2e/m", "/m/{memoryId}"),
        ("/" + "m" * 3000, "/m/{memoryId}"),
    ],
)
def test_a_route_that_could_lead_elsewhere_is_not_kept(list_path: str, entry_path: str) -> None:
    with pytest.raises(BadRoute):
        write_route(list_path, entry_path, major=1)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "{}",
        "[" * 10_000,
        json.dumps({"list": "/m", "entry": "/m/{memoryId}"}),
        json.dumps({"list": "/m", "entry": "/m/{memoryId}", "major": 3}),
        json.dumps({"list": "/m", "entry": "/m/{memoryId}", "major": True}),
        json.dumps({"list": 1, "entry": "/m/{memoryId}", "major": 1}),
        json.dumps({"list": "/m", "entry": "/m/{memoryId}", "major": 1, "ref": 5}),
        json.dumps({"list": "//evil.example", "entry": "/m/{memoryId}", "major": 1}),
    ],
)
def test_any_other_text_is_no_route(text: str) -> None:
    with pytest.raises(BadRoute):
        read_route(text)


def test_the_text_of_a_route() -> None:
    assert write_route("/m", "/m/{memoryId}", major=1) == '{"list": "/m", "entry": "/m/{memoryId}", "major": 1}'
    assert write_route("/m", "/m/{memoryId}", major=2, ref="team") == (
        '{"list": "/m", "entry": "/m/{memoryId}", "major": 2, "ref": "team"}'
    )


def test_a_route_of_2000_characters_is_the_longest() -> None:
    short = len(json.dumps({"list": "/", "entry": "/m/{memoryId}", "major": 1}))
    longest = "/" + "m" * (2000 - short)
    text = write_route(longest, "/m/{memoryId}", major=1)
    assert len(text) == 2000
    assert read_route(text) == MemoryRoute(longest, "/m/{memoryId}", 1, None)
    with pytest.raises(BadRoute, match="^a route of more than 2000 characters$"):
        write_route(longest + "m", "/m/{memoryId}", major=1)


@pytest.mark.parametrize("text", ["nonsense", json.dumps({"list": "/m", "entry": "/m/{memoryId}", "major": 3})])
def test_what_is_said_of_a_text_that_is_no_route(text: str) -> None:
    with pytest.raises(BadRoute, match="^neither a preset nor a route$"):
        read_route(text)
