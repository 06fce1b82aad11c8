"""Which reader takes which bytes."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard

from runs.domain.formats import Foreign, Form, Format, Packing, packing_of, sniff
from tests.runs.domain.examples import RECORDINGS, compact, event

EVENT = event()
CLOUDEVENT = {"specversion": "1.0", "id": "1", "source": "/runs/run-1", "type": "x", "data": EVENT}
BUNDLE = {"bundleVersion": "1", "run": {"runId": "run-1"}, "events": [EVENT]}

LINES, ARRAY, OBJECT, IN_BUNDLE = map(Format, (Form.LINES, Form.ARRAY, Form.OBJECT, Form.BUNDLE))


def lines(*values: object) -> str:
    return "".join(compact(value) + "\n" for value in values)


def printed(value: object) -> str:
    return json.dumps(value, indent=2)


@pytest.mark.parametrize(
    ("text", "told", "expected"),
    [
        (lines(EVENT, EVENT), {}, LINES),
        (lines(EVENT).rstrip(), {}, LINES),
        (lines(EVENT, EVENT), {"name": "events.json"}, LINES),
        ("\n\n" + lines(EVENT), {}, LINES),
        ("\ufeff" + compact([EVENT]), {}, ARRAY),
        (compact([EVENT]), {"name": "misnamed.ndjson"}, ARRAY),
        (" [ ]", {}, ARRAY),
        (printed(EVENT), {}, OBJECT),
        (compact(EVENT), {"content_type": "application/json"}, OBJECT),
        (lines(EVENT), {"content_type": "application/x-ndjson"}, LINES),
        (compact([EVENT]), {"content_type": "application/x-ndjson"}, LINES),
        (compact([EVENT]), {"content_type": "application/octet-stream"}, ARRAY),
        (compact(BUNDLE), {}, IN_BUNDLE),
        (printed(BUNDLE), {"content_type": "application/json"}, IN_BUNDLE),
        (compact({"runId": "r", "status": "completed", "events": []}), {"name": "bundle.json"}, IN_BUNDLE),
        (compact({"bundleVersion": "1", "run": {"inputs": "x" * 70_000}, "events": []}), {}, IN_BUNDLE),
        (compact({"redactionApplied": True, "run": {}}), {}, IN_BUNDLE),
        (compact(event(payload={"events": [1]})), {}, LINES),
        (compact(event(payload='"events":[')), {}, LINES),
        (compact(event(events="none")), {}, LINES),
        (compact([CLOUDEVENT]), {}, Format(Form.ARRAY, is_cloudevents=True)),
        (printed([CLOUDEVENT]), {}, Format(Form.ARRAY, is_cloudevents=True)),
        (lines(CLOUDEVENT, CLOUDEVENT), {}, Format(Form.LINES, is_cloudevents=True)),
        (lines(CLOUDEVENT), {"content_type": "application/x-ndjson"}, Format(Form.LINES, is_cloudevents=True)),
        (printed(CLOUDEVENT), {}, Format(Form.OBJECT, is_cloudevents=True)),
        ("", {"content_type": "application/cloudevents+json"}, Format(Form.OBJECT, is_cloudevents=True)),
        ("", {"content_type": "Application/CloudEvents-Batch+JSON"}, Format(Form.ARRAY, is_cloudevents=True)),
        (compact([event(payload={"specversion": "1.0"})]), {}, ARRAY),
        (compact({"type": "specversion", "b": 1}), {}, LINES),
        (compact({"a": {"x": [1]}, "specversion": "1.0"}), {}, Format(Form.LINES, is_cloudevents=True)),
        (compact({"a": ["]", "}", 'q"'], "specversion": "1.0"}), {}, Format(Form.LINES, is_cloudevents=True)),
        (lines({"a": 1}, CLOUDEVENT), {}, LINES),
        (lines({"a": {"b": 1}}, BUNDLE), {}, LINES),
        (compact({"a": {"events": [1], "bundleVersion": 1}}), {}, LINES),
        (printed(EVENT), {"name": "log.ndjson.zst"}, LINES),
        (printed(EVENT), {"name": "log.JSONL.gz"}, LINES),
        (printed(EVENT), {"name": "log.jsonl.txt"}, OBJECT),
        (compact([EVENT]), {"content_type": "application/jsonl"}, LINES),
        (compact([EVENT]), {"content_type": "application/ndjson"}, LINES),
        (compact([EVENT]), {"content_type": "application/x-jsonlines"}, LINES),
        ("", {}, LINES),
        ("nonsense", {}, LINES),
        ("nonsense,\n{}", {}, LINES),
        ("{", {}, LINES),
    ],
)
def test_form(text: str, told: dict[str, str], expected: Format) -> None:
    assert sniff(text.encode(), **told) == expected


@pytest.mark.parametrize("path", sorted(RECORDINGS.rglob("bundle*.json")), ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_bundles_are_known(path: object) -> None:
    assert hasattr(path, "read_bytes")
    body = path.read_bytes()
    # What another tenant gets instead of a bundle is an error and holds no events.
    assert sniff(body) == (LINES if b'"events"' not in body else IN_BUNDLE)


@pytest.mark.parametrize("path", sorted(RECORDINGS.rglob("*.ndjson")), ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_logs_are_lines(path: object) -> None:
    assert hasattr(path, "read_bytes")
    assert sniff(path.read_bytes()) == LINES


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_cut_head_never_raises(cut: int) -> None:
    text = compact(BUNDLE).encode()
    assert sniff(text[:cut]).form in (Form.LINES, Form.BUNDLE)


@pytest.mark.parametrize(
    ("head", "packing"),
    [
        (gzip.compress(b"x", mtime=0), Packing.GZIP),
        (zstandard.compress(b"x"), Packing.ZSTD),
        (b"\x50\x2a\x4d\x18\0\0\0\0", Packing.ZSTD),
        (b"\x5f\x2a\x4d\x18\0\0\0\0", Packing.ZSTD),
        (b'{"type":"x"}', Packing.NONE),
        (b"[1]", Packing.NONE),
        (b"", Packing.NONE),
    ],
)
def test_packing(head: bytes, packing: Packing) -> None:
    assert packing_of(head) == packing


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"PK\x03\x04rest", "zip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"PAR1", "Parquet"),
        ("[1]".encode("utf-16-be").join([b"\xfe\xff", b""]), "UTF-16"),
        (b"SQLite format 3\0", "a SQLite database"),
        (b"%PDF-1.7", "PDF"),
        ("[1]".encode("utf-16"), "UTF-16"),
    ],
)
def test_foreign_kinds_are_named(head: bytes, kind: str) -> None:
    with pytest.raises(Foreign) as caught:
        packing_of(head)
    assert str(caught.value) == f"the bytes are {kind}; plain, gzip and zstd are read"
