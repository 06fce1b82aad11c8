"""The live socket: who may listen, and that it hears its own tenant's changes and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.layers import channel_layers
from django.db import connection
from django.test import Client

from openwop_ui import metrics
from openwop_ui.asgi import application
from openwop_ui.live import consumer, relay
from openwop_ui.live.announce import announce
from openwop_ui.tenancy.models import Membership, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import make_event, make_host, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.usefixtures("transactional_db")

REFUSED, MALFORMED = 4403, 4400


@pytest.fixture(autouse=True)
def _fresh_layer() -> None:
    channel_layers.backends.clear()  # its queues belong to the loop of one test


async def in_thread(do: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Committed on a connection of its own, as by another process."""

    def done() -> Any:
        try:
            return do(*args, **kwargs)
        finally:
            connection.close()

    return await asyncio.to_thread(done)


def cookie_of(tenant: Tenant, name: str) -> str:
    browser = Client()
    browser.force_login(make_member(tenant, name))
    return browser.cookies["openwop_session"].value


class Page:
    """A browser's end of a socket. (The one that comes with channels wants another server to be installed.)"""

    def __init__(self, cookie: str, origin: str) -> None:
        headers = {"host": "localhost", "origin": origin, "cookie": f"openwop_session={cookie}"}
        scope = {
            "type": "websocket",
            "path": "/ws/",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocols": [],
        }
        self.wire: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]

    async def connect(self) -> bool:
        await self.wire.send_input({"type": "websocket.connect"})
        answer = await self.wire.receive_output(timeout=5)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, text: str) -> None:
        await self.wire.send_input({"type": "websocket.receive", "text": text})

    async def subscribe(self, tenant: str, *topics: str) -> None:
        await self.say(json.dumps({"tenant": tenant, "topics": topics}))

    async def heard(self) -> Any:
        message = await self.wire.receive_output(timeout=5)
        assert message["type"] == "websocket.send"
        return json.loads(message["text"])

    async def closed_with(self) -> int:
        message = await self.wire.receive_output(timeout=5)
        assert message["type"] == "websocket.close"
        return int(message["code"])

    async def leave(self) -> None:
        await self.wire.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.wire.wait(timeout=5)

    async def hears_nothing(self, seconds: float = 0.3) -> bool:
        return bool(await self.wire.receive_nothing(timeout=seconds))


@asynccontextmanager
async def socket(cookie: str = "", origin: str = "http://localhost") -> AsyncIterator[Page]:
    page = Page(cookie, origin)
    try:
        yield page
    finally:
        await page.leave()


@asynccontextmanager
async def listening(cookie: str, tenant: str, *topics: str) -> AsyncIterator[Page]:
    async with socket(cookie) as page:
        assert await page.connect()
        await page.subscribe(tenant, *topics)
        assert await page.heard() == {"ready": True}
        yield page


@asynccontextmanager
async def relaying() -> AsyncIterator[None]:
    task = asyncio.create_task(relay.relay_forever())
    try:
        await relay_is(connected=True)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def relay_is(*, connected: bool) -> None:
    async with asyncio.timeout(5):
        while relay.state["connected"] is not connected:
            await asyncio.sleep(0.01)


async def test_a_stranger_is_refused() -> None:
    async with socket() as page:
        await page.connect()
        assert await page.closed_with() == REFUSED


async def test_a_page_of_another_site_does_not_get_in() -> None:
    cookie = await in_thread(lambda: cookie_of(make_tenant(), "vera"))
    async with socket(cookie, origin="https://evil.example") as page:
        assert await page.connect() is False


async def test_a_tenant_of_others_and_one_that_does_not_exist_are_refused_alike() -> None:
    cookie = await in_thread(lambda: cookie_of(make_tenant("globex"), "oscar"))
    await in_thread(make_tenant, "acme")
    for tenant in ("acme", "none"):
        async with socket(cookie) as page:
            await page.connect()
            await page.subscribe(tenant, "runs")
            assert await page.closed_with() == REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "null",
        '{"tenant": "acme"}',
        '{"tenant": 1, "topics": []}',
        '{"tenant": "acme", "topics": "runs"}',
        '{"tenant": "acme", "topics": [1]}',
        '{"tenant": "acme", "topics": [' + ",".join(['"runs"'] * 21) + "]}",
        '{"tenant": "acme", "topics": ["' + "x" * 5000 + '"]}',
    ],
)
async def test_a_message_that_makes_no_sense_closes_the_socket(text: str) -> None:
    cookie = await in_thread(lambda: cookie_of(make_tenant(), "vera"))
    async with socket(cookie) as page:
        await page.connect()
        await page.say(text)
        assert await page.closed_with() == MALFORMED


async def test_a_page_hears_that_a_committed_intake_moved_its_topics_and_no_more() -> None:
    tenant, host, cookie = await in_thread(_acme)
    async with relaying(), listening(cookie, "acme", "runs", "run:alpha/run-1") as page:
        await in_thread(take, host, make_log())
        heard = [await page.heard() for _ in range(2)]
        assert {message["topic"]: message["through"] for message in heard} == {"runs": None, "run:alpha/run-1": 7}
        assert all(message.keys() == {"topic", "through"} for message in heard)
        assert await page.hears_nothing()
        # Known already: nothing moved.
        await in_thread(take, host, make_log())
        assert await page.hears_nothing()
        await in_thread(take, host, [make_event(9)])
        heard = [await page.heard() for _ in range(2)]
        assert {"topic": "run:alpha/run-1", "through": 9} in heard


def _acme() -> tuple[Tenant, Host, str]:
    tenant = make_tenant("acme")
    return tenant, make_host(tenant), cookie_of(tenant, "vera")


async def test_a_page_hears_nothing_of_another_tenant_whose_hosts_and_runs_have_the_same_names() -> None:
    _, host, cookie = await in_thread(_acme)
    other = await in_thread(lambda: make_host(make_tenant("globex")))
    async with relaying(), listening(cookie, "acme", "runs", "ledger", "hosts", "run:alpha/run-1") as page:
        leak = make_event(0, "memory.written", payload={"memoryRef": "m", "memoryId": "i", "content": "x"})
        await in_thread(take, other, [leak, *make_log()[1:]])
        assert await page.hears_nothing(0.5)
        # A positive control: it does hear.
        await in_thread(take, host, make_log())
        assert (await page.heard()).keys() == {"topic", "through"}


async def test_what_is_rolled_back_is_not_announced() -> None:
    tenant, host, cookie = await in_thread(_acme)

    def rolled_back() -> None:
        with suppress(ZeroDivisionError), tenant_scope(tenant.pk):
            announce(tenant.pk, {"runs": None})
            raise ZeroDivisionError

    async with relaying(), listening(cookie, "acme", "runs") as page:
        await in_thread(rolled_back)
        assert await page.hears_nothing()


async def test_a_new_subscription_replaces_the_one_before() -> None:
    _, host, cookie = await in_thread(_acme)
    async with relaying(), listening(cookie, "acme", "runs") as page:
        await page.subscribe("acme", "hosts")
        assert await page.heard() == {"ready": True}
        await in_thread(take, host, make_log())
        assert await page.hears_nothing(0.4)


@pytest.mark.parametrize("ending", ["membership", "session"])
async def test_a_page_stops_hearing_when_its_user_may_no_longer(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "TRUSTED_FOR", 0.0)
    tenant, host, cookie = await in_thread(_acme)

    def end() -> None:
        if ending == "membership":
            with tenant_scope(tenant.pk):
                Membership.objects.all().delete()
        else:
            browser = Client()
            browser.cookies["openwop_session"] = cookie
            assert browser.post("/logout").status_code == 302

    async with relaying(), listening(cookie, "acme", "runs") as page:
        await in_thread(end)
        await in_thread(take, host, make_log())
        assert await page.closed_with() == REFUSED


async def test_many_changes_come_as_few_messages() -> None:
    _, host, cookie = await in_thread(_acme)

    def many() -> None:
        for number in range(30):
            take(host, [make_event(number)])

    async with relaying(), listening(cookie, "acme", "run:alpha/run-1") as page:
        began = asyncio.get_running_loop().time()
        await in_thread(many)
        heard: list[int] = []
        while not heard or heard[-1] != 29:
            heard.append((await page.heard())["through"])
        seconds = asyncio.get_running_loop().time() - began
    assert heard == sorted(heard)
    assert len(heard) <= seconds / relay.EVERY + 2


async def test_open_sockets_are_counted() -> None:
    cookie = await in_thread(lambda: cookie_of(make_tenant(), "vera"))
    before = metrics.REGISTRY.get_sample_value("openwop_sockets_open")
    assert before is not None
    async with listening(cookie, "acme", "runs"):
        assert metrics.REGISTRY.get_sample_value("openwop_sockets_open") == before + 1
    assert metrics.REGISTRY.get_sample_value("openwop_sockets_open") == before


async def test_the_relay_comes_back_when_its_connection_is_cut() -> None:
    _, host, cookie = await in_thread(_acme)

    def cut() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'openwop-ui relay' AND datname = current_database()"
            )

    async with relaying(), listening(cookie, "acme", "runs") as page:
        await in_thread(cut)
        await relay_is(connected=False)
        await relay_is(connected=True)
        await in_thread(take, host, make_log())
        assert (await page.heard())["topic"] == "runs"
