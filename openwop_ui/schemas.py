"""Serves the JSON Schemas of what goes in and comes out, under the addresses that they name as their ``$id``."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import condition, require_safe

MEDIA_TYPE = "application/schema+json"
FOLDER: Path = settings.BASE_DIR / "schemas"


@lru_cache(maxsize=1)
def _schemas() -> dict[str, bytes]:
    """Name without suffix to text. What a request names is looked up here, never on the disk."""
    return {file.stem: file.read_bytes() for file in sorted(FOLDER.glob("*.json"))}


def _etag(request: HttpRequest, name: str) -> str | None:
    text = _schemas().get(name)
    return None if text is None else f'"{hashlib.blake2b(text, digest_size=12).hexdigest()}"'


@require_safe
@cache_control(public=True, max_age=300)
def index(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"schemas": {name: reverse("schema", args=[name]) for name in _schemas()}})


@require_safe
@cache_control(public=True, max_age=86_400)
@condition(etag_func=_etag)
def schema(request: HttpRequest, name: str) -> HttpResponse:
    try:
        return HttpResponse(_schemas()[name], content_type=MEDIA_TYPE)
    except KeyError:
        raise Http404("There is no such schema.") from None
