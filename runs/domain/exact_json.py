"""JSON read without losing anything, for the texts that a fast parser cannot prove it read whole.

Numbers keep their literal (64-bit integers, `1e5`, `-0` and `1.10` come out as they went in), a name that appears
twice is an error instead of a silent choice (RFC 8259 section 4), and nothing that RFC 8259 does not know, such as
NaN, is accepted. Slower than orjson by an order of magnitude.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from json import JSONDecodeError, JSONDecoder
from typing import NoReturn

import orjson

MAX_DEPTH = 256

Step = str | int
Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A number as its literal text; `1.0` and `1` are different."""

    literal: str


class NotExact(ValueError):
    """The text is not JSON that can be kept without loss. The tree below says why.

    NotExact
     ├ Malformed
     ├ NotANumber
     ├ TooDeep
     └ DuplicateName
    """


class Malformed(NotExact):
    def __init__(self, complaint: str, position: int) -> None:
        super().__init__(f"broken JSON at character {position}: {complaint}")
        self.position = position


class NotANumber(NotExact):
    def __init__(self, literal: str) -> None:
        super().__init__(f"{literal} is not a JSON value")


class TooDeep(NotExact):
    def __init__(self) -> None:
        super().__init__(f"nested deeper than MAX_DEPTH ({MAX_DEPTH} levels)")


class DuplicateName(NotExact):
    """`path` is the JSON pointer of the object in which `name` appears more than once."""

    def __init__(self, name: str, path: str) -> None:
        where = f"in {path}" if path else "at the top level"
        super().__init__(f"the name {shown(name)} appears twice {where}")
        self.name = name
        self.path = path


def shown(name: str) -> str:
    """A name from outside, fit for a message: quoted, escaped and no longer than 64 characters."""
    return ascii(name if len(name) <= 64 else name[:63] + "…")


def pointer(path: Path) -> str:
    """RFC 6901."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def loads(text: str) -> object:
    """dict, list, str, bool, None and Number. A byte order mark at the start is passed over (RFC 8259 section 8.1)."""
    repeated: list[tuple[dict[str, object], str]] = []
    decoder = JSONDecoder(
        object_pairs_hook=partial(_members, repeated),
        parse_int=Number,
        parse_float=Number,
        parse_constant=_refuse_constant,
    )
    try:
        value = decoder.decode(text.removeprefix("\ufeff"))
    except JSONDecodeError as error:
        raise Malformed(error.msg, error.pos) from None
    except RecursionError:
        raise TooDeep from None
    _check_depth(value)
    if repeated:
        # The last one found is the outermost or the latest, so no later duplicate can have dropped it.
        holder, name = repeated[-1]
        raise DuplicateName(name, pointer(_path_of(holder, value)))
    return value


def _members(repeated: list[tuple[dict[str, object], str]], pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        repeated.append((members, name))
    return members


def _refuse_constant(literal: str) -> NoReturn:
    raise NotANumber(literal)


def _children(value: object) -> Iterator[tuple[Step, object]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for holder in level for _, child in _children(holder)]
        level = [child for child in level if isinstance(child, dict | list)]
        if not level:
            return
    raise TooDeep


def _path_of(wanted: object, root: object) -> Path:
    pending: list[tuple[Path, object]] = [((), root)]
    while pending:
        path, value = pending.pop()
        if value is wanted:
            return path
        pending.extend(((*path, step), child) for step, child in _children(value))
    raise LookupError("not part of the document")


# Number is a dataclass, which orjson would write as an object.
_AS_THEY_COME = orjson.OPT_PASSTHROUGH_DATACLASS
_SORTED = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SORT_KEYS


def dumps(value: object, *, sort_keys: bool = False) -> bytes:
    """Compact JSON with the literals as they were read.

    For values without Number it is what orjson writes, byte for byte; names are sorted by code point. A lone
    surrogate, which UTF-8 cannot express, is written as an escape with lower-case digits.
    """
    try:
        return orjson.dumps(value, default=_literal, option=_SORTED if sort_keys else _AS_THEY_COME)
    except TypeError:  # a lone surrogate, or deeper than orjson goes
        return "".join(_tokens(value, sort_keys)).encode()


def _literal(value: object) -> orjson.Fragment:
    if isinstance(value, Number):
        return orjson.Fragment(value.literal)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _tokens(value: object, sort_keys: bool) -> Iterator[str]:
    if isinstance(value, str):
        yield _quoted(value)
    elif isinstance(value, dict):
        members = sorted(value.items(), key=_name) if sort_keys else value.items()
        for opening, (name, member) in zip(chain("{", repeat(",")), members, strict=False):
            yield f"{opening}{_quoted(name)}:"
            yield from _tokens(member, sort_keys)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for opening, element in zip(chain("[", repeat(",")), value, strict=False):
            yield opening
            yield from _tokens(element, sort_keys)
        yield "]" if value else "[]"
    elif isinstance(value, Number):
        yield value.literal
    else:
        yield orjson.dumps(value).decode()


def _name(member: tuple[str, object]) -> str:
    return member[0]


_SURROGATE = re.compile("([\ud800-\udfff])")


def _quoted(text: str) -> str:
    # Every second piece is what the group caught.
    pieces = [
        f"\\u{ord(piece):04x}" if index % 2 else orjson.dumps(piece).decode()[1:-1]
        for index, piece in enumerate(_SURROGATE.split(text))
    ]
    return f'"{"".join(pieces)}"'


@dataclass(frozen=True, slots=True)
class Edit:
    """JSON text to put in place of a value, and a new name for the member that holds it; None keeps either."""

    value: str | None = None
    name: str | None = None


_SPACE = re.compile(r"[ \t\r\n]*")


def splice(text: str, edits: Mapping[Path, Edit]) -> str:
    """`text` with the edits made and every other character as it was. `text` is valid JSON."""
    splicer = _Splicer(text, edits)
    splicer.value((), _past_space(text, 0))
    return splicer.result()


class _Splicer:
    def __init__(self, text: str, edits: Mapping[Path, Edit]) -> None:
        self._text = text
        self._edits = edits
        self._holders = {path[:length] for path in edits for length in range(len(path))}
        self._skip = JSONDecoder(parse_int=Number, parse_float=Number).raw_decode
        self._pieces: list[str] = []
        self._copied = 0

    def result(self) -> str:
        return "".join((*self._pieces, self._text[self._copied :]))

    def value(self, path: Path, start: int) -> int:
        """Copies or replaces the value that starts at `start`; answers where it ends."""
        edit = self._edits.get(path)
        if edit is not None and edit.value is not None:
            _, end = self._skip(self._text, start)
            self._replace(start, end, edit.value)
            return end
        if path in self._holders and self._text[start] == "{":
            return self._object(path, start)
        if path in self._holders and self._text[start] == "[":
            return self._array(path, start)
        return self._skip(self._text, start)[1]

    def _object(self, path: Path, start: int) -> int:
        position = _past_space(self._text, start + 1)
        while self._text[position] != "}":
            name, end = self._skip(self._text, position)
            edit = self._edits.get((*path, name))
            if edit is not None and edit.name is not None:
                self._replace(position, end, edit.name)
            colon = _past_space(self._text, end)
            position = self._next(self.value((*path, name), _past_space(self._text, colon + 1)))
        return position + 1

    def _array(self, path: Path, start: int) -> int:
        position = _past_space(self._text, start + 1)
        index = 0
        while self._text[position] != "]":
            position = self._next(self.value((*path, index), position))
            index += 1
        return position + 1

    def _next(self, position: int) -> int:
        """Past the comma, if there is one, to the next name, value or closing bracket."""
        position = _past_space(self._text, position)
        return _past_space(self._text, position + 1) if self._text[position] == "," else position

    def _replace(self, start: int, end: int, replacement: str) -> None:
        self._pieces += (self._text[self._copied : start], replacement)
        self._copied = end


def _past_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position
