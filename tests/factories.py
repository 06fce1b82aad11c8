"""What tests are made of, as plain functions. Every default can be told otherwise; nothing is random."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from openwop_ui.tenancy.keys import create_api_key
from openwop_ui.tenancy.models import Membership, Role, Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope
from runs.domain.event import Refusal, RunEvent
from runs.domain.normalise import read_event
from runs.models import Host
from runs.store import Receipt, ref, register_host, take_in

BEGINNING = datetime(2026, 3, 1, 9, 0, 0, tzinfo=UTC)


def make_tenant(slug: str = "acme", *, name: str = "") -> Tenant:
    with operator_scope():
        return Tenant.objects.create(slug=slug, name=name)


def make_user(username: str, *, operator: bool = False) -> User:
    """The password is the name."""
    return User.objects.create_user(username, password=username, is_superuser=operator, is_staff=operator)


def make_member(tenant: Tenant, username: str, role: Role = Role.VIEWER) -> User:
    user = User.objects.filter(username=username).first() or make_user(username)
    with tenant_scope(tenant.pk):
        Membership.objects.create(tenant=tenant, user=user, role=role)
    return user


def make_key(tenant: Tenant, *scopes: str, name: str = "a program") -> str:
    """The key's plain text."""
    return create_api_key(tenant_id=tenant.pk, name=name, scopes=scopes or ("ingest", "read"))[1]


def bearer(key: str) -> dict[str, str]:
    """For a test client's ``headers=``."""
    return {"Authorization": f"Bearer {key}"}


def make_host(tenant: Tenant, slug: str = "alpha", **told: str) -> Host:
    host = register_host(tenant_id=tenant.pk, slug=slug, **told)
    host.tenant = tenant  # outside of a scope it could not be looked up
    return host


def make_event(
    sequence: int = 0,
    type: str = "node.started",
    *,
    run: str = "run-1",
    node: str | None = None,
    payload: Mapping[str, Any] | None = None,
    at: datetime | None = None,
    **members: Any,
) -> dict[str, Any]:
    """An event as a host of the first major sends it, one second after the one before it."""
    moment = at or BEGINNING + timedelta(seconds=sequence)
    event: dict[str, Any] = {
        "eventId": f"evt-{run}-{sequence}",
        "runId": run,
        "type": type,
        "sequence": sequence,
        "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "payload": dict(payload or {}),
    }
    return event | ({"nodeId": node} if node else {}) | members


def make_log(run: str = "run-1", *, nodes: int = 2, first: int = 0, end: str = "run.completed") -> list[dict[str, Any]]:
    """A whole run: it starts, its nodes run one after the other and write one memory entry each, it ends."""
    told: list[tuple[str, str | None, dict[str, Any]]] = [("run.started", None, {"workflowId": "briefing"})]
    for number in range(nodes):
        node = f"step-{number}"
        told += [
            ("node.started", node, {"nodeId": node}),
            (
                "memory.written",
                node,
                {"memoryRef": "notes", "memoryId": f"{run}-m{number}", "nodeId": node, "agentId": "writer"},
            ),
            ("node.completed", node, {"nodeId": node}),
        ]
    told.append((end, None, {}))
    return [
        make_event(first + place, type, run=run, node=node, payload=payload)
        for place, (type, node, payload) in enumerate(told)
    ]


def as_ndjson(events: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def read(events: Iterable[Mapping[str, Any] | str | bytes], *, run_id: str | None = None) -> list[RunEvent | Refusal]:
    return [
        read_event(event if isinstance(event, str | bytes) else json.dumps(event), index=index, run_id=run_id)
        for index, event in enumerate(events)
    ]


def take(
    host: Host, events: Iterable[Mapping[str, Any] | str | bytes], *, received_at: datetime | None = None
) -> Receipt:
    return take_in(ref(host), read(events), received_at=received_at)
