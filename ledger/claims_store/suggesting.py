"""Text in which no claim was read, and that looks like one: a person may want to look. Nothing else comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid5

from openwop_ui.live.announce import announce
from runs.domain.storable import original

from ..domain import similarity
from ..domain.normalisers import folded
from ..domain.settlement import Status
from ..models import Conflict
from ..queries.paging import rows_of
from .conflict_rows import Cause, ConflictWrites
from .loading import KnownConflict

if TYPE_CHECKING:
    from .intake import Heard

SIMILAR_TEXT = "similar_text"
COMPARED = 200
"""The newest active claims of a subject that its texts are held against."""
MOST = 3
"""Suggestions for one text."""
LONGEST = 4000
"""Characters of a text that are looked at."""


class Candidate(NamedTuple):
    claim: UUID
    subject_key: UUID
    scope: str
    key: str
    display: str
    content: str


def suggest(tenant_id: int, told: Sequence[Heard], at: datetime) -> dict[UUID, list[UUID]]:
    """The ids of what is suggested, by source event."""
    unread = [one for one in told if any(text.strip() for _, text in one.unread)]
    if not unread:
        return {}
    candidates = _candidates(tenant_id, sorted({one.source.subject for one in unread}))
    found: dict[UUID, tuple[UUID, KnownConflict]] = {}
    for one in unread:
        for place, text in one.unread:
            for row in _like(one.source.id, place, text[:LONGEST], candidates.get(one.source.subject, []), at):
                found[row.id] = (one.source.id, row)
    return _write(tenant_id, found, at)


def _like(source: UUID, place: int, text: str, candidates: Sequence[Candidate], at: datetime) -> list[KnownConflict]:
    said = folded(text)
    alike = []
    for one in candidates:
        if folded(one.content) == said:
            continue
        statement = f"{one.key.replace('_', ' ').replace(':', ' ')} {one.display}"
        likeness = similarity.likeness(text, statement=statement, content=one.content)
        if likeness >= similarity.LIKE:
            alike.append((likeness, one))
    alike.sort(key=lambda found: (-found[0], str(found[1].claim)))
    return [_suggestion(source, place, likeness, one, at) for likeness, one in alike[:MOST]]


def _suggestion(source: UUID, place: int, likeness: float, like: Candidate, at: datetime) -> KnownConflict:
    return KnownConflict(
        id=uuid5(like.claim, f"{source} {place}"),
        kind=Conflict.Kind.SUGGESTION.value,
        subject_key_id=like.subject_key,
        scope=like.scope,
        state=Conflict.State.SUGGESTED.value,
        revision=0,
        opened_at=at,
        changed_at=at,
        decided_at=None,
        follows=None,
        decision_id=None,
        merged_into=None,
        rule=SIMILAR_TEXT,
        policy=similarity.VERSION,
        explanation={"rule": SIMILAR_TEXT, "params": {"likeness": likeness}},
        inputs=[{"source_event": str(source), "message": place, "likeness": likeness}],
        claims={like.claim: (0, True)},
    )


def _candidates(tenant_id: int, subjects: Sequence[str]) -> dict[str, list[Candidate]]:
    rows = rows_of(
        """
        SELECT w.subject, f.* FROM unnest(%(subjects)s::text[]) AS w (subject)
        CROSS JOIN LATERAL (
            SELECT c.id, c.subject_key_id, c.scope, k.key, c.display, c.content
            FROM ledger_claimstate s
            JOIN ledger_claimrow c ON c.tenant_id = s.tenant_id AND c.id = s.claim_id
            JOIN ledger_subjectkey k ON k.tenant_id = s.tenant_id AND k.id = s.subject_key_id
            WHERE s.tenant_id = %(tenant)s AND s.subject = w.subject AND s.status = %(active)s
            ORDER BY s.observed_at DESC, s.claim_id DESC LIMIT %(most)s) AS f
        """,
        {"tenant": tenant_id, "subjects": list(subjects), "active": Status.ACTIVE.value, "most": COMPARED},
    )
    found: dict[str, list[Candidate]] = {}
    for subject, claim, key_id, scope, key, display, content in rows:
        one = Candidate(claim, key_id, scope, original(key), original(display), original(content))
        found.setdefault(subject, []).append(one)
    return found


def _write(tenant_id: int, found: Mapping[UUID, tuple[UUID, KnownConflict]], at: datetime) -> dict[UUID, list[UUID]]:
    if not found:
        return {}
    known = rows_of(
        "SELECT id FROM ledger_conflict WHERE tenant_id = %s AND id = ANY (%s::uuid[])", [tenant_id, list(found)]
    )
    suggested: dict[UUID, list[UUID]] = {}
    writes = ConflictWrites()
    topics: dict[str, int | None] = {"conflicts": None}
    for conflict in found.keys() - {conflict for (conflict,) in known}:
        source, row = found[conflict]
        writes.put(None, row, Cause(at))
        suggested.setdefault(source, []).append(conflict)
        topics[f"conflict:{conflict}"] = row.revision
    if writes.rows:
        writes.write(tenant_id)
        announce(tenant_id, topics)
    return suggested
