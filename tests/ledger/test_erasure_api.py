"""Erasing over REST: who may, what is told before, what stays to be read afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from openwop_ui.tenancy.models import Tenant
from runs.models import Host
from tests.factories import bearer, make_host, make_key, make_tenant
from tests.ledger.canary import places_of
from tests.ledger.claims import body, make_writer, plan, say, shown
from tests.ledger.test_erasures import CANARY, TEXT, see

JSON = "application/json"
ADDRESS = {"host": "alpha", "memoryRef": "notes", "memoryId": "m1"}


@pytest.fixture
def api(tenant: Tenant) -> Client:
    return Client(headers=bearer(make_key(tenant, "admin", name="the officer")))


def post(api: Client, said: Any) -> Any:
    return api.post("/v1/tenant/erasures", said, content_type=JSON)


def test_an_entry_is_erased_and_its_tombstone_is_read(api: Client, tenant: Tenant, host: Host) -> None:
    see(host, "m1", TEXT)
    see(host, "m2", f"copied: {TEXT}.")
    told = post(api, {"entry": ADDRESS, "dryRun": True})
    assert told.status_code == 200
    assert [(one["memoryId"], one["reason"]) for one in told.json()["entries"]] == [("m1", "asked"), ("m2", "quotes")]
    assert places_of(tenant, CANARY)
    answer = post(api, {"entry": ADDRESS})
    said = answer.json()
    assert answer.status_code == 201
    assert (said["kind"], said["actor"], said["entry"], said["subjectHash"]) == (
        "entry", "key:the officer", ADDRESS, None,
    )  # fmt: skip
    assert said["counts"]["entries"] == told.json()["counts"]["entries"] == 2
    assert places_of(tenant, CANARY) == set()
    assert api.get("/v1/tenant/erasures").json() == {"items": [said], "nextCursor": None}
    detail = api.get(f"/v1/tenant/erasures/{said['id']}").json()
    assert [(one["kind"], len(one["sha256"])) for one in detail.pop("items")] == [("content", 64), ("content", 64)]
    assert detail == said
    seen = api.get("/v1/ledger/entries/alpha/notes/m1").json()
    assert (seen["state"], seen["content"]) == ("erased", None)


def test_a_subject_is_erased_and_counted(api: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing")
    say(tenant, body("a", subject="ada", claims=[plan(CANARY)]), body("b", subject="bob", claims=[plan("Starter")]))
    said = post(api, {"subject": "ada"}).json()
    assert (said["kind"], said["entry"], said["counts"]["claims"]) == ("subject", None, 1)
    assert len(said["subjectHash"]) == 64
    assert shown(tenant) == [("bob", "Starter")]
    assert post(api, {"subject": "ada"}).status_code == 404


REFUSED: list[tuple[Any, int, str]] = [
    ({}, 422, "validation_error"),
    ({"subject": ""}, 422, "validation_error"),
    ({"subject": 5}, 422, "validation_error"),
    ({"subject": "s", "entry": ADDRESS}, 422, "validation_error"),
    ({"entry": "m1"}, 422, "validation_error"),
    ({"entry": {"memoryRef": "notes"}}, 422, "validation_error"),
    ({"entry": ADDRESS | {"id": "m1"}}, 422, "validation_error"),
    ({"entry": ADDRESS, "actor": "somebody"}, 422, "validation_error"),
    ({"entry": ADDRESS, "dryRun": "yes"}, 422, "validation_error"),
    ({"entry": ADDRESS | {"memoryId": "m9"}}, 404, "not_found"),
    ({"entry": ADDRESS | {"host": "nobody"}}, 404, "not_found"),
    ({"entry": ADDRESS | {"host": "theirs"}}, 404, "not_found"),
    ({"entry": {"memoryRef": "notes", "memoryId": "m1"}}, 404, "not_found"),
    ({"subject": "nobody"}, 404, "not_found"),
    ({"subject": "nobody", "dryRun": True}, 404, "not_found"),
]


@pytest.mark.parametrize(("said", "status", "code"), REFUSED)
def test_what_can_not_be_erased_changes_nothing(
    api: Client, tenant: Tenant, host: Host, said: Any, status: int, code: str
) -> None:
    see(host, "m1", TEXT)
    there = make_host(make_tenant("other"), "theirs")
    see(there, "m1", TEXT)
    answer = post(api, said)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert places_of(tenant, CANARY)
    assert api.get("/v1/tenant/erasures").json()["items"] == []


def test_it_takes_the_scope_admin_and_tombstones_are_the_tenants(api: Client, tenant: Tenant, host: Host) -> None:
    see(host, "m1", TEXT)
    for scope in ("read", "write", "review", "ingest"):
        key = Client(headers=bearer(make_key(tenant, scope)))
        assert post(key, {"entry": ADDRESS}).status_code == 403
    said = post(api, {"entry": ADDRESS}).json()
    theirs = Client(headers=bearer(make_key(make_tenant("other"), "admin")))
    assert theirs.get("/v1/tenant/erasures").json()["items"] == []
    assert theirs.get(f"/v1/tenant/erasures/{said['id']}").status_code == 404
    assert Client(headers=bearer(make_key(tenant, "read"))).get("/v1/tenant/erasures").json()["items"] == [said]


def test_tombstones_come_in_pages(api: Client, host: Host) -> None:
    for number in range(3):
        see(host, f"m{number}", f"text number {number}")
        assert post(api, {"entry": ADDRESS | {"memoryId": f"m{number}"}}).status_code == 201
    first = api.get("/v1/tenant/erasures", {"limit": 2}).json()
    rest = api.get("/v1/tenant/erasures", {"limit": 2, "cursor": first["nextCursor"]}).json()
    assert [one["entry"]["memoryId"] for one in (*first["items"], *rest["items"])] == ["m2", "m1", "m0"]
    assert rest["nextCursor"] is None
