"""What this ledger says of itself where a host of the protocol does: exactly what is honoured, and no more.

No run is executed here, so nothing is said of runs: memory is told by the dimensions of RFC 0080, and what is not
honoured is denied rather than left open. No `memory.written` is emitted for what is put, so attribution is denied.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags, quote_etag
from django.views.decorators.http import require_safe

from openwop_ui import VERSION
from openwop_ui.rest import SCHEMES, dumps
from openwop_ui.tenancy.keys import find_caller

from .models.policies import DEFAULT_ENTRY_BYTES
from .policies import policy_of

PROTOCOL = "1.1"
"""Whose form the document has: families at its root, with `supported`."""
IMPLEMENTATION = "openwop-ui"
MAX_AGE = 300


def document(max_entry_bytes: int) -> dict[str, Any]:
    """For a tenant: the largest entry is its own to lay down."""
    return {
        "protocolVersion": PROTOCOL,
        "implementation": {"name": IMPLEMENTATION, "version": VERSION},
        "memory": {
            "supported": True,
            "writable": True,
            "maxEntrySizeBytes": max_entry_bytes,
            "ttlSupported": True,
            "retention": {"ttl": True, "forget": True},
            "search": {"supported": True, "modes": ["filter"]},
            "compaction": {"supported": False},
            "distillation": {"supported": False},
            "attribution": {"supported": False, "emitsWriteEvents": False},
        },
        "agents": {"memoryBackends": ["long-term"]},
    }


@require_safe
def well_known(request: HttpRequest) -> HttpResponse:
    """Anybody may ask; who sends a key is told the limits of its tenant."""
    limit = _limit_of(request)
    text = dumps(document(limit))
    etag = quote_etag(hashlib.blake2b(text, digest_size=12).hexdigest())
    asked = parse_etags(request.headers.get("If-None-Match", ""))
    if "*" in asked or etag in {one.removeprefix("W/") for one in asked}:
        answer = HttpResponse(status=304)
    else:
        answer = HttpResponse(text, content_type="application/json")
    answer["ETag"] = etag
    answer["Cache-Control"] = f"private, max-age={MAX_AGE}"
    patch_vary_headers(answer, ("Authorization",))
    return answer


def _limit_of(request: HttpRequest) -> int:
    scheme, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    caller = find_caller(key.strip()) if scheme.lower() in SCHEMES and key.strip() else None
    return DEFAULT_ENTRY_BYTES if caller is None else policy_of(caller.tenant_id).max_entry_bytes
