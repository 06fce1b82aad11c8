"""What a host says of itself, kept as a history: a new row only when the document changed."""

from __future__ import annotations

import hashlib
import json

from django.utils import timezone

from ..domain.capabilities import NotADiscoveryDocument, read_capabilities
from ..models import HostDocument


def keep_document(*, tenant_id: int, host_id: int, document: str) -> bool:
    """Keeps a discovery document without the credentials in it. True when it says something new.

    The caller is in the tenant's scope. A document that can not be read is not kept.
    """
    try:
        kept = read_capabilities(json.loads(document)).document
    except (ValueError, NotADiscoveryDocument):
        return False
    body = json.dumps(kept, default=dict, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).digest()
    latest = HostDocument.objects.filter(tenant_id=tenant_id, host_id=host_id).order_by("-id").first()
    now = timezone.now()
    if latest is not None and bytes(latest.digest) == digest:
        HostDocument.objects.filter(tenant_id=tenant_id, pk=latest.pk).update(seen_at=now)
        return False
    HostDocument.objects.create(
        tenant_id=tenant_id, host_id=host_id, digest=digest, body=body, read_at=now, seen_at=now
    )
    return True
