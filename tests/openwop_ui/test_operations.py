"""What machines ask: alive, ready, counted. And nothing in it that belongs to a tenant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from openwop_ui import metrics, operations
from openwop_ui.live import relay
from openwop_ui.tenancy import checks
from tests.factories import as_ndjson, bearer, make_event, make_host, make_key, make_log, make_member, make_tenant

THROUGH_ASGI: dict[str, Any] = {"asgi.scope": {"type": "http"}}


def ready(**environ: Any) -> Any:
    return Client().get("/readyz", **environ)


@contextmanager
def as_role(attribute: str) -> Iterator[None]:
    """What the database says of the application's role, as if it had the attribute."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY VIEW pg_roles AS SELECT rolname,"
            " %s = 'superuser' AS rolsuper, %s = 'bypassrls' AS rolbypassrls FROM pg_catalog.pg_roles",
            [attribute, attribute],
        )
        # The system catalog comes first in any search path that does not name it.
        cursor.execute("SET search_path = pg_temp, public, pg_catalog")
        yield
        cursor.execute("RESET search_path")
        cursor.execute("DROP VIEW pg_temp.pg_roles")


def test_alive_asks_nothing_of_the_database() -> None:
    # Without the mark for it, a test that touches the database fails.
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"alive": True})
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.django_db
def test_ready_when_everything_is() -> None:
    answer = ready()
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "checks": {name: {"ok": True, "message": "ok"} for name in ("database", "migrations", "role")},
    }


@pytest.mark.django_db
@pytest.mark.parametrize(("connected", "status"), [(True, 200), (False, 503)])
def test_the_web_process_is_ready_when_its_relay_is(
    monkeypatch: pytest.MonkeyPatch, connected: bool, status: int
) -> None:
    monkeypatch.setitem(relay.state, "connected", connected)
    answer = ready(**THROUGH_ASGI)
    assert answer.status_code == status
    assert answer.json()["checks"]["relay"]["ok"] is connected


@pytest.mark.django_db
def test_with_a_shared_channel_layer_another_process_may_be_the_one_that_relays(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setitem(relay.state, "connected", False)
    settings.CHANNEL_LAYER_URL = "redis://localhost"
    assert ready(**THROUGH_ASGI).status_code == 200


@pytest.mark.django_db
def test_not_ready_while_a_migration_is_missing() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'runs' AND name = '0001_log'")
    answer = ready()
    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    assert answer.json()["checks"]["migrations"] == {"ok": False, "message": "Not applied: runs.0001_log."}
    assert answer.json()["checks"]["database"]["ok"] is True


def test_not_ready_without_the_database_and_its_address_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("connection to server at 10.0.0.1 failed")

    for check in ("_database_problem", "_migration_problem", "role_problem"):
        monkeypatch.setattr(operations, check, away)
    answer = ready()
    assert answer.status_code == 503
    assert {name for name, check in answer.json()["checks"].items() if not check["ok"]} == {
        "database",
        "migrations",
        "role",
    }
    assert b"10.0.0.1" not in answer.content


@pytest.mark.django_db
@pytest.mark.parametrize(("attribute", "word"), [("superuser", "superuser"), ("bypassrls", "BYPASSRLS")])
def test_not_ready_under_a_role_that_row_security_does_not_bind(attribute: str, word: str) -> None:
    assert checks.role_problem() is None
    assert run_checks(databases=["default"], tags=["database"]) == []
    with as_role(attribute):
        answer = ready()
        problems = run_checks(databases=["default"], tags=["database"])
    assert answer.status_code == 503
    assert word in answer.json()["checks"]["role"]["message"]
    assert [problem.id for problem in problems] == ["tenancy.C001"]
    assert word in problems[0].msg


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/schemas/", "/schemas/receipt.json"])
def test_they_are_only_read(path: str) -> None:
    assert Client().post(path).status_code == 405


def sample(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.django_db
def test_events_batches_and_requests_are_counted() -> None:
    tenant = make_tenant()
    make_host(tenant)
    api = Client(headers=bearer(make_key(tenant)))

    def counted() -> dict[str, float]:
        return {
            **{name: sample("openwop_events_total", outcome=name) for name in ("accepted", "repeated", "refused")},
            "batches": sample("openwop_intake_batch_seconds_count"),
            "pushes": sample("openwop_requests_total", view="v1:push_events", method="POST", status="200"),
        }

    before = counted()
    for _ in range(2):
        api.post("/v1/hosts/alpha/events", as_ndjson(make_log()) + b"{}\n", content_type="application/x-ndjson")
    assert {name: count - before[name] for name, count in counted().items()} == {
        "accepted": 8,
        "repeated": 8,
        "refused": 2,
        "batches": 2,
        "pushes": 2,
    }


@pytest.mark.django_db
def test_a_batch_is_timed_from_its_last_event_to_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    from runs import doors
    from runs.store import intake, ref

    clock = iter(range(0, 1000, 7))
    monkeypatch.setattr(intake, "perf_counter", lambda: float(next(clock)))
    before = sample("openwop_intake_batch_seconds_sum")
    body = as_ndjson([make_event(number) for number in range(5)])
    doors.take(ref(make_host(make_tenant())), doors.read_items([body], content_type=doors.NDJSON))
    # However long the five events took to come.
    assert sample("openwop_intake_batch_seconds_sum") - before == 7.0


@pytest.mark.django_db
def test_what_is_counted_names_no_tenant_and_is_readable_for_prometheus() -> None:
    tenant = make_tenant("canary-tenant")
    browser = Client()
    browser.force_login(make_member(tenant, "canary-user"))
    make_host(tenant, "canary-host")
    api = Client(headers=bearer(make_key(tenant, name="canary-key")))
    api.post("/v1/hosts/canary-host/events", as_ndjson(make_log("canary-run")), content_type="application/x-ndjson")
    api.get("/v1/hosts/canary-host/runs/canary-run")
    api.generic("CANARY", "/canary")
    browser.get("/t/canary-tenant/runs/canary-host/canary-run")
    text = Client().get("/metrics").content.decode()
    assert "canary" not in text.lower()
    names = {family.name for family in text_string_to_metric_families(text)}
    assert names >= {
        "openwop_events",
        "openwop_intake_batch_seconds",
        "openwop_requests",
        "openwop_request_seconds",
        "openwop_sockets_open",
        "openwop_relay_connected",
    }
    assert 'view="runs:run",method="GET",status="200"' in text or 'method="GET",status="200",view="runs:run"' in text


def test_a_method_that_nobody_knows_makes_no_series_of_its_own() -> None:
    Client().generic("BREW", "/healthz")
    assert "BREW" not in Client().get("/metrics").content.decode()
