"""Tables that are built when their module is loaded: built once more, they are the same.

Whatever breaks one of the functions that build them is seen here; the rules themselves are tested by what they read.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import pytest

from ledger.domain import extraction_patterns, units


def loaded_anew(module: ModuleType) -> ModuleType:
    """Under the same name, and without taking the place of the module that others have."""
    spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    before = sys.modules[module.__name__]
    sys.modules[module.__name__] = made  # dataclasses look their annotations up there
    try:
        spec.loader.exec_module(made)
    finally:
        sys.modules[module.__name__] = before
    return made


def plain(value: Any) -> Any:
    """Equal for equal tables, whichever load their classes come from."""
    if isinstance(value, re.Pattern):
        return value.pattern, value.flags
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return [(one.name, plain(getattr(value, one.name))) for one in fields(value)]
    if isinstance(value, Mapping):
        return [(plain(name), plain(member)) for name, member in value.items()]
    if isinstance(value, frozenset | set):
        return sorted(map(repr, map(plain, value)))
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


@pytest.mark.parametrize(
    ("module", "tables"),
    [
        (extraction_patterns, ("LANGUAGES", "TOPICS", "SPELLINGS", "CLAUSE", "ASSISTANTS_OWN")),
        (units, ("_SYMBOLS", "_WORDS")),
    ],
)
def test_a_table_that_is_built_anew_is_the_same(module: ModuleType, tables: tuple[str, ...]) -> None:
    made = loaded_anew(module)
    for table in tables:
        assert plain(getattr(made, table)) == plain(getattr(module, table)), table
        assert plain(getattr(module, table))
