"""Progress bars and notes on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from counterpop.training import Progress as TrainingProgress

console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)  # progress and notes
output = Console(soft_wrap=True, markup=False, highlight=False)  # results


@contextmanager
def training_progress() -> Iterator[Callable[[TrainingProgress], None]]:
    """A progress bar with epoch, loss, best validation recall and time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[best]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks = {}

        def show(progress: TrainingProgress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=progress.epochs, loss=0.0, best="")
            best = "" if progress.best is None else f"validation recall {progress.best:.4f}"
            bars.update(tasks[progress.stage], completed=progress.epoch, loss=progress.loss, best=best)

        yield show


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner for long steps; call the function it yields to change its text."""
    with console.status(what) as status:
        yield status.update
