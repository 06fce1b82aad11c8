"""Two states of a run side by side: what differs between them, and on which events it rests."""

from __future__ import annotations

from dataclasses import dataclass

from runs.domain.folding import Attempt
from runs.domain.state import RUN_LEVEL, Channel, State, Value, Variable


@dataclass(frozen=True, slots=True)
class StateChange:
    """`section` is status, inputs, node, variable, channel or interrupt; `op` added, removed or changed.

    `before` and `after` are the values, as far as they are values; `from_sequence` and `to_sequence` the events that
    they rest on.
    """

    section: str
    op: str
    name: str
    before: Value | str | None
    after: Value | str | None
    from_sequence: int | None
    to_sequence: int | None


def compare_states(before: State, after: State) -> list[StateChange]:
    """What differs, in the order of sections and names. Nothing where both are the same state."""
    changes = [_status_change(before, after)]
    if _digest(before.inputs) != _digest(after.inputs):
        changes.append(_changed("inputs", "", before.inputs, after.inputs, _place(before.inputs), _place(after.inputs)))
    for name in sorted(before.nodes.keys() | after.nodes.keys()):
        changes.append(_node_change(name, before, after))
    for name in sorted(before.variables.keys() | after.variables.keys()):
        changes.append(_variable_change(name, before.variables.get(name), after.variables.get(name)))
    for name in sorted(before.channels.keys() | after.channels.keys()):
        changes += _channel_changes(name, before.channels.get(name), after.channels.get(name))
    return [change for change in changes if change is not None]


def _status_change(before: State, after: State) -> StateChange | None:
    if before.status == after.status or (
        before.status and after.status and before.status.status == after.status.status
    ):
        return None
    told = [(one.status, one.sequence) if one else (None, None) for one in (before.status, after.status)]
    return _changed("status", "", told[0][0], told[1][0], told[0][1], told[1][1])


def _node_change(name: str, before: State, after: State) -> StateChange | None:
    if before.nodes.get(name) == after.nodes.get(name) and before.has_ended == after.has_ended:
        return None
    words, places = [], []
    for state in (before, after):
        attempt = state.node(name)
        words.append(None if attempt is None else _node_words(state, attempt))
        places.append(None if attempt is None else _latest(attempt))
    if name == RUN_LEVEL or words[0] == words[1]:
        return None
    return _changed("node", name, words[0], words[1], places[0], places[1])


def _node_words(state: State, attempt: Attempt) -> str:
    status = state.shown_status(attempt)
    wait = attempt.open_wait
    waiting = f" for {wait.kind}" if wait and status == "wait" else ""
    return f"{status}{waiting}" if attempt.ordinal == 1 else f"{status}{waiting}, attempt {attempt.ordinal}"


def _latest(attempt: Attempt) -> int:
    if attempt.to_sequence is not None:
        return attempt.to_sequence
    wait = attempt.open_wait
    return wait.from_sequence if wait else attempt.from_sequence


def _variable_change(name: str, before: Variable | None, after: Variable | None) -> StateChange | None:
    if before == after:
        return None
    values = [one.value if one else None for one in (before, after)]
    if before and after and _digest(values[0]) == _digest(values[1]):
        return None
    places = [one.sequence if one else None for one in (before, after)]
    change = _changed("variable", name, values[0], values[1], places[0], places[1])
    return StateChange("variable", _op(before, after), *_rest(change))


def _channel_changes(name: str, before: Channel | None, after: Channel | None) -> list[StateChange]:
    if before == after:
        return []
    told = [channel_words(one) if one else None for one in (before, after)]
    if told[0] == told[1] and before and after and _tail(before) == _tail(after):
        return []
    places = [one.sequence if one else None for one in (before, after)]
    change = _changed("channel", name, told[0], told[1], places[0], places[1])
    return [StateChange("channel", _op(before, after), *_rest(change))]


def _tail(channel: Channel) -> list[tuple[str, str]]:
    parts = [(name, value.digest) for name, value in channel.parts.items()]
    return [
        *parts,
        *(("", value.digest) for value in channel.last),
        ("", channel.value.digest if channel.value else ""),
    ]


def channel_words(channel: Channel) -> Value | str | None:
    """What a channel holds, in a few words or as the value itself."""
    match channel.shape:
        case "last":
            return f"{channel.count:,} entr{'y' if channel.count == 1 else 'ies'}"
        case "total":
            return channel.total
        case "parts":
            noun = "vote" if channel.reducer == "votes" else "member"
            return f"{len(channel.parts):,} {noun}{'' if len(channel.parts) == 1 else 's'}"
    return channel.value


def _changed(
    section: str,
    name: str,
    before: Value | str | None,
    after: Value | str | None,
    from_sequence: int | None,
    to_sequence: int | None,
) -> StateChange:
    return StateChange(section, _op(before, after), name, before, after, from_sequence, to_sequence)


def _rest(change: StateChange) -> tuple[str, Value | str | None, Value | str | None, int | None, int | None]:
    return change.name, change.before, change.after, change.from_sequence, change.to_sequence


def _op(before: object, after: object) -> str:
    if before is None:
        return "added"
    return "removed" if after is None else "changed"


def _digest(value: Value | None) -> str | None:
    return value.digest if value else None


def _place(value: Value | None) -> int | None:
    return value.sequence if value else None
