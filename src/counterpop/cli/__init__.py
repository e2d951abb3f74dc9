"""The `counterpop` command: thin shells around the library. A command is imported only when it is used."""

from __future__ import annotations

import functools
import math
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import click

from counterpop.cli.parsing import LazyGroup
from counterpop.cli.wording import current_options, in_options
from counterpop.encoding import to_json
from counterpop.errors import CounterpopError, CounterpopWarning

COMMANDS = {
    "demo": "Run everything on a synthetic world, from log to report.",
    "split": "Split a log into train, validation and test.",
    "train": "Train a model on a split.",
    "tune": "Choose the strengths of a run on its validation part.",
    "correct": "Apply a common popularity correction to a run, for comparison.",
    "evaluate": "Measure a model on held-out data, plain and adjusted.",
    "compare": "Compare models, of one seed or many, with paired tests.",
    "recommend": "Write lists of recommendations.",
    "debias": "Debias vectors trained by any other model.",
    "audit": "Audit what a model, vectors or lists of recommendations expose.",
    "audit-history": "Show how audits changed over time, from a folder of them.",
    "report": "Compare models on one self-contained page.",
    "serve": "Serve recommendations over HTTP, with a dashboard.",
    "doctor": "Check this installation: versions, extras, disk, and a self-test.",
    "completion": "Print the script that completes commands in bash, zsh or fish.",
    "paper": "Reproduce the tables and figures of the paper, next to the published numbers.",
}


class _Commands(LazyGroup):
    known = COMMANDS


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="counterpop")
def main() -> None:
    """Find how much of a recommender is popularity rather than taste, and take it out.

    \b
    From a log to a debiased recommender:
      counterpop split log.parquet --protocol uniform --out SPLIT
      counterpop train SPLIT --method gradient --out RUN
      counterpop tune RUN
      counterpop evaluate RUN --on test
      counterpop report RUN --out report.html

    \b
    With a model that is trained already:
      counterpop debias --model als.npz --interactions log.parquet --names items.csv --out FIX
      counterpop serve FIX --names items.csv
    """


def shell(function: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    """Makes a command from a function that returns what `--json` prints.

    Adds --json and --debug. Our errors become one sentence and exit code 1, our warnings a note on stderr. A result
    with an `exit_code` ends with it. The JSON of a long command also has `peak_memory_bytes`.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
    @click.option("--debug", is_flag=True, help="Show the traceback if the command fails.")
    @functools.wraps(function)
    def command(*args: Any, as_json: bool, debug: bool, **kwargs: Any) -> None:
        _check_numbers(kwargs)
        start = time.perf_counter()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # cleans up, unlike the default
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", CounterpopWarning)
                warnings.showwarning = _show_note
                result = function(*args, quiet=as_json, **kwargs)
            text = _to_json(result, time.perf_counter() - start) if as_json else ""
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            sys.exit(130)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (CounterpopError, OSError, MemoryError) as error:
            if debug:
                raise
            click.echo(f"Error: {_sentence(error)}", err=True)
            sys.exit(1)
        except Exception as error:
            if debug:
                raise
            click.echo(
                f"Error: unexpected failure ({type(error).__name__}: {error}); run again with --debug to see where, "
                "and please report it",
                err=True,
            )
            sys.exit(1)
        if as_json:
            click.echo(text)
        if result.get("exit_code"):
            sys.exit(result["exit_code"])

    return command


def _to_json(result: Mapping[str, Any], seconds: float) -> str:
    from counterpop.cli.progress import LONG, peak_memory

    # the JSON of a short command is the same, bit by bit, whenever it is repeated
    return to_json({**result, "peak_memory_bytes": peak_memory()} if seconds > LONG else result)


def _check_numbers(options: Mapping[str, Any]) -> None:
    """Raises `click.UsageError` for NaN and infinity, which no option means; `click.FloatRange` lets NaN through."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            _check_numbers(value)
        elif isinstance(value, tuple):
            for one in value:
                _check_numbers({name: one})
        elif isinstance(value, float) and not math.isfinite(value):
            raise click.UsageError(f"--{name.replace('_', '-')} must be a finite number, got {value}")


def _show_note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Prints our own warnings as they occur, above any spinner; warnings of libraries are dropped."""
    from counterpop.cli.progress import console

    if issubclass(category, CounterpopWarning):
        console.print(f"Note: {in_options(str(message), current_options())}")


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "out of memory; lower --dim, or use a smaller log"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return in_options(str(error), current_options())
