"""The bytes inside a Zstandard stream (RFC 8878), with the limits and errors of `reading.gunzip`."""

from collections.abc import Iterable, Iterator

import zstandard

from runs.domain.limits import DEFAULT_LIMITS, MEBIBYTE, LimitExceeded, Limits
from runs.domain.reading import BrokenStream, within_body_limit

# RFC 9659: the content coding `zstd` keeps to windows of 8 MB, so that a decoder knows what memory it takes.
MAX_WINDOW_BYTES = 8 * MEBIBYTE

# Four bytes of a stream are enough for a block, and a block may unpack to 128 KiB: a piece of 512 bytes, however it
# was made, gives 16 MiB at once and never more.
_PIECE = 512

_COMPLAINTS = {
    "Unknown frame descriptor": "not a zstd stream",
    "Dictionary mismatch": "zstd stream needs a dictionary that is not part of it",
}
_WINDOW_COMPLAINT = "requires too much memory"


def unzstd(chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[bytes]:
    """The uncompressed bytes of one or more frames, skippable ones passed over.

    Raises BrokenStream where the stream ends early, is damaged or is no zstd, behind what could be read; and
    LimitExceeded over MAX_BODY_BYTES unpacked, or for a window beyond MAX_WINDOW_BYTES.
    """
    return within_body_limit(_unpacked(chunks), limits)


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    frame = decompressor.decompressobj()
    is_begun = has_ended = False
    for piece in _pieces(chunks):
        pending = piece
        while pending:
            is_begun = True
            output = _output(frame, pending, is_first=not has_ended)
            if output:
                yield output
            if not frame.eof:
                break
            pending = frame.unused_data
            frame = decompressor.decompressobj()
            is_begun, has_ended = False, True
    if is_begun or not has_ended:
        raise BrokenStream("zstd stream ends early")


def _output(frame: "zstandard.ZstdDecompressionObj", data: bytes, *, is_first: bool) -> bytes:
    try:
        return frame.decompress(data)
    except zstandard.ZstdError as error:
        said = str(error)
        if _WINDOW_COMPLAINT in said:
            raise LimitExceeded("MAX_ZSTD_WINDOW_BYTES", MAX_WINDOW_BYTES) from error
        known = next((ours for theirs, ours in _COMPLAINTS.items() if theirs in said), None)
        raise BrokenStream(known if known and is_first else "zstd stream is damaged") from error


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut at the same places whatever chunks they came in."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        whole = len(held) - len(held) % _PIECE
        yield from (bytes(held[start : start + _PIECE]) for start in range(0, whole, _PIECE))
        del held[:whole]
    if held:
        yield bytes(held)
