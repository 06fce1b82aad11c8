"""Deliveries that hosts send: who signed one, and the event in it.

Six ways of signing are in use, and two of them share a header's name while meaning different things by it. So a
subscription has one dialect, chosen when it is registered; a delivery is never tried against another.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TypeVar

import msgspec
import orjson

from runs.domain.sse import TRANSIENT

TOLERANCE = timedelta(minutes=5)
ALGORITHM = "v1"

STANDARD_PREFIX = "whsec_"
STANDARD_KEY_BYTES = range(24, 65)
MOST_SIGNATURES = 16


@dataclass(frozen=True, slots=True)
class Headers:
    """One family of header names. `timestamp` is None where the signature's own header holds the time."""

    signature: str
    timestamp: str | None = None
    algorithm: str | None = None
    subscription: str | None = None
    event_type: str | None = None
    delivery: str | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a host signs. `families` are in order of preference: the first one whose headers are all there is read.

    `signature` matches the header's text; its group `mac` is the signature, `timestamp` the time where it stands
    there. `signs_id` puts the delivery's id in front of the signed text, `is_standard` means Base64 and a `whsec_`
    secret instead of hex and a secret taken as it is.
    """

    name: str
    families: tuple[Headers, ...]
    signature: re.Pattern[str]
    signs_id: bool = False
    is_standard: bool = False


_HEX = r"(?P<mac>[0-9A-Fa-f]{64})"
_SHA256 = re.compile(f"sha256={_HEX}")

_FIRST_MAJOR = Headers(
    signature="X-openwop-Signature",
    timestamp="X-openwop-Timestamp",
    algorithm="X-openwop-Signature-Algorithm",
    subscription="X-openwop-Webhook-Id",
    event_type="X-openwop-Event-Type",
)
_SECOND_MAJOR = Headers(
    signature="OpenWOP-Signature",
    timestamp="OpenWOP-Timestamp",
    algorithm="OpenWOP-Signature-Algorithm",
    subscription="OpenWOP-Webhook-Id",
    event_type="OpenWOP-Event-Type",
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            # Through the overlap a host may send the first major's names, alone or beside its own (RFC 0165 C.1).
            Dialect("openwop-2", (_SECOND_MAJOR, _FIRST_MAJOR), _SHA256),
            Dialect("openwop-1", (_FIRST_MAJOR,), _SHA256),
            # The reference hosts for SQLite, PostgreSQL and Python.
            Dialect(
                "reference-hosts",
                (
                    Headers(
                        signature="X-openwop-Signature",
                        timestamp="X-openwop-Signature-Timestamp",
                        algorithm="X-openwop-Signature-Algorithm",
                        subscription="X-openwop-Subscription-Id",
                    ),
                ),
                re.compile(_HEX),
            ),
            Dialect(
                "openwop-app",
                (
                    Headers(
                        signature="openwop-signature",
                        subscription="openwop-subscription-id",
                        event_type="openwop-event-type",
                    ),
                ),
                re.compile(rf"t=(?P<timestamp>[0-9]{{1,12}}),\s*v1={_HEX}"),
            ),
            # What the first client libraries read, and hosts built against them send.
            Dialect(
                "client-1",
                (Headers(signature="openwop-Webhook-Signature", timestamp="openwop-Webhook-Timestamp"),),
                re.compile(f"v1={_HEX}"),
            ),
            # Standard Webhooks 1.0.0, as RFC 0201 takes it up.
            Dialect(
                "standard-webhooks",
                (
                    Headers(
                        signature="webhook-signature",
                        timestamp="webhook-timestamp",
                        subscription="OpenWOP-Webhook-Id",
                        event_type="OpenWOP-Event-Type",
                        delivery="webhook-id",
                    ),
                ),
                re.compile(r"v1,(?P<mac>[A-Za-z0-9+/]{43}=)"),
                signs_id=True,
                is_standard=True,
            ),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Verified:
    """Signed with one of the secrets, within five minutes of now. `fingerprint` names the secret.

    Nothing but `signed_at` and, where the dialect signs it, `delivery_id` is covered by the signature; the other names
    stand in headers that anybody on the way may have written.
    """

    signed_at: datetime
    fingerprint: str
    delivery_id: str | None = None
    subscription_id: str | None = None
    event_type: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """`status` is the HTTP status to answer with."""

    reason: str
    status: int


class BadSecret(ValueError):
    """The secret can not be one of its dialect."""


class _Refused(Exception):
    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.refusal = Refused(reason, status)


def verify(
    dialect: Dialect, headers: Mapping[str, str], raw_body: bytes, secrets: Sequence[str], *, now: datetime
) -> Verified | Refused:
    """`raw_body` are the bytes that came. `secrets` are all live ones: several while one is being rotated, none once
    the subscription is removed. `now` is aware. Raises BadSecret for a secret that can not be one.
    """
    try:
        return _verified(dialect, _lowered(headers), raw_body, secrets, now)
    except _Refused as refused:
        return refused.refusal


def fingerprint(secret: str) -> str:
    """What may be shown and logged of a secret: the first 8 hex digits of its SHA-256."""
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


def standard_secret(key: bytes) -> str:
    """The `whsec_` form of a key; BadSecret unless it has 24 to 64 bytes."""
    if len(key) not in STANDARD_KEY_BYTES:
        raise BadSecret(f"a key of {len(key)} bytes; Standard Webhooks takes 24 to 64")
    return STANDARD_PREFIX + base64.b64encode(key).decode()


def signing_key(dialect: Dialect, secret: str) -> bytes:
    """Raises BadSecret."""
    if not dialect.is_standard:
        if not secret:
            raise BadSecret("an empty secret")
        return secret.encode()
    encoded = secret.removeprefix(STANDARD_PREFIX)
    if encoded == secret:
        raise BadSecret(f"a secret of Standard Webhooks begins with {STANDARD_PREFIX}")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise BadSecret(f"no Base64 behind {STANDARD_PREFIX}") from None
    standard_secret(key)
    return key


def _verified(
    dialect: Dialect, headers: Mapping[str, str], raw_body: bytes, secrets: Sequence[str], now: datetime
) -> Verified:
    if not secrets:
        raise _Refused("no secret of this subscription is live", 404)
    family = _family(dialect, headers)
    _check_algorithm(family, headers)
    macs, told_time = _signatures(dialect, headers[family.signature.lower()])
    timestamp = told_time if family.timestamp is None else headers[family.timestamp.lower()]
    signed_at = _signed_at(timestamp, now)
    delivery_id = _header(headers, family.delivery)
    signed = timestamp.encode() + b"." + raw_body
    if dialect.signs_id:
        signed = _delivery_id(delivery_id).encode() + b"." + signed
    signer = _signer(dialect, signed, macs, secrets)
    return Verified(
        signed_at=signed_at,
        fingerprint=fingerprint(signer),
        delivery_id=delivery_id,
        subscription_id=_header(headers, family.subscription),
        event_type=_header(headers, family.event_type),
    )


def _lowered(headers: Mapping[str, str]) -> Mapping[str, str]:
    lowered: dict[str, str] = {}
    for name, value in headers.items():
        if lowered.setdefault(name.lower(), value.strip()) != value.strip():
            raise _Refused(f"the header {name} came twice")
    return lowered


def _header(headers: Mapping[str, str], name: str | None) -> str | None:
    return (headers.get(name.lower()) or None) if name else None


def _family(dialect: Dialect, headers: Mapping[str, str]) -> Headers:
    for family in dialect.families:
        if all(_header(headers, name) for name in _needed(dialect, family)):
            return family
    first = dialect.families[0]
    missing = [name for name in _needed(dialect, first) if not _header(headers, name)]
    raise _Refused(f"{dialect.name} signs with {', '.join(missing)}, which is missing")


def _needed(dialect: Dialect, family: Headers) -> Iterator[str]:
    yield family.signature
    if family.timestamp is not None:
        yield family.timestamp
    if dialect.signs_id and family.delivery is not None:
        yield family.delivery


def _check_algorithm(family: Headers, headers: Mapping[str, str]) -> None:
    told = _header(headers, family.algorithm)
    if told not in (None, ALGORITHM):
        raise _Refused("an unknown signature algorithm")


def _signatures(dialect: Dialect, text: str) -> tuple[list[bytes], str]:
    """The signatures in the header and the time in it, if there is one.

    Standard Webhooks lists one signature for each secret while it is rotated, and others of schemes unknown here.
    """
    words = text.split(" ") if dialect.is_standard else [text]
    found = [match for word in words[:MOST_SIGNATURES] if (match := dialect.signature.fullmatch(word))]
    if not found:
        raise _Refused(f"the signature is not written as {dialect.name} writes it")
    timestamp = found[0]["timestamp"] if "timestamp" in dialect.signature.groupindex else ""
    return [_mac(dialect, match["mac"]) for match in found], timestamp


def _mac(dialect: Dialect, text: str) -> bytes:
    return base64.b64decode(text) if dialect.is_standard else bytes.fromhex(text)


_SECONDS = re.compile(r"[0-9]{1,12}")


def _signed_at(text: str, now: datetime) -> datetime:
    if not _SECONDS.fullmatch(text):
        raise _Refused("the timestamp is not a number of seconds")
    apart = timedelta(seconds=int(text)) - (now - datetime(1970, 1, 1, tzinfo=UTC))
    if apart > TOLERANCE:
        raise _Refused("signed more than five minutes ahead of this clock", 401)
    if apart < -TOLERANCE:
        raise _Refused("signed more than five minutes ago", 401)
    return datetime.fromtimestamp(int(text), UTC)


_DELIVERY_ID = re.compile(r"[A-Za-z0-9_-]{1,256}")


def _delivery_id(told: str | None) -> str:
    # With a dot in it, the end of the id and the beginning of the time could be read in two ways.
    if told is None or not _DELIVERY_ID.fullmatch(told):
        raise _Refused("the delivery's id has characters that can not be signed")
    return told


def _signer(dialect: Dialect, signed: bytes, macs: Sequence[bytes], secrets: Sequence[str]) -> str:
    """Every signature is compared with every secret, so that time tells nothing about either."""
    signers = [
        secret
        for secret in secrets
        for expected in [hmac.digest(signing_key(dialect, secret), signed, "sha256")]
        if sum(hmac.compare_digest(expected, mac) for mac in macs)
    ]
    if not signers:
        raise _Refused("signed with none of this subscription's secrets", 401)
    return signers[0]


VERIFICATION = "openwop.webhook.verification"


class _Challenge(msgspec.Struct):
    type: str | None = None
    challenge: str | None = None


_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{22,128}")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def challenge_in(raw_body: bytes) -> str | None:
    """The challenge that a host wants to hear before it registers a subscription (RFC 0201 section D).

    To be answered once `verify` has let it pass: it is signed like a delivery.
    """
    try:
        told = msgspec.json.decode(raw_body, type=_Challenge)
    except _UNREADABLE:
        return None
    is_one = told.type == VERIFICATION and told.challenge is not None and _CHALLENGE.fullmatch(told.challenge)
    return told.challenge if is_one else None


def echo(challenge: str) -> bytes:
    return orjson.dumps({"challenge": challenge})


TEST_EVENT = "webhook.test"


class NotADelivery(ValueError):
    """The body holds no event."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """`event_bytes` are the event's text as it came; `run_id` and `workspace_id` what the body says around or in it.

    `is_stub` means that the payload did not come with it: polling has to complete the event. `is_test` is a host's
    trial delivery and `is_notification` something that is told live only: both are answered with success and are no
    part of any run.
    """

    run_id: str | None
    workspace_id: str | None
    type: str
    event_bytes: bytes
    is_stub: bool
    is_test: bool
    is_notification: bool


_NULL = msgspec.Raw(b"null")


class _Wrapper(msgspec.Struct, rename="camel"):
    event: msgspec.Raw = _NULL
    run_id: msgspec.Raw = _NULL
    workspace_id: msgspec.Raw = _NULL


class _Event(msgspec.Struct, rename="camel"):
    type: msgspec.Raw = _NULL
    run_id: msgspec.Raw = _NULL
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_WRAPPER = msgspec.json.Decoder(_Wrapper)
_EVENT = msgspec.json.Decoder(_Event)
_Shape = TypeVar("_Shape", _Wrapper, _Event)


def read_delivery(raw_body: bytes) -> Delivery:
    """The event of a body, `{runId, workspaceId?, event}` or the event itself. Raises NotADelivery.

    A wrapper that names another run than its event is refused: one of the two would be filed under a run that it does
    not belong to.
    """
    body = raw_body.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    wrapper = _decoded(_WRAPPER, body)
    is_wrapped = bytes(wrapper.event).startswith(b"{")
    event_bytes = bytes(wrapper.event) if is_wrapped else body
    event = _decoded(_EVENT, event_bytes)
    type = _text(event.type)
    if type is None:
        raise NotADelivery("no event with a type in it")
    return Delivery(
        run_id=_run_id(_text(wrapper.run_id) if is_wrapped else None, _text(event.run_id)),
        workspace_id=_text(wrapper.workspace_id) if is_wrapped else None,
        type=type,
        event_bytes=event_bytes,
        is_stub=event.payload is msgspec.UNSET and event.data is msgspec.UNSET,
        is_test=type == TEST_EVENT,
        is_notification=type in TRANSIENT,
    )


def _decoded(decoder: "msgspec.json.Decoder[_Shape]", text: bytes) -> _Shape:
    try:
        return decoder.decode(text)
    except _UNREADABLE as error:
        raise NotADelivery(f"not a delivery: {error}") from error


def _run_id(around: str | None, inside: str | None) -> str | None:
    """The event's own word for its run; a run has two spellings while both majors are served."""
    if around is None or inside is None or around == inside:
        return inside or around
    if around.endswith(f"/{inside}") or inside.endswith(f"/{around}"):
        return inside
    raise NotADelivery("the body names another run than its event")


def _text(raw: msgspec.Raw) -> str | None:
    try:
        value = msgspec.json.decode(raw)
    except _UNREADABLE:
        return None
    return value if isinstance(value, str) and value else None


_BOUND_RUN = re.compile(r"((?:anon:)?[^/]{1,128})/[^/]{16,128}")


def tenant_in(run_id: str) -> str | None:
    """The host's tenant that a second-major run id is bound to; None for an id of the first major.

    A subscription only gets the events of runs in its tenant (RFC 0093): another one here is a violation.
    """
    found = _BOUND_RUN.fullmatch(run_id)
    return found[1] if found else None
