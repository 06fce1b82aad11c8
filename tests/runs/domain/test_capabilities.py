"""Discovery documents of both majors: what a host says, what it denies, and what it leaves open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runs.domain.capabilities import (
    DIMENSIONS,
    WITHHELD,
    Capabilities,
    Change,
    NotADiscoveryDocument,
    changes,
    has_credential,
    read_capabilities,
    without_credentials,
)

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "capabilities"

RECORD = {"status": "stable", "since": "2.0", "witness": "witnessable-gated"}
SECOND = {"protocolVersions": ["1.1", "2.0"], "preferredVersion": "2.0"}
CORE = {
    "protocolVersion": "1.1",
    "supportedEnvelopes": ["clarification.request"],
    "schemaVersions": {},
    "limits": {"clarificationRounds": 0, "schemaRounds": 0, "envelopesPerTurn": 0},
}


def recorded(name: str) -> Capabilities:
    return read_capabilities(json.loads((FOLDER / f"{name}.json").read_text()))


def answers(told: Capabilities) -> dict[str, str]:
    return {dimension.name: dimension.answer for dimension in told.dimensions.values()}


def answer(name: str, document: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    dimension = read_capabilities(document).dimensions[name]
    return dimension.answer, dimension.pointers


NOT_BUT_ATTRIBUTION = dict.fromkeys(DIMENSIONS, "not") | {"attribution": "supported"}

RECORDED = {
    "openwop-app": NOT_BUT_ATTRIBUTION,
    "sqlite": NOT_BUT_ATTRIBUTION,
    # A credential that sees less does not see the family `agents`.
    "sqlite-tenant-b": NOT_BUT_ATTRIBUTION | {"long-term": "unknown", "replay-snapshot": "unknown"},
    "postgres": {
        "read": "supported",
        "write": "supported",
        "search": "not",
        "long-term": "supported",
        "compaction": "supported",
        "distillation": "not",
        "attribution": "supported",
        "replay-snapshot": "unknown",
        "retention": "supported",
    },
    "in-memory": dict.fromkeys(DIMENSIONS, "not")
    | {"read": "unknown", "write": "unknown", "distillation": "supported"},
    "python": dict.fromkeys(DIMENSIONS, "unknown"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_document(name: str) -> None:
    told = recorded(name)
    assert tuple(told.dimensions) == DIMENSIONS
    assert answers(told) == RECORDED[name]
    assert told.majors == (1,)
    assert told.withheld == ()


def test_claim_of_attribution_stands_apart_from_reading() -> None:
    for name in ("openwop-app", "sqlite"):
        told = recorded(name)
        assert told.claims_attribution and told.dimensions["read"].answer == "not"
    assert not recorded("python").claims_attribution


def test_details_of_recorded_documents() -> None:
    app, postgres = recorded("openwop-app"), recorded("postgres")
    assert (app.implementation, app.version, app.injection_unit, app.fork_modes) == (
        "openwop-workflow-engine",
        "0.1.0",
        "chars",
        ("replay",),
    )
    assert (postgres.max_entry_size_bytes, postgres.ttl_supported, postgres.injection_unit) == (65536, True, None)
    assert postgres.dimensions["retention"].details == ("ttl",)
    assert postgres.signature_algorithms == ("v1",)


def first(**families: Any) -> dict[str, Any]:
    return CORE | families


def second(**families: Any) -> dict[str, Any]:
    """Its families are records; a plain one makes the document one of the second major."""
    return SECOND | {"eventLog": RECORD} | {name: RECORD | facets for name, facets in families.items()}


MEMORY = "/memory"
DIMENSION_TABLE = [
    ("read", first(), "unknown", MEMORY),
    ("read", first(memory={"supported": True}), "supported", "/memory/supported"),
    ("read", first(memory={"supported": False}), "not", "/memory/supported"),
    ("read", second(), "not", MEMORY),
    ("read", second(memory={}), "supported", MEMORY),
    ("write", first(memory={"supported": True}), "supported", "/memory/supported"),
    ("write", first(memory={"supported": True, "writable": False}), "not", "/memory/writable"),
    ("write", first(memory={"supported": True, "writable": True}), "supported", "/memory/writable"),
    ("write", second(memory={"writable": False}), "not", "/memory/writable"),
    (
        "search",
        first(memory={"supported": True, "search": {"supported": True}}),
        "supported",
        "/memory/search/supported",
    ),
    ("search", first(memory={"supported": True}), "not", "/memory/search"),
    ("search", second(memory={"search": {"modes": ["semantic"]}}), "supported", "/memory/search"),
    ("long-term", first(agents={"memoryBackends": ["long-term"]}), "supported", "/agents/memoryBackends"),
    ("long-term", first(agents={"memoryBackends": ["scratchpad"]}), "not", "/agents/memoryBackends"),
    ("long-term", second(agents={}), "not", "/agents/memoryBackends"),
    ("compaction", first(memory={"compaction": {"supported": False}}), "not", "/memory/compaction/supported"),
    ("compaction", second(memory={"compaction": {"trigger": "both"}}), "supported", "/memory/compaction"),
    ("distillation", second(memory={}), "not", "/memory/distillation"),
    (
        "attribution",
        first(memory={"attribution": {"supported": True, "emitsWriteEvents": True}}),
        "supported",
        "/memory/attribution/emitsWriteEvents",
    ),
    ("attribution", first(memory={"attribution": {"supported": True}}), "not", "/memory/attribution/emitsWriteEvents"),
    (
        "attribution",
        first(memory={"attribution": {"emitsWriteEvents": True}}),
        "not",
        "/memory/attribution/emitsWriteEvents",
    ),
    (
        "attribution",
        second(memory={"attribution": {"emitsWriteEvents": True}}),
        "supported",
        "/memory/attribution/emitsWriteEvents",
    ),
    ("attribution", second(memory={"attribution": {}}), "not", "/memory/attribution/emitsWriteEvents"),
    ("retention", first(memory={"supported": True, "retention": {"forget": True}}), "supported", "/memory/retention"),
    ("retention", first(memory={"supported": True, "ttlSupported": True}), "supported", "/memory/ttlSupported"),
    ("retention", second(memory={"retention": {"ttl": False}}), "not", "/memory/retention"),
]


@pytest.mark.parametrize(("name", "document", "expected", "place"), DIMENSION_TABLE)
def test_dimension_table(name: str, document: dict[str, Any], expected: str, place: str) -> None:
    assert answer(name, document) == (expected, (place,))


@pytest.mark.parametrize("spelling", [pytest.param(one, id=f"i22-{one}") for one in ("long-term", "longTerm")])
def test_long_term_memory_has_two_spellings(spelling: str) -> None:
    assert answer("long-term", first(agents={"memoryBackends": [spelling]}))[0] == "supported"


@pytest.mark.parametrize(
    ("backends", "version", "expected"),
    [
        (["long-term"], 2, "supported"),
        (["long-term"], 4, "supported"),
        (["long-term"], 1, "not"),
        (["scratchpad"], 4, "not"),
        (["long-term"], None, "unknown"),
        (None, 4, "unknown"),
    ],
)
def test_replay_snapshot_is_derived(backends: list[str] | None, version: int | None, expected: str) -> None:
    document = first(
        **({} if backends is None else {"agents": {"memoryBackends": backends}}),
        **({} if version is None else {"multiAgent": {"executionModel": {"supported": True, "version": version}}}),
    )
    told, pointers = answer("replay-snapshot", document)
    assert told == expected
    assert pointers[0] == "/agents/memoryBackends"


ATTRIBUTION = {"memory": {"attribution": {"supported": True, "emitsWriteEvents": True}}}
DENIAL = {"memory": {"attribution": {"supported": True, "emitsWriteEvents": False}}}


@pytest.mark.parametrize(
    ("document", "expected", "place"),
    [
        pytest.param(first(**ATTRIBUTION), "supported", "/memory/attribution/emitsWriteEvents", id="j21-root"),
        pytest.param(
            first(capabilities=ATTRIBUTION),
            "supported",
            "/capabilities/memory/attribution/emitsWriteEvents",
            id="j21-wrapper",
        ),
        pytest.param(
            first(capabilities=DENIAL, **ATTRIBUTION),
            "supported",
            "/memory/attribution/emitsWriteEvents",
            id="j21-both-root-first",
        ),
        pytest.param(
            first(capabilities=ATTRIBUTION, **DENIAL),
            "not",
            "/memory/attribution/emitsWriteEvents",
            id="j21-both-denied",
        ),
    ],
)
def test_root_is_read_before_the_wrapper(document: dict[str, Any], expected: str, place: str) -> None:
    assert answer("attribution", document) == (expected, (place,))


def test_a_family_that_the_host_refuses_is_no_unknown() -> None:
    assert answer("read", first(refusedCapabilities=["memory"])) == ("not", ("/refusedCapabilities",))


def families(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {family.name: (family.pointer, family.answer) for family in read_capabilities(document).families}


METADATA = (
    *("protocolVersion", "protocolVersions", "preferredVersion", "extensions", "implementation", "engineVersion"),
    *("eventLogSchemaVersion", "configurable", "observability", "minClientVersion", "runtimeCapabilities", "testing"),
    *("conformance", "fixtures", "compliance", "discovery", "supportedTransports", "signingKeys", "hostExtensions"),
)


@pytest.mark.parametrize("name", METADATA)
def test_metadata_is_no_family(name: str) -> None:
    assert families({name: {"supported": True}, "cache": {"supported": True}}) == {"cache": ("/cache", "supported")}


@pytest.mark.parametrize(
    "name", ["memory", "agents", "multiAgent", "replay", "webhooks", "feedback", "debugBundle", "runList"]
)
def test_a_known_family_may_say_nothing(name: str) -> None:
    assert families({name: {}, "unheard": {}}) == {name: (f"/{name}", "unknown")}


def test_families_of_the_root_and_the_wrapper() -> None:
    document = {
        "cache": {"supported": False},
        "capabilities": {"cache": {"supported": True}, "sql": {"supported": True}, "on": True, "off": False, "odd": 7},
    }
    assert families(document) == {
        "cache": ("/cache", "not"),
        "sql": ("/capabilities/sql", "supported"),
        "on": ("/capabilities/on", "supported"),
        "off": ("/capabilities/off", "not"),
        "odd": ("/capabilities/odd", "unknown"),
    }


@pytest.mark.parametrize(
    ("record", "is_one"),
    [
        ({"status": "stable", "since": "2.0"}, True),
        ({"status": "stable", "witness": "claims-check"}, True),
        ({"status": "stable"}, False),
        ({"since": "2.0", "witness": "claims-check"}, False),
        ({"status": "stable", "since": "2.0", "supported": True}, False),
        ([], False),
    ],
)
def test_what_makes_a_record(record: object, is_one: bool) -> None:
    told = read_capabilities({"memory": record})
    (family,) = told.families
    assert (family.status is not None) == is_one
    # Only the second major says "not" by saying nothing.
    assert told.dimensions["long-term"].answer == ("not" if is_one else "unknown")


DETAILS = [
    ("search", {"memory": {"search": {"supported": True, "modes": ["semantic", 7, "filter"]}}}, ("semantic", "filter")),
    ("search", {"memory": {"search": {"supported": False, "modes": ["semantic"]}}}, ()),
    ("long-term", {"agents": {"memoryBackends": ["scratchpad", "long-term"]}}, ("scratchpad", "long-term")),
    ("replay-snapshot", {"multiAgent": {"executionModel": {"version": 3}}}, ("version 3",)),
    ("replay-snapshot", {}, ()),
    ("retention", {"memory": {"retention": {"ttl": True, "forget": True}}}, ("ttl", "forget")),
    ("retention", {"memory": {"retention": {"forget": True}, "ttlSupported": True}}, ("ttl", "forget")),
    ("retention", {"memory": {"retention": {"ttl": True}, "ttlSupported": True}}, ("ttl",)),
]


@pytest.mark.parametrize(("name", "document", "details"), DETAILS)
def test_details(name: str, document: dict[str, Any], details: tuple[str, ...]) -> None:
    assert read_capabilities(document).dimensions[name].details == details


@pytest.mark.parametrize(
    ("model", "expected", "place"),
    [
        ({"supported": True, "version": 2}, "supported", "/multiAgent/executionModel/version"),
        ({"supported": False, "version": 2}, "not", "/multiAgent/executionModel/version"),
        ({"supported": True}, "unknown", "/multiAgent/executionModel/version"),
        ({"supported": True, "version": "2"}, "unknown", "/multiAgent/executionModel/version"),
        (None, "unknown", "/multiAgent/executionModel/version"),
        (..., "unknown", "/multiAgent/executionModel"),
    ],
)
def test_execution_model(model: object, expected: str, place: str) -> None:
    agents = {"agents": {"memoryBackends": ["long-term"]}}
    document = first(**agents, **({} if model is ... else {"multiAgent": {"executionModel": model}}))
    assert answer("replay-snapshot", document) == (expected, ("/agents/memoryBackends", place))


def test_execution_model_of_the_second_major() -> None:
    long_term = {"memoryBackends": ["long-term"]}
    assert answer("replay-snapshot", second(agents=long_term))[0] == "not"
    told = second(agents=long_term, multiAgent={"executionModel": {"version": 2}})
    assert answer("replay-snapshot", told)[0] == "supported"


@pytest.mark.parametrize(
    ("memory", "unit"),
    [
        ({"injectionBudget": {"supported": True, "tokenCounter": "o200k_base"}}, "o200k_base"),
        ({"injectionBudget": {"supported": True}}, "unknown"),
        ({"injectionBudget": {"supported": False, "tokenCounter": "chars"}}, None),
        ({}, None),
    ],
)
def test_injection_budget(memory: dict[str, Any], unit: str | None) -> None:
    assert read_capabilities(first(memory=memory)).injection_unit == unit


def test_who_made_it() -> None:
    told = read_capabilities({"implementation": {"name": "n", "version": "1", "vendor": "v"}})
    assert (told.implementation, told.version, told.vendor) == ("n", "1", "v")
    odd = read_capabilities({"implementation": {"name": 7}})
    assert (odd.implementation, odd.version, odd.vendor) == ("", "", "")


@pytest.mark.parametrize(
    ("versions", "majors"),
    [
        ({"protocolVersion": "1.0"}, (1,)),
        ({"preferredVersion": "2.1"}, (2,)),
        ({"protocolVersions": ["1.1", "2.0", "x", 3, "2"]}, (2, 1)),
        ({"protocolVersion": 1}, ()),
        ({"protocolVersion": "1234.0"}, ()),
        ({}, ()),
    ],
)
def test_majors(versions: dict[str, Any], majors: tuple[int, ...]) -> None:
    assert read_capabilities(versions).majors == majors


def test_record_of_the_second_major() -> None:
    told = read_capabilities(
        second(memory={}) | {"feedback": RECORD | {"status": "experimental", "until": "2027-01-01"}}
    )
    families = {family.name: family for family in told.families}
    assert told.majors == (2, 1)
    assert (families["memory"].status, families["memory"].since, families["memory"].witness) == (
        "stable",
        "2.0",
        "witnessable-gated",
    )
    assert families["feedback"].until == "2027-01-01"
    assert "protocolVersions" not in families


@pytest.mark.parametrize(
    ("document", "holding"),
    [
        (CORE, {"openwop-discovery-core", "openwop-interrupts"}),
        ({}, set()),
        (first(replay={"supported": True, "modes": ["branch"]}), {"openwop-replay-fork"}),
        (first(replay={"supported": True, "modes": []}), set()),
        (first(memory={"supported": True}, agents={"memoryBackends": ["long-term"]}), {"openwop-memory"}),
        (first(memory={"supported": True, "writable": False}, agents={"memoryBackends": ["long-term"]}), set()),
        (second(replay={"modes": ["replay"]}), {"openwop-discovery-core", "openwop-replay-fork"}),
        (
            second(interrupt={}, replay={"modes": ["replay"]}, webhooks={}, idempotency={}),
            {"openwop-core-standard"},
        ),
        (second(interrupt={}, replay={"modes": ["replay"]}, webhooks={}), {"openwop-discovery-core"}),
    ],
)
def test_profiles(document: dict[str, Any], holding: set[str]) -> None:
    profiles = {profile.name: profile for profile in read_capabilities(document).profiles}
    held = {name for name, profile in profiles.items() if profile.holds}
    if holding:
        assert holding <= held
    else:
        assert not held - {"openwop-discovery-core", "openwop-interrupts"}
    assert "openwop-core-standard" not in held or "openwop-core-standard" in holding


def test_a_profile_says_what_is_missing() -> None:
    (profile,) = (one for one in recorded("sqlite").profiles if one.name == "openwop-memory")
    assert profile.missing == (
        "read memory is supported",
        "write memory is supported",
        "long-term memory is supported",
    )


def test_an_empty_document_is_in_no_profile() -> None:
    missing = {profile.name: profile.missing for profile in read_capabilities({}).profiles}
    assert missing["openwop-discovery-core"] == (
        "protocolVersion is of major 1",
        "supportedEnvelopes is an array",
        "schemaVersions is an object",
        "limits.clarificationRounds is a count",
        "limits.schemaRounds is a count",
        "limits.envelopesPerTurn is a count",
    )
    assert missing["openwop-interrupts"][-1] == "supportedEnvelopes has clarification.request"
    assert missing["openwop-replay-fork"][-2:] == ("replay is supported", "replay.modes is not empty")
    only_records = read_capabilities({"memory": RECORD}).profiles[0]
    assert only_records.missing == ("protocolVersions is there", "preferredVersion is there")


def test_a_negative_limit_is_no_count() -> None:
    told = read_capabilities(CORE | {"limits": CORE["limits"] | {"schemaRounds": -1}})  # type: ignore[operator]
    assert told.profiles[0].missing == ("limits.schemaRounds is a count",)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([{"a": 1}], [{"a": 2}], [Change("changed", "/x", [{"a": 1}], [{"a": 2}])]),
        ([{"a": 1}], [{"a": 1}], []),
        ([1], {"a": 1}, [Change("changed", "/x", [1], {"a": 1})]),
        ({"a": 1}, [1], [Change("changed", "/x", {"a": 1}, [1])]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [Change("changed", "/x/a/b", 1, 2)]),
        ({"a/b": 1}, {}, [Change("removed", "/x/a~1b", 1)]),
        (1, True, [Change("changed", "/x", 1, True)]),
        (["a", "b"], ["b", "a"], []),
        ([1], [True], [Change("added", "/x/-", after=True), Change("removed", "/x/-", before=1)]),
        (None, None, []),
    ],
)
def test_change_table(before: object, after: object, expected: list[Change]) -> None:
    assert changes(read_capabilities({"x": before}), read_capabilities({"x": after})) == expected


def test_changes_between_two_readings() -> None:
    before = read_capabilities(first(memory={"supported": True, "ttlSupported": True}, fixtures=["a", "b", "b"]))
    after = read_capabilities(first(memory={"supported": True, "ttlSupported": 1}, fixtures=["b", "c", "a"], new=None))
    assert changes(before, after) == [
        Change("added", "/fixtures/-", after="c"),
        Change("removed", "/fixtures/-", before="b"),
        Change("changed", "/memory/ttlSupported", before=True, after=1),
        Change("added", "/new"),
    ]
    assert changes(before, before) == []


def test_what_another_credential_sees_of_a_host() -> None:
    told = changes(recorded("postgres"), recorded("postgres-tenant-b"))
    # Each family stands in the root and in the wrapper; one change is told once.
    assert [(change.kind, change.pointer) for change in told] == [
        ("removed", "/dispatch"),
        ("removed", "/orchestrator"),
    ]


SECRETS = {
    "/apiKey": "zzz",
    "/auth/token": "zzz",
    "/callbackUrl": "https://h/resume/zzz",
    "/deep/0/clientSecret": "zzz",
    "/fragment": "https://h/#access_token=zzz",
    "/key": "sk-0123456789abcdefzzz",
    "/query": "see https://h/x?streamToken=zzz now",
    "/tokens/0": "zzz",
    "/userinfo": "https://me:zzz@h/x",
}


def test_credentials_are_not_kept() -> None:
    told = read_capabilities(
        CORE
        | {
            "apiKey": "zzz",
            "auth": {"token": "zzz", "tokenEndpoint": "https://h/token"},
            "callbackUrl": "https://h/resume/zzz",
            "deep": [{"clientSecret": "zzz"}],
            "fragment": "https://h/#access_token=zzz",
            "key": SECRETS["/key"],
            "query": SECRETS["/query"],
            "tokens": ["zzz"],
            "userinfo": SECRETS["/userinfo"],
            "secrets": {"supported": True, "scopes": ["user"]},
            "tokenCounter": "chars",
            "docs": "https://h/x?lang=en",
        }
    )
    assert set(told.withheld) == SECRETS.keys()
    assert "zzz" not in repr(told)
    assert told.document["secrets"] == {"supported": True, "scopes": ["user"]}
    assert (told.document["tokenCounter"], told.document["docs"]) == ("chars", "https://h/x?lang=en")
    assert told.document["apiKey"] == WITHHELD


def test_a_value_without_credentials_is_the_same() -> None:
    for name in RECORDED:
        document = json.loads((FOLDER / f"{name}.json").read_text())
        assert without_credentials(document) == (document, ())


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("https://h/x", False),
        ("https://h/x?page=2#top", False),
        ("https://h/?apiKey=x", True),
        ("go to https://h/?a=1&resume_token=x now", True),
        ('{"url":"https://me:pw@h/"}', True),
        ("mail me@h.example", False),
        ("https://[unreadable", True),
        ("no address: a:b@c", False),
        ("Bearer abcdefghijklmnop0123", True),
        ("whsec_abcdefghijklmnop0123", True),
        ("", False),
    ],
)
def test_looks_of_a_credential(text: str, is_one: bool) -> None:
    assert has_credential(text) == is_one


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("token", True),
        ("Tokens", True),
        ("refresh_token", True),
        ("refreshToken", True),
        ("x-api-key", True),
        ("apikey", True),
        ("privateKey", True),
        ("password", True),
        ("Authorization", True),
        ("set-cookie", True),
        ("resumeUrl", True),
        ("tokenCounter", False),
        ("tokenEndpoint", False),
        ("publicKey", False),
        ("keyId", False),
        ("monkey", False),
        ("accessible", False),
        ("x" * 200 + "-token", True),
    ],
)
def test_names_of_credentials(name: str, is_one: bool) -> None:
    assert without_credentials({name: "value"}) == (
        ({name: WITHHELD}, (f"/{name}",)) if is_one else ({name: "value"}, ())
    )
    assert without_credentials({name: 7})[1] == ()


@pytest.mark.parametrize("text", ["a" * 200_000 + "://", "http" * 50_000 + "://x", "https://" * 20_000])
def test_long_texts_are_looked_through_quickly(text: str) -> None:
    assert not has_credential(text)


@pytest.mark.parametrize("document", [None, [], "x", 7])
def test_what_is_no_document(document: object) -> None:
    with pytest.raises(NotADiscoveryDocument):
        read_capabilities(document)


def test_a_document_nested_beyond_reason_is_none() -> None:
    document: dict[str, Any] = {}
    for _ in range(400):
        document = {"x": document}
    with pytest.raises(NotADiscoveryDocument, match="MAX_DEPTH"):
        read_capabilities(document)


@pytest.mark.parametrize("broken", [None, 7, "x", [], {"attribution": 7}, {"supported": "yes", "attribution": []}])
def test_members_of_unexpected_kinds_are_unknown_or_absent(broken: object) -> None:
    told = read_capabilities(first(memory=broken, agents=broken, multiAgent=broken, replay=broken, webhooks=broken))
    assert "supported" not in answers(told).values()
