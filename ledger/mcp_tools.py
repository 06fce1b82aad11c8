"""What agents may ask for over MCP. Each tool is a door: it maps its arguments to the same reads and writes as REST."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from openwop_ui.tenancy.keys import Caller
from openwop_ui.tenancy.models import Scope


@dataclass(frozen=True)
class Tool:
    """``arguments`` is a struct that says what may be given; a call gets the caller and one of it."""

    name: str
    title: str
    description: str
    scope: Scope
    arguments: type[msgspec.Struct]
    output_schema: dict[str, Any]
    call: Callable[[Caller, Any], dict[str, Any]]
    writes: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        schema, components = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        name = schema[0]["$ref"].rpartition("/")[2]
        return {**components.pop(name), **({"$defs": components} if components else {})}


TOOLS: tuple[Tool, ...] = ()
