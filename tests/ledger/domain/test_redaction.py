from __future__ import annotations

import re
from typing import Any

import pytest
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.domain import redaction
from ledger.domain.redaction import (
    BadSecretId,
    Policy,
    Redacted,
    SecretLeakage,
    may_hold_secret,
    redact,
    secret_shapes,
)


@pytest.fixture(scope="module", autouse=True)
def _detectors_made_here() -> None:
    """They are made once for a process; these tests are about how they are made, too."""
    redaction._finders.cache_clear()


def known(text: str, **secrets: str) -> str:
    return redact(text, secrets=secrets).content


@pytest.mark.parametrize(
    ("text", "secrets", "expected"),
    [
        ("say opensesame twice: opensesame", {"door": "opensesame"}, "say [REDACTED:door] twice: [REDACTED:door]"),
        ("xopensesamex", {"door": "opensesame"}, "x[REDACTED:door]x"),
        ("OpenSesame", {"door": "opensesame"}, "OpenSesame"),
        ("eightchr", {"a": "eightchr"}, "[REDACTED:a]"),
        ("sevench", {"a": "sevench"}, "sevench"),
        ("nothing here", {"a": "opensesame"}, "nothing here"),
        ("nothing here", {}, "nothing here"),
        # The longest first: nothing is left of a secret that another one is part of.
        ("abcdefghij", {"short": "abcdefgh", "long": "abcdefghij"}, "[REDACTED:long]"),
        ("abcdefghijklmno abcdefgh", {"1": "abcdefgh", "2": "defghijklmno"}, "abc[REDACTED:2] [REDACTED:1]"),
        # A mark is never looked into.
        ("verylongsecret", {"a": "verylongsecret", "b": "REDACTED:"}, "[REDACTED:a]"),
        ("aaaaaaaaaaaaaaaaaaa", {"a": "aaaaaaaa"}, "[REDACTED:a][REDACTED:a]aaa"),
        ("пароль-пароль", {"a": "пароль-п"}, "[REDACTED:a]ароль"),
    ],
)
def test_known_secrets(text: str, secrets: dict[str, str], expected: str) -> None:
    told = redact(text, secrets=secrets)
    assert told.content == expected
    assert set(told.found) == {one for one in secrets if f"[REDACTED:{one}]" in expected}


def test_two_secrets_of_one_length_are_told_apart_and_one_value_has_one_mark() -> None:
    assert known("aaaaaaaa bbbbbbbb", b="bbbbbbbb", a="aaaaaaaa") == "[REDACTED:a] [REDACTED:b]"
    assert known("aaaaaaaa", z="aaaaaaaa", y="aaaaaaaa") == "[REDACTED:y]"


def test_tags_are_searched_too() -> None:
    told = redact("plain", ["key:opensesame", "plain"], secrets={"door": "opensesame"})
    assert told == Redacted("plain", ("key:[REDACTED:door]", "plain"), ("door",))


def test_a_text_without_secrets_stays_as_it_is() -> None:
    text = "Your current subscription plan is Growth. See https://example.com/docs?id=3 or write to ada@example.com!"
    assert redact(text, ["run-id:3975ecd5-547e-4fc5-ab08-27a6aa28112f"], secrets={}) == Redacted(
        text, ("run-id:3975ecd5-547e-4fc5-ab08-27a6aa28112f",), ()
    )


def test_a_policy_that_refuses_names_what_was_found_and_never_the_secret() -> None:
    with pytest.raises(SecretLeakage) as caught:
        redact("opensesame", ["AKIAIOSFODNN7EXAMPLE"], secrets={"door": "opensesame"}, policy=Policy.REFUSE)
    assert (caught.value.code, caught.value.field) == ("secret_leakage", "content")
    assert caught.value.found == ("aws-access-key", "door")
    assert str(caught.value) == "the entry contains secrets: aws-access-key, door"
    assert redact("plain", secrets={"door": "opensesame"}, policy=Policy.REFUSE).content == "plain"


@pytest.mark.parametrize(
    "secrets",
    [
        {"": "opensesame"},
        {"a]b": "opensesame"},
        {"is-opensesame": "opensesame"},
        {"a": "opensesame", "xopensesame": "otherlong"},
    ],
)
def test_ids_that_a_mark_cannot_carry(secrets: dict[str, str]) -> None:
    with pytest.raises(BadSecretId, match="^a secret's id is empty, has a bracket in it, or contains a secret$"):
        redact("x", secrets=secrets)


def test_the_id_of_a_short_value_does_not_matter() -> None:
    assert redact("x", secrets={"": "short"}).content == "x"


JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nline+two/==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key AKIAIOSFODNN7EXAMPLE here", "key [REDACTED:aws-access-key] here"),
        (f"use ghp_{'a1B2' * 9}.", "use [REDACTED:github-token]."),
        (f"token {JWT}. Done", "token [REDACTED:json-web-token]. Done"),
        (f"a {PEM} b", "a [REDACTED:private-key] b"),
        ("a -----BEGIN PRIVATE KEY-----\ncut off", "a [REDACTED:private-key]"),
        ("postgres://app:s3cretpw9@db/x", "postgres://app:[REDACTED:basic-auth-credentials]@db/x"),
        ("postgres://app:eight888@db/x", "postgres://app:[REDACTED:basic-auth-credentials]@db/x"),
        ("postgres://app:abc@db/x", "postgres://app:[REDACTED:basic-auth-credentials]@db/x"),
        ("eyJhello.world is no token", "eyJhello.world is no token"),
        ("password = 'opensesm'", "password = '[REDACTED:secret-keyword]'"),
        ("password = 'opensea'", "password = 'opensea'"),
        ("sk-proj-abcdefghijklmnop1234 x", "[REDACTED:token] x"),
        ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: [REDACTED:token]"),
        ("password = 'hunter2hunter2'", "password = '[REDACTED:secret-keyword]'"),
        ("My password is hunter2hunter2.", "My password is [REDACTED:secret-keyword]."),
        ("My password is hunter2hunterX.", "My password is [REDACTED:secret-keyword]."),
        ("My password is hunter22", "My password is [REDACTED:secret-keyword]"),
        ("My password is hunter2", "My password is hunter2"),
        ("api_key: abcd1234efgh, next", "api_key: [REDACTED:secret-keyword], next"),
        ("API key abcd1234efgh", "API key [REDACTED:secret-keyword]"),
        ("the secret is out: she likes password managers", "the secret is out: she likes password managers"),
        ("my password is extraordinary", "my password is extraordinary"),
        ("my password is 1234567890", "my password is 1234567890"),
        ("my password is abc123", "my password is abc123"),
        ("bot 110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "bot [REDACTED:telegram-bot-token]"),
        ("glpat-abcdefghij0123456789 x", "[REDACTED:gitlab-token] x"),
        ("//registry.npmjs.org/:_authToken=npm_abcdefgh1234", "//registry.npmjs.org/:_authToken=[REDACTED:npm-tokens]"),
        ('"Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRkdISUpLTE1OT1A"', '"[REDACTED:base64-high-entropy-string]"'),
        (
            'secret_word = "opensesame", then opensesame',
            'secret_word = "[REDACTED:secret-keyword]", then [REDACTED:secret-keyword]',
        ),
        # Digests, ids and addresses are ordinary in what agents remember.
        ("commit 'da39a3ee5e6b4b0d3255bfef95601890afd80709'", "commit 'da39a3ee5e6b4b0d3255bfef95601890afd80709'"),
        ('id "123e4567-e89b-12d3-a456-426614174000"', 'id "123e4567-e89b-12d3-a456-426614174000"'),
        ("server 8.8.8.8 and 203.0.113.7", "server 8.8.8.8 and 203.0.113.7"),
        # What was redacted before is left alone.
        ("password: [REDACTED:db-password1]", "password: [REDACTED:db-password1]"),
        ("password: <REDACTED:db-password1>", "password: <REDACTED:db-password1>"),
        ("password [REDACTED] x", "password [REDACTED] x"),
    ],
)
def test_text_that_looks_like_a_secret(text: str, expected: str) -> None:
    told = redact(text, secrets={})
    assert told.content == expected
    assert redact(told.content, secrets={}).content == expected
    assert bool(told.found) is (text != expected)


def test_shapes_are_told_with_their_places() -> None:
    text = f"x AKIAIOSFODNN7EXAMPLE y {JWT}"
    assert [(text[span.start : span.end], span.name) for span in secret_shapes(text)] == [
        ("AKIAIOSFODNN7EXAMPLE", "aws-access-key"),
        (JWT, "json-web-token"),
    ]
    assert secret_shapes("") == []


def test_a_shape_inside_another_is_one() -> None:
    (span,) = secret_shapes("password='AKIAIOSFODNN7EXAMPLE'")
    assert (span.start, span.end) == (10, 30)


@pytest.mark.parametrize("offset", [0, 2800, 2810, 4070, 4090, 4096, 9000])
def test_a_secret_in_a_long_text_is_found_wherever_it_stands(offset: int) -> None:
    text = "word " * (offset // 5) + f"{JWT} " + "word " * 2000
    assert redact(text, secrets={}).content == text.replace(JWT, "[REDACTED:json-web-token]")


def test_a_key_of_many_lines_is_found_whole() -> None:
    body = "\n".join("A1b2C3d4" * 8 for _ in range(200))
    text = f"head\n-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\ntail"
    assert redact(text, secrets={}).content == "head\n[REDACTED:private-key]\ntail"


def test_known_secrets_and_shapes_in_one_text() -> None:
    told = redact("opensesame AKIAIOSFODNN7EXAMPLE opensesame", secrets={"door": "opensesame"})
    assert told == Redacted("[REDACTED:door] [REDACTED:aws-access-key] [REDACTED:door]", (), ("aws-access-key", "door"))


DETECTORS: dict[str, Any] = get_mapping_from_secret_type_to_class()
SHAPES = [
    shape
    for detector in DETECTORS.values()
    if issubclass(detector, RegexBasedDetector) and detector.__name__ != "IPPublicDetector"
    for shape in detector().denylist
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.sampled_from(SHAPES).flatmap(lambda shape: st.from_regex(shape, alphabet=st.characters(codec="ascii"))))
def test_the_cheap_look_lets_nothing_pass_that_the_library_would_find(text: str) -> None:
    assert may_hold_secret(text)


@given(
    st.text(alphabet="abcdefgh ", max_size=60), st.lists(st.text(alphabet="abcd", min_size=8, max_size=12), max_size=3)
)
def test_no_known_secret_survives(text: str, values: list[str]) -> None:
    secrets: dict[str, Any] = {f"s{index}": value for index, value in enumerate(values)}
    told = redact(text + "".join(values), secrets=secrets)
    rest = re.sub(r"\[REDACTED:s[0-9]\]", "\n", told.content)
    assert not any(value in rest for value in values)


def test_plain_words_are_no_secrets() -> None:
    assert not may_hold_secret("Your current subscription plan is Growth and the user likes lemonade.")
    assert not may_hold_secret("extraordinarily")
    assert may_hold_secret("a" * 24)
    assert not may_hold_secret("a" * 23)
    assert not may_hold_secret("Abcdefghijklm")
    assert may_hold_secret("aBcdefghijklm")
    assert may_hold_secret("abcdefghij1")
    assert may_hold_secret("abcdefghijK")
