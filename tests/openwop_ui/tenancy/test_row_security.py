"""The database itself keeps tenants apart: said in SQL, past every query of the application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.db import IntegrityError, ProgrammingError, connection, transaction
from django.db.models import AutoField, Model
from psycopg import errors

from ledger.claims_store import Actor, Ask, Revision, decide_conflict, register_writer, revise_claim
from ledger.domain.decisions import Verdict
from ledger.models import (
    ClaimRow,
    MemoryEntry,
    MemoryScope,
    MemoryWrite,
    Merge,
    MergeSource,
    ReadingCursor,
    TaggedSource,
)
from ledger.store import read_backlog
from openwop_ui.tenancy.keys import digest_of
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import key_scope, operator_scope, principal_scope, tenant_scope
from runs.models import Attempt, Event, EventCopy, Follow, Incident, Run, RunNode
from tests.committed import tables_of_tenants
from tests.factories import make_event, make_host, make_key, make_log, make_member, make_tenant, take
from tests.ledger.claims import body, conflicts, say

OURS = ("tenancy", "runs", "ledger")
MODELS = {model._meta.db_table: model for label in OURS for model in apps.get_app_config(label).get_models()}
TABLES = sorted(
    table for table, model in MODELS.items() if any(field.attname == "tenant_id" for field in model._meta.fields)
)
EXAMPLES: dict[str, Any] = {
    "TextField": "x",
    "CharField": "x",
    "BinaryField": b"x",
    "BooleanField": False,
    "BigIntegerField": 0,
    "IntegerField": 0,
    "PositiveSmallIntegerField": 0,
    "DateTimeField": datetime(2026, 3, 1, tzinfo=UTC),
    "UUIDField": UUID(int=0),
    "JSONField": {},
    "ArrayField": [],
}
# Unique on their own: numbers that the database gives, and a digest of 32 random bytes.
ALONE = {"id", "digest"}

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Two:
    """Two tenants with rows in every table."""

    a: Tenant
    b: Tenant


@pytest.fixture
def two(db: None) -> Two:
    return Two(filled("acme"), filled("globex"))


def filled(slug: str) -> Tenant:
    tenant = make_tenant(slug)
    make_member(tenant, f"member of {slug}")
    make_key(tenant)
    host = make_host(tenant)
    compacted = {"memoryRef": "notes", "outputId": "all", "sourceCount": 1, "sourceIds": ["run-1-m0"]}
    tagged = {"memoryRef": "notes", "memoryId": "tagged", "tags": ["compacted-from:run-1-m0"]}
    take(
        host,
        [
            *make_log(nodes=1),
            make_event(5, "memory.compacted", payload=compacted),
            make_event(6, "memory.written", payload=tagged),
            make_event(7, "custom.thing"),
        ],
    )
    take(host, [make_event(0, "run.started", payload={"changed": True})])
    read_backlog(tenant.pk)
    dispute(tenant)
    with tenant_scope(tenant.pk):
        for table in reversed(tables_of_tenants()):
            if asked(f"SELECT count(*) FROM {table}") == [(0,)]:
                MODELS[table](**example_row(MODELS[table], tenant)).save(force_insert=True)
    return tenant


def dispute(tenant: Tenant) -> None:
    """Two writers disagree, a person decides and words the claim anew."""
    for writer in ("billing", "crm"):
        register_writer(tenant_id=tenant.pk, service_key=writer)
        say(tenant, body(writer, service=writer, claims=[{"key": "plan", "value": writer}]))
    (conflict,) = conflicts(tenant)
    with tenant_scope(tenant.pk):
        claim = ClaimRow.objects.get(writer="crm").id
    person = Actor("person", "person:ada")
    ask = Ask(1, Verdict.CHOOSE, claim=claim)
    decide_conflict(tenant_id=tenant.pk, conflict=conflict.id, ask=ask, actor=person)
    revise_claim(tenant_id=tenant.pk, claim=claim, based_on=1, revision=Revision(content="x"), actor=person)


def example_row(model: type[Model], tenant: Tenant) -> dict[str, Any]:
    """Some row for a table that events do not fill: linked to rows that are there, and else of no meaning."""
    row: dict[str, Any] = {"tenant_id": tenant.pk}
    for _, table, referred, here, there in asked(FOREIGN_KEYS):
        if table == model._meta.db_table and referred in TABLES:
            (found, *_) = asked(f"SELECT {', '.join(there)} FROM {referred} ORDER BY 1 DESC")
            row |= dict(zip(here, found, strict=True))
    for field in model._meta.local_concrete_fields:
        left_out = field.has_default() or field.has_db_default() or field.null or isinstance(field, AutoField)
        if field.name != "pk" and field.attname not in row and not left_out:
            row[field.attname] = EXAMPLES[field.get_internal_type()]
    return row


def asked(sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else [(cursor.rowcount,)]


@contextmanager
def refused(*kinds: type[Exception]) -> Iterator[None]:
    """The database refuses, and for one of these reasons."""
    with pytest.raises((ProgrammingError, IntegrityError)) as refusal, transaction.atomic():
        yield
    assert isinstance(refusal.value.__cause__, kinds)


def columns(table: str) -> list[str]:
    return [
        name
        for (name,) in asked(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position", table
        )
    ]


def test_every_table_with_a_tenant_is_known_here() -> None:
    owned = {
        table
        for (table,) in asked(
            "SELECT table_name FROM information_schema.columns"
            " WHERE column_name = 'tenant_id' AND table_schema = 'public'"
        )
    }
    assert owned == set(TABLES)
    assert len(TABLES) >= 15


@pytest.mark.parametrize("table", [*TABLES, "tenancy_tenant"])
def test_row_security_is_forced(table: str) -> None:
    assert asked("SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE relname = %s", table) == [(True, True)]


def test_without_a_scope_no_tenant_has_a_row(two: Two) -> None:
    for table in [*TABLES, "tenancy_tenant"]:
        assert asked(f"SELECT count(*) FROM {table}") == [(0,)], table


def test_a_scope_shows_its_tenants_rows_and_no_others(two: Two) -> None:
    for mine, other in ((two.a, two.b), (two.b, two.a)):
        with tenant_scope(mine.pk):
            for table in TABLES:
                tenants = {tenant for (tenant,) in asked(f"SELECT tenant_id FROM {table}")}
                assert tenants == {mine.pk}, table
                assert asked(f"SELECT count(*) FROM {table} WHERE tenant_id = %s", other.pk) == [(0,)], table
            assert asked("SELECT id FROM tenancy_tenant") == [(mine.pk,)]


def test_a_scope_can_not_change_another_tenants_rows(two: Two) -> None:
    before = snapshot(two.b)
    with tenant_scope(two.a.pk):
        for table in TABLES:
            for sql in (
                f"UPDATE {table} SET tenant_id = tenant_id WHERE tenant_id = %s",
                f"DELETE FROM {table} WHERE tenant_id = %s",
            ):
                try:
                    with transaction.atomic():
                        assert asked(sql, two.b.pk) == [(0,)], sql
                except IntegrityError as refusal:
                    assert isinstance(refusal.__cause__, errors.RestrictViolation), sql
    assert snapshot(two.b) == before


def test_a_scope_can_not_give_its_rows_to_another_tenant(two: Two) -> None:
    with tenant_scope(two.a.pk):
        for table in TABLES:
            with refused(errors.InsufficientPrivilege, errors.RestrictViolation):
                asked(f"UPDATE {table} SET tenant_id = %s", two.b.pk)


def test_a_scope_can_not_put_a_row_into_another_tenant(two: Two) -> None:
    with tenant_scope(two.a.pk):
        for table in TABLES:
            names = [name for name in columns(table) if name not in ("id", "tenant_id")]
            rest = "".join(f", {name}" for name in names)
            key = ", id" if "id" in columns(table) else ""
            is_number = key and isinstance(MODELS[table]._meta.get_field("id"), AutoField)
            fresh = ", -1" if is_number else ", gen_random_uuid()" if key else ""
            with refused(errors.InsufficientPrivilege):
                asked(
                    f"INSERT INTO {table} (tenant_id{key}{rest}) SELECT %s{fresh}{rest} FROM {table} LIMIT 1", two.b.pk
                )


def snapshot(tenant: Tenant) -> dict[str, list[Any]]:
    with tenant_scope(tenant.pk):
        return {table: sorted(map(str, asked(f"SELECT * FROM {table}"))) for table in TABLES}


# Name, table, referred table, and the columns of each in the order in which they refer to each other.
FOREIGN_KEYS = """
SELECT c.conname, c.conrelid::regclass::text, c.confrelid::regclass::text,
    array(SELECT attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute ON attrelid = c.conrelid AND attnum = k.number ORDER BY place),
    array(SELECT attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute ON attrelid = c.confrelid AND attnum = k.number ORDER BY place)
FROM pg_constraint c WHERE c.contype = 'f'
"""


def test_every_link_between_tenants_tables_includes_the_tenant() -> None:
    links = [link for link in asked(FOREIGN_KEYS) if link[1] in TABLES and link[2] in TABLES]
    assert len(links) >= 15
    for name, _, _, here, there in links:
        assert ("tenant_id", "tenant_id") in zip(here, there, strict=True), name


@pytest.mark.parametrize("table", TABLES)
def test_every_uniqueness_includes_the_tenant(table: str) -> None:
    keys = asked(
        "SELECT array(SELECT attname::text FROM pg_attribute WHERE attrelid = i.indrelid AND attnum = ANY (i.indkey))"
        " FROM pg_index i WHERE i.indrelid = %s::regclass AND i.indisunique",
        table,
    )
    for (names,) in keys:
        assert "tenant_id" in names or set(names) <= ALONE, names


def one(model: type[Model], tenant: Tenant) -> Any:
    with tenant_scope(tenant.pk):
        return model._default_manager.filter(tenant_id=tenant.pk).latest("pk")


def rows_pointing_elsewhere(two: Two) -> dict[str, tuple[type[Model], dict[str, Any]]]:
    """What to change in a row of A so that it points to something of B."""
    run, entry = one(Run, two.b), one(MemoryEntry, two.b)
    host, event = run.host_id, 7
    return {
        "a run of B's host": (Run, {"host_id": host, "run_id": "x"}),
        "an event of B's run": (Event, {"run_id": run.pk, "sequence": 99}),
        "a copy of B's event": (EventCopy, {"run_id": run.pk, "sequence": event}),
        "a lane of B's run": (RunNode, {"run_id": run.pk}),
        "an attempt in B's lane": (Attempt, {"run_id": run.pk}),
        "an incident of B's host": (Incident, {"host_id": host, "run_id": None, "fingerprint": uuid4()}),
        "an incident of B's run": (Incident, {"run_id": run.pk, "fingerprint": uuid4()}),
        "a follow of B's host": (Follow, {"host_id": host}),
        "a reading of B's run": (ReadingCursor, {"run_id": run.pk}),
        "a scope of B's host": (MemoryScope, {"id": uuid4(), "host_id": host}),
        "an entry of B's host": (MemoryEntry, {"id": uuid4(), "host_id": host}),
        "a write of B's event": (MemoryWrite, {"run_id": run.pk, "sequence": event}),
        "a write of B's entry": (MemoryWrite, {"sequence": event, "entry_id": entry.id}),
        "a merge at B's event": (Merge, {"run_id": run.pk, "sequence": event}),
        "a merge into B's entry": (Merge, {"sequence": event, "output_id": entry.id}),
        "a merge of B's entry": (MergeSource, {"entry_id": entry.id}),
        "a hint at B's write": (TaggedSource, {"run_id": run.pk, "sequence": 6}),
    }


@pytest.mark.parametrize("bypassed", [False, True], ids=["under row security", "without row security"])
def test_a_link_to_another_tenants_row_can_not_be_stored(two: Two, bypassed: bool) -> None:
    rows = rows_pointing_elsewhere(two)
    mine = {model: one(model, two.a) for model, _ in rows.values()}
    asked("SET CONSTRAINTS ALL IMMEDIATE")  # some are looked at by the end of the transaction
    if bypassed:
        for table in TABLES:
            asked(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        assert asked("SELECT count(DISTINCT tenant_id) FROM runs_event") == [(2,)]
    with tenant_scope(two.a.pk):
        for name, (model, changes) in rows.items():
            row = copy(mine[model])
            if "id" not in changes and any(field.name == "id" for field in model._meta.fields):
                row.pk = None
            for column, value in changes.items():
                setattr(row, column, value)
            try:
                with refused(errors.ForeignKeyViolation):
                    row.save(force_insert=True)
            except BaseException as problem:
                problem.add_note(name)
                raise


@pytest.mark.parametrize("table", ["runs_event", "runs_eventcopy"])
@pytest.mark.parametrize("sql", ["UPDATE {} SET body = '{{}}'", "DELETE FROM {}"])
def test_the_log_takes_no_change(two: Two, table: str, sql: str) -> None:
    with tenant_scope(two.a.pk):
        assert asked(f"SELECT count(*) > 0 FROM {table}") == [(True,)]
        with refused(errors.RestrictViolation):
            asked(sql.format(table))


# --- Other scopes ---


def visible() -> set[str]:
    return {table for table in [*TABLES, "tenancy_tenant"] if asked(f"SELECT count(*) > 0 FROM {table}") == [(True,)]}


def test_a_user_sees_their_memberships_and_their_tenants(two: Two) -> None:
    with tenant_scope(two.a.pk):
        ((user,),) = asked("SELECT user_id FROM tenancy_membership")
    with principal_scope(user):
        assert visible() == {"tenancy_membership", "tenancy_tenant"}
        assert asked("SELECT id FROM tenancy_tenant") == [(two.a.pk,)]
        assert asked("UPDATE tenancy_membership SET role = 'admin'") == [(0,)]


def test_a_key_shows_itself_and_its_tenant(two: Two) -> None:
    key = make_key(two.a)
    with key_scope(digest_of(key)):
        assert visible() == {"tenancy_apikey", "tenancy_tenant"}
        assert asked("SELECT tenant_id FROM tenancy_apikey") == [(two.a.pk,)]
        assert asked("UPDATE tenancy_apikey SET scopes = '{admin}'") == [(0,)]
    with key_scope(digest_of("unknown")):
        assert visible() == set()


def test_an_operator_sees_who_is_there_and_nothing_that_happened(two: Two) -> None:
    with operator_scope():
        laid_down = {"ledger_claimkey", "ledger_ledgersettings", "ledger_servicewriter"}
        assert visible() == {"tenancy_membership", "tenancy_tenant", "tenancy_apikey", "runs_host"} | laid_down


def test_a_scope_inside_another_one_ends_with_it(two: Two) -> None:
    with tenant_scope(two.a.pk):
        with tenant_scope(two.b.pk):
            assert asked("SELECT id FROM tenancy_tenant") == [(two.b.pk,)]
        assert asked("SELECT id FROM tenancy_tenant") == [(two.a.pk,)]
        with pytest.raises(ZeroDivisionError), tenant_scope(two.b.pk):
            raise ZeroDivisionError
        assert asked("SELECT id FROM tenancy_tenant") == [(two.a.pk,)]
    assert visible() == set()


@pytest.mark.django_db(transaction=True)
def test_a_scope_ends_with_its_transaction_and_does_not_stay_on_the_connection() -> None:
    tenant = make_tenant()
    with pytest.raises(ZeroDivisionError), tenant_scope(tenant.pk):
        raise ZeroDivisionError
    assert asked("SELECT current_setting('openwop.tenant', true)")[0][0] in (None, "")
    with tenant_scope(tenant.pk):
        pass
    assert asked("SELECT current_setting('openwop.tenant', true)")[0][0] in (None, "")
    assert visible() == set()
