from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.event import Refusal
from runs.domain.limits import LimitExceeded, Limits
from runs.domain.reading import (
    BrokenStream,
    RawEvent,
    RawItem,
    gunzip,
    read_json_array,
    read_ndjson,
    within_body_limit,
)

from .examples import recorded

SMALL = Limits(max_event_bytes=20)


def lines(*chunks: bytes, limits: Limits = SMALL) -> list[tuple[int, bytes | str]]:
    return plain(read_ndjson(chunks, limits))


def elements(*chunks: bytes, limits: Limits = SMALL) -> list[tuple[int, bytes | str]]:
    return plain(read_json_array(chunks, limits))


def plain(items: Iterable[RawItem]) -> list[tuple[int, bytes | str]]:
    return [(item.index, item.data if isinstance(item, RawEvent) else item.reason) for item in items]


def in_chunks(whole: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    position = 0
    for size in sizes:
        yield whole[position : position + size]
        position += size
    yield whole[position:]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (b"", []),
        (b"\n \r\n\t\n", []),
        (b'{"a":1}', [(0, b'{"a":1}')]),
        (b'{"a":1}\n', [(0, b'{"a":1}')]),
        (b'{"a":1}\r\n{"b":2}\r\n', [(0, b'{"a":1}'), (1, b'{"b":2}')]),
        (b'\n\n {"a":1} \n\n{"b":2}', [(2, b'{"a":1}'), (4, b'{"b":2}')]),
        (b'\xef\xbb\xbf{"a":1}\n{}', [(0, b'{"a":1}'), (1, b"{}")]),
        (b"\xef\xbb", [(0, b"\xef\xbb")]),
        (b"broken\n{}", [(0, b"broken"), (1, b"{}")]),
        (b'{"a":"\xe2\x80\xa8"}\n{}', [(0, b'{"a":"\xe2\x80\xa8"}'), (1, b"{}")]),
        (
            b"x" * 20 + b"\n" + b"y" * 21 + b"\nz",
            [(0, b"x" * 20), (1, "larger than MAX_EVENT_BYTES (20 bytes)"), (2, b"z")],
        ),
        (b" " * 21 + b"\n{}", [(0, "larger than MAX_EVENT_BYTES (20 bytes)"), (1, b"{}")]),
        (b"y" * 50, [(0, "larger than MAX_EVENT_BYTES (20 bytes)")]),
    ],
)
def test_lines(text: bytes, items: list[tuple[int, bytes | str]]) -> None:
    assert lines(text) == items
    assert lines(*(text[at : at + 1] for at in range(len(text)))) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (b"[]", []),
        (b" [ \n ] \r\n", []),
        (b'\xef\xbb\xbf[{"a":1}]', [(0, b'{"a":1}')]),
        (b'[ {"a":1} ,\n{"b" : [2,3]} ]', [(0, b'{"a":1}'), (1, b'{"b" : [2,3]}')]),
        (b'["a,]}\\"[",{"x":"}]\\\\"},[[]]]', [(0, b'"a,]}\\"["'), (1, b'{"x":"}]\\\\"}'), (2, b"[[]]")]),
        (b"[1,null ,true]", [(0, b"1"), (1, b"null"), (2, b"true")]),
        (b'[{"a":1},{broken},{"b":2}]', [(0, b'{"a":1}'), (1, b"{broken}"), (2, b'{"b":2}')]),
        (b'[{"a":1} {"b":2},{}]', [(0, b'{"a":1} {"b":2}'), (1, b"{}")]),
        (b"[1,,2]", [(0, b"1"), (1, "nothing between two commas of the JSON array"), (2, b"2")]),
        (b"[1,]", [(0, b"1"), (1, "nothing between two commas of the JSON array")]),
        (b"[,1]", [(0, "nothing between two commas of the JSON array"), (1, b"1")]),
        (b"", [(0, "empty, where a JSON array was expected")]),
        (b"  \n", [(0, "empty, where a JSON array was expected")]),
        (b'{"a":1}', [(0, "not a JSON array, at byte 0")]),
        (b"  x", [(0, "not a JSON array, at byte 2")]),
        (b"[1", [(0, "the JSON array ends early, at byte 2")]),
        (b"[1,", [(1, "the JSON array ends early, at byte 3")]),
        (b'[1,"a', [(0, b"1"), (1, "the JSON array ends early, at byte 5")]),
        (b"[1}, 2]", [(0, "a bracket that was never opened, at byte 2")]),
        (b'[1,{"a":1}},2]', [(0, b"1"), (1, "a bracket that was never opened, at byte 10")]),
        (b"[1] x [2]", [(0, b"1"), (1, "more text behind the JSON array, at byte 4")]),
        (b"[1],", [(0, b"1"), (1, "more text behind the JSON array, at byte 3")]),
        (
            b'["' + b"x" * 18 + b'", "' + b"y" * 19 + b'",3]',
            [(0, b'"' + b"x" * 18 + b'"'), (1, "larger than MAX_EVENT_BYTES (20 bytes)"), (2, b"3")],
        ),
        (b"[" + b" " * 50 + b"1" + b" " * 19 + b",2]", [(0, b"1"), (1, b"2")]),
    ],
)
def test_elements(text: bytes, items: list[tuple[int, bytes | str]]) -> None:
    expected = [(0, b"1"), *items] if text == b"[1," else items
    assert elements(text) == expected
    assert elements(*(text[at : at + 1] for at in range(len(text)))) == expected


sizes = st.lists(st.integers(0, 9), max_size=30)
line_text = st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ab \r\n', max_size=60).map(str.encode)


@given(line_text, sizes)
def test_lines_do_not_depend_on_the_chunks(text: bytes, cuts: list[int]) -> None:
    assert lines(*in_chunks(text, cuts)) == lines(text)


@given(line_text | st.text(alphabet='{}[]",\\1 ', max_size=60).map(lambda text: f"[{text}]".encode()), sizes)
def test_elements_do_not_depend_on_the_chunks(text: bytes, cuts: list[int]) -> None:
    assert elements(*in_chunks(text, cuts)) == elements(text)


documents = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(documents), st.sampled_from([None, 1]), st.booleans(), sizes)
def test_elements_are_those_of_the_array(
    values: list[Any], indent: int | None, is_ascii: bool, cuts: list[int]
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=is_ascii).encode()
    read = elements(*in_chunks(text, cuts), limits=Limits())
    assert [json.loads(data) for _, data in read] == values
    assert [index for index, _ in read] == list(range(len(values)))


@given(st.lists(documents), sizes)
def test_lines_are_those_of_the_file(values: list[Any], cuts: list[int]) -> None:
    text = "".join(f"{json.dumps(value)}\n" for value in values).encode()
    read = lines(*in_chunks(text, cuts), limits=Limits())
    assert [(index, json.loads(data)) for index, data in read] == list(enumerate(values))


@given(st.lists(st.binary(max_size=200), max_size=4), st.data())
def test_gzip_members_do_not_depend_on_the_chunks(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(gzip.compress(part) for part in parts) or gzip.compress(b"")
    whole += b"\0" * data.draw(st.integers(0, 5))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=30))
    assert b"".join(gunzip(in_chunks(whole, cuts))) == b"".join(parts)


def read_until_broken(chunks: Iterable[bytes]) -> tuple[bytes, str]:
    read = bytearray()
    try:
        for chunk in gunzip(chunks):
            read += chunk
    except BrokenStream as error:
        return bytes(read), str(error)
    return bytes(read), ""


@given(st.binary(min_size=1, max_size=300), st.data())
def test_damage_costs_what_comes_behind_it_however_the_bytes_are_cut(content: bytes, data: st.DataObject) -> None:
    whole = bytearray(gzip.compress(content * 20))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    one = read_until_broken([bytes(whole)])
    assert read_until_broken(in_chunks(bytes(whole), data.draw(st.lists(st.integers(0, 40), max_size=30)))) == one
    assert one == read_until_broken(bytes([byte]) for byte in whole)


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        (b"", "gzip stream ends early"),
        (b"\x1f", "gzip stream ends early"),
        (gzip.compress(b"one\n", mtime=0)[:-1], "gzip stream ends early"),
        (gzip.compress(b"one\n", mtime=0) + b"\x1f\x8b", "gzip stream ends early"),
        (b"plain text", "not a gzip stream"),
        (zlib.compress(b"one\n"), "not a gzip stream"),
        (gzip.compress(b"one\n", mtime=0) + b"trailing", "not a gzip stream"),
        (gzip.compress(b"one\n", mtime=0)[:-8] + b"\1" * 8, "gzip stream is damaged"),
    ],
)
def test_other_streams_are_refused(whole: bytes, reason: str) -> None:
    assert read_until_broken([whole])[1] == reason


def test_lines_before_the_end_of_a_cut_stream_are_kept() -> None:
    text = b"".join(b'{"n":%d}\n' % number for number in range(1000))
    whole = gzip.compress(text)
    items = list(read_ndjson(gunzip([whole[: len(whole) // 2]])))
    *good, last = items
    assert isinstance(last, Refusal)
    assert last.reason == "gzip stream ends early"
    assert 100 < len(good) < 1000
    assert [item.data for item in good if isinstance(item, RawEvent)] == text.splitlines()[: len(good)]
    assert last.index == len(good)


def test_cut_line_is_not_taken_for_a_whole_one() -> None:
    compressor = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    cut = compressor.compress(b"1\n23") + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert lines(*gunzip_safely(cut)) == [(0, b"1"), (1, b"23")]
    assert plain(read_ndjson(gunzip([cut]))) == [(0, b"1"), (1, "gzip stream ends early")]
    assert plain(read_json_array(gunzip([cut]))) == [(0, "not a JSON array, at byte 0")]


def gunzip_safely(whole: bytes) -> list[bytes]:
    return [read_until_broken([whole])[0]]


def test_array_in_a_cut_stream() -> None:
    whole = gzip.compress(b"[1,2,3")
    assert plain(read_json_array(gunzip([whole]))) == [
        (0, b"1"),
        (1, b"2"),
        (2, "the JSON array ends early, at byte 6"),
    ]
    assert plain(read_json_array(gunzip([whole[:-3]])))[-1] == (2, "gzip stream ends early")


@given(st.binary(max_size=40), st.integers(0, 41), sizes)
def test_body_limit_lets_its_bytes_through_and_no_more(text: bytes, limit: int, cuts: list[int]) -> None:
    read = bytearray()
    try:
        for chunk in within_body_limit(in_chunks(text, cuts), Limits(max_body_bytes=limit)):
            read += chunk
        assert len(text) <= limit
    except LimitExceeded as error:
        assert len(text) > limit
        assert (error.name, error.limit) == ("MAX_BODY_BYTES", limit)
    assert bytes(read) == text[:limit]


def test_lines_within_the_body_limit_come_before_the_error() -> None:
    items = read_ndjson([b"1\n2\n3\n4\n"], Limits(max_body_bytes=5))
    assert [next(items), next(items)] == [RawEvent(0, b"1"), RawEvent(1, b"2")]
    with pytest.raises(LimitExceeded, match="MAX_BODY_BYTES .5 bytes"):
        next(items)


def peak_of(items: Iterable[object]) -> int:
    tracemalloc.start()
    try:
        for _ in items:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


MIB = 1024 * 1024


def test_small_body_cannot_unpack_into_a_large_one() -> None:
    bomb = gzip.compress(b"\n" * 50 * MIB)
    limits = Limits(max_body_bytes=8 * MIB)
    with pytest.raises(LimitExceeded, match="MAX_BODY_BYTES"):
        peak_of(gunzip([bomb], limits))


@pytest.mark.parametrize(
    "items",
    [
        lambda chunks: gunzip([gzip.compress(b"".join(chunks))]),
        lambda chunks: read_ndjson(chunks, Limits(max_event_bytes=MIB)),
        lambda chunks: read_json_array((b'["', *chunks, b'"]'), Limits(max_event_bytes=MIB)),
        lambda chunks: read_json_array((b"[", *chunks), Limits(max_event_bytes=MIB)),
    ],
    ids=["gzip", "line", "string", "structure"],
)
def test_memory_stays_flat_under_an_endless_item(items: Any) -> None:
    chunks = [(b"[" + b"x" * 1023) * 32] * 640  # 20 MiB, one object
    assert peak_of(items(chunks)) < 4 * MIB


@pytest.mark.parametrize("path", recorded(), ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_log_reads_the_same_from_a_file_and_from_an_array(path: Any) -> None:
    text = path.read_bytes()
    from_file = list(read_ndjson([text]))
    array = b"[" + b",\n".join(text.splitlines()) + b"]"
    assert list(read_json_array(in_chunks(array, [1000] * (len(array) // 1000)))) == from_file
    assert [item.data for item in from_file if isinstance(item, RawEvent)] == text.splitlines()
