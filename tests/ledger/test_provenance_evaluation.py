"""The scripted scenario, traced on every surface: nothing missing, nothing too much, nothing of anybody else's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import jsonschema_rs
import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from ledger import mcp_tools, provenance
from ledger.domain import chain as domain_chain
from ledger.domain.chain import MAX_TRACED
from ledger.queries import chain_sql
from ledger.queries.chain import chains
from ledger.queries.recalled import entries_by_id
from openwop_ui.mcp.server import answered
from openwop_ui.rest import dumps
from openwop_ui.tenancy.keys import find_caller
from openwop_ui.tenancy.scope import tenant_scope
from tests.committed import committed_rows
from tests.factories import make_member
from tests.ledger.provenance_scenario import SCENARIO, Played, labelled, labelled_page, measure, play
from tests.schemas.test_schemas import SCHEMAS

pytestmark = pytest.mark.database
CHAIN = jsonschema_rs.validator_for(SCHEMAS["provenance-chain"], validate_formats=True)
TRACED = [probe["trace"] for probe in SCENARIO["probes"]]

Traced = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def sides(own_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, Played]]:
    with committed_rows(django_db_blocker):
        yield play()


def over_rest(side: Played) -> Traced:
    found: Traced = {}
    for start in range(0, len(TRACED), MAX_TRACED):
        labels = TRACED[start : start + MAX_TRACED]
        body = {"ids": [side.labels[label] for label in labels], "include": ["provenance"]}
        answer = side.api.post("/v1/memories/get", body, content_type="application/json")
        assert answer.status_code == 200, answer.content
        found |= dict(zip(labels, (one["chain"] for one in answer.json()["found"]), strict=True))
    return found


def over_history(side: Played) -> Traced:
    answers = {label: side.api.get(f"/v1/memories/{side.labels[label]}/history") for label in TRACED}
    return {label: answer.json() for label, answer in answers.items()}


def over_mcp(side: Played) -> Traced:
    caller = find_caller(side.key)
    assert caller is not None
    found: Traced = {}
    for label in TRACED:
        asked = mcp_tools.GetMemories(ids=[side.labels[label]], include=["provenance"])
        result = answered(mcp_tools.get_memories(caller, asked))
        assert result.structured_content is not None and not result.structured_content["truncated"]
        found[label] = result.structured_content["found"][0]["chain"]
    return found


SURFACES: dict[str, Callable[[Played], Traced]] = {"rest": over_rest, "history": over_history, "mcp": over_mcp}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(("mine", "theirs"), [("north", "south"), ("south", "north")])
def test_recall_precision_and_foreign_ids(sides: dict[str, Played], surface: str, mine: str, theirs: str) -> None:
    told = SURFACES[surface](sides[mine])

    names = {label: labelled(sides[mine], chain) for label, chain in told.items()}
    figures = measure(sides[mine], sides[theirs], names, [json.dumps(chain) for chain in told.values()])

    assert figures.wrong == ()
    assert (figures.recall, figures.precision, figures.foreign) == (1.0, 1.0, 0)


@pytest.mark.parametrize(("mine", "theirs"), [("north", "south"), ("south", "north")])
def test_pages_tell_the_same(sides: dict[str, Played], mine: str, theirs: str) -> None:
    side = sides[mine]
    pages = {label: page_of(side, label) for label in TRACED}

    told = {label: labelled_page(side, html) for label, html in pages.items()}
    figures = measure(side, sides[theirs], told, pages.values())

    assert figures.wrong == ()
    assert (figures.recall, figures.precision, figures.foreign) == (1.0, 1.0, 0)
    assert "cut at 25 memories" in pages["claim:chain-30"]
    assert "cut at 25 memories" not in pages["claim:chain-10"]


def page_of(side: Played, label: str) -> str:
    name = f"walker-{side.tenant.slug}"
    user = User.objects.filter(username=name).first() or make_member(side.tenant, name)
    client = Client()
    client.force_login(user)
    id = UUID(side.labels[label])
    if label.startswith("claim:"):
        path = reverse("ledger:claim", kwargs={"tenant": side.tenant.slug, "id": id})
    else:
        with tenant_scope(side.tenant.pk):
            entry = entries_by_id(side.tenant.pk, [id], now=timezone.now())[id]
        path = reverse(
            "ledger:entry",
            kwargs={
                "tenant": side.tenant.slug,
                "host": entry.host,
                "memory_ref": entry.memory_ref,
                "memory_id": entry.memory_id,
            },
        )
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_what_does_not_fit_is_told_of(sides: dict[str, Played]) -> None:
    told = over_history(sides["north"])

    for probe in SCENARIO["probes"]:
        chain, cut = told[probe["trace"]], probe.get("truncated", [])
        assert chain["lineage"]["truncated"] is ("lineage" in cut)
        assert chain["lineage"]["edges"]["truncated"] is ("edges" in cut)
        assert not any(chain[section]["truncated"] for section in ("events", "proposals", "facts"))


def test_all_surfaces_say_the_same(sides: dict[str, Played]) -> None:
    assert over_rest(sides["north"]) == over_history(sides["north"]) == over_mcp(sides["north"])


def test_a_chain_has_ids_enumerations_booleans_and_times_only(sides: dict[str, Played]) -> None:
    for side in sides.values():
        for chain in over_history(side).values():
            CHAIN.validate(chain)
            # The topic is in every content, value and wording, and in nothing else.
            assert side.topic not in json.dumps(chain)


def test_anothers_ids_and_unknown_ones_answer_alike(sides: dict[str, Played]) -> None:
    north, south = sides["north"], sides["south"]
    foreign = south.labels["claim:plan"]
    unknown = "00000000-0000-4000-8000-000000000000"
    body = {"ids": [foreign, unknown, "no id"], "include": ["provenance"]}

    answer = north.api.post("/v1/memories/get", body, content_type="application/json").json()

    assert answer == {"found": [], "notFound": [foreign, unknown, "no id"]}
    assert north.api.get(f"/v1/memories/{foreign}/history").status_code == 404
    assert (
        north.api.get(f"/v1/memories/{foreign}/history").content
        == north.api.get(f"/v1/memories/{unknown}/history").content
    )


# --- each kind of fault, planted: the evaluation has to see it ---


def is_red(sides: dict[str, Played]) -> bool:
    north, south = sides["north"], sides["south"]
    told = over_history(north)
    names = {label: labelled(north, chain) for label, chain in told.items()}
    figures = measure(north, south, names, [json.dumps(chain) for chain in told.values()])
    is_exact = figures.wrong == () and (figures.recall, figures.precision, figures.foreign) == (1.0, 1.0, 0)
    return not is_exact or not all(CHAIN.is_valid(chain) for chain in told.values())


@pytest.fixture
def without_row_security(sides: dict[str, Played]) -> Iterator[None]:
    """As if the second layer had failed: only the statements themselves keep the tenants apart. A row of the other
    tenant leads to a claim of this one, which no door could have written."""
    north, south = sides["north"], sides["south"]
    tables = ("ledger_claimstate", "ledger_claimrow", "ledger_decision", "ledger_memoryentry", "ledger_merge")
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        cursor.execute(
            "UPDATE ledger_claimstate SET to_claim = %s, status = 'superseded' WHERE tenant_id = %s AND claim_id = %s",
            [north.labels["claim:owner-old"], south.tenant.pk, south.labels["claim:crash"]],
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_claimstate SET to_claim = NULL, status = 'active' WHERE tenant_id = %s AND claim_id = %s",
            [south.tenant.pk, south.labels["claim:crash"]],
        )
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")


def test_no_hop_leaves_the_tenant(
    sides: dict[str, Played], without_row_security: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_red(sides)

    # Each hop is guarded by the others: it takes a tenant that is missing at all of them.
    faults = [
        ("REPLACED", "s.tenant_id = %(tenant)s AND s.to_claim = here.id", "s.to_claim = here.id"),
        ("REPLACED", "own.tenant_id = s.tenant_id AND own.id = here", "own.tenant_id = %(tenant)s AND own.id = here"),
        ("NODES", "c.tenant_id = %(tenant)s AND c.id = ANY", "c.id = ANY"),
    ]
    for statement, named, unnamed in faults:
        assert named in getattr(chain_sql, statement)
        monkeypatch.setattr(chain_sql, statement, getattr(chain_sql, statement).replace(named, unnamed))
    assert is_red(sides)


def test_an_inherited_run_is_seen(sides: dict[str, Played], monkeypatch: pytest.MonkeyPatch) -> None:
    inherited = chain_sql.NODES.replace(
        "NULL, NULL, NULL, c.writer, NULL, NULL, NULL, NULL, NULL, false",
        "NULL, NULL, NULL, c.writer, 'alpha', 'run-first', 1, NULL, NULL, true",
    )
    assert inherited != chain_sql.NODES
    monkeypatch.setattr(chain_sql, "NODES", inherited)
    assert is_red(sides)


@pytest.mark.parametrize("off", [-1, 1])
def test_a_cap_that_is_off_by_one_is_seen(sides: dict[str, Played], monkeypatch: pytest.MonkeyPatch, off: int) -> None:
    monkeypatch.setattr(domain_chain, "LINEAGE", domain_chain.LINEAGE + off)
    assert is_red(sides)


@pytest.mark.parametrize(
    ("told", "member", "text"),
    [
        ("_event", "payloadHash", "My name is Aurora Miller."),
        ("_event", "content", "My name is Aurora Miller."),
        ("_proposal", "rule", "Writers of equal authority disagree, so a person decides."),
        ("_node", "tags", ["private"]),
    ],
)
def test_content_and_prose_are_seen(
    sides: dict[str, Played], monkeypatch: pytest.MonkeyPatch, told: str, member: str, text: Any
) -> None:
    honest = getattr(provenance, told)
    monkeypatch.setattr(provenance, told, lambda one: {**honest(one), member: text})
    assert is_red(sides)


def test_an_order_without_tie_break_is_seen(sides: dict[str, Played], monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [domain_chain.Node(domain_chain.Version(UUID(int=n), 0), domain_chain.Kind.CLAIM, None) for n in (2, 3)]
    root = domain_chain.Version(UUID(int=1), 0)
    links = [domain_chain.Link(node, root, domain_chain.Relation.SUPERSEDE, None) for node in nodes]
    assert domain_chain.lineage(root, links) == domain_chain.lineage(root, links[::-1])

    monkeypatch.setattr(domain_chain, "_node_order", lambda node: (0, "", 0))
    assert domain_chain.lineage(root, links) != domain_chain.lineage(root, links[::-1])


# --- bounds ---


def test_a_trace_is_a_constant_number_of_statements(sides: dict[str, Played]) -> None:
    side = sides["north"]

    def statements(labels: list[str]) -> int:
        with tenant_scope(side.tenant.pk), CaptureQueriesContext(connection) as caught:
            chains(side.tenant.pk, [UUID(side.labels[label]) for label in labels])
        return len(caught)

    assert statements(["claim:chain-30"]) == statements(TRACED[:5]) == 8


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ids": ["x"] * 21}, "ids"),
        ({"ids": ["x"] * 6, "include": ["provenance"]}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": ["x"], "include": ["content"]}, "include"),
        ({"ids": ["x"], "tenant": "south"}, "tenant"),
    ],
)
def test_what_is_asked_is_bounded(sides: dict[str, Played], body: dict[str, Any], field: str) -> None:
    answer = sides["north"].api.post("/v1/memories/get", body, content_type="application/json")

    assert answer.status_code == 422
    assert answer.json()["details"]["fields"][0]["field"] == field


def test_a_trace_that_takes_too_long_is_cancelled(sides: dict[str, Played]) -> None:
    side = sides["north"]
    url = f"/v1/memories/{side.labels['claim:plan']}/history"
    with psycopg.connect(database_url()) as other, override_settings(TRACE_TIMEOUT=0.2):
        other.execute("LOCK TABLE ledger_conflictclaim IN ACCESS EXCLUSIVE MODE")
        answer = side.api.get(url)
        assert (answer.status_code, answer.json()["error"]) == (504, "timeout")
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        assert other.execute(waiting).fetchone() == (0,)
    assert side.api.get(url).status_code == 200


def database_url() -> str:
    told = connection.get_connection_params()
    return psycopg.conninfo.make_conninfo(
        host=told["host"], port=told["port"], user=told["user"], password=told.get("password"), dbname=told["dbname"]
    )


LARGEST_CHAIN = 480_000
"""Bytes of one chain that is full in every section, with ids of the greatest length that is taken in. Five of them are
one answer's worst case."""


def test_the_worst_case_stays_below_its_ceiling() -> None:
    long = "x" * 1_500
    origin = domain_chain.Origin("h" * 63, long, 2**53, long[:128], long[:256], is_known=True)
    now = timezone.now()
    node = domain_chain.Node(
        domain_chain.Version(UUID(int=9), 1), domain_chain.Kind.ENTRY, now, "h" * 63, "r" * 512, "m" * 512, "w", origin
    )
    chain = domain_chain.Chain(
        id=UUID(int=1),
        kind=domain_chain.Kind.ENTRY,
        lineage=domain_chain.Lineage(
            domain_chain.Section((domain_chain.Placed(node, 25),) * domain_chain.LINEAGE, True),
            domain_chain.Section(
                (domain_chain.Link(node, node.version, domain_chain.Relation.COMPACTION, now),) * domain_chain.EDGES,
                True,
            ),
        ),
        events=domain_chain.Section(
            (domain_chain.Happening("k", domain_chain.EventKind.MEMORY_WRITTEN, now, now, origin, "e" * 128),)
            * domain_chain.EVENTS,
            True,
        ),
        proposals=domain_chain.Section(
            (
                domain_chain.Proposal(
                    UUID(int=2), "decided", now, "r" * 20, "p" * 20, UUID(int=3), "choose", "a" * 150, now
                ),
            )
            * domain_chain.PROPOSALS,
            True,
        ),
        facts=domain_chain.Section(
            (domain_chain.Fact(UUID(int=4), "active", "w" * 64, now),) * domain_chain.FACTS, True
        ),
        run=origin,
    )
    assert len(dumps(provenance.told(chain))) <= LARGEST_CHAIN
