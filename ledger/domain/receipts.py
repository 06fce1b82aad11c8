"""What became of each memory write that an agent attempted in a run, and never better than the evidence.

- requested: the tool was called, and nothing more is known yet;
- waiting: a person has to approve it, or the tool answered that a decision is needed;
- refused: a person, the tool or its server said no;
- unknown: it may have happened. No answer came, or none that proves anything;
- confirmed: the tool returned the address that it was asked to write to, the same after normalisation in key, scope
  type and agent identity, and said that nothing is left to decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ledger.domain.attempts import NOT_IN_LOG, Attempt, Evidence, Log, LogEvent, Trace
from ledger.domain.tool_calls import Address, Answer, Call, MemoryTools, Said, mismatches

VERSION = "receipts-1"


class State(StrEnum):
    REQUESTED = "requested"
    WAITING = "waiting"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CONFIRMED = "confirmed"


class Reason(StrEnum):
    """Why a receipt is in its state. Some are the words of the answer, see Said and Mismatch."""

    ADDRESS_MATCHES = "address_matches"
    ALREADY_MADE = "already_made"
    WRITTEN_AFTER_APPROVAL = "written_after_approval"

    IN_FLIGHT = "in_flight"
    AWAITS_APPROVAL = "awaits_approval"
    NEEDS_DECISION = "needs_decision"

    REJECTED = "rejected"
    ERROR = "error"
    FORBIDDEN = "forbidden"
    RATE_LIMITED = "rate_limited"

    NO_RETURN = "no_return"
    NO_CALL = "no_call"
    NO_ARGUMENTS = "no_arguments"
    NO_ADDRESS = "no_address"
    WRONG_KEY = "wrong_key"
    WRONG_SCOPE = "wrong_scope"
    WRONG_IDENTITY = "wrong_identity"
    TRANSPORT_FAILURE = "transport_failure"
    UNPARSEABLE = "unparseable"
    TRUNCATED = "truncated"
    WITHHELD = "withheld"
    DECIDED_WITHOUT_OUTCOME = "decided_without_outcome"
    CONTRADICTION = "contradiction"


class Repeat(StrEnum):
    """How an attempt relates to earlier ones with the same digest. `pending`: the earlier one had not ended yet."""

    FIRST = "first"
    NEW_ATTEMPT = "new_attempt"
    PENDING = "pending"
    ALREADY_MADE = "already_made"


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry that the host's read side shows. That it is there proves nothing about who wrote it when."""

    memory_ref: str
    memory_id: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """One attempt. `sequence` is the call's, or the return's where the log shows no call. `attempt` counts the attempts
    at one effect; `repeats` is the earlier one's sequence. `write` is the `memory.written` that goes with it."""

    sequence: int
    tool: str
    state: State
    reasons: tuple[Reason, ...]
    evidence: tuple[Evidence, ...]
    call_id: str | None = None
    node_id: str | None = None
    agent_id: str | None = None
    digest: str | None = None
    asked: Address | None = None
    returned: Address | None = None
    memory_ref: str | None = None
    memory_id: str | None = None
    write: int | None = None
    repeat: Repeat = Repeat.FIRST
    repeats: int | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Effect:
    """What all attempts with one digest come to. `attempts` are their sequences."""

    digest: str | None
    state: State
    attempts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Receipts:
    """`claimed_only` are attempts that the tool says it made and the log does not show; `unasked` are the sequences of
    `memory.written` events that no attempt accounts for."""

    receipts: tuple[Receipt, ...]
    effects: tuple[Effect, ...]
    claimed_only: tuple[int, ...]
    unasked: tuple[int, ...]


def classify(
    events: Iterable[LogEvent],
    *,
    run: str,
    tools: MemoryTools | None = None,
    stored: Iterable[StoredEntry] = (),
) -> Receipts:
    """`events` of one run in any order; one that comes twice counts once."""
    known = {event.sequence: event for event in events}
    return classify_in_order((known[sequence] for sequence in sorted(known)), run=run, tools=tools, stored=stored)


def classify_in_order(
    events: Iterable[LogEvent],
    *,
    run: str,
    tools: MemoryTools | None = None,
    stored: Iterable[StoredEntry] = (),
) -> Receipts:
    """The same for events that come in the order of their sequence and once each: none of them is held."""
    log = Log(run, tools or MemoryTools())
    for event in events:
        log.read(event)
    log.link_writes()
    shown: dict[str | None, set[str]] = defaultdict(set)
    for entry in stored:
        shown[entry.memory_id].add(entry.memory_ref)
    told = _with_repeats((_receipt(attempt, shown), attempt) for attempt in log.attempts)
    receipts = tuple(receipt for receipt, _ in told)
    return Receipts(
        receipts=receipts,
        effects=tuple(_effects(receipts)),
        claimed_only=tuple(
            receipt.sequence
            for receipt, attempt in told
            if attempt.claims_success and receipt.write is None and receipt.repeat is not Repeat.ALREADY_MADE
        ),
        unasked=tuple(write.sequence for write in log.writes if not write.is_taken),
    )


def _receipt(attempt: Attempt, stored: Mapping[str | None, set[str]]) -> Receipt:
    state, reasons = _state(attempt)
    answer = attempt.answer or Answer(Said.NO_ADDRESS)
    refs = stored.get(answer.memory_id, set())
    is_read_back = bool(refs) if answer.memory_ref is None else answer.memory_ref in refs
    return Receipt(
        sequence=attempt.sequence,
        tool=attempt.call.tool,
        state=state,
        reasons=reasons,
        evidence=(*attempt.evidence, Evidence(Trace.READ_BACK, NOT_IN_LOG)) if is_read_back else attempt.evidence,
        call_id=attempt.call.call_id,
        node_id=attempt.node_id,
        agent_id=attempt.agent_id,
        digest=attempt.call.digest,
        asked=attempt.call.address,
        returned=answer.address,
        memory_ref=answer.memory_ref,
        memory_id=answer.memory_id,
        write=attempt.write.sequence if attempt.write else None,
    )


def _state(attempt: Attempt) -> tuple[State, tuple[Reason, ...]]:
    answer = attempt.answer
    if answer is None:
        return _without_answer(attempt)
    if len({other for _, other in attempt.returned}) > 1:
        return State.UNKNOWN, (Reason.CONTRADICTION,)
    if answer.said is Said.NEEDS_DECISION:
        return _after_decision(attempt, answer)
    state, reasons = _answered(answer, attempt.call)
    if attempt.verdict is Trace.APPROVAL_DENIED and state is not State.REFUSED:
        is_stored = state is State.CONFIRMED
        return (State.UNKNOWN, (Reason.CONTRADICTION,)) if is_stored else (State.REFUSED, (Reason.REJECTED,))
    return state, reasons


def _without_answer(attempt: Attempt) -> tuple[State, tuple[Reason, ...]]:
    if attempt.verdict is Trace.APPROVAL_DENIED:
        return State.REFUSED, (Reason.REJECTED,)
    if attempt.ended is not None:
        return State.UNKNOWN, (Reason.NO_RETURN,)
    if attempt.verdict is Trace.APPROVAL_ASKED:
        return State.WAITING, (Reason.AWAITS_APPROVAL,)
    return State.REQUESTED, (Reason.IN_FLIGHT,)


def _after_decision(attempt: Attempt, answer: Answer) -> tuple[State, tuple[Reason, ...]]:
    """The tool asked for a decision. A matching entry beside that may well be the one from before."""
    later = [approval for approval in attempt.approvals if approval.sequence > attempt.returned[0][0]]
    verdict = later[-1].trace if later else Trace.APPROVAL_ASKED
    if verdict is Trace.APPROVAL_DENIED:
        return State.REFUSED, (Reason.REJECTED,)
    if verdict is Trace.APPROVAL_ASKED:
        return State.WAITING, (Reason.NEEDS_DECISION,)
    write = attempt.write
    is_written = write is not None and write.sequence > later[-1].sequence
    is_granted = verdict is Trace.APPROVAL_GIVEN and _compared(answer, attempt.call) == (Reason.ADDRESS_MATCHES,)
    if is_written and is_granted:
        return State.CONFIRMED, (Reason.WRITTEN_AFTER_APPROVAL,)
    return State.UNKNOWN, (Reason.DECIDED_WITHOUT_OUTCOME,)


_REFUSALS = frozenset((Said.ERROR, Said.FORBIDDEN, Said.RATE_LIMITED))


def _answered(answer: Answer, call: Call) -> tuple[State, tuple[Reason, ...]]:
    if answer.said is Said.ADDRESS:
        reasons = _compared(answer, call)
        return (State.CONFIRMED if reasons == (Reason.ADDRESS_MATCHES,) else State.UNKNOWN), reasons
    return (State.REFUSED if answer.said in _REFUSALS else State.UNKNOWN), (Reason(answer.said.value),)


def _compared(answer: Answer, call: Call) -> tuple[Reason, ...]:
    if not call.is_seen:
        return (Reason.NO_CALL,)
    if call.address is None:
        return (Reason.NO_ARGUMENTS,)
    if answer.address is None:
        return (Reason.NO_ADDRESS,)
    wrong = mismatches(call.address, answer.address)
    return tuple(Reason(mismatch.value) for mismatch in wrong) or (Reason.ADDRESS_MATCHES,)


def _with_repeats(attempts: Iterable[tuple[Receipt, Attempt]]) -> list[tuple[Receipt, Attempt]]:
    by_digest: dict[str, list[tuple[Receipt, Attempt]]] = defaultdict(list)
    told: list[tuple[Receipt, Attempt]] = []
    for receipt, attempt in attempts:
        earlier = [] if receipt.digest is None else by_digest[receipt.digest]
        told.append((_repeated(receipt, earlier) if earlier else receipt, attempt))
        earlier.append(told[-1])
    return told


def _repeated(receipt: Receipt, earlier: Sequence[tuple[Receipt, Attempt]]) -> Receipt:
    for other, attempt in earlier:
        if other.state is State.CONFIRMED and _over_at(other, attempt) < receipt.sequence:
            return _as_made(receipt, other)
    last, attempt = earlier[-1]
    is_pending = last.state is State.WAITING or _over_at(last, attempt) > receipt.sequence
    repeat = Repeat.PENDING if is_pending else Repeat.NEW_ATTEMPT
    number = last.attempt if is_pending else last.attempt + 1
    return replace(receipt, repeat=repeat, repeats=last.sequence, attempt=number)


def _over_at(receipt: Receipt, attempt: Attempt) -> float:
    """The sequence at which it was known what an attempt came to."""
    if Reason.WRITTEN_AFTER_APPROVAL in receipt.reasons and receipt.write is not None:
        return receipt.write
    if attempt.returned:
        return attempt.returned[0][0]
    if attempt.ended is not None:
        return attempt.ended.sequence
    is_denied = attempt.verdict is Trace.APPROVAL_DENIED
    return attempt.approvals[-1].sequence if is_denied else float("inf")


def _as_made(receipt: Receipt, made: Receipt) -> Receipt:
    """Asked again for what was done: whatever this attempt came to, the effect is there."""
    own = tuple(reason for reason in receipt.reasons if reason is not Reason.ADDRESS_MATCHES)
    return replace(
        receipt,
        state=State.CONFIRMED,
        reasons=(Reason.ALREADY_MADE, *own),
        repeat=Repeat.ALREADY_MADE,
        repeats=made.sequence,
        attempt=made.attempt,
    )


def _effects(receipts: Iterable[Receipt]) -> list[Effect]:
    groups: dict[str | int, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        groups[receipt.digest or receipt.sequence].append(receipt)
    return [
        Effect(group[0].digest, _together(group), tuple(receipt.sequence for receipt in group))
        for group in groups.values()
    ]


def _together(group: Sequence[Receipt]) -> State:
    """Done once is done. What is under way comes before what failed, and what may have happened is never a refusal."""
    states = [receipt.state for receipt in group]
    if State.CONFIRMED in states:
        return State.CONFIRMED
    if states[-1] in (State.REQUESTED, State.WAITING):
        return states[-1]
    return State.UNKNOWN if State.UNKNOWN in states else states[-1]
