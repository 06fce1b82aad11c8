from __future__ import annotations

import pytest

from ledger.domain.key_registry import BadKey, Key, KeyRegistry, KeyRule, read_key
from ledger.domain.normalisers import Kind


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("fact", "cafe\u0301"), ("fact", "caf\u00e9")),
        (("Fact", " Subscription  Plan"), ("fact", "subscription plan")),
        ((None, "plan"), ("fact", "plan")),
        (("", "plan"), ("fact", "plan")),
        (("fact", "\u30d7\u30e9\u30f3"), ("fact", "\u30d5\u309a\u30e9\u30f3")),
    ],
)
def test_spellings_of_one_key(one: tuple[str | None, str], other: tuple[str | None, str]) -> None:
    assert read_key(*one) == read_key(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("fact", "套餐"), ("fact", "城市")),
        (("fact", "喜欢"), ("fact", "不喜欢")),
        (("fact", "maße"), ("fact", "masse")),
        (("fact", "plan"), ("preference", "plan")),
        (("fact", "subscription plan"), ("fact", "subscription_plan")),
        (("fact", "a-b"), ("fact", "a_b")),
        (("fact", "résumé"), ("fact", "resume")),
    ],
)
def test_distinct_keys_stay_distinct(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert read_key(*one) != read_key(*other)


def test_a_key_reads_as_it_was_named() -> None:
    assert read_key("Fact", "Plan") == Key("fact", "plan")


@pytest.mark.parametrize(
    ("category", "name", "field", "complaint"),
    [
        ("fact", "", "key", "is empty"),
        ("fact", " \n", "key", "is empty"),
        (" ", "plan", "category", "is empty"),
        ("fact", "x" * 257, "key", "is longer than 256 characters"),
        ("x" * 257, "plan", "category", "is longer than 256 characters"),
    ],
)
def test_keys_that_are_none(category: str, name: str, field: str, complaint: str) -> None:
    with pytest.raises(BadKey) as caught:
        read_key(category, name)
    assert (caught.value.field, str(caught.value)) == (field, f"{field} {complaint}")


def test_the_longest_key() -> None:
    assert read_key("fact", "x" * 256).name == "x" * 256


def test_a_key_that_nobody_registered_holds_one_value_at_a_time() -> None:
    rule = KeyRegistry().rule(read_key("fact", "subscription_plan"))
    assert rule == KeyRule("single", Kind.PLAIN, None, False)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("likes:tea", KeyRule("single", Kind.TRUTH)),
        ("likes:ratio 1:2", KeyRule("single", Kind.TRUTH)),
        ("prefers:quiet rooms", KeyRule("single", Kind.TRUTH)),
        ("uses:vim", KeyRule("single", Kind.TRUTH)),
        ("speaks:german", KeyRule("single", Kind.TRUTH)),
        ("allergic_to:nuts", KeyRule("single", Kind.TRUTH)),
        ("likes", KeyRule()),
        ("dislikes:tea", KeyRule()),
        ("birthday", KeyRule("single", Kind.DATE)),
        ("email", KeyRule("single", Kind.TEXT)),
        ("skills", KeyRule("many", Kind.TEXT)),
        ("tags", KeyRule("many", Kind.TEXT)),
        ("languages", KeyRule("many", Kind.TEXT)),
    ],
)
def test_built_in_rules(name: str, rule: KeyRule) -> None:
    assert KeyRegistry().rule(read_key("any", name)) == rule


def test_a_tenants_rule_comes_first_and_is_for_its_category() -> None:
    own = KeyRule("single", Kind.IDENTIFIER)
    registry = KeyRegistry({read_key("fact", "tags"): own})
    assert registry.rule(read_key("fact", "tags")) == own
    assert registry.rule(read_key("other", "tags")) == KeyRule("many", Kind.TEXT)
