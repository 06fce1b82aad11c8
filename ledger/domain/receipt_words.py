"""What a receipt says to a person: a sentence for each reason, a word for each piece of evidence."""

from __future__ import annotations

from collections.abc import Mapping

from ledger.domain.attempts import Trace
from ledger.domain.receipts import Reason, State

STATES: Mapping[State, str] = {
    State.REQUESTED: "The tool was called, and nothing more is known yet.",
    State.WAITING: "A person has to decide first.",
    State.REFUSED: "A person, the tool or its server said no.",
    State.UNKNOWN: "It may have happened: nothing proves that it did, and nothing that it did not.",
    State.CONFIRMED: "The tool returned the very address that it was asked to write to.",
}

REASONS: Mapping[Reason, str] = {
    Reason.ADDRESS_MATCHES: "The returned address is the one that was asked for.",
    Reason.ALREADY_MADE: "The same write had been confirmed before.",
    Reason.WRITTEN_AFTER_APPROVAL: "It was approved, and the log shows the write after that.",
    Reason.IN_FLIGHT: "The call has not returned yet.",
    Reason.AWAITS_APPROVAL: "An approval was asked for and nobody has answered.",
    Reason.NEEDS_DECISION: "The tool answered that a decision is needed.",
    Reason.REJECTED: "The approval was denied.",
    Reason.ERROR: "The tool answered with an error.",
    Reason.FORBIDDEN: "The tool answered that it is forbidden.",
    Reason.RATE_LIMITED: "The tool answered that there were too many requests.",
    Reason.NO_RETURN: "Its node or run ended, and no return had come.",
    Reason.NO_CALL: "The log has the return and not the call.",
    Reason.NO_ARGUMENTS: "What was asked for is not in the log, so there is nothing to compare the answer with.",
    Reason.NO_ADDRESS: "The answer names no address.",
    Reason.WRONG_KEY: "The returned key is not the one that was asked for.",
    Reason.WRONG_SCOPE: "The returned scope type is not the one that was asked for.",
    Reason.WRONG_IDENTITY: "The returned agent identity is not the one that was asked for.",
    Reason.TRANSPORT_FAILURE: "The connection to the tool failed, so nobody knows what became of it.",
    Reason.UNPARSEABLE: "The answer is no JSON that can be read.",
    Reason.TRUNCATED: "The answer was cut off.",
    Reason.WITHHELD: "The answer was taken away, as the tenant’s retention has it.",
    Reason.DECIDED_WITHOUT_OUTCOME: "It was decided, and nothing shows what came of that.",
    Reason.CONTRADICTION: "What the log says of it contradicts itself.",
}

TRACES: Mapping[Trace, str] = {
    Trace.CALLED: "called",
    Trace.RETURNED: "returned",
    Trace.APPROVAL_ASKED: "approval asked for",
    Trace.APPROVAL_GIVEN: "approved",
    Trace.APPROVAL_DENIED: "denied",
    Trace.APPROVAL_CLOSED: "approval closed",
    Trace.WRITTEN: "written",
    Trace.NODE_ENDED: "node ended",
    Trace.RUN_ENDED: "run ended",
    Trace.READ_BACK: "read back",
}
