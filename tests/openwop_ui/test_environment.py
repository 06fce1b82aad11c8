"""The environment: what is taken, what is refused, and how keys are kept."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openwop_ui import environment
from openwop_ui.environment import VARIABLES, Refused, Variable

README = Path(__file__).resolve().parents[2] / "README.md"
LONG = "k" * 32
JUNK = [
    (environment.DATABASE_URL, "mysql://u:hunter2@db/openwop"),
    (environment.DATABASE_URL, "postgresql://u:hunter2@db:port/openwop?nonsense=1"),
    (environment.DATABASE_URL, "postgresql://u:hunter2@db"),
    (environment.DATABASE_URL, "hunter2"),
    (environment.CHANNEL_LAYER_URL, "http://:hunter2@redis"),
    (environment.SECRET_KEY, "hunter2"),
    (environment.CREDENTIALS_KEY, f"{LONG},hunter2"),
    (environment.ALLOWED_HOSTS, "https://example.org"),
    (environment.ALLOWED_HOSTS, "example.org:8000"),
    (environment.TRUSTED_ORIGINS, "example.org"),
    (environment.TRUSTED_ORIGINS, "https://example.org/path"),
    (environment.HTTPS, "maybe"),
    (environment.DEBUG, "2"),
    (environment.DATA_DIR, "a\nb"),
    (environment.PORT, "0"),
    (environment.PORT, "65536"),
    (environment.PORT, "80 80"),
    (environment.PORT, "+80"),
    (environment.PORT, "8_000"),
    (environment.PORT, "٨٠"),
    (environment.PORT, "9" * 5000),
    (environment.BIND_ADDRESS, "everywhere"),
    (environment.WEB_THREADS, "0"),
    (environment.ALLOW_PRIVATE_HOSTS, "ja"),
    (environment.MAX_EVENT_BYTES, "10MB"),
    (environment.MAX_BODY_BYTES, "-1"),
    (environment.DEMO, "none"),
    (environment.DEMO_HOST_PORT, "http"),
    (environment.LOG_LEVEL, "loud"),
]
TAKEN: list[tuple[Variable[Any], str, object]] = [
    (environment.DATABASE_URL, "postgres://u:p@db:5432/openwop", "postgres://u:p@db:5432/openwop"),
    (environment.CHANNEL_LAYER_URL, "rediss://redis:6379/0", "rediss://redis:6379/0"),
    (environment.CREDENTIALS_KEY, f"{LONG},{LONG}x", f"{LONG},{LONG}x"),
    (environment.ALLOWED_HOSTS, " a.example , .b.example,[::1],", ["a.example", ".b.example", "[::1]"]),
    (environment.TRUSTED_ORIGINS, "https://a.example:8443", ["https://a.example:8443"]),
    (environment.DEBUG, "YES", True),
    (environment.DEBUG, "off", False),
    (environment.DEBUG, "", False),
    (environment.DATA_DIR, "/srv/data", Path("/srv/data")),
    (environment.PORT, " 65535 ", 65535),
    (environment.PORT, "", 8000),
    (environment.BIND_ADDRESS, "::", "::"),
    (environment.MAX_EVENT_BYTES, "", 10_485_760),
    (environment.LOG_LEVEL, "WARNING", "WARNING"),
]


@pytest.mark.parametrize(("variable", "given"), JUNK, ids=lambda value: getattr(value, "name", None))
def test_junk_is_refused_with_the_name(variable: Variable[Any], given: str) -> None:
    with pytest.raises(Refused, match=rf"\A{variable.name} ") as refused:
        variable.value({variable.name: given})
    assert refused.value.name == variable.name
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("variable", "given"), [case for case in JUNK if "hunter2" in case[1]])
def test_refusal_does_not_repeat_a_secret(variable: Variable[Any], given: str) -> None:
    with pytest.raises(Refused) as refused:
        variable.value({variable.name: given})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("variable", "given", "value"), TAKEN)
def test_good_values_are_taken(variable: Variable[Any], given: str, value: object) -> None:
    assert variable.value({variable.name: given}) == value


def test_each_variable_is_declared_once_and_its_default_is_good() -> None:
    declared = [value for value in vars(environment).values() if isinstance(value, Variable)]
    assert sorted(v.name for v in declared) == sorted(v.name for v in VARIABLES)
    for variable in VARIABLES:
        variable.value({})


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_each_variable_is_in_the_readme_with_its_default(variable: Variable[Any]) -> None:
    rows = [line for line in README.read_text("utf-8").splitlines() if line.startswith(f"| `{variable.name}` |")]
    assert len(rows) == 1
    assert variable.default in rows[0]


def test_a_given_key_wins_over_a_kept_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = environment.kept_key(environment.SECRET_KEY, tmp_path)
    monkeypatch.setenv("SECRET_KEY", LONG)
    assert environment.kept_key(environment.SECRET_KEY, tmp_path) == LONG != kept


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    first = environment.kept_key(environment.SECRET_KEY, tmp_path)
    assert environment.kept_key(environment.SECRET_KEY, tmp_path) == first
    assert environment.kept_key(environment.CREDENTIALS_KEY, tmp_path) != first
    file = tmp_path / "secrets" / "secret_key"
    assert len(first) >= 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_all_who_ask_at_once_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        got = set(pool.map(environment.kept_secret, [tmp_path / "secrets" / "key"] * 64))
    assert len(got) == 1
    assert [file.name for file in (tmp_path / "secrets").iterdir()] == ["key"]
