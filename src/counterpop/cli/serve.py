"""counterpop serve"""

from __future__ import annotations

import ipaddress
import logging
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from threadpoolctl import threadpool_limits

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.progress import console, working
from counterpop.errors import InputError
from counterpop.readers import read_names

if TYPE_CHECKING:
    from counterpop.serving.model import ServedModel
    from counterpop.serving.watching import Source

LEAST_TOKEN = 16  # characters


def load_served(run: str | Path, names: str | None = None, item: str = "item", name: str = "name") -> ServedModel:
    """A run folder as it is served, with what its first answers need already worked out."""
    from counterpop.serving.model import ServedModel, Trial

    saved, known = artifacts.load_run(run), artifacts.load_development(run)
    model = ServedModel(
        Path(run).resolve().name,
        saved.manifest["written"],
        artifacts.recommender_of(saved, known),
        artifacts.trained_on(saved, known),
        Trial(artifacts.recommender_of(saved, known, "valid"), known.valid),
        read_names(names, saved.run.embeddings.item_ids, item=item, name=name) if names else None,
    )
    _ = model.popular
    return model


def source_of(run: str | Path, names: str | None = None, item: str = "item", name: str = "name") -> Source:
    """The run folder as the server watches it: its manifest is written anew, or exchanged, with every run."""
    from counterpop.serving.watching import Source

    def stamp() -> object:
        try:
            found = (Path(run) / artifacts.MANIFEST).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    return Source(lambda: load_served(run, names, item, name), stamp)


def read_tokens(path: str) -> list[str]:
    """The tokens in a file, one a line."""
    try:
        tokens = [line.strip() for line in Path(path).read_text(encoding="ascii").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{path} must hold tokens in plain ASCII, one a line; make others") from None
    if not tokens or min(map(len, tokens)) < LEAST_TOKEN:
        raise InputError(
            f"{path} must hold tokens of at least {LEAST_TOKEN} characters, one a line; "
            "`openssl rand -hex 24` makes one"
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
            stack.pop_all()  # bound: the caller closes it
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise InputError(f"cannot listen on {host} port {port}: {reason}; pass another --port or --host") from None
    return bound


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


@click.command(epilog="Example: counterpop serve RUN --port 8000 --names films.csv")
@click.argument("run", type=click.Path())
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--token-file", type=click.Path(), help="Tokens, one a line: requests must bear one.")
@click.option("--no-token", is_flag=True, help="Let everybody in who reaches an address beyond loopback.")
@click.option("--names", type=click.Path(), help="A table with what items are called.")
@click.option("--item", default="item", show_default=True, help="Its column of item ids.")
@click.option("--name", default="name", show_default=True, help="Its column of names.")
@click.option(
    "--unknown",
    type=click.Choice(["popular", "404"]),
    default="popular",
    show_default=True,
    help="What unknown users get: what users' adjusted lists hold most often, or 404.",
)
@click.option(
    "--look-every",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between looks for a new run in the folder.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Takes no part: answers are exact.")
@shell
def command(
    run: str,
    port: int,
    host: str,
    token_file: str | None,
    no_token: bool,
    names: str | None,
    item: str,
    name: str,
    unknown: Any,
    look_every: float,
    seed: int,
    quiet: bool,
) -> dict[str, Any]:
    """Serve a run: recommendations over HTTP, and a dashboard at /.

    The dial is part of every request: GET /recommend?user=17&k=20&item_strength=0.6&user_strength=0.2, by
    default at the tuned strengths. A run that is trained or tuned anew in the same folder is taken up without
    a pause. docs/serving.md describes every path; /openapi.json does so for programs. Ctrl-C stops.
    """
    try:
        import uvicorn

        from counterpop.serving.app import create_app
        from counterpop.serving.guard import LOOPBACK
    except ImportError as error:
        raise InputError(
            f"the server needs {error.name}, which is not installed; pip install 'counterpop[serve]'"
        ) from None
    tokens = read_tokens(token_file) if token_file else []
    with listen(host, port) as bound:
        address, actual = bound.getsockname()[:2]
        exposed = not is_loopback(address)
        if exposed and not tokens and not no_token:
            raise InputError(
                f"{host} can be reached from outside, so requests must bear a token; pass --token-file, or "
                "--no-token where something else keeps strangers out"
            )
        threadpool_limits(1, user_api="blas")  # requests run side by side; BLAS would spin beside them
        with working(f"loading {run}"):
            app = create_app(
                source_of(run, names, item, name),
                unknown=unknown,
                tokens=tokens,
                look_every=look_every,
                hosts=None if exposed or tokens else LOOPBACK | {address},
            )
        logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
        bound.listen()  # from here on whoever connects is answered, if only once the loop runs
        url = f"http://{f'[{address}]' if ':' in address else address}:{actual}/"
        console.print(f"Serving {run} at {url} (Ctrl-C stops).")
        start = time.perf_counter()
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=10)
        )
        with suppress(KeyboardInterrupt):  # uvicorn raises it again once everything is closed
            server.run(sockets=[bound])
    return {
        "run": run,
        "url": url,
        "seconds": time.perf_counter() - start,
        "requests": server.server_state.total_requests,
    }
