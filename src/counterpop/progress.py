"""Progress of long work: a bar in a terminal, a line in a notebook, nothing anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

REDRAW = 0.2  # seconds between two drawings of a notebook's line


@dataclass(frozen=True)
class Progress:
    """Where training stands, after each epoch."""

    stage: str
    """"train"; "refit" for the second training on train + validation; "race 1 of 3" while settings are compared.
    Of an ensemble with the member: "train 2 of 5"."""
    epoch: int
    epochs: int
    loss: float
    best: float | None
    """The best validation metric so far."""
    seconds: float
    """Of this epoch."""


Report = Callable[[Progress], None]
Watcher = Callable[[int, int], None]
"""Takes how many more users will be ranked, and how many more have been."""

_watchers: list[Watcher] = []


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Calls a function from all threads of this process that rank users, as they begin and after each block."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def tell_watchers(expected: int, done: int) -> None:
    for watcher in tuple(_watchers):
        watcher(expected, done)


def is_notebook() -> bool:
    """Whether this runs in a notebook, where `display` can draw."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


@contextmanager
def following(on_progress: Report | None = None, progress: bool = True) -> Iterator[Report]:
    """What to call after each epoch: the caller's own function, or one that draws where somebody can see it."""
    if on_progress is not None:
        yield on_progress
    elif progress and is_notebook():
        yield NotebookLine().show
    elif progress and sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console

        with training_bar(Console(stderr=True, soft_wrap=True, markup=False, highlight=False)) as show:
            yield show
    else:
        yield lambda progress: None


@contextmanager
def telling(progress: bool = True) -> Iterator[Callable[[str], None]]:
    """A function that shows the name of the present stage, where somebody can see it."""
    if progress and is_notebook():
        line = NotebookLine()
        yield line.tell
        line.tell("")
    elif progress and sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            yield status.update
    else:
        yield lambda stage: None


@contextmanager
def training_bar(console: Console) -> Iterator[Report]:
    """A progress bar with epoch, loss, best validation recall and time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[best]}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console) as bars:
        tasks = {}

        def show(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=progress.epochs, loss=0.0, best="")
            bars.update(tasks[progress.stage], completed=progress.epoch, loss=progress.loss, best=_best(progress))

        yield show


class NotebookLine:
    """One line of output that is drawn again in place; needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._next, self._stage = 0.0, ""

    def show(self, progress: Progress) -> None:
        """Draws a bar, at most a few times a second; the end of a stage is always drawn."""
        ends = progress.epoch >= progress.epochs or progress.stage != self._stage
        if not ends and time.perf_counter() < self._next:
            return
        self._next, self._stage = time.perf_counter() + REDRAW, progress.stage
        text = f"{progress.stage}: epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.4f}"
        text = ", ".join(filter(None, (text, _best(progress))))
        self._draw(text, f'<progress value="{progress.epoch}" max="{progress.epochs}"></progress> {text}')

    def tell(self, stage: str) -> None:
        """Shows the name of a stage; an empty one clears the line."""
        self._draw(stage, stage)

    def _draw(self, text: str, html: str) -> None:
        from IPython.display import display

        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _best(progress: Progress) -> str:
    return "" if progress.best is None else f"validation recall {progress.best:.4f}"
