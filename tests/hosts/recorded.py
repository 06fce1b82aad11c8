"""Recorded streams of public hosts, played again: the same bytes, in pieces of the same proportions, in scaled time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.misbehaving import Act, Event, MisbehavingHost, PollManners, behave
from tests.hosts.raw_http import Reply

RECORDINGS = Path(__file__).parent / "recordings"


@dataclass(frozen=True, slots=True)
class Stream:
    """`pieces` are milliseconds since the request, and bytes. A broken one ends without an end."""

    pieces: tuple[tuple[int, bytes], ...]
    is_broken: bool


def read_log(file: Path) -> list[Event]:
    return [json.loads(line) for line in file.read_bytes().split(b"\n") if line]


def recorded_streams(folder: Path) -> Iterator[Stream]:
    for file in sorted(folder.glob("stream-*.sse")):
        told = json.loads(file.with_suffix(".json").read_text())
        yield Stream(tuple(_pieces(file.read_bytes(), told["chunks"])), told["ended"] == "broken")


def _pieces(body: bytes, chunks: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    # The recorded lengths count HTTP framing too, so that only their proportions hold; a piece then ends anywhere.
    total, passed, start = sum(length for _, length in chunks), 0, 0
    for at, length in chunks:
        passed += length
        end = len(body) * passed // total
        yield at, body[start:end]
        start = end


def playing(stream: Stream, *, speed: float) -> Act:
    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        passed = 0
        for at, piece in stream.pieces:
            await asyncio.sleep((at - passed) / 1000 / speed)
            passed = at
            await reply.piece(piece)
        if stream.is_broken:
            reply.cut()
        else:
            await reply.end()

    return act


def recorded_host(folder: Path, *, speed: float, poll: PollManners) -> MisbehavingHost:
    """Plays the recorded streams one after the other, and tells the rest of the log honestly."""
    log = read_log(folder / "log.ndjson")
    streams = [playing(stream, speed=speed) for stream in recorded_streams(folder)]
    return MisbehavingHost(log, acts=[*streams, behave], poll=poll, run_id=log[0]["runId"])
