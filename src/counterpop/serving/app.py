"""The HTTP application: all routes, behind the guard."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from counterpop import __version__
from counterpop.errors import InputError
from counterpop.kernels.threads import core_count
from counterpop.serving.dashboard import Dashboard
from counterpop.serving.guard import Counts, Guard, Limits
from counterpop.serving.probes import Probes
from counterpop.serving.recommending import Recommending
from counterpop.serving.refusals import PROBLEMS, handle_errors
from counterpop.serving.routes import Unknown
from counterpop.serving.watching import Source, Watch


def create_app(
    source: Source,
    *,
    unknown: Unknown = "popular",
    limits: Limits | None = None,
    tokens: Sequence[str] | Callable[[], Sequence[str]] = (),
    hosts: frozenset[str] | None = None,
    look_every: float = 1.0,
    window: int = 10_000,
    worker: int = 0,
) -> Guard:
    """An ASGI application that serves the source's current run, which is loaded here.

    `unknown` decides what a user without a vector gets: the common list, or 404. With `tokens`, every path
    except the page and the probes requires one of them. `hosts` are the only host names it answers to (None:
    any). Every `look_every` seconds it checks the source for a new run. The last `window` lists are kept for the
    gauges of /metrics and for /audit; 0 keeps none. The number of a `worker` labels its metrics.
    """
    if not 0 < look_every < math.inf:
        raise InputError(f"look_every must be a number of seconds above 0, got {look_every}")
    counts = Counts(worker)
    watch = Watch(source, counts, window)
    pool = ThreadPoolExecutor(core_count(), "counterpop-batch")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(watch.keep_watch(look_every))
        task.add_done_callback(watch.note_end)
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="counterpop",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=PROBLEMS,
        description="Recommendations with as much popularity removed as each request asks for.",
    )
    for routes in (Recommending, Dashboard, Probes):
        routes(watch, counts, pool, unknown).add_to(app)
    handle_errors(app)
    paths = {route.path for route in app.routes}  # type: ignore[attr-defined]
    return Guard(app, counts, paths, limits=limits or Limits(), tokens=tokens, hosts=hosts)
