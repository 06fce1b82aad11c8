"""What became of the events that somebody handed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..domain.event import Refusal

LISTED = 1000
"""So many refusals and incidents are listed one by one; all of them are counted."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """One incident as a receipt tells it."""

    kind: str
    run_id: str
    sequence: int | None
    message: str


@dataclass(slots=True)
class Receipt:
    """accepted + repeated + refused_total = the events that were handed in."""

    accepted: int = 0
    repeated: int = 0
    refused_total: int = 0
    refused: list[Refusal] = field(default_factory=list)
    incidents_total: int = 0
    incidents: list[Noticed] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    """Run id to the last sequence up to which the run's log has no gap; -1 while its beginning is missing."""

    @property
    def taken(self) -> int:
        return self.accepted + self.repeated

    def refuse(self, refusal: Refusal) -> None:
        self.refused_total += 1
        if len(self.refused) < LISTED:
            self.refused.append(refusal)

    def notice(self, noticed: Noticed) -> None:
        self.incidents_total += 1
        if len(self.incidents) < LISTED:
            self.incidents.append(noticed)

    def as_json(self) -> dict[str, Any]:
        """The shape of ``schemas/receipt.json``."""
        return {
            "accepted": self.accepted,
            "repeated": self.repeated,
            "refused": [_refusal(one) for one in self.refused],
            "refusedTotal": self.refused_total,
            "incidents": [
                {"kind": one.kind, "runId": one.run_id, "sequence": one.sequence, "message": one.message}
                for one in self.incidents
            ],
            "incidentsTotal": self.incidents_total,
            "runs": [{"runId": run_id, "through": through} for run_id, through in self.runs.items()],
        }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    said: dict[str, Any] = {"index": refusal.index, "reason": refusal.reason}
    return said | {"field": refusal.field} if refusal.field else said
