"""How single values look on every page: ids, times, sizes, statuses and text that nobody vetted."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

# Formatting and control characters, line and paragraph separators, lone surrogates, private use:
# none of them shows, and some of them change how their neighbours do.
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Co"})
# Scripts and emoji need the two joiners; prose has line breaks and tabs.
_FINE_IN_PROSE = frozenset("\n\t\u200c\u200d")
# The joiner inside of an emoji is how the emoji is spelled.
_JOINED = re.compile("(?<=[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f])\u200d(?=[\U0001f000-\U0001faff\u2600-\u27bf])")
# HTML has no way to say these, so they travel as JSON.
_UNSENDABLE = frozenset({"Cc", "Cs"})

_OPAQUE_LIMIT = 14
_NAME_LIMIT = 30

_STATUS_HUES = {
    "ok": ("ok", "completed", "succeeded", "stored", "following", "confirmed"),
    "fail": ("fail", "failed", "error", "failing", "deleted", "erased", "dead-lettered", "timed-out", "refused"),
    "wait": ("wait", "paused", "reconnecting", "expired", "waiting", "suspended"),
    "live": ("live", "running", "pending", "cancelling", "queued", "resuming", "started"),
    "cancelled": ("cancelled", "interrupted", "skipped"),
    "neutral": ("idle", "announced", "delivers", "requested"),
}
_HUE_OF = {word: hue for hue, words in _STATUS_HUES.items() for word in words}

# On a grid of ten by ten, drawn with `currentColor`. Each status has its own outline, so that none is told
# by hue alone.
_SHAPES = {
    "ok": '<path class="l" d="M1.5 5.3 4 7.8l4.6-5.4"/>',
    "fail": '<path class="l" d="m2 2 6 6M8 2 2 8"/>',
    "wait": '<circle class="l" cx="5" cy="5" r="3.6"/><path d="M5 1.4a3.6 3.6 0 0 1 0 7.2z"/>',
    "live": '<circle cx="5" cy="5" r="4"/>',
    "cancelled": '<circle class="l" cx="5" cy="5" r="3.6"/><path class="l" d="M2.5 7.5l5-5"/>',
    "unknown": '<circle class="l" cx="5" cy="5" r="3.6" stroke-dasharray="1.8 1.4"/>',
    "neutral": '<circle class="l" cx="5" cy="5" r="3.6"/>',
    "memory": '<path d="m5 .4 4.6 4.6L5 9.6.4 5z"/>',
    "warn": '<path class="l" d="M5 1.2 9.2 8.8H.8z"/><path class="l" d="M5 4v2.2M5 7.4v.2"/>',
    "backwards": '<path class="l" d="M9 3H2M4 1 2 3l2 2M9 8H5"/>',
    "copy": '<path class="l" d="M3.5 3.5v-2h5v5h-2m-5-3h5v5h-5z"/>',
    "more": '<path class="l" d="m2 3.5 3 3 3-3"/>',
    "older": '<path class="l" d="M6.5 2l-3 3 3 3"/>',
    "newer": '<path class="l" d="M3.5 2l3 3-3 3"/>',
    "menu": '<path class="l" d="M1 2.5h8M1 5h8M1 7.5h8"/>',
    "search": '<circle class="l" cx="4.2" cy="4.2" r="2.9"/><path class="l" d="m6.4 6.4 2.8 2.8"/>',
    "theme": '<circle class="l" cx="5" cy="5" r="3.8"/><path d="M5 1.2a3.8 3.8 0 0 1 0 7.6z"/>',
    "file": '<path class="l" d="M2 1h4l2.2 2.2V9H2zM6 1v2.4h2"/>',
}


@register.filter
def sendable(text: str) -> str:
    """A value of a form. Neither a page nor a form can carry a lone surrogate, which has no UTF-8 form."""
    return text.encode("utf-8", "replace").decode()


@register.filter
def as_query(text: str) -> str:
    """A value for a query string. A lone surrogate has no UTF-8 form: the link is there, and finds nothing."""
    return quote(text, safe="", errors="replace")


@register.filter
def count(value: int | None) -> str:
    """12408 → ``12,408``; an unknown count is a dash, never a zero."""
    return "–" if value is None else f"{value:,}"


@register.filter
def binary(value: int | None) -> str:
    """Bytes in binary units: 1200 → ``1.2 KiB``."""
    if value is None:
        return "–"
    size, unit = float(value), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{value} B" if unit == "B" else f"{size:.1f} {unit}"


@register.filter
def duration(value: float | timedelta | None) -> str:
    """Seconds (or a timedelta) to three figures and the two largest units."""
    if value is None:
        return "–"
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds else "0 s"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


@register.filter
def lasted(started: datetime | None, ended: datetime | None) -> str:
    """``started|lasted:ended``."""
    return "–" if started is None or ended is None else duration(ended - started)


@register.filter
def hue(status: str) -> str:
    """The status hue of a status word; words we have never heard are ``unknown``."""
    word = str(status).lower().replace("_", "-")
    return "wait" if word.startswith("waiting") else _HUE_OF.get(word, "unknown")


# What contradicts the protocol or itself; the other incidents are of the kind that may yet mend itself.
_GRAVE = ("leak", "changed", "contradict", "foreign", "fail")


@register.filter
def incident_hue(kind: str) -> str:
    return "fail" if any(word in kind for word in _GRAVE) else "wait"


@register.filter
def words(status: str) -> str:
    """``waiting-approval`` → ``waiting approval``."""
    return str(status).replace("-", " ").replace("_", " ")


def _is_hidden(char: str, fine: frozenset[str] = frozenset()) -> bool:
    return char not in fine and unicodedata.category(char) in _INVISIBLE


def _marked(text: str, fine: frozenset[str] = frozenset()) -> Iterator[tuple[str, bool]]:
    """Each character with whether it hides."""
    joiners = {match.start() for match in _JOINED.finditer(text)}
    return ((char, at not in joiners and _is_hidden(char, fine)) for at, char in enumerate(text))


def _spelled(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\u{{{code:X}}}"


def _as_escape(char: str) -> str:
    title = f"U+{ord(char):04X} {unicodedata.name(char, '')}".rstrip()
    return f'<span class="esc" title="{title}">{_spelled(char)}</span>'


def _visible(text: str, *, fine: frozenset[str] = frozenset()) -> SafeString:
    if text.isascii() and text.isprintable():
        return escape(text)
    parts = (_as_escape(c) if hides else escape(c) for c, hides in _marked(text, fine))
    return mark_safe("".join(parts))


def _plain(text: str, *, fine: frozenset[str] = frozenset()) -> str:
    """The same for an attribute, where no markup can be."""
    return "".join(_spelled(c) if hides else c for c, hides in _marked(text, fine))


@register.filter
def visible(value: object) -> SafeString:
    """Any text from outside, on one line: escaped, isolated in direction, with what hides made visible."""
    return format_html("<bdi>{}</bdi>", _visible(str(value)))


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


@register.filter
def json_text(value: str) -> str:
    """JSON text that means the same, with what hides inside of its strings written as escapes."""
    if value.isascii():
        return value
    return "".join(_json_escape(c) if c not in "\n\r\t" and _is_hidden(c) else c for c in value)


@register.filter
def prose(value: object) -> SafeString:
    """The same for text that has lines: memory content."""
    return format_html('<bdi class="prose">{}</bdi>', _visible(str(value), fine=_FINE_IN_PROSE))


@register.filter
def inert(value: object) -> str:
    """The same for attributes (``title``, ``aria-label``); the template engine escapes the rest."""
    return _plain(str(value))


def _shorten(text: str, limit: int) -> str:
    """Keeps both ends; never starts the tail with a mark that belongs to the letter before it."""
    if len(text) <= limit + 2:
        return text
    head = (limit + 1) * 6 // 10
    tail = len(text) - (limit - 1 - head)
    while tail < len(text) and (unicodedata.combining(text[tail]) or text[tail] == "\u200d"):
        tail += 1
    return f"{text[:head]}…{text[tail:]}"


@register.filter
def short(value: object, limit: int = _OPAQUE_LIMIT) -> SafeString:
    """An id shortened in its middle. The whole of it belongs into a ``title`` beside this."""
    text = str(value)
    cut = _shorten(text, limit)
    return format_html("<bdi>{}</bdi>", _visible(cut))


def _copied(text: str) -> SafeString:
    """The attribute that a click copies from, exact even where HTML has no character for it."""
    if any(unicodedata.category(c) in _UNSENDABLE for c in text):
        return format_html('data-copy-json="{}"', json.dumps(text))
    return format_html('data-copy="{}"', text)


@register.simple_tag(name="id")
def identifier(
    value: object, *, what: str = "id", href: str = "", memory: bool = False, name: bool = False
) -> SafeString:
    """An id: monospace, shortened in the middle, whole on hover, copied by a click.

    With ``href`` it is a link and a small button beside it copies. ``name``: a person chose it, so more of it
    is kept.
    """
    if value is None or value == "":
        return mark_safe('<span class="faint">unknown</span>')
    text = str(value)
    limit = _NAME_LIMIT if name else _OPAQUE_LIMIT
    shown = short(text, limit)
    kind = "id mem" if memory else "id"
    title = _plain(text)
    label = f"{_plain(_shorten(text, limit))}, copy {what}"
    if not href:
        return format_html(
            '<button type="button" class="{}" title="{}" {} aria-label="{}">{}</button>',
            kind, title, _copied(text), label, shown,
        )  # fmt: skip
    return format_html(
        '<span class="linked"><a class="{}" href="{}" title="{}">{}</a>'
        '<button type="button" class="copy" {} aria-label="{}" title="Copy {}">{}</button></span>',
        kind, href, title, shown, _copied(text), label, what, shape("copy"),
    )  # fmt: skip


@register.filter
def iso(value: datetime | None) -> str:
    """RFC 3339 in UTC with the precision that was given; ``""`` for None."""
    return "" if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _absolute(value: datetime) -> str:
    utc = value.astimezone(UTC)
    precision = "microseconds" if utc.microsecond % 1000 else "milliseconds"
    return f"{utc.replace(tzinfo=None).isoformat(sep=' ', timespec=precision)} UTC"


@register.simple_tag
def when(value: datetime | None, *, start: datetime | None = None, unknown: str = "unknown") -> SafeString:
    """A time, in UTC until the page's script puts it into the chosen zone.

    With ``start`` the relative form counts from there (``+5.20 s``), otherwise from now (``13 s ago``).
    """
    if value is None:
        return format_html('<span class="faint">{}</span>', unknown)
    text = _absolute(value)
    anchor = format_html(' data-from="{}"', iso(start)) if start else ""
    return format_html('<time datetime="{}" data-t{} title="{}">{}</time>', iso(value), anchor, text, text)


@register.simple_tag
def shape(name: str) -> SafeString:
    """One of the small shapes, by its name or by a status word.

    It says nothing to a screen reader; the word beside it does.
    """
    drawn = _SHAPES.get(name) or _SHAPES[hue(name)]
    return mark_safe(f'<svg class="i" viewBox="0 0 10 10" aria-hidden="true">{drawn}</svg>')


@register.simple_tag
def status(word: str, *, bare: bool = False) -> SafeString:
    """A status as a pill (or ``bare``, without one): shape and word in its hue."""
    kind = hue(word)
    css = "state" if bare else "pill"
    return format_html('<span class="{} {}">{}{}</span>', css, kind, shape(kind), _visible(words(word)))


@register.simple_tag
def percent(value: int | None, *, of: str = "") -> SafeString:
    """``94 %`` with its meaning; unknown stays unknown."""
    shown = "–" if value is None else f"{value} %"
    return format_html('<span class="num" title="{}">{}</span>', of, shown)
