"""How single values look: expectations are written out by hand, none is computed by the code under test."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from html import unescape

import pytest
from django.template import Context, Template

from openwop_ui.live.templatetags import looks

RLO = "\u202e"  # right-to-left override
JOINER = "\u200d"


def render(source: str, **values: object) -> str:
    return Template("{% load looks %}" + source).render(Context(values))


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (999, "999"), (12_408, "12,408"), (1_000_000, "1,000,000"), (None, "–")]
)
def test_counts_have_separators_and_unknown_is_not_zero(value: int | None, shown: str) -> None:
    assert looks.count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1231, "1.2 KiB"),
        (10 * 1024 * 1024, "10.0 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
        (None, "–"),
    ],
)
def test_sizes_are_binary(value: int | None, shown: str) -> None:
    assert looks.binary(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.041, "41 ms"),
        (13.1, "13.1 s"),
        (59.94, "59.9 s"),
        (124, "2 min 4 s"),
        (2 * 3600 + 25 * 60, "2 h 25 min"),
        (50 * 3600, "2 d 2 h"),
        (-2, "−2 s"),
        (None, "–"),
    ],
)
def test_durations_show_their_two_largest_units(seconds: float | None, shown: str) -> None:
    assert looks.duration(seconds) == shown


def test_lasted_is_unknown_while_an_end_is() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert looks.lasted(start, start + timedelta(seconds=90)) == "1 min 30 s"
    assert looks.lasted(start, None) == "–"
    assert looks.lasted(None, start) == "–"


@pytest.mark.parametrize(
    ("word", "hue"),
    [
        ("completed", "ok"),
        ("running", "live"),
        ("waiting-approval", "wait"),
        ("waiting-for-something-new", "wait"),
        ("failed", "fail"),
        ("dead_lettered", "fail"),
        ("announced", "neutral"),
        ("frobnicated", "unknown"),
        ("", "unknown"),
    ],
)
def test_status_words_have_a_hue_and_new_ones_are_unknown(word: str, hue: str) -> None:
    assert looks.hue(word) == hue


@pytest.mark.parametrize("word", ["completed", "failed", "waiting-input", "running", "cancelled", "frobnicated"])
def test_a_status_always_has_a_shape_and_a_word(word: str) -> None:
    shown = render("{% status word %}", word=word)
    assert "<svg" in shown
    assert re.sub(r"<[^>]+>", "", shown) == word.replace("-", " ")


def test_no_two_statuses_share_an_outline() -> None:
    drawn = [render("{% shape name %}", name=name) for name in ("ok", "fail", "wait", "live", "cancelled", "unknown")]
    assert len(set(drawn)) == 6


def test_a_hostile_status_is_escaped() -> None:
    assert "<img" not in render("{% status word %}", word="<img src=x onerror=alert(1)>")


HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


@pytest.mark.parametrize(
    "source", ["{{ value|visible }}", "{{ value|short:60 }}", "{{ value|prose }}", '<a title="{{ value|inert }}">x</a>']
)
def test_markup_from_outside_stays_text(source: str) -> None:
    shown = render(source, value=HOSTILE)
    assert "<img" not in shown
    assert 'onerror="' not in shown


def test_bidi_control_and_zero_width_characters_are_spelled_out() -> None:
    shown = render("{{ value|visible }}", value=f"user{RLO}gnp.exe\u0000\u200b")
    assert RLO not in shown
    assert "\u0000" not in shown
    assert re.sub(r"<[^>]+>", "", shown) == r"user\u202Egnp.exe\u0000\u200B"
    assert "U+202E RIGHT-TO-LEFT OVERRIDE" in shown


def test_lone_surrogates_can_be_sent() -> None:
    shown = render("{{ value|visible }}{% id value %}", value="a\ud800b")
    assert shown.encode("utf-8")
    assert r"\uD800" in shown


def test_characters_beyond_the_first_plane_are_spelled_with_braces() -> None:
    assert r"\u{E0041}" in render("{{ value|visible }}", value="a\U000e0041")


def test_scripts_and_emoji_stay_as_they_are() -> None:
    family = JOINER.join(["\U0001f469", "\U0001f469", "\U0001f467"])
    for text in ("目标：把续约率提高到 92 %", "مرحبا بالعالم", "naïve café", family):
        assert render("{{ value|visible }}", value=text) == f"<bdi>{text}</bdi>"


def test_a_joiner_between_letters_is_not_part_of_an_emoji() -> None:
    assert JOINER not in render("{{ value|visible }}", value=f"pay{JOINER}pal")


def test_prose_keeps_lines_and_joiners() -> None:
    shown = render("{{ value|prose }}", value=f"one\n\ttwo {JOINER}\u200c three\r")
    assert "one\n\ttwo" in shown
    assert JOINER in shown
    assert r"\u000D" in shown


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        ("run_9f3c77aa21b04c7de4b8", 14, "run_9f3c7…e4b8"),
        ("short", 14, "short"),
        ("exactly-16-chars", 14, "exactly-16-chars"),
        ("1a7b49a3-b34e-4608-90dd-8f73b05dfabb", 14, "1a7b49a3-…fabb"),
    ],
)
def test_ids_are_shortened_in_their_middle(value: str, limit: int, shown: str) -> None:
    assert looks.short(value, limit) == f"<bdi>{shown}</bdi>"


def test_a_cut_never_parts_a_letter_from_its_mark() -> None:
    shown = looks.short("abcdefghijklmnopqrs" + "e\u0301" * 4, 14)
    assert "…\u0301" not in shown


def test_an_id_is_whole_on_hover_and_copied_exactly() -> None:
    value = "run_9f3c77aa21b04c7de4b8"
    shown = render("{% id value what='run id' %}", value=value)
    assert f'title="{value}"' in shown
    assert f'data-copy="{value}"' in shown
    assert 'aria-label="run_9f3c7…e4b8, copy run id"' in shown


def test_an_id_with_a_null_character_is_copied_exactly_too() -> None:
    shown = render("{% id value %}", value="a\u0000b")
    copied = re.search(r'data-copy-json="([^"]*)"', shown)
    assert copied
    assert unescape(copied[1]) == '"a\\u0000b"'


def test_an_id_with_a_place_is_a_link_with_a_button_beside_it() -> None:
    shown = render("{% id value href=href memory=True %}", value="mem_1", href="/t/a/ledger?x=1&y=2")
    assert '<a class="id mem" href="/t/a/ledger?x=1&amp;y=2"' in shown
    assert shown.count("<button") == 1


@pytest.mark.parametrize("value", [None, ""])
def test_no_id_is_said_to_be_unknown(value: str | None) -> None:
    assert "unknown" in render("{% id value %}", value=value)


def test_times_are_utc_with_the_zone_named_whatever_zone_they_came_in() -> None:
    at = datetime(2025, 7, 25, 4, 0, 0, 177_000, tzinfo=timezone(timedelta(hours=2)))
    assert render("{% when at %}", at=at) == (
        '<time datetime="2025-07-25T02:00:00.177000Z" data-t title="2025-07-25 02:00:00.177 UTC">'
        "2025-07-25 02:00:00.177 UTC</time>"
    )


def test_times_keep_microseconds_that_were_given() -> None:
    at = datetime(2025, 7, 25, 2, 0, 0, 177_031, tzinfo=UTC)
    assert "02:00:00.177031 UTC" in render("{% when at %}", at=at)


def test_a_time_can_count_from_a_start() -> None:
    at = datetime(2025, 7, 25, 2, 0, 5, tzinfo=UTC)
    assert 'data-from="2025-07-25T02:00:00Z"' in render(
        "{% when at start=start %}", at=at, start=at - timedelta(seconds=5)
    )


def test_an_unknown_time_is_said_to_be_unknown() -> None:
    assert "start not seen" in render('{% when at unknown="start not seen" %}', at=None)


def test_json_text_means_the_same_with_what_hides_spelled_out() -> None:
    assert looks.json_text('{"a": "目标"}') == '{"a": "目标"}'
    assert looks.json_text(f'{{"a": "x{RLO}y"}}\n') == '{"a": "x\\u202ey"}\n'
    assert looks.json_text('{"a": "\U000e0041"}') == '{"a": "\\udb40\\udc41"}'


@pytest.mark.parametrize(
    ("kind", "hue"), [("content-leak", "fail"), ("changed-event", "fail"), ("gap", "wait"), ("late-event", "wait")]
)
def test_incidents_that_contradict_stand_out_from_those_that_may_mend(kind: str, hue: str) -> None:
    assert looks.incident_hue(kind) == hue
