"""Zstandard streams: the same bytes out, whatever the chunks, and never more than the limits let through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from runs.domain import zstd
from runs.domain.limits import LimitExceeded, Limits
from runs.domain.reading import BrokenStream, RawEvent, read_ndjson
from runs.domain.zstd import unzstd

SMALL = Limits(max_event_bytes=4096, max_body_bytes=64 * 1024)
TEXT = b"".join(b'{"sequence":%d,"type":"node.started","n":"%d"}\n' % (n, n * n) for n in range(900))
SKIPPABLE = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"


def compressed(data: bytes, *, window_log: int | None = None) -> bytes:
    if window_log is None:
        return zstandard.ZstdCompressor(write_checksum=True, level=3).compress(data)
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(data) + stream.flush()


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def read_until_broken(chunks: Iterable[bytes], limits: Limits = SMALL) -> tuple[bytes, Exception | None]:
    held = bytearray()
    try:
        for chunk in unzstd(chunks, limits):
            held += chunk
    except (BrokenStream, LimitExceeded) as error:
        return bytes(held), error
    return bytes(held), None


@pytest.mark.parametrize("size", [1, 7, 511, 512, 513, 64 * 1024])
def test_any_chunking_gives_the_same_bytes(size: int) -> None:
    assert read_until_broken(in_pieces(compressed(TEXT), size)) == (TEXT, None)


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=4), st.integers(1, 700))
def test_frames_follow_each_other(parts: list[bytes], size: int) -> None:
    stream = SKIPPABLE.join(map(compressed, parts)) + SKIPPABLE
    assert read_until_broken(in_pieces(stream, size)) == (b"".join(parts), None)


def test_stream_that_ends_early_keeps_what_came_before() -> None:
    stream = compressed(TEXT[:9000]) + compressed(TEXT[9000:])
    cut = len(compressed(TEXT[:9000])) + 40
    held, error = read_until_broken([stream[:cut]])
    assert held == TEXT[:9000]
    assert isinstance(error, BrokenStream) and str(error) == "zstd stream ends early"


def test_damage_is_told_apart_from_an_early_end() -> None:
    stream = bytearray(compressed(TEXT))
    stream[-1] ^= 1  # the checksum
    _, error = read_until_broken([bytes(stream)])
    assert isinstance(error, BrokenStream) and str(error) == "zstd stream is damaged"


def in_blocks(data: bytes, size: int) -> bytes:
    """One frame with a block for every piece."""
    stream = zstandard.ZstdCompressor(level=3).compressobj()
    blocks = [
        stream.compress(piece) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for piece in in_pieces(data, size)
    ]
    return b"".join(blocks) + stream.flush()


@pytest.mark.parametrize("size", [1, 13, 700, 64 * 1024])
def test_damage_is_met_at_the_same_place_in_any_chunking(size: int) -> None:
    stream = bytearray(in_blocks(TEXT, 500))
    stream[len(stream) * 3 // 4 :] = b"\xff" * 40
    held, error = read_until_broken([bytes(stream)])
    assert str(error) == "zstd stream is damaged"
    assert 0 < len(held) < len(TEXT) and TEXT.startswith(held)
    again, other = read_until_broken(in_pieces(bytes(stream), size))
    assert (again, str(other)) == (held, str(error))


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (b"", "zstd stream ends early"),
        (b"\x28\xb5\x2f", "zstd stream ends early"),
        (b"{}", "not a zstd stream"),
        (b'{"type":"x"}', "not a zstd stream"),
        (compressed(b"x") + b"and more behind it", "zstd stream is damaged"),
    ],
)
def test_what_is_no_stream(stream: bytes, complaint: str) -> None:
    _, error = read_until_broken([stream])
    assert isinstance(error, BrokenStream) and str(error) == complaint


def test_a_stream_that_needs_a_dictionary_says_so() -> None:
    samples: list[bytes | bytearray | memoryview[int]] = [
        b'{"sequence":%d,"type":"node.started"}' % n for n in range(3000)
    ]
    dictionary = zstandard.train_dictionary(1024, samples)
    stream = zstandard.ZstdCompressor(dict_data=dictionary).compress(bytes(samples[7]))
    _, error = read_until_broken([stream])
    assert isinstance(error, BrokenStream)
    assert str(error) == "zstd stream needs a dictionary that is not part of it"


def test_a_small_body_can_not_unpack_into_a_large_one() -> None:
    bomb = compressed(b"\0" * 64 * 1024 * 1024)
    assert len(bomb) < 10_000
    held, error = read_until_broken([bomb])
    assert len(held) == SMALL.max_body_bytes
    assert isinstance(error, LimitExceeded) and error.name == "MAX_BODY_BYTES"


def test_one_call_never_gives_more_than_16_mebibytes() -> None:
    # The densest stream there is: blocks of one byte to be repeated 128 KiB times.
    frame = b"\x28\xb5\x2f\xfd" + b"\x00\x38"  # no content size, a window of 128 KiB
    block = ((128 * 1024 << 3) | 0b010).to_bytes(3, "little") + b"\0"
    largest = max(len(chunk) for chunk in zstd._unpacked([frame + block * 4000 + b"\x01\x00\x00"]))
    assert 8 * 1024 * 1024 < largest <= 16 * 1024 * 1024


@pytest.mark.parametrize(("window_log", "is_good"), [(23, True), (24, False)])
def test_window_is_limited(window_log: int, is_good: bool) -> None:
    held, error = read_until_broken([compressed(TEXT, window_log=window_log)])
    if is_good:
        assert (held, error) == (TEXT, None)
    else:
        assert isinstance(error, LimitExceeded) and error.name == "MAX_ZSTD_WINDOW_BYTES"


def test_readers_take_it_like_any_other_bytes() -> None:
    items = list(read_ndjson(unzstd(in_pieces(compressed(TEXT), 100), SMALL), SMALL))
    assert items == [RawEvent(n, line) for n, line in enumerate(TEXT.splitlines())]
