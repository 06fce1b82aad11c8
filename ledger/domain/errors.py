"""The root of the ledger's named errors. Each module names its own; one table at the door gives them a status."""

from __future__ import annotations

from typing import ClassVar


class LedgerError(ValueError):
    """Something outside said what the ledger cannot take. ``field`` names the member at fault, where there is one.

    LedgerError
     ├ PeriodError                        periods
     ├ ScopeError                         scopes
     ├ BadWriter                          writers
     ├ UnreadableValue                    normalisers
     ├ BadKey                             key_registry
     ├ ClaimError                         claims
     │  ├ ContradictoryRevision, RevisionChangesMeaning
     │  └ StaleRevision
     ├ NotCanonical                       canonical
     ├ ProvenanceError                    sources (PROV_403, 404, 409, 422)
     ├ DecisionError                      decisions
     │  ├ UnknownClaim, MissingPart, StillCompeting, NotOpen
     │  ├ StaleDecision
     │  └ NothingToUndo
     ├ SecretLeakage, BadSecretId         redaction
     └ EntryRefused                       snapshot_rule
    """

    code: ClassVar[str] = "validation_error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
