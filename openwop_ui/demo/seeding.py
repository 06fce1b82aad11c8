"""Makes the demo's tenants, logins, hosts and runs. Again and again, with the same result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from django.contrib.auth.models import User

from ledger.domain.route_text import write_route
from openwop_ui.demo import RECORDINGS, claims, forks
from openwop_ui.tenancy.models import Membership, Role, Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope
from runs.domain.event import Refusal, RunEvent
from runs.domain.memory_read import ID_PLACE
from runs.domain.normalise import read_event
from runs.domain.storable import storable
from runs.models import Host, Run
from runs.store import ref, register_host, take_in

HOST = "demo"
HOST_KEY = "demo-host-key"
"""Opens the demo's host, which listens on loopback only and holds nothing but made-up runs."""
MEMORY = "/v1/host/demo/memory"


@dataclass(frozen=True, slots=True)
class Login:
    """The password is the name."""

    name: str
    tenant: str
    role: Role
    is_staff: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """A host whose recorded runs are shipped with the demo, in the folder of its slug."""

    slug: str
    name: str


TENANTS = {"demo": "Demo", "other": "Another tenant"}

LOGINS = (
    Login("dev", "demo", Role.REVIEWER),
    Login("reviewer", "demo", Role.REVIEWER),
    Login("admin", "demo", Role.ADMIN, is_staff=True),
    Login("outsider", "other", Role.ADMIN),
)

RECORDED = (
    Recorded("openwop-app", "OpenWOP reference app"),
    Recorded("sqlite", "Example host, SQLite"),
    Recorded("postgres", "Example host, PostgreSQL"),
    Recorded("in-memory", "Example host, in memory"),
    Recorded("python", "Example host, Python"),
)

OTHER_HOST = Recorded("other-host", "A host of another tenant")


def seed(*, host_port: int) -> int:
    """How many runs were brought in; 0 when everything was there."""
    tenants = {slug: _tenant(slug, name) for slug, name in TENANTS.items()}
    for login in LOGINS:
        _login(login, tenants[login.tenant])
    demo, other = tenants["demo"], tenants["other"]
    brought = sum(_bring_in(demo, recorded, _recorded_logs(recorded.slug)) for recorded in RECORDED)
    brought += _bring_in(other, OTHER_HOST, _logs_of_the_other())
    register_host(
        tenant_id=demo.pk,
        slug=HOST,
        name="Demo host",
        origin=f"http://127.0.0.1:{host_port}",
        credential=HOST_KEY,
        memory_route=write_route(MEMORY, f"{MEMORY}/{ID_PLACE}", major=1, ref="team:support"),
    )
    claims.say(demo)
    return brought


def _tenant(slug: str, name: str) -> Tenant:
    with operator_scope():
        return Tenant.objects.get_or_create(slug=slug, defaults={"name": name})[0]


def _login(login: Login, tenant: Tenant) -> None:
    # An account that is there keeps its password and rights, which may have been changed since.
    user, is_new = User.objects.get_or_create(username=login.name, defaults={"is_staff": login.is_staff})
    if is_new:
        user.set_password(login.name)
        user.save(update_fields=["password"])
    with tenant_scope(tenant.pk):
        Membership.objects.get_or_create(tenant=tenant, user=user, defaults={"role": login.role})


# --- runs ---


@dataclass(frozen=True, slots=True)
class Log:
    """A run's events as JSON texts, one each."""

    run_id: str
    events: tuple[bytes, ...]


def _bring_in(tenant: Tenant, recorded: Recorded, logs: Iterable[Log]) -> int:
    host = register_host(tenant_id=tenant.pk, slug=recorded.slug, name=recorded.name)
    present = _counts(host)
    missing = [log for log in logs if present.get(storable(log.run_id), 0) < len(log.events)]
    if missing:
        take_in(ref(host), _events(missing))
    if recorded.slug == forks.HOST:
        forks.tell_forks(host)
    return len(missing)


def _counts(host: Host) -> dict[str, int]:
    with tenant_scope(host.tenant_id):
        runs = Run.objects.filter(tenant_id=host.tenant_id, host_id=host.pk)
        return dict(runs.values_list("run_id", "event_count"))


def _events(logs: Iterable[Log]) -> Iterator[RunEvent | Refusal]:
    for log in logs:
        for index, text in enumerate(log.events):
            yield read_event(text, index=index, run_id=log.run_id)


def _recorded_logs(slug: str) -> Iterator[Log]:
    for file in sorted((RECORDINGS / slug).glob("*.ndjson")):
        # By the byte: a text may hold line separators of its own (U+2028).
        events = tuple(line for line in file.read_bytes().split(b"\n") if line)
        yield Log(json.loads(events[0])["runId"], events)


def _logs_of_the_other() -> Iterator[Log]:
    """Two runs whose every value says whose they are: should one ever show elsewhere, it would be seen."""
    for number, outcome in ((1, "run.completed"), (2, "run.failed")):
        mark = f"other-tenant-secret-{number}"
        node = f"{mark}-node"
        written = {
            "memoryRef": f"{mark}-memory",
            "memoryId": f"{mark}-entry",
            "nodeId": node,
            "agentId": f"{mark}-agent",
            "tags": [f"{mark}-tag"],
        }
        end = {"outputs": {}} if outcome == "run.completed" else {"error": {"code": mark, "message": mark}}
        told: list[tuple[str, str | None, Mapping[str, object]]] = [
            ("run.started", None, {"workflowId": f"{mark}-workflow"}),
            ("node.started", node, {"nodeId": node}),
            ("memory.written", node, written),
            ("node.completed", node, {"nodeId": node, "outputs": {"note": mark}}),
            (outcome, None, end),
        ]
        run_id = f"{mark}-run"
        yield Log(run_id, tuple(_event(run_id, at, *one) for at, one in enumerate(told)))


def _event(run_id: str, sequence: int, kind: str, node: str | None, payload: Mapping[str, object]) -> bytes:
    event = {
        "eventId": f"{run_id}-{sequence}",
        "runId": run_id,
        "sequence": sequence,
        "type": kind,
        "timestamp": f"2026-11-29T18:00:{sequence:02d}.000Z",
        "payload": payload,
    }
    return json.dumps(event | ({"nodeId": node} if node else {})).encode()
