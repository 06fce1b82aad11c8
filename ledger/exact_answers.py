"""Answers that have JSON texts of hosts in them, digit for digit, and any name that JSON can say."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from openwop_ui.rest import json_response
from runs.domain.exact_json import Number, dumps


def literal(text: str) -> Number:
    """JSON text to be put into an answer as it is. Whatever the value is, it is written like a number that was read."""
    return Number(text)


def exact_answer(said: Any) -> HttpResponse:
    """Times have to be texts already."""
    return json_response(dumps(said))
