"""POST /v1/hosts/{host}/events: what comes in, what is refused and where, and what the answer says."""

from __future__ import annotations

import gzip
import json
from typing import Any

import jsonschema_rs
import pytest
from django.conf import LazySettings
from django.test import Client

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Event, Host, Run
from runs.store import batches, intake
from tests.factories import as_ndjson, bearer, make_event, make_host, make_key, make_log, make_tenant

NDJSON = "application/x-ndjson"
JSON = "application/json"
MEBIBYTE = 1024 * 1024

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def api(tenant: Tenant, host: Host) -> Client:
    return Client(headers=bearer(make_key(tenant)))


def push(api: Client, body: bytes, *, content_type: str = NDJSON, run: str = "", **headers: str) -> Any:
    query = {"run": run} if run else {}
    return api.post(
        "/v1/hosts/alpha/events",
        body,
        content_type=content_type,
        query_params=query,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        CONTENT_TYPE=content_type,  # the client leaves it out where there is no body
    )


def stored(tenant: Tenant) -> list[int]:
    with tenant_scope(tenant.pk):
        return list(
            Event.objects.filter(tenant_id=tenant.pk).order_by("run_id", "sequence").values_list("sequence", flat=True)
        )


def bodies(tenant: Tenant) -> list[str]:
    with tenant_scope(tenant.pk):
        return list(
            Event.objects.filter(tenant_id=tenant.pk).order_by("run_id", "sequence").values_list("body", flat=True)
        )


def altered(**members: Any) -> str:
    return json.dumps(make_event(1) | members)


def without(name: str) -> str:
    return json.dumps({key: value for key, value in make_event(1).items() if key != name})


def in_text(old: str, new: str) -> str:
    text = json.dumps(make_event(1, payload={"mark": "here"}))
    assert old in text
    return text.replace(old, new)


BAD = {
    "broken JSON": ('{"runId": "run-1", "type":', None),
    "text behind the event": (json.dumps(make_event(1)) + " }", None),
    "a name twice": (in_text('"sequence": 1', '"sequence": 1, "sequence": 2'), None),
    "a name twice, deep inside": (in_text('"mark": "here"', '"mark": "here", "mark": "there"'), None),
    "NaN": (in_text('"here"', "NaN"), None),
    "a raw NUL": (in_text("here", "he\x00re"), None),
    "not an object": ("[]", None),
    "nothing": ("null", None),
    "sequence -1": (altered(sequence=-1), "sequence"),
    "sequence 1.5": (altered(sequence=1.5), "sequence"),
    'sequence "7"': (altered(sequence="7"), "sequence"),
    "sequence true": (altered(sequence=True), "sequence"),
    "sequence null": (altered(sequence=None), "sequence"),
    "sequence 2^53": (altered(sequence=2**53), "sequence"),
    "sequence 2^53+1": (altered(sequence=2**53 + 1), "sequence"),
    "sequence 1e400": (in_text('"sequence": 1', '"sequence": 1e400'), "sequence"),
    "no sequence": (without("sequence"), "sequence"),
    "no time": (without("timestamp"), "timestamp"),
    "time without zone": (altered(timestamp="2026-03-01T09:00:00"), "timestamp"),
    "year 10000": (altered(timestamp="10000-01-01T00:00:00Z"), "timestamp"),
    "year 0": (altered(timestamp="0000-01-01T00:00:00Z"), "timestamp"),
    "30 February": (altered(timestamp="2026-02-30T00:00:00Z"), "timestamp"),
    "time as a number": (altered(timestamp=1772355600), "timestamp"),
    "no type": (without("type"), "type"),
    "empty type": (altered(type=""), "type"),
    "no run": (without("runId"), "runId"),
    "empty run": (altered(runId=""), "runId"),
    "run as a number": (altered(runId=7), "runId"),
    "an overlong run": (altered(runId="r" * 513), "runId"),
}


@pytest.mark.parametrize(("bad", "field"), BAD.values(), ids=BAD.keys())
def test_what_can_not_be_taken_is_named_by_index_and_field_and_the_rest_is_stored(
    api: Client, tenant: Tenant, bad: str, field: str | None
) -> None:
    lines = [json.dumps(make_event(0)), bad, json.dumps(make_event(2))]
    answer = push(api, "\n".join(lines).encode())
    said = answer.json()
    assert answer.status_code == 200
    assert (said["accepted"], said["repeated"], said["refusedTotal"]) == (2, 0, 1)
    (refused,) = said["refused"]
    assert refused["index"] == 1
    assert refused.get("field") == field
    assert refused["reason"]
    assert stored(tenant) == [0, 2]


ELEMENTS = {name: row for name, row in BAD.items() if name not in ("broken JSON", "text behind the event")}


@pytest.mark.parametrize(("bad", "field"), ELEMENTS.values(), ids=ELEMENTS.keys())
def test_an_array_with_a_bad_element_is_read_on_behind_it(
    api: Client, tenant: Tenant, bad: str, field: str | None
) -> None:
    body = f"[{json.dumps(make_event(0))}, {bad}, {json.dumps(make_event(2))}]".encode()
    said = push(api, body, content_type=JSON).json()
    assert [(one["index"], one.get("field")) for one in said["refused"]] == [(1, field)]
    assert stored(tenant) == [0, 2]


def test_a_line_of_20_megabytes_is_refused_by_its_limit_and_the_rest_is_stored(api: Client, tenant: Tenant) -> None:
    big = make_event(1, payload={"text": "x" * 20 * MEBIBYTE})
    said = push(api, as_ndjson([make_event(0), big, make_event(2)])).json()
    (refused,) = said["refused"]
    assert refused["index"] == 1
    assert "MAX_EVENT_BYTES" in refused["reason"]
    assert stored(tenant) == [0, 2]


def test_events_of_another_run_are_refused_when_the_request_names_one(api: Client, tenant: Tenant) -> None:
    nameless = {key: value for key, value in make_event(2).items() if key != "runId"}
    body = as_ndjson([make_event(0, run="a b/c"), make_event(1, run="other"), nameless])
    said = push(api, body, run="a b/c").json()
    assert [(one["index"], one["field"]) for one in said["refused"]] == [(1, "runId")]
    assert said["runs"] == [{"runId": "a b/c", "through": 0}]
    assert stored(tenant) == [0, 2]


def test_a_truncated_gzip_stream_keeps_what_came_whole_and_says_where_it_broke(api: Client, tenant: Tenant) -> None:
    events = [make_event(n, payload={"noise": f"{n * 7919:032x}{n * 104729:032x}"}) for n in range(50)]
    answer = push(api, gzip.compress(as_ndjson(events))[:-40], content_encoding="gzip")
    said = answer.json()
    receipt = said["details"]["receipt"]
    assert (answer.status_code, said["error"]) == (400, "unreadable_body")
    assert 40 <= receipt["accepted"] < 50
    assert [one["index"] for one in receipt["refused"]] == [receipt["accepted"]]
    assert stored(tenant) == list(range(receipt["accepted"]))


@pytest.mark.parametrize(
    "text",
    ["\\u0000", "a\\u0000b", "\\ud800", "\\udfff \\ud83d", "\ue000", "\\ue0000000", "3544790567247868102", "\\u2028"],
)
def test_what_the_database_can_not_hold_as_it_is_is_stored_without_loss(api: Client, tenant: Tenant, text: str) -> None:
    line = json.dumps(make_event(0, "custom.thing", node="NODE", payload={"nodeId": "NODE", "text": "TEXT"}))
    line = line.replace("NODE", f"n-{text}").replace("TEXT", text)
    assert push(api, line.encode()).json()["accepted"] == 1
    assert bodies(tenant) == [line]
    assert (
        api.get("/v1/hosts/alpha/runs/run-1/events").content == b'{"items":[' + line.encode() + b'],"nextCursor":null}'
    )
    lanes = api.get("/v1/hosts/alpha/runs/run-1/timeline").json()["lanes"]
    assert [lane["node"] for lane in lanes] == [json.loads(f'"n-{text}"')]


@pytest.mark.parametrize(
    "run", ["a/b", "a:b", "a%2Fb", "a'b", "a b", "~2F", "..", "acme/r-9", "日本", "a\x00b", "run.json", "\ud800"]
)
def test_a_run_of_any_id_has_one_address_that_its_answers_name(api: Client, run: str) -> None:
    push(api, as_ndjson(make_log(run)))
    (item,) = api.get("/v1/runs").json()["items"]
    assert item["runId"] == run
    assert api.get(f"/v1/hosts/alpha/runs/{item['path']}").json()["runId"] == run
    assert len(api.get(f"/v1/hosts/alpha/runs/{item['path']}/events").json()["items"]) == 8


@pytest.mark.parametrize(
    ("body", "content_type", "headers"),
    [
        (json.dumps([make_event(0), make_event(1)]).encode(), JSON, {}),
        (json.dumps([make_event(0), make_event(1)]).encode(), "application/json; charset=utf-8", {}),
        (as_ndjson([make_event(0), make_event(1)]), NDJSON, {}),
        (gzip.compress(as_ndjson([make_event(0), make_event(1)])), NDJSON, {"content_encoding": "gzip"}),
        (gzip.compress(json.dumps([make_event(0), make_event(1)]).encode()), JSON, {"content_encoding": "x-gzip"}),
    ],
)
def test_every_form_is_taken_in(
    api: Client, tenant: Tenant, body: bytes, content_type: str, headers: dict[str, str]
) -> None:
    answer = push(api, body, content_type=content_type, **headers)
    assert answer.status_code == 200
    assert answer.json()["accepted"] == 2
    assert stored(tenant) == [0, 1]


def test_one_event_alone_is_taken_in(api: Client, tenant: Tenant) -> None:
    assert push(api, json.dumps(make_event(4)).encode(), content_type=JSON).json()["accepted"] == 1
    assert stored(tenant) == [4]


@pytest.mark.parametrize(("body", "content_type"), [(b"[]", JSON), (b"", JSON), (b"", NDJSON), (b"\n\n", NDJSON)])
def test_an_empty_batch_is_no_error(api: Client, body: bytes, content_type: str) -> None:
    answer = push(api, body, content_type=content_type)
    assert answer.status_code == 200
    assert answer.json() == {
        "accepted": 0,
        "repeated": 0,
        "refused": [],
        "refusedTotal": 0,
        "incidents": [],
        "incidentsTotal": 0,
        "runs": [],
    }


def test_when_everything_is_refused_the_answer_is_an_error_and_a_receipt(api: Client) -> None:
    answer = push(api, b'{"type": 1}\n{}\n')
    said = answer.json()
    assert answer.status_code == 422
    assert said["error"] == "all_refused"
    assert said["message"]
    assert [one["index"] for one in said["refused"]] == [0, 1]


def test_one_known_event_among_refused_ones_is_enough_for_success(api: Client) -> None:
    push(api, as_ndjson([make_event(0)]))
    answer = push(api, as_ndjson([make_event(0)]) + b"{}\n")
    assert answer.status_code == 200
    assert answer.json()["repeated"] == 1


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x", ""])
def test_an_unknown_content_type_is_refused_with_those_that_are_read(api: Client, content_type: str) -> None:
    answer = push(api, b"[]", content_type=content_type)
    assert answer.status_code == 415
    assert answer.json()["error"] == "unsupported_media_type"
    assert answer.json()["details"]["supported"] == [
        JSON,
        NDJSON,
        "application/cloudevents+json",
        "application/cloudevents-batch+json",
    ]


@pytest.mark.parametrize("encoding", ["br", "deflate", "compress", "gzip, gzip"])
def test_an_unknown_encoding_is_refused_with_those_that_are_read(api: Client, encoding: str) -> None:
    answer = push(api, b"[]", content_encoding=encoding)
    assert answer.status_code == 415
    assert answer.json()["details"]["supported"] == ["gzip", "zstd", "identity"]
    assert answer["Accept-Encoding"] == "gzip, zstd, identity"


def test_what_is_said_to_be_gzip_and_is_not_is_a_bad_request(api: Client, tenant: Tenant) -> None:
    answer = push(api, as_ndjson([make_event(0)]), content_encoding="gzip")
    assert (answer.status_code, answer.json()["error"]) == (400, "unreadable_body")
    assert stored(tenant) == []


def test_a_body_that_says_that_it_is_too_large_is_not_read(api: Client, tenant: Tenant, settings: LazySettings) -> None:
    settings.MAX_BODY_BYTES = 2000
    answer = push(api, as_ndjson([make_event(n) for n in range(20)]))
    assert answer.status_code == 413
    assert answer.json()["error"] == "too_large"
    assert answer.json()["details"] == {"limit": "MAX_BODY_BYTES", "bytes": 2000}
    assert stored(tenant) == []


def test_a_body_that_turns_out_too_large_is_stored_up_to_there_and_the_answer_says_so(
    api: Client, tenant: Tenant, settings: LazySettings
) -> None:
    settings.MAX_BODY_BYTES = 2000
    body = as_ndjson([make_event(n) for n in range(20)])
    fitting = body[:2000].count(b"\n")
    answer = push(api, gzip.compress(body), content_encoding="gzip")
    details = answer.json()["details"]
    assert answer.status_code == 413
    assert (details["limit"], details["bytes"]) == ("MAX_BODY_BYTES", 2000)
    assert details["receipt"]["accepted"] == fitting
    assert stored(tenant) == list(range(fitting))


def test_the_receipt_has_the_shape_of_its_schema(api: Client) -> None:
    validator = jsonschema_rs.validator_for(Client().get("/schemas/receipt.json").json())
    leaking = make_event(3, "memory.written", payload={"memoryRef": "m", "memoryId": "1", "content": "secret"})
    changed = make_event(0, payload={"other": True})
    for body in (as_ndjson([make_event(0), leaking]), as_ndjson([changed]) + b"{}\n", b"{}\n"):
        said = push(api, body).json()
        validator.validate(said)
    assert not validator.is_valid(said | {"surprise": 1})


def test_an_unknown_host_and_another_tenants_host_answer_alike(api: Client) -> None:
    make_host(make_tenant("globex"), "theirs")
    unknown = api.post("/v1/hosts/nobodys/events", b"[]", content_type=JSON)
    foreign = api.post("/v1/hosts/theirs/events", as_ndjson([make_event(0)]), content_type=NDJSON)
    assert (unknown.status_code, unknown.json()) == (foreign.status_code, foreign.json())
    assert unknown.status_code == 404
    assert unknown.json()["error"] == "not_found"


class SlowBody:
    """A request's body that comes line by line, and notes at each read how many events are committed by then."""

    def __init__(self, count: int) -> None:
        self.lines = iter([as_ndjson([make_event(number)]) for number in range(count)])
        self.committed = 0
        self.committed_at_read: list[int] = []

    def read(self, size: int = -1) -> bytes:
        self.committed_at_read.append(self.committed)
        return next(self.lines, b"")

    readline = read


def test_the_body_is_read_while_it_is_taken_in(api: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    body = SlowBody(50)
    commit = intake._committed

    def committed(*args: Any) -> Any:
        outcome = commit(*args)
        body.committed += outcome.accepted
        return outcome

    monkeypatch.setattr(batches, "BATCH_EVENTS", 10)
    monkeypatch.setattr(intake, "_committed", committed)
    sent: dict[str, Any] = {"wsgi.input": body, "CONTENT_LENGTH": "1000000", "CONTENT_TYPE": NDJSON}
    answer = api.generic("POST", "/v1/hosts/alpha/events", **sent)
    assert answer.json()["accepted"] == 50
    # Never more than the batch that is being stored, the next one and the line at hand is read but not stored.
    assert all(read - kept <= 2 * 10 + 1 for read, kept in enumerate(body.committed_at_read))
    assert body.committed_at_read[-1] >= 40


def test_the_answer_comes_after_the_commit(api: Client, tenant: Tenant) -> None:
    push(api, as_ndjson(make_log()))
    with tenant_scope(tenant.pk):
        run = Run.objects.get(tenant_id=tenant.pk)
    assert (run.event_count, run.status) == (8, "completed")
