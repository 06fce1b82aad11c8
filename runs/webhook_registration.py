"""Webhooks on their host: registered, rotated, unregistered, in both majors.

Sent while somebody waits for the page, so everything has an end in time and size. The host's address is held against
the address policy at the moment of connecting, and the credential never leaves the host's origin.
"""

from __future__ import annotations

import re
import secrets
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from urllib.parse import quote
from uuid import UUID

import httpx
import orjson
from django.conf import settings

from openwop_ui import vault

from .domain import addresses, event_types
from .domain.projection import project
from .domain.webhooks import Dialect, standard_secret
from .follower.client import network_words, read_json
from .models import Host

STANDARD = "standard-webhooks-1"
TIMEOUTS = httpx.Timeout(15, connect=5)
"""A host may ask this address for a challenge before it answers, for which it takes up to 10 s (RFC 0201)."""
WITHIN = 25.0
MAX_ANSWER_BYTES = 64 * 1024
MAX_REDIRECTS = 3
MAJORS = (2, 1)

SUGGESTED_EVENTS = (
    *("run.started", "run.completed", "run.failed", "run.cancelled", "run.paused", "run.resuming", "run.resumed"),
    *("node.started", "node.completed", "node.failed", "node.suspended", "node.resumed", "node.retried"),
    *("node.skipped", "node.cancelled", "node.dispatched"),
    *("approval.requested", "approval.received", "clarification.requested", "clarification.resolved"),
    *("interrupt.requested", "interrupt.resolved"),
    *("agent.invocation.started", "agent.invocation.completed", "agent.toolCalled", "agent.toolReturned"),
    *("agent.handoff", "agent.decided"),
    *("memory.written", "memory.compacted", "agent.memory.consolidated", "commitment.fired", "workspace.updated"),
    *("proposal.created", "proposal.activated", "replay.diverged", "replay.divergedAtRefusal"),
)
"""In the first major's spelling. Neither major has a word for all events: a list is never empty and has names."""

_SECOND_MAJOR_NAMES = {first: second for second, first in event_types.FIRST_MAJOR_NAMES.items()}
_KEEPS_METHOD = frozenset({307, 308})
_NOT_SERVED = frozenset({404, 405, 406, 410, 426, 501})
_GONE = frozenset({404, 410})
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


class RegistrationProblem(Exception):
    """Its text is for people."""


class HostRefused(RegistrationProblem):
    """It answered, so nothing changed there."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True, slots=True)
class Target:
    """A host as it is asked. ``major`` is None while it is not known which one it speaks."""

    origin: str
    major: int | None
    credential: str = field(default="", repr=False)
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """``remote_id`` names the subscription on the host, bound to its tenant where the host says which. ``secret`` is
    what the host signs with, "" when it did not tell."""

    remote_id: str
    secret: str = field(default="", repr=False)


def target_of(host: Host) -> Target:
    """Raises RegistrationProblem."""
    if not host.origin:
        raise RegistrationProblem("This host has no origin, so nothing can be registered on it.")
    try:
        credential = vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        raise RegistrationProblem("CREDENTIALS_KEY does not open this host's credential.") from None
    return Target(host.origin, host.major, credential, settings.ALLOW_PRIVATE_HOSTS)


def new_secret(dialect: Dialect) -> str:
    return standard_secret(secrets.token_bytes(32)) if dialect.is_standard else secrets.token_urlsafe(32)


def suggested_dialect(major: int | None, implementation: str) -> str:
    """By what the host's discovery document calls the software: some sign in a way of their own."""
    if implementation == "openwop-workflow-engine":
        return "openwop-app"
    if implementation.startswith("openwop-host-"):
        return "reference-hosts"
    return "openwop-1" if major == 1 else "openwop-2"


def register(
    target: Target,
    *,
    subscription: UUID,
    url: str,
    events: Sequence[str],
    dialect: Dialect,
    secret: str,
    tenant: str = "",
) -> Registered:
    """Raises RegistrationProblem; the host then has nothing registered, as far as it says.

    ``secret`` is sent where a subscriber may choose it: in the second major, and for Standard Webhooks. ``tenant`` is
    the host's own name of the tenant, which the first major wants to hear.
    """
    with _Caller(target) as caller:
        problem: HostRefused | None = None
        for major in _majors(target):
            body = _registration(major, url, events, dialect, secret, tenant)
            try:
                told = caller.post(_path(major), major, body, key=f"register-{subscription}-{major}", hidden=secret)
            except HostRefused as refused:
                if refused.status not in _NOT_SERVED:
                    raise
                problem = problem or refused
                continue
            remote_id = _remote_id(told, major, tenant)
            if dialect.is_standard and STANDARD not in _texts(told.get("signatureAlgorithms")):
                _take_back(caller, remote_id, major, subscription)
                raise RegistrationProblem("The host does not sign by Standard Webhooks. Choose how it signs.")
            return Registered(remote_id, _signs_with(told, body))
    assert problem is not None
    raise problem


def unregister(target: Target, *, subscription: UUID, remote_id: str) -> None:
    """One that the host does not know any more counts as done. Raises RegistrationProblem."""
    with _Caller(target) as caller:
        problem: HostRefused | None = None
        for major in _majors(target):
            try:
                _take_back(caller, remote_id, major, subscription)
                return
            except HostRefused as refused:
                if refused.status not in _NOT_SERVED:
                    raise
                problem = problem if refused.status in _GONE else refused
    if problem is not None:
        raise problem


def rotate(target: Target, *, remote_id: str, secret: str) -> None:
    """Has the host sign with ``secret`` too, and after a while with it alone (RFC 0201 section E).

    Only subscriptions of Standard Webhooks can. Raises RegistrationProblem.
    """
    with _Caller(target) as caller:
        major = target.major or MAJORS[0]
        path = f"{_path(major, remote_id)}/rotate-secret"
        caller.post(path, major, {"secret": secret}, query=_tenant_query(major, remote_id), hidden=secret)


def _majors(target: Target) -> tuple[int, ...]:
    return (target.major,) if target.major else MAJORS


def _take_back(caller: _Caller, remote_id: str, major: int, subscription: UUID) -> None:
    caller.delete(_path(major, remote_id), major, _tenant_query(major, remote_id), key=f"end-{subscription}-{major}")


def _path(major: int, remote_id: str = "") -> str:
    base = "/webhooks" if major >= 2 else "/v1/webhooks"
    if not remote_id:
        return base
    return f"{base}/{project(remote_id)}" if major >= 2 else f"{base}/{quote(_own_id(remote_id), safe='')}"


def _tenant_query(major: int, remote_id: str) -> dict[str, str]:
    tenant = remote_id.rpartition("/")[0]
    return {"tenantId": tenant} if major == 1 and tenant else {}


def _own_id(remote_id: str) -> str:
    return remote_id.rpartition("/")[2]


def _registration(
    major: int, url: str, events: Sequence[str], dialect: Dialect, secret: str, tenant: str
) -> dict[str, object]:
    body: dict[str, object] = {"url": url, "events": [_spelled(name, major) for name in events]}
    if major == 1:
        # The example hosts read the list under another name.
        body["eventTypes"] = body["events"]
        if tenant:
            body["tenantId"] = tenant
    if dialect.is_standard:
        body["signatureAlgorithms"] = ["v1", STANDARD]
    if major >= 2 or dialect.is_standard:
        body["secret"] = secret
    return body


def _spelled(name: str, major: int) -> str:
    first = event_types.canonical(name)
    return _SECOND_MAJOR_NAMES.get(first, first) if major >= 2 else first


def _remote_id(told: Mapping[str, object], major: int, tenant: str) -> str:
    webhook_id = _text(told.get("webhookId")) or _text(told.get("subscriptionId"))
    if not webhook_id:
        raise RegistrationProblem("The host answered without an id of the webhook.")
    if major == 1:
        # As the second major reads what the first one made: bound to its tenant.
        owner = _text(told.get("tenantId")) or tenant
        webhook_id = f"{owner}/{webhook_id}" if owner else webhook_id
    return webhook_id


def _signs_with(told: Mapping[str, object], sent: Mapping[str, object]) -> str:
    """A host that makes a secret of its own tells it, here and never again. By Standard Webhooks it must not."""
    chosen = _text(sent.get("secret"))
    return chosen if "signatureAlgorithms" in sent else _text(told.get("secret")) or chosen


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 512 else ""


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


class PinnedTransport(httpx.BaseTransport):
    """Connects to the addresses that the policy let pass, and to no other; TLS still verifies the host's name."""

    def __init__(self, inner: httpx.BaseTransport, *, allow_private: bool) -> None:
        self._inner = inner
        self._allow_private = allow_private

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.host
        problem: httpx.ConnectError | None = None
        for address in self._allowed(request):
            request.extensions = {**request.extensions, "sni_hostname": name}
            request.url = request.url.copy_with(host=address)
            try:
                return self._inner.handle_request(request)
            except httpx.ConnectError as refused:
                problem = refused
        raise problem or httpx.ConnectError("no address", request=request)

    def close(self) -> None:
        self._inner.close()

    def _allowed(self, request: httpx.Request) -> tuple[str, ...]:
        found = self._resolved(request)
        origin = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
        verdict = addresses.judge(origin, found, allow_private=self._allow_private)
        if isinstance(verdict, addresses.Refused):
            raise RegistrationProblem(f"The host's address is not allowed: {verdict}.")
        return verdict.addresses

    @staticmethod
    def _resolved(request: httpx.Request) -> list[str]:
        name, port = request.url.host, request.url.port or (80 if request.url.scheme == "http" else 443)
        try:
            found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        except OSError as problem:
            raise httpx.ConnectError(f"{name} can not be resolved", request=request) from problem
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()


class _Caller:
    """Requests to one host, for as long as somebody can be expected to wait."""

    def __init__(self, target: Target) -> None:
        self._credential = target.credential
        self._base = httpx.URL(target.origin.rstrip("/"))
        self._until = monotonic() + WITHIN
        inner = httpx.HTTPTransport(verify=_certificates(), trust_env=False)
        self._http = httpx.Client(
            transport=PinnedTransport(inner, allow_private=target.allow_private),
            follow_redirects=False,
            timeout=TIMEOUTS,
            trust_env=False,
            headers={"User-Agent": "openwop-ui", "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    def __enter__(self) -> _Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def post(
        self,
        path: str,
        major: int,
        body: Mapping[str, object],
        *,
        query: Mapping[str, str] | None = None,
        key: str = "",
        hidden: str = "",
    ) -> Mapping[str, object]:
        return self._send("POST", path, major, query or {}, body=orjson.dumps(body), key=key, hidden=hidden)

    def delete(self, path: str, major: int, query: Mapping[str, str], *, key: str) -> None:
        self._send("DELETE", path, major, query, key=key)

    def _send(
        self,
        method: str,
        path: str,
        major: int,
        query: Mapping[str, str],
        *,
        body: bytes | None = None,
        key: str = "",
        hidden: str = "",
    ) -> Mapping[str, object]:
        url = self._base.copy_with(raw_path=self._base.raw_path.rstrip(b"/") + path.encode("ascii"))
        url = url.copy_merge_params(dict(query)) if query else url
        try:
            status, answered = self._exchange(method, url, body, self._headers(major, body, key))
        except httpx.HTTPError as problem:
            raise RegistrationProblem(
                f"No answer from the host: {network_words(problem)}. Whether it did what was asked is not known."
            ) from problem
        told = read_json(answered)
        members = told if isinstance(told, dict) else {}
        if status >= 300:
            raise HostRefused(status, self._refused(status, members, hidden))
        return members

    def _headers(self, major: int, body: bytes | None, key: str) -> dict[str, str]:
        headers = {"OpenWOP-Version": str(major)} if major >= 2 else {}
        if self._credential:
            headers["Authorization"] = f"Bearer {self._credential}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        return headers

    def _exchange(
        self, method: str, url: httpx.URL, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        for _ in range(MAX_REDIRECTS + 1):
            with self._http.stream(method, url, content=body, headers=dict(headers)) as response:
                if response.status_code not in _KEEPS_METHOD:
                    return response.status_code, self._read(response)
                url = self._same_origin(url, response.headers.get("location", ""))
        raise RegistrationProblem(f"The host redirects more than {MAX_REDIRECTS} times.")

    def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise RegistrationProblem(f"The host answered with more than {MAX_ANSWER_BYTES} bytes.")
            if monotonic() > self._until:
                raise RegistrationProblem(f"The host did not end its answer within {WITHIN:.0f} s.")
        return bytes(body)

    def _same_origin(self, url: httpx.URL, location: str) -> httpx.URL:
        try:
            target = url.join(location)
        except httpx.InvalidURL:
            raise RegistrationProblem("The host redirects to what is no address.") from None
        if (target.scheme, target.netloc) != (self._base.scheme, self._base.netloc) or target.userinfo:
            raise RegistrationProblem("The host redirects to another origin, where its credential does not go.")
        return target

    def _refused(self, status: int, told: Mapping[str, object], hidden: str) -> str:
        said = ": ".join(
            part for part in (self._shown(told.get("error"), hidden), self._shown(told.get("message"), hidden)) if part
        )
        return f"{_advice(status, str(told.get('error')))} ({f'{status} {said}'.strip()})"

    def _shown(self, said: object, hidden: str) -> str:
        """A host's words as one line of plain text, without a secret should one be in them."""
        if not isinstance(said, str):
            return ""
        for secret in (self._credential, hidden):
            said = said.replace(secret, "…") if secret else said
        line = _UNSHOWABLE.sub(" ", said).strip()
        return line if len(line) <= 300 else f"{line[:299]}…"


_BY_CODE = {
    "webhook_url_rejected": "The host does not deliver to this site's address.",
    "webhook_endpoint_unverified": "The host could not reach this site's address, or was not understood there.",
    "idempotency_in_flight": "The host is still at an earlier attempt. Try again shortly.",
}
_BY_STATUS = {
    401: "The host does not take its credential.",
    403: "The host's credential may not manage webhooks of that tenant; it needs webhooks:manage.",
    429: "The host asks to wait. Try again shortly.",
    503: "The host is busy. Try again shortly.",
}


def _advice(status: int, code: str) -> str:
    if status in _NOT_SERVED:
        return "The host has no webhooks under that address."
    if 300 <= status < 400:
        return "The host redirects in a way that is not followed."
    return _BY_CODE.get(code) or _BY_STATUS.get(status) or "The host refuses."
