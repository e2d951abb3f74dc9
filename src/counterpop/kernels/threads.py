"""Kernels release the interpreter lock, so plain Python threads run them side by side."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def crew(parts: int) -> Iterator[Callable[[Callable[[int], T]], list[T]]]:
    """Threads for many rounds of work: called with `work`, returns [work(0), ..., work(parts - 1)].

    Each part runs in a thread of its own; a single part runs in this thread.
    """
    if parts == 1:
        yield lambda work: [work(0)]
        return
    with ThreadPoolExecutor(parts) as pool:
        yield lambda work: list(pool.map(work, range(parts)))


def in_parallel(work: Callable[[int], T], parts: int) -> list[T]:
    """`[work(0), ..., work(parts - 1)]`, each in a thread of its own; one part runs in this thread."""
    with crew(parts) as together:
        return together(work)


def in_stretches(work: Callable[[int, slice], T], n: int, threads: int) -> list[T]:
    """`work(part, stretch)` for the stretches of [0, n), each in a thread of its own, without BLAS threads.

    Left to itself, BLAS starts threads of its own that go on spinning after each product and take the cores
    from the kernels that follow it.
    """
    with without_blas_threads():
        return in_parallel(lambda part: work(part, slice(*stretches(n, threads)[part])), threads)


def without_blas_threads() -> AbstractContextManager[object]:
    """Within it BLAS keeps to the calling thread: small products are done before its threads wake up."""
    limit: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limit


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def stretches(n: int, parts: int) -> list[tuple[int, int]]:
    """[0, n) cut into `parts` stretches of nearly equal length.

    >>> stretches(5, 2)
    [(0, 2), (2, 5)]
    """
    return [(n * part // parts, n * (part + 1) // parts) for part in range(parts)]
