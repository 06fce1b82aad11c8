from __future__ import annotations

import json
from typing import Any

import pytest

from runs.domain.poll import NotAPollBody, PollPage, read_poll

from .examples import RECORDINGS, taken

ONE = b'{"sequence": 1,\n"payload":1.10}'
TWO = b'{ "sequence":2 }'


@pytest.mark.parametrize(
    ("body", "page"),
    [
        (b"[" + ONE + b", " + TWO + b" ]", PollPage((ONE, TWO))),
        (b"[]", PollPage(())),
        (b'{"events":[' + ONE + b'],"isComplete":false}', PollPage((ONE,), is_terminal=False)),
        (
            b'{"runId":"r","events":[' + ONE + b'],"lastEventSeq":1,"runStatus":"running","isTerminal":false}',
            PollPage((ONE,), "r", "running", False, 1),
        ),
        (
            b'{"runId":"t/r","events":[],"lastSequence":-1,"status":"pending","isTerminal":false}',
            PollPage((), "t/r", "pending", False, None),
        ),
        (b'{"events":[],"isTerminal":true,"isComplete":false}', PollPage((), is_terminal=True)),
        (b'{"events":[],"isTerminal":"yes","isComplete":true}', PollPage((), is_terminal=True)),
        (b'{"events":[],"lastSequence":true,"status":7,"runId":null}', PollPage(())),
        (b'{"more":{"x":1},"events":[' + TWO + b"]}", PollPage((TWO,))),
        (b'\xef\xbb\xbf {"events":[]} ', PollPage(())),
    ],
)
def test_body_in_every_spelling(body: bytes, page: PollPage) -> None:
    assert read_poll(body) == page


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b'{"events":null}',
        b'{"events":{}}',
        b'"text"',
        b"<html>",
        b'{"events":[',
        b"[1",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(NotAPollBody, match="without a list of events"):
        read_poll(body)


@pytest.mark.parametrize("path", sorted(RECORDINGS.rglob("poll*.json")), ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_answers(path: Any) -> None:
    page = read_poll(path.read_bytes())
    told = json.loads(path.read_bytes())
    assert [json.loads(event) for event in page.events] == told["events"]
    assert all(event in path.read_bytes() for event in page.events)
    assert page.is_terminal is True
    assert page.status == told.get("runStatus")
    assert page.last_sequence == told.get("lastEventSeq")
    assert [taken(event).sequence for event in page.events] == [event["sequence"] for event in told["events"]]
