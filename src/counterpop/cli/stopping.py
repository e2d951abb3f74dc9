"""Ctrl-C and SIGTERM as a request that is granted where the work can be kept."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from counterpop.cli.progress import console


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """A list that gets the first signal; a second one stops at once."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield caught
        return

    def note(number: int, _: Any) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)
        console.print("Stopping after this epoch; once more stops at once.")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(caught: list[int], text: str) -> NoReturn:
    """Ends the command as the shell expects it after a signal."""
    console.print(f"{text[0].upper()}{text[1:]}.")
    sys.exit(128 + caught[0])
