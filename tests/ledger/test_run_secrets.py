"""Secrets that are known for a run, and those that look like one: out of every entry before it is stored (SR-1)."""

from __future__ import annotations

import json
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ledger.domain.redaction import Policy
from ledger.models import OwnPut, RunSecret
from ledger.policies import lay_down
from ledger.run_secrets import UNHEARD, forget_ended
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import bearer, make_event, make_host, make_key, make_member, make_tenant, take
from tests.ledger.canary import places_of

JSON = "application/json"
CANARY = "k4n4ry/pass phrase: ünïcode 7"
LONGER = f"{CANARY} and its tail"


@pytest.fixture
def api(tenant: Tenant) -> Client:
    return Client(headers=bearer(make_key(tenant, "read", "write")))


def start(host: Host, run: str = "run-1") -> None:
    now = timezone.now()
    take(host, [make_event(0, "run.started", run=run, at=now)], received_at=now)


def end(host: Host, run: str = "run-1") -> None:
    take(host, [make_event(1, "run.completed", run=run, at=timezone.now())])


def register(api: Client, secrets: Any, *, run: str = "run-1", host: str = "alpha") -> Any:
    return api.put(f"/v1/hosts/{host}/runs/{run}/secrets", {"secrets": secrets}, content_type=JSON)


def put(
    api: Client, content: str, *, tags: tuple[str, ...] = (), run: str | None = "alpha/run-1", ref: str = "notes"
) -> Any:
    body = {"memoryRef": ref, "entry": {"content": content, "tags": list(tags)}, "run": run}
    return api.post("/v1/memory", json.dumps(body), content_type=JSON)


# --- What is taken out ---


TAKEN_OUT: list[tuple[dict[str, str], str, str]] = [
    ({"a": "correct horse"}, "say correct horse twice: correct horse", "say [REDACTED:a] twice: [REDACTED:a]"),
    ({"a": "correct horse", "b": "horse battery"}, "correct horse battery", "[REDACTED:a] battery"),
    ({"a": "battery", "b": "horse battery st"}, "horse battery staple", "[REDACTED:b]aple"),
    ({"a": "12345678"}, "0123456789", "0[REDACTED:a]9"),
    ({"a": "1234567"}, "0123456789", "0123456789"),
    ({"a": "a.*c+(d)"}, "a.*c+(d) aXXc+(d)", "[REDACTED:a] aXXc+(d)"),
    ({"a": "Correct Horse"}, "correct horse", "correct horse"),
    ({"a": "ünïcödé!"}, "ünïcödé!", "[REDACTED:a]"),
    ({"a": "correct horse"}, "[REDACTED:a]", "[REDACTED:a]"),
    ({}, "The plan is Growth.", "The plan is Growth."),
]


@pytest.mark.parametrize(("secrets", "content", "kept"), TAKEN_OUT)
def test_h_agent_memory_redaction_contract(
    api: Client, host: Host, secrets: dict[str, str], content: str, kept: str
) -> None:
    """agentMemoryRedactionContract: plain substrings, the longest first, none under 8 characters, tags as well."""
    assert register(api, secrets).status_code == 200
    said = put(api, content, tags=(content,)).json()["entry"]
    assert (said["content"], said["tags"]) == (kept, [kept])
    (found,) = api.get("/v1/memory", {"memoryRef": "notes"}).json()["entries"]
    assert found == said


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("key sk-ant-0123456789abcdefghij end", "key [REDACTED:token] end"),
        ("AKIAIOSFODNN7EXAMPLE", "[REDACTED:aws-access-key]"),
        ("password is hunter2hunter2", "password is [REDACTED:secret-keyword]"),
        ("nothing of the kind", "nothing of the kind"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_with_no_run_at_all(api: Client, content: str, kept: str) -> None:
    assert put(api, content, run=None).json()["entry"]["content"] == kept


def test_a_tag_that_its_marks_make_too_long_becomes_its_mark(api: Client, host: Host) -> None:
    register(api, {"i" * 100: "12345678"})
    said = put(api, "c", tags=("x" * 240 + "12345678",)).json()["entry"]
    assert said["tags"] == [f"[REDACTED:{'i' * 100}]"]


def test_the_canary_is_nowhere(api: Client, tenant: Tenant, host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    start(host)
    assert places_of(tenant, "run-1")  # what is there is found
    register(api, {"first": CANARY, "tail": LONGER})
    said = put(api, f"it is {CANARY}, or {LONGER}.", tags=("t", CANARY))
    assert said.json()["entry"]["content"] == "it is [REDACTED:first], or [REDACTED:tail]."
    refused = put(api, "text", ref=f"notes/{CANARY}")
    assert (refused.status_code, refused.json()["error"]) == (422, "secret_leakage")
    put(api, CANARY + "x" * 70_000)
    register(api, {"bad]id": CANARY})
    register(api, {CANARY: "12345678"})
    assert places_of(tenant, CANARY) == set()
    assert places_of(tenant, "REDACTED:first")
    browser = Client()
    browser.force_login(make_member(tenant, "admin", Role.ADMIN))
    memory_id = said.json()["entry"]["id"]
    addresses = [
        reverse("ledger:ledger", args=[tenant.slug]),
        reverse("ledger:entry", args=[tenant.slug, "openwop-ui", "notes", memory_id]),
    ]
    for address in addresses:
        page = browser.get(address).content.decode()
        assert "k4n4ry" not in page
    assert "REDACTED:first" in page
    assert "k4n4ry" not in caplog.text
    assert "k4n4ry" not in refused.content.decode()


def test_a_tenant_that_refuses_keeps_nothing_of_it(api: Client, tenant: Tenant, host: Host) -> None:
    lay_down(tenant_id=tenant.pk, secrets=Policy.REFUSE, max_entry_bytes=65536, payload_days=None, event_days=None)
    register(api, {"a": CANARY})
    answer = put(api, f"it is {CANARY}", tags=("AKIAIOSFODNN7EXAMPLE",))
    said = answer.json()
    assert (answer.status_code, said["error"]) == (422, "secret_leakage")
    assert said["details"] == {"found": ["a", "aws-access-key"]}
    assert "k4n4ry" not in answer.content.decode()
    with tenant_scope(tenant.pk):
        assert not OwnPut.objects.exists()
    assert put(api, "nothing of the kind").status_code == 201


# --- For how long they are known ---


def known(tenant: Tenant) -> list[str]:
    with tenant_scope(tenant.pk):
        return sorted(RunSecret.objects.values_list("secret_id", flat=True))


def test_secrets_are_gone_with_the_runs_end(api: Client, tenant: Tenant, host: Host) -> None:
    start(host)
    start(host, "run-2")
    register(api, {"a": CANARY})
    register(api, {"b": LONGER}, run="run-2")
    assert forget_ended(tenant.pk) == 0
    end(host)
    assert put(api, CANARY).json()["entry"]["content"] == CANARY
    assert forget_ended(tenant.pk) == 1
    assert known(tenant) == ["b"]
    answer = register(api, {"a": CANARY})
    assert (answer.status_code, answer.json()["error"]) == (409, "run_ended")
    assert known(tenant) == ["b"]


def test_secrets_of_a_run_that_is_never_heard_of_go_after_a_day(api: Client, tenant: Tenant, host: Host) -> None:
    register(api, {"a": CANARY})
    now = timezone.now()
    assert forget_ended(tenant.pk, now=now + UNHEARD - timedelta(minutes=1)) == 0
    assert forget_ended(tenant.pk, now=now + UNHEARD + timedelta(minutes=1)) == 1


def test_secrets_are_registered_before_the_first_event_and_named_by_host_and_run(api: Client, host: Host) -> None:
    register(api, {"a": CANARY}, run="acme~2Fr-9")
    assert put(api, CANARY, run="acme/r-9").status_code == 404
    for run in ("alpha/acme/r-9", "alpha/acme~2Fr-9"):
        assert put(api, CANARY, run=run).json()["entry"]["content"] == "[REDACTED:a]"


def test_secrets_are_replaced_by_id_and_forgotten_on_request(api: Client, tenant: Tenant, host: Host) -> None:
    register(api, {"a": CANARY, "b": "12345678"})
    assert register(api, {"a": LONGER, "c": "short"}).json() == {"registered": ["a"], "tooShort": ["c"]}
    assert known(tenant) == ["a", "b"]
    assert put(api, LONGER).json()["entry"]["content"] == "[REDACTED:a]"
    assert api.delete("/v1/hosts/alpha/runs/run-1/secrets").json() == {"forgotten": 2}
    assert put(api, LONGER).json()["entry"]["content"] == LONGER


@pytest.mark.parametrize(
    "secrets", [[], "text", {"a": 5}, {"a": ""}, {"": "12345678"}, {"a]": "12345678"}, {"a b": "12345678"},
                {"a": "x" * 8193}, {"a": "\ud800 12345678"}, {str(number): "12345678x" for number in range(101)},
                {"12345678": "12345678"}],
)  # fmt: skip
def test_what_can_not_be_a_secret_is_refused(api: Client, tenant: Tenant, host: Host, secrets: Any) -> None:
    body = json.dumps({"secrets": secrets})
    answer = api.put("/v1/hosts/alpha/runs/run-1/secrets", body, content_type=JSON)
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")
    assert "12345678" not in answer.content.decode()
    assert known(tenant) == []


def test_secrets_belong_to_a_tenant_and_a_run(api: Client, tenant: Tenant, host: Host) -> None:
    other = make_tenant("other")
    make_host(other)
    theirs = Client(headers=bearer(make_key(other, "read", "write")))
    register(api, {"a": CANARY})
    assert register(theirs, {"a": CANARY}, host="nobody").status_code == 404
    assert put(theirs, CANARY, run="alpha/run-1").json()["entry"]["content"] == CANARY
    assert theirs.delete("/v1/hosts/alpha/runs/run-1/secrets").json() == {"forgotten": 0}
    start(host, "run-2")
    assert put(api, CANARY, run="run-2").json()["entry"]["content"] == CANARY
    assert known(tenant) == ["a"]


def test_secrets_are_stored_sealed(api: Client, tenant: Tenant, host: Host) -> None:
    register(api, {"a": CANARY})
    with tenant_scope(tenant.pk):
        (sealed,) = RunSecret.objects.values_list("sealed", flat=True)
    assert re.fullmatch(r"[A-Za-z0-9_=-]{80,}", sealed)
    assert places_of(tenant, "k4n4ry") == set()
