"""A small tuned run, and a server for it in this process, for the tests of the server and its page."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import polars as pl
import uvicorn

import counterpop as cp
from counterpop.serving.app import create_app
from counterpop.serving.connections import Connection
from counterpop.serving.guard import Guard
from counterpop.serving.model import ServedModel
from counterpop.serving.server import listen
from counterpop.serving.watching import source_of

USERS, ITEMS = 300, 150


def make_run(folder: Path, seed: int = 0, refit: bool = False) -> Path:
    """A tuned run at folder/run with ids u0, u1, ... and i0, i1, ..., and a table that names half of the items."""
    log = cp.make_world(USERS, ITEMS, seed=5).log
    table = {"user": [f"u{n}" for n in log.user_ids[log.user_ix]], "item": [f"i{n}" for n in log.item_ids[log.item_ix]]}
    split = cp.split_uniform(cp.read_interactions(pl.DataFrame(table)), test=2, valid=2, seed=0)
    run = cp.train(split, method="gradient", dim=8, epochs=20, seed=seed, refit=refit)
    tuned = cp.tune(run, split, point="gain")
    folder.mkdir(parents=True, exist_ok=True)
    cp.save_run(run, folder / "run", split)
    cp.save_tuning(folder / "run", tuned, tuned.grid, {"target": "recall", "k": 20} | tuned.to_json())
    named = sorted(set(table["item"]))[::2]
    pl.DataFrame({"item": named, "title": [f"The {i} <b>&" for i in named]}).write_csv(folder / "names.csv")
    return folder / "run"


class Server:
    """A running server: `ask` sends a request and returns status, body and headers."""

    def __init__(self, app: Guard, port: int, host: str = "127.0.0.1") -> None:
        self.app, self.port, self.host, self.url = app, port, host, f"http://{host}:{port}"

    def ask(
        self, path: str, body: Any = None, *, method: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, Mapping[str, str]]:
        """A body other than bytes is sent as JSON."""
        connection = HTTPConnection(self.host, self.port, timeout=30)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method or ("GET" if body is None else "POST"), path, data, sent)
            answer = connection.getresponse()
            text = answer.read()
            kind = answer.getheader("content-type") or ""
            parsed = json.loads(text) if text and "json" in kind else text
            return answer.status, parsed, dict(answer.getheaders())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, body, _ = self.ask(path)
        assert status == 200, body
        return body

    def measures(self) -> Any:
        """The slider metrics, once they have been measured."""
        for _ in range(200):
            status, body, _ = self.ask("/measures")
            if status == 200:
                return body
            assert status == 202, body
            time.sleep(0.05)
        raise AssertionError("the slider metrics were not measured in time")


@contextmanager
def serving(run: Path, names: Path | None = None, **options: Any) -> Iterator[tuple[Server, ServedModel]]:
    """A server for the run while the block lasts, and the model it starts with."""
    source = source_of(run, str(names) if names else None)
    app = create_app(source, look_every=0.1, **options)
    bound = listen("127.0.0.1", 0)
    bound.listen()
    server = uvicorn.Server(uvicorn.Config(app, http=Connection, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield Server(app, bound.getsockname()[1]), source.load()
    finally:
        server.should_exit = True
        thread.join(20)
        bound.close()
