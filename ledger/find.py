"""Memory entries, conflicts and the ledger's pages in the command palette: sources of ``runs.find``."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import NoReverseMatch

from runs.domain.storable import original, storable
from runs.find import EACH, Place, Wanted, register
from runs.queries import like

from .domain.reading import Address, entry_id
from .queries.paging import rows_of

NEWEST = 5_000
SCOPES = 500
"""An id that is given whole is looked for in so many memory refs, those with the most entries first."""

_ENTRIES = """
SELECT h.slug, e.memory_ref, e.memory_id FROM (
    (SELECT * FROM ledger_memoryentry WHERE tenant_id = %(tenant)s ORDER BY last_at DESC, id DESC LIMIT %(newest)s)
    UNION SELECT * FROM ledger_memoryentry WHERE tenant_id = %(tenant)s AND id = ANY (%(ids)s::uuid[])) AS e
JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
WHERE e.memory_id ILIKE %(like)s OR e.memory_ref ILIKE %(like)s
ORDER BY (e.memory_id = %(exact)s) DESC, e.last_at DESC, e.id LIMIT %(each)s
"""
_SCOPES = """
SELECT host_id, memory_ref FROM ledger_memoryscope WHERE tenant_id = %(tenant)s
ORDER BY entry_count DESC, id LIMIT %(most)s
"""


def _entries(wanted: Wanted) -> Iterator[Place]:
    if not wanted.q:
        return
    exact = storable(wanted.q)
    scopes = rows_of(_SCOPES, {"tenant": wanted.tenant_id, "most": SCOPES})
    found = rows_of(
        _ENTRIES,
        {
            "tenant": wanted.tenant_id,
            "newest": NEWEST,
            "ids": [entry_id(host, Address(ref, exact)) for host, ref in scopes],
            "like": like(wanted.q),
            "exact": exact,
            "each": EACH,
        },
    )
    for host, ref, memory_id in found:
        name, scope = original(memory_id), original(ref)
        href = wanted.url("ledger:entry", host=host, memory_ref=scope, memory_id=name)
        yield Place(name, f"in {scope} · {host}", href, is_id=True, is_memory=True)


_CONFLICTS = """
SELECT f.id, k.subject, k.key, f.state FROM (SELECT * FROM ledger_conflict
    WHERE tenant_id = %(tenant)s ORDER BY opened_at DESC, id DESC LIMIT %(newest)s) AS f
JOIN ledger_subjectkey k ON k.tenant_id = f.tenant_id AND k.id = f.subject_key_id
WHERE k.subject ILIKE %(like)s OR k.key ILIKE %(like)s OR k.category ILIKE %(like)s OR f.id::text = %(exact)s
ORDER BY (f.state = 'open') DESC, f.opened_at DESC, f.id LIMIT %(each)s
"""


def _conflicts(wanted: Wanted) -> Iterator[Place]:
    if not wanted.q:
        return
    told = {"tenant": wanted.tenant_id, "newest": NEWEST, "like": like(wanted.q), "exact": storable(wanted.q)}
    for conflict, subject, key, state in rows_of(_CONFLICTS, told | {"each": EACH}):
        words = state.replace("_", " ")
        yield Place(f"{original(key)} of {original(subject)}", words, wanted.url("ledger:conflict", id=conflict))


_PAGES = (
    ("Claims", "ledger:claims", "what writers say, and what is active"),
    ("Conflicts", "ledger:conflicts", "claims that wait for a decision"),
    ("Receipts", "ledger:receipts", "what became of memory writes"),
    ("Writers", "ledger:writers", "who may say what"),
    ("Sources", "ledger:sources", "what was observed, as it came"),
    ("Coverage", "ledger:coverage", "which writes name their node"),
    ("Compare runs", "ledger:compare", "two runs side by side"),
    ("Integrity", "ledger:integrity", "the sealed log"),
)


def _pages(wanted: Wanted) -> Iterator[Place]:
    for label, name, detail in _PAGES:
        if wanted.q.lower() in label.lower():
            try:
                yield Place(label, detail, wanted.url(name))
            except NoReverseMatch:
                continue  # a page that this site is built without


register("Pages", _pages, place=1)
register("Memory entries", _entries, place=40)
register("Conflicts", _conflicts, place=50)
