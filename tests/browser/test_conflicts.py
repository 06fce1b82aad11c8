"""Conflicts in a real browser: fifty settled by keyboard alone, and two people at one of them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.whole.running_site import RunningSite

from .conftest import Visitor

COUNT = 50


class Api:
    """The REST API of the running site, with a key that may do everything."""

    def __init__(self, site: RunningSite, key: str) -> None:
        self.site = site
        self.key = key

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
            connection.request(method, f"/v1/{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def writer(self, key: str) -> None:
        status, said = self.ask("POST", "tenant/service-writers", {"service_key": key, "display_name": key})
        assert status in (201, 409), said

    def say(self, service: str, subject: str, value: Any, *, key: str = "plan", hour: int = 0) -> None:
        body = {
            "external_user_id": subject,
            "source": {
                "service": service,
                "event_id": f"{service}-{subject}-{key}-{value}",
                "observed_at": f"2026-03-01T{hour:02d}:00:00Z",
            },
            "claims": [{"key": key, "value": value}],
        }
        status, said = self.ask("POST", "memories/add", body)
        assert status == 202, said

    def disagree(self, subject: str) -> None:
        self.say("left-desk", subject, "Growth")
        self.say("right-desk", subject, "Starter", hour=1)

    def conflicts(self, state: str, subject: str = "") -> list[Any]:
        about = f"&external_user_id={quote(subject)}" if subject else ""
        status, said = self.ask("GET", f"conflicts?state={state}&limit=1000{about}")
        assert status == 200, said
        return list(said["items"])


@pytest.fixture
def api(site: RunningSite) -> Iterator[Api]:
    scopes = "ingest,read,write,review,admin"
    key = site.manage("create_api_key", "--tenant", "demo", "--name", "desk", "--scopes", scopes)
    made = Api(site, key)
    for writer in ("left-desk", "right-desk"):
        made.writer(writer)
    yield made


def as_reviewer(visit: Callable[..., Visitor], name: str = "reviewer", **window: Any) -> Visitor:
    visitor = visit(**window)
    visitor.log_in(name)
    return visitor


def test_fifty_conflicts_are_settled_by_keyboard_alone(visit: Callable[..., Visitor], api: Api) -> None:
    subjects = [f"keys-{number:02d}" for number in range(COUNT)]
    for subject in subjects:
        api.disagree(subject)
    visitor = as_reviewer(visit)
    page = visitor.open("/t/demo/conflicts?q=keys-")
    expect(page.locator("#rows tr[data-row]")).to_have_count(COUNT)

    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/conflicts/*-*")
    # The newest is first. Every kind of outcome takes its turn.
    expected: dict[str, list[str]] = {}
    for number, subject in enumerate(reversed(subjects)):
        expect(page.locator("h1")).to_contain_text(subject)
        page.wait_for_load_state()  # keys work once the scripts have run
        here = page.url
        expected[subject] = settle(page, number)
        page.wait_for_function("url => location.href !== url", arg=here)
    page.wait_for_url("**/t/demo/conflicts?q=keys-")
    expect(page.locator("#rows .empty")).to_contain_text("No conflict matches")

    assert [one for one in api.conflicts("open") if one["external_user_id"].startswith("keys-")] == []
    decided = [one for one in api.conflicts("decided") if one["external_user_id"].startswith("keys-")]
    assert len(decided) == COUNT and all(one["decision_id"] for one in decided)
    for subject in subjects:
        status, said = api.ask("POST", "memories/retrieve", {"external_user_id": subject})
        assert status == 200 and sorted(one["value"] for one in said["memories"]) == sorted(expected[subject])


def settle(page: Page, number: int) -> list[str]:
    """One outcome by its keys; returns the values that are active then."""
    outcome = number % 5
    if outcome in (0, 1):
        page.keyboard.press(str(outcome + 1))
        expect(page.locator("#effects")).to_contain_text("active")
        page.keyboard.press("Enter")
        return [["Growth"], ["Starter"]][outcome]
    if outcome == 2:
        page.keyboard.press("n")
        page.keyboard.press("r")
        page.keyboard.type("neither is right")
        page.keyboard.press("Enter")
        return []
    if outcome == 3:
        page.keyboard.press("e")
        page.keyboard.type("Scale")
        page.keyboard.press("Tab")
        page.keyboard.type("the contract")
        page.keyboard.press("Enter")
        return ["Scale"]
    page.keyboard.press("b")
    page.keyboard.type("work")
    for _ in range(20):  # the fields of a moment are several stops each
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.name") == "scope-2":
            break
    page.keyboard.type("home")
    page.keyboard.press("Enter")
    return ["Growth", "Starter"]


def test_a_decision_can_be_taken_back_by_key(visit: Callable[..., Visitor], api: Api) -> None:
    api.disagree("undone")
    (conflict,) = api.conflicts("open", "undone")
    visitor = as_reviewer(visit)
    page = visitor.open(f"/t/demo/conflicts/{conflict['id']}?q=undone")

    page.keyboard.press("2")
    page.keyboard.press("Enter")
    page.wait_for_url("**/conflicts?q=undone")
    assert api.conflicts("open", "undone") == []
    visitor.open(f"/t/demo/conflicts/{conflict['id']}")
    page.keyboard.press("u")
    expect(page.locator(".messages")).to_contain_text("taken back")

    (again,) = api.conflicts("open", "undone")
    assert again["id"] == conflict["id"] and again["revision"] > conflict["revision"]


def test_two_people_at_one_conflict(visit: Callable[..., Visitor], api: Api) -> None:
    """The second decision is refused, tells what happened, and keeps what was written."""
    api.disagree("shared")
    (conflict,) = api.conflicts("open", "shared")
    first, second = as_reviewer(visit, "reviewer"), as_reviewer(visit, "dev")
    for visitor in (first, second):
        visitor.open(f"/t/demo/conflicts/{conflict['id']}")
        visitor.wait_until_live()
    second.page.keyboard.press("r")
    second.page.keyboard.type("my careful reason")
    second.page.locator("h1").click()
    second.page.keyboard.press("2")

    first.page.keyboard.press("1")
    first.page.keyboard.press("Enter")
    expect(first.page.locator(".messages")).to_contain_text("Growth was chosen")

    expect(second.page.locator("#moved")).to_be_visible()
    expect(second.page.locator("#facts .pill").first).to_contain_text("decided")
    second.page.keyboard.press("Enter")
    expect(second.page.locator(".note.wait").filter(has_text="Nothing was stored")).to_be_visible()
    expect(second.page.locator(".missed")).to_contain_text("person:reviewer")
    second.complaints = [one for one in second.complaints if "409" not in one]
    (settled,) = api.conflicts("decided", "shared")
    status, detail = api.ask("GET", f"conflicts/{settled['id']}")
    assert status == 200 and len(detail["decisions"]) == 1


def test_what_another_settles_leaves_the_queue_with_a_word(visit: Callable[..., Visitor], api: Api) -> None:
    api.disagree("leaves")
    (conflict,) = api.conflicts("open", "leaves")
    visitor = as_reviewer(visit)
    page = visitor.open("/t/demo/conflicts?q=leaves")
    visitor.wait_until_live()
    expect(page.locator("#rows tr[data-row]")).to_have_count(1)

    claim = conflict_claim(api, conflict["id"], "Starter")
    body = {"revision": conflict["revision"], "outcome": "choose", "claim_id": claim}
    status, said = api.ask("POST", f"conflicts/{conflict['id']}/decision", body)
    assert status == 200, said

    expect(page.locator("#rows tr[data-row]")).to_have_count(0)
    expect(page.locator("#toast")).to_contain_text("leaves · plan left the queue")


def test_the_bar_says_how_many_wait_and_keys_lead_there(visit: Callable[..., Visitor], api: Api) -> None:
    api.disagree("bar")
    waiting = len(api.conflicts("open"))
    visitor = as_reviewer(visit)
    page = visitor.open("/t/demo/runs")
    expect(page.locator("#open-conflicts")).to_have_text(f"{waiting} open")

    page.keyboard.press("g")
    page.keyboard.press("x")
    page.wait_for_url("**/t/demo/conflicts")
    visitor.wait_until_live()
    expect(page.locator("#open-conflicts")).to_have_text(f"{waiting} open")

    (conflict,) = api.conflicts("open", "bar")
    body = {"revision": conflict["revision"], "outcome": "neither"}
    status, said = api.ask("POST", f"conflicts/{conflict['id']}/decision", body)
    assert status == 200, said
    expect(page.locator("#open-conflicts")).to_have_text(f"{waiting - 1} open")

    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/t/demo/claims")


def test_an_outcome_that_lacks_something_says_so_calmly(visit: Callable[..., Visitor], api: Api) -> None:
    api.disagree("lacks")
    (conflict,) = api.conflicts("open", "lacks")
    page = as_reviewer(visit).open(f"/t/demo/conflicts/{conflict['id']}")
    page.keyboard.press("e")
    expect(page.locator("#effects")).to_contain_text("Give the right value.")
    assert page.locator("#effects .failed").count() == 0


def conflict_claim(api: Api, conflict: str, value: str) -> str:
    status, detail = api.ask("GET", f"conflicts/{conflict}")
    assert status == 200
    return next(str(one["memory"]["id"]) for one in detail["claims"] if one["memory"]["value"] == value)


HOSTILE = '<img src=x onerror="document.title=1">\u202e"\'&'


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_are_accessible_and_hostile_texts_inert(
    visit: Callable[..., Visitor], api: Api, width: int, scheme: str
) -> None:
    subject = f"{HOSTILE} {width}"
    api.say("left-desk", subject, HOSTILE, key="tag name")
    api.say("right-desk", subject, "another", key="tag name", hour=1)
    (conflict,) = api.conflicts("open", subject)
    claim = conflict_claim(api, conflict["id"], "another")
    visitor = as_reviewer(visit, width=width, scheme=scheme)
    for path in (
        "/t/demo/conflicts",
        "/t/demo/claims?status=all",
        "/t/demo/claims/subjects",
        f"/t/demo/conflicts/{conflict['id']}",
        f"/t/demo/claims/{claim}",
    ):
        page = visitor.open(path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("() => document.title") != "1"
        assert page.locator("img").count() == 0
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width, path
        assert visitor.violations() == [], path
    page = visitor.open(f"/t/demo/conflicts/{conflict['id']}")
    page.locator(".decide label", has_text="Correct").click()
    expect(page.locator("#value")).to_be_visible()


def test_an_outsider_finds_no_conflict(visit: Callable[..., Visitor], api: Api) -> None:
    api.disagree("watched")
    (conflict,) = api.conflicts("open", "watched")
    visitor = visit()
    visitor.log_in("outsider")
    page = visitor.open(f"/t/demo/conflicts/{conflict['id']}")
    expect(page.locator("body")).not_to_contain_text("watched")
    visitor.complaints = [one for one in visitor.complaints if "404" not in one]
