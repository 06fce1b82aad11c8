"""The members of a stored event's payload as their own JSON text, digit for digit."""

from __future__ import annotations

import msgspec

from runs.domain import exact_json


class _Envelope(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)


def payload_bytes(body: str) -> bytes:
    """The JSON text of a stored event's payload, empty where it has none. Some hosts call it `data`."""
    try:
        envelope = _ENVELOPE.decode(body)
    except msgspec.DecodeError:
        # It takes no lone surrogates. The exact reader does, and only forgets the white space.
        members = _exact(body)
        payload, data = members.get("payload", "").encode(), members.get("data", "").encode()
    else:
        payload, data = bytes(envelope.payload), bytes(envelope.data)
    return data if data and payload in (b"", b"null") else payload


def payload_of_text(body: str) -> str:
    """The same as text."""
    return payload_bytes(body).decode()


def member_texts(body: str) -> dict[str, str]:
    """The payload's members by name; none where the payload is no object."""
    payload = payload_of_text(body)
    if not payload.lstrip().startswith("{"):
        return {}
    return object_texts(payload)


def object_texts(text: str) -> dict[str, str]:
    """The members of a JSON object by name; none for any other value."""
    try:
        return {name: bytes(raw).decode() for name, raw in _MEMBERS.decode(text).items()}
    except msgspec.DecodeError:
        return _exact(text)


def string_in(text: str | None) -> str | None:
    """The string that a JSON text is, None for any other value."""
    if not text or not text.lstrip().startswith('"'):
        return None
    try:
        return _STRING.decode(text)
    except msgspec.DecodeError:
        value = exact_json.loads(text)
        return value if isinstance(value, str) else None


def _exact(text: str) -> dict[str, str]:
    try:
        value = exact_json.loads(text)
    except exact_json.NotExact:
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: exact_json.dumps(member).decode() for name, member in value.items()}
