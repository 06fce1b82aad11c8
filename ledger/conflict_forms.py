"""A reviewer's form about a conflict, read into what the store is asked to decide."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from .claims_store.reviewing import Ask
from .conflict_pages import Side
from .domain.decisions import MissingPart, Placement, Verdict
from .domain.errors import LedgerError
from .domain.periods import Period
from .domain.scopes import read_scope
from .form_fields import read_moment
from .queries.conflicts import ConflictRow

BY_OUTCOME: Mapping[str, Verdict] = {
    verdict.value: verdict for verdict in (Verdict.CHOOSE, Verdict.BOTH, Verdict.NEITHER, Verdict.CORRECT)
}


def outcomes_of(conflict: ConflictRow, sides: Sequence[Side]) -> tuple[str, ...]:
    """What may be decided about it: a text that resembles a claim can only be let be, or the claim put right."""
    if conflict.decision is not None or conflict.state in ("dissolved", "dismissed"):
        return ()
    if conflict.kind == "suggestion":
        return ("both", "neither", "correct") if conflict.state == "suggested" else ()
    if conflict.state == "check_failed":
        return ("neither", "correct")
    return ("choose", "both", "neither", "correct") if len(sides) > 1 else ("choose", "neither", "correct")


def read_ask(form: Mapping[str, str], conflict: ConflictRow, sides: Sequence[Side]) -> Ask:
    """Raises a LedgerError that names the field."""
    outcome, claim = outcome_of(form)
    verdict = BY_OUTCOME.get(outcome)
    if verdict is None:
        raise MissingPart("choose an outcome", field="outcome")
    return Ask(
        revision=_revision(form.get("revision", "")),
        verdict=verdict,
        claim=_claim(claim) if verdict is Verdict.CHOOSE else None,
        placements=_placements(form, conflict, sides) if verdict is Verdict.BOTH else (),
        value=_value(form.get("value", "")) if verdict is Verdict.CORRECT else None,
        evidence=form.get("evidence", "").strip() if verdict is Verdict.CORRECT else "",
        reason=form.get("reason", "").strip(),
    )


def outcome_of(form: Mapping[str, str]) -> tuple[str, str]:
    """(outcome, id of the chosen claim): the two are one field, ``choose:<id>``, so that one key chooses both."""
    outcome, _, claim = form.get("outcome", "").partition(":")
    return outcome, claim


def _revision(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise MissingPart("the revision is missing", field="revision")
    return int(text)


def _claim(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise MissingPart("choose one of the sides", field="claim") from None


def _value(text: str) -> Any:
    """What looks like a JSON number, truth value, list or object is one; all else is a text as it stands."""
    stripped = text.strip()
    if not stripped:
        raise MissingPart("give the right value", field="value")
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        return stripped


def _placements(form: Mapping[str, str], conflict: ConflictRow, sides: Sequence[Side]) -> tuple[Placement, ...]:
    """One for each side, in the scope and for the time that its fields give; an empty field leaves that as it is."""
    if conflict.kind == "suggestion":
        return ()
    return tuple(Placement(side.head.row.id, _scope(form, side.number), _period(form, side.number)) for side in sides)


def _scope(form: Mapping[str, str], number: int) -> Any:
    text = form.get(f"scope-{number}", "").strip()
    if not text:
        return None
    try:
        raw = json.loads(text) if text.startswith("{") else text
    except ValueError:
        raise LedgerError("is no JSON object", field=f"scope of side {number}") from None
    return read_scope(raw)


def _period(form: Mapping[str, str], number: int) -> Period | None:
    start, end = (_moment(form, name, number) for name in ("from", "to"))
    return None if start is None and end is None else Period(start, end)


def _moment(form: Mapping[str, str], name: str, number: int) -> Any:
    text = form.get(f"{name}-{number}", "").strip()
    if not text:
        return None
    try:
        return read_moment(text)
    except ValueError as problem:
        raise LedgerError(str(problem), field=f"{name} of side {number}") from None
