"""Plays the scripted provenance scenario for two tenants, through the product's own doors, and names what came of it.

Labels become ids while it is played; what a surface answers is put back into labels, so that a probe can say what it
has to be.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from django.test import Client

from ledger.claims_store.entries import read_entries
from ledger.domain.reading import Address, entry_id
from ledger.models import ClaimRow, ConflictClaim
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import bearer, make_host, make_key, make_tenant
from tests.ledger.claims import make_writer

SCENARIO: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "provenance_synthetic.json").read_text()
)
JSON = "application/json"
SECTIONS = ("lineage", "edges", "events", "proposals", "facts")


class Crash(Exception):
    """What happens to the process between two of its steps."""


@dataclass
class Played:
    """One tenant's side of it. ``labels`` leads from label to id."""

    tenant: Tenant
    host: Host
    topic: str
    key: str
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        return {id: label for label, id in self.labels.items()}

    @property
    def api(self) -> Client:
        return Client(headers=bearer(self.key))


def play() -> dict[str, Played]:
    """Both tenants, step by step in turn, so that whatever runs from one into the other is there to be seen."""
    sides = [_side(slug, topic) for slug, topic in SCENARIO["tenants"].items()]
    for step in SCENARIO["steps"]:
        for side in sides:
            _STEPS[step["op"]](side, _about(step, side))
    return {side.tenant.slug: side for side in sides}


def _side(slug: str, topic: str) -> Played:
    tenant = make_tenant(slug)
    return Played(tenant, make_host(tenant), topic, make_key(tenant, "ingest", "read", "write", "review", "admin"))


def _about(step: Any, side: Played) -> Any:
    """Contents have the tenant's topic in them, and event ids its slug: ids that are derived from them differ."""
    return json.loads(json.dumps(step).replace("{topic}", side.topic).replace("{side}", side.tenant.slug))


def _send(side: Played, method: str, path: str, body: Any, expected: int = 200) -> Any:
    answer = side.api.generic(method, f"/v1/{path}", json.dumps(body), content_type=JSON)
    assert answer.status_code == expected, (path, answer.content)
    return answer.json()


def _run(side: Played, step: Mapping[str, Any]) -> None:
    events = [
        {"eventId": f"{step['run']}-{one['sequence']:016d}", "runId": step["run"], **one} for one in step["events"]
    ]
    if "parent" in step:
        # Events name no source of a fork; a bundle's snapshot does.
        run = {"runId": step["run"], "status": "completed", "parentRunId": step["parent"], "forkMode": "replay"}
        bundle = {"bundleVersion": "1", "run": run, "events": events, "metrics": {"eventCount": len(events)}}
        _send(side, "POST", f"hosts/{side.host.slug}/bundle", bundle)
    else:
        _send(side, "POST", f"hosts/{side.host.slug}/events", events)
    while read_backlog(side.tenant.pk):
        pass
    side.labels[step["label"]] = f"{side.host.slug}/{step['run']}"
    for label, (ref, memory_id) in step["entries"].items():
        side.labels[label] = str(entry_id(side.host.pk, Address(ref, memory_id)))


def _content(side: Played, step: Mapping[str, Any]) -> None:
    entries = [{"createdAt": "2026-03-01T12:00:01Z", "tags": [], **one} for one in step["entries"]]
    _send(side, "PUT", f"hosts/{side.host.slug}/memory", {"memoryRef": step["ref"], "entries": entries})
    while read_entries(side.tenant.pk):
        pass
    with tenant_scope(side.tenant.pk):
        for label in step["facts"]:
            (claim,) = ClaimRow.objects.filter(tenant_id=side.tenant.pk, writer=f"host:{side.host.slug}")
            side.labels[label] = str(claim.id)


def _writer(side: Played, step: Mapping[str, Any]) -> None:
    make_writer(side.tenant, step["key"], step["priority"])


def _add(side: Played, step: Mapping[str, Any]) -> None:
    body = {
        "external_user_id": step["subject"],
        "source": {
            "service": step["service"],
            "event_id": step["event"],
            "observed_at": f"2026-03-{1 + step['hour'] // 24:02d}T{step['hour'] % 24:02d}:00:00Z",
        },
        "claims": [step["claim"]],
    }
    if step.get("crash"):
        # The claim is written and nothing has been settled yet: what was begun has to be gone, and done again whole.
        with (
            patch("ledger.claims_store.intake.settle", side_effect=Crash),
            suppress(Crash),
        ):
            side.api.generic("POST", "/v1/memories/add", json.dumps(body), content_type=JSON)
    taken = _send(side, "POST", "memories/add", body, 202)
    side.labels[step["source"]] = taken["source_event_id"]
    (claim,) = _send_get(side, f"jobs/{taken['job_id']}")["result"]["claims"]
    side.labels[step["label"]] = claim


def _send_get(side: Played, path: str) -> Any:
    answer = side.api.get(f"/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def _conflict(side: Played, step: Mapping[str, Any]) -> str:
    with tenant_scope(side.tenant.pk):
        (found,) = ConflictClaim.objects.filter(
            tenant_id=side.tenant.pk, claim_id=UUID(side.labels[step["of"]])
        ).values_list("conflict_id", flat=True)
    side.labels[step["conflict"]] = str(found)
    return str(found)


def _decide(side: Played, step: Mapping[str, Any]) -> None:
    conflict = _conflict(side, step)
    shown = _send_get(side, f"conflicts/{conflict}")
    said: dict[str, Any] = {"revision": shown["revision"], "outcome": step["outcome"]}
    if "claim" in step:
        said["claim_id"] = side.labels[step["claim"]]
    if "scopes" in step:
        said["placements"] = [
            {"claim_id": side.labels[label], "scope": {"type": scope}} for label, scope in step["scopes"].items()
        ]
    if "value" in step:
        said |= {"value": step["value"], "evidence": "the customer said so"}
    made = _send(side, "POST", f"conflicts/{conflict}/decision", said)
    side.labels[step["label"]] = made["decision_id"]
    if "correction" in step:
        side.labels[step["correction"]] = made["correction_id"]


def _undo(side: Played, step: Mapping[str, Any]) -> None:
    made = _send(side, "POST", f"decisions/{side.labels[step['decision']]}/undo", {})
    side.labels[step["label"]] = made["decision_id"]


def _revise(side: Played, step: Mapping[str, Any]) -> None:
    body = {"revision": step["revision"], "content": step["content"]}
    _send(side, "PATCH", f"memories/{side.labels[step['claim']]}", body)


def _put(side: Played, step: Mapping[str, Any]) -> None:
    body = {"memoryRef": step["ref"], "entry": {"content": step["content"]}, "run": f"{side.host.slug}/{step['run']}"}
    made = _send(side, "POST", "memory", body, 201)
    with tenant_scope(side.tenant.pk):
        own = Host.objects.exclude(pk=side.host.pk).get(tenant_id=side.tenant.pk)
    side.labels[step["label"]] = str(entry_id(own.pk, Address(step["ref"], made["entry"]["id"])))


_STEPS = {
    "run": _run,
    "content": _content,
    "writer": _writer,
    "add": _add,
    "conflict": _conflict,
    "decide": _decide,
    "undo": _undo,
    "revise": _revise,
    "put": _put,
}


# --- what a surface answered, in labels ---


def labelled(side: Played, chain: Mapping[str, Any]) -> dict[str, Any]:
    """``chain`` is as REST tells it."""
    names = side.names
    run = chain["run"]
    return {
        "lineage": [_version(names, one) for one in chain["lineage"]["items"]],
        "edges": [
            [_version(names, one["from"]), _version(names, one["to"]), one["relation"]]
            for one in chain["lineage"]["edges"]["items"]
        ],
        "events": [_event(names, one) for one in chain["events"]["items"]],
        "proposals": [_name(names, one["decisionId"] or one["conflictId"]) for one in chain["proposals"]["items"]],
        "facts": [_name(names, one["id"]) for one in chain["facts"]["items"]],
        "run": None if run is None else _name(names, f"{run['host']}/{run['runId']}"),
        "recorded": chain["runId"],
    }


def _name(names: Mapping[str, str], id: str) -> str:
    return names.get(id, f"unknown {id}")


def _version(names: Mapping[str, str], one: Mapping[str, Any]) -> str:
    return _name(names, one["id"]) + (f"~{one['version']}" if one["version"] else "")


def _event(names: Mapping[str, str], one: Mapping[str, Any]) -> str:
    if one["sourceEventId"] is not None:
        return names.get(one["sourceEventId"], str(one["kind"]))
    run = one["run"]
    if run is None:
        return str(one["kind"])
    place = "" if run["sequence"] is None else f"#{run['sequence']}"
    name = _name(names, f"{run['host']}/{run['runId']}")
    return f"{one['kind']}@{name}{place}"


def labelled_page(side: Played, html: str) -> dict[str, Any]:
    """The same of a page, from the ids that it carries for whoever walks it."""
    names = side.names

    def carried(attribute: str) -> list[str]:
        return [unescape(one) for one in re.findall(rf'data-{attribute}="([^"]*)"', html)]

    def version(text: str) -> str:
        id, _, number = text.partition("~")
        return _version(names, {"id": id, "version": int(number)})

    def event(text: str) -> str:
        kind, source, run = text.split("|")
        if source:
            return names.get(source, kind)
        host_and_run, _, sequence = run.partition("#")
        place = f"#{sequence}" if sequence else ""
        return f"{kind}@{_name(names, host_and_run)}{place}" if run else kind

    edges = [one.split(" ") for one in carried("edge")]
    return {
        "lineage": [version(one) for one in carried("node")],
        "edges": [[version(one), version(other), relation] for one, other, relation in edges],
        "events": [event(one) for one in carried("event")],
        "proposals": [_name(names, decision or conflict) for conflict, decision in map(_halves, carried("proposal"))],
        "facts": [_name(names, one) for one in carried("fact")],
    }


def _halves(text: str) -> tuple[str, str]:
    first, _, second = text.partition("|")
    return first, second


@dataclass(frozen=True)
class Figures:
    """Over all sections of all probes. ``wrong`` names what is missing (-) and what is too much (+)."""

    recall: float
    precision: float
    foreign: int
    wrong: tuple[str, ...]


def measure(side: Played, other: Played, told: Mapping[str, Mapping[str, Any]], raw: Iterable[str]) -> Figures:
    """``told`` is what was told of each traced label, in labels; ``raw`` is all text in which a foreign id may hide."""
    expected = given = right = 0
    wrong: list[str] = []
    for probe in SCENARIO["probes"]:
        got = told[probe["trace"]]
        for section in SECTIONS:
            want, have = _counted(probe[section]), _counted(got[section])
            expected += want.total()
            given += have.total()
            right += (want & have).total()
            wrong += [f"{probe['trace']} {section} -{one}" for one in want - have]
            wrong += [f"{probe['trace']} {section} +{one}" for one in have - want]
        if "run" in got and got["run"] != probe["run"]:
            wrong.append(f"{probe['trace']} run {got['run']}")
        if "recorded" in got and "recorded" in probe and got["recorded"] != probe["recorded"]:
            wrong.append(f"{probe['trace']} recorded run {got['recorded']}")
        if probe["lineage"] != got["lineage"]:
            wrong.append(f"{probe['trace']} lineage in another order")
    foreign = {id for label, id in other.labels.items() if not label.startswith("run:")}
    ids = re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "\n".join(raw))
    return Figures(right / expected, right / given, sum(id in foreign for id in ids), tuple(wrong))


def _counted(items: Iterable[Any]) -> Counter[str]:
    return Counter(one if isinstance(one, str) else " → ".join(one) for one in items)
