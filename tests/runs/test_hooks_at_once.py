"""Deliveries that other connections have to see: what is acknowledged, and the same one many times at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection, connections

from runs import hooks
from tests.factories import make_event, make_host, make_tenant
from tests.runs.test_hooks import NOW, again, deliver, subscribe

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture(autouse=True)
def at_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "clock", lambda: NOW)


def test_what_is_acknowledged_is_committed() -> None:
    tenant = make_tenant()
    hook = subscribe(make_host(tenant))
    assert deliver(hook, make_event(0)).status_code == 200
    told = connection.get_connection_params()
    told = {name: told[name] for name in ("host", "port", "user", "password", "dbname") if told.get(name)}
    with psycopg.connect(**told) as other:
        other.execute("SELECT set_config('openwop.tenant', %s, true)", [str(tenant.pk)])
        assert other.execute("SELECT count(*) FROM runs_event").fetchone() == (1,)
        assert other.execute("SELECT count(*) FROM runs_delivery").fetchone() == (1,)


def test_one_delivery_many_times_at_once_is_accepted_once() -> None:
    hook = subscribe(make_host(make_tenant()))

    def once(_: int) -> str:
        try:
            told: str = deliver(hook, make_event(0)).json()["outcome"]
            return told
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as threads:
        told = sorted(threads.map(once, range(12)))
    assert told == ["accepted", *["repeated"] * 11]
    assert again(hook).accepted_count == 12
