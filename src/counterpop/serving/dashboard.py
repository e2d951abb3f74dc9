"""The dashboard: its page, and the routes for what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from itertools import islice, repeat
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Response

from counterpop.artifacts.documents import as_date
from counterpop.auditing import Audit, audit_model
from counterpop.reporting.cases import history_of
from counterpop.reporting.glossary import words
from counterpop.serving import shapes
from counterpop.serving.model import ServedModel, find
from counterpop.serving.refusals import Refusal
from counterpop.serving.routes import Routes, dial_of, json_response, user_position
from counterpop.serving.watching import aside
from counterpop.serving.window import audit_window

FOUND_USERS = 20
KEPT_AUDITS = 8
PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/curve.js": ("curve.js", "text/javascript"),
    "/saving.js": ("saving.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
NOT_YET: dict[int | str, dict[str, Any]] = {
    202: {"model": shapes.Problem, "description": "Still being measured; ask again."}
}
OWN_PAGE = {"content-security-policy": "frame-ancestors 'none'", "cache-control": "no-cache"}  # it has its own policy
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "cache-control": "no-cache",
}


class Audits:
    """Audits of everybody's lists, by run and strengths; one is computed at a time and the last 8 are kept."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[object, ...], asyncio.Task[Audit]] = {}
        self._turn = asyncio.Lock()

    async def of(self, model: ServedModel, version: int, dial: dict[str, Any]) -> Audit:
        key = version, *dial.values()
        if key not in self._tasks or (self._tasks[key].done() and self._tasks[key].exception()):
            if len(self._tasks) >= KEPT_AUDITS:
                done = next((key for key, task in self._tasks.items() if task.done()), None)
                if done is None:
                    raise Refusal(503, f"{KEPT_AUDITS} audits are already in progress; try again later")
                del self._tasks[done]
            self._tasks[key] = asyncio.create_task(self._audit(model, dial))
        # an audit that outlasts this request continues, and the next request for it gets the result
        return await asyncio.shield(self._tasks[key])

    async def _audit(self, model: ServedModel, dial: dict[str, Any]) -> Audit:
        async with self._turn:
            adjustment = model.recommender.with_strengths(dial["item_strength"], dial["user_strength"])
            return await aside(lambda: audit_model(adjustment, model.train, dial["k"], labels=model.labels, threads=1))


@dataclass(frozen=True, eq=False)
class Dashboard(Routes):
    audits: Audits = field(default_factory=Audits)

    def add_to(self, app: FastAPI) -> None:
        app.get("/explain", response_model=shapes.Explanation)(self.explain)
        app.get("/history", response_model=shapes.History)(self.history)
        app.get("/users", response_model=shapes.FoundUsers)(self.users)
        app.get("/measures", response_model=shapes.Measured, responses=NOT_YET)(self.measures)
        app.get("/audit", response_model=shapes.Audited)(self.audit)
        app.get("/audit.html", response_class=Response)(self.audit_page)
        for path, (name, kind) in PAGE.items():
            content = files("counterpop.serving").joinpath(name).read_bytes().replace(b"$words", _words())
            app.add_api_route(path, _page(content, kind), response_class=Response, include_in_schema=False)

    async def explain(self, asked: Annotated[shapes.ForUser, Query()]) -> Response:
        """A user's plain and adjusted list, and why they differ."""
        model, version, dial = self.watch.model, self.watch.version, dial_of(self.watch.model, asked)
        at = user_position(model, asked.user)
        strengths = dial["item_strength"], dial["user_strength"]
        lists = await self.in_pool(lambda: model.recommender.explain(at, asked.k, *strengths))
        plain, adjusted = ([row._asdict() | _touched(model, row.item) for row in rows] for rows in lists)
        found = {"user": model.vectors.user_ids[at], "version": version, "plain": plain, "adjusted": adjusted}
        return json_response(dial | found)

    async def history(self, asked: Annotated[shapes.OfUser, Query()]) -> Response:
        """A user's items, the latest first if the log has times, otherwise the most popular first."""
        model = self.watch.model
        at, log = user_position(model, asked.user), model.seen
        items = history_of(log, at, model.train.item_counts)
        dates: Iterable[str | None] = repeat(None)
        if log.time is not None and (last := model.last_time) is not None:
            times = log.time[log.user_starts[at] : log.user_starts[at + 1]]
            dates = [as_date(time, last) for time in np.sort(times)[::-1].tolist()]
        touched = [_touched(model, item) | {"time": date} for item, date in zip(items.tolist(), dates, strict=False)]
        order = "popular" if log.time is None else "latest"
        return json_response({"user": model.vectors.user_ids[at], "order": order, "items": touched})

    async def users(self, asked: Annotated[shapes.Search, Query()]) -> Response:
        """Up to 20 users whose id starts with the given text."""
        model = self.watch.model

        def work() -> list[dict[str, Any]]:
            ids = model.vectors.user_ids
            exact = find(ids, asked.search)
            begin = (n for n, i in enumerate(ids.tolist()) if n != exact and str(i).startswith(asked.search))
            found = [*([] if exact is None else [exact]), *islice(begin, FOUND_USERS)]
            return [{"user": ids[n], "interactions": int(model.seen.user_counts[n])} for n in found[:FOUND_USERS]]

        return json_response({"users": await self.in_pool(work)})

    async def measures(self, _: Annotated[shapes.Parameters, Query()]) -> Response:
        """Every metric at every pair of slider stops."""
        if self.watch.measures is not None:
            return json_response(self.watch.measures)
        if self.watch.measuring_failed:
            raise Refusal(503, self.watch.measuring_failed)
        return json_response({"detail": "the metrics are still being measured; ask again in a second"}, 202)

    async def audit(self, asked: Annotated[shapes.Auditing, Query()]) -> Response:
        """An audit of everybody's lists at these strengths, or of the lists that were served last."""
        model, version = self.watch.model, self.watch.version
        if asked.of == "window":
            return await self._audit_window(model, asked)
        dial = dial_of(model, asked)
        found = await self.audits.of(model, version, dial)
        return json_response({"run": model.name, **dial, **found.as_dict()})

    async def audit_page(self, asked: Annotated[shapes.ForAudit, Query()]) -> Response:
        """The audit of everybody's lists at these strengths beside the plain ones, as a page."""
        model, version, dial = self.watch.model, self.watch.version, dial_of(self.watch.model, asked)
        found = {"plain": await self.audits.of(model, version, dial | {"item_strength": 0.0, "user_strength": 0.0})}
        if dial["item_strength"] or dial["user_strength"]:
            found["adjusted"] = await self.audits.of(model, version, dial)

        def render() -> str:
            from counterpop.reporting.audit_page import render_audit  # imports plotly, which is slow

            return render_audit(found, f"Audit of {model.name}")

        return Response(await self.in_pool(render), media_type="text/html", headers=OWN_PAGE)

    async def _audit_window(self, model: ServedModel, asked: shapes.Auditing) -> Response:
        window, tuned = (
            self.watch.window,
            dial_of(model, asked.model_copy(update={"item_strength": None, "user_strength": None})),
        )
        found = await self.in_pool(lambda: audit_window(model, window, asked.k))
        if found is None:
            raise Refusal(404, "the window holds no list of a known user yet; ask again after some have been served")
        return json_response({"run": model.name, **tuned, **found})


def _page(content: bytes, kind: str) -> Callable[[], Any]:
    async def page() -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

    return page


def _words() -> bytes:
    """The glossary as the entries of a definition list."""
    return "\n".join(f"<dt>{word}</dt><dd>{escape(text)}</dd>" for word, text in words()).encode()


def _touched(model: ServedModel, item: int) -> dict[str, Any]:
    name = None if model.item_names is None else model.item_names[item]
    return {"item": model.vectors.item_ids[item], "name": name, "interactions": int(model.train.item_counts[item])}
