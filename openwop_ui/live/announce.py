"""Tells the live pages that there is more, never what: a topic and perhaps how far it reaches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from django.db import connection

CHANNEL = "openwop_live"
LONGEST = 7_900
"""PostgreSQL takes notifications below 8,000 bytes."""


def announce(tenant_id: int, topics: Mapping[str, int | None]) -> None:
    """Heard when the surrounding transaction commits, and not at all when it does not.

    ``topics`` maps a topic (``runs``, ``ledger``, ``hosts``, ``run:<host>/<segment>``) to the sequence it reaches.
    """
    with connection.cursor() as cursor:
        for payload in _payloads(tenant_id, topics):
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])


def _payloads(tenant_id: int, topics: Mapping[str, int | None]) -> Iterator[str]:
    pending: dict[str, int | None] = {}
    size = 0
    for topic, through in topics.items():
        cost = len(topic.encode()) + 24
        if pending and size + cost > LONGEST - 64:
            yield _payload(tenant_id, pending)
            pending, size = {}, 0
        pending[topic] = through
        size += cost
    if pending:
        yield _payload(tenant_id, pending)


def _payload(tenant_id: int, topics: Mapping[str, int | None]) -> str:
    return json.dumps({"tenant": tenant_id, "topics": topics}, separators=(",", ":"))
