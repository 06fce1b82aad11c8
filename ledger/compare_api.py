"""Two runs held against each other, over REST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from django.http import HttpResponse
from ninja import Query, Router

from openwop_ui.rest import ApiRequest, Invalid, NotFound, json_response, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs import converters as _converters  # noqa: F401 - registers <projected:…>
from runs import queries as runs
from runs.domain.comparison import ABSENT, ADDED, OPS, REMOVED, Comparison, determinism
from runs.domain.exact_json import dumps
from runs.domain.normalise import MAX_ID_LENGTH
from runs.domain.projection import unproject
from runs.domain.state import State
from runs.domain.state_changes import compare_states
from runs.domain.storable import original
from runs.queries import RunFacts, moment
from runs.queries.bodies import bodies_of
from runs.queries.comparison import Kinship, compared, differing_pairs, hosts_words, kinship
from runs.queries.state import ChannelRow, ValueText, channel_row, long_texts, run_state, value_text, values_of

from .domain.replay_verdict import Finding, MemoryFact, MemoryVerdict
from .exact_answers import exact_answer, literal
from .queries.verdicts import memory_verdict

MOST_DIFFS = 10_000
MOST_BYTES = 8 * 1024 * 1024
"""A diff ends with the one that takes it over this, however many were asked for."""
AT_ONCE = 200
PARTS = 200
MOST_PAIRS = 1_000

router = Router(tags=["comparison"])


def find_run(tenant: int, host: str, run_id: str) -> RunFacts:
    found = runs.find_run(tenant, host, run_id)
    if found is None:
        raise NotFound("run")
    return found


def other_run(tenant: int, host: str, named: str) -> RunFacts:
    """By its id as it is, or by the segment that it has in a path."""
    found = runs.find_run(tenant, host, named)
    if found is not None:
        return found
    try:
        return find_run(tenant, host, unproject(named))
    except ValueError:
        raise NotFound("run") from None


@router.get("/hosts/{slug:host}/runs/{projected:run}:diff", auth=requires(Scope.READ))
def get_diff(
    request: ApiRequest,
    host: str,
    run: str,
    against: Annotated[str, Query(min_length=1, max_length=MAX_ID_LENGTH, description="The other run of the host")],
    limit: Annotated[int, Query(ge=1, le=MOST_DIFFS, description="The most differences")] = 1_000,
) -> HttpResponse:
    """Two runs' logs and ends in the protocol's shape of a diff: `removed` events only `a` has, `added` ones only `b`,
    `changed` ones both.

    Events are paired by node, type and how many of that kind came before, not by their sequence: what ran beside each
    other may come in any order. Ids and clocks of the envelope, the runs' own ids, durations, leases and log lines
    differ by nature and count for nothing. `truncated` says that a run is still going or that not all differences are
    listed; `divergedAtSeq` is the first of all of them.
    """
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        a, b = find_run(tenant, host, run), other_run(tenant, host, against)
        found = compared(tenant, a, b)
        pairs = differing_pairs(found.comparison, most=limit)
        diffs, listed = _event_diffs(tenant, a, b, pairs)
        state = _state_diff(tenant, a, b)
    said = {"a": a.run_id, "b": b.run_id, "divergedAtSeq": found.comparison.diverged_at}
    is_cut = found.is_cut or listed < found.comparison.differing or not (a.terminal and b.terminal)
    head = dumps(said)[:-1]
    tail = b',"truncated":true}' if is_cut else b"}"
    return json_response(head + b',"eventDiffs":[' + diffs + b'],"stateDiff":' + dumps(state) + tail)


def _event_diffs(tenant: int, a: RunFacts, b: RunFacts, pairs: list[tuple[int, int, int]]) -> tuple[bytes, int]:
    """The text of the list, and how many there are in it."""
    told: list[bytes] = []
    size = 0
    for start in range(0, len(pairs), AT_ONCE):
        part = pairs[start : start + AT_ONCE]
        mine = bodies_of(tenant, a.pk, [one for _, one, _ in part if one != ABSENT])
        theirs = bodies_of(tenant, b.pk, [one for _, _, one in part if one != ABSENT])
        for op, one, other in part:
            seq = min(sequence for sequence in (one, other) if sequence != ABSENT)
            events: dict[str, Any] = {"seq": seq, "op": OPS[op]}
            if op != ADDED:
                events["aEvent"] = literal(mine[one])
            if op != REMOVED:
                events["bEvent"] = literal(theirs[other])
            told.append(dumps(events))
            size += len(told[-1])
            if size > MOST_BYTES:
                return b",".join(told), len(told)
    return b",".join(told), len(told)


def _state_diff(tenant: int, a: RunFacts, b: RunFacts) -> dict[str, Any]:
    """What differs of status, variables and channels at the end of what is stored."""
    states = [run_state(tenant, run).state for run in (a, b)]
    statuses = [state.status.status if state.status else None for state in states]
    said: dict[str, Any] = {}
    if statuses[0] != statuses[1]:
        said["status"] = {"a": statuses[0], "b": statuses[1]}
    changes = compare_states(states[0], states[1])
    for section in ("variable", "channel"):
        names = [change.name for change in changes if change.section == section]
        if names:
            said[f"{section}s"] = {
                side: _values(tenant, run, state, section, names)
                for side, run, state in zip("ab", (a, b), states, strict=True)
            }
    return said


def _values(tenant: int, run: RunFacts, state: State, section: str, names: list[str]) -> dict[str, Any]:
    if section == "variable":
        variables = {name: state.variables[name].value for name in names if name in state.variables}
        texts = long_texts(tenant, run.pk, variables.values())
        return {original(name): _bare(value_text(value, texts)) for name, value in variables.items()}
    channels = {name: state.channels[name] for name in names if name in state.channels}
    texts = long_texts(tenant, run.pk, (value for one in channels.values() for value in values_of(one, most=PARTS)))
    return {
        original(name): _bare_channel(channel_row(name, channel, texts, most=PARTS))
        for name, channel in channels.items()
    }


def _bare(value: ValueText | None) -> Any:
    return None if value is None or value.text is None else literal(value.text)


def _bare_channel(row: ChannelRow) -> Any:
    match row.shape:
        case "last":
            return [_bare(value) for value in row.last]
        case "parts" if row.reducer == "votes":
            return [_bare(part.value) for part in row.parts]
        case "parts":
            return {part.name: _bare(part.value) for part in row.parts}
        case "total":
            return literal(row.total or "0")
    return _bare(row.value)


@router.get("/hosts/{slug:host}/runs/{projected:run}/determinism", auth=requires(Scope.READ))
def get_determinism(
    request: ApiRequest,
    host: str,
    run: str,
    source: Annotated[
        str | None,
        Query(min_length=1, max_length=MAX_ID_LENGTH, description="The source; without it, the run's own"),
    ] = None,
) -> HttpResponse:
    """How far a fork came to the same as its source: events, and what it did with the source's memory.

    `score` is `matchedEvents` of `comparedEvents`; of a branch only the events before its fork point are compared
    (`scope` prefix). `memory.verdicts` are stable, suppressing, regenerating or branch, each with the facts that it
    rests on; unrelated where neither run is known to be a fork of the other, silent where the source has no such fact.
    `hostSays` are the host's own `replay.diverged` events.
    """
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        fork = find_run(tenant, host, run)
        named = source or fork.parent_run_id
        if not named:
            raise Invalid("query", "source", "is needed: nothing says what this run is a fork of")
        of = other_run(tenant, host, named)
        kin = kinship(of, fork)
        found = compared(tenant, of, fork)
        verdict = memory_verdict(tenant, of, fork, kin)
        words = hosts_words(tenant, fork.pk, of.run_id)
    said = _determinism(of, fork, kin, found.comparison)
    said["truncated"] = found.is_cut
    said["memory"] = _verdict(verdict)
    said["hostSays"] = [
        {"sequence": word.sequence, "type": word.type, "atSequence": word.at, "divergenceKind": word.kind or None}
        for word in words
    ]
    return exact_answer(said)


def _determinism(of: RunFacts, fork: RunFacts, kin: Kinship, comparison: Comparison) -> dict[str, Any]:
    report = determinism(comparison, mode=kin.mode, from_sequence=kin.from_sequence)
    counts: Mapping[str, int] = dict(zip(OPS, comparison.counts, strict=True))
    return {
        "sourceRunId": of.run_id,
        "replayRunId": fork.run_id,
        "mode": None if kin.is_turned else kin.mode or None,
        "fromSeq": report.from_sequence,
        "scope": report.scope,
        "matchedEvents": report.matched,
        "comparedEvents": report.compared,
        "firstDivergenceSeq": report.first_divergence,
        "score": report.score,
        "differences": {op: counts[op] for op in ("added", "removed", "changed")},
        "ignoredEvents": {"source": comparison.ignored[0], "replay": comparison.ignored[1]},
    }


def _verdict(verdict: MemoryVerdict) -> dict[str, Any]:
    return {
        "verdicts": list(verdict.kinds),
        "findings": [_finding(finding) for finding in verdict.findings],
        "owed": verdict.owed,
        "repeated": len(verdict.repeated),
        "retimed": verdict.retimed,
        "restartedAtSeq": verdict.restarted_at,
        "complete": verdict.is_complete,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "verdict": finding.kind,
        "words": finding.words,
        "facts": [{"source": _fact(pair.source), "fork": _fact(pair.fork)} for pair in finding.pairs[:MOST_PAIRS]],
        "factsTotal": len(finding.pairs),
    }


def _fact(fact: MemoryFact | None) -> dict[str, Any] | None:
    if fact is None:
        return None
    return {
        "sequence": fact.sequence,
        "type": fact.type,
        "nodeId": fact.node,
        "memoryRef": fact.memory_ref,
        "memoryId": fact.memory_id,
        "at": moment(fact.at),
    }
