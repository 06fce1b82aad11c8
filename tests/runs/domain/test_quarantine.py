from __future__ import annotations

import hashlib
import json
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.event import Leak

from .examples import compact, event, refused, taken

IDS = {"memoryRef": "tenant-memory", "memoryId": "mem_1", "nodeId": "research"}
CANARY = "the canary sang"
SECRETS = [
    "sk-proj-" + "Ab3" * 8,
    "sk_live_" + "a1" * 10,
    "ghp_" + "Z" * 36,
    "github_pat_" + "x1_" * 10,
    "xoxb-123456789012-abc",
    "AIza" + "a" * 35,
    "AKIA" + "ABCD1234" * 2,
    "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIB",
    "Authorization: Bearer abcdefghijklmnop",
    "whsec_" + "A" * 24,
    "/v1/runs/r/events?streamToken=abcdef",
]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def mark(text: str) -> dict[str, Any]:
    return {"$quarantined": {"sha256": sha256(text), "bytes": len(text.encode())}}


def words(text: str) -> str:
    return f"[quarantined sha256:{sha256(text)} bytes:{len(text.encode())}]"


def written(payload: Any, **members: Any) -> str:
    return compact(event(type="memory.written", payload=payload, **members))


def test_event_without_content_is_left_alone() -> None:
    raw = written({**IDS, "agentId": "writer", "tags": ["run-summary", "run-id:run-1"], "tokensUsed": 12, "ok": True})
    told = taken(raw)
    assert (told.body, told.leaks) == (raw, ())


def test_content_is_replaced_by_its_digest_and_length() -> None:
    told = taken(written({**IDS, "content": "prefers tea ☕"}))
    assert json.loads(told.body)["payload"] == {**IDS, "content": mark("prefers tea ☕")}
    assert told.leaks == (Leak("/payload/content", sha256("prefers tea ☕"), 15, "content"),)


@pytest.mark.parametrize("content", [CANARY, "", 5, 1.50, True, False, [CANARY], {"a": {"b": CANARY}}, []])
@pytest.mark.parametrize(
    "name",
    [
        "content",
        "Content",
        "text",
        "value",
        "body",
        "messages",
        "summary",
        "data",
        "entry",
        "memory",
        "embedding",
        "Values",
    ],
)
def test_content_by_name_goes_whatever_its_type(name: str, content: Any) -> None:
    told = taken(written({**IDS, name: content}))
    assert CANARY not in told.body
    assert [leak.path for leak in told.leaks] == [f"/payload/{name}"]


def test_digest_of_a_value_that_is_no_text_is_over_its_canonical_json() -> None:
    raw = written({"content": "@"}).replace('"@"', '{"z" : [1.10, "é"], "a":-0}')
    assert json.loads(taken(raw).body)["payload"]["content"] == mark('{"a":-0,"z":[1.10,"é"]}')


def test_absent_content_is_no_leak() -> None:
    assert taken(written({**IDS, "content": None})).leaks == ()


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]")])
def test_content_is_found_at_the_deepest_level(opening: str, closing: str) -> None:
    for depth in (252, 253, 254):  # with the event and the object around the content: 254, 255, 256
        raw = written("@").replace('"@"', opening * depth + json.dumps({"text": CANARY}) + closing * depth)
        told = taken(raw)
        assert CANARY not in told.body
        assert len(told.leaks) == 1
        assert taken(told.body).body == told.body


@pytest.mark.parametrize(
    "type",
    [
        "memory.written",
        "memory.compacted",
        "agent.memory.consolidated",
        "agent.memory-consolidated",
        "commitment.fired",
        "x-host-myndhyve-memory-written",
        "acme.memory.written",
        "acme.MemoryWritten",
    ],
)
def test_every_type_that_announces_memory_is_searched(type: str) -> None:
    assert taken(compact(event(type=type, payload={"content": CANARY}))).leaks


@pytest.mark.parametrize("type", ["node.completed", "run.completed", "workspace.updated", "agent.reasoned"])
def test_content_of_other_events_stays(type: str) -> None:
    raw = compact(event(type=type, payload={"content": CANARY, "text": CANARY * 30}))
    told = taken(raw)
    assert (told.body, told.leaks) == (raw, ())


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("type", ["node.completed", "agent.toolReturned", "acme.any"])
def test_keys_go_from_every_event_wherever_they_stand(type: str, secret: str) -> None:
    payload = {"outputs": {"text": f"use {secret} here"}, "list": ["fine", secret], secret: 1, "agentId": secret}
    told = taken(compact(event(type=type, nodeId=secret, eventId=secret, extra=secret, payload=payload)))
    stored = json.loads(told.body)
    assert secret not in told.body
    assert (stored["nodeId"], stored["eventId"], stored["extra"]) == (words(secret), words(secret), mark(secret))
    assert (told.node_id, told.event_id, told.agent_id) == (words(secret),) * 3
    assert stored["payload"] == {
        "outputs": {"text": mark(f"use {secret} here")},
        "list": ["fine", words(secret)],
        words(secret): 1,
        "agentId": words(secret),
    }
    assert {leak.kind for leak in told.leaks} == {"credential"}
    again = taken(told.body)
    assert (again.body, again.digest, again.leaks) == (told.body, told.digest, ())


def test_a_long_text_loses_its_keys_and_nothing_else() -> None:
    prose, pem = "said at length " * 40, "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----"
    told = taken(compact(event(payload={"text": f"é{prose}{SECRETS[2]}, then\n{pem} and {SECRETS[0]}."})))
    kept = f"é{prose}{words(SECRETS[2])}, then\n{words(pem)} and {words(SECRETS[0] + '.')}"
    assert json.loads(told.body)["payload"]["text"] == kept
    assert [(leak.path, leak.length) for leak in told.leaks] == [
        ("/payload/text", 40),
        ("/payload/text", len(pem)),
        ("/payload/text", len(SECRETS[0]) + 1),
    ]


@pytest.mark.parametrize(
    ("name", "value", "goes"),
    [
        ("apiKey", "0123-4567-89ab", True),
        ("x-api-key", "0123-4567-89ab", True),
        ("OPENAI_API_KEY", "0123-4567-89ab", True),
        ("password", "correct horse", True),
        ("clientSecret", "opensesame", True),
        ("refresh_token", "opensesame", True),
        ("Authorization", "Basic dXNlcjpwYXNz", True),
        ("apiKey", "[REDACTED:openai]", False),
        ("apiKey", "********", False),
        ("apiKey", "${OPENAI}", False),
        ("password", None, False),
        ("secret", True, False),
        ("secretRef", "vault:openai-key", False),
        ("passwordHint", "the usual one", False),
        ("tokens", "opensesame", False),
        ("keyboard", "opensesame", False),
    ],
)
def test_texts_that_are_called_secrets(name: str, value: object, goes: bool) -> None:
    told = taken(compact(event(payload={"headers": [{name: value}]})))
    assert [leak.path for leak in told.leaks] == ([f"/payload/headers/0/{name}"] if goes else [])


def test_ids_that_begin_like_a_key_stay() -> None:
    raw = compact(event(nodeId="sk-summarise-the-documents", payload={"agentId": "sk-writer-of-summaries"}))
    assert taken(raw).body == raw


def test_a_key_for_a_run_is_refused_and_not_repeated() -> None:
    told = refused(compact(event(runId=SECRETS[2])))
    assert (told.field, SECRETS[2] in told.reason) == ("runId", False)


def test_no_reason_of_a_refusal_repeats_a_key() -> None:
    twice = compact(event(payload={"@": 1})).replace('"@":1', f'"{SECRETS[2]}":1,"{SECRETS[2]}":2')
    assert "quarantined" in refused(twice).reason and SECRETS[2] not in refused(twice).reason


@pytest.mark.parametrize(
    "text", ["sk- " * 200_000, "eyJ" + "a.eyJ" * 200_000, "-----BEGIN " * 100_000, "://:" * 200_000]
)
def test_what_only_begins_like_a_key_costs_no_more_than_its_length(text: str) -> None:
    started = perf_counter()
    assert taken(compact(event(payload={"text": text}))).leaks == ()
    assert perf_counter() - started < 5


def test_every_copy_in_the_event_is_searched() -> None:
    payload = {**IDS, "meta": {"list": [{"snippet": CANARY}]}}
    told = taken(
        compact(event(type="memory.written", payload=payload, data=payload, extra={"text": CANARY}, preview=CANARY))
    )
    assert CANARY not in told.body
    assert {leak.path for leak in told.leaks} == {
        "/payload/meta/list/0/snippet",
        "/data/meta/list/0/snippet",
        "/extra/text",
        "/preview",
    }
    assert told.notes == ()


def test_copy_that_is_all_there_is_is_searched() -> None:
    told = taken(compact(event(type="memory.written", payload=..., data={**IDS, "content": CANARY})))
    assert [leak.path for leak in told.leaks] == ["/data/content"]


@pytest.mark.parametrize("payload", [CANARY, [CANARY], [[CANARY]], [1, {"a": [{"text": CANARY}]}, None]])
def test_payload_that_is_no_object_keeps_no_text(payload: Any) -> None:
    told = taken(written(payload))
    assert CANARY not in told.body
    assert len(told.leaks) == 1


def test_long_text_goes_under_any_name_and_short_text_stays() -> None:
    told = taken(written({**IDS, "remark": "x" * 257, "trigger": "y" * 256}))
    payload = json.loads(told.body)["payload"]
    assert payload == {**IDS, "remark": mark("x" * 257), "trigger": "y" * 256}


@pytest.mark.parametrize(
    ("name", "longest"),
    [("memoryRef", 1500), ("memoryId", 1500), ("outputId", 1500), ("agentId", 512), ("enqueuedRunId", 512)],
)
def test_ids_stay_as_long_as_the_protocol_makes_them(name: str, longest: int) -> None:
    assert taken(written({name: "i" * longest})).leaks == ()
    assert [leak.length for leak in taken(written({name: "i" * (longest + 1)})).leaks] == [longest + 1]


def test_lists_of_ids_stay_and_their_strangers_go() -> None:
    told = taken(
        compact(event(type="memory.compacted", payload={"sourceIds": ["a" * 1500, "b" * 1501], "sourceCount": 2}))
    )
    assert json.loads(told.body)["payload"]["sourceIds"] == ["a" * 1500, words("b" * 1501)]


@pytest.mark.parametrize("secret", SECRETS)
def test_text_that_looks_like_a_secret_goes(secret: str) -> None:
    told = taken(written({**IDS, "remark": f"use {secret} here", "tags": ["demo", secret, "run-id:1"]}))
    payload = json.loads(told.body)["payload"]
    assert payload["remark"] == mark(f"use {secret} here")
    assert payload["tags"] == ["demo", words(secret), "run-id:1"]
    assert [leak.path for leak in told.leaks] == ["/payload/remark", "/payload/tags/1"]


@pytest.mark.parametrize(
    "tag",
    [
        "task-force-of-something-important-2026",
        "run-id:e0a7f4b8-a806-4504-8613-09d0f4d6dda4",
        "workflow:rec.memory-approval",
        "disk-aaaaaaaaaaaaaaaaaaaaaa",
        "compacted-from:mem_ac6581a8-0ef",
        "[REDACTED:openai-key-number-one]",
        "bearer of good news and much more",
    ],
)
def test_ordinary_tags_stay(tag: str) -> None:
    raw = written({**IDS, "tags": [tag]})
    assert taken(raw).body == raw


def test_extension_members_keep_short_scalars() -> None:
    kept = {"x-content": "short", "openwop-value": 5, "vendor.acme.text": True, "x-note": "n" * 256}
    raw = written({**IDS, **kept})
    assert taken(raw).body == raw
    for name, value in [
        ("x-content", "y" * 257),
        ("x-content", {"a": 1}),
        ("vendor.acme.text", [1]),
        ("x-other", SECRETS[0]),
    ]:
        assert [leak.path for leak in taken(written({name: value})).leaks] == [f"/payload/{name}"]


def test_names_that_are_content_are_replaced_too() -> None:
    told = taken(written({**IDS, CANARY * 20: 1, SECRETS[0]: "ok"}))
    payload = json.loads(told.body)["payload"]
    assert payload == {**IDS, words(CANARY * 20): 1, words(SECRETS[0]): mark("ok")}
    assert CANARY not in told.body + repr(told.leaks)
    assert [leak.path for leak in told.leaks] == [
        f"/payload/{words(CANARY * 20)}",
        f"/payload/{words(SECRETS[0])}",
        f"/payload/{words(SECRETS[0])}",
    ]


@pytest.mark.parametrize(
    "name", ["interruptToken", "resumeToken", "callbackUrl", "resumeUrl", "streamToken", "RESUME_TOKEN", "callback-url"]
)
@pytest.mark.parametrize("type", ["node.suspended", "interrupt.requested", "acme.any", "memory.written"])
def test_credentials_go_from_every_event(type: str, name: str) -> None:
    told = taken(compact(event(type=type, payload={"kind": "approval", "inner": [{name: "VoAp_5pHiHg9VSId"}]})))
    assert told.leaks == (Leak(f"/payload/inner/0/{name}", sha256("VoAp_5pHiHg9VSId"), 16, "credential"),)
    assert "VoAp" not in told.body


def test_credential_in_the_envelope_and_under_an_escaped_name_goes() -> None:
    raw = compact(event(resumeUrl="https://h/1")).replace('"resumeUrl"', '"\\u0072esumeUrl"')
    told = taken(raw)
    assert [leak.kind for leak in told.leaks] == ["credential"]
    assert json.loads(told.body)["resumeUrl"] == mark("https://h/1")
    assert '"\\u0072esumeUrl":' in told.body


def test_address_that_carries_a_stream_token_goes() -> None:
    told = taken(compact(event(payload={"eventsUrl": "https://h/events?a=1&streamToken=abc"})))
    assert [(leak.path, leak.kind) for leak in told.leaks] == [("/payload/eventsUrl", "credential")]


@pytest.mark.parametrize("value", [None, "", False])
def test_credential_that_is_not_there_is_no_leak(value: Any) -> None:
    assert taken(compact(event(payload={"interruptToken": value}))).leaks == ()


@pytest.mark.parametrize("name", ["tokenCount", "interruptId", "resumedBy", "url", "tokens", "nextPageToken"])
def test_names_that_only_resemble_a_credential_stay(name: str) -> None:
    raw = compact(event(payload={name: "abcdefghijklmnop"}))
    assert taken(raw).body == raw


def test_everything_else_keeps_its_text() -> None:
    raw = (
        '{ "runId":"r","type":"memory.written","sequence":1.0,\n\t"timestamp":"2026-01-01T00:00:00Z",'
        '"payload":{"memoryRef":"m\\u00e9","n":1.10,"big":12345678901234567890123,"content":"x"},"z":[1e5]}'
    )
    assert taken(raw).body == raw.replace('"x"', json.dumps(mark("x"), separators=(",", ":")))


def test_taking_the_stored_body_in_again_changes_nothing() -> None:
    first = taken(written({**IDS, "content": CANARY, "tags": [SECRETS[0]], CANARY * 20: 1, "resumeToken": "abc"}))
    again = taken(first.body)
    assert (again.body, again.digest, again.leaks) == (first.body, first.digest, ())
    assert taken(compact(event(payload={"resumeToken": words("abc")}))).leaks == ()


def test_host_cannot_smuggle_text_in_what_looks_replaced() -> None:
    for fake in (
        {"$quarantined": CANARY},
        {"$quarantined": {"sha256": CANARY, "bytes": 1}},
        {"$quarantined": {"sha256": "a" * 64, "bytes": CANARY}},
        {"$quarantined": {"sha256": "a" * 64, "bytes": 1, "more": CANARY}},
        {"$quarantined": {"sha256": "a" * 64, "bytes": 1}, "more": CANARY},
    ):
        assert CANARY not in taken(written({"content": fake})).body


def test_digest_and_ids_are_those_of_the_stored_body() -> None:
    first = taken(written({**IDS, "nodeId": "n", "content": CANARY}, nodeId=...))
    assert first.digest == taken(written({**IDS, "nodeId": "n", "content": mark(CANARY)}, nodeId=...)).digest
    assert first.node_id == "n"


def test_event_cannot_grow_by_what_is_taken_out_of_it() -> None:
    many = [{"text": CANARY}] * 1001
    told = taken(written({**IDS, "list": many}, extra={"text": CANARY}))
    assert [(leak.path, leak.kind) for leak in told.leaks] == [("/payload", "content"), ("/extra", "content")]
    assert CANARY not in told.body
    assert len(taken(written({**IDS, "list": many[:-1]})).leaks) == 1000
    tokens = taken(compact(event(payload=[{"resumeToken": "abc"}] * 1001)))
    assert [(leak.path, leak.kind) for leak in tokens.leaks] == [("/payload", "credential")]


def test_event_that_is_nothing_but_leaks_is_refused() -> None:
    strangers = {f"{CANARY * 20}{number}": 1 for number in range(1001)}
    assert "MOST_LEAKS (1000)" in refused(compact(event(type="memory.written", **strangers))).reason


names = st.sampled_from(["content", "text", "tags", "x-a", "meta", "resumeToken", "remark"])
values = st.recursive(
    st.sampled_from([CANARY, CANARY * 30, 5, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, values))
def test_taking_in_is_idempotent(payload: dict[str, Any]) -> None:
    first = taken(json.dumps(event(type="memory.written", payload=payload)))
    again = taken(first.body)
    assert (again.body, again.digest, again.leaks) == (first.body, first.digest, ())
    assert CANARY * 30 not in first.body


@given(st.text(st.characters(), min_size=1).filter(lambda text: text.isprintable() and len(text) > 3))
def test_no_content_is_spelled_so_that_it_gets_through(text: str) -> None:
    content = f"«{text}»"
    for spelling in (json.dumps(content), json.dumps(content, ensure_ascii=False)):
        told = taken(written({"content": "@"}).replace('"@"', spelling))
        assert json.loads(told.body)["payload"]["content"] == mark(content)
