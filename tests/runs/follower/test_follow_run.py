"""One run of a host that does what hosts do. However it behaves, the follower ends with the host's own log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from runs.domain.event import Refusal, RunEvent
from runs.domain.limits import Limits
from runs.follower.client import HostClient
from runs.follower.follow_run import RunFollow
from runs.follower.pace import Pace
from runs.follower.polling import Manners
from runs.follower.state import FollowState, Phase
from runs.follower.store import ListedRun, ResumePoint
from tests.hosts import misbehaving as acts
from tests.hosts.follow_doubles import FastClock, MemoryStore, followed
from tests.hosts.misbehaving import RUN, Event, MisbehavingHost, PollManners, log_of
from tests.hosts.raw_http import Asked, Reply, serving

SPEED = 150.0
"""Seconds of the follower in a real one."""

PATIENCE = 8.0
"""Real seconds for one run."""

QUICK = Pace(settle=(0.0, 0.5, 1.0))
"""Where it is not about what comes after the end."""


class Following:
    """A run's following with all its parts at hand."""

    def __init__(
        self,
        origin: str,
        *,
        store: MemoryStore,
        resume: ResumePoint | None = None,
        major: int = 1,
        run_id: str = RUN,
        pace: Pace | None = None,
        limits: Limits | None = None,
        speed: float = SPEED,
    ) -> None:
        self.clock = FastClock(speed)
        self.store = store
        self.host = followed(origin)
        self.client = HostClient(self.host, clock=self.clock)
        self.noted: list[ListedRun] = []
        self.follow = RunFollow(
            run_id,
            client=self.client,
            major=major,
            resume=resume or ResumePoint(),
            commit=self._commit,
            report=self._report,
            note_run=self._note,
            clock=self.clock,
            random=lambda: 0.5,
            manners=Manners(),
            pace=pace or QUICK,
            limits=limits or Limits(),
        )

    async def _commit(self, run_id: str, items: Sequence[RunEvent | Refusal]) -> None:
        await self.store.commit(self.host, run_id, items)

    async def _report(self, state: FollowState) -> None:
        await self.store.save_state(self.host, state)

    async def _note(self, run: ListedRun) -> None:
        self.noted.append(run)

    async def to_the_end(self) -> FollowState:
        try:
            async with asyncio.timeout(PATIENCE):
                while (again_in := (await self.follow.turn()).again_in) is not None:
                    await self.clock.sleep(again_in)
        finally:
            await self.client.aclose()
        return self.follow.state


async def follow(host: MisbehavingHost, **how: object) -> tuple[MemoryStore, FollowState]:
    store = MemoryStore()
    async with host.serving() as origin:
        following = Following(origin, store=store, major=host.major, run_id=host.run_id, **how)  # type: ignore[arg-type]  # passed on
        return store, await following.to_the_end()


def meaning(log: list[Event]) -> list[tuple[object, ...]]:
    """What is said, whatever the members are called. That nothing was re-spelt on the way is checked elsewhere."""
    return [
        (
            event.get("sequence", event.get("seq")),
            event["type"],
            event["nodeId"],
            event["timestamp"],
            event.get("payload", event.get("data")),
        )
        for event in log
    ]


ONE_ACT = {
    "behaves": acts.behave,
    "breaks off in a frame": acts.cut_in_frame(3),
    "breaks off behind an id line": acts.cut_in_frame(3, at=0.04),
    "breaks off before the blank line": acts.cut_in_frame(3, at=0.995),
    "ends cleanly in a frame": acts.cut_in_frame(3, cleanly=True),
    "ends cleanly in the middle": acts.close_early(4),
    "ends cleanly at once": acts.close_early(0),
    "stalls": acts.stall(4),
    "stalls but for its heartbeat": acts.stall(4, beats=True),
    "stalls with all told": acts.stall(99, beats=True),
    "never answers": acts.say_nothing,
    "tells everything twice": acts.repeat,
    "tells out of order": acts.reorder,
    "is rate limited": acts.answer(429, {"Retry-After": "7"}),
    "is unavailable": acts.answer(503),
    "is behind a broken gateway": acts.answer(502, body=b"<html>"),
    "has a passing error": acts.answer(500),
    "redirects within itself": acts.answer(307, {"Location": "/v1/runs/run-1/events?streamMode=debug"}),
    "batches": acts.batches(3),
    "batches one by one": acts.batches(1),
    "speaks the in-memory dialect": acts.speak_in_memory_dialect,
    "talks garbage": acts.talk_garbage,
    "sends a login page": acts.send_html,
    "sends byte by byte": acts.in_pieces(1),
    "sends odd pieces": acts.in_pieces(97),
    "answers nothing": acts.answer(204, body=b""),
    "does not know the query": acts.answer(400),
}


@pytest.mark.parametrize("act", ONE_ACT.values(), ids=ONE_ACT.keys())
async def test_ends_equal_to_the_hosts_log(act: acts.Act) -> None:
    host = MisbehavingHost(log_of(12), acts=[act])

    store, state = await follow(host)

    assert meaning(store.log(RUN)) == meaning(host.log)
    assert store.contradictions == []
    assert state.phase is Phase.FINISHED
    assert state.through == 11
    assert state.missing == ()


async def test_ends_equal_after_every_act_in_one_run() -> None:
    host = MisbehavingHost(log_of(120), acts=list(ONE_ACT.values()))

    store, state = await follow(host)

    assert meaning(store.log(RUN)) == meaning(host.log)
    assert state.missing == ()


@pytest.mark.parametrize("cut", range(0, 330, 13))
async def test_a_frame_cut_anywhere_moves_no_cursor(cut: int) -> None:
    host = MisbehavingHost(log_of(4))
    whole = acts.frame(host.log[1])

    async def cut_there(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        await reply.piece(acts.frame(host.log[0]) + whole[:cut])
        await reply.end()

    host.acts = [cut_there]
    host.poll, host.serves_json = PollManners(is_served=False), False
    store, _ = await follow(host)

    assert store.log(RUN) == host.log
    second = host.streams_asked[1].headers
    assert second["last-event-id"] == ("1" if cut >= len(whole) else "0")


# --- the stream asked for ---


async def test_asks_for_everything_and_for_a_resumable_stream() -> None:
    host = MisbehavingHost(log_of(3))

    await follow(host)

    first = host.streams_asked[0]
    assert first.query == {"streamMode": "debug", "resumable": "true"}
    assert first.headers["accept"] == "text/event-stream"
    assert first.headers["authorization"] == "Bearer key-of-the-host"
    assert "last-event-id" not in first.headers
    assert "openwop-version" not in first.headers


async def test_second_major_is_asked_in_its_own_words() -> None:
    run = "acme/run-0123456789abcdef"
    host = MisbehavingHost(log_of(5, run_id=run), major=2, run_id=run, acts=[acts.close_early(2)])

    store, state = await follow(host)

    assert store.log(run) == host.log
    assert state.phase is Phase.FINISHED
    assert {asked.path for asked in host.streams_asked} == {"/runs/acme~2Frun-0123456789abcdef/events"}
    assert {asked.headers["openwop-version"] for asked in host.asked} == {"2"}
    assert all(int(asked.query.get("afterSequence", "0")) >= 0 for asked in host.polls_asked)


async def test_resumes_behind_what_is_committed() -> None:
    host = MisbehavingHost(log_of(9))

    store, state = await follow(host, resume=ResumePoint(through=5))

    assert host.streams_asked[0].headers["last-event-id"] == "5"
    assert [event["sequence"] for event in store.log(RUN)] == [6, 7, 8]
    assert state.through == 8


async def test_a_finished_run_is_found_finished() -> None:
    host = MisbehavingHost(log_of(9))

    store, state = await follow(host, resume=ResumePoint(through=8, ended=True))

    assert store.log(RUN) == []
    assert state.phase is Phase.FINISHED
    assert state.note == ""


async def test_the_queries_are_given_up_one_after_the_other() -> None:
    host = MisbehavingHost(log_of(3), acts=[acts.answer(400), acts.answer(400)])

    await follow(host)

    asked = [stream.query for stream in host.streams_asked]
    assert asked == [{"streamMode": "debug", "resumable": "true"}, {"streamMode": "debug"}, {}]


async def test_large_streams_come_in_batches() -> None:
    host = MisbehavingHost(log_of(950), acts=[acts.in_pieces(64 * 1024)])

    store, _ = await follow(host)

    assert store.log(RUN) == host.log
    assert max(store.batches) == 200
    assert len(store.batches) <= 15


async def test_a_trickle_is_committed_while_it_flows() -> None:
    host = MisbehavingHost(log_of(6), visible=1)
    host.grow_later(*[(0.05, 1)] * 5)

    store, _ = await follow(host)

    assert store.log(RUN) == host.log
    assert len(store.batches) >= 5


# --- gaps ---

POLL_QUIRKS = {
    "as documented": PollManners(),
    "skips the next event": PollManners(skips_next=True),
    "pages": PollManners(page=3),
    "pages and skips": PollManners(page=3, skips_next=True),
    "says isComplete on every page": PollManners(page=3, says="isComplete"),
    "says a status only": PollManners(says="status"),
    "says nothing": PollManners(says=""),
}


@pytest.mark.parametrize("manners", POLL_QUIRKS.values(), ids=POLL_QUIRKS.keys())
@pytest.mark.parametrize("first", [0, 1])
async def test_a_gap_in_the_stream_is_filled_by_polling(manners: PollManners, first: int) -> None:
    host = MisbehavingHost(
        log_of(30, first=first), poll=manners, lost_in_streams=frozenset({first, 5, 6, 7, 8, 9, 10, 20, 21})
    )

    store, state = await follow(host)

    assert store.log(RUN) == host.log
    assert state.missing == ()


@pytest.mark.parametrize("manners", POLL_QUIRKS.values(), ids=POLL_QUIRKS.keys())
@pytest.mark.parametrize("first", [0, 1])
async def test_a_host_without_streams_is_polled(manners: PollManners, first: int) -> None:
    host = MisbehavingHost(log_of(30, first=first), poll=manners, serves_stream=False, visible=4)
    host.grow_later((0.1, 1), (0.1, 10), (0.1, 1), (0.1, 14))

    store, state = await follow(host)

    assert store.log(RUN) == host.log
    assert state.phase is Phase.FINISHED


async def test_a_gap_that_only_the_whole_log_fills() -> None:
    host = MisbehavingHost(log_of(12), poll=PollManners(is_served=False), lost_in_streams=frozenset({4, 5}))

    store, state = await follow(host)

    assert store.log(RUN) == host.log
    assert state.missing == ()


async def test_a_host_with_a_stream_only_is_followed_by_streams() -> None:
    log = [*log_of(7, end="run.cancelled"), acts.event(7, "memory.written", {"memoryRef": "m", "memoryId": "late"})]
    host = MisbehavingHost(
        log,
        visible=7,
        acts=[acts.close_early(3), acts.cut_in_frame(1), acts.close_early(9), acts.close_early(9)],
        poll=PollManners(is_served=False, says_over=True),
        serves_json=False,
    )
    host.grow_later((15 / SPEED, 1))

    store, state = await follow(host, pace=Pace())

    assert store.log(RUN) == log
    assert state.phase is Phase.FINISHED


async def test_a_gap_that_only_another_stream_fills() -> None:
    async def leave_out(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        for told in host.shown(cursor, in_stream=True):
            if told["sequence"] not in (4, 5):
                await reply.piece(acts.frame(told))
        await reply.end()

    host = MisbehavingHost(log_of(12), acts=[leave_out], poll=PollManners(is_served=False), serves_json=False)

    store, state = await follow(host)

    assert store.log(RUN) == host.log
    assert host.streams_asked[1].headers["last-event-id"] == "3"


async def test_what_the_host_does_not_have_is_said_to_be_missing() -> None:
    host = MisbehavingHost(log_of(12), lost=frozenset({4, 5, 9}))

    store, state = await follow(host)

    assert [event["sequence"] for event in store.log(RUN)] == [0, 1, 2, 3, 6, 7, 8, 10, 11]
    assert state.missing == ((4, 5), (9, 9))
    assert state.through == 11
    assert state.phase is Phase.FINISHED


async def test_what_was_missing_and_turns_up_late_is_taken() -> None:
    host = MisbehavingHost(log_of(12), lost=frozenset({4, 5}))

    async def mend() -> None:
        await asyncio.sleep(12 / SPEED)
        host.lost = frozenset()

    mending = asyncio.create_task(mend())
    store, state = await follow(host, pace=Pace())
    await mending

    assert store.log(RUN) == host.log
    assert state.missing == ()


async def test_a_log_that_counts_from_one_has_no_gap() -> None:
    host = MisbehavingHost(log_of(12, first=1))

    _, state = await follow(host)

    assert state.missing == ()
    assert state.through == 12


async def test_a_log_without_its_head_has_one() -> None:
    host = MisbehavingHost(log_of(12, first=57))

    store, state = await follow(host)

    assert store.log(RUN) == host.log
    assert state.missing == ((0, 56),)


async def test_an_absurd_sequence_costs_no_memory() -> None:
    absurd = acts.event(2**52, "memory.written", {})
    host = MisbehavingHost([*log_of(6)[:5], absurd, acts.event(5, "run.completed", {})])

    store, state = await follow(host)

    assert [event["sequence"] for event in store.log(RUN)] == [0, 1, 2, 3, 4, 5, 2**52]
    assert state.missing == ((6, 2**52 - 1),)


async def test_an_event_over_the_limit_does_not_stop_the_rest() -> None:
    log = log_of(9)
    log[4]["payload"]["tags"] = ["x" * 20_000]
    host = MisbehavingHost(log)

    store, state = await follow(host, limits=Limits(max_event_bytes=10_000))

    assert [event["sequence"] for event in store.log(RUN)] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert state.missing == ((4, 4),)
    assert [refusal.reason for refusal in store.refusals] == ["larger than MAX_EVENT_BYTES (10000 bytes)"]


async def test_copies_without_payload_are_completed_at_the_end() -> None:
    host = MisbehavingHost(log_of(12, run_id=RUN), acts=[acts.speak_in_memory_dialect], poll=PollManners(page=4))

    store, _ = await follow(host)

    assert meaning(store.log(RUN)) == meaning(host.log)


# --- the end ---


async def test_a_cancelled_run_that_goes_on_is_followed_to_its_real_end() -> None:
    log = log_of(7, end="run.cancelled") + [
        acts.event(7, "node.completed", {}),
        acts.event(8, "memory.written", {"memoryRef": "m", "memoryId": "late-1"}),
        acts.event(9, "memory.written", {"memoryRef": "m", "memoryId": "late-2"}),
        acts.event(10, "run.completed", {}),
    ]
    host = MisbehavingHost(log, visible=7, poll=PollManners(skips_next=True, says="isComplete"))
    host.grow_later((18 / SPEED, 4))

    store, state = await follow(host, pace=Pace())

    assert store.log(RUN) == log
    assert state.through == 10


async def test_one_late_event_behind_a_poll_that_skips_it() -> None:
    log = [*log_of(7), acts.event(7, "memory.written", {"memoryRef": "m", "memoryId": "late"})]
    host = MisbehavingHost(log, visible=7, poll=PollManners(skips_next=True, says_over=True))
    host.grow_later((15 / SPEED, 1))

    store, _ = await follow(host, pace=Pace())

    assert store.log(RUN) == log


async def test_a_late_event_begins_the_checks_anew() -> None:
    late = [acts.event(n, "memory.written", {"memoryRef": "m", "memoryId": f"late-{n}"}) for n in (7, 8)]
    host = MisbehavingHost([*log_of(7), *late], visible=7, poll=PollManners(says_over=True))
    host.grow_later((15 / SPEED, 1), (17 / SPEED, 1))

    store, _ = await follow(host, pace=Pace())

    assert store.log(RUN) == host.log


async def test_a_status_ahead_of_the_log_ends_nothing() -> None:
    host = MisbehavingHost(log_of(6), visible=4, acts=[acts.close_early(9)] * 3, poll=PollManners(status_early=True))
    host.grow_later((10 / SPEED, 2))

    store, state = await follow(host, pace=Pace())

    assert store.log(RUN) == host.log
    assert state.note == ""


async def test_a_log_that_never_ends_is_left_when_the_host_says_so() -> None:
    log = log_of(6)[:5]
    host = MisbehavingHost(log, acts=[acts.close_early(9)] * 9, poll=PollManners(says_over=True))

    store, state = await follow(host)

    assert store.log(RUN) == log
    assert state.phase is Phase.FINISHED
    assert state.note == "the host says that the run has ended; its log has no terminal event"


async def test_a_copied_end_in_the_middle_of_a_fork_is_not_the_end() -> None:
    head = log_of(5)
    tail = [{**event, "sequence": event["sequence"] + 5} for event in log_of(5)]
    host = MisbehavingHost(head + tail, visible=5, poll=PollManners(says_over=False), acts=[acts.stall(9, beats=True)])
    host.grow_later((60 / SPEED, 1))

    async def finish() -> None:
        await asyncio.sleep(100 / SPEED)
        host.poll = PollManners()
        await host.grow(4)

    finishing = asyncio.create_task(finish())
    store, state = await follow(host)
    await finishing

    assert store.log(RUN) == head + tail
    assert state.phase is Phase.FINISHED


async def test_the_checks_after_the_end_come_at_once_after_5_and_after_20_seconds() -> None:
    store = MemoryStore()
    host = MisbehavingHost(log_of(4))
    async with host.serving() as origin:
        following = Following(origin, store=store, pace=Pace())
        await following.to_the_end()

    assert following.clock.slept == [5.0, 15.0]


# --- trouble ---


async def test_a_store_that_is_away_loses_nothing() -> None:
    host = MisbehavingHost(log_of(40), visible=10)
    host.grow_later(*[(0.03, 5)] * 6)
    store = MemoryStore(fail_commits=6)
    async with host.serving() as origin:
        following = Following(origin, store=store)
        state = await following.to_the_end()

    assert store.log(RUN) == host.log
    assert state.missing == ()
    assert "the events could not be stored; they are read again" in {state.last_error for state in store.states}
    cursors = [asked.headers.get("last-event-id") for asked in host.streams_asked]
    assert cursors[:7] == [None] * 7, "the cursor moved without a commit"


async def test_a_pause_that_the_host_asks_for_is_kept() -> None:
    store = MemoryStore()
    host = MisbehavingHost(log_of(4), acts=[acts.answer(429, {"Retry-After": "7"}), acts.answer(503)])
    async with host.serving() as origin:
        following = Following(origin, store=store, pace=Pace())
        await following.to_the_end()

    # Then half of the second upper end (1 s), as chance is 0.5, and the checks after the end.
    assert following.clock.slept == [7.0, 0.5, 5.0, 15.0]
    words = [state.last_error for state in store.states if state.phase is Phase.RETRYING]
    assert words == ["429 told_to: as the test wants", "503 told_to: as the test wants"]


async def test_a_retry_field_is_the_least_pause_before_the_next_stream() -> None:
    async def ask_for_patience(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        await reply.piece(b"retry: 4000\n\n" + acts.frame(host.log[0]))
        await reply.end()

    store = MemoryStore()
    host = MisbehavingHost(log_of(4), acts=[ask_for_patience], visible=1)
    host.grow_later((30 / SPEED, 3))
    async with host.serving() as origin:
        following = Following(origin, store=store)
        await following.to_the_end()

    assert following.clock.slept[0] == 4.0


STOPPING = {
    401: "the host does not accept the credential (401 told_to: as the test wants)",
    403: "the host does not let this credential read the run (403 told_to: as the test wants)",
    406: "the host does not speak the protocol's major that it was asked for (406 told_to: as the test wants)",
    410: "the host keeps the run, or this way to it, no longer; what was read stays (410 told_to: as the test wants)",
    418: "the host refuses (418 told_to: as the test wants)",
    426: "the host wants a newer client (426 told_to: as the test wants)",
}


@pytest.mark.parametrize(("status", "words"), STOPPING.items())
async def test_some_answers_stop_the_following_and_say_why(status: int, words: str) -> None:
    host = MisbehavingHost(log_of(4), acts=[acts.answer(status)])

    store, state = await follow(host)

    assert state.phase is Phase.STOPPED
    assert state.last_error == words
    assert len(host.asked) == 1


async def test_an_unprojectable_log_stops_although_it_is_a_500() -> None:
    host = MisbehavingHost(log_of(4), acts=[acts.answer(500, body={"error": "event_type_unmapped", "message": "x.y"})])

    _, state = await follow(host)

    assert state.phase is Phase.STOPPED
    assert state.last_error == "the host refuses (500 event_type_unmapped: x.y)"


async def test_an_unknown_run_stops() -> None:
    host = MisbehavingHost(log_of(4), knows_run=False)

    _, state = await follow(host)

    assert state.phase is Phase.STOPPED
    assert state.last_error.startswith("the host does not know the run, or hides it from this credential")


async def test_a_run_that_is_deleted_behind_its_end_is_finished() -> None:
    host = MisbehavingHost(log_of(4))
    store = MemoryStore()
    async with host.serving() as origin:
        following = Following(origin, store=store)
        await following.follow.turn()
        host.serves_stream, host.poll_answers = False, [(410, {})]
        turn = await following.follow.turn()
        await following.client.aclose()

    assert turn.again_in is None
    assert following.follow.state.phase is Phase.FINISHED


async def test_the_credential_goes_to_no_other_origin() -> None:
    elsewhere: list[Asked] = []

    async def listen(asked: Asked, reply: Reply) -> None:
        elsewhere.append(asked)
        await reply.answer(200, {"events": []})

    async with serving(listen) as other:
        host = MisbehavingHost(log_of(4), acts=[acts.answer(308, {"Location": f"{other}/v1/runs/run-1/events"})])
        _, state = await follow(host)

    assert elsewhere == []
    assert state.phase is Phase.STOPPED
    assert state.last_error == f"the host redirects to another origin, {other}; not followed there"


async def test_a_host_that_echoes_the_credential_does_not_get_it_shown() -> None:
    leak = {"error": "invalid", "message": "no such key: key-of-the-host\n\u202eevil"}
    host = MisbehavingHost(log_of(4), acts=[acts.answer(401, body=leak)])

    _, state = await follow(host)

    assert state.last_error == "the host does not accept the credential (401 invalid: no such key: … evil)"


async def test_an_origin_that_nobody_listens_on_is_tried_again_and_again() -> None:
    store = MemoryStore()
    following = Following("http://127.0.0.1:9", store=store)

    pauses = [(await following.follow.turn()).again_in for _ in range(10)]
    await following.client.aclose()

    # Half of an upper end that doubles from 0.5 s and stays at 30 s.
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0]
    assert following.follow.state.phase is Phase.RETRYING
    assert following.follow.state.last_error.startswith("no connection")
    assert following.follow.state.retry_at is not None


async def test_a_run_of_the_first_major_goes_on_under_its_bound_id() -> None:
    async def handle(asked: Asked, reply: Reply) -> None:
        await reply.answer(200, {"runId": "acme/run-1", "status": "running", "workflowId": "w"})

    store = MemoryStore()
    async with serving(handle) as origin:
        following = Following(origin, store=store, major=2)
        state = await following.to_the_end()

    assert state.phase is Phase.FINISHED
    assert state.note == "the host now names this run acme/run-1"
    assert following.noted == [ListedRun("acme/run-1", status="running", workflow_id="w")]


# --- what is said of it ---


async def test_states_tell_the_story() -> None:
    host = MisbehavingHost(log_of(6), acts=[acts.close_early(2), acts.answer(503)], visible=2)
    host.grow_later((20 / SPEED, 4))

    store, state = await follow(host)

    phases = [one.phase for one in store.states]
    assert [phases[0], *(after for before, after in pairwise(phases) if after is not before)] == [
        *(Phase.CONNECTING, Phase.STREAMING, Phase.WAITING),
        *(Phase.CONNECTING, Phase.RETRYING),
        *(Phase.CONNECTING, Phase.STREAMING, Phase.SETTLING, Phase.FINISHED),
    ]
    assert (state.through, state.last_error, state.retry_at, state.connected_since) == (5, "", None, None)
    assert state.last_event_at is not None
    streaming = [one for one in store.states if one.phase is Phase.STREAMING]
    assert all(one.connected_since is not None for one in streaming)


async def test_place_is_given_to_others_who_wait_and_nothing_is_lost() -> None:
    host = MisbehavingHost(log_of(8), visible=3)
    store = MemoryStore()
    async with host.serving() as origin:
        following = Following(origin, store=store)
        turn = await following.follow.turn(others_wait=lambda: True)
        assert turn.again_in == 0.0
        assert following.follow.state.phase is Phase.WAITING
        await host.grow(5)
        await following.to_the_end()

    assert store.log(RUN) == host.log
    assert host.streams_asked[1].headers["last-event-id"] == "2"
