"""How a further copy of a known event stands to the one that is kept: hosts say more by one channel than by another."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from . import exact_json


def differ_by_node_alone(one: str, other: str) -> bool:
    """Whether two bodies of one event have the same payload, if the node that only one of them names is left aside."""
    return _payload_without_node(one) == _payload_without_node(other)


def labels_of(body: str) -> tuple[str | None, str | None, str | None]:
    """eventId, causationId and node, each None where the body names none."""
    members = _members(body)
    payload = members.get("payload", members.get("data"))
    inner = payload.get("nodeId") if isinstance(payload, dict) else None
    return _text(members.get("eventId")), _text(members.get("causationId")), _text(members.get("nodeId") or inner)


def _payload_without_node(body: str) -> bytes:
    members = _members(body)
    payload = members.get("payload", members.get("data"))
    if isinstance(payload, dict):
        payload = {name: value for name, value in payload.items() if name != "nodeId"}
    return exact_json.dumps(payload, sort_keys=True)


def _members(body: str) -> Mapping[str, object]:
    try:
        told = exact_json.loads(body)
    except exact_json.NotExact:
        told = orjson.loads(body)
    return told if isinstance(told, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
