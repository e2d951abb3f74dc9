"""The run being served, and the watch on its folder: a new run replaces the old one in one step."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from counterpop.artifacts import MANIFEST, load_saved
from counterpop.interactions import IntArray
from counterpop.readers import IDS, read_labels
from counterpop.serving.guard import Counts
from counterpop.serving.measures import measure_stops
from counterpop.serving.model import ServedModel
from counterpop.serving.window import Exposure, Window

T = TypeVar("T")
log = logging.getLogger("counterpop.serving")


@dataclass(frozen=True, eq=False)
class Source:
    """Where runs come from: `load` returns the current one, and `stamp` changes whenever there is a new one."""

    load: Callable[[], ServedModel]
    stamp: Callable[[], object]


def load_served(
    run: str | Path,
    names: str | Path | None = None,
    item: str | Sequence[str] = IDS,
    name: str = "name",
    categories: Sequence[str] = (),
    mapped: bool = False,
) -> ServedModel:
    """A run folder ready to serve, with what the first requests need already computed.

    `names` is a table with the columns `item`, `name` and `categories`.
    If `mapped`, vectors stay in their files, and processes share them.
    """
    saved = load_saved(run, mapped=mapped)
    recommender = saved.recommender()
    ids = recommender.embeddings.item_ids
    labels = read_labels(names, ids, item=item, name=name, categories=categories) if names else None
    model = ServedModel(
        saved.name,
        saved.manifest["written"],
        recommender,
        saved.trained_on(),
        saved.held_out,
        saved.tuning or {},
        labels.names if labels else None,
        labels.categories if labels else {},
    )
    _ = model.popular
    return model


def source_of(run: str | Path, names: str | Path | None = None, **columns: Any) -> Source:
    """A run folder to watch: every new run replaces its manifest. `columns` are the options of `load_served`."""
    return Source(partial(load_served, run, names, **columns), partial(_stamp, Path(run) / MANIFEST))


def _stamp(manifest: Path) -> object:
    try:
        status = manifest.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class Watch:
    """Holds the model being served. A request reads `model` once and uses it until it is answered."""

    def __init__(self, source: Source, counts: Counts, window: int = 0) -> None:
        self.source, self.counts, self.window_size = source, counts, window
        self.failure: str | None = None
        self.version = 0
        self.measures: dict[str, Any] | None = None
        self.measuring_failed: str | None = None
        self._exposure: Exposure | None = None
        self._showing = threading.Lock()
        self._stamp = source.stamp()
        self._take(source.load())

    def _take(self, model: ServedModel) -> None:
        self.model, self.failure = model, None
        self.measures = self.measuring_failed = None
        self.version += 1
        self.counts.version.set(self.version)
        self.window, self._exposure = Window(self.window_size), None

    def keep(self, model: ServedModel, users: IntArray, lists: IntArray) -> None:
        """Adds lists to the window, unless a new run has taken over since."""
        if model is self.model:
            self.window.add(users, lists)

    def show_exposure(self) -> None:
        """Sets the gauges to what the window's lists expose now."""
        model, window = self.model, self.window
        if not window.size:
            return
        with self._showing:
            if self._exposure is None or self._exposure.model is not model:
                self._exposure = Exposure(model)
            self.counts.show_exposure(self._exposure.measure(window))

    async def measure(self) -> None:
        """Measures every pair of slider stops for the current model."""
        version = self.version
        try:
            model = self.model
            found = await aside(lambda: measure_stops(model))
        except Exception as error:
            failure = f"the dashboard's metrics could not be measured: {error}"
            if version == self.version:
                self.measuring_failed = failure
            log.error("%s", failure)
            return
        if version == self.version:
            self.measures = {"version": version, **found}

    async def look(self) -> bool:
        """Loads the new run if there is one; True if it did. A run that cannot be loaded changes nothing."""
        stamp = self.source.stamp()
        if stamp == self._stamp:
            return False
        try:
            model = await aside(self.source.load)
        except Exception as error:  # whatever the cause, keep serving the old run
            if self.source.stamp() == stamp:  # otherwise it was still being written: look again
                self._stamp = stamp
                self.failure = f"the new run could not be loaded, so the old one is still served: {error}"
                self.counts.reloads.labels("refused").inc()
                log.error("%s", self.failure)
            return False
        if self.source.stamp() != stamp:  # its files may come from two runs
            return False
        self._stamp = stamp
        self._take(model)
        self.counts.reloads.labels("taken").inc()
        log.warning("serving a new run of %s, written %s", model.name, model.written)
        return True

    def note_end(self, task: asyncio.Task[None]) -> None:
        """Makes it visible if the watch ends while the server goes on."""
        if not task.cancelled():
            self.failure = f"the folder is no longer watched, so new runs are not loaded: {task.exception()}"
            log.error("%s", self.failure)

    async def keep_watch(self, every: float) -> None:
        """Looks for new runs forever, and measures each in the background."""
        measuring = asyncio.create_task(self.measure())
        while True:
            await asyncio.sleep(every)
            if await self.look():
                measuring.cancel()
                measuring = asyncio.create_task(self.measure())


async def aside(work: Callable[[], T]) -> T:
    """The result of the work, done in a daemon thread, which does not keep the server from stopping."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled, so the thread can always settle it

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)
