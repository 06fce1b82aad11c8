"""The ledger's pages: who may see them, what they show of hostile text, and what they cost."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from openwop_ui.tenancy.models import Tenant
from runs.models import Host
from tests.factories import make_event, make_host, make_member, make_tenant, make_user
from tests.ledger.test_store import LATER, arrive, at, compaction, read_all, write


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def entry_url(memory_id: str, *, tenant: str = "acme", host: str = "alpha", ref: str = "notes") -> str:
    return reverse("ledger:entry", kwargs={"tenant": tenant, "host": host, "memory_ref": ref, "memory_id": memory_id})


def shown(client: Client, url: str, **told: Any) -> Any:
    """The page object behind a page that was shown."""
    answer = client.get(url, **told)
    assert answer.status_code == 200, answer.content[:500]
    return answer.context["page"]


def fragment(client: Client, url: str, target: str) -> Any:
    return client.get(url, headers={"HX-Request": "true", "HX-Target": target})


# --- What is shown ---


def test_the_ledger_shows_entries_and_how_many(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, write(0, node="sum", agentId="writer", tags=["kind:note"]), write(1, "m2"), write(2))
    read_all(tenant)
    answer = browser.get("/t/acme/ledger")
    page = answer.context["page"]
    assert (page.section, page.topics, page.may_upload) == ("ledger", "ledger", False)
    assert [row.memory_id for row in page.rows] == ["m1", "m2"]
    assert (page.total, page.all_total, page.writes_total, page.attributed) == (2, 2, 3, 33)
    assert [(one.value, one.count) for one in page.hosts] == [("alpha", 2)]
    assert [(one.value, one.count) for one in page.refs] == [("notes", 2)]
    assert [(one.value, one.count) for one in page.states] == [
        ("announced", 2),
        ("stored", 0),
        ("expired", 0),
        ("gone", 0),
    ]
    text = answer.content.decode()
    assert "2 shown of 2" in text and "3 writes" in text and "33 %" in text


def test_the_first_use_says_how_entries_come(browser: Client) -> None:
    text = browser.get("/t/acme/ledger").content.decode()
    assert "Nothing has been remembered yet." in text and "0 shown of 0" in text


def test_a_filter_stays_in_the_page_and_the_way_out_of_it_too(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, write(0, node="sum"), write(1, "m2", node="edit"))
    read_all(tenant)
    url = "/t/acme/ledger?node=sum&q=%20m1%20&unknown=1&state=nonsense"
    page = shown(browser, url)
    assert [row.memory_id for row in page.rows] == ["m1"]
    assert (page.node, page.q, page.state, page.total, page.all_total) == ("sum", "m1", "", 1, 2)
    assert "No entry matches." in browser.get("/t/acme/ledger?q=nothing").content.decode()


def test_pages_of_the_ledger_lead_to_each_other(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, *(write(place, f"m{place}") for place in range(120)))
    read_all(tenant)
    seen, url = [], "/t/acme/ledger?ref=notes"
    for _ in range(3):
        page = shown(browser, url)
        assert page.total == 120
        seen += [row.memory_id for row in page.rows]
        url = f"/t/acme/ledger?ref=notes&before={page.older}"
    assert seen == [f"m{place}" for place in reversed(range(120))]
    assert page.older is None
    assert [row.memory_id for row in shown(browser, f"/t/acme/ledger?after={page.newer}").rows] == seen[50:100]


@pytest.mark.parametrize("way", ["before", "after"])
@pytest.mark.parametrize("cursor", ["x", "AAAA", "%00", "W10"])
def test_a_broken_cursor_is_a_bad_request(browser: Client, tenant: Tenant, host: Host, way: str, cursor: str) -> None:
    arrive(host, write(0))
    read_all(tenant)
    assert browser.get(f"/t/acme/ledger?{way}={cursor}").status_code == 400
    assert browser.get(f"{entry_url('m1')}?{way}={cursor}").status_code == 400
    assert browser.get(f"/t/acme/ledger?{way}=").status_code == 200


def test_an_entry_shows_all_its_writes_and_their_writers(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0, node="sum", at=at(1)),
        write(0, run="run-2", node="edit", agentId="writer", at=at(2)),
        write(1, run="run-2", at=at(3)),
    )
    read_all(tenant)
    answer = browser.get(entry_url("m1"))
    page = answer.context["page"]
    assert [(row.run_id, row.sequence, row.node, row.agent) for row in page.writes] == [
        ("run-2", 1, None, None),
        ("run-2", 0, "edit", "writer"),
        ("run-1", 0, "sum", None),
    ]
    assert (page.writes_total, page.entry.unattributed, page.section, page.topics) == (3, 1, "ledger", "ledger")
    text = answer.content.decode()
    assert "3 writes shown of 3" in text and "1 unattributed" in text and "unattributed</span></td>" in text
    for run, sequence in (("run-1", 0), ("run-2", 0), ("run-2", 1)):
        assert f'href="/t/acme/runs/alpha/{run}?seq={sequence}"' in text


def test_an_entry_shows_where_it_comes_from_and_what_is_only_a_hint(
    browser: Client, tenant: Tenant, host: Host
) -> None:
    arrive(
        host,
        write(0),
        compaction(1, sourceIds=["m1"], sourceCount=1, trigger="host-managed"),
        write(2, "more", tags=["compacted-from:all", "compacted-from:gone"]),
    )
    read_all(tenant)
    text = browser.get(entry_url("all")).content.decode()
    assert "came out of" in text and "went into" in text and "from a tag" in text
    assert f'href="{entry_url("m1")}"' in text and f'href="{entry_url("more")}"' in text
    text = browser.get(entry_url("more")).content.decode()
    assert "no event of ours names this entry" in text and f'href="{entry_url("gone")}"' not in text


def test_fragments_are_pieces_of_the_page(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, write(0))
    read_all(tenant)
    for url, target in (("/t/acme/ledger", "rows"), (entry_url("m1"), "rows"), (entry_url("m1"), "facts")):
        whole, piece = browser.get(url), fragment(browser, url, target)
        text = piece.content.decode().strip()
        assert piece.status_code == 200 and "<html" not in text
        assert re.match(rf'<(section|div)[^>]* id="{target}"', text)
        assert "m1" in text
        for answer in (whole, piece):
            assert answer["Cache-Control"] == "no-store"
            assert {"HX-Request", "HX-Target"} <= {name.strip() for name in answer["Vary"].split(",")}
    assert "<html" in fragment(browser, "/t/acme/ledger", "elsewhere").content.decode()


# --- Who sees it ---


def test_an_outsider_finds_nothing_at_all(tenant: Tenant, host: Host, browser: Client) -> None:
    arrive(host, write(0))
    read_all(tenant)
    elsewhere = make_tenant("globex")
    make_host(elsewhere)
    outsider = Client()
    outsider.force_login(make_member(elsewhere, "mallory"))
    assert outsider.get("/t/acme/ledger").status_code == 404
    assert outsider.get(entry_url("m1")).status_code == 404
    foreign, unknown = (outsider.get(entry_url(one, tenant="globex")) for one in ("m1", "m2"))
    assert foreign.status_code == unknown.status_code == 404
    assert without_token(foreign) == without_token(unknown)
    assert outsider.get("/t/globex/ledger").context["page"].all_total == 0
    nobody = Client()
    nobody.force_login(make_user("newcomer"))
    assert nobody.get("/t/acme/ledger").status_code == 404
    assert browser.get(entry_url("m1")).status_code == 200


def without_token(answer: Any) -> str:
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", answer.content.decode())


def test_without_a_login_there_is_only_the_login(tenant: Tenant) -> None:
    assert Client().get("/t/acme/ledger")["Location"] == "/login?next=/t/acme/ledger"
    assert fragment(Client(), "/t/acme/ledger", "rows").status_code == 401
    assert Client().post("/t/acme/ledger").status_code == 405


@pytest.mark.parametrize(
    "host, ref, memory_id", [("beta", "notes", "m1"), ("alpha", "x", "m1"), ("alpha", "notes", "x")]
)
def test_an_unknown_entry_is_not_found(
    browser: Client, tenant: Tenant, host: Host, ref: str, memory_id: str, request: pytest.FixtureRequest
) -> None:
    slug = request.node.callspec.params["host"]
    assert browser.get(entry_url(memory_id, host=slug, ref=ref)).status_code == 404


# --- Ids of every kind (any that the protocol allows opens by its own link) ---

IDS: list[Any] = [
    "a/b",
    "/",
    "it's",
    'say "hi"',
    "a:b:c",
    "100%",
    "%2F",
    "a b",
    " ",
    "~",
    "~2F",
    ".",
    "..",
    "...",
    "a?b=c&d",
    "a#b",
    "a\\b",
    "a;b,c",
    "目标",
    "日本語のメモ",
    "é",
    "e\u0301",
    "🧠",
    "a\u202eb",
    "\0",
    "\n",
    "\ud800",
    "<img src=x onerror=alert(1)>",
    "{{ page }}{% url 'home' %}",
    "x" * 1500,
    "new",
    "ledger",
]


def link_to_entry(text: str) -> str:
    (found,) = re.findall(r'<a class="id mem state" id="entry-[0-9a-f]+-link" href="([^"]+)"', text)
    return html.unescape(found)


@pytest.mark.parametrize("odd", IDS, ids=lambda odd: ascii(odd)[:40])
def test_every_id_opens_by_its_own_link(browser: Client, tenant: Tenant, host: Host, odd: str) -> None:
    event = write(0, odd, ref=odd, node=odd[:512], agentId=odd[:256], tags=[odd[:256]], run=odd[:512])
    arrive(host, event | {"eventId": "evt-0"})
    read_all(tenant)
    listed = browser.get("/t/acme/ledger")
    page = shown(browser, link_to_entry(listed.content.decode()))
    assert (page.entry.memory_ref, page.entry.memory_id, page.entry.tags) == (odd, odd, (odd[:256],))
    (row,) = page.writes
    assert (row.run_id, row.node, row.agent, row.sequence) == (odd[:512], odd[:512], odd[:256], 0)
    run = reverse("runs:run", kwargs={"tenant": "acme", "host": "alpha", "run": odd[:512]})
    assert browser.get(f"{run}?seq=0").status_code == 200


# A lone surrogate can not be in a URL's query.
@pytest.mark.parametrize("odd", [one for one in IDS if one != "\ud800"], ids=lambda odd: ascii(odd)[:40])
def test_every_id_can_be_filtered_by(browser: Client, tenant: Tenant, host: Host, odd: str) -> None:
    arrive(host, write(0, odd, ref=odd, node=odd[:512], agentId=odd[:256], tags=[odd[:256]]), write(1, "other"))
    read_all(tenant)
    for name, value in {"ref": odd, "node": odd[:512], "agent": odd[:256], "tag": odd[:256]}.items():
        page = browser.get("/t/acme/ledger", {name: value}).context["page"]
        assert [row.memory_id for row in page.rows] == [odd], name


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "javascript:alert(1)",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_inert_everywhere(browser: Client, tenant: Tenant, host: Host, hostile: str) -> None:
    arrive(
        host,
        write(0, hostile, ref=hostile, node=hostile, agentId=hostile, tags=[hostile, f"compacted-from:{hostile}2"]),
        make_event(1, "memory.compacted", payload={"memoryRef": hostile, "outputId": hostile, "trigger": hostile}),
        make_event(2, "memory.written", payload={"memoryRef": hostile}, node=hostile, run="run-1"),
    )
    read_all(tenant)
    urls = ["/t/acme/ledger", entry_url(hostile, ref=hostile), "/t/acme/"]
    for name in ("q", "ref", "node", "agent", "tag", "host", "state"):
        urls.append(f"/t/acme/ledger?{name}={hostile.replace('&', '%26').replace('#', '%23')}")
    for url in urls:
        answer = browser.get(url)
        assert answer.status_code == 200
        text = answer.content.decode()
        assert hostile not in re.sub(r"javascript:alert\(1\)(?=[\"<])", "", text) or hostile.startswith("javascript:")
        assert not re.search(r"<(img|script)[^>]*(onerror|alert)", text)
        assert not re.search(r'(href|src)="\s*javascript:', text)
        assert not re.search(r'<[^<>]*\son\w+="alert', text)


# --- What it costs ---


def cost(client: Client, url: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(url).status_code == 200
    return len(queries)


@pytest.mark.parametrize("query", ["", "?q=m", "?node=sum", "?ref=notes&host=alpha", "?tag=t"])
def test_a_ledger_of_fifty_costs_as_many_queries_as_one_of_five(
    browser: Client, tenant: Tenant, host: Host, query: str
) -> None:
    arrive(host, *(write(place, f"m{place}", node="sum", tags=["t"]) for place in range(5)))
    read_all(tenant)
    few = cost(browser, f"/t/acme/ledger{query}")
    arrive(host, *(write(place, f"m{place}", node="sum", tags=["t"]) for place in range(5, 50)))
    read_all(tenant)
    assert shown(browser, f"/t/acme/ledger{query}").total == 50
    assert cost(browser, f"/t/acme/ledger{query}") == few <= 20


def test_an_entry_of_fifty_writes_and_merges_costs_as_many_queries_as_one_of_five(
    browser: Client, tenant: Tenant, host: Host
) -> None:
    def come(*places: int) -> None:
        for place in places:
            arrive(
                host,
                write(2 * place, run=f"run-{place % 7}", node=f"n{place}", tags=[f"compacted-from:s{place}"]),
                compaction(2 * place + 1, f"all-{place}", run=f"run-{place % 7}", sourceIds=["m1", f"x{place}"]),
            )
        read_all(tenant, now=LATER)

    come(*range(5))
    few = cost(browser, entry_url("m1"))
    come(*range(5, 50))
    page = shown(browser, entry_url("m1"))
    assert (len(page.writes), len(page.lineage_in), len(page.lineage_out)) == (50, 50, 50)
    assert cost(browser, entry_url("m1")) == few <= 36
