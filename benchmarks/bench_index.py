"""What an HNSW graph finds for transformed queries, at what time, and what helps.

    python benchmarks/bench_index.py [--items 1000000] [--catalogue als bpr gowalla] [--library faiss usearch]

als       made up: vectors as long as items are popular, users with little popularity, as ALS leaves them
bpr       made up: much popularity in the items and in the users, as BPR leaves them
gowalla   implicit's ALS (64 factors) on Gowalla, 40,981 items; needs the data (COUNTERPOP_DATA)

Each line is one way to build and ask an index: recall of the exact top 20 by inner product, and microseconds of
processor time per query (one thread, median of the rounds, which go over all ways in turn), for plain and for
transformed queries. The last figure is the ratio to the plain query of the index as it is, at the same ef.

as is      vectors as they are, by inner product
cosine     one more coordinate makes all lengths equal, so that inner products become cosines
rescored   the index as it is asked for 4 k with the plain query, and their exact scores for the transformed one
stored     item vectors stored at item strength .8, queries by `fix.stored_at(0.8)`: the same scores exactly

A million items take minutes for each of the three graphs of a catalogue, on two cores.
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.adapters.indexes import recall_of
from counterpop.embeddings import FloatArray

K, DIM, ROUNDS = 20, 64, 5
STORED = 0.8


@dataclass(frozen=True)
class Catalogue:
    items: FloatArray
    users: FloatArray
    fix: cp.Adjustment


def unit(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def make_catalogue(n_items: int, n_queries: int, *, power: float, item_share: float, user_share: float) -> Catalogue:
    """Vectors with a popular direction, for `als` in the proportions of implicit's ALS on Gowalla.

    An item is as long as its count to `power`, times noise. `item_share` and `user_share` are mean cosines with the
    popular direction; the rest is taste: items and users lie around the same 2,000 centres.
    """
    draw = np.random.default_rng(0)
    q = unit(draw.normal(size=DIM).astype(np.float32))
    centres = unit(draw.normal(size=(2000, DIM)).astype(np.float32))

    def around(n: int, share: float, spread: float) -> FloatArray:
        taste = centres[draw.integers(0, len(centres), n)]
        taste = taste + spread / np.sqrt(DIM) * draw.standard_normal((n, DIM), dtype=np.float32)
        taste = unit(taste - (taste @ q)[:, None] * q)
        cosine = np.clip(draw.normal(share, 0.15, n), -0.95, 0.95).astype(np.float32)[:, None]
        return np.asarray(cosine * q + np.sqrt(1 - cosine**2) * taste, dtype=np.float32)

    counts = 5 * (n_items / np.arange(1, n_items + 1)) ** 0.6
    lengths = (counts**power * draw.lognormal(0.0, 0.5, n_items)).astype(np.float32)[:, None]
    items, users = lengths * around(n_items, item_share, 0.7), around(n_queries, user_share, 0.7)
    return Catalogue(items, users, cp.Adjustment(unit(items.mean(axis=0)), unit(users.mean(axis=0)), 1.0, 0.6))


def fit_gowalla(n_queries: int) -> Catalogue:
    from bench_debias import fit
    from paper_data import load_split

    log = load_split("gowalla").development.refit_train()
    vectors = fit("ALS", log)
    items, users = vectors["item_vectors"], vectors["user_vectors"]
    popular = np.argsort(-log.item_counts)[: log.n_items // 5]
    fix = cp.Adjustment(unit(items[popular].mean(axis=0)), unit(users.mean(axis=0)), 1.0, 0.6)
    return Catalogue(items, np.random.default_rng(0).permutation(users)[:n_queries], fix)


def build(library: str, items: FloatArray) -> tuple[Callable[[FloatArray, int], Any], Callable[[int], None]]:
    """A graph of M 32 on inner products: its search, and what sets its ef."""
    if library == "faiss":
        import faiss

        graph = faiss.IndexHNSWFlat(items.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = 128
        faiss.omp_set_num_threads(os.cpu_count() or 1)
        graph.add(np.ascontiguousarray(items))
        faiss.omp_set_num_threads(1)
        return lambda x, k: graph.search(x, k)[1], lambda ef: setattr(graph.hnsw, "efSearch", ef)
    from usearch.index import Index

    index = Index(ndim=items.shape[1], metric="ip", dtype="f32", connectivity=32, expansion_add=128)
    index.add(np.arange(len(items)), items)
    return lambda x, k: index.search(x, k, threads=1).keys, lambda ef: setattr(index, "expansion_search", ef)


def widen(items: FloatArray) -> FloatArray:
    """Items with one more coordinate, which makes them all as long as the longest."""
    squares = (items**2).sum(axis=1)
    return np.hstack([items, np.sqrt(squares.max() - squares)[:, None]]).astype(np.float32)


@dataclass(frozen=True)
class Way:
    """One way to build and ask an index: the query vectors and the positions that it finds for them."""

    name: str
    ef: int
    set_ef: Callable[[int], None]
    search: Callable[[FloatArray], Any]
    plain: FloatArray
    transformed: FloatArray


def ways_of(library: str, found: Catalogue, efs: list[int], with_cosine: bool) -> list[Way]:
    items, users, fix = found.items, found.users, found.fix
    plain, transformed = users, fix.query(users)
    ways = []

    def add(name: str, stored: FloatArray, queries: tuple[FloatArray, FloatArray]) -> Any:
        start = time.perf_counter()
        search, set_ef = build(library, stored)
        print(f"  built {name} in {time.perf_counter() - start:.0f} s", flush=True)
        ways.extend(Way(name, ef, set_ef, lambda x: search(x, K), *queries) for ef in efs)
        return search, set_ef

    search, set_ef = add("as is", items, (plain, transformed))

    def rescored(x: FloatArray) -> Any:
        """Asks with the plain queries whatever x is, and orders what they find by x."""
        near = np.asarray(search(users, 4 * K)).astype(np.int64)
        scores = np.einsum("bd,bkd->bk", x, items[near])
        return np.take_along_axis(near, np.argsort(-scores, axis=1)[:, :K], axis=1)

    ways.extend(Way("rescored", ef, set_ef, rescored, plain, transformed) for ef in efs)
    pad = np.zeros((len(users), 1), np.float32)
    if with_cosine:
        add("cosine", widen(items), (np.hstack([plain, pad]), np.hstack([transformed, pad])))
    along = (items @ fix.item_direction)[:, None] * fix.item_direction
    plainly = fix.with_strengths(0.0, 0.0).stored_at(STORED)
    add("stored", items - STORED * along, (plainly.query(users), fix.stored_at(STORED).query(users)))
    return ways


def measure(library: str, found: Catalogue, efs: list[int], with_cosine: bool) -> None:
    ways = ways_of(library, found, efs, with_cosine)
    truth = found.users, found.fix.query(found.users)
    seconds: dict[tuple[str, int, int], list[float]] = {}
    recall: dict[tuple[str, int, int], float] = {}
    for attempt in range(ROUNDS):
        for way in ways:
            way.set_ef(way.ef)
            for side, queries in enumerate((way.plain, way.transformed)):
                start = time.process_time()  # searches use one thread; other work on the machine does not count
                lists = way.search(queries)
                seconds.setdefault((way.name, way.ef, side), []).append(time.process_time() - start)
                if not attempt:
                    recall[way.name, way.ef, side] = recall_of(lambda *_: lists, found.items, truth[side], K)  # noqa: B023
    micro = {key: statistics.median(values) / len(found.users) * 1e6 for key, values in seconds.items()}
    print(f"  {library}, recall of the exact top {K}, microseconds, ratio to the plain query as is")
    for way in ways:
        bar = micro["as is", way.ef, 0]
        cells = [
            f"{recall[way.name, way.ef, side]:6.1%} {micro[way.name, way.ef, side]:6.0f} us"
            f" {micro[way.name, way.ef, side] / bar:5.2f}"
            for side in (0, 1)
        ]
        print(f"  {way.name:8} ef {way.ef:4}  plain {cells[0]}   transformed {cells[1]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--catalogue", nargs="+", default=["als", "bpr"], choices=["als", "bpr", "gowalla"])
    parser.add_argument("--library", nargs="+", default=["faiss"], choices=["faiss", "usearch"])
    parser.add_argument("--ef", nargs="+", type=int, default=[64, 96, 128, 256])
    parser.add_argument("--cosine", action=argparse.BooleanOptionalAction, default=True, help="one graph less without")
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    shapes = {"als": (1.0, 0.45, 0.05), "bpr": (0.3, 0.5, 0.4)}
    for name in words.catalogue:
        if name == "gowalla":
            found = fit_gowalla(words.queries)
        else:
            power, item_share, user_share = shapes[name]
            found = make_catalogue(
                words.items, words.queries, power=power, item_share=item_share, user_share=user_share
            )
        same = recall_of(lambda *_: exact(found), found.items, found.users, K)  # noqa: B023
        print(
            f"{name}, {len(found.items):,} items, D {DIM}: "
            f"transformed and plain queries share {same:.0%} of the top {K}",
            flush=True,
        )
        for library in words.library:
            measure(library, found, words.ef, words.cosine)


def exact(found: Catalogue) -> Any:
    users, ties = np.zeros(len(found.users), dtype=np.int32), np.arange(len(found.items))
    return cp.rank(found.fix.query(found.users), found.items, K, users=users, seen=[], ties=ties)[0]


if __name__ == "__main__":
    main()
