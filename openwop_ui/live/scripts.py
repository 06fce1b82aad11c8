"""Which scripts a script asks for once it was read, so that a page can ask for all of them at once."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath

from django.contrib.staticfiles import finders

# `import x from "./y.js";`, with names or without, over several lines or not; `import("./y.js")` comes later or never.
_IMPORT = re.compile(r"""^import\s[^;"']*["']\./([\w./-]+\.js)["'];""", re.MULTILINE)


@cache
def imported_by(name: str) -> tuple[str, ...]:
    """The static names of what the module ``js/run.js`` needs, itself not among them, each once, as it is come upon."""
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        script = PurePosixPath(waiting.pop(0))
        for imported in _IMPORT.findall(_source(str(script))):
            needed = str(script.parent / imported)
            if needed != name and needed not in found:
                found[needed] = None
                waiting.append(needed)
    return tuple(found)


def _source(name: str) -> str:
    path = finders.find(name)
    if path is None:
        raise FileNotFoundError(f"no static file {name}")
    return Path(path).read_text("utf-8")
