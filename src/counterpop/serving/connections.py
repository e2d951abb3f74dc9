"""Limits that hold before a request has headers: on their size and time, and on the number of connections."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from functools import partial
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from counterpop.serving.guard import HEADERS, PROBES, Application, Receive, Scope, Send, refuse
from counterpop.serving.refusals import Refusal

log = logging.getLogger("counterpop.serving")
MOST = 1024  # connections, if the process may have that many descriptors
SPARE = 64  # descriptors for everything else, and as many connections beyond the others that only probes may use
HEADER_SECONDS, PROBE_SECONDS = 10.0, 1.0  # until the headers of a request must have arrived


def most_connections() -> int:
    """How many connections may be open, probes not counted."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(16, min(MOST, descriptors - 2 * SPARE)) if descriptors != resource.RLIM_INFINITY else MOST


class Connection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """Uvicorn's own protocol, which gives up on headers that are too large or too slow, and on too many connections."""

    app: Any
    _timer: asyncio.TimerHandle | None
    _noted = 0.0  # when the log last said that there were too many; one for all connections

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head, self._timer, self._seconds = 0, None, HEADER_SECONDS
        most = most_connections()
        if len(self.connections) > most:
            self._seconds, self.app = PROBE_SECONDS, partial(_only_probes, self.app)
            self._note(most)
            if len(self.connections) > most + SPARE:
                transport.abort()
                return
        self._wait()

    def data_received(self, data: bytes) -> None:
        between = self._is_between()
        super().data_received(data)
        if not (between and self._is_between()):  # a request has begun, and the guard watches over it
            self._head = 0
            self._stop_waiting()
            return
        self._head += len(data)
        if self._head > HEADERS:
            self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n")
            self.transport.close()
        elif self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_between(self) -> bool:
        """Whether the last request, if there was one, has been answered and has arrived."""
        return self.cycle is None or (self.cycle.response_complete and not self.cycle.more_body)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _note(self, most: int) -> None:
        if time.monotonic() - Connection._noted > 60:
            Connection._noted = time.monotonic()
            log.warning("%d connections are open, which is the limit; new ones are let in for probes only", most)


async def _only_probes(inner: Application, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" and scope["path"] not in PROBES:
        await refuse(send, Refusal(503, "too many connections are open; try again later", [(b"retry-after", b"1")]))
    else:
        await inner(scope, receive, send)
