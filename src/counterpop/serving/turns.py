"""Turns: a few requests begin in each round of the event loop, so that a probe never waits for a crowd."""

from __future__ import annotations

import asyncio
from collections import deque

EACH = 8  # requests that begin in a round: about two milliseconds of work


class Turns:
    """A queue, first come first served. Between two rounds the loop reads new connections and answers probes."""

    def __init__(self, each: int = EACH) -> None:
        self._each = self._left = each
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    async def take(self) -> None:
        """Returns at once if this round has turns left and nobody waits, otherwise in a later round."""
        loop = asyncio.get_running_loop()
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._next_round, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left, self._scheduled = self._each, False
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # its request may have been cancelled
                turn.set_result(None)
                self._left -= 1
        if self._waiting:
            self._scheduled = True
            loop.call_soon(self._next_round, loop)
