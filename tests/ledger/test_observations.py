"""What was seen of entries: kept as facts, shown as they were seen then, and never mixed with what events say."""

from __future__ import annotations

import json
import re
import threading
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, ProgrammingError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from psycopg import errors

from ledger import queries
from ledger.domain.observing import GONE, Sight
from ledger.domain.reading import READER
from ledger.models import ContentState, MemoryEntry, Observation, ReadingCursor
from ledger.observations import Due, Kept, Look, Source, failed, observe
from ledger.queries import EntryContent, EntryFacts, EntryFilter, EntryRow
from ledger.rebuild import rebuild
from ledger.store import read_backlog
from openwop_ui.live.announce import CHANNEL
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.memory_read import read_list, read_one
from runs.domain.storable import storable
from runs.models import Host
from runs.store.documents import keep_document
from tests.factories import bearer, make_host, make_key, make_log, make_member, make_tenant, take
from tests.ledger.ledger_rows import ledger_rows
from tests.ledger.test_store import LATER, arrive, compaction, read_all, write

RECORDED = Path(__file__).parent.parent / "fixtures" / "recordings" / "openwop-app"
SCHEMAS = Path(__file__).parents[2] / "schemas"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def see(
    host: Host,
    memory_id: str = "m1",
    content: str | None = "text",
    *,
    at: datetime = NOON,
    ref: str = "notes",
    source: Source = Source.READ,
    **told: Any,
) -> Kept:
    sight = Sight("content", content, **told)
    return observe(tenant_id=host.tenant_id, host_id=host.pk, looks=[Look(ref, memory_id, sight)], source=source, at=at)


def miss(host: Host, memory_id: str = "m1", *, at: datetime = NOON, ref: str = "notes") -> Kept:
    look = Look(ref, memory_id, GONE)
    return observe(tenant_id=host.tenant_id, host_id=host.pk, looks=[look], source=Source.READ, at=at)


def observed(tenant: Tenant) -> list[tuple[Any, ...]]:
    with tenant_scope(tenant.pk):
        found = Observation.objects.filter(tenant_id=tenant.pk).order_by("memory_id", "number")
        return [(one.memory_id, one.number, one.outcome, one.content) for one in found]


def facts(tenant: Tenant, memory_id: str = "m1", *, now: datetime = NOON, ref: str = "notes") -> EntryFacts:
    with tenant_scope(tenant.pk):
        found = queries.find_entry(tenant.pk, "alpha", ref, memory_id, now=now)
    assert found is not None
    return found


def content(tenant: Tenant, memory_id: str = "m1", *, now: datetime = NOON, ref: str = "notes") -> EntryContent:
    entry = facts(tenant, memory_id, now=now, ref=ref)
    with tenant_scope(tenant.pk):
        return queries.entry_content(tenant.pk, entry, now=now)


def listed(tenant: Tenant, *, now: datetime = NOON, **told: str) -> list[EntryRow]:
    with tenant_scope(tenant.pk):
        return list(queries.entry_list(tenant.pk, EntryFilter(**told), now=now).rows)


# --- What is kept ---


def test_what_is_seen_first_is_a_fact(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0, tags=["said"]))
    read_all(tenant)
    kept = see(host, tags=("seen",), created_at=NOON, expires_at=NOON + timedelta(days=9), redactions=2, detail="odd")
    assert kept == Kept(changed=1)
    with tenant_scope(tenant.pk):
        (one,) = Observation.objects.filter(tenant_id=tenant.pk)
    assert (one.number, one.outcome, one.source, one.observed_at) == (1, "content", "read", NOON)
    assert (one.content, one.tags, one.created_at_reported, one.expires_at) == (
        "text",
        ["seen"],
        NOON,
        NOON + timedelta(days=9),
    )
    assert (one.redactions, one.looks_secret, one.detail, one.unchanged_until) == (2, False, "odd", None)
    assert facts(tenant).tags == ("said",)


def test_the_same_again_is_no_new_fact_but_a_later_time(tenant: Tenant, host: Host) -> None:
    for minutes in range(5):
        see(host, at=NOON + timedelta(minutes=minutes))
    assert see(host, at=NOON + timedelta(hours=1), source=Source.PUSH) == Kept(same=1)
    assert observed(tenant) == [("m1", 1, "content", "text")]
    told = content(tenant)
    assert told.seen_at == NOON + timedelta(hours=1)
    assert [(row.observed_at, row.until) for row in told.rows] == [(NOON, NOON + timedelta(hours=1))]


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"content": "text\nand more"}, "text: 1 line added, 0 removed"),
    ({"content": ""}, "text: 0 lines added, 1 removed"),
    ({"content": None}, "no text any more"),
    ({"tags": ("t",)}, "tags"),
    ({"created_at": NOON}, "time of creation"),
    ({"expires_at": NOON + timedelta(days=900)}, "expiry"),
]


@pytest.mark.parametrize("change, words", CHANGES, ids=[words for _, words in CHANGES])
def test_what_differs_is_a_new_fact_and_the_old_one_stays(
    tenant: Tenant, host: Host, change: dict[str, Any], words: str
) -> None:
    see(host)
    see(host, at=NOON + timedelta(hours=1))
    assert see(host, at=NOON + timedelta(hours=2), **change) == Kept(changed=1)
    new, old = content(tenant).rows
    assert (old.content, old.observed_at, old.until, old.changed) == ("text", NOON, NOON + timedelta(hours=1), ())
    assert (new.number, new.observed_at, new.changed) == (2, NOON + timedelta(hours=2), (words,))
    assert new.content == change.get("content", "text")


def test_there_and_back_again_is_three_facts(tenant: Tenant, host: Host) -> None:
    see(host, content="a")
    see(host, content="b", at=NOON + timedelta(hours=1))
    miss(host, at=NOON + timedelta(hours=2))
    assert miss(host, at=NOON + timedelta(hours=3)) == Kept(same=1)
    see(host, content="b", at=NOON + timedelta(hours=4))
    assert [(one[1], one[2], one[3]) for one in observed(tenant)] == [
        (1, "content", "a"),
        (2, "content", "b"),
        (3, "gone", None),
        (4, "content", "b"),
    ]
    assert [row.changed for row in content(tenant).rows] == [
        ("readable again",),
        ("no longer readable",),
        ("text: 1 line added, 1 removed",),
        (),
    ]


def test_a_look_that_was_overtaken_says_nothing(tenant: Tenant, host: Host) -> None:
    see(host, content="new", at=NOON)
    assert see(host, content="old", at=NOON - MILLISECOND) == Kept(late=1)
    assert miss(host, at=NOON - MILLISECOND) == Kept(late=1)
    assert observed(tenant) == [("m1", 1, "content", "new")]


@pytest.mark.parametrize(
    "odd", ["\0", "a\0b\ue000c", "\ud800", "Ünïcödé 😀 \u202ertl\u202c 中文", "\u2028", "x" * 300_000]
)
def test_every_text_comes_back_as_it_was(tenant: Tenant, host: Host, odd: str) -> None:
    see(host, odd[:1500], odd, ref=odd[:1500], tags=(odd[:256],))
    assert see(host, odd[:1500], odd, ref=odd[:1500], tags=(odd[:256],), at=NOON + MILLISECOND) == Kept(same=1)
    entry = facts(tenant, odd[:1500], ref=odd[:1500])
    with tenant_scope(tenant.pk):
        told = queries.entry_content(tenant.pk, entry, now=NOON, whole=True)
    assert told.shown is not None
    assert (told.shown.content, told.shown.tags) == (odd, (odd[:256],))
    assert not told.shown.is_cut


def test_the_same_address_on_two_hosts_is_two_entries(tenant: Tenant, host: Host) -> None:
    see(host, content="of alpha")
    see(make_host(tenant, "beta"), content="of beta")
    assert {one[1:] for one in observed(tenant)} == {(1, "content", "of alpha"), (1, "content", "of beta")}
    assert content(tenant).total == 1


def test_of_an_address_that_comes_twice_the_first_counts(tenant: Tenant, host: Host) -> None:
    looks = [Look("notes", "m1", Sight("content", text)) for text in ("first", "second")]
    assert observe(tenant_id=tenant.pk, host_id=host.pk, looks=looks, source=Source.READ, at=NOON) == Kept(changed=1)
    assert observed(tenant) == [("m1", 1, "content", "first")]


def test_nothing_seen_is_nothing(tenant: Tenant, host: Host) -> None:
    assert observe(tenant_id=tenant.pk, host_id=host.pk, looks=[], source=Source.READ) == Kept()
    assert observed(tenant) == []


@pytest.mark.parametrize("sql", ["UPDATE ledger_observation SET content = 'other'", "DELETE FROM ledger_observation"])
def test_what_was_seen_takes_no_change(tenant: Tenant, host: Host, sql: str) -> None:
    see(host)
    with tenant_scope(tenant.pk), pytest.raises(IntegrityError) as refusal, transaction.atomic():
        connection.cursor().execute(sql)
    assert isinstance(refusal.value.__cause__, errors.RestrictViolation)


def test_pages_hear_of_what_is_new_and_not_of_the_same_again(committed: None) -> None:
    host = make_host(make_tenant())
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
        heard = cursor.connection.notifies(timeout=0.5)
        see(host)
        see(host, at=NOON + MILLISECOND)
        see(host, content="other", at=NOON + 2 * MILLISECOND)
        told = [json.loads(one.payload) for one in heard]
        cursor.execute(f"UNLISTEN {CHANNEL}")
    assert told == [{"tenant": host.tenant_id, "topics": {"ledger": None}}] * 2


# --- Entries that no event names ---


def test_an_entry_may_be_known_from_its_hosts_memory_alone(tenant: Tenant, host: Host) -> None:
    see(host, "quiet", created_at=NOON - timedelta(days=1))
    assert ledger_rows(tenant)["entries"] == [
        ("notes", "quiet", 0, 0, NOON - timedelta(days=1), NOON - timedelta(days=1), None, None)
    ]
    assert ledger_rows(tenant)["scopes"] == [("notes", 1)]
    entry = facts(tenant, "quiet")
    assert (entry.writes, entry.state, entry.state_reason) == (0, "stored", "Seen on its host; no event names it.")
    (row,) = listed(tenant)
    assert (row.memory_id, row.excerpt, row.writes, row.run_id, row.last_write_at) == ("quiet", "text", 0, None, None)


def test_the_ledger_does_not_depend_on_what_came_first(tenant: Tenant, host: Host) -> None:
    events = (
        write(0, "written", node="sum"),
        compaction(1, "merged", sourceIds=["source"]),
        write(0, "written", run="run-2"),
    )
    names = ["written", "merged", "source", "quiet"]

    def look(of: Host) -> None:
        for name in names:
            see(of, name, created_at=NOON)

    arrive(host, *events)
    read_all(tenant, now=LATER)
    look(host)
    other = make_tenant("globex")
    mirror = make_host(other)
    look(mirror)
    arrive(mirror, *events[::-1])
    read_all(other, now=LATER)
    third = make_tenant("initech")
    mixed = make_host(third)
    arrive(mixed, *events[:1])
    read_all(third, now=LATER)
    look(mixed)
    arrive(mixed, *events[1:])
    read_all(third, now=LATER)
    assert ledger_rows(tenant) == ledger_rows(other) == ledger_rows(third)
    assert observed(tenant) == observed(other) == observed(third)
    assert [row[:4] for row in ledger_rows(tenant)["entries"]] == [
        ("notes", "merged", 0, 0),
        ("notes", "quiet", 0, 0),
        ("notes", "source", 0, 0),
        ("notes", "written", 2, 1),
    ]


def test_a_rebuild_keeps_what_was_seen_and_brings_back_what_only_that_knows(committed: None) -> None:
    tenant = make_tenant()
    host = make_host(tenant)
    arrive(host, write(0, node="sum"), compaction(1, sourceIds=["m1"]))
    read_all(tenant, now=LATER)
    for name in ("m1", "quiet", "all"):
        see(host, name, created_at=NOON)
    see(host, "later", ref="other")
    miss(host, "later", ref="other", at=NOON + MILLISECOND)
    before, seen = ledger_rows(tenant), observed(tenant)
    assert before["scopes"] == [("notes", 3), ("other", 1)]
    for check in (True, False, True):
        assert [one for one in rebuild(tenant.pk, check=check) if one.lost or one.gained] == []
        assert (ledger_rows(tenant), observed(tenant)) == (before, seen)
    assert content(tenant, "quiet").shown is not None


def test_a_rebuild_mends_an_entry_that_only_an_observation_knows(committed: None) -> None:
    tenant = make_tenant()
    host = make_host(tenant)
    see(host, "quiet")
    before = ledger_rows(tenant)
    with tenant_scope(tenant.pk):
        MemoryEntry.objects.filter(tenant_id=tenant.pk).update(write_count=3, memory_ref="elsewhere")
    (changed,) = (one for one in rebuild(tenant.pk) if one.lost or one.gained)
    assert (changed.table, changed.lost, changed.gained) == ("ledger_memoryentry", 1, 1)
    assert ledger_rows(tenant) == before


def test_a_log_read_by_another_reader_keeps_what_was_seen(committed: None) -> None:
    tenant = make_tenant()
    host = make_host(tenant)
    arrive(host, write(0))
    read_all(tenant, now=LATER)
    see(host)
    see(host, "quiet")
    before = ledger_rows(tenant)
    with tenant_scope(tenant.pk):
        ReadingCursor.objects.filter(tenant_id=tenant.pk).update(reader=READER - 1)
    read_backlog(tenant.pk, now=LATER)
    assert ledger_rows(tenant) == before
    assert [row.excerpt for row in listed(tenant)] == ["text", "text"]


def test_looking_and_reading_the_log_at_once_add_up(committed: None) -> None:
    """Both add the same entries: whoever is second finds them there."""
    tenant = make_tenant()
    host = make_host(tenant)
    names = [f"m{number}" for number in range(60)]
    arrive(host, *(write(place, name, ref=f"ref-{place % 7}") for place, name in enumerate(names)))
    problems: list[BaseException] = []

    def work(act: Any) -> None:
        try:
            act()
        except BaseException as problem:
            problems.append(problem)
        finally:
            connection.close()

    def look(shift: int) -> None:
        for start in range(0, 60, 6):
            part = [(start + step * 7 + shift) % 60 for step in range(6)]
            looks = [Look(f"ref-{place % 7}", names[place], Sight("content", "text")) for place in part]
            observe(tenant_id=tenant.pk, host_id=host.pk, looks=looks, source=Source.READ)

    acts = [lambda: look(0), lambda: look(3), lambda: read_all(tenant, now=LATER)]
    threads = [threading.Thread(target=work, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    read_all(tenant, now=LATER)
    assert sum(count for _, count in ledger_rows(tenant)["scopes"]) == len(ledger_rows(tenant)["entries"]) == 60
    assert [one for one in rebuild(tenant.pk, check=True) if one.lost or one.gained] == []


# --- Time ---


def test_an_entry_expires_to_the_millisecond(tenant: Tenant, host: Host) -> None:
    end = NOON + timedelta(hours=1)
    arrive(host, write(0))
    read_all(tenant)
    see(host, content="private", expires_at=end)
    for now, state, text, excerpt in (
        (end - MILLISECOND, "stored", "private", "private"),
        (end, "expired", None, None),
        (end + MILLISECOND, "expired", None, None),
    ):
        told, (row,) = content(tenant, now=now), listed(tenant, now=now)
        assert facts(tenant, now=now).state == row.state == state
        assert told.shown is not None
        assert (told.shown.content, row.excerpt) == (text, excerpt)
        assert [one.content for one in told.rows] == [text]
        assert [one.memory_id for one in listed(tenant, now=now, state=state)] == ["m1"]
        assert len(listed(tenant, now=now, q="private")) == (state == "stored")
    assert ledger_rows(tenant)["writes"] != []


def test_what_an_entry_was_before_is_hidden_once_it_has_expired(tenant: Tenant, host: Host) -> None:
    see(host, content="old", expires_at=NOON + timedelta(hours=1))
    see(host, content="new", expires_at=NOON + timedelta(hours=3), at=NOON + MILLISECOND)
    seen = [[row.content for row in content(tenant, now=NOON + timedelta(hours=hours)).rows] for hours in (0, 2, 3)]
    assert seen == [["new", "old"], ["new", None], [None, None]]


def test_what_is_taken_away_early_is_gone_and_does_not_expire(tenant: Tenant, host: Host) -> None:
    end = NOON + timedelta(hours=1)
    see(host, "early", "private", expires_at=end)
    see(host, "late", "private", expires_at=end)
    miss(host, "early", at=end - MILLISECOND)
    miss(host, "late", at=end)
    later = end + timedelta(days=1)
    assert {row.memory_id: row.state for row in listed(tenant, now=later)} == {"early": "gone", "late": "expired"}
    assert {row.excerpt for row in listed(tenant, now=later)} == {None}
    assert listed(tenant, now=later, q="private") == []
    told = content(tenant, "early", now=later)
    assert told.shown is not None and told.shown.is_hidden and told.gone_at == end - MILLISECOND


# --- What lists show ---


def test_a_list_says_why_it_shows_no_content(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0, "unread"))
    read_all(tenant)
    see(host, "gone", "was here")
    miss(host, "gone", at=NOON + MILLISECOND)
    miss(host, "never")
    see(host, "blank", " ")
    see(host, "key", "sk-live-0123456789abcdef", looks_secret=True)
    see(host, "plain", "a\n b")
    told = {row.memory_id: (row.state, row.excerpt, row.unseen) for row in listed(tenant)}
    assert told == {
        "unread": ("announced", None, "content not known: the host’s memory is not read"),
        "gone": ("gone", "was here", ""),
        "never": ("gone", None, "no longer readable"),
        "blank": ("stored", None, "blank"),
        "key": ("stored", None, "not shown in lists: no text, or one that looks like a key"),
        "plain": ("stored", "a b", ""),
    }
    with tenant_scope(tenant.pk):
        Host.objects.filter(tenant_id=tenant.pk).update(memory_route="openwop-app")
        options = queries.state_options(tenant.pk, 6, now=NOON)
    assert {row.unseen for row in listed(tenant, state="announced")} == {"not read yet"}
    assert [(one.value, one.count) for one in options] == [
        ("announced", 1),
        ("stored", 3),
        ("expired", 0),
        ("gone", 2),
    ]


@pytest.mark.parametrize(
    "q, found",
    [("renewal", ["m1"]), ("RENEWAL", ["m1"]), ("目标", ["m2"]), ("100%", ["m2"]), ("sk-live", []), ("x" * 9, [])],
)
@pytest.mark.parametrize("near", [5_000, 1])
def test_the_beginning_of_a_content_is_searched(
    tenant: Tenant, host: Host, q: str, found: list[str], near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.queries.entries.NEAR", near)
    see(host, "m1", "Renewal  next\nweek", created_at=NOON)
    see(host, "m2", "目标 100%", created_at=NOON + MILLISECOND)
    see(host, "m3", "sk-live-0123456789abcdef", looks_secret=True, created_at=NOON + 2 * MILLISECOND)
    see(host, "m4", " " * 2000 + "x" * 9, created_at=NOON + 3 * MILLISECOND)
    assert [row.memory_id for row in listed(tenant, q=q)] == found


# --- The page of an entry ---


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def entry_url(memory_id: str = "m1", *, ref: str = "notes", host: str = "alpha", tenant: str = "acme") -> str:
    return reverse("ledger:entry", kwargs={"tenant": tenant, "host": host, "memory_ref": ref, "memory_id": memory_id})


def panel(client: Client, url: str) -> str:
    """The content panel's words, without its markup."""
    answer = client.get(url, headers={"HX-Request": "true", "HX-Target": "content"})
    assert answer.status_code == 200
    text = answer.content.decode()
    assert re.match(r'\s*<section class="panel" id="content"', text) and "<html" not in text
    return re.sub(r" (?=[.,])", "", " ".join(re.sub(r"<[^>]+>", " ", text).split()))


def test_an_entry_that_was_never_read_says_so(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, write(0))
    read_all(tenant)
    assert "The content is not known. Events never carry it, and this host’s memory is not read." in panel(
        browser, entry_url()
    )
    with tenant_scope(tenant.pk):
        Host.objects.filter(tenant_id=tenant.pk).update(memory_route="openwop-app")
    assert "The content has not been read yet." in panel(browser, entry_url())


def test_the_page_shows_the_content_and_how_it_was_seen(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, write(0, node="sum"))
    read_all(tenant)
    see(host, content="first\nsecond", source=Source.PUSH)
    see(host, content="first\nsecond\nthird [REDACTED:crm]", redactions=1, at=NOON + timedelta(hours=1))
    text = panel(browser, entry_url())
    assert "33 characters" in text and "1 redacted" in text and "third [REDACTED:crm]" in text
    assert "What was seen 2 shown of 2, newest first" in text
    assert "text: 1 line added, 0 removed" in text
    assert "read from the host" in text and "handed in over REST" in text
    whole = browser.get(entry_url()).content.decode()
    assert re.search(r'<span class="pill wait"[^>]*><bdi>\[REDACTED:crm\]</bdi></span>', whole)
    assert "stored" in whole and "seen so since" in whole


def test_what_is_gone_was_seen_then(browser: Client, tenant: Tenant, host: Host) -> None:
    see(host, content="was here")
    miss(host, at=NOON + timedelta(hours=1))
    text = panel(browser, entry_url())
    assert "No longer readable: the host answered 2026-03-02 13:00:00.000 UTC that it has no such entry." in text
    assert "Whether it was deleted, evicted or lost in a restart is not known. What follows was seen then." in text
    assert "was here" in text and "deleted by" not in text


def test_what_has_expired_is_hidden_and_its_writes_stay(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, write(0, node="sum"))
    read_all(tenant)
    see(host, content="private", tags=("secret-tag",), expires_at=NOON + timedelta(hours=1))
    for url in (entry_url(), "/t/acme/ledger", "/t/acme/ledger?q=private", "/t/acme/"):
        text = browser.get(url).content.decode()
        assert "private" not in text.replace('value="private"', "").replace("q=private", ""), url
        assert "secret-tag" not in text, url
    assert "Its time is past since 2026-03-02 13:00:00.000 UTC. The content is hidden" in panel(browser, entry_url())
    assert "1 write shown of 1" in browser.get(entry_url()).content.decode()


def test_a_failed_attempt_is_told_on_the_panel_and_nowhere_else(browser: Client, tenant: Tenant, host: Host) -> None:
    see(host, content="known")
    with tenant_scope(tenant.pk):
        entry = ContentState.objects.get(tenant_id=tenant.pk).entry_id
    due = Due(entry, "notes", "m1", 0)
    for _ in range(3):
        error = "The host answered 500 boom: <img src=x onerror=alert(1)>."
        failed(tenant_id=tenant.pk, due=due, error=error, at=NOON, retry_at=NOON + timedelta(minutes=1))
    answer = browser.get(entry_url())
    text = answer.content.decode()
    assert answer.status_code == 200 and "known" in text and "stored" in text
    assert "<img" not in text
    assert "The last attempt to read this entry failed" in text and "This says nothing about the entry." in text
    assert observed(tenant) == [("m1", 1, "content", "known")]
    assert "boom" not in browser.get("/t/acme/ledger").content.decode()
    see(host, content="known", at=NOON + timedelta(minutes=1))
    assert "boom" not in browser.get(entry_url()).content.decode()


def test_tags_only_hint_and_are_kept_apart_from_what_events_say(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(0, "other", run="run-2", node="edit"))
    read_all(tenant)
    see(host, tags=("run-id:run-2", "run-id:unknown", "node:guess", "workflow:brief", "run-summary", "plain"))
    text = panel(browser, entry_url())
    assert "inferred from tags" in text and "this is a hint and no attribution" in text
    assert "run run-2" in text and "run unknown" in text and "node guess" in text and "a run’s summary" in text
    page = browser.get(entry_url())
    whole = page.content.decode()
    assert f'href="{reverse("runs:run", kwargs={"tenant": "acme", "host": "alpha", "run": "run-2"})}"' in whole
    assert 'unknown: no run of exactly this id is known"' in whole
    assert [row.node for row in page.context["page"].writes] == [None]
    assert "guess" not in whole[whole.index('id="rows"') :]
    (row,) = listed(tenant, ref="notes", q="m1")
    assert (row.node, row.writers) == (None, 0)
    see(host, "bare", tags=("plain",))
    assert "inferred" not in panel(browser, entry_url("bare"))


def test_more_observations_than_a_page_shows_are_reached_by_a_link(browser: Client, tenant: Tenant, host: Host) -> None:
    for number in range(45):
        see(host, content=f"line {number}", at=NOON + timedelta(minutes=number))
    seen: list[int] = []
    url = entry_url()
    for _ in range(3):
        answer = browser.get(url)
        told = answer.context["page"].content
        seen += [row.number for row in told.rows]
        assert told.total == 45 and told.shown.content == "line 44"
        assert all(row.until == row.observed_at for row in told.rows)
        assert [row.changed for row in told.rows if row.number > 1][0] == ("text: 1 line added, 1 removed",)
        url = f"{entry_url()}?seen_before={told.older}"
    assert seen == list(range(45, 0, -1)) and told.older is None
    assert browser.get(f"{entry_url()}?seen_before=0").status_code == 200
    assert browser.get(f"{entry_url()}?seen_before=999999999999999999").status_code == 200


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "[REDACTED:<svg onload=alert(1)>]",
    '" onmouseover="alert(1)',
    "{{ page }}{% url 'home' %}",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_content_is_inert_everywhere(browser: Client, tenant: Tenant, host: Host, hostile: str) -> None:
    see(host, content=hostile, tags=(hostile, f"run-id:{hostile}", f"node:{hostile}"), detail=hostile)
    see(host, content=f"{hostile}\nmore", tags=(hostile,), at=NOON + MILLISECOND)
    for url in (entry_url(), "/t/acme/ledger", "/t/acme/"):
        text = browser.get(url).content.decode()
        assert hostile not in text
        assert not re.search(r"<(img|script|svg)[^>]*(onerror|onload|alert)", text)
        assert not re.search(r'<[^<>]*\son\w+="alert', text)


def test_text_of_any_direction_is_isolated_and_what_hides_is_shown(browser: Client, tenant: Tenant, host: Host) -> None:
    see(host, content="目标 \u202eevil\u202c \0 مرحبا", created_at=NOON)
    for url in (entry_url(), "/t/acme/ledger"):
        text = browser.get(url).content.decode()
        assert "\u202e" not in text and "\\u202E" in text and "\\u0000" in text
        assert re.search(r"<bdi[^>]*>目标", text)


def test_a_long_content_is_cut_on_its_page_and_whole_in_the_api(browser: Client, tenant: Tenant, host: Host) -> None:
    see(host, content="x" * 250_000)
    told = browser.get(entry_url()).context["page"].content
    assert told.shown.is_cut and len(told.shown.content) == 100_000
    assert "This is the beginning. All of it is in the REST API." in panel(browser, entry_url())
    api = Client(headers=bearer(make_key(tenant)))
    assert len(api.get("/v1/ledger/entries/alpha/notes/m1").json()["content"]) == 250_000


# --- PUT /v1/hosts/{host}/memory ---


@pytest.fixture
def api(tenant: Tenant, host: Host) -> Client:
    return Client(headers=bearer(make_key(tenant)))


def put(api: Client, body: Any, *, host: str = "alpha", **told: Any) -> Any:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return api.put(f"/v1/hosts/{host}/memory", text, content_type=told.pop("content_type", "application/json"), **told)


def an_entry(memory_id: str = "m1", content: Any = "text", **members: Any) -> dict[str, Any]:
    return {"id": memory_id, "content": content, "tags": ["a"], "createdAt": "2026-03-01T12:00:00Z"} | members


def batch(*entries: Any, ref: str = "notes") -> dict[str, Any]:
    return {"memoryRef": ref, "entries": list(entries)}


def test_entries_are_put_and_the_same_again_is_repeated(api: Client, tenant: Tenant) -> None:
    answer = put(api, batch(an_entry(), an_entry("m2")))
    assert answer.status_code == 200, answer.content
    assert answer.json() == {"accepted": 2, "repeated": 0, "refused": [], "refusedTotal": 0}
    assert put(api, batch(an_entry(), an_entry("m2", "changed"))).json()["accepted"] == 1
    assert observed(tenant) == [
        ("m1", 1, "content", "text"),
        ("m2", 1, "content", "text"),
        ("m2", 2, "content", "changed"),
    ]
    with tenant_scope(tenant.pk):
        assert {one.source for one in Observation.objects.filter(tenant_id=tenant.pk)} == {"push"}


def test_a_bad_entry_is_refused_by_itself(api: Client, tenant: Tenant) -> None:
    bad = an_entry("m2", {"secret": "canary"})
    answer = put(api, batch(an_entry(), bad, an_entry("m3")))
    assert answer.status_code == 200
    refused = [{"index": 1, "reason": "content is no text", "field": "content"}]
    assert answer.json() == {"accepted": 2, "repeated": 0, "refused": refused, "refusedTotal": 1}
    assert [one[0] for one in observed(tenant)] == ["m1", "m3"]
    assert "canary" not in answer.content.decode()


def test_nothing_but_bad_entries_is_an_error(api: Client, tenant: Tenant) -> None:
    answer = put(api, batch({"id": ""}))
    assert answer.status_code == 422
    assert answer.json()["error"] == "all_refused"
    assert answer.json()["refused"] == [{"index": 0, "reason": "an entry without an id", "field": "id"}]
    assert put(api, batch()).json() == {"accepted": 0, "repeated": 0, "refused": [], "refusedTotal": 0}


@pytest.mark.parametrize(
    "body, field",
    [(b"{", "body"), (b"[]", "body"), ({"entries": []}, "memoryRef"), ({"memoryRef": "notes"}, "entries")],
)
def test_what_is_no_batch_is_named(api: Client, body: Any, field: str) -> None:
    answer = put(api, body)
    assert answer.status_code == 422
    assert answer.json()["details"]["fields"][0]["field"] == field


def test_who_may_put(api: Client, tenant: Tenant, host: Host) -> None:
    foreign = Client(headers=bearer(make_key(make_tenant("globex"))))
    assert put(foreign, batch(an_entry())).json() == put(api, batch(an_entry()), host="nobody").json()
    assert put(foreign, batch(an_entry())).status_code == 404
    reader = Client(headers=bearer(make_key(tenant, "read")))
    assert put(reader, batch(an_entry())).status_code == 403
    assert put(Client(), batch(an_entry())).status_code == 401
    assert observed(tenant) == []


def test_a_body_of_another_kind_or_too_large_is_refused(
    api: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert put(api, batch(an_entry()), content_type="text/plain").status_code == 415
    assert put(api, batch(an_entry()), headers={"Content-Encoding": "gzip"}).status_code == 415
    monkeypatch.setattr("ledger.api.MAX_MEMORY_BYTES", 1000)
    answer = put(api, batch(an_entry(content="x" * 1000)))
    assert (answer.status_code, answer.json()["details"]["limit"]) == (413, "MAX_MEMORY_BYTES")
    assert put(api, batch(an_entry())).status_code == 200
    assert [one[0] for one in observed(tenant)] == ["m1"]


def test_content_that_was_put_comes_out_again_until_its_time_is_past(api: Client, tenant: Tenant, host: Host) -> None:
    odd = "目标 \0 \ud800 <b>"
    soon = (timezone.now() + timedelta(hours=1)).isoformat()
    past = (timezone.now() - timedelta(hours=1)).isoformat()
    put(api, batch(an_entry(content=odd, expiresAt=soon), an_entry("m2", "private", expiresAt=past)))
    told = json.loads(api.get("/v1/ledger/entries/alpha/notes/m1").content)
    assert (told["state"], told["content"], told["createdAt"]) == ("stored", odd, "2026-03-01T12:00:00Z")
    assert told["observationsTotal"] == 1
    assert [(one["source"], one["content"], one["redactions"]) for one in told["observations"]] == [("push", odd, 0)]
    answer = api.get("/v1/ledger/entries/alpha/notes/m2")
    assert "private" not in answer.content.decode()
    assert (answer.json()["state"], answer.json()["content"]) == ("expired", None)
    items = {one["memoryId"]: one for one in json.loads(api.get("/v1/ledger/entries").content)["items"]}
    assert (items["m1"]["state"], items["m1"]["excerpt"]) == ("stored", "目标 \0 \ud800 <b>")
    assert (items["m2"]["state"], items["m2"]["excerpt"]) == ("expired", None)


def test_every_recorded_entry_of_the_public_app_is_taken_as_it_is(api: Client, tenant: Tenant) -> None:
    schema = jsonschema_rs.validator_for(json.loads((SCHEMAS / "memory-entry.json").read_text()))
    contents: dict[str, str] = {}
    for file in sorted(RECORDED.glob("**/*memory*.json")):
        told = json.loads(file.read_text())
        entries = told.get("entries", [told["entry"]] if "entry" in told else [])
        for one in entries:
            schema.validate(one)
            contents[one["id"]] = one["content"]
        answer = put(api, batch(*entries, ref="tenant-memory"))
        assert answer.status_code == 200 and answer.json()["refusedTotal"] == 0, file
    assert len(contents) >= 20 and any("\0" in text for text in contents.values())
    for memory_id, text in contents.items():
        told = json.loads(api.get(f"/v1/ledger/entries/alpha/tenant-memory/{memory_id}").content)
        for key in ("sk-test-AAAABBBBCCCCDDDDEEEEFFFF0000111122223333", "password=hunter2"):
            text = text.replace(key, f"[quarantined sha256:{sha256(key.encode()).hexdigest()} bytes:{len(key)}]")
        assert told["content"] == text


def test_recorded_answers_mean_what_they_say() -> None:
    gone = read_one(404, (RECORDED / "memory-deleted" / "memory-deleted-entry.json").read_bytes())
    assert gone == read_one(404, b'{"error": "not_found"}') or "no_longer_readable" in str(gone)
    empty = read_list(200, (RECORDED / "crash-mid-run" / "old-run-memory.json").read_bytes())
    assert getattr(empty, "entries", None) == ()


# --- Files ---


def import_memory(*arguments: str) -> tuple[int, str]:
    """Exit code and what is printed."""
    told = StringIO()
    try:
        call_command("import_memory", *arguments, "--tenant", "acme", "--host", "alpha", stdout=told)
    except SystemExit as exc:
        return int(exc.code or 0), told.getvalue()
    return 0, told.getvalue()


def test_a_file_of_entries_is_imported_as_of_its_time(tenant: Tenant, host: Host, tmp_path: Path) -> None:
    file = str(RECORDED / "memory-trail" / "memory.json")
    assert import_memory(file, "--at", "2026-03-02T12:00:00Z") == (0, f"{file}: 4 accepted, 0 repeated, 0 refused\n")
    assert import_memory(file, "--at", "2026-03-02T13:00:00Z")[1].endswith("0 accepted, 4 repeated, 0 refused\n")
    assert import_memory(file, "--at", "2026-03-02T11:00:00Z")[1].endswith("refused, 4 older than what is known\n")
    with tenant_scope(tenant.pk):
        found = Observation.objects.filter(tenant_id=tenant.pk)
        assert {(one.memory_ref, one.source, one.observed_at) for one in found} == {("tenant-memory", "import", NOON)}
    array = tmp_path / "array.json"
    array.write_text(json.dumps([an_entry("a"), {"id": ""}]))
    code, words = import_memory(str(array), "--ref", "notes")
    assert (code, words) == (2, f"{array}: 1 accepted, 0 repeated, 1 refused\n  entry 1: an entry without an id\n")
    for wrong in ([str(array)], [str(tmp_path / "missing")], [file, "--at", "yesterday"], [file, "--host", "nobody"]):
        with pytest.raises(CommandError):
            import_memory(*wrong) if "--host" not in wrong else call_command(
                "import_memory", *wrong, "--tenant", "acme"
            )


# --- How a host's memory is read ---


def way_url(host: str = "alpha", tenant: str = "acme") -> str:
    return reverse("ledger:host_memory", kwargs={"tenant": tenant, "host": host})


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "ada", Role.ADMIN))
    return client


def way_of(tenant: Tenant) -> str:
    with tenant_scope(tenant.pk):
        return Host.objects.get(tenant_id=tenant.pk, slug="alpha").memory_route


def test_an_admin_chooses_how_a_host_is_read(admin: Client, tenant: Tenant, host: Host) -> None:
    assert "Not read: no way to it is set." in admin.get(way_url()).content.decode()
    answer = admin.post(way_url(), {"way": "openwop-app-2"}, follow=True)
    assert answer.redirect_chain == [(way_url(), 302)]
    assert way_of(tenant) == "openwop-app-2"
    assert 'value="openwop-app-2" selected' in answer.content.decode()
    told = {"way": "custom", "list": " /m ", "entry": "/m/{memoryId}", "major": "2", "ref": "team:<b>"}
    text = admin.post(way_url(), told, follow=True).content.decode()
    assert json.loads(way_of(tenant)) == {"list": "/m", "entry": "/m/{memoryId}", "major": 2, "ref": "team:<b>"}
    assert 'value="/m/{memoryId}"' in text and 'value="team:&lt;b&gt;"' in text
    admin.post(way_url(), {"way": ""})
    assert way_of(tenant) == ""


@pytest.mark.parametrize(
    "told, words",
    [
        ({"way": "custom", "list": "https://evil.example/m", "entry": "/m/{memoryId}"}, "below the host"),
        ({"way": "custom", "list": "/m", "entry": "/m"}, "has {memoryId} in it, once"),
        ({"way": "custom"}, "below the host"),
        ({"way": "openwop-host-sqlite"}, "Choose one of the ways listed."),
        ({"way": "<script>"}, "Choose one of the ways listed."),
    ],
)
def test_a_way_that_can_not_be_is_told_and_not_kept(
    admin: Client, tenant: Tenant, host: Host, told: dict[str, str], words: str
) -> None:
    answer = admin.post(way_url(), told)
    assert answer.status_code == 422
    assert words in answer.content.decode() and "<script>" not in answer.content.decode()
    assert way_of(tenant) == ""


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_others_see_how_it_is_read_and_can_not_change_it(tenant: Tenant, host: Host, role: Role) -> None:
    client = Client()
    client.force_login(make_member(tenant, "vera", role))
    text = client.get(way_url()).content.decode()
    assert "An admin of the tenant can change it." in text and "<form" not in text[text.index("<main") :]
    assert client.post(way_url(), {"way": "openwop-app"}).status_code == 403
    outsider = Client()
    outsider.force_login(make_member(make_tenant("globex"), "mallory", Role.ADMIN))
    for url in (way_url(), way_url(tenant="globex"), way_url("nobody", "globex")):
        assert outsider.get(url).status_code == 404
        assert outsider.post(url, {"way": "openwop-app"}).status_code == 404
    assert way_of(tenant) == ""


def test_the_page_says_how_far_reading_is_and_what_failed(admin: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, *(write(place, f"m{place}") for place in range(4)))
    read_all(tenant)
    see(host, "m0")
    see(host, "m1")
    miss(host, "m1", at=NOON + MILLISECOND)
    see(host, "m2")
    with tenant_scope(tenant.pk):
        entry = MemoryEntry.objects.get(tenant_id=tenant.pk, memory_id="m2").id
        Host.objects.filter(tenant_id=tenant.pk).update(memory_route="openwop-app", origin="https://host.example")
    due = Due(entry, "notes", "m2", 0)
    failed(tenant_id=tenant.pk, due=due, error="No <b>answer</b>.", at=NOON, retry_at=NOON + timedelta(minutes=1))
    answer = admin.get(way_url())
    told = answer.context["page"].reading
    assert (told.entries, told.seen, told.gone, told.failing) == (4, 3, 1, 1)
    assert (told.seen_at, told.error, told.error_at) == (NOON + MILLISECOND, "No <b>answer</b>.", NOON)
    assert "<b>answer" not in answer.content.decode()
    piece = admin.get(way_url(), headers={"HX-Request": "true", "HX-Target": "reading"}).content.decode()
    assert piece.strip().startswith('<section class="panel" id="reading"') and "could not be read" in piece
    host_page = admin.get(reverse("runs:host", kwargs={"tenant": "acme", "host": "alpha"})).content.decode()
    assert f'href="{way_url()}"' in host_page


def test_a_host_that_names_itself_is_met_with_the_way_of_its_kind(admin: Client, tenant: Tenant, host: Host) -> None:
    document = {
        "protocolVersion": "1.1",
        "implementation": {"name": "openwop-workflow-engine", "version": "0.1.0", "vendor": "x"},
    }
    with tenant_scope(tenant.pk):
        keep_document(tenant_id=tenant.pk, host_id=host.pk, document=json.dumps(document))
    page = admin.get(way_url()).context["page"]
    assert (page.suggested, page.form.way) == ("openwop-app", "")


# --- Who sees it ---


def test_another_tenant_sees_nothing_of_it(tenant: Tenant, host: Host) -> None:
    see(host, content="of acme")
    other = make_tenant("globex")
    make_host(other)
    outsider = Client()
    outsider.force_login(make_member(other, "mallory", Role.ADMIN))
    assert outsider.get(entry_url()).status_code == 404
    assert outsider.get(entry_url(tenant="globex")).status_code == 404
    assert "of acme" not in outsider.get("/t/globex/ledger?q=acme").content.decode().replace('value="acme"', "")
    foreign = Client(headers=bearer(make_key(other)))
    assert foreign.get("/v1/ledger/entries/alpha/notes/m1").status_code == 404
    assert foreign.get("/v1/ledger/entries").json()["items"] == []


@pytest.mark.parametrize("table", ["ledger_observation", "ledger_contentstate"])
def test_row_security_keeps_tenants_apart(tenant: Tenant, host: Host, table: str) -> None:
    see(host)
    other = make_tenant("globex")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        assert cursor.fetchone() == (0,)
        with tenant_scope(other.pk):
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone() == (0,)
        with tenant_scope(tenant.pk):
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone() == (1,)
            with pytest.raises((ProgrammingError, IntegrityError)), transaction.atomic():
                cursor.execute(f"UPDATE {table} SET tenant_id = %s", [other.pk])


def test_an_observation_of_another_tenants_entry_can_not_be_stored(tenant: Tenant, host: Host) -> None:
    see(host)
    other = make_tenant("globex")
    elsewhere = make_host(other)
    see(elsewhere, "theirs")
    with tenant_scope(other.pk):
        theirs = MemoryEntry.objects.get(tenant_id=other.pk).id
    with tenant_scope(tenant.pk):
        one = Observation.objects.get(tenant_id=tenant.pk)
        for name, value in (("entry_id", theirs), ("host_id", elsewhere.pk)):
            row = Observation.objects.get(tenant_id=tenant.pk)
            row.number = 2
            setattr(row, name, value)
            with pytest.raises(IntegrityError) as refusal, transaction.atomic():
                row.save(force_insert=True)
                connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE")
            assert isinstance(refusal.value.__cause__, errors.ForeignKeyViolation)
            assert "text" not in str(refusal.value)
        assert one.content == "text"


def test_a_listing_of_many_seen_entries_costs_as_many_queries_as_one_of_few(
    browser: Client, tenant: Tenant, host: Host, django_assert_max_num_queries: Any
) -> None:
    looks = [Look("notes", storable(f"m{number}"), Sight("content", "text")) for number in range(60)]
    observe(tenant_id=tenant.pk, host_id=host.pk, looks=looks, source=Source.READ, at=NOON)
    with django_assert_max_num_queries(20):
        assert len(browser.get("/t/acme/ledger").context["page"].rows) == 50
    for number in range(30):
        see(host, content=f"line {number}", at=NOON + timedelta(minutes=number))
    with django_assert_max_num_queries(36):
        browser.get(entry_url())


def test_a_whole_log_is_asked_for_where_its_hosts_memory_is_read(tenant: Tenant) -> None:
    silent = make_host(tenant, "silent")
    served = make_host(tenant, "served", memory_route="openwop-app")
    for one in (silent, served):
        take(one, make_log(nodes=3))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        asked = ContentState.objects.filter(tenant_id=tenant.pk)
        assert {one.host_id for one in asked} == {served.pk}
        assert [(one.outcome, one.number, one.urgency) for one in asked] == [(None, 0, 0)] * 3
