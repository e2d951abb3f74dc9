"""counterpop serve"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from counterpop.cli import shell
from counterpop.cli.options import check_needed, seed_option
from counterpop.cli.progress import console, working
from counterpop.errors import InputError
from counterpop.readers import IDS


@click.command(epilog="Example: counterpop serve RUN --port 8000 --names films.csv")
@click.argument("run", type=click.Path())
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 takes a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--token-file", type=click.Path(), help="Tokens, one per line; requests must send one of them.")
@click.option("--no-token", is_flag=True, help="Let in everybody who can reach an address beyond loopback.")
@click.option("--ssl-certfile", type=click.Path(exists=True), help="Certificate, to serve over TLS.")
@click.option("--ssl-keyfile", type=click.Path(exists=True), help="Its key.")
@click.option("--names", type=click.Path(), help="Table of items: ids, titles and, if it has some, categories.")
@click.option("--names-item", "--item", help="Column of item ids in that table. [default: item, item_id or id]")
@click.option("--name", default="name", help="Column of titles in that table. [default: name or title]")
@click.option("--category", multiple=True, help="Column of categories in that table, for the gauges; repeatable.")
@click.option(
    "--window",
    type=click.IntRange(0, 1_000_000),
    default=10_000,
    show_default=True,
    help="How many of the last lists to keep for exposure gauges and /audit?of=window; 0 for none.",
)
@click.option(
    "--unknown",
    type=click.Choice(["popular", "404"]),
    default="popular",
    show_default=True,
    help="What unknown users get: the items that most adjusted lists hold, or status 404.",
)
@click.option(
    "--look-every",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between checks for a new run in the folder.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that answer requests; they share the vectors.",
)
@seed_option()
@shell
def command(
    run: str, token_file: str | None, names: str | None, category: tuple[str, ...], quiet: bool, **options: Any
) -> dict[str, Any]:
    """Serve what train or debias wrote: recommendations over HTTP, and a dashboard at /.

    Each request may set the strengths: GET /recommend?user=17&k=20&item_strength=0.6&user_strength=0.2. The
    default is the tuned strengths. What is trained, tuned or debiased again in the same folder is loaded without
    interruption. docs/serving.md and /openapi.json describe every path. Ctrl-C stops the server.
    """
    try:
        from counterpop.serving.server import TokenFile, serve
        from counterpop.serving.watching import source_of
    except ImportError as error:
        raise InputError(
            f"the server needs {error.name}, which is not installed; pip install 'counterpop[serve]'"
        ) from None
    check_needed(names_item="names", name="names", category="names", ssl_keyfile="ssl_certfile")
    options.pop("seed")
    tokens = TokenFile(token_file) if token_file else ()
    tls = {name: options.pop(name) for name in ("ssl_certfile", "ssl_keyfile")}
    columns = {"item": options.pop("names_item") or IDS, "name": options.pop("name")}
    with ExitStack() as spinner:
        spinner.enter_context(working(f"loading {run}"))

        def announce(url: str) -> None:
            spinner.close()
            console.print(f"Serving {run} at {url} (Ctrl-C stops).")

        source = source_of(run, names, **columns, categories=category, mapped=options["workers"] > 1)
        return {"run": run, **serve(source, tokens=tokens, tls=tls, announce=announce, **options)}
