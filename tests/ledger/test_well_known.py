"""The discovery document of this ledger: every claim in it is put to the test, and nothing is claimed beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from django.test import Client
from django.utils import timezone

from ledger.domain.redaction import Policy
from ledger.policies import lay_down
from openwop_ui import VERSION
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import operator_scope
from runs.domain.capabilities import read_capabilities
from tests.factories import bearer, make_host, make_key, make_log, take
from tests.ledger.canary import places_of

JSON = "application/json"
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "discovery.json").read_text())
ADDRESS = "/.well-known/openwop"


@pytest.fixture
def api(tenant: Tenant) -> Client:
    return Client(headers=bearer(make_key(tenant, "read", "write", "admin")))


def put(api: Client, content: str = "text", **entry: Any) -> Any:
    body = {"memoryRef": "notes", "entry": {"content": content, "tags": [], **entry}}
    return api.post("/v1/memory", body, content_type=JSON)


def ids(api: Client, **asked: Any) -> list[str]:
    return [one["id"] for one in api.get("/v1/memory", {"memoryRef": "notes", **asked}).json()["entries"]]


def made(answer: Any) -> str:
    assert answer.status_code == 201
    return str(answer.json()["entry"]["id"])


# --- What each claim says, put to the test ---


def it_is_of_the_first_major(api: Client, told: Any) -> None:
    assert read_capabilities(api.get(ADDRESS).json()).majors == (1,)
    assert told == "1.1"


def it_names_what_answers(api: Client, told: Any) -> None:
    assert told in ("openwop-ui", VERSION)


def list_and_get_answer(api: Client, told: Any) -> None:
    memory_id = made(put(api))
    assert ids(api) == [memory_id]
    assert api.get(f"/v1/memory/{memory_id}", {"memoryRef": "notes"}).status_code == 200
    assert told is True


def put_and_delete_work(api: Client, told: Any) -> None:
    memory_id = made(put(api))
    assert api.delete(f"/v1/memory/{memory_id}?memoryRef=notes").json()["removed"] is True
    assert ids(api) == []
    assert told is True


def the_largest_entry_is_the_last_that_is_taken(api: Client, told: Any) -> None:
    assert put(api, "x" * told).status_code == 201
    answer = put(api, "x" * (told + 1))
    assert (answer.status_code, answer.json()["details"]["limit"]) == (413, "maxEntrySizeBytes")


def an_expiry_is_honoured(api: Client, told: Any) -> None:
    soon = (timezone.now() + timedelta(milliseconds=150)).isoformat()
    answer = put(api, expiresAt=soon)
    while timezone.now().isoformat() < soon:
        pass
    assert answer.status_code == 201
    assert ids(api) == []
    assert told is True


def entries_are_forgotten_for_good(api: Client, told: Any) -> None:
    memory_id = made(put(api, "to be forgotten 42"))
    address = {"memoryRef": "notes", "memoryId": memory_id}
    assert api.post("/v1/tenant/erasures", {"entry": address}, content_type=JSON).status_code == 201
    assert ids(api) == []
    with operator_scope():
        tenant = Tenant.objects.get(slug="acme")
    assert places_of(tenant, "to be forgotten 42") == set()
    assert told is True


def entries_are_found_by_tag(api: Client, told: Any) -> None:
    memory_id = made(put(api, tags=["plan"]))
    made(put(api, tags=["other"]))
    assert ids(api, tag="plan") == [memory_id]
    assert told in (True, "filter")


def entries_outlast_runs(api: Client, told: Any) -> None:
    with operator_scope():
        host = make_host(Tenant.objects.get(slug="acme"))
    take(host, make_log())
    answer = api.post(
        "/v1/memory", {"memoryRef": "notes", "entry": {"content": "c"}, "run": "run-1"}, content_type=JSON
    )
    assert ids(api) == [made(answer)]
    assert told == "long-term"


def no_such_route(*paths: str) -> Callable[[Client, Any], None]:
    def is_not_there(api: Client, told: Any) -> None:
        assert told is False
        for path in paths:
            assert api.post(path, {}, content_type=JSON).status_code in (404, 405)

    return is_not_there


def a_put_makes_no_event(api: Client, told: Any) -> None:
    made(put(api))
    assert api.get("/v1/runs").json()["items"] == []
    assert told is False


CLAIMS: dict[str, Callable[[Client, Any], None]] = {
    "/protocolVersion": it_is_of_the_first_major,
    "/implementation/name": it_names_what_answers,
    "/implementation/version": it_names_what_answers,
    "/memory/supported": list_and_get_answer,
    "/memory/writable": put_and_delete_work,
    "/memory/maxEntrySizeBytes": the_largest_entry_is_the_last_that_is_taken,
    "/memory/ttlSupported": an_expiry_is_honoured,
    "/memory/retention/ttl": an_expiry_is_honoured,
    "/memory/retention/forget": entries_are_forgotten_for_good,
    "/memory/search/supported": entries_are_found_by_tag,
    "/memory/search/modes/0": entries_are_found_by_tag,
    "/memory/compaction/supported": no_such_route("/v1/memory:compact", "/v1/memory/compact"),
    "/memory/distillation/supported": no_such_route("/v1/memory:distill", "/v1/memory/distill"),
    "/memory/attribution/supported": a_put_makes_no_event,
    "/memory/attribution/emitsWriteEvents": a_put_makes_no_event,
    "/agents/memoryBackends/0": entries_outlast_runs,
}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, f"{path}/{name}")
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from leaves(element, f"{path}/{index}")
    else:
        yield path, value


def test_every_claim_is_put_to_the_test(api: Client) -> None:
    assert {path for path, _ in leaves(api.get(ADDRESS).json())} == CLAIMS.keys()


@pytest.mark.parametrize("pointer", CLAIMS)
def test_a_claim_is_honoured(api: Client, pointer: str) -> None:
    CLAIMS[pointer](api, dict(leaves(api.get(ADDRESS).json()))[pointer])


def test_the_document_is_as_its_schema_has_it_and_reads_as_meant(api: Client) -> None:
    document = api.get(ADDRESS).json()
    jsonschema_rs.validator_for(SCHEMA).validate(document)
    read = read_capabilities(document)
    answers = {name: dimension.answer for name, dimension in read.dimensions.items()}
    assert answers == {
        "read": "supported",
        "write": "supported",
        "search": "supported",
        "long-term": "supported",
        "compaction": "not",
        "distillation": "not",
        "attribution": "not",
        "replay-snapshot": "unknown",
        "retention": "supported",
    }
    assert (read.implementation, read.max_entry_size_bytes, read.ttl_supported) == ("openwop-ui", 65536, True)
    assert read.withheld == ()


def test_anybody_may_ask_and_a_key_is_told_its_tenants_limit(api: Client, tenant: Tenant) -> None:
    lay_down(tenant_id=tenant.pk, secrets=Policy.REWRITE, max_entry_bytes=1000, payload_days=None, event_days=None)
    assert Client().get(ADDRESS).json()["memory"]["maxEntrySizeBytes"] == 65536
    assert Client(headers=bearer("owp_wrong")).get(ADDRESS).json()["memory"]["maxEntrySizeBytes"] == 65536
    answer = api.get(ADDRESS)
    assert answer.json()["memory"]["maxEntrySizeBytes"] == 1000
    assert "Authorization" in answer["Vary"]
    the_largest_entry_is_the_last_that_is_taken(api, 1000)


def test_it_is_read_once_and_asked_again_by_its_tag(api: Client, tenant: Tenant) -> None:
    first = api.get(ADDRESS)
    for asked in (first["ETag"], f'"x", {first["ETag"]}', f"W/{first['ETag']}", "*"):
        again = api.get(ADDRESS, headers={"If-None-Match": asked})
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    lay_down(tenant_id=tenant.pk, secrets=Policy.REWRITE, max_entry_bytes=1000, payload_days=None, event_days=None)
    assert api.get(ADDRESS, headers={"If-None-Match": first["ETag"]}).status_code == 200
    assert Client().get(ADDRESS)["ETag"] == first["ETag"]
    assert Client().post(ADDRESS).status_code == 405
