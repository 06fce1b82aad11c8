"""The read side of memory: addresses of hosts, entries in their answers, and what an answer without one means."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from runs.domain.memory_read import (
    LONGEST_ID,
    PRESETS,
    BadRoute,
    Inferred,
    MemoryEntry,
    MemoryPage,
    NotRead,
    count_redactions,
    custom_route,
    infer,
    preset_for,
    read_list,
    read_one,
)
from tests.runs.domain.examples import RECORDINGS, compact

CREATED = "2026-11-29T18:57:58.475Z"


def body(name: str) -> bytes:
    return (RECORDINGS / name).read_bytes()


def entry(**members: Any) -> dict[str, Any]:
    told = {"id": "mem-1", "content": "a note", "tags": ["x"], "createdAt": CREATED, **members}
    return {name: value for name, value in told.items() if value is not ...}


def read(**members: Any) -> MemoryEntry:
    told = read_one(200, compact({"memoryRef": "notes", "entry": entry(**members)}).encode())
    assert isinstance(told, MemoryEntry), told
    return told


def page(*entries: object) -> MemoryPage:
    told = read_list(200, compact({"memoryRef": "notes", "entries": list(entries)}).encode())
    assert isinstance(told, MemoryPage), told
    return told


def test_recorded_list_keeps_the_hosts_order() -> None:
    told = read_list(200, body("openwop-app/memory-trail/memory.json"))
    assert isinstance(told, MemoryPage)
    assert told.memory_ref == "tenant-memory" and told.refused == ()
    assert [one.id for one in told.entries] == [
        "mem_703dc230-8be",
        "mem_fbe24c44-b8a",
        "mem_58258d11-cb8",
        "mem_5774859e-710",
    ]
    times = [one.created_at for one in told.entries if one.created_at]
    assert times == sorted(times, reverse=True) and len(times) == 4


def test_recorded_provenance_is_an_inference_from_tags() -> None:
    told = read_one(200, body("openwop-app/memory-trail/memory-entry.json"))
    assert isinstance(told, MemoryEntry) and told.inferred is not None
    assert told.inferred.node_ids == ("remember-goal",)
    assert told.inferred.run_ids == ("e9325e91-2d6e-4feb-b9dd-f51efb470153",)
    assert told.inferred.basis == "tags"
    assert told.notes == ()


CONTENTS = {
    "html": '<img src=x onerror=alert(1)> & <b>bold</b> \u2028 "quoted"',
    "unicode": "Ünïcödé 😀 \u202eright-to-left\u202c 中文 \x00?",
    "multiline": "line one\nline two\r\n\tindented",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_recorded_content_is_kept_to_the_character(name: str) -> None:
    told = read_one(200, body(f"openwop-app/memory-contents/{name}/memory-entry.json"))
    assert isinstance(told, MemoryEntry)
    assert told.content == CONTENTS[name]
    assert not told.looks_secret


def test_keys_in_recorded_content_are_replaced_and_the_rest_is_kept() -> None:
    told = read_one(200, body("openwop-app/memory-contents/secretish/memory-entry.json"))
    assert isinstance(told, MemoryEntry)
    key, password = "sk-test-AAAABBBBCCCCDDDDEEEEFFFF0000111122223333", "password=hunter2"
    marks = [
        f"[quarantined sha256:{sha256(secret.encode()).hexdigest()} bytes:{len(secret)}]" for secret in (key, password)
    ]
    assert told.content == f"Use key {marks[0]} and {marks[1]}"
    assert told.looks_secret


def test_lone_surrogates_are_kept() -> None:
    told = read_one(
        200, b'{"entry":{"id":"m","content":"\\ud800x","tags":["\\udc00"],"createdAt":"%s"}}' % CREATED.encode()
    )
    assert isinstance(told, MemoryEntry)
    assert (told.content, told.tags) == ("\ud800x", ("\udc00",))


MARKERS = [
    pytest.param("[REDACTED:key-1]", 1, id="h-agentMemoryRedactionContract-spec"),
    pytest.param("a [REDACTED:a] b [REDACTED:b:c]", 2, id="h-agentMemoryRedactionContract-two"),
    pytest.param("<REDACTED:label>", 1, id="h-agentMemoryRedactionContract-angles"),
    pytest.param("[REDACTED]", 1, id="h-agentMemoryRedactionContract-bare"),
    pytest.param("run <redacted:high-entropy> not found", 1, id="h-agentMemoryRedactionContract-lower-case"),
    pytest.param("[REDACTED:", 0, id="h-agentMemoryRedactionContract-open"),
    pytest.param("[redaction] REDACTED", 0, id="h-agentMemoryRedactionContract-a-word"),
]


@pytest.mark.parametrize(("content", "count"), MARKERS)
def test_redaction_markers_are_counted_and_shown_as_they_are(content: str, count: int) -> None:
    told = read(content=content)
    assert (told.content, told.redaction_count) == (content, count)


def test_counting_markers_takes_no_long() -> None:
    assert count_redactions("[REDACTED:" * 50_000) == 0


NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expires_at", "is_shown"),
    [
        pytest.param(..., True, id="h-agentMemoryTtlExpiry-none"),
        pytest.param("2026-12-01T00:00:00.001Z", True, id="h-agentMemoryTtlExpiry-ahead"),
        pytest.param("2026-12-01T00:00:00Z", False, id="h-agentMemoryTtlExpiry-now"),
        pytest.param("2026-11-30T23:59:59+00:00", False, id="h-agentMemoryTtlExpiry-past"),
        pytest.param("2026-12-01T00:59:59+01:00", False, id="h-agentMemoryTtlExpiry-past-elsewhere"),
    ],
)
def test_an_entry_past_its_time_is_not_shown(expires_at: object, is_shown: bool) -> None:
    told = page(entry(expiresAt=expires_at), entry(id="mem-2"))
    assert [one.id for one in told.visible(NOW)] == (["mem-1", "mem-2"] if is_shown else ["mem-2"])
    assert len(told.entries) == 2


def test_h_agent_memory_cross_tenant_isolation_control_then_nothing() -> None:
    found = read_list(200, body("openwop-app/memory-trail/memory.json"))
    assert isinstance(found, MemoryPage) and found.entries
    nothing = read_list(200, body("openwop-app/memory-deleted/memory-wrong-ref.json"))
    assert nothing == MemoryPage("no-such-ref", (), (), None)


ANSWERS = [
    pytest.param(
        "one", 404, "openwop-app/memory-deleted/memory-deleted-entry.json", "no_longer_readable", id="deleted"
    ),
    pytest.param("list", 404, "sqlite/errors/memory-route.json", "no_route", id="no-route"),
    pytest.param("one", 404, "sqlite/errors/memory-route.json", "no_route", id="no-route-is-no-deletion"),
    pytest.param("list", 401, "openwop-app/errors-strict-bearer/no-key-memory.json", "not_allowed", id="no-key"),
]


@pytest.mark.parametrize(("asked", "status", "name", "why"), ANSWERS)
def test_recorded_answers_without_an_entry(asked: str, status: int, name: str, why: str) -> None:
    told = read_list(status, body(name)) if asked == "list" else read_one(status, body(name))
    assert isinstance(told, NotRead) and told.why == why
    assert told.code == json.loads(body(name))["error"]


@pytest.mark.parametrize(
    ("status", "told", "why"),
    [
        pytest.param(404, {"error": "entry_missing", "extra": 1}, "no_longer_readable", id="i20-unknown-code"),
        pytest.param(404, "", "no_longer_readable", id="i20-no-body"),
        pytest.param(410, {}, "no_longer_readable", id="gone"),
        pytest.param(403, {"error": "forbidden"}, "not_allowed", id="forbidden"),
        pytest.param(429, {"error": "rate_limited"}, "unavailable", id="busy"),
        pytest.param(503, "<html>", "unavailable", id="down"),
        pytest.param(500, {"error": {"code": "x"}}, "unavailable", id="i20-error-of-another-shape"),
        pytest.param(400, {}, "not_understood", id="asked-wrongly"),
        pytest.param(501, {}, "no_route", id="not-built"),
        pytest.param(405, {}, "no_route", id="not-for-reading"),
        pytest.param(302, {}, "not_understood", id="elsewhere"),
        pytest.param(200, {"entry": None}, "no_longer_readable", id="null"),
        pytest.param(200, {"entry": {"content": "x"}}, "not_understood", id="without-an-id"),
        pytest.param(200, "<html>", "not_understood", id="not-json"),
    ],
)
def test_answers_without_an_entry(status: int, told: object, why: str) -> None:
    raw = told.encode() if isinstance(told, str) else compact(told).encode()
    answer = read_one(status, raw)
    assert isinstance(answer, NotRead) and answer.why == why


def test_crash_emptied_the_list() -> None:
    told = read_list(200, body("openwop-app/crash-mid-run/old-run-memory.json"))
    assert isinstance(told, MemoryPage) and told.entries == ()


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"entries":{}}', b'"x"', b"null", b"{", b"\xff", b"[" * 5000])
def test_what_is_no_list(raw: bytes) -> None:
    assert read_list(200, raw) == NotRead("not_understood")


def test_list_may_be_an_array_and_entries_may_be_wrong() -> None:
    told = read_list(
        200,
        compact([entry(), 7, {"content": "x"}, entry(id="x" * (LONGEST_ID + 1)), entry(id="y" * LONGEST_ID)]).encode(),
    )
    assert isinstance(told, MemoryPage)
    assert [one.id[0] for one in told.entries] == ["m", "y"]
    assert [one.index for one in told.refused] == [1, 2, 3]


@pytest.mark.parametrize("memory_id", ["", None, 7, ["m"], ...])
def test_an_entry_needs_an_id(memory_id: object) -> None:
    told = page(entry(id=memory_id), entry(id="mem-2"))
    assert [one.id for one in told.entries] == ["mem-2"]
    assert [(one.index, one.field) for one in told.refused] == [(0, "id")]


def test_an_entry_may_stand_alone_and_a_list_may_go_on() -> None:
    alone = read_one(200, compact(entry()).encode())
    assert isinstance(alone, MemoryEntry) and alone.id == "mem-1"
    more = read_list(200, compact({"memoryRef": "r", "entries": [], "nextCursor": "c"}).encode())
    assert more == MemoryPage("r", (), (), "c")


def test_only_some_unknown_members_are_noted() -> None:
    told = read(**{f"member-{n}": n for n in range(20)} | {"a" * 100: 1})
    assert len(told.notes) == 8
    assert told.notes[0] == f'unknown member "{"a" * 64}"'


@pytest.mark.parametrize(
    ("members", "note"),
    [
        ({"tags": ...}, None),
        ({"tags": "x"}, "tags are no array"),
        ({"tags": ["a", 7]}, "tags that are no text were left out"),
        ({"tags": ["a" * 257]}, "a tag of more than 256 characters"),
        ({"content": ...}, "content is missing"),
        ({"content": {"text": "x"}}, "content is no text"),
        ({"createdAt": ...}, "createdAt is missing"),
        ({"createdAt": None}, "createdAt is missing"),
        ({"tags": ["a" * 256]}, None),
        ({"createdAt": "yesterday"}, "createdAt is not an RFC 3339 date and time"),
        ({"expiresAt": 7}, "expiresAt is no text"),
        ({"expiresAt": None}, None),
        ({"author": "me"}, 'unknown member "author"'),
    ],
)
def test_lenient_reading_is_noted(members: dict[str, Any], note: str | None) -> None:
    assert read(**members).notes == (() if note is None else (note,))


TAGS = [
    pytest.param(
        ["run-id:r", "node:n", "workflow:w", "run-summary"], Inferred(("r",), ("n",), ("w",), (), True), id="all"
    ),
    pytest.param(["run-id:r", "run-id:s", "run-id:r"], Inferred(("r", "s"), (), (), (), False), id="two-runs"),
    pytest.param(
        ["compacted-from:a", "compacted-from:b"], Inferred((), (), (), ("a", "b"), False), id="h-memory-compaction-tag"
    ),
    pytest.param(["node:a:b"], Inferred((), ("a:b",), (), (), False), id="colon-in-an-id"),
    pytest.param(["run-id:", "nodes:x", "note"], None, id="h-memory-compaction-unknown-sources"),
    pytest.param(["workflow:w"], Inferred((), (), ("w",), (), False), id="workflow"),
    pytest.param(["run-summary"], Inferred((), (), (), (), True), id="summary"),
    pytest.param([], None, id="none"),
]


@pytest.mark.parametrize(("tags", "expected"), TAGS)
def test_inference_table(tags: list[str], expected: Inferred | None) -> None:
    assert infer(tags) == expected


def test_branch_copies_keep_the_tags_of_their_source() -> None:
    told = read_list(200, body("openwop-app/forks/memory-after-forks.json"))
    assert isinstance(told, MemoryPage)
    assert all(one.inferred is not None and len(one.inferred.run_ids) == 1 for one in told.entries)


@pytest.mark.parametrize(
    ("implementation", "major", "path"),
    [
        ("openwop-workflow-engine", 1, "/v1/host/openwop-app/memory"),
        ("openwop-workflow-engine", 2, "/host/openwop-app/memory"),
        ("openwop-host-sqlite", 1, None),
        ("openwop-host-postgres", 1, None),
        ("openwop-host-in-memory", 1, None),
        ("openwop-host-in-memory-python", 1, None),
        ("somebody-elses", 1, None),
    ],
)
def test_preset_of_a_host(implementation: str, major: int, path: str | None) -> None:
    route = preset_for(implementation, major=major)
    assert (None if route is None else route.list_path) == path


def test_recorded_hosts_without_a_route_are_presets_without_one() -> None:
    names = {"openwop-host-sqlite", "openwop-host-postgres", "openwop-host-in-memory", "openwop-host-in-memory-python"}
    assert {name for name, route in PRESETS.items() if route is None} == names


PATHS = {
    "openwop-app": "/v1/host/openwop-app/memory",
    "openwop-app-2": "/host/openwop-app/memory",
    "openwop-app-profile": "/v1/host/openwop-app/profiles/me/memory",
    "openwop-app-sample": "/v1/host/sample/memory",
}


@pytest.mark.parametrize("name", PATHS)
def test_presets(name: str) -> None:
    route = PRESETS[name]
    assert route is not None
    assert (route.list_path, route.entry_path) == (PATHS[name], PATHS[name] + "/{memoryId}")
    assert route.entry_request("a/b")[0] == PATHS[name] + ("/a~2Fb" if name.endswith("-2") else "/a%2Fb")


def test_requests() -> None:
    first, second = PRESETS["openwop-app"], PRESETS["openwop-app-2"]
    assert first is not None and second is not None
    assert first.list_request() == ("/v1/host/openwop-app/memory", {})
    assert first.list_request(memory_ref="a b", tag="run-id:r", limit=0) == (
        "/v1/host/openwop-app/memory",
        {"memoryRef": "a b", "tag": "run-id:r", "limit": "0"},
    )
    assert first.entry_request("mem/1~") == ("/v1/host/openwop-app/memory/mem%2F1~", {})
    assert second.entry_request("mem/1~", memory_ref="r") == ("/host/openwop-app/memory/mem~2F1~7E", {"memoryRef": "r"})
    assert first.default_ref == "tenant-memory"
    assert first.entry_request("\ud800")[0].endswith("/%ED%A0%80")
    assert second.entry_request("..")[0].endswith("/~2E~2E")


@pytest.mark.parametrize("memory_id", ["", ".", ".."])
def test_an_id_never_leads_to_another_route(memory_id: str) -> None:
    first = PRESETS["openwop-app"]
    assert first is not None
    with pytest.raises(ValueError, match="no path segment"):
        first.entry_request(memory_id)


def test_custom_route() -> None:
    route = custom_route("/api/memory", "/api/memory/{memoryId}", major=1)
    assert route.entry_request("../admin")[0] == "/api/memory/..%2Fadmin"


@pytest.mark.parametrize(
    ("list_path", "entry_path"),
    [
        ("https://evil/memory", "/m/{memoryId}"),
        ("//evil/memory", "/m/{memoryId}"),
        ("memory", "/m/{memoryId}"),
        ("/m", "/m"),
        ("/m", "/m/{memoryId}/{memoryId}"),
        ("/m", "/m/{id}"),
        ("/m", "/m/{x}/{memoryId}"),
        ("/m/{memoryId}", "/m/{memoryId}"),
        ("/m?x=1", "/m/{memoryId}"),
        ("/m#x", "/m/{memoryId}"),
        ("/../m", "/m/{memoryId}"),
        ("/%2E%2e/m", "/m/{memoryId}"),
        ("/m\r\nHost: x", "/m/{memoryId}"),
        ("/m\\..", "/m/{memoryId}"),
    ],
)
def test_routes_that_could_lead_elsewhere(list_path: str, entry_path: str) -> None:
    with pytest.raises(BadRoute):
        custom_route(list_path, entry_path, major=1)


def test_expiry_is_asked_with_a_time() -> None:
    told = read(expiresAt="2026-12-01T00:00:00Z")
    assert told.is_expired(NOW) and not told.is_expired(NOW - timedelta(microseconds=1))
