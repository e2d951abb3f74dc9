"""Is `debias` right without a later log? Its verdict on real models, against a test part that it never sees.

    python experiments/debias_without_holdout.py [adressa] [ml1m] [ml10m] [gowalla] [--models als64 bpr ...]

Every model is trained on the train part and debiased with that same log. Then the test part is measured once, plain
and at the strengths that `debias` tried, whether or not it keeps them. Prints one Markdown row for each model.
ml10m and gowalla are thinned to 12,000 random users. Needs implicit, lightfm-next and the paper's data sets.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

import counterpop as cp
from counterpop.evaluation import contrast, measure_model
from counterpop.splits import draw_by_item

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from paper_data import data_folder

USERS = {"ml10m": 12_000, "gowalla": 12_000}
MODELS = "als32", "als64", "als128", "bpr", "warp", "mf", "noisy", "random"


def load(name: str) -> cp.Split:
    """The split of a data set, with fewer users where it is large."""
    with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as archive:
        user, item, part = archive["user"], archive["item"], archive["split"]
    chosen = np.random.default_rng(0).permutation(user.max() + 1)[: USERS.get(name)]
    kept = np.isin(user, chosen)
    (user, item), part = (np.unique(side[kept], return_inverse=True)[1] for side in (user, item)), part[kept]
    order = np.lexsort((item, user))
    ids = np.arange(user.max() + 1), np.arange(item.max() + 1)
    pairs = (side[order].astype(np.int32) for side in (user, item))
    return cp.split_as_given(cp.Interactions(*pairs, *ids, part=part[order]))


def fit(kind: str, split: cp.Split) -> dict:  # type: ignore[type-arg]
    """Vectors of a model trained on train, with one thread; noise makes vectors that no log can reproduce."""
    log = split.development.train
    matrix = csr_matrix((np.ones(len(log), np.float32), (log.user_ix, log.item_ix)), shape=(log.n_users, log.n_items))
    if kind.startswith("als"):
        from implicit.cpu.als import AlternatingLeastSquares

        model = AlternatingLeastSquares(factors=int(kind[3:]), random_state=0, num_threads=1)
    elif kind == "bpr":
        from implicit.cpu.bpr import BayesianPersonalizedRanking

        model = BayesianPersonalizedRanking(factors=64, random_state=0, num_threads=1)
    elif kind == "warp":
        from lightfm import LightFM

        from counterpop.adapters.lightfm import vectors_of

        model = LightFM(no_components=32, loss="warp", random_state=0)
        model.fit(coo_matrix(matrix), epochs=15, num_threads=1)
        return dict(vectors_of(model))
    else:
        run = cp.train(split, method="plain", loss="bpr", refit=False, dim=64, epochs=100, seed=0, threads=1)
        users, items = run.embeddings.user_vectors, run.embeddings.item_vectors
        if kind != "mf":
            noise = np.random.default_rng(0).normal(size=users.shape) * (users - users.mean(axis=0)).std(axis=0)
            users = (users if kind == "noisy" else users.mean(axis=0)) + noise
        return {"user_vectors": users, "item_vectors": items}
    model.fit(matrix, show_progress=False)
    return {"user_vectors": np.asarray(model.user_factors), "item_vectors": np.asarray(model.item_factors)}


def evenly(test: cp.Interactions) -> cp.Interactions:
    """Test pairs that hold every item about equally often, drawn as `debias` draws them from a holdout."""
    flat = max(1, int(np.median(test.item_counts[test.item_counts > 0])))
    return test.rows(np.sort(draw_by_item(test, np.full(test.n_items, flat), np.random.default_rng(0))))


def effect(plain: cp.Measures, adjusted: cp.Measures) -> str:
    p = contrast(adjusted, plain)["recall"]["p_value"]
    return f"{plain.recall:.4f} -> {adjusted.recall:.4f} ({'p < .001' if p < 0.001 else f'p = {p:.3f}'[:9]})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", nargs="*", default=["adressa", "ml1m", "ml10m", "gowalla"])
    parser.add_argument("--models", nargs="*", default=MODELS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = "data", "model", "agreement", "strengths", "verdict", "judged: even", "ordinary", "test: even", "as it is"
    print("|", " | ".join(columns), "|\n" + "|---" * len(columns) + "|")
    for name in asked.data:
        split = load(name)
        for kind in asked.models:
            vectors = fit(kind, split)
            start = time.perf_counter()
            found = cp.debias(**vectors, interactions=split.development.train)
            seconds = time.perf_counter() - start
            models = found.with_strengths(0.0, 0.0), found.with_strengths(*found.tried)
            judged = [effect(e.plain, e.adjusted) for e in (found.uniform, found.ordinary)]
            truth = [
                effect(*(measure_model(m, t, resamples=0) for m in models)) for t in (evenly(split.test), split.test)
            ]
            verdict = "proven" if found.gained else "not proven" if found.provable else "refused"
            cells = name, kind, f"{found.agreement:.2f}", "{} / {}".format(*found.tried), verdict, *judged, *truth
            print("|", " | ".join(cells), "|", f"<!-- {seconds:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
