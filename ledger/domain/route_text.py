"""How a host's memory is read, as the one text that is kept of it: a preset's name, or a route of its own as JSON."""

from __future__ import annotations

import json

from runs.domain.memory_read import PRESETS, BadRoute, MemoryRoute, custom_route

LONGEST = 2_000


def read_route(text: str) -> MemoryRoute | None:
    """None for "", and for a preset of a host that serves no memory. Raises BadRoute."""
    if not text:
        return None
    if text in PRESETS:
        return PRESETS[text]
    if len(text) > LONGEST:
        raise BadRoute(f"a route of more than {LONGEST} characters")
    return _of_its_own(text)


def _of_its_own(text: str) -> MemoryRoute:
    try:
        said = json.loads(text)
        list_path, entry_path, major = said["list"], said["entry"], said["major"]
        default_ref = said.get("ref")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadRoute("neither a preset nor a route") from None
    texts = (list_path, entry_path, *([] if default_ref is None else [default_ref]))
    if not all(isinstance(one, str) for one in texts) or major not in (1, 2) or isinstance(major, bool):
        raise BadRoute("neither a preset nor a route")
    return custom_route(list_path, entry_path, major=major, default_ref=default_ref)


def write_route(list_path: str, entry_path: str, *, major: int, ref: str = "") -> str:
    """The text of a route of a host's own. Raises BadRoute for one that can not be."""
    route = custom_route(list_path, entry_path, major=major, default_ref=ref or None)
    said = {"list": route.list_path, "entry": route.entry_path, "major": route.major}
    text = json.dumps(said | ({"ref": route.default_ref} if route.default_ref else {}))
    read_route(text)
    return text
