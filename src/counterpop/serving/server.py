"""The server itself: a socket, tokens, and uvicorn."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from counterpop.errors import InputError
from counterpop.serving.app import create_app
from counterpop.serving.connections import Connection
from counterpop.serving.guard import LOOPBACK
from counterpop.serving.watching import Source
from counterpop.serving.workers import Tell, Workers

log = logging.getLogger("counterpop.serving")
SHORTEST_TOKEN = 16  # characters


def serve(
    source: Source,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    tokens: Sequence[str] | Callable[[], Sequence[str]] = (),
    no_token: bool = False,
    tls: Mapping[str, Any] = MappingProxyType({}),
    announce: Callable[[str], None] = lambda url: None,
    workers: int = 1,
    **options: Any,
) -> dict[str, Any]:
    """Serves until it is interrupted; returns the URL, the seconds it ran and the number of requests.

    Port 0 takes a free port. An address that other machines can reach needs `tokens`, or `no_token=True`.
    A function as `tokens` is asked for every request. `tls` are `ssl_certfile` and `ssl_keyfile` of uvicorn.
    `announce` is called with the URL once it accepts connections. `options` are those of `create_app`. Several
    `workers` are processes of their own, which need a `source` that can be sent to them, as `source_of` makes it.
    """
    with listen(host, port) as bound:
        address, actual = bound.getsockname()[:2]
        exposed = not ipaddress.ip_address(address.partition("%")[0]).is_loopback
        if exposed and not tokens and not no_token:
            raise InputError(
                f"{host} can be reached from other machines, so requests must send a token; pass --token-file, or "
                "--no-token if something else keeps strangers out"
            )
        hosts = None if exposed or tokens else LOOPBACK | {address}
        work = partial(_serve_socket, source, dict(tls), options | {"tokens": tokens, "hosts": hosts})
        url = f"http{'s' * any(tls.values())}://{f'[{address}]' if ':' in address else address}:{actual}/"
        said: dict[str, Any] = {"url": url, "start": time.perf_counter(), "requests": 0}

        def tell(news: dict[str, Any]) -> None:
            said.update(news)
            if news.get("ready"):
                said["start"] = time.perf_counter()
                announce(url)

        with suppress(KeyboardInterrupt):  # uvicorn raises it again after shutting down
            if workers > 1:
                said["requests"] = Workers(work, bound, partial(tell, {"ready": True})).run(workers)
            else:
                work(bound, 0, tell)
    return {"url": url, "seconds": time.perf_counter() - said["start"], "requests": said["requests"]}


def _serve_socket(
    source: Source, tls: Mapping[str, Any], options: Mapping[str, Any], bound: socket.socket, number: int, tell: Tell
) -> None:
    """Serves until it is interrupted. The number of a worker is a label of its metrics; 0 is no worker."""
    threadpool_limits(1, user_api="blas")  # requests run in parallel, so BLAS threads would only compete
    sys.setswitchinterval(0.001)  # seconds until the pool's threads let the loop go on
    app = create_app(source, worker=number, **options)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    bound.listen()  # connections made from here on wait until the loop runs
    tell({"ready": True})
    quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
    server = uvicorn.Server(uvicorn.Config(app, http=Connection, timeout_graceful_shutdown=10, **quiet, **tls))
    try:
        server.run(sockets=[bound])
    finally:
        tell({"requests": server.server_state.total_requests})


class TokenFile:
    """The tokens in a file, which is read again when it changes; a bad one is reported and changes nothing."""

    def __init__(self, path: str | Path) -> None:
        self._path, self._looked = Path(path), time.monotonic()
        self._stamp, self._tokens = self._path.stat().st_mtime_ns, read_tokens(path)

    def __call__(self) -> list[str]:
        if time.monotonic() - self._looked >= 1:
            self._looked = time.monotonic()
            try:
                stamp = self._path.stat().st_mtime_ns
                if stamp != self._stamp:
                    self._stamp, self._tokens = stamp, read_tokens(self._path)
                    log.warning("read the tokens in %s again", self._path)
            except (OSError, InputError) as error:
                log.error("the old tokens are still valid: %s", error)
        return self._tokens


def read_tokens(path: str | Path) -> list[str]:
    """The tokens in a file, one per line."""
    try:
        tokens = [line.strip() for line in Path(path).read_text(encoding="ascii").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{path} must hold tokens in plain ASCII, one per line; create new ones") from None
    if not tokens or min(map(len, tokens)) < SHORTEST_TOKEN:
        raise InputError(
            f"{path} must hold tokens of at least {SHORTEST_TOKEN} characters, one per line; "
            "`openssl rand -hex 24` creates one"
        )
    return tokens


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            bound = stack.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            stack.pop_all()  # bound: from here on the caller closes it
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise InputError(f"cannot listen on {host} port {port}: {reason}; pass another --port or --host") from None
    return bound
