from __future__ import annotations

import pytest

from ledger.domain.claims import Claim
from ledger.domain.detection import Finding, Ground, Relation, relate
from ledger.domain.key_registry import KeyRule, read_key
from ledger.domain.normalisers import Kind, read_value
from ledger.domain.periods import Period
from tests.ledger.domain.making import at, claim

SINGLE, MANY = KeyRule(), KeyRule("many")


@pytest.mark.parametrize(
    ("one", "other", "rule", "relation", "ground"),
    [
        (claim(1, "Growth"), claim(2, "Starter", writer="crm"), SINGLE, Relation.CONFLICT, Ground.VALUES_DIFFER),
        (claim(1, "Growth"), claim(2, "Starter"), SINGLE, Relation.CONFLICT, Ground.VALUES_DIFFER),
        (
            claim(1, "Growth"),
            claim(2, " GROWTH ", writer="crm"),
            SINGLE,
            Relation.CORROBORATION,
            Ground.ANOTHER_WRITER_AGREES,
        ),
        (claim(1, "Growth"), claim(2, "growth", hour=9), SINGLE, Relation.REPETITION, Ground.SAME_WRITER_AGAIN),
        (claim(1, "Growth"), claim(1, "Growth", revision=2), SINGLE, Relation.UNRELATED, Ground.SAME_CLAIM),
        (claim(1, "Growth"), claim(2, "Starter", subject="user-2"), SINGLE, Relation.UNRELATED, Ground.OTHER_SUBJECT),
        (
            claim(1, "Growth"),
            claim(2, "Starter", key=read_key("fact", "x")),
            SINGLE,
            Relation.UNRELATED,
            Ground.OTHER_KEY,
        ),
        (claim(1, "Growth"), claim(2, "Starter", scope="p"), SINGLE, Relation.UNRELATED, Ground.OTHER_SCOPE),
        (
            claim(1, "Growth", valid=Period(at(0), at(10))),
            claim(2, "Starter", valid=Period(at(10), at(20))),
            SINGLE,
            Relation.UNRELATED,
            Ground.OTHER_TIME,
        ),
        (
            claim(1, "Growth", valid=Period(at(0), at(10))),
            claim(2, "Starter", valid=Period(at(9), None)),
            SINGLE,
            Relation.CONFLICT,
            Ground.VALUES_DIFFER,
        ),
        (
            claim(1, "Growth", valid=Period(at(0), at(10))),
            claim(2, "Growth", writer="crm", valid=Period(at(10), at(20))),
            SINGLE,
            Relation.UNRELATED,
            Ground.OTHER_TIME,
        ),
        (claim(1, "tea"), claim(2, "coffee"), MANY, Relation.UNRELATED, Ground.MANY_VALUED),
        (claim(1, "tea"), claim(2, "tea", writer="crm"), MANY, Relation.CORROBORATION, Ground.ANOTHER_WRITER_AGREES),
        (claim(1, "tea"), claim(2, "coffee", withdrawn=True), SINGLE, Relation.UNRELATED, Ground.TAKEN_BACK),
        (claim(1, read_value(None)), claim(2, "coffee"), SINGLE, Relation.UNCHECKED, Ground.NO_NORMAL_FORM),
        (claim(1, read_value(None)), claim(2, read_value(None)), SINGLE, Relation.UNCHECKED, Ground.NO_NORMAL_FORM),
        (
            claim(1, "5 km", kind=Kind.NUMBER),
            claim(2, "5000 m", kind=Kind.NUMBER),
            SINGLE,
            Relation.REPETITION,
            Ground.SAME_WRITER_AGAIN,
        ),
        (
            claim(1, "5 km", kind=Kind.NUMBER),
            claim(2, "5 m", kind=Kind.NUMBER),
            SINGLE,
            Relation.CONFLICT,
            Ground.VALUES_DIFFER,
        ),
    ],
)
def test_how_two_claims_stand(one: Claim, other: Claim, rule: KeyRule, relation: Relation, ground: Ground) -> None:
    assert relate(one, other, rule) == Finding(relation, ground)
    assert relate(other, one, rule) == Finding(relation, ground)


def test_a_scope_without_an_identity_is_the_default_one() -> None:
    told = relate(claim(1, "a", scope={"agent_identity": "default"}), claim(2, "b", scope={"note": None}), SINGLE)
    assert told.relation is Relation.CONFLICT
