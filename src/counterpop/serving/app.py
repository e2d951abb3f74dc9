"""The HTTP application: every path, its checks by `shapes`, its answers from the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import generate_latest
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from counterpop import __version__
from counterpop.auditing import audit_model
from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import IntArray
from counterpop.kernels.threads import core_count
from counterpop.recommender import Explained
from counterpop.serving import shapes
from counterpop.serving.guard import UNFORESEEN, Counts, Guard, Limits, Refusal, problem
from counterpop.serving.model import ServedModel, find
from counterpop.serving.watching import Source, Watch, aside

T = TypeVar("T")
Unknown = Literal["popular", "404"]
SMALL = 4_000_000  # multiplications that may hold up other requests: about a millisecond
FOUND_USERS = 20
KEPT_AUDITS = 8
PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
PAGE_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "cache-control": "no-cache",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": shapes.Problem, "description": text}
    for status, text in {
        401: "A token is needed.",
        404: "The user or item is unknown.",
        422: "A parameter or the body is not as described.",
        503: "Too many requests, or no answer in time.",
    }.items()
}
BODY_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": shapes.Problem, "description": "The body cannot be read."},
    408: {"model": shapes.Problem, "description": "The body did not arrive in time."},
    413: {"model": shapes.Problem, "description": "The body is too large."},
}


def create_app(
    source: Source,
    *,
    unknown: Unknown = "popular",
    limits: Limits | None = None,
    tokens: Sequence[str] = (),
    hosts: frozenset[str] | None = None,
    look_every: float = 1.0,
) -> Guard:
    """The application as ASGI knows it, with a first model loaded.

    `unknown` says what a user without a vector gets: the common list, or 404. With `tokens`, every path but
    the page and the probes asks for one; `hosts` are the only names it answers to. `look_every` seconds, the
    source is asked for a new run.
    """
    counts = Counts()
    watch = Watch(source, counts)
    pool = ThreadPoolExecutor(core_count(), "counterpop-batch")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(watch.keep_watch(look_every))
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
        description="Recommendations with popularity taken out as far as each request asks for.",
    )

    async def beside(work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def unknown_user(model: ServedModel, user: object) -> Refusal:
        return Refusal(404, f"user {_short(user)} is not among the {model.seen.n_users:,} users of this run")

    def item_position(model: ServedModel, item: str | int) -> int:
        at = find(model.vectors.item_ids, item)
        if at is None:
            raise Refusal(404, f"item {_short(item)} is not among the {model.seen.n_items:,} items of this run")
        return at

    @app.get("/recommend", response_model=shapes.Recommendation, summary="The best k items of one user")
    async def recommend(asked: Annotated[shapes.ForUser, Query()]) -> Response:
        model = watch.model
        at = find(model.vectors.user_ids, asked.user)
        if at is None:
            if unknown == "404":
                raise unknown_user(model, asked.user)
            counts.fallbacks.inc()
            items, scores = model.recommend_to_anybody(asked.k)
            answer: dict[str, Any] = {
                "user": asked.user,
                "fallback": "popular",
                "item_strength": model.recommender.item_strength,  # what the list was made at
                "user_strength": model.recommender.user_strength,
            }
        else:
            users = np.array([at], dtype=np.int32)

            def work() -> tuple[IntArray, FloatArray]:
                return model.recommend(users, asked.k, asked.item_strength, asked.user_strength)

            lists = work() if model.vectors.item_vectors.size <= SMALL else await beside(work)
            items, scores = lists[0][0], lists[1][0]
            answer = {"user": model.vectors.user_ids[at], "fallback": None}
        counts.lists.inc()
        answer["items"] = _entries(model, items, scores)
        return _json(_at_strengths(model, asked) | answer)

    @app.post(
        "/recommend",
        response_model=shapes.Recommendations,
        responses=BODY_PROBLEMS,
        summary="Lists for many users, or for people known by items they touched",
    )
    async def recommend_many(asked: shapes.Batch) -> Response:
        model = watch.model
        if bool(asked.users) == bool(asked.histories):
            raise Refusal(422, "the body must hold either users or histories")
        many = len(asked.users) + len(asked.histories)
        if many * asked.k > shapes.MOST_ENTRIES:
            raise Refusal(422, f"lists times k must be at most {shapes.MOST_ENTRIES:,}, got {many} times {asked.k}")
        answer = await beside(lambda: many_lists(model, asked))
        counts.lists.inc(many)
        counts.fallbacks.inc(sum(entry["fallback"] is not None for entry in answer))
        return _json(_at_strengths(model, asked) | {"lists": answer})

    def many_lists(model: ServedModel, asked: shapes.Batch) -> list[dict[str, Any]]:
        dial = asked.k, asked.item_strength, asked.user_strength
        if asked.histories:
            histories = [
                np.array([item_position(model, i) for i in items], dtype=np.int32) for items in asked.histories
            ]
            lists = model.recommend_to(histories, *dial)
            return [
                {"user": None, "fallback": None, "items": _entries(model, *row)} for row in zip(*lists, strict=True)
            ]
        at = [find(model.vectors.user_ids, user) for user in asked.users]
        if unknown == "404" and None in at:
            raise unknown_user(model, asked.users[at.index(None)])
        known = np.array([n for n in at if n is not None], dtype=np.int32)
        rows = iter(zip(*model.recommend(known, *dial), strict=True))
        common = _entries(model, *model.recommend_to_anybody(asked.k)) if None in at else []
        return [
            {"user": user, "fallback": "popular", "items": common}
            if n is None
            else {"user": model.vectors.user_ids[n], "fallback": None, "items": _entries(model, *next(rows))}
            for user, n in zip(asked.users, at, strict=True)
        ]

    @app.get("/similar", response_model=shapes.Similar, summary="Items like one, popularity taken out")
    async def similar(asked: Annotated[shapes.ForItem, Query()]) -> Response:
        model = watch.model
        at = item_position(model, asked.item)
        items, cosines = await beside(lambda: model.similar(at, asked.k, asked.item_strength))
        strength = model.recommender.item_strength if asked.item_strength is None else asked.item_strength
        return _json(
            {"item": model.vectors.item_ids[at], "item_strength": strength, "items": _entries(model, items, cosines)}
        )

    @app.get("/explain", response_model=shapes.Explanation, summary="Plain and adjusted list, and why they differ")
    async def explain(asked: Annotated[shapes.ForUser, Query()]) -> Response:
        model, version = watch.model, watch.version
        at = find(model.vectors.user_ids, asked.user)
        if at is None:
            raise unknown_user(model, asked.user)
        head = _at_strengths(model, asked)
        plain, adjusted = await beside(
            lambda: model.recommender.explain(at, asked.k, head["item_strength"], head["user_strength"])
        )
        return _json(
            head
            | {
                "user": model.vectors.user_ids[at],
                "version": version,
                "plain": [_explained(model, row) for row in plain],
                "adjusted": [_explained(model, row) for row in adjusted],
            }
        )

    @app.get("/history", response_model=shapes.History, summary="What a user has touched, the most popular first")
    async def history(asked: Annotated[shapes.OfUser, Query()]) -> Response:
        model = watch.model
        at = find(model.vectors.user_ids, asked.user)
        if at is None:
            raise unknown_user(model, asked.user)
        items = model.seen.item_ix[model.seen.user_starts[at] : model.seen.user_starts[at + 1]]
        items = items[np.argsort(-model.train.item_counts[items], kind="stable")]
        return _json({"user": model.vectors.user_ids[at], "items": [_touched(model, item) for item in items.tolist()]})

    @app.get("/users", response_model=shapes.FoundUsers, summary="Users whose id begins so")
    async def users(asked: Annotated[shapes.Search, Query()]) -> Response:
        model = watch.model

        def work() -> list[dict[str, Any]]:
            ids = model.vectors.user_ids
            exact = find(ids, asked.search)
            begin = (n for n, i in enumerate(ids.tolist()) if n != exact and str(i).startswith(asked.search))
            found = [*([] if exact is None else [exact]), *islice(begin, FOUND_USERS)]
            return [{"user": ids[n], "interactions": int(model.seen.user_counts[n])} for n in found[:FOUND_USERS]]

        return _json({"users": await beside(work)})

    @app.get(
        "/measures",
        response_model=shapes.Measured,
        summary="Every metric at every stop of the sliders",
        responses={202: {"model": shapes.Problem, "description": "Still being measured; ask again."}},
    )
    async def measures(_: Annotated[shapes.Nothing, Query()]) -> Response:
        if watch.measures is not None:
            return _json(watch.measures)
        if watch.measuring_failed:
            raise Refusal(503, watch.measuring_failed)
        return _json({"detail": "the figures are being measured; ask again in a second"}, 202)

    audits: dict[tuple[object, ...], asyncio.Task[dict[str, Any]]] = {}
    one_at_a_time = asyncio.Lock()

    @app.get("/audit", response_model=shapes.Audited, summary="What everybody's lists expose at these strengths")
    async def audit(asked: Annotated[shapes.Auditing, Query()]) -> Response:
        model, dial = watch.model, _at_strengths(watch.model, asked)

        async def work() -> dict[str, Any]:
            async with one_at_a_time:
                strengths = dial["item_strength"], dial["user_strength"]
                adjustment = model.recommender.with_strengths(*strengths)
                found = await aside(lambda: audit_model(adjustment, model.train, asked.k, threads=1).as_dict())
                return {"run": model.name, **dial, **found}

        key = watch.version, *dial.values()
        if key not in audits or (audits[key].done() and audits[key].exception()):
            if len(audits) >= KEPT_AUDITS:
                done = next((key for key, task in audits.items() if task.done()), None)
                if done is None:
                    raise Refusal(503, f"{KEPT_AUDITS} audits are under way; try later")
                del audits[done]
            audits[key] = asyncio.create_task(work())
        # an audit that outlasts this request goes on, and the next one that asks for it finds it
        return _json(await asyncio.shield(audits[key]))

    @app.get("/healthz", response_model=shapes.Health, summary="Whether the server lives")
    async def healthz(_: Annotated[shapes.Nothing, Query()]) -> Response:
        return _json({"status": "ok"})

    @app.get("/readyz", response_model=shapes.Readiness, summary="Which run is served, and whether a newer failed")
    async def readyz(_: Annotated[shapes.Nothing, Query()]) -> Response:
        model = watch.model
        names = model.item_names
        return _json(
            {
                "run": model.name,
                "written": model.written,
                "version": watch.version,
                "users": model.seen.n_users,
                "items": model.seen.n_items,
                "names": None if names is None else sum(name is not None for name in names),
                "unknown": unknown,
                "failed_reload": watch.failure,
            }
        )

    @app.get("/metrics", response_class=Response, summary="Counts for Prometheus")
    async def metrics(_: Annotated[shapes.Nothing, Query()]) -> Response:
        return Response(generate_latest(counts.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    for path, (name, kind) in PAGE.items():
        content = files("counterpop.serving").joinpath(name).read_bytes()
        app.add_api_route(path, _page(content, kind), response_class=Response, include_in_schema=False)

    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unforeseen)
    paths = {route.path for route in app.routes}  # type: ignore[attr-defined]
    return Guard(app, counts, paths, limits=limits or Limits(), tokens=tokens, hosts=hosts)


def _page(content: bytes, kind: str) -> Callable[[], Any]:
    async def page() -> Response:
        return Response(content, media_type=kind, headers=PAGE_HEADERS)

    return page


def _json(value: Any, status: int = 200) -> Response:
    return Response(
        to_json(value, fallback=lambda odd: odd.item(), inf_nan_mode="null"), status, media_type="application/json"
    )


def _at_strengths(model: ServedModel, asked: shapes.Dialled | shapes.Auditing) -> dict[str, Any]:
    tuned, item, user = model.recommender, asked.item_strength, asked.user_strength
    return {
        "k": asked.k,
        "item_strength": tuned.item_strength if item is None else item,
        "user_strength": tuned.user_strength if user is None else user,
    }


def _entries(model: ServedModel, items: IntArray, scores: FloatArray) -> list[dict[str, Any]]:
    held = items >= 0
    if not held.all():
        items, scores = items[held], scores[held]
    ids = model.vectors.item_ids[items].tolist()
    rows = [{"item": i, "score": score} for i, score in zip(ids, scores.tolist(), strict=True)]
    if model.item_names is not None:
        for row, item in zip(rows, items.tolist(), strict=True):
            row["name"] = model.item_names[item]
    return rows


def _touched(model: ServedModel, item: int) -> dict[str, Any]:
    name = None if model.item_names is None else model.item_names[item]
    return {"item": model.vectors.item_ids[item], "name": name, "interactions": int(model.train.item_counts[item])}


def _explained(model: ServedModel, row: Explained) -> dict[str, Any]:
    return _touched(model, row.item) | {
        "plain_rank": row.plain_rank,
        "adjusted_rank": row.adjusted_rank,
        "plain_score": row.plain_score,
        "popular_part": row.popular,
        "conformity_part": row.conformity,
        "adjusted_score": row.adjusted_score,
    }


# ------------------------------------------------------------------------- refusals, each with one sentence


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return Response(problem(error.detail), error.status, media_type="application/json")


async def _input_error(_: Request, error: Exception) -> Response:
    return Response(problem(str(error)), 422, media_type="application/json")


async def _unforeseen(_: Request, error: Exception) -> Response:
    """The last resort; the guard writes the traceback into the log."""
    return Response(problem(UNFORESEEN), 500, media_type="application/json")


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    if first["type"] == "extra_forbidden":
        text = f"{_short(where)} is no parameter of {request.url.path}"
    elif first["type"] == "missing":
        text = f"{where} is missing"
    elif first["type"] == "json_invalid":
        text = f"the body must be JSON: {first['ctx']['error']}"
    elif first["loc"] == ("body",):
        text = "the body must be a JSON object, sent as application/json"
    else:
        _, _, must = first["msg"].partition(" should ")  # of "Input should be", "String should have", ...
        must = must.partition(" after validation")[0] or first["msg"]
        text = f"{where} must {must}, got {_short(first['input'])}"
    return Response(
        problem(f"{text} (and {len(others)} more problems)" if others else text), 422, media_type="application/json"
    )


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, headers = _short(request.url.path), dict(error.headers or {})
    if error.status_code == 405:  # several routes may share a path
        own = [route for route in request.app.routes if route.path == request.url.path]
        headers["Allow"] = ", ".join(sorted({method for route in own for method in route.methods}))
    text = {
        404: f"there is nothing at {path}; /openapi.json lists the paths",
        405: f"{request.method} is not offered at {path}; use {headers.get('Allow')}",
        400: "the body cannot be read as JSON",
    }.get(error.status_code, str(error.detail))
    return Response(problem(text), error.status_code, headers, media_type="application/json")
