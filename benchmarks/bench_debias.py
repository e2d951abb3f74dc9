"""Measures debiasing: vectors of implicit's models, a FAISS index, and a catalogue of a million items.

    python benchmarks/bench_debias.py [figures] [query] [faiss] [indexes] [million]

figures   implicit's ALS and BPR (64 factors) on adressa and ml10m: test recall before and after. Strengths
          come from the log the model was trained on, and from the validation part; test is measured once.
query     microseconds per vector, in batches of 1,000 at D 128.
faiss     a flat index: whether transformed queries find what adjusted vectors find, and what a search costs.
indexes   ALS on ml10m: how much of the exact top 100 IVF and HNSW find, for plain and transformed queries.
million   `counterpop debias` on a million items of D 128, a hundred thousand users and ten million pairs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from scipy.sparse import csr_matrix

import counterpop as cp
from counterpop.evaluation import measure_model
from paper_data import load_split


def fit(kind: str, log: cp.Interactions) -> dict:  # type: ignore[type-arg]
    """The vectors of one of implicit's models with 64 factors."""
    import implicit.cpu.als
    import implicit.cpu.bpr

    from counterpop.adapters.implicit import vectors_of

    ones = np.ones(len(log), np.float32)
    matrix = csr_matrix((ones, (log.user_ix, log.item_ix)), shape=(log.n_users, log.n_items))
    if kind == "ALS":
        model = implicit.cpu.als.AlternatingLeastSquares(factors=64, random_state=0)
    else:
        model = implicit.cpu.bpr.BayesianPersonalizedRanking(factors=64, random_state=0)
    model.fit(matrix, show_progress=False)
    return vectors_of(model, user_ids=log.user_ids, item_ids=log.item_ids)


def figures() -> None:
    for name in ("adressa", "ml10m"):
        split = load_split(name)
        known = split.development
        carved = name == "adressa"  # validation is carved out of train: choose without it, refit
        whole = known.refit_train() if carved else known.train
        for kind in ("ALS", "BPR"):
            final = fit(kind, whole)
            start = time.perf_counter()
            in_sample = cp.debias(**final, interactions=whole)
            seconds = time.perf_counter() - start
            first = cp.debias(**fit(kind, known.train), interactions=known.train, holdout=split.valid, point="gain")
            print(f"{name}, implicit {kind}, 64 factors (debias took {seconds:.1f} s)")
            plain = measure_model(in_sample.with_strengths(0.0, 0.0), split.test, resamples=0)
            print(f"  plain                                  recall {plain.recall:.4f}")
            for how, found in (("the log itself", in_sample), ("validation", first)):
                strengths = found.item_strength, found.user_strength
                after = measure_model(in_sample.with_strengths(*strengths), split.test, resamples=0)
                what = f"strengths {strengths[0]} / {strengths[1]} from {how}"
                print(f"  {what:38} recall {after.recall:.4f}, segments {found.segments}", flush=True)


def query() -> None:
    draw = np.random.default_rng(0)
    q, p = (v / np.linalg.norm(v) for v in draw.normal(size=(2, 128)).astype(np.float32))
    fix = cp.Adjustment(q, p, 0.6, 0.4)
    users = draw.normal(size=(1000, 128)).astype(np.float32)
    seconds = []
    for _ in range(200):
        start = time.perf_counter()
        fix.query(users)
        seconds.append(time.perf_counter() - start)
    micro = statistics.median(seconds) * 1e3
    print(f"query: {micro:.3f} us per vector (median of 200 batches of 1,000, D 128)")


def faiss_flat(n_items: int = 200_000, n_users: int = 1000, dim: int = 128) -> None:
    import faiss

    draw = np.random.default_rng(0)
    items = draw.normal(size=(n_items, dim)).astype(np.float32) + 0.3
    users = draw.normal(size=(n_users, dim)).astype(np.float32) + 0.2
    q, p = (v / np.linalg.norm(v) for v in (items.mean(axis=0), users.mean(axis=0)))
    vectors = cp.Embeddings(users, items, np.arange(n_users), np.arange(n_items))
    fix = cp.Adjustment(q, p, 0.8, 0.6)
    index, adjusted = faiss.IndexFlatIP(dim), faiss.IndexFlatIP(dim)
    stored = cp.adjust(vectors, fix)
    index.add(items)
    adjusted.add(stored.item_vectors)
    scores, found = index.search(fix.query(users), 100)
    theirs_scores, theirs = adjusted.search(stored.user_vectors, 100)
    same = (np.sort(found) == np.sort(theirs)).all(axis=1)
    # items whose scores differ by less than float32 resolves may swap places
    swapped = np.flatnonzero((found != theirs).any(axis=1))
    gap = max((float(np.abs(scores[n] - theirs_scores[n]).max()) for n in swapped), default=0.0)
    print(
        f"faiss flat, {n_items:,} items: the same top 100 for {same.sum()} of {n_users} users, in the same "
        f"order for {n_users - len(swapped)} (scores of the others differ by at most {gap:.1e})"
    )
    seconds: dict[str, list[float]] = {"plain": [], "transformed": []}
    for _ in range(7):
        for name in seconds:
            start = time.perf_counter()
            index.search(users if name == "plain" else fix.query(users), 100)
            seconds[name].append(time.perf_counter() - start)
    plain, transformed = (statistics.median(values) for values in seconds.values())
    spread = (max(seconds["plain"]) - min(seconds["plain"])) / plain
    print(
        f"  a search of {n_users} queries: {plain * 1e3:.1f} ms plain, {transformed * 1e3:.1f} ms "
        f"transformed (ratio {transformed / plain:.3f}; plain searches spread over {spread:.0%})"
    )


def indexes() -> None:
    """How much of the exact top 100 approximate indexes find, for plain and for transformed queries."""
    import faiss

    from counterpop.adapters.indexes import recall_of

    log = load_split("ml10m").train
    vectors = fit("ALS", log)
    fix = cp.debias(**vectors, interactions=log)
    users, items = vectors["user_vectors"][:1000], vectors["item_vectors"]
    dim, ip = items.shape[1], faiss.METRIC_INNER_PRODUCT
    flat = faiss.IndexFlatIP(dim)
    inverted = faiss.IndexIVFFlat(flat, dim, 32, ip)
    inverted.train(items)
    inverted.add(items)
    inverted.nprobe = 8
    graph = faiss.IndexHNSWFlat(dim, 32, ip)
    graph.hnsw.efConstruction = 200
    graph.add(items)
    for name, index, ef in (
        ("IVF, 8 of 32 lists", inverted, 0),
        *((f"HNSW, M 32, efSearch {ef}", graph, ef) for ef in (64, 256, 1024)),
    ):
        if ef:
            graph.hnsw.efSearch = ef
        plain, transformed = (
            recall_of(lambda q, k, index=index: index.search(q, k)[1], items, queries, 100)
            for queries in (users, fix.query(users))
        )
        print(f"{name}: {plain:.1%} of the exact top 100, plain; {transformed:.1%} transformed", flush=True)


def million(n_items: int = 1_000_000, n_users: int = 100_000, n_pairs: int = 10_000_000) -> None:
    """Pairs drawn by a popularity with a long tail, every item at least once; users sum their items' vectors.

    Each side also has a column for popularity, as in a model that has learned it.
    """
    draw = np.random.default_rng(0)
    chance = np.cumsum(1 / np.arange(10, n_items + 10) ** 0.8)
    drawn = np.searchsorted(chance, draw.random(n_pairs - n_items) * chance[-1])
    items = np.concatenate([np.arange(n_items), drawn])
    pairs = np.unique(draw.integers(0, n_users, len(items)) * n_items + items)
    users, items = np.divmod(pairs, n_items)
    log = csr_matrix((np.ones(len(pairs), np.float32), (users, items)), shape=(n_users, n_items))
    item_vectors = draw.standard_normal((n_items, 128), dtype=np.float32)
    user_vectors = log @ item_vectors / np.sqrt(np.bincount(users, minlength=n_users))[:, None]
    item_vectors[:, 0] = 3 * np.log(np.bincount(items, minlength=n_items))
    user_vectors[:, 0] = 4
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "users.npy", user_vectors.astype(np.float32))
        np.save(Path(folder) / "items.npy", item_vectors)
        pl.DataFrame({"user": users, "item": items}).write_parquet(Path(folder) / "log.parquet")
        print(f"million: {len(pairs):,} pairs, {n_users:,} users, {n_items:,} items", flush=True)
        del item_vectors, user_vectors, log
        code = (
            "import resource, sys; from counterpop.cli import main\n"
            "try: main(sys.argv[1:])\n"
            "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        start = time.perf_counter()
        vectors = ["--user-vectors", f"{folder}/users.npy", "--item-vectors", f"{folder}/items.npy"]
        words = ["debias", *vectors, "--interactions", f"{folder}/log.parquet", "--out", f"{folder}/fix", "--json"]
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
        notes = done.stderr.strip().splitlines()
        if done.returncode:
            sys.exit("\n".join(notes))
        result = json.loads(done.stdout)
        effect = result["uniform"]
        before, after = (effect[side]["recall"] for side in ("plain", "adjusted"))
        print(
            f"  {seconds:.0f} s, {int(notes[-1]) / 1e6:.1f} GB; sample of {result['sample']:,} users per side; "
            f"recall {before:.4f} -> {after:.4f} at strengths {result['tried']}"
        )
        for note in notes[:-1]:
            print(f"  {note}")


def main() -> None:
    jobs = {"figures": figures, "query": query, "faiss": faiss_flat, "indexes": indexes, "million": million}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("jobs", nargs="*", help=f"any of {', '.join(jobs)}; all of them by default")
    warnings.simplefilter("ignore")
    for name in parser.parse_args().jobs or jobs:
        jobs[name]()


if __name__ == "__main__":
    main()
