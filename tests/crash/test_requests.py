"""Requests that nobody would send: the server refuses them with a sentence, never with a 5xx and never a traceback."""

from __future__ import annotations

import json
import logging
import random
import select
import socket
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from test_mutations import mutate
from victims import record, times

pytest.importorskip("uvicorn")
from serving_run import Server, make_run, serving

DIALLED = ("k", "item_strength", "user_strength")
PATHS: dict[str, tuple[str, ...]] = {
    "/recommend": ("user", *DIALLED),
    "/similar": ("item", "k", "item_strength"),
    "/explain": ("user", *DIALLED),
    "/history": ("user",),
    "/users": ("search",),
    "/audit": ("of", *DIALLED),
} | dict.fromkeys(("/measures", "/healthz", "/readyz", "/metrics", "/nowhere"), ("x",))
ODD = ("Content-Type: text/plain", "Transfer-Encoding: chunked", "Expect: 100-continue", "Upgrade: websocket",
       "Content-Length: -1", f"X-Long: {'x' * 5000}")  # fmt: skip
NAMES = ("user", "item", "k", "item_strength", "user_strength", "search", "of", "users", "histories", "x")
VALUES: tuple[Any, ...] = (
    "u1", "i1", 0, 1, -1, 20, 1000, 10**30, 0.5, 1e308, "nan", "inf", "", " ", "\0", "%", "\u202e", "x" * 300, None,
    True, [], {}, ["u1"], [["i1", "i2"]], [[]], [None], {"a": 1}, "window", "'", "<script>",
)  # fmt: skip
PATIENCE = 0.5  # seconds for an answer, before we say that the request is at its end
METHODS = (*["GET"] * 12, "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "X")


def any_request(chance: random.Random) -> bytes:
    """A request of random parts, most of them known to its path; one in five has odd headers or damaged bytes."""
    path = chance.choice(list(PATHS))
    names = [name if chance.random() < 0.9 else chance.choice(NAMES) for name in PATHS[path] if chance.random() < 0.7]
    good = {"user": "u1", "item": "i1", "k": 5, "item_strength": 0.5, "user_strength": 0, "search": "u", "of": "all"}
    given = [(name, good.get(name, "x") if chance.random() < 0.5 else chance.choice(VALUES)) for name in names]
    method, body = chance.choice(METHODS), b""
    if path == "/recommend" and chance.random() < 0.4:
        asked = {"users": ["u1", "u2"]} if chance.random() < 0.5 else {"histories": [["i1", "i2"]]}
        method, body = "POST", json.dumps(asked | dict(given[1:])).encode()
        body = chance.randbytes(chance.choice((1, 10, 1000))) if chance.random() < 0.1 else body
    elif given:
        path += "?" + "&".join(f"{name}={quote(str(value))}" for name, value in given)
    headers = ["Host: localhost", "Connection: close", "Content-Type: application/json"]
    headers += [f"Content-Length: {len(body)}"] if body else []
    headers += [chance.choice(ODD)] if chance.random() < 0.2 else []
    data = (f"{method} {path} HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\n\r\n").encode() + body
    return mutate(data, chance) if chance.random() < 0.2 else data


def answer(server: Server, data: bytes) -> int:
    """The status of the answer; 0 if the connection was closed without one."""
    with socket.create_connection((server.host, server.port), timeout=20) as connection:
        try:
            connection.sendall(data)
            if not select.select([connection], [], [], PATIENCE)[0]:
                connection.shutdown(socket.SHUT_WR)  # the server waits for more, which does not come
            got = connection.recv(1 << 16)
            while got and connection.recv(1 << 16):
                pass
        except ConnectionError:
            return 0
    return int(got[9:12]) if got.startswith(b"HTTP/1.1 ") else 0


def test_no_request_gives_a_5xx_or_a_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance, statuses = random.Random(6), Counter[int]()
    run = make_run(tmp_path)
    with caplog.at_level(logging.WARNING), serving(run) as (server, _):
        server.measures()
        for _ in range(times(300, 10_000)):
            data = any_request(chance)
            status = answer(server, data)
            assert status < 500, data
            statuses[status] += 1
        assert server.get("/healthz") == {"status": "ok"}
        assert server.get("/recommend?user=u1&k=5")["items"]
    assert not [entry for entry in caplog.records if entry.exc_info], "a traceback was logged"
    assert statuses[200] and statuses[422] and statuses[404]
    shown = ", ".join(f"{number:,} with {status or 'none'}" for status, number in sorted(statuses.items()))
    record("generated and mutated requests", f"{statuses.total():,}", f"no 5xx, no traceback; statuses: {shown}")
