"""What programs send to the ledger's endpoints, read member by member: what is unknown or amiss is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from openwop_ui.rest import ApiError, ApiRequest, Invalid, json_body
from runs.domain.moments import read_timestamp

from .domain.decisions import DecisionError
from .domain.errors import LedgerError
from .domain.periods import Period
from .domain.redaction import SecretLeakage
from .domain.sources import ProvenanceError

MAX_CLAIMS_BYTES = 8 * 1024 * 1024
"""Largest body with claims, messages or decisions: all of it is read before any of it is kept."""


def json_of(request: ApiRequest) -> Any:
    """Numbers as they are, and no name twice in an object: of two values one would be lost."""
    body = json_body(request, limit="MAX_CLAIMS_BYTES", most=MAX_CLAIMS_BYTES)
    try:
        return json.loads(body, object_pairs_hook=_once)
    except _Twice as problem:
        raise Invalid("body", problem.name, "is told twice") from None
    except (ValueError, RecursionError):
        raise Invalid("body", "body", "is no JSON") from None


class _Twice(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        raise _Twice(next(name for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
    return members


def object_of(request: ApiRequest, *known: str) -> dict[str, Any]:
    """The body as an object with none but the known members."""
    return members(json_of(request), known)


def members(raw: Any, known: tuple[str, ...], *, place: str = "") -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Invalid("body", place or "body", "is not an object")
    for name in raw:
        if name not in known:
            raise Invalid("body", _path(place, name), f"is not known here; there are {', '.join(known)}")
    return raw


def text(body: Mapping[str, Any], name: str, *, longest: int, place: str = "") -> str | None:
    told = body.get(name)
    if told is None:
        return None
    if not isinstance(told, str):
        raise Invalid("body", _path(place, name), "is not a text")
    if len(told) > longest:
        raise Invalid("body", _path(place, name), f"is longer than {longest} characters")
    return told


def whole(body: Mapping[str, Any], name: str, *, least: int = 0, most: int = 2**31 - 1) -> int | None:
    told = body.get(name)
    if told is None:
        return None
    if type(told) is not int or not least <= told <= most:
        raise Invalid("body", name, f"is not a whole number from {least} to {most}")
    return told


def truth(body: Mapping[str, Any], name: str) -> bool | None:
    told = body.get(name)
    if told is not None and not isinstance(told, bool):
        raise Invalid("body", name, "is neither true nor false")
    return told


def moment(body: Mapping[str, Any], name: str, *, place: str = "") -> datetime | None:
    told = text(body, name, longest=64, place=place)
    return None if told is None else moment_of("body", _path(place, name), told)


def moment_of(where: str, name: str, told: str) -> datetime:
    try:
        return read_timestamp(told)
    except ValueError as problem:
        raise Invalid(where, name, str(problem)) from None


def identifier(body: Mapping[str, Any], name: str, *, place: str = "") -> UUID | None:
    told = text(body, name, longest=64, place=place)
    if told is None:
        return None
    try:
        return UUID(told)
    except ValueError:
        raise Invalid("body", _path(place, name), "is not an id") from None


def period(body: Mapping[str, Any], *, place: str = "") -> Period | None:
    """None where neither bound is given."""
    start, end = moment(body, "valid_from", place=place), moment(body, "valid_to", place=place)
    if start is None and end is None:
        return None
    try:
        return Period(start, end)
    except LedgerError as problem:
        raise refusal(problem, place=place) from None


def _path(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def refusal(problem: LedgerError, *, place: str = "") -> ApiError:
    """The answer to what the ledger cannot take."""
    sentence = f"{str(problem)[:1].upper()}{str(problem)[1:]}."
    details = {"field": problem.field} if problem.field else None
    if isinstance(problem, ProvenanceError):
        return ApiError(problem.provenance.status, problem.provenance.value, sentence, details=details)
    if isinstance(problem, SecretLeakage):
        return ApiError(422, problem.code, sentence, details={"found": list(problem.found)})
    if isinstance(problem, DecisionError) and problem.code == "conflict":
        return ApiError(409, problem.code, sentence, details=details)
    field = _path(place, problem.field or "body")
    return Invalid("body", field, str(problem).removeprefix(f"{problem.field} "))
