"""States as they are kept, and read again. Of nodes only those are read that somebody looks at."""

from __future__ import annotations

from typing import Any, cast

import orjson

from runs.domain.folding import Attempt, RunStatus, StatusAt
from runs.domain.packed_attempt import pack
from runs.domain.state import Channel, State, Value, Variable

VERSION = 1
"""Of the fold and of what `dump` writes: a state of another version is folded anew."""


def dump(state: State) -> bytes:
    return orjson.dumps(
        [
            state.sequence,
            [state.status.status, state.status.sequence] if state.status else None,
            _value(state.inputs),
            {name: pack(node) if isinstance(node, Attempt) else node for name, node in state.nodes.items()},
            sorted(state.open_nodes),
            {name: [_value(one.value), one.node, one.sequence, one.changes] for name, one in state.variables.items()},
            {name: _channel(channel) for name, channel in state.channels.items()},
        ]
    )


def load(text: bytes) -> State:
    """The inverse of `dump`."""
    sequence, status, inputs, nodes, open_nodes, variables, channels = orjson.loads(text)
    return State(
        sequence=sequence,
        status=StatusAt(cast(RunStatus, status[0]), status[1]) if status else None,
        inputs=_read_value(inputs),
        nodes=nodes,
        open_nodes=set(open_nodes),
        variables={
            name: Variable(_read_value(value), node, at, changes)
            for name, (value, node, at, changes) in variables.items()
        },
        channels={name: _read_channel(told) for name, told in channels.items()},
    )


def _value(value: Value | None) -> list[Any] | None:
    return [value.sequence, value.size, value.digest, value.text] if value else None


def _read_value(told: list[Any] | None) -> Value | None:
    return Value(*told) if told else None


def _channel(channel: Channel) -> list[Any]:
    return [
        *(channel.reducer, channel.writes, channel.sequence, channel.node, _value(channel.value), channel.total),
        {name: _value(part) for name, part in channel.parts.items()},
        [_value(one) for one in channel.last],
        *(channel.count, sorted(channel.seen), channel.misfits, channel.reducers),
    ]


def _read_channel(told: list[Any]) -> Channel:
    reducer, writes, sequence, node, value, total, parts, last, count, seen, misfits, reducers = told
    return Channel(
        reducer=reducer,
        writes=writes,
        sequence=sequence,
        node=node,
        value=_read_value(value),
        total=total,
        parts={name: Value(*part) for name, part in parts.items()},
        last=[Value(*one) for one in last],
        count=count,
        seen=set(seen),
        misfits=misfits,
        reducers=reducers,
    )
