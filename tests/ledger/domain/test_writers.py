from __future__ import annotations

from typing import Any

import pytest

from ledger.domain.writers import (
    UNREGISTERED_PRIORITY,
    Authorities,
    AuthorityRules,
    BadWriter,
    read_authority_rules,
    read_service_key,
)


def test_a_category_of_its_own_comes_before_the_default() -> None:
    rules = read_authority_rules({"default_priority": 50, "categories": {"Fact": 80, "preference": 0}})
    assert (rules.priority("fact"), rules.priority("preference"), rules.priority("other")) == (80, 0, 50)


@pytest.mark.parametrize("raw", [None, {}, {"categories": None}])
def test_rules_left_out_have_defaults(raw: Any) -> None:
    assert read_authority_rules(raw) == AuthorityRules(50, {})


def test_a_writer_without_rules_has_no_authority() -> None:
    told = Authorities({"crm": AuthorityRules(10, {"fact": 70})})
    assert (told.of("crm", "fact"), told.of("crm", "taste"), told.of("host:a", "fact")) == (70, 10, 0)
    assert UNREGISTERED_PRIORITY == 0


@pytest.mark.parametrize(
    ("raw", "field", "complaint"),
    [
        ([], "authority_rules", "is not an object"),
        ({"priority": 3}, "authority_rules.priority", "is unknown"),
        ({"categories": 3}, "authority_rules.categories", "is not an object"),
        ({"default_priority": 101}, "authority_rules.default_priority", "is not a whole number from 0 to 100"),
        ({"default_priority": -1}, "authority_rules.default_priority", "is not a whole number from 0 to 100"),
        ({"default_priority": True}, "authority_rules.default_priority", "is not a whole number from 0 to 100"),
        ({"default_priority": "9"}, "authority_rules.default_priority", "is not a whole number from 0 to 100"),
        ({"categories": {"fact": 1.5}}, "authority_rules.categories.fact", "is not a whole number from 0 to 100"),
    ],
)
def test_rules_that_cannot_be_registered(raw: Any, field: str, complaint: str) -> None:
    with pytest.raises(BadWriter) as caught:
        read_authority_rules(raw)
    assert caught.value.field == field
    assert str(caught.value) == f"{field} {complaint}"


def test_the_bounds_of_a_priority() -> None:
    assert read_authority_rules({"default_priority": 0, "categories": {"a": 100}}).priority("a") == 100


@pytest.mark.parametrize("key", ["crm", "chat-service", "a", "9", "a.b_c-d", "a" * 64])
def test_service_keys(key: str) -> None:
    assert read_service_key(key) == key


@pytest.mark.parametrize("key", ["", "-crm", "crm-", "CRM", "crm sync", "a" * 65, "é", None, 3, "crm\n"])
def test_what_is_no_service_key(key: Any) -> None:
    with pytest.raises(BadWriter, match="^service_key is not a slug") as caught:
        read_service_key(key)
    assert caught.value.field == "service_key"
