"""Memory entries in a debug bundle are kept as what was seen when it was made, by every door that takes bundles."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from ledger.models import Observation
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.bundle_memory import found_memory
from runs.models import Host
from tests.factories import bearer, make_event, make_key

ENTRY = {"id": "m-1", "content": "prefers tea", "tags": ["a"], "createdAt": "2026-03-01T09:00:00.000Z"}


def bundle(**members: Any) -> dict[str, Any]:
    event = make_event(0, "memory.written", payload={"memoryRef": "notes", "memoryId": "m-1"})
    return {
        "bundleVersion": "1",
        "generatedAt": "2026-03-01T10:00:00Z",
        "run": {"runId": "run-1"},
        "events": [event],
    } | members


def seen(tenant: Tenant) -> list[tuple[str, str, str | None, str, datetime]]:
    with tenant_scope(tenant.pk):
        found = Observation.objects.filter(tenant_id=tenant.pk).order_by("memory_ref", "memory_id")
        return list(found.values_list("memory_ref", "memory_id", "content", "source", "observed_at"))


MADE = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize("door", ["api", "command"])
def test_entries_of_a_bundle_are_observed(tenant: Tenant, host: Host, door: str, tmp_path: Path) -> None:
    told = json.dumps(
        bundle(
            memory={"memoryRef": "other", "entries": [ENTRY | {"id": "m-2"}]},
            run={"runId": "run-1", "variables": {"readback": ENTRY}},
        )
    )
    for _ in range(2):
        if door == "api":
            client = Client(headers=bearer(make_key(tenant, "ingest")))
            assert client.post("/v1/hosts/alpha/bundle", told, content_type="application/json").status_code == 200
        else:
            file = tmp_path / "bundle.json"
            file.write_text(told)
            call_command("ingest", str(file), tenant="acme", host="alpha", stdout=io.StringIO())
    assert seen(tenant) == [
        ("notes", "m-1", "prefers tea", "import", MADE),
        ("other", "m-2", "prefers tea", "import", MADE),
    ]


def test_an_entry_of_a_ref_that_nothing_tells_is_not_kept(tenant: Tenant, host: Host) -> None:
    told = bundle(run={"runId": "run-1", "variables": {"readback": ENTRY | {"id": "unknown"}}})
    client = Client(headers=bearer(make_key(tenant, "ingest")))
    assert client.post("/v1/hosts/alpha/bundle", json.dumps(told), content_type="application/json").status_code == 200
    assert seen(tenant) == []


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"a": ENTRY}, [(None, "m-1")]),
        ({"a": ENTRY | {"expiresAt": None}}, [(None, "m-1")]),
        ({"a": ENTRY | {"author": "x"}}, []),
        ({"a": {name: ENTRY[name] for name in ("id", "content", "tags")}}, []),
        ({"a": ENTRY | {"content": None}}, []),
        ({"a": {"memoryRef": "r", "entry": ENTRY}, "b": [[ENTRY, ENTRY]]}, [("r", "m-1"), (None, "m-1")]),
        ({"run": {"agent": {"memoryRef": "r"}, "variables": {"v": ENTRY}}}, [("r", "m-1")]),
        ({"a": {"memoryRef": 7, "entry": ENTRY}}, [(None, "m-1")]),
    ],
)
def test_entries_are_known_by_their_shape(parts: dict[str, object], found: list[tuple[str | None, str]]) -> None:
    assert [(one.memory_ref, one.entry.id) for one in found_memory(parts)] == found
