"""What all routes share: the served model, counts and threads, and the parts their answers are built from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fastapi import Response
from pydantic_core import to_json

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray
from counterpop.serving.guard import Counts
from counterpop.serving.model import ServedModel, find
from counterpop.serving.refusals import Refusal, shorten
from counterpop.serving.shapes import Dialled
from counterpop.serving.watching import Watch

T = TypeVar("T")
Unknown = Literal["popular", "404"]


@dataclass(frozen=True, eq=False)
class Routes:
    """The base of every group of routes. A request reads `watch.model` once and keeps it until it is answered."""

    watch: Watch
    counts: Counts
    pool: ThreadPoolExecutor
    unknown: Unknown

    async def in_pool(self, work: Callable[[], T]) -> T:
        """The result of the work, done in the pool so that other requests are answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)


def unknown_user(model: ServedModel, user: str | int) -> Refusal:
    return Refusal(404, f"user {shorten(user)} is not among the {model.seen.n_users:,} users of this run")


def user_position(model: ServedModel, user: str | int) -> int:
    """The user's position; refuses with 404 if the user is unknown."""
    at = find(model.vectors.user_ids, user)
    if at is None:
        raise unknown_user(model, user)
    return at


def item_position(model: ServedModel, item: str | int) -> int:
    """The item's position; refuses with 404 if the item is unknown."""
    at = find(model.vectors.item_ids, item)
    if at is None:
        raise Refusal(404, f"item {shorten(item)} is not among the {model.seen.n_items:,} items of this run")
    return at


def json_response(value: Any, status: int = 200) -> Response:
    """The value as JSON: NumPy numbers as plain ones, NaN and infinity as null."""
    body = to_json(value, fallback=lambda number: number.item(), inf_nan_mode="null")
    return Response(body, status, media_type="application/json")


def dial_of(model: ServedModel, asked: Dialled) -> dict[str, Any]:
    """k and the strengths of a request; the tuned strengths where it gives none."""
    tuned, item, user = model.recommender, asked.item_strength, asked.user_strength
    return {
        "k": asked.k,
        "item_strength": tuned.item_strength if item is None else item,
        "user_strength": tuned.user_strength if user is None else user,
    }


def entries(model: ServedModel, items: IntArray, scores: FloatArray) -> list[dict[str, Any]]:
    """The entries of one list; empty places are left out."""
    held = items >= 0
    if not held.all():
        items, scores = items[held], scores[held]
    ids = model.vectors.item_ids[items].tolist()
    rows = [{"item": i, "score": score} for i, score in zip(ids, scores.tolist(), strict=True)]
    if model.item_names is not None:
        for row, item in zip(rows, items.tolist(), strict=True):
            row["name"] = model.item_names[item]
    return rows
