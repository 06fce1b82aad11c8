"""One socket per page. It hears which topics of its tenant moved, and asks nothing of the database but membership."""

from __future__ import annotations

import time
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from openwop_ui import metrics
from openwop_ui.tenancy.access import memberships_of

from .relay import group_of

MOST_TOPICS = 20
LONGEST_TOPIC = 4096
TRUSTED_FOR = 10.0
"""Seconds for which a checked membership counts; after that the next message checks it again."""

REFUSED = 4403
MALFORMED = 4400


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """The page sends ``{"tenant": slug, "topics": [...]}``, the server ``{"ready": true}`` and then
    ``{"topic": ..., "through": n}``.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with metrics.sockets.track_inprogress():
            await super().__call__(scope, receive, send)

    async def connect(self) -> None:
        self.groups_joined: set[str] = set()
        self.tenant_slug = ""
        self.tenant_id: int | None = None
        self.checked = 0.0
        await self.accept()
        if not self.scope["user"].is_authenticated:
            await self.close(REFUSED)

    async def disconnect(self, code: int) -> None:
        await self._leave()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        try:
            said = await self.decode_json(text_data) if text_data else None
        except ValueError:
            said = None
        wanted = _subscription(said)
        if wanted is None:
            await self.close(MALFORMED)
            return
        await self._subscribe(*wanted)

    async def _subscribe(self, tenant: str, topics: list[str]) -> None:
        await self._leave()
        self.tenant_slug, self.checked = tenant, 0.0
        if not await self._is_member():
            await self.close(REFUSED)
            return
        assert self.tenant_id is not None
        for topic in topics:
            group = group_of(self.tenant_id, topic)
            await self.channel_layer.group_add(group, self.channel_name)
            self.groups_joined.add(group)
        await self.send_json({"ready": True})

    async def live_notice(self, message: dict[str, Any]) -> None:
        if not await self._is_member():
            await self._leave()
            await self.close(REFUSED)
            return
        await self.send_json({"topic": message["topic"], "through": message["through"]})

    async def _is_member(self) -> bool:
        now = time.monotonic()
        if self.tenant_id is not None and now - self.checked < TRUSTED_FOR:
            return True
        self.tenant_id = await database_sync_to_async(self._tenant_of_member)()
        self.checked = now
        return self.tenant_id is not None

    def _tenant_of_member(self) -> int | None:
        session = self.scope["session"]
        # Logging out ends the session's row; the socket was opened with what it said then.
        if not session.session_key or not session.exists(session.session_key):
            return None
        for membership in memberships_of(self.scope["user"].pk):
            if membership.tenant.slug == self.tenant_slug:
                return membership.tenant_id
        return None

    async def _leave(self) -> None:
        for group in self.groups_joined:
            await self.channel_layer.group_discard(group, self.channel_name)
        self.groups_joined.clear()


def _subscription(said: Any) -> tuple[str, list[str]] | None:
    """(tenant, topics) of a well-formed message."""
    if not isinstance(said, dict):
        return None
    tenant, topics = said.get("tenant"), said.get("topics")
    if not isinstance(tenant, str) or not isinstance(topics, list) or len(topics) > MOST_TOPICS:
        return None
    if not all(isinstance(topic, str) and len(topic) <= LONGEST_TOPIC for topic in topics):
        return None
    return tenant, topics
