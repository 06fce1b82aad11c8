"""Text that PostgreSQL can hold: NUL and lone surrogates, which it refuses, written losslessly.

An escape is U+E000 and the code unit as four lower-case hex digits; U+E000 itself is escaped the same way.
"""

import re

_ESCAPE = "\ue000"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff\ue000]")
_ESCAPED = re.compile(f"{_ESCAPE}(0000|d[89a-f][0-9a-f]{{2}}|e000)")


def storable(text: str) -> str:
    return _UNSTORABLE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def needs_escapes(json: str) -> bool:
    """Whether a text that was read from this JSON may be one that `storable` changes; False is certain."""
    return "\\" in json or _ESCAPE in json


def original(text: str) -> str:
    """The inverse of `storable`."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
