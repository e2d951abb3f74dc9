"""The routes for monitoring: whether the server runs, which run it serves, and counts for Prometheus."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response
from prometheus_client import generate_latest

from counterpop.serving import shapes
from counterpop.serving.routes import Routes, json_response


class Probes(Routes):
    def add_to(self, app: FastAPI) -> None:
        app.get("/healthz", response_model=shapes.Health)(self.healthz)
        app.get("/readyz", response_model=shapes.Readiness)(self.readyz)
        app.get("/metrics", response_class=Response)(self.metrics)

    async def healthz(self, _: Annotated[shapes.Parameters, Query()]) -> Response:
        """Whether the server is running."""
        return json_response({"status": "ok"})

    async def readyz(self, _: Annotated[shapes.Parameters, Query()]) -> Response:
        """Which run is served, and why a newer one could not be loaded."""
        model = self.watch.model
        names = None if model.item_names is None else sum(name is not None for name in model.item_names)
        served = {"run": model.name, "written": model.written, "version": self.watch.version}
        sizes = {"users": model.seen.n_users, "items": model.seen.n_items, "names": names}
        return json_response(served | sizes | {"unknown": self.unknown, "failed_reload": self.watch.failure})

    async def metrics(self, _: Annotated[shapes.Parameters, Query()]) -> Response:
        """Counts and times for Prometheus, and what the lists in the window expose."""
        await self.in_pool(self.watch.show_exposure)
        return Response(generate_latest(self.counts), media_type="text/plain; version=0.0.4; charset=utf-8")
