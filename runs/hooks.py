"""``POST /hooks/<id>``: where hosts deliver. A signature takes the place of a key.

What is acknowledged is committed. An unknown address and one whose subscription ended answer alike. What is refused
leaves its reason on the host's page, never its body.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from openwop_ui.rest import ApiError, NotFound, answer, json_response
from openwop_ui.tenancy.scope import tenant_scope
from openwop_ui.vault import UnreadableSecret

from .domain import webhooks
from .domain.event import Refusal, RunEvent
from .domain.normalise import read_event
from .domain.webhooks import NotADelivery
from .doors import CHUNK, configured_limits
from .models import Delivery
from .queries.subscriptions import Hook, find_hook, host_of, own_tenant
from .store.intake import add_events, in_transaction
from .store.subscriptions import Delivered, follow_delivered_run, keep_deliveries, note_delivery, note_foreign_tenant
from .together import Together

logger = logging.getLogger(__name__)

Outcome = Delivery.Outcome

clock: Callable[[], datetime] = timezone.now
"""What the signatures' times are held against."""

SECONDS_UNTIL_BACK = "5"
NOT_IN_A_LOG = "told to whoever listens, no part of a run's log"


@dataclass(slots=True)
class _Noted:
    since: datetime
    count: int = 0
    unnoted: int = 0


@dataclass(slots=True)
class RefusalNotes:
    """Which refusals are written down: so many a minute of each subscription, and the others with the next of those.

    Whoever knows an address could otherwise keep the database busy. Each process has its own.
    """

    most: int = 60
    within: timedelta = timedelta(minutes=1)
    _noted: dict[UUID, _Noted] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def due(self, subscription: UUID, now: datetime) -> int:
        """How many refusals to write down now, this one included; 0 is none."""
        with self._lock:
            noted = self._noted.setdefault(subscription, _Noted(now))
            if not timedelta() <= now - noted.since < self.within:
                noted.since, noted.count = now, 0
            if noted.count >= self.most:
                noted.unnoted += 1
                return 0
            noted.count += 1
            due, noted.unnoted = noted.unnoted + 1, 0
            return due


refusal_notes = RefusalNotes()


@csrf_exempt  # the signature says who it is; there is no cookie
def receive(request: HttpRequest, id: UUID) -> HttpResponse:
    try:
        return _receive(request, id)
    except ApiError as error:
        return _error_answer(error)
    except (OperationalError, InterfaceError) as error:
        logger.error("the database did not answer a delivery: %s", type(error).__name__, exc_info=error)
        return _error_answer(_come_again("The database did not answer."))
    except Exception as error:
        logger.error("a delivery failed", exc_info=error)
        return _error_answer(ApiError(500, "internal", "This is a fault of the server. It has been logged."))


def _receive(request: HttpRequest, id: UUID) -> HttpResponse:
    if request.method != "POST":
        raise ApiError(405, "method_not_allowed", "Deliveries are sent with POST.", headers={"Allow": "POST"})
    hook = find_hook(id)
    if hook is None:
        raise NotFound("webhook")
    now = clock()
    body = _body(request, hook, now)
    checked = webhooks.verify(hook.dialect, request.headers, body, _secrets(hook, now), now=now)
    if isinstance(checked, webhooks.Refused):
        raise _refusal(hook, checked.status, "signature_refused", checked.reason, now)
    challenge = webhooks.challenge_in(body) if hook.dialect.is_standard else None
    if challenge is not None:
        _note(hook, Outcome.TEST, now, reason="the host asked whether this address wants its deliveries")
        return json_response(webhooks.echo(challenge))
    return _acknowledge(hook, body, now)


def _body(request: HttpRequest, hook: Hook, now: datetime) -> bytes:
    """The bytes as they came, which are what is signed."""
    limit = settings.MAX_EVENT_BYTES
    declared = request.headers.get("Content-Length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise _too_large(hook, limit, now)
    body = bytearray()
    try:
        while chunk := request.read(CHUNK):
            body += chunk
            if len(body) > limit:
                raise _too_large(hook, limit, now)
    except UnreadablePostError:
        raise ApiError(400, "incomplete_body", "The body ended before its end.") from None
    return bytes(body)


def _too_large(hook: Hook, limit: int, now: datetime) -> ApiError:
    reason = f"the body has more than MAX_EVENT_BYTES ({limit} bytes)"
    return _refusal(hook, 413, "too_large", reason, now, details={"limit": "MAX_EVENT_BYTES", "bytes": limit})


def _secrets(hook: Hook, now: datetime) -> tuple[str, ...]:
    try:
        return hook.secrets()
    except UnreadableSecret:
        reason = "CREDENTIALS_KEY does not open this webhook's secrets"
        _note_refusal(hook, reason, now)
        raise _come_again("The secrets of this webhook can not be read.") from None


def _acknowledge(hook: Hook, body: bytes, now: datetime) -> HttpResponse:
    try:
        delivery = webhooks.read_delivery(body)
    except NotADelivery as problem:
        raise _refusal(hook, 400, "not_a_delivery", str(problem), now) from None
    if delivery.is_test:
        _note(hook, Outcome.TEST, now)
        return answer({"outcome": Outcome.TEST})
    if delivery.is_notification:
        _note(hook, Outcome.ACCEPTED, now, reason=NOT_IN_A_LOG)
        return answer({"outcome": Outcome.ACCEPTED})
    named = _tenant_named(delivery, body)
    event = read_event(delivery.event_bytes, index=0, run_id=delivery.run_id, limits=configured_limits())
    outcome = _deliveries.add((hook.tenant_id, hook.host_id), _Delivery(hook, event, named, now))
    if outcome is None:
        raise _refusal(hook, 403, "foreign_tenant", "a run of another tenant of the host", now)
    if isinstance(event, Refusal):
        raise _refusal(hook, 422, "event_refused", event.reason, now)
    return answer({"outcome": outcome, "runId": event.run_id, "sequence": event.sequence})


class _Around(msgspec.Struct, rename="camel"):
    run_id: msgspec.Raw = msgspec.Raw(b"null")


def _tenant_named(delivery: webhooks.Delivery, body: bytes) -> str | None:
    """The host's tenant that the run is bound to, in the event or only in the wrapper around it."""
    run_id = delivery.run_id
    if run_id is None:
        return None
    return webhooks.tenant_in(run_id) or webhooks.tenant_in(_run_id_around(body))


def _run_id_around(body: bytes) -> str:
    """What ``read_delivery`` could read, this can."""
    around = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf").strip(), type=_Around)
    told = msgspec.json.decode(around.run_id)
    return told if isinstance(told, str) else ""


@dataclass(frozen=True, slots=True)
class _Delivery:
    hook: Hook
    event: RunEvent | Refusal
    named: str | None
    received_at: datetime


def _store(key: tuple[int, int], deliveries: Sequence[_Delivery]) -> Sequence[Delivery.Outcome | None]:
    tenant_id, _ = key
    return in_transaction(tenant_id, lambda: _stored(deliveries))


def _stored(deliveries: Sequence[_Delivery]) -> Sequence[Delivery.Outcome | None]:
    """All that deliveries of one host change. None for one about a run of another tenant of the host (RFC 0093)."""
    outcomes = [None if _is_foreign(one) else Outcome.REFUSED for one in deliveries]
    taken = [
        (place, one, one.event)
        for place, one in enumerate(deliveries)
        if outcomes[place] and isinstance(one.event, RunEvent)
    ]
    if not taken:
        return outcomes
    host, can_be_asked = host_of(deliveries[0].hook)
    received_at = max(one.received_at for _, one, _ in taken)
    added = add_events(host, [event for *_, event in taken], received_at, topics=["hosts"])
    fresh = {id(event.body) for event in added.fresh}  # the body is the same one under another name of its run, too
    for place, _, event in taken:
        outcomes[place] = Outcome.ACCEPTED if id(event.body) in fresh else Outcome.REPEATED
    if can_be_asked:
        for run_id in dict.fromkeys(event.run_id for place, _, event in taken if outcomes[place] == Outcome.ACCEPTED):
            follow_delivered_run(tenant_id=host.tenant_id, host_id=host.id, run_id=run_id)
    # Last, since whatever else the subscriptions deliver waits from here on.
    keep_deliveries(host.tenant_id, [_delivered(one, event, outcomes[place]) for place, one, event in taken])
    return outcomes


def _delivered(delivery: _Delivery, event: RunEvent, outcome: Delivery.Outcome | None) -> Delivered:
    return Delivered(
        subscription_id=delivery.hook.id,
        outcome=outcome or Outcome.REFUSED,
        received_at=delivery.received_at,
        run_id=event.run_id,
        sequence=event.sequence,
        reason="" if event.has_payload else "came without its payload",
    )


def _is_foreign(delivery: _Delivery) -> bool:
    """Notes it, too."""
    hook, named = delivery.hook, delivery.named
    own = own_tenant(hook) if named is not None else None
    if named is None or own is None or own == named:
        return False
    note_foreign_tenant(
        tenant_id=hook.tenant_id,
        host_id=hook.host_id,
        subscription_id=hook.id,
        own=own,
        foreign=named,
        noticed_at=delivery.received_at,
    )
    return True


_deliveries: Together[tuple[int, int], _Delivery, Delivery.Outcome | None] = Together(
    _store, most=50, is_shared=lambda problem: isinstance(problem, OperationalError | InterfaceError)
)
"""By tenant and host. A host delivers over many connections at once; what comes at the same time is one transaction."""


def _note(hook: Hook, outcome: Delivery.Outcome, now: datetime, *, reason: str = "", times: int = 1) -> None:
    with tenant_scope(hook.tenant_id):
        note_delivery(
            tenant_id=hook.tenant_id,
            subscription_id=hook.id,
            outcome=outcome,
            received_at=now,
            reason=reason,
            times=times,
        )


def _note_refusal(hook: Hook, reason: str, now: datetime) -> None:
    times = refusal_notes.due(hook.id, now)
    if times:
        _note(hook, Outcome.REFUSED, now, reason=reason, times=times)


def _refusal(
    hook: Hook, status: int, code: str, reason: str, now: datetime, *, details: Mapping[str, Any] | None = None
) -> ApiError:
    """The error to raise, which is written down."""
    _note_refusal(hook, reason, now)
    challenge = {"WWW-Authenticate": 'Signature realm="OpenWOP UI"'} if status == 401 else None
    return ApiError(status, code, f"Refused: {reason}.", details=details, headers=challenge)


def _come_again(message: str) -> ApiError:
    return ApiError(503, "unavailable", f"{message} Send it again.", headers={"Retry-After": SECONDS_UNTIL_BACK})


def _error_answer(error: ApiError) -> HttpResponse:
    said: dict[str, object] = {"error": error.code, "message": error.message}
    if error.details is not None:
        said["details"] = error.details
    return answer(said, status=error.status, headers=error.headers)
