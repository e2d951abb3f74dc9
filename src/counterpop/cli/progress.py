"""Progress bars and notes on stderr."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from counterpop.progress import Report, training_bar, watching

console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)  # progress and notes
output = Console(soft_wrap=True, markup=False, highlight=False)  # results
LONG = 10.0  # seconds: a phase that takes longer is summed up


@contextmanager
def training_progress(quiet: bool = False) -> Iterator[Report | None]:
    """A progress bar on stderr with epoch, loss, best validation recall and time left; None if quiet."""
    with _phase("training"), nullcontext(None) if quiet else training_bar(console) as show:
        yield show


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar with the time left; call the function it yields with how many are done."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with _phase(what), Progress(*columns, console=console) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=done)


@contextmanager
def fraction(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar with the time left; call the function it yields with the share that is done."""
    with _phase(what), _passing() as bars:
        task = bars.add_task(what, total=None)
        yield lambda share: bars.update(task, completed=share, total=1.0)


@contextmanager
def _phase(what: str) -> Iterator[None]:
    """Says how long a phase took, if it was long, and the most memory that the process has had so far."""
    start = time.perf_counter()
    yield
    if (seconds := time.perf_counter() - start) > LONG:
        console.print(f"{what}: {seconds:.1f} s, peak memory {peak_memory() / 1e9:.1f} GB")


def peak_memory() -> int:
    """The most memory, in bytes, that this process has held so far, mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner for long steps, and a bar with the time left while they rank users; takes another text."""
    with _phase(what), _passing(SpinnerColumn()) as bars:
        task = bars.add_task(what, total=None)

        def watch(expected: int, done: int) -> None:
            shown = bars.tasks[0]
            if expected and (shown.total is None or shown.finished):
                bars.reset(task, total=expected)  # one pass over users after another
            elif expected:
                bars.update(task, total=(shown.total or 0) + expected)
            bars.advance(task, done)

        with watching(watch):
            yield lambda text: bars.update(task, description=text)


def _passing(*first: ProgressColumn) -> Progress:
    """Bars that go when the work is done, and do not come where nobody looks."""
    columns = *first, TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
