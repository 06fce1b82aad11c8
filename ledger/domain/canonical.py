"""The one form in which a payload is hashed: RFC 8785 (JSON Canonicalization Scheme), and SHA-256 over it.

What the scheme cannot express without loss is refused, with the place it stands at: an integer beyond ±(2⁵³ − 1), whose
neighbours would share a hash once they are IEEE 754 doubles (RFC 8785 section 3.2.2.3, RFC 7493 section 2.2); NaN and
infinities; lone surrogates; and nesting beyond MAX_DEPTH, which the encoder answers with a RecursionError.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import rfc8785

from ledger.domain.errors import LedgerError

MAX_DEPTH = 128
PLAIN_DEPTH = 16
MAX_INTEGER = 2**53 - 1


class Flaw(StrEnum):
    TOO_DEEP = "too_deep"
    INTEGER_TOO_LARGE = "integer_too_large"
    NOT_FINITE = "not_finite"
    LONE_SURROGATE = "lone_surrogate"
    NOT_JSON = "not_json"


class NotCanonical(LedgerError):
    """`path` is a JSON pointer (RFC 6901) to what cannot be written."""

    def __init__(self, flaw: Flaw, path: str) -> None:
        super().__init__(f"{path or 'the payload'}: {flaw.value.replace('_', ' ')}", field=path or None)
        self.flaw = flaw
        self.path = path


def canonical_bytes(value: Any) -> bytes:
    """UTF-8, names sorted by UTF-16 code units, numbers as ECMAScript writes them."""
    if _is_plain(value, PLAIN_DEPTH):
        with suppress(UnicodeEncodeError):  # a lone surrogate: the thorough way says where
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    require_canonical(value)
    return rfc8785.dumps(value)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether the standard encoder, which is fast, writes the same: names in ASCII sort the same, and Python's shortest
    digits are ECMAScript's where neither writes an exponent nor drops a point."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-MAX_INTEGER <= value <= MAX_INTEGER)
    if kind is float:
        return bool(1e-4 <= abs(value) < 1e16 and not value.is_integer())
    if kind is dict and depth:
        return all(type(name) is str and name.isascii() and _is_plain(value[name], depth - 1) for name in value)
    return kind is list and depth > 0 and all(_is_plain(element, depth - 1) for element in value)


def payload_hash(value: Any) -> str:
    """64 lower-case hex digits."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def require_canonical(value: Any) -> None:
    """NotCanonical for what has no such form."""
    pending: list[tuple[str, int, Any]] = [("", 0, value)]
    while pending:
        path, depth, current = pending.pop()
        flaw = _flaw(current, depth)
        if flaw is not None:
            raise NotCanonical(flaw, path)
        if isinstance(current, Mapping):
            pending.extend((_step(path, name), depth + 1, member) for name, member in current.items())
        elif isinstance(current, list | tuple):
            pending.extend((_step(path, index), depth + 1, element) for index, element in enumerate(current))


def _flaw(value: Any, depth: int) -> Flaw | None:
    if isinstance(value, str):
        return Flaw.LONE_SURROGATE if _has_surrogate(value) else None
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if -MAX_INTEGER <= value <= MAX_INTEGER else Flaw.INTEGER_TOO_LARGE
    if isinstance(value, float):
        return None if math.isfinite(value) else Flaw.NOT_FINITE
    if isinstance(value, dict):
        return Flaw.TOO_DEEP if depth >= MAX_DEPTH else _names_flaw(value)
    if isinstance(value, list | tuple):
        return Flaw.TOO_DEEP if depth >= MAX_DEPTH else None
    return Flaw.NOT_JSON


def _names_flaw(members: Mapping[Any, Any]) -> Flaw | None:
    if not all(isinstance(name, str) for name in members):
        return Flaw.NOT_JSON
    return Flaw.LONE_SURROGATE if any(map(_has_surrogate, members)) else None


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _step(path: str, step: object) -> str:
    return f"{path}/{str(step).replace('~', '~0').replace('/', '~1')}"
