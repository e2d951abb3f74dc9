"""The door of the server: tokens, limits of size, time and number, and the count of what came through."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("counterpop.serving")
OPEN_PATHS = frozenset(("/", "/page.js", "/page.css", "/healthz", "/readyz"))  # no token is asked for here
UNFORESEEN = "something unforeseen went wrong; the server's log says what"
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True)
class Limits:
    body: int = 1 << 20
    """Bytes of a request's body."""
    seconds: float = 10.0
    """From the headers of a request, once they are here, to its answer."""
    at_once: int = 256
    """Requests under way."""


class Counts:
    """What /metrics shows."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second line for each counter
        self.registry = CollectorRegistry()
        self.requests = Counter("counterpop_requests", "Requests answered.", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "counterpop_request_seconds",
            "Seconds from request to answer.",
            ["path"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
        )
        self.lists = Counter("counterpop_lists", "Lists of recommendations made.", registry=self.registry)
        self.fallbacks = Counter("counterpop_fallback_lists", "Lists made for unknown users.", registry=self.registry)
        self.reloads = Counter(
            "counterpop_reloads", "New runs taken up, or refused.", ["result"], registry=self.registry
        )
        self.version = Gauge("counterpop_run_version", "Counts the runs taken up.", registry=self.registry)


class Refusal(Exception):
    """An answer with a status and one sentence."""

    def __init__(self, status: int, detail: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.status, self.detail, self.headers = status, detail, headers


class Guard:
    """An ASGI application around another: what it lets in is within limits and has been read in full."""

    def __init__(
        self,
        inner: Application,
        counts: Counts,
        paths: Collection[str],
        *,
        limits: Limits,
        tokens: Sequence[str] = (),
        hosts: Collection[str] | None = None,
    ) -> None:
        self.inner, self.counts, self.paths, self.limits, self.hosts = inner, counts, paths, limits, hosts
        self.tokens = [token.encode() for token in tokens]
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["method"] == "HEAD":  # as GET; the server leaves the body out
            scope = {**scope, "method": "GET"}
        start, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        self.under_way += 1
        try:
            await self._admit(scope, receive, watched)
        except Refusal as refusal:
            await refuse(watched, refusal)
        except TimeoutError:
            if status:  # the answer is on its way: all that is left is to break it off
                raise
            await refuse(watched, Refusal(503, f"no answer within {self.limits.seconds:g} seconds; ask for less"))
        except Exception:
            log.exception("failed: %s %s", scope["method"], scope["path"])
            if not status:
                await refuse(watched, Refusal(500, UNFORESEEN))
        finally:
            self.under_way -= 1
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.counts.requests.labels(path, status).inc()
            self.counts.seconds.labels(path).observe(time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])  # names are in lower case
        self._check(scope, headers)
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        if scope["method"] != "GET":
            receive = await self._read(headers, receive, deadline)
        async with asyncio.timeout_at(deadline):
            await self.inner(scope, receive, send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self.under_way > self.limits.at_once:
            raise Refusal(503, f"{self.limits.at_once} requests are under way; try later", [(b"retry-after", b"1")])
        if self.hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
            if name not in self.hosts:  # another name that leads here is a page's trick on a browser
                raise Refusal(421, "this server answers only to localhost; --token-file opens it to others")
        if self.tokens and scope["path"] not in OPEN_PATHS:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            # every token is compared, in full, whatever comes of it
            right = [hmac.compare_digest(given.strip(), token) for token in self.tokens]
            if kind.lower() != b"bearer" or not any(right):
                raise Refusal(
                    401,
                    "a bearer token is needed: send the header Authorization: Bearer TOKEN",
                    [(b"www-authenticate", b"Bearer")],
                )

    async def _read(self, headers: dict[bytes, bytes], receive: Receive, deadline: float) -> Receive:
        """The body, read in full, as a `receive` of its own."""
        too_large = Refusal(413, f"a body may have at most {self.limits.body:,} bytes; send smaller batches")
        if int(headers.get(b"content-length", b"0")) > self.limits.body:
            raise too_large
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout_at(deadline):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the request broke off")
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
                    if size > self.limits.body:
                        raise too_large
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {self.limits.seconds:g} seconds") from None
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay


async def refuse(send: Send, refusal: Refusal) -> None:
    body = problem(refusal.detail)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": [*headers, *refusal.headers]})
    await send({"type": "http.response.body", "body": body})


def problem(detail: str) -> bytes:
    """The body of every refusal; in ASCII, so that no text of a request can break it."""
    return json.dumps({"detail": detail}).encode()
