"""The REST API's reads, its keys, and the one shape of its errors."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openwop_ui.tenancy.keys import revoke
from openwop_ui.tenancy.models import ApiKey, Scope, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import api as runs_api
from runs.models import Host
from tests.factories import bearer, make_event, make_host, make_key, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db

HIGHEST = 2**53 - 1


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def api(tenant: Tenant, host: Host) -> Client:
    return Client(headers=bearer(make_key(tenant)))


def is_error(answer: Any, status: int, code: str) -> bool:
    said = answer.json()
    return (
        answer.status_code == status
        and answer["Content-Type"] == "application/json"
        and said["error"] == code
        and isinstance(said["message"], str)
        and said.keys() <= {"error", "message", "details"}
    )


# --- Keys ---


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "ApiKey", "APIKEY"])
def test_a_key_is_taken_under_either_scheme(tenant: Tenant, scheme: str) -> None:
    assert Client(headers={"Authorization": f"{scheme} {make_key(tenant)}"}).get("/v1/runs").status_code == 200


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer owp_wrong", "Bearer \xe9", "owp_wrong"]
)
def test_without_a_good_key_there_is_nothing(tenant: Tenant, host: Host, header: str | None) -> None:
    take(host, make_log())
    answer = Client(headers={} if header is None else {"Authorization": header}).get("/v1/runs")
    assert is_error(answer, 401, "unauthenticated")
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_revoked_key_answers_like_an_unknown_one(tenant: Tenant) -> None:
    key = make_key(tenant)
    with tenant_scope(tenant.pk):
        revoke(tenant_id=tenant.pk, key_id=ApiKey.objects.get().pk)
    revoked = Client(headers=bearer(key)).get("/v1/runs")
    unknown = Client(headers=bearer("owp_" + "x" * 43)).get("/v1/runs")
    assert (revoked.status_code, revoked.content) == (unknown.status_code, unknown.content)
    assert revoked.status_code == 401


def test_a_session_is_no_key(tenant: Tenant) -> None:
    browser = Client()
    browser.force_login(make_member(tenant, "vera"))
    assert browser.get("/v1/runs").status_code == 401


@pytest.mark.parametrize(
    ("held", "path", "method", "needed"),
    [
        (Scope.INGEST, "/v1/runs", "GET", "read"),
        (Scope.INGEST, "/v1/hosts", "GET", "read"),
        (Scope.READ, "/v1/hosts/alpha/events", "POST", "ingest"),
        (Scope.WRITE, "/v1/hosts/alpha/events", "POST", "ingest"),
        (Scope.REVIEW, "/v1/runs", "GET", "read"),
    ],
)
def test_a_key_without_the_scope_is_told_which_one_it_lacks(
    tenant: Tenant, host: Host, held: Scope, path: str, method: str, needed: str
) -> None:
    answer = Client(headers=bearer(make_key(tenant, held))).generic(method, path)
    assert is_error(answer, 403, "forbidden")
    assert answer.json()["details"] == {"scope": needed}


def test_the_scope_admin_includes_the_others(tenant: Tenant, host: Host) -> None:
    admin = Client(headers=bearer(make_key(tenant, Scope.ADMIN)))
    assert admin.get("/v1/runs").status_code == 200
    assert admin.post("/v1/hosts/alpha/events", [make_event()], content_type="application/json").status_code == 200


# --- Errors ---


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nothing", "/v1/runs/", "/v1//runs", "/v1/hosts/alpha/runs/a/b", "/v1/runs%00"]
)
def test_an_unknown_address_is_json_not_a_page(api: Client, path: str) -> None:
    assert is_error(api.get(path), 404, "not_found")
    assert is_error(Client().get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("POST", "/v1/runs", "GET"), ("GET", "/v1/hosts/alpha/events", "POST"), ("DELETE", "/v1/hosts", "GET")],
)
def test_a_wrong_method_is_told_the_right_ones(api: Client, method: str, path: str, allowed: str) -> None:
    answer = api.generic(method, path)
    assert is_error(answer, 405, "method_not_allowed")
    assert answer["Allow"] == allowed


def test_a_head_request_is_answered_without_a_body(api: Client) -> None:
    answer = api.head("/v1/runs")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=x", "limit"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=1&limit=2", "limit"),
        ("hst=alpha", "hst"),
        ("host=alpha&Status=failed", "Status"),
        ("host=%00", "host"),
        ("host=A%20B", "host"),
        ("cursor=1", "cursor"),
        ("cursor=alpha/none", "cursor"),
        ("cursor=alpha/~zz", "cursor"),
        ("cursor=%00/run-1", "cursor"),
        ("cursor=", "cursor"),
    ],
)
def test_a_query_that_is_not_understood_is_refused_with_its_field(
    api: Client, host: Host, query: str, field: str
) -> None:
    take(host, make_log())
    answer = api.get(f"/v1/runs?{query}")
    assert is_error(answer, 422, "validation_error")
    assert [(one["in"], one["field"]) for one in answer.json()["details"]["fields"]] == [("query", field)]


@pytest.mark.parametrize(
    "query",
    [
        "after=x",
        "after=-2",
        f"after={HIGHEST + 1}",
        "after=1.5",
        "limit=5000",
        "node=",
        "until=3",
        "type=a&type=b",
    ],
)
def test_a_query_of_events_that_is_not_understood_is_refused(api: Client, host: Host, query: str) -> None:
    take(host, make_log())
    assert is_error(api.get(f"/v1/hosts/alpha/runs/run-1/events?{query}"), 422, "validation_error")


@pytest.mark.parametrize("query", ["from=3&to=2", "width=0", "width=99999", "start=1", "from=-1"])
def test_a_query_of_the_timeline_that_is_not_understood_is_refused(api: Client, host: Host, query: str) -> None:
    take(host, make_log())
    assert is_error(api.get(f"/v1/hosts/alpha/runs/run-1/timeline?{query}"), 422, "validation_error")


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/openapi.json", "/v1/nothing"])
def test_a_request_for_a_host_name_that_is_not_ours_is_json_too(api: Client, path: str) -> None:
    assert is_error(api.get(path, headers={"Host": "evil.example"}), 400, "bad_request")


def test_a_fault_of_ours_is_json_and_says_nothing_about_itself(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr("runs.api.queries.run_list", fail)
    answer = api.get("/v1/runs")
    assert is_error(answer, 500, "internal")
    assert b"canary" not in answer.content


def test_a_database_that_is_away_is_said_to_be_so(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OperationalError("connection to server at 10.0.0.1 failed")

    monkeypatch.setattr("runs.api.queries.run_list", fail)
    answer = api.get("/v1/runs")
    assert is_error(answer, 503, "unavailable")
    assert int(answer["Retry-After"]) > 0
    assert b"10.0.0.1" not in answer.content


# --- Reads ---


def test_runs_are_listed_newest_first_in_pages_that_join_without_gap_or_double(api: Client, host: Host) -> None:
    for number in range(7):
        take(host, make_log(f"run/{number}", nodes=1))
    seen: list[str] = []
    query = {"limit": "3"}
    while True:
        page = api.get("/v1/runs", query).json()
        seen += [item["runId"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert seen == [f"run/{number}" for number in reversed(range(7))]


def test_a_new_run_between_two_pages_moves_nothing(api: Client, host: Host) -> None:
    for number in range(4):
        take(host, make_log(f"run-{number}", nodes=1))
    first = api.get("/v1/runs", {"limit": 2}).json()
    take(host, make_log("run-new", nodes=1))
    second = api.get("/v1/runs", {"limit": 2, "cursor": first["nextCursor"]}).json()
    assert [item["runId"] for item in second["items"]] == ["run-1", "run-0"]


def test_runs_are_narrowed_to_host_status_and_text(tenant: Tenant, api: Client, host: Host) -> None:
    take(host, make_log("good"))
    take(host, make_log("bad_100%", end="run.failed"))
    take(make_host(tenant, "beta"), make_log("elsewhere"))

    def ids(**query: str) -> set[str]:
        return {item["runId"] for item in api.get("/v1/runs", query).json()["items"]}

    assert ids(host="beta") == {"elsewhere"}
    assert ids(status="failed") == {"bad_100%"}
    assert ids(q="0%") == {"bad_100%"}
    assert ids(q="d_1") == {"bad_100%"}
    assert ids(q="oo_") == set()
    assert ids(host="nobodys") == set()
    assert ids() == {"good", "bad_100%", "elsewhere"}


def test_a_run_says_what_its_events_add_up_to(api: Client, host: Host) -> None:
    take(host, [event for event in make_log(nodes=2) if event["sequence"] != 3])
    said = api.get("/v1/hosts/alpha/runs/run-1").json()
    expected = {
        "host": "alpha",
        "runId": "run-1",
        "path": "run-1",
        "workflowId": "briefing",
        "status": "completed",
        "startedAt": "2026-03-01T09:00:00Z",
        "endedAt": "2026-03-01T09:00:07Z",
        "events": 7,
        "missing": 1,
        "writes": 2,
        "terminal": True,
        "firstSequence": 0,
        "lastSequence": 7,
        "through": 2,
        "attributedPercent": 100,
    }
    assert {name: said[name] for name in expected} == expected


def test_times_keep_their_microseconds(api: Client, host: Host) -> None:
    take(host, [make_event(0, "run.started", timestamp="2026-03-01T10:00:00.123456+01:00")])
    assert api.get("/v1/hosts/alpha/runs/run-1").json()["startedAt"] == "2026-03-01T09:00:00.123456Z"


def test_events_come_back_as_they_were_sent_digit_for_digit(api: Client, host: Host) -> None:
    text = (
        '{ "type":"custom.thing", "sequence": 0,"runId":"run-1","timestamp":"2026-03-01T09:00:00.000Z",'
        '"payload":{"id":3544790567247868102,"x":1.10,"y":1e5,"z":-0,"name":"\\u00e9\\ud800","big":1e400}}'
    )
    assert take(host, [text]).accepted == 1
    answer = api.get("/v1/hosts/alpha/runs/run-1/events")
    assert answer.content == b'{"items":[' + text.encode() + b'],"nextCursor":null}'


def test_events_come_in_pages_that_join_and_can_be_taken_in_again(tenant: Tenant, api: Client, host: Host) -> None:
    log = make_log(nodes=5)
    take(host, reversed(log))
    seen: list[dict[str, Any]] = []
    after = "-1"
    while True:
        page = api.get("/v1/hosts/alpha/runs/run-1/events", {"after": after, "limit": "4"}).json()
        seen += page["items"]
        if page["nextCursor"] is None:
            break
        after = page["nextCursor"]
    assert seen == log
    again = take(host, seen)
    assert (again.accepted, again.repeated, again.incidents_total) == (0, len(log), 0)
    elsewhere = take(make_host(tenant, "beta"), seen)
    assert elsewhere.accepted == len(log)


def test_events_are_narrowed_to_a_node_and_a_type(api: Client, host: Host) -> None:
    take(host, make_log(nodes=2))

    def found(**query: str) -> list[int]:
        return [one["sequence"] for one in api.get("/v1/hosts/alpha/runs/run-1/events", query).json()["items"]]

    assert found(node="step-1") == [4, 5, 6]
    assert found(type="memory.written") == [2, 5]
    assert found(node="step-1", type="memory.written") == [5]
    assert found(node="step-9") == []
    assert found(after="5") == [6, 7]


def test_a_filtered_page_has_a_cursor_as_long_as_there_is_more(api: Client, host: Host) -> None:
    take(host, make_log(nodes=50))
    seen: list[int] = []
    query: dict[str, Any] = {"type": "memory.written", "limit": 1}
    for _ in range(100):
        page = api.get("/v1/hosts/alpha/runs/run-1/events", query).json()
        seen += [one["sequence"] for one in page["items"]]
        if page["nextCursor"] is None:
            break
        query["after"] = page["nextCursor"]
    assert seen == [2 + 3 * number for number in range(50)]


def test_a_page_of_large_events_is_cut_by_size_and_goes_on(
    api: Client, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_api, "PAGE_BYTES", 20_000)
    take(host, [make_event(n, payload={"text": "x" * 4_000}) for n in range(40)])
    seen: list[int] = []
    sizes: list[int] = []
    after = "-1"
    while True:
        answer = api.get("/v1/hosts/alpha/runs/run-1/events", {"after": after, "limit": "1000"})
        page = answer.json()
        sizes.append(len(answer.content))
        seen += [one["sequence"] for one in page["items"]]
        if page["nextCursor"] is None:
            break
        after = page["nextCursor"]
    assert seen == list(range(40))
    # The first step of a page is taken blindly.
    assert max(sizes) < (runs_api.FIRST_STEP + 1) * 4_300
    assert len(sizes) > 1


def test_the_number_of_queries_of_a_page_does_not_grow_with_it(api: Client, host: Host) -> None:
    for number in range(6):
        take(host, make_log(f"run-{number}", nodes=3))
    api.get("/v1/runs")  # notes the key's use
    counts = []
    for limit in (1, 5):
        with CaptureQueriesContext(connection) as asked:
            api.get("/v1/runs", {"limit": limit})
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_the_timeline_is_that_of_the_stretch(api: Client, host: Host) -> None:
    take(host, make_log(nodes=3))
    said = api.get("/v1/hosts/alpha/runs/run-1/timeline", {"from": 4, "to": 6, "width": 500}).json()
    assert (said["window"]["from"], said["window"]["to"]) == (4, 6)
    assert [write["sequence"] for write in said["writes"]] == [5]
    assert said["run"]["lastSequence"] == 10


def test_hosts_are_listed_and_found_by_their_slug(tenant: Tenant, api: Client, host: Host) -> None:
    make_host(tenant, "beta", name="Beta", origin="https://beta.example")
    take(host, make_log())
    alpha, beta = api.get("/v1/hosts").json()["items"]
    assert (alpha["slug"], alpha["runs"], alpha["events"], alpha["origin"]) == ("alpha", 1, 8, None)
    assert (beta["slug"], beta["name"], beta["origin"]) == ("beta", "Beta", "https://beta.example")
    assert api.get("/v1/hosts/alpha").json() == alpha


def test_what_is_unknown_and_what_is_another_tenants_answer_alike(api: Client) -> None:
    take(make_host(make_tenant("globex"), "theirs"), make_log("secret"))
    for unknown, foreign in [
        ("/v1/hosts/nobodys", "/v1/hosts/theirs"),
        ("/v1/hosts/nobodys/runs/secret", "/v1/hosts/theirs/runs/secret"),
        ("/v1/hosts/alpha/runs/none", "/v1/hosts/theirs/runs/secret"),
        ("/v1/hosts/nobodys/runs/secret/events", "/v1/hosts/theirs/runs/secret/events"),
        ("/v1/hosts/nobodys/runs/secret/timeline", "/v1/hosts/theirs/runs/secret/timeline"),
        ("/v1/runs?host=nobodys", "/v1/runs?host=theirs"),
        ("/v1/runs?cursor=nobodys/secret", "/v1/runs?cursor=theirs/secret"),
    ]:
        told, kept = api.get(unknown), api.get(foreign)
        assert (told.status_code, told.content) == (kept.status_code, kept.content), foreign


@pytest.mark.parametrize("segment", ["~2f", "a~2Db", "~", "~GG", "%7E2F%2F", "a%20b", "..%2F.."])
def test_a_segment_that_is_no_projection_is_no_address(api: Client, host: Host, segment: str) -> None:
    take(host, make_log("a-b"))
    assert is_error(api.get(f"/v1/hosts/alpha/runs/{segment}"), 404, "not_found")


def test_what_a_key_gets_to_see_is_kept_by_no_cache(api: Client) -> None:
    assert api.get("/v1/runs")["Cache-Control"] == "no-store"


# --- Documents ---


def test_the_documents_describe_what_is_answered(api: Client, host: Host) -> None:
    take(host, make_log())
    document = Client().get("/v1/openapi.json").json()
    for path, url in {
        "/v1/runs": "/v1/runs",
        "/v1/hosts": "/v1/hosts",
        "/v1/hosts/{host}": "/v1/hosts/alpha",
        "/v1/hosts/{host}/runs/{run}": "/v1/hosts/alpha/runs/run-1",
    }.items():
        schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        closed = json.loads(json.dumps(document["components"]["schemas"]))
        for one in closed.values():
            one["additionalProperties"] = False
        jsonschema_rs.validator_for({**schema, "components": {"schemas": closed}}).validate(api.get(url).json())


def test_every_endpoint_is_documented_with_its_key_and_its_errors() -> None:
    document = Client().get("/v1/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) >= 9
    for operation in operations:
        assert operation["security"] == [{"Key": []}]
        assert operation["description"]
        assert operation["responses"]["default"]["content"]["application/json"]["schema"] == {
            "$ref": "/schemas/error.json"
        }


def test_every_schema_that_the_documents_refer_to_is_served() -> None:
    text = Client().get("/v1/openapi.json").content.decode()
    named = {piece.split('"')[0] for piece in text.split("/schemas/")[1:] if piece.split('"')[0].endswith(".json")}
    assert named == {
        *("receipt.json", "run-event.json", "memory-entry.json", "error.json", "memory-put.json"),
        *("memories-add.json", "conflict-decision.json", "provenance-chain.json"),
    }
    for name in named:
        answer = Client().get(f"/schemas/{name}")
        assert answer.status_code == 200
        assert answer.json()["$id"] == f"/schemas/{name}"
        assert answer["Content-Type"] == "application/schema+json"
        again = Client().get(f"/schemas/{name}", headers={"If-None-Match": answer["ETag"]})
        assert again.status_code == 304
    assert {f"{name}.json" for name in Client().get("/schemas/").json()["schemas"]} >= named
    assert Client().get("/schemas/settings.json").status_code == 404


def test_the_documents_page_loads_nothing_from_elsewhere_and_needs_no_exception() -> None:
    answer = Client().get("/v1/docs")
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "https://" not in page
    assert "unsafe" not in answer["Content-Security-Policy"]
    scripts = [part.partition(">")[0] for part in page.split("<script")[1:]]
    assert all('src="/static/' in tag or 'type="application/json"' in tag for tag in scripts)
