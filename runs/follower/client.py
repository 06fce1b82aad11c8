"""One host over HTTP: bounded answers, open streams, and a credential that goes nowhere else.

FollowProblem
 ├─ Unreachable     the network; comes again
 ├─ TooLarge        an answer over the limit
 ├─ WrongAnswer     an answer that is not what was asked for
 ├─ OutOfBounds     the host leads elsewhere: another origin, a private address; not followed
 └─ Refused         a status of 400 and up
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

import httpx
import msgspec

from runs.domain.quarantine import without_credentials

from .addresses import PrivateAddress, PublicOnly
from .backoff import retry_after
from .clock import Clock
from .store import FollowedHost

MEBIBYTE = 1024 * 1024
MAX_ANSWER_BYTES = 64 * MEBIBYTE
ANSWER_WITHIN = 45.0
"""Seconds for a whole answer, and for the head of a stream. Longer than a host's long poll (30 s)."""
MAX_REDIRECTS = 5
EVENT_STREAM = "text/event-stream"
JSON = "application/json"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD = frozenset({307, 308})
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
_TIMEOUTS = httpx.Timeout(10, read=None)
"""Reading is watched by the callers, who know what silence means."""


class FollowProblem(Exception):
    """Its text is for people."""


class Unreachable(FollowProblem):
    pass


class TooLarge(FollowProblem):
    pass


class WrongAnswer(FollowProblem):
    pass


class OutOfBounds(FollowProblem):
    pass


class Refused(FollowProblem):
    """`code` is the host's own error code or empty, `asked` the seconds it asks to wait."""

    def __init__(self, status: int, code: str, message: str, asked: float | None) -> None:
        said = ": ".join(part for part in (code, message) if part)
        super().__init__(f"{status} {said}".strip())
        self.status = status
        self.code = code
        self.asked = asked


@dataclass(frozen=True, slots=True)
class Answer:
    headers: Mapping[str, str]
    body: bytes
    status: int

    @property
    def is_json(self) -> bool:
        return media_type(self.headers) == JSON or media_type(self.headers).endswith("+json")


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def read_json(body: bytes) -> object:
    """None for what is no JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


@cache
def _certificates() -> ssl.SSLContext:
    # Reading the authorities takes 20 ms: once for all hosts.
    return httpx.create_ssl_context()


class HostClient:
    """One per host, so that no connection is ever shared between two of them."""

    def __init__(
        self,
        host: FollowedHost,
        *,
        clock: Clock,
        connections: int = 64,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._clock = clock
        self._credential = host.credential
        self._max_answer_bytes = max_answer_bytes
        self._given_origin = host.origin
        self._http = httpx.AsyncClient(
            transport=_transport(host, connections),
            follow_redirects=False,
            timeout=_TIMEOUTS,
            trust_env=False,
            headers={"User-Agent": "openwop-ui-follower", "Accept-Encoding": "identity"},
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def get(
        self,
        path: str,
        *,
        major: int | None,
        params: Mapping[str, str] | None = None,
        accept: str = JSON,
        headers: Mapping[str, str] | None = None,
        authenticated: bool = True,
    ) -> Answer:
        """The whole answer. 304 is an answer; 400 and up raise Refused."""
        wanted = self._headers(accept, major, authenticated) | dict(headers or {})
        return await self._asked("GET", path, params, wanted)

    async def post(self, path: str, *, major: int, body: bytes, key: str) -> Answer:
        """The whole answer to a JSON document. ``key`` is the Idempotency-Key: a request that is made again under it
        is done once. 400 and up raise Refused."""
        wanted = self._headers(JSON, major, True) | {"Content-Type": JSON, "Idempotency-Key": key}
        return await self._asked("POST", path, None, wanted, body)

    async def _asked(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> Answer:
        try:
            async with self._clock.timeout(ANSWER_WITHIN):
                response = await self._send(method, path, params, headers, body)
                try:
                    if media_type(response.headers) == EVENT_STREAM:
                        # Its body may never end.
                        raise WrongAnswer("an event stream where a document was asked for")
                    return Answer(response.headers, await self.read(response), response.status_code)
                finally:
                    await response.aclose()
        except TimeoutError as problem:
            raise Unreachable(f"no answer within {ANSWER_WITHIN:.0f} s") from problem
        except httpx.HTTPError as problem:
            raise Unreachable(network_words(problem)) from problem

    @asynccontextmanager
    async def stream(
        self, path: str, *, major: int, params: Mapping[str, str], last_event_id: int | None
    ) -> AsyncIterator[httpx.Response]:
        """An answer whose body is still to be read. Reading it raises httpx errors when the connection breaks."""
        wanted = self._headers(EVENT_STREAM, major, True) | {"Cache-Control": "no-cache"}
        if last_event_id is not None:
            wanted["Last-Event-ID"] = str(last_event_id)
        try:
            async with self._clock.timeout(ANSWER_WITHIN):
                response = await self._send("GET", path, params, wanted)
        except TimeoutError as problem:
            raise Unreachable(f"no answer within {ANSWER_WITHIN:.0f} s") from problem
        except httpx.HTTPError as problem:
            raise Unreachable(network_words(problem)) from problem
        try:
            yield response
        finally:
            await response.aclose()

    async def read(self, response: httpx.Response) -> bytes:
        """The whole body. Raises TooLarge, and httpx errors when the connection breaks."""
        return await _bounded(response, self._max_answer_bytes)

    def _headers(self, accept: str, major: int | None, authenticated: bool) -> dict[str, str]:
        headers = {"Accept": accept}
        # A `/v1` path must not name another major (versioning, section 1.3): there the path says it.
        if major is not None and major >= 2:
            headers["OpenWOP-Version"] = str(major)
        if authenticated and self._credential:
            headers["Authorization"] = f"Bearer {self._credential}"
        return headers

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> httpx.Response:
        """The head of an answer below 400, after redirects within the origin."""
        url = self._base.copy_with(raw_path=self._base.raw_path.rstrip(b"/") + path.encode("ascii"))
        if params:
            url = url.copy_merge_params(dict(params))
        for _ in range(MAX_REDIRECTS + 1):
            request = self._http.build_request(method, url, headers=dict(headers), content=body)
            try:
                response = await self._http.send(request, stream=True)
            except PrivateAddress as problem:
                raise OutOfBounds(f"{problem}; such hosts are not followed here") from problem
            if response.status_code in (_REDIRECTS if method == "GET" else _KEEPS_METHOD):
                await response.aclose()
                url = self._same_origin(url, response.headers.get("location", ""))
                continue
            if response.status_code >= 400:
                raise await self._refusal(response)
            return response
        raise WrongAnswer(f"more than {MAX_REDIRECTS} redirects")

    @property
    def _base(self) -> httpx.URL:
        try:
            base = httpx.URL(self._given_origin.rstrip("/"))
        except httpx.InvalidURL as problem:
            raise OutOfBounds("the origin is no URL") from problem
        # A name and password in it would be sent in place of the credential. What no resolver takes is told here,
        # as resolvers fail on it in ways of their own.
        labels = base.host.rstrip(".").split(".")
        can_be = base.scheme in ("http", "https") and all(0 < len(label) < 64 for label in labels)
        if not can_be or base.userinfo or not 0 < (base.port or 443) < 65536:
            raise OutOfBounds("the origin is not like https://name or https://name:port")
        return base

    def _same_origin(self, url: httpx.URL, location: str) -> httpx.URL:
        try:
            target = url.join(location)
        except httpx.InvalidURL as problem:
            raise WrongAnswer("a redirect to what is no URL") from problem
        if _origin(target) != _origin(self._base) or target.userinfo:
            # The target is named without its path and query, which may hold anything.
            raise OutOfBounds(f"the host redirects to another origin, {_shown_origin(target)}; not followed there")
        return target

    async def _refusal(self, response: httpx.Response) -> Refused:
        try:
            body = read_json(await _bounded(response, 64 * 1024))
        except (TooLarge, httpx.HTTPError):
            body = None
        finally:
            await response.aclose()
        said = body if isinstance(body, dict) else {}
        return Refused(
            response.status_code,
            self._shown(said.get("error"), 100),
            self._shown(said.get("message"), 300),
            retry_after(response.headers, body, now=self._clock.now()),
        )

    def _shown(self, said: object, most: int) -> str:
        """A host's words as one line of plain text, without our own credential should it be in them."""
        if not isinstance(said, str):
            return ""
        if self._credential:
            said = said.replace(self._credential, "…")
        line = _UNSHOWABLE.sub(" ", without_credentials(said)).strip()
        return line if len(line) <= most else line[: most - 1] + "…"


def _transport(host: FollowedHost, connections: int) -> httpx.AsyncBaseTransport:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=4, keepalive_expiry=15)
    direct = httpx.AsyncHTTPTransport(verify=_certificates(), limits=limits, trust_env=False)
    return direct if host.allow_private else PublicOnly(direct)


async def _bounded(response: httpx.Response, limit: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"an answer of more than {limit} bytes")
    return bytes(body)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.lower(), url.port or {"http": 80, "https": 443}.get(url.scheme)


def _shown_origin(url: httpx.URL) -> str:
    return _UNSHOWABLE.sub(" ", f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}")[:200]


def network_words(problem: httpx.HTTPError) -> str:
    match problem:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return "no connection in time"
        case httpx.ConnectError():
            detail = _UNSHOWABLE.sub(" ", str(problem))[:200]
            return "no connection" if detail == "All connection attempts failed" else f"no connection: {detail}"
        case httpx.RemoteProtocolError():
            return "the host broke off in the middle or does not speak HTTP"
        case httpx.DecodingError():
            return "an answer in a broken encoding"
        case _:
            return "the connection broke"
