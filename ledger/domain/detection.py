"""Which claims conflict, which corroborate each other, and which have nothing to do with each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.claims import Claim
from ledger.domain.key_registry import KeyRule

VERSION = "detection-1"


class Relation(StrEnum):
    CONFLICT = "conflict"
    CORROBORATION = "corroboration"
    REPETITION = "repetition"
    UNRELATED = "unrelated"
    UNCHECKED = "unchecked"


class Ground(StrEnum):
    """Why two claims stand as they do."""

    VALUES_DIFFER = "values_differ"
    ANOTHER_WRITER_AGREES = "another_writer_agrees"
    SAME_WRITER_AGAIN = "same_writer_again"
    SAME_CLAIM = "same_claim"
    OTHER_SUBJECT = "other_subject"
    OTHER_KEY = "other_key"
    OTHER_SCOPE = "other_scope"
    OTHER_TIME = "other_time"
    MANY_VALUED = "many_valued"
    TAKEN_BACK = "taken_back"
    NO_NORMAL_FORM = "no_normal_form"


@dataclass(frozen=True, slots=True)
class Finding:
    relation: Relation
    ground: Ground


def relate(one: Claim, other: Claim, rule: KeyRule) -> Finding:
    """`rule` is the rule of their key. Symmetric; two revisions of one claim are that claim."""
    if one.id == other.id:
        return Finding(Relation.UNRELATED, Ground.SAME_CLAIM)
    apart = _apart(one, other)
    if apart is not None:
        return Finding(Relation.UNRELATED, apart)
    if not (one.is_checkable and other.is_checkable):
        return Finding(Relation.UNCHECKED, Ground.NO_NORMAL_FORM)
    if one.value.normal == other.value.normal:
        return _agreement(one, other)
    if rule.cardinality == "many":
        return Finding(Relation.UNRELATED, Ground.MANY_VALUED)
    return Finding(Relation.CONFLICT, Ground.VALUES_DIFFER)


def _apart(one: Claim, other: Claim) -> Ground | None:
    if one.subject != other.subject:
        return Ground.OTHER_SUBJECT
    if one.key != other.key:
        return Ground.OTHER_KEY
    if one.scope != other.scope:
        return Ground.OTHER_SCOPE
    if one.withdrawn or other.withdrawn:
        return Ground.TAKEN_BACK
    return None if one.valid.overlaps(other.valid) else Ground.OTHER_TIME


def _agreement(one: Claim, other: Claim) -> Finding:
    if one.writer == other.writer:
        return Finding(Relation.REPETITION, Ground.SAME_WRITER_AGAIN)
    return Finding(Relation.CORROBORATION, Ground.ANOTHER_WRITER_AGREES)
