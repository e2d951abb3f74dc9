"""The run being served, and the watch over its folder: a new run takes the place of the old in one step."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from counterpop.serving.guard import Counts
from counterpop.serving.measures import measure_stops
from counterpop.serving.model import ServedModel

T = TypeVar("T")
log = logging.getLogger("counterpop.serving")


@dataclass(frozen=True, eq=False)
class Source:
    """Where runs come from: `load` gives the present one, `stamp` changes when there is another."""

    load: Callable[[], ServedModel]
    stamp: Callable[[], object]


class Watch:
    """Holds the model that answers. A request takes `model` once and keeps it to its end."""

    def __init__(self, source: Source, counts: Counts) -> None:
        self.source, self.counts = source, counts
        self.failure: str | None = None
        self.version = 0
        self.measures: dict[str, Any] | None = None
        self.measuring_failed: str | None = None
        self._stamp = source.stamp()
        self._take(source.load())

    def _take(self, model: ServedModel) -> None:
        self.model, self.failure = model, None
        self.measures = self.measuring_failed = None
        self.version += 1
        self.counts.version.set(self.version)

    async def measure(self) -> None:
        """Measures the stops of the sliders for the model of the moment."""
        version = self.version
        try:
            model = self.model
            found = await aside(lambda: measure_stops(model))
        except Exception as error:
            if version == self.version:
                self.measuring_failed = f"the dashboard's figures could not be measured: {error}"
            log.error("the dashboard's figures could not be measured: %s", error)
            return
        if version == self.version:
            self.measures = {"version": version, **found}

    async def look(self) -> bool:
        """Takes up a new run if there is one; whether it did. One that cannot be loaded changes nothing."""
        stamp = self.source.stamp()
        if stamp == self._stamp:
            return False
        try:
            model = await aside(self.source.load)
        except Exception as error:  # whatever it is, the old run must be served on
            if self.source.stamp() == stamp:  # else it was being written: look again
                self._stamp = stamp
                self.failure = f"the new run was not taken up, the old one is still served: {error}"
                self.counts.reloads.labels("refused").inc()
                log.error("%s", self.failure)
            return False
        if self.source.stamp() != stamp:  # its files may be of two runs
            return False
        self._stamp = stamp
        self._take(model)
        self.counts.reloads.labels("taken").inc()
        log.warning("serving a new run of %s, written %s", model.name, model.written)
        return True

    async def keep_watch(self, every: float) -> None:
        """Looks for ever; measures each model it takes up, beside serving it."""
        measuring = asyncio.create_task(self.measure())
        while True:
            await asyncio.sleep(every)
            if await self.look():
                measuring.cancel()
                measuring = asyncio.create_task(self.measure())


async def aside(work: Callable[[], T]) -> T:
    """What the work returns, done in a thread that does not keep the server from stopping."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():  # nobody waits any more
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failed = None, None
        try:
            result = work()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop is gone: the server has stopped
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, daemon=True).start()
    return await future
