"""manage.py ingest: files in, receipts out, and what the exit status says."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Event, Host
from tests.factories import as_ndjson, make_event, make_host, make_log, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def ingest(*files: Path | str, host: str = "alpha", **options: Any) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        call_command("ingest", *map(str, files), tenant="acme", host=host, stdout=out, stderr=err, **options)
    except SystemExit as end:
        status = int(end.code or 0)
    return status, out.getvalue(), err.getvalue()


def stored(tenant: Tenant) -> int:
    with tenant_scope(tenant.pk):
        return Event.objects.filter(tenant_id=tenant.pk).count()


@pytest.mark.parametrize("name", ["log.ndjson", "log.json", "log.ndjson.gz", "log"])
def test_a_file_is_taken_in_once(tenant: Tenant, tmp_path: Path, name: str) -> None:
    make_host(tenant)
    file = tmp_path / name
    body = json.dumps(make_log()).encode() if name.endswith(".json") else as_ndjson(make_log())
    file.write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
    for accepted, repeated in ((8, 0), (0, 8)):
        status, out, _ = ingest(file, json=True)
        assert status == 0
        said = json.loads(out)
        assert (said["accepted"], said["repeated"], said["refused"]) == (accepted, repeated, [])
    assert stored(tenant) == 8


def test_a_missing_host_is_made_and_that_is_said(tenant: Tenant, tmp_path: Path) -> None:
    file = tmp_path / "log.ndjson"
    file.write_bytes(as_ndjson(make_log()))
    _, out, err = ingest(file, host="fresh", json=True)
    assert "fresh" in err
    assert json.loads(out)["accepted"] == 8
    with tenant_scope(tenant.pk):
        assert Host.objects.get(slug="fresh").origin == ""
    assert ingest(file, host="fresh")[2] == ""


def test_something_refused_gives_status_2_and_the_rest_is_stored(tenant: Tenant, tmp_path: Path) -> None:
    file = tmp_path / "log.ndjson"
    file.write_bytes(as_ndjson([make_event(0)]) + b'{"type":\n' + as_ndjson([make_event(2)]))
    status, out, _ = ingest(file)
    assert status == 2
    assert "2 accepted" in out
    assert "refused, event 1: " in out
    assert stored(tenant) == 2


def test_a_file_that_is_cut_off_gives_status_2(tenant: Tenant, tmp_path: Path) -> None:
    file = tmp_path / "log.ndjson.gz"
    file.write_bytes(gzip.compress(as_ndjson(make_log()))[:-20])
    status, out, _ = ingest(file, json=True)
    assert status == 2
    assert "gzip" in json.loads(out)["refused"][-1]["reason"]


def test_several_files_give_a_line_each_that_names_its_file(tenant: Tenant, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(as_ndjson(make_log(name)))
    _, out, _ = ingest(tmp_path / "a", tmp_path / "b", json=True)
    told = [json.loads(line) for line in out.splitlines()]
    assert [(one["file"], one["runs"]) for one in told] == [
        (str(tmp_path / name), [{"runId": name, "through": 7}]) for name in ("a", "b")
    ]


def test_standard_input_is_read(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(as_ndjson(make_log()))

    monkeypatch.setattr("sys.stdin", Stdin)
    _, out, _ = ingest("-", json=True)
    assert json.loads(out)["accepted"] == 8


def test_events_of_another_run_are_refused(tenant: Tenant, tmp_path: Path) -> None:
    file = tmp_path / "log.ndjson"
    file.write_bytes(as_ndjson([make_event(0, run="mine"), make_event(1, run="other")]))
    status, out, _ = ingest(file, run="mine", json=True)
    assert status == 2
    assert [one["index"] for one in json.loads(out)["refused"]] == [1]


@pytest.mark.parametrize(
    ("options", "named"),
    [({"tenant": "nobody"}, "nobody"), ({"host": "No Slug"}, "--host"), ({}, "absent.ndjson")],
)
def test_a_failure_names_what_failed(tenant: Tenant, tmp_path: Path, options: dict[str, str], named: str) -> None:
    with pytest.raises(CommandError, match=named) as failure:
        call_command("ingest", str(tmp_path / "absent.ndjson"), **{"tenant": "acme", "host": "alpha"} | options)
    assert failure.value.returncode == 1


def test_the_readable_receipt_tells_of_incidents_and_runs(tenant: Tenant, tmp_path: Path) -> None:
    file = tmp_path / "log.ndjson"
    changed = make_event(0, "run.started", payload={"workflowId": "another"})
    file.write_bytes(as_ndjson([*make_log(), changed, make_event(5, run="late")]))
    status, out, _ = ingest(file)
    assert status == 0
    assert "9 accepted, 1 known already, 0 refused" in out
    assert "noticed, run-1 at 0: " in out
    assert "run run-1: whole through 7" in out
    assert "run late: its beginning is missing" in out
