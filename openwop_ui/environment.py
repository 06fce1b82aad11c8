"""What the environment may say: every variable with its default, its meaning and the values it takes.

An empty value counts as an unset one. A value that makes no sense is refused with the variable's name.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

T = TypeVar("T")

MEBIBYTE = 1024 * 1024
SHORTEST_KEY = 32


class Refused(Exception):
    """A variable's value makes no sense. The text names the variable and says what it takes."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Variable(Generic[T]):
    """One variable. `read` turns text into a value or raises ValueError with what it takes instead."""

    name: str
    default: str
    meaning: str
    read: Callable[[str], T]
    secret: bool = False

    def value(self, environ: Mapping[str, str] | None = None) -> T:
        given = (os.environ if environ is None else environ).get(self.name, "").strip()
        try:
            return self.read(given or self.default)
        except ValueError as problem:
            shown = "has a value that" if self.secret else f"is {given!r}, which"
            raise Refused(self.name, f"{shown} {problem}") from None

    def is_set(self, environ: Mapping[str, str] | None = None) -> bool:
        return bool((os.environ if environ is None else environ).get(self.name, "").strip())


def address(given: str) -> str:
    try:
        ip_address(given)
    except ValueError:
        raise ValueError("is not an IP address") from None
    return given


def boolean(given: str) -> bool:
    match given.lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
    raise ValueError("is neither 1 (true, yes, on) nor 0 (false, no, off)")


def integer(*, least: int, most: int) -> Callable[[str], int]:
    def read(given: str) -> int:
        # int() also takes underscores, signs and digits of other scripts.
        if not (given.isascii() and given.isdigit()) or not least <= int(given[:20]) <= most:
            raise ValueError(f"is not a whole number from {least} to {most}")
        return int(given)

    return read


def choice(*choices: str) -> Callable[[str], str]:
    def read(given: str) -> str:
        if given not in choices:
            raise ValueError(f"is none of {', '.join(choices)}")
        return given

    return read


def path(given: str) -> Path:
    if "\0" in given or "\n" in given:
        raise ValueError("is not a path")
    return Path(given).expanduser().absolute()


def key(given: str) -> str:
    """Key material, or "" when one is to be made and kept under DATA_DIR."""
    if given and len(given) < SHORTEST_KEY:
        raise ValueError(f"is shorter than {SHORTEST_KEY} characters")
    return given


def keys(given: str) -> str:
    """Keys separated by commas, each long enough, or ""."""
    for one in names(given):
        key(one)
    return given


def names(given: str) -> list[str]:
    return [name for part in given.split(",") if (name := part.strip())]


def host_names(given: str) -> list[str]:
    for name in names(given):
        if "/" in name or " " in name or (":" in name and not name.startswith("[")):
            raise ValueError(f"holds {name!r}, which is not a host name without scheme and port")
    return names(given)


def origins(given: str) -> list[str]:
    """Web origins: scheme, host and perhaps a port, nothing behind them."""
    for origin in names(given):
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
            raise ValueError(f"holds {origin!r}, which is not like https://name or https://name:port")
    return names(given)


def url(*schemes: str) -> Callable[[str], str]:
    """A URL of one of the schemes, or "" for none."""

    def read(given: str) -> str:
        if given and urlsplit(given).scheme not in schemes:
            raise ValueError(f"does not begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        return given

    return read


def database_url(given: str) -> str:
    if not given:
        return ""
    url("postgresql", "postgres")(given)
    try:
        parts = conninfo_to_dict(given)
    except ProgrammingError:
        # libpq's own words may repeat the password.
        raise ValueError("is not a URL that libpq can read") from None
    if not parts.get("dbname"):
        raise ValueError("names no database")
    return given


DATABASE_URL = Variable(
    "DATABASE_URL",
    "",
    "PostgreSQL to use, as a libpq URL. Unset: an embedded server under DATA_DIR, started on demand",
    database_url,
    secret=True,
)
CHANNEL_LAYER_URL = Variable(
    "CHANNEL_LAYER_URL",
    "",
    "Redis for live messages (redis:// or rediss://). Unset: PostgreSQL notifications, no other service",
    url("redis", "rediss"),
    secret=True,
)
SECRET_KEY = Variable(
    "SECRET_KEY",
    "",
    f"Signs sessions; at least {SHORTEST_KEY} characters. Unset: made once and kept in DATA_DIR/secrets",
    key,
    secret=True,
)
CREDENTIALS_KEY = Variable(
    "CREDENTIALS_KEY",
    "",
    f"Encrypts the credentials of hosts in the database; at least {SHORTEST_KEY} characters. Several,"
    " separated by commas: the first encrypts, all decrypt. Unset: made once and kept in DATA_DIR/secrets",
    keys,
    secret=True,
)
ALLOWED_HOSTS = Variable(
    "ALLOWED_HOSTS",
    "localhost,127.0.0.1,[::1]",
    "Host names under which the site answers, separated by commas; `.example.org` takes its subdomains too",
    host_names,
)
TRUSTED_ORIGINS = Variable(
    "TRUSTED_ORIGINS",
    "",
    "Origins whose forms are accepted besides the site's own, separated by commas; only for a proxy that"
    " changes the Host header",
    origins,
)
HTTPS = Variable(
    "HTTPS",
    "0",
    "1 when a proxy on this machine ends TLS and sets X-Forwarded-Proto and X-Forwarded-For: secure cookies,"
    " HSTS, and plain HTTP is redirected",
    boolean,
)
DEBUG = Variable("DEBUG", "0", "1 for error pages with details and for assets read anew on each request", boolean)
DATA_DIR = Variable("DATA_DIR", ".data", "Folder of the embedded database, the secrets and the logs", path)
PORT = Variable("PORT", "8000", "Port of the web server", integer(least=1, most=65535))
BIND_ADDRESS = Variable("BIND_ADDRESS", "127.0.0.1", "IP address the web server listens on", address)
WEB_THREADS = Variable("WEB_THREADS", "12", "Requests that the web server works on at once", integer(least=1, most=64))
ALLOW_PRIVATE_HOSTS = Variable(
    "ALLOW_PRIVATE_HOSTS",
    "0",
    "1 allows hosts on loopback and private addresses to be followed",
    boolean,
)
MAX_EVENT_BYTES = Variable(
    "MAX_EVENT_BYTES",
    str(10 * MEBIBYTE),
    "Largest single event taken in, in bytes",
    integer(least=1024, most=1024 * MEBIBYTE),
)
MAX_BODY_BYTES = Variable(
    "MAX_BODY_BYTES",
    str(1024 * MEBIBYTE),
    "Largest request body or file taken in, in bytes after decompression",
    integer(least=1024, most=1024 * 1024 * MEBIBYTE),
)
TRACE_TIMEOUT = Variable(
    "TRACE_TIMEOUT",
    "5",
    "Seconds that one statement of a provenance chain may take before it is cancelled and answered with 504",
    integer(least=1, most=600),
)
EXTRACTOR_URL = Variable(
    "EXTRACTOR_URL",
    "",
    "Base URL of an OpenAI-compatible API that reads claims in messages, e.g. http://127.0.0.1:11434/v1. Unset: only"
    " plain statements are read, by built-in rules, and nothing is sent anywhere",
    url("http", "https"),
)
EXTRACTOR_MODEL = Variable("EXTRACTOR_MODEL", "", "Name of the model at EXTRACTOR_URL", str)
EXTRACTOR_KEY = Variable("EXTRACTOR_KEY", "", "Key for EXTRACTOR_URL, sent as a bearer token", str, secret=True)
DEMO = Variable("DEMO", "1", "0 keeps `make run` from making the demo tenant, its logins and its host", boolean)
DEMO_HOST_PORT = Variable(
    "DEMO_HOST_PORT",
    "8010",
    "Port of the demo's host; when it is taken `make run` picks a free one",
    integer(least=1, most=65535),
)
LOG_LEVEL = Variable(
    "LOG_LEVEL", "INFO", "Least serious messages that are logged", choice("DEBUG", "INFO", "WARNING", "ERROR")
)

VARIABLES: tuple[Variable[Any], ...] = (
    DATABASE_URL,
    CHANNEL_LAYER_URL,
    SECRET_KEY,
    CREDENTIALS_KEY,
    ALLOWED_HOSTS,
    TRUSTED_ORIGINS,
    HTTPS,
    DEBUG,
    DATA_DIR,
    PORT,
    BIND_ADDRESS,
    WEB_THREADS,
    ALLOW_PRIVATE_HOSTS,
    MAX_EVENT_BYTES,
    MAX_BODY_BYTES,
    TRACE_TIMEOUT,
    EXTRACTOR_URL,
    EXTRACTOR_MODEL,
    EXTRACTOR_KEY,
    DEMO,
    DEMO_HOST_PORT,
    LOG_LEVEL,
)


def kept_key(variable: Variable[str], data_dir: Path) -> str:
    """The variable's value, or else the one kept for it under `data_dir`, made when there is none yet."""
    return variable.value() or kept_secret(data_dir / "secrets" / variable.name.lower())


def kept_secret(file: Path) -> str:
    """The secret in `file`, readable by its owner only; made once, even when several processes ask."""
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        _keep_new_secret(file)
        return file.read_text("ascii").strip()


def _keep_new_secret(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_urlsafe(48).encode("ascii"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        # link() is the one step that both finds the name free and shows a complete file under it.
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
