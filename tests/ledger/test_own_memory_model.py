"""Whatever is put, listed, got, deleted and expires in whatever order: the store answers as the rule's own model."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.domain.snapshot_rule import Cursor, Entry, Snapshot, get, list_entries
from ledger.models import OwnDelete, OwnPut, RunSnapshot
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host, Run
from tests.factories import bearer, make_event, make_host, make_key, make_tenant, take

JSON = "application/json"
REFS = ("notes", "other")
TAGS = ("a", "b", "ab")
SHORT = timedelta(milliseconds=40)

tenants = count()
puts = st.tuples(
    st.just("put"), st.sampled_from(REFS), st.sets(st.sampled_from(TAGS)), st.sampled_from(["never", "soon", "late"])
)
deletes = st.tuples(st.just("delete"), st.integers(0, 20), st.sampled_from(REFS))
runs = st.tuples(st.just("run"), st.integers(0, 2), st.sampled_from(["", "replay", "branch"]))
waits = st.tuples(st.just("wait"))
steps = st.lists(st.one_of(puts, puts, puts, deletes, runs, waits), min_size=1, max_size=14)


class World:
    """One tenant, and the model of what it remembers: the times are those that the database gave."""

    def __init__(self) -> None:
        self.tenant: Tenant = make_tenant(f"model-{next(tenants)}")
        self.host: Host = make_host(self.tenant)
        self.api = Client(headers=bearer(make_key(self.tenant, "read", "write")))
        self.entries: dict[str, Entry] = {}
        self.run_ids: list[str] = []

    def put(self, ref: str, tags: set[str], lasts: str) -> None:
        until = {"never": None, "soon": SHORT, "late": timedelta(days=1)}[lasts]
        entry: dict[str, Any] = {"content": f"text {len(self.entries)}", "tags": sorted(tags)}
        if until:
            entry["expiresAt"] = (timezone.now() + until).isoformat()
        answer = self.api.post("/v1/memory", {"memoryRef": ref, "entry": entry}, content_type=JSON)
        assert answer.status_code in ((201, 422) if lasts == "soon" else (201,))
        if answer.status_code == 201:
            with tenant_scope(self.tenant.pk):
                stored = OwnPut.objects.get(memory_id=answer.json()["entry"]["id"])
            self.entries[stored.memory_id] = Entry(
                stored.memory_id, ref, stored.created_at, frozenset(tags), stored.expires_at
            )

    def delete(self, number: int, ref: str) -> None:
        if not self.entries:
            return
        memory_id = sorted(self.entries)[number % len(self.entries)]
        known = self.entries[memory_id]
        answer = self.api.delete(f"/v1/memory/{memory_id}", query_params={"memoryRef": ref})
        with tenant_scope(self.tenant.pk):
            row = OwnDelete.objects.filter(entry_id=OwnPut.objects.get(memory_id=memory_id).entry_id).first()
        if answer.json()["removed"]:
            assert row is not None and known.deleted_at is None and known.memory_ref == ref
            assert known.expires_at is None or row.deleted_at < known.expires_at
            self.entries[memory_id] = replace(known, deleted_at=row.deleted_at)
        else:
            assert row is None or known.deleted_at is not None

    def run(self, number: int, relation: str) -> None:
        run_id, now = f"run-{len(self.run_ids)}", timezone.now()
        take(self.host, [make_event(0, "run.started", run=run_id, at=now)], received_at=now)
        if relation and self.run_ids:
            parent = self.run_ids[number % len(self.run_ids)]
            with tenant_scope(self.tenant.pk):
                Run.objects.filter(run_id=run_id).update(relation=relation, parent_run_id=parent)
        self.run_ids.append(run_id)
        self.check(run_id)

    def wait(self) -> None:
        time.sleep(SHORT.total_seconds() + 0.005)

    def check(self, run: str | None = None) -> None:
        asked: dict[str, Any] = {"run": run} if run else {}
        for ref in REFS:
            for tag in (None, "a", "ab"):
                self._check_list(ref, asked | ({"tag": tag} if tag else {}), tag, run)
        for memory_id, entry in self.entries.items():
            answer = self.api.get(f"/v1/memory/{memory_id}", {"memoryRef": entry.memory_ref, **asked})
            now = timezone.now()
            found = get(self.entries.values(), entry.memory_ref, memory_id, now=now, snapshot=self._snapshot(run))
            if not self._is_ending(now):
                assert (answer.status_code == 200) is (found is not None)

    def _check_list(self, ref: str, asked: dict[str, Any], tag: str | None, run: str | None) -> None:
        seen: list[str] = []
        cursor: dict[str, str] = {}
        begun = timezone.now()
        while True:
            page = self.api.get("/v1/memory", {"memoryRef": ref, "limit": 2, **asked, **cursor}).json()
            seen += [entry["id"] for entry in page["entries"]]
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        if self._is_ending(begun):
            return
        model: list[str] = []
        after: Cursor | None = None
        while True:
            part = list_entries(
                self.entries.values(), ref, now=begun, snapshot=self._snapshot(run), tag=tag, limit=2, after=after
            )
            model += [entry.id for entry in part.entries]
            after = part.next
            if after is None:
                break
        assert seen == model

    def _is_ending(self, begun: datetime) -> bool:
        """Something expired between the question and its answer: either may be right."""
        now = timezone.now()
        return any(one.expires_at and begun <= one.expires_at <= now for one in self.entries.values())

    def _snapshot(self, run: str | None) -> Snapshot | None:
        if run is None:
            return None
        with tenant_scope(self.tenant.pk):
            noted = RunSnapshot.objects.get(run_id=Run.objects.get(run_id=run).pk)
            of = Run.objects.get(pk=noted.of_run_id)
            relation, parent = Run.objects.values_list("relation", "parent_run_id").get(run_id=run)
        # A replay reads what its source does, back to the run that is none; a branch what there was at its own start.
        assert (of.run_id == run) is not (relation == "replay")
        if relation == "replay":
            with tenant_scope(self.tenant.pk):
                source = RunSnapshot.objects.filter(run_id=Run.objects.get(run_id=parent).pk).first()
            assert source is None or source.taken_at == noted.taken_at
        assert of.started_at == noted.taken_at
        return Snapshot(noted.taken_at, of.run_id)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_the_store_answers_as_the_model(db: None, steps: list[tuple[Any, ...]]) -> None:
    world = World()
    for step in steps:
        getattr(world, step[0])(*step[1:])
    world.check()
    for run in world.run_ids:
        world.check(run)
