"""The routes that recommend: for one user, for many, for people known only by a history; similar items."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Response

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray
from counterpop.serving import shapes
from counterpop.serving.model import ServedModel, find
from counterpop.serving.refusals import BODY_PROBLEMS, Refusal
from counterpop.serving.routes import Routes, dial_of, entries, item_position, json_response, unknown_user

NOBODY = np.array([-1], dtype=np.int32)  # in the window: somebody without a position
SMALL = 4_000_000  # multiplications that may delay other requests: about a millisecond


class Recommending(Routes):
    def add_to(self, app: FastAPI) -> None:
        app.get("/recommend", response_model=shapes.Recommendation)(self.recommend)
        many = app.post("/recommend", response_model=shapes.Recommendations, responses=BODY_PROBLEMS)
        many(self.recommend_many)
        app.get("/similar", response_model=shapes.Similar)(self.similar)

    async def recommend(self, asked: Annotated[shapes.ForUser, Query()]) -> Response:
        """The top k items for one user."""
        model, dial = self.watch.model, dial_of(self.watch.model, asked)
        at = find(model.vectors.user_ids, asked.user)
        if at is None:
            if self.unknown == "404":
                raise unknown_user(model, asked.user)
            self.counts.fallbacks.inc()
            user, fallback, tuned = asked.user, "popular", model.recommender
            # the strengths at which the common list was computed
            dial |= {"item_strength": tuned.item_strength, "user_strength": tuned.user_strength}
            items, scores = model.recommend_to_anybody(asked.k)
        else:
            users = np.array([at], dtype=np.int32)

            def work() -> tuple[IntArray, FloatArray]:
                return model.recommend(users, asked.k, asked.item_strength, asked.user_strength)

            lists = work() if model.vectors.item_vectors.size <= SMALL else await self.in_pool(work)
            items, scores = lists[0][0], lists[1][0]
            user, fallback = model.vectors.user_ids[at], None
        self.counts.lists.inc()
        self.watch.keep(model, NOBODY if at is None else users, items[None])
        return json_response(dial | {"user": user, "fallback": fallback, "items": entries(model, items, scores)})

    async def recommend_many(self, asked: shapes.Batch) -> Response:
        """Lists for many users, or for people known only by a history."""
        model = self.watch.model
        if bool(asked.users) == bool(asked.histories):
            raise Refusal(422, "the body must contain either users or histories")
        many = len(asked.users) + len(asked.histories)
        if many * asked.k > shapes.MOST_ENTRIES:
            raise Refusal(422, f"lists times k must be at most {shapes.MOST_ENTRIES:,}, got {many} times {asked.k}")
        work = self._for_histories if asked.histories else self._for_users

        def answer() -> Response:
            lists = work(model, asked)
            self.counts.lists.inc(many)
            self.counts.fallbacks.inc(sum(one["fallback"] is not None for one in lists))
            return json_response(dial_of(model, asked) | {"lists": lists})

        return await self.in_pool(answer)  # the JSON as well: of many lists it takes long

    def _for_users(self, model: ServedModel, asked: shapes.Batch) -> list[dict[str, Any]]:
        at = [find(model.vectors.user_ids, user) for user in asked.users]
        if self.unknown == "404" and None in at:
            raise unknown_user(model, asked.users[at.index(None)])
        known = np.array([n for n in at if n is not None], dtype=np.int32)
        found = model.recommend(known, asked.k, asked.item_strength, asked.user_strength)
        rows = iter(zip(*found, strict=True))
        anybody = model.recommend_to_anybody(asked.k)
        strangers = at.count(None)
        self.watch.keep(model, known, found[0])
        self.watch.keep(model, NOBODY.repeat(strangers), np.tile(anybody[0], (strangers, 1)))
        common = entries(model, *anybody) if strangers else []
        return [
            {"user": user, "fallback": "popular", "items": common}
            if n is None
            else {"user": model.vectors.user_ids[n], "fallback": None, "items": entries(model, *next(rows))}
            for user, n in zip(asked.users, at, strict=True)
        ]

    def _for_histories(self, model: ServedModel, asked: shapes.Batch) -> list[dict[str, Any]]:
        histories = [np.array([item_position(model, i) for i in ids], dtype=np.int32) for ids in asked.histories]
        lists = model.recommend_to(histories, asked.k, asked.item_strength, asked.user_strength)
        self.watch.keep(model, NOBODY.repeat(len(histories)), lists[0])
        return [{"user": None, "fallback": None, "items": entries(model, *row)} for row in zip(*lists, strict=True)]

    async def similar(self, asked: Annotated[shapes.ForItem, Query()]) -> Response:
        """The k items most similar to one, with popularity removed."""
        model = self.watch.model
        at = item_position(model, asked.item)
        items, cosines = await self.in_pool(lambda: model.similar(at, asked.k, asked.item_strength))
        strength = model.recommender.item_strength if asked.item_strength is None else asked.item_strength
        found = entries(model, items, cosines)
        return json_response({"item": model.vectors.item_ids[at], "item_strength": strength, "items": found})
