"""Progress bars and notes on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console

from counterpop.progress import Report, training_bar

console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)  # progress and notes
output = Console(soft_wrap=True, markup=False, highlight=False)  # results


def training_progress() -> AbstractContextManager[Report]:
    """A progress bar on stderr with epoch, loss, best validation recall and time left."""
    return training_bar(console)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner for long steps; call the function it yields to change its text."""
    with console.status(what) as status:
        yield status.update
