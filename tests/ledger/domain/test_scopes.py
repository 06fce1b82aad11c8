from __future__ import annotations

from typing import Any

import pytest

from ledger.domain.scopes import UNSCOPED, Scope, ScopeError, is_empty, read_scope, without_empty


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        "",
        {"agent_identity": "default"},
        {"agentIdentity": "default"},
        {"agent_id": None},
        {"agent_identity": "  "},
        {"type": None, "labels": [], "extra": {}, "note": ""},
        {"extra": {"inner": {"deep": None, "blank": " "}}},
    ],
)
def test_what_says_nothing_is_no_scope(raw: Any) -> None:
    assert read_scope(raw) == UNSCOPED
    assert UNSCOPED.identity == "default"
    assert UNSCOPED.type is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("project", {"type": "project"}),
        ({"scope_type": "project"}, {"scopeType": "project", "agent_identity": "default"}),
        ({"agentId": "scout"}, {"agent_identity": "scout", "type": None}),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
        ({"team": " red "}, {"team": "red"}),
        ({"team": "cafe\u0301"}, {"team": "caf\u00e9"}),
        ({"a": [1, None]}, {"a": [1, None], "b": None}),
        ({"type": "x", "scope_type": "x"}, "x"),
    ],
)
def test_equal_scopes(one: Any, other: Any) -> None:
    assert read_scope(one) == read_scope(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("project", "Project"),
        ("project", None),
        ({"agent_identity": "scout"}, {"agent_identity": "default"}),
        ({"n": 0}, {}),
        ({"n": False}, {}),
        ({"n": 0}, {"n": False}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": [1, ""]}, {"a": [1]}),
    ],
)
def test_distinct_scopes(one: Any, other: Any) -> None:
    assert read_scope(one) != read_scope(other)


def test_members_are_read_back() -> None:
    scope = read_scope({"scopeType": "project", "agentId": "scout", "project": "p-1"})
    assert scope.members == {"type": "project", "agent_identity": "scout", "project": "p-1"}
    assert (scope.type, scope.identity) == ("project", "scout")
    assert scope == Scope('{"agent_identity":"scout","project":"p-1","type":"project"}')


@pytest.mark.parametrize(
    ("raw", "message", "field"),
    [
        (7, "scope is not an object", "scope"),
        ([1], "scope is not an object", "scope"),
        ({"type": "a", "scopeType": "b"}, "scope.type is told twice", "scope.scopeType"),
        ({"agent_id": "a", "agentIdentity": "b"}, "scope.agent_identity is told twice", "scope.agentIdentity"),
        ({"type": 3}, "scope.type is not a text", "scope.type"),
        ({"agent_identity": ["a"]}, "scope.agent_identity is not a text", "scope.agent_identity"),
        ({"n": 2**60}, "scope/n: integer_too_large", "scope"),
        ({"n": {1: 2}}, "scope/n: not_json", "scope"),
    ],
)
def test_scopes_that_cannot_be_read(raw: Any, message: str, field: str) -> None:
    with pytest.raises(ScopeError) as caught:
        read_scope(raw)
    assert (str(caught.value), caught.value.field) == (message, field)


def test_empty_is_what_says_nothing() -> None:
    nothing: tuple[Any, ...] = (None, "", [], {})
    assert [is_empty(value) for value in nothing] == [True] * 4
    assert [is_empty(value) for value in (0, False, 0.0, "x", [None], {"a": None})] == [False] * 6


def test_elements_of_a_list_keep_their_places() -> None:
    assert without_empty({"a": [None, {"b": ""}, " x "]}) == {"a": [None, {}, "x"]}
    deep: Any = {"x": 1}
    for _ in range(100):
        deep = {"a": deep, "b": None}
    found = without_empty(deep)
    for _ in range(100):
        assert found.keys() == {"a"}
        found = found["a"]
    assert found == {"x": 1}


def test_a_scope_that_is_nested_without_end_is_refused() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ScopeError, match="too_deep"):
        read_scope(deep)
