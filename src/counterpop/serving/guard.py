"""What every request passes first: tokens, host names, limits on size, time and number, and counts."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, disable_created_metrics

from counterpop.serving.refusals import UNEXPECTED, Refusal, problem
from counterpop.serving.turns import Turns

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("counterpop.serving")
OPEN_PATHS = frozenset(
    ("/", "/page.js", "/curve.js", "/saving.js", "/page.css", "/healthz", "/readyz")
)  # need no token
PROBES = frozenset(("/healthz", "/readyz"))  # answered however busy the server is
HEADERS = 1 << 16  # bytes that the headers of a request may have
WRONG_TOKENS, WINDOW = 20, 60.0  # so many from one address in this many seconds, and it has to wait
WINDOW_GAUGES = {
    "lists": "Lists in the window.",
    "tail_share": "Share of a list that lies in the tail, mean over the lists.",
    "coverage": "Share of all items that are in at least one list.",
    "gini": "How unevenly the lists are spread over items: 0 evenly, towards 1 on few items.",
    "popularity_lift": "How much more popular the lists are than what their users chose: 0 is as popular.",
}
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True)
class Limits:
    body: int = 1 << 20
    """Maximum size of a request's body, in bytes."""
    seconds: float = 10.0
    """Maximum time to answer a request once its headers have arrived."""
    at_once: int = 256
    """Maximum number of concurrent requests."""


class Counts:
    """The counts behind /metrics. Those of one worker among several have its number as a label."""

    def __init__(self, worker: int = 0) -> None:
        self._own = {"worker": str(worker)} if worker else {}
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they add a line per counter
        self.registry = CollectorRegistry()
        self.requests = Counter("counterpop_requests", "Requests answered.", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "counterpop_request_seconds",
            "Seconds from request to response.",
            ["path"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
        )
        self.lists = Counter("counterpop_lists", "Recommendation lists computed.", registry=self.registry)
        self.fallbacks = Counter("counterpop_fallback_lists", "Lists for unknown users.", registry=self.registry)
        self.reloads = Counter("counterpop_reloads", "New runs loaded or refused.", ["result"], registry=self.registry)
        self.version = Gauge("counterpop_run_version", "Number of runs loaded so far.", registry=self.registry)
        self.exposure = {
            name: Gauge(f"counterpop_window_{name}", text, ["lists"], registry=self.registry)
            for name, text in WINDOW_GAUGES.items()
        }
        self.groups = Gauge(
            "counterpop_window_group_share",
            "Share of the places that hold items of a popularity group.",
            ["lists", "group"],
            registry=self.registry,
        )
        self.categories = Gauge(
            "counterpop_window_category_share",
            "Share of the places that hold items of a category.",
            ["lists", "column", "category"],
            registry=self.registry,
        )

    def collect(self) -> Iterator[Metric]:
        """What there is to export, as a registry gives it."""
        for metric in self.registry.collect():
            metric.samples = [one._replace(labels=one.labels | self._own) for one in metric.samples]
            yield metric

    def show_exposure(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Sets the gauges of the window to these figures, by kind of lists."""
        for gauge in (*self.exposure.values(), self.groups, self.categories):
            gauge.clear()  # so that categories of an older run do not stay
        for lists, figures in found.items():
            for name, gauge in self.exposure.items():
                gauge.labels(lists).set(figures[name])
            for column, shares in figures["shares"].items():
                for value, share in shares.items():
                    labels = (lists, value) if not column else (lists, column, value)
                    (self.categories if column else self.groups).labels(*labels).set(share)


class Guard:
    """An ASGI application around another, which sees only requests within the limits, with complete bodies."""

    def __init__(
        self,
        inner: Application,
        counts: Counts,
        paths: Collection[str],
        *,
        limits: Limits,
        tokens: Sequence[str] | Callable[[], Sequence[str]] = (),
        hosts: Collection[str] | None = None,
    ) -> None:
        self.inner, self.counts, self.paths, self.limits, self.hosts = inner, counts, paths, limits, hosts
        self.tokens = tokens if callable(tokens) else lambda: tokens
        self.under_way, self._turns = 0, Turns()
        self._wrong: dict[str, int] = {}  # wrong tokens by address since `_since`
        self._since = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["method"] == "HEAD":  # answered as GET; the server omits the body
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
            if status:  # the response has begun: all we can do is abort it
                raise
            await refuse(
                watched, Refusal(503, f"no answer within {self.limits.seconds:g} seconds; send a smaller request")
            )
        except Exception:
            log.exception("request failed: %s %s", scope["method"], scope["path"])
            if not status:
                await refuse(watched, Refusal(500, UNEXPECTED))
        finally:
            self.under_way -= 1
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.counts.requests.labels(path, status).inc()
            self.counts.seconds.labels(path).observe(time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])  # names are in lower case
        if scope["path"] not in PROBES:
            await self._turns.take()
        self._check(scope, headers)
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        if scope["method"] != "GET":
            receive = await self._read(headers, receive, deadline)
        async with asyncio.timeout_at(deadline):
            await self.inner(scope, receive, send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if sum(map(len, (text for header in scope["headers"] for text in header))) > HEADERS:
            raise Refusal(431, f"the headers may have at most {HEADERS:,} bytes")
        if self.under_way > self.limits.at_once and scope["path"] not in PROBES:
            detail = f"{self.limits.at_once} requests are already in progress; try again later"
            raise Refusal(503, detail, [(b"retry-after", b"1")])
        if self.hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
            if name not in self.hosts:  # DNS rebinding: a web page may have pointed its own name at this server
                raise Refusal(421, "this server answers only to localhost; use --token-file to open it to others")
        tokens = () if scope["path"] in OPEN_PATHS else self.tokens()
        if tokens:
            address = (scope.get("client") or ("?",))[0]
            self._slow_down(address)
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            # compare with every token, in constant time
            right = [hmac.compare_digest(given.strip(), token.encode()) for token in tokens]
            if kind.lower() != b"bearer" or not any(right):
                self._note_wrong(address, bool(given))
                raise Refusal(
                    401,
                    "a bearer token is required: send the header Authorization: Bearer TOKEN",
                    [(b"www-authenticate", b"Bearer")],
                )

    def _slow_down(self, address: str) -> None:
        if time.monotonic() - self._since > WINDOW:
            self._wrong, self._since = {}, time.monotonic()
        if self._wrong.get(address, 0) >= WRONG_TOKENS:
            detail = f"{WRONG_TOKENS} wrong tokens came from this address; try again in a minute"
            raise Refusal(429, detail, [(b"retry-after", str(int(WINDOW)).encode())])

    def _note_wrong(self, address: str, given: bool) -> None:
        """Counts a wrong token; a request without one is no attempt."""
        if not given:
            return
        self._wrong[address] = self._wrong.get(address, 0) + 1
        if self._wrong[address] in (1, WRONG_TOKENS):
            log.warning("wrong tokens from %s: %d in the last minute", address, self._wrong[address])

    async def _read(self, headers: dict[bytes, bytes], receive: Receive, deadline: float) -> Receive:
        """A `receive` that returns the whole body, which is read here."""
        too_large = Refusal(413, f"the body may have at most {self.limits.body:,} bytes; send smaller batches")
        if int(headers.get(b"content-length", b"0")) > self.limits.body:
            raise too_large
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout_at(deadline):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the connection was closed before the body was complete")
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
