"""A protocol id as one path segment, and back.

Every UTF-8 byte outside `A-Za-z0-9._-` becomes `~HH` with upper hex digits (RFC 0184), once only. One addition: a
segment made of nothing but dots has its dots written as `~2E`, because every URL parser removes the segments `.` and
`..` (RFC 3986 section 5.2.4). A lone surrogate, which JSON can carry and UTF-8 cannot, is written as the three bytes
that UTF-8 would give its code point, so that any id has a segment.
"""

import re

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_PROJECTED = tuple(chr(byte) if byte in _PLAIN else f"~{byte:02X}" for byte in range(256))
_ALREADY_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._-]|~[0-9A-F]{2})+")
_ESCAPE = re.compile(rb"~([0-9A-F]{2})")


def project(identifier: str) -> str:
    """Raises ValueError for an empty id, which has no segment."""
    if not identifier:
        raise ValueError("an empty id has no path segment")
    if not identifier.strip("."):
        return "~2E" * len(identifier)
    if _ALREADY_PLAIN.fullmatch(identifier):
        return identifier
    return "".join(map(_PROJECTED.__getitem__, identifier.encode("utf-8", "surrogatepass")))


def unproject(segment: str) -> str:
    """The id whose projection is `segment`; ValueError when there is none, so that an id has one address only."""
    if not _SEGMENT.fullmatch(segment):
        raise ValueError(f"not a projected id: {segment!r}")
    raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), segment.encode())
    try:
        identifier = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise ValueError(f"not the projection of a text: {segment!r}") from None
    if project(identifier) != segment:
        raise ValueError(f"not the canonical projection of an id: {segment!r}")
    return identifier
