"""Do the defaults of `train` and `tune` hold up beside implicit, and beside each loss on its own?

    python experiments/defaults.py [adressa gowalla ml1m ...] [--minutes 7] [--out defaults.jsonl]
    python experiments/defaults.py --table defaults.jsonl
    python experiments/defaults.py NAMES --race [--out race.jsonl], and --race --table race.jsonl
    python experiments/defaults.py --powers

Each data set is trained with the defaults and with a named loss and uniform negatives, always with a refit, then tuned
at the default point and at the point of most gain. implicit's ALS and BPR get a small grid on validation and are
trained again on train + validation. Test is measured once for each. A run that is in the file already is not repeated.
`--race` looks only at validation: do short trainings rank losses and powers of the negatives as whole ones do?
`--powers` prints what drawing negatives by popularity does to recall on even and on ordinary pairs of two worlds.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import counterpop as cp
from counterpop.evaluation import measure_model

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from paper_data import data_folder, load_split

THREADS = 2
NAMED: dict[str, dict[str, Any]] = {
    "default": {},
    "bpr": {"loss": "bpr", "negative_power": 0.0},
    "bce": {"loss": "bce", "negative_power": 0.0},
}
# factors, regularization, iterations (BPR: learning rate .01 and .05 as well)
ALS = [{"factors": f, "regularization": r, "iterations": 15} for f, r in product((64, 128), (0.01, 1.0))]
BPR = [
    {"factors": 64, "regularization": 0.01, "learning_rate": rate, "iterations": n}
    for rate, n in ((0.01, 100), (0.05, 100), (0.05, 300))
]
GRIDS = {"implicit als": ALS, "implicit bpr": BPR}
POWERS, SHORT = (0.0, 0.25, 0.5), (5, 10, 16, 33)


def read_log(name: str) -> cp.Interactions:
    with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as archive:
        return make_log(archive["user"], archive["item"])


def make_log(user: np.ndarray, item: np.ndarray) -> cp.Interactions:
    """A log of these pairs, with users and items numbered without gaps."""
    user, item = (np.unique(side, return_inverse=True)[1].astype(np.int32) for side in (user, item))
    order = np.lexsort((item, user))
    return cp.Interactions(user[order], item[order], np.arange(user.max() + 1), np.arange(item.max() + 1))


def some_users(log: cp.Interactions, number: int, least: int = 3) -> cp.Interactions:
    """The pairs of a random part of the users, with items of at least `least` pairs: few pairs per item."""
    chosen = np.random.default_rng([0, 901]).permutation(log.n_users)[:number]
    kept = np.isin(log.user_ix, chosen)
    kept &= np.bincount(log.item_ix[kept], minlength=log.n_items)[log.item_ix] >= least
    return make_log(log.user_ix[kept], log.item_ix[kept])


def some_pairs(log: cp.Interactions, share: float, least: int = 3) -> cp.Interactions:
    """A random part of the pairs, with items of at least `least` of them."""
    kept = np.random.default_rng([0, 902]).random(len(log)) < share
    kept &= np.bincount(log.item_ix[kept], minlength=log.n_items)[log.item_ix] >= least
    return make_log(log.user_ix[kept], log.item_ix[kept])


def world(*shape: int, **how: Any) -> Callable[[], cp.Split]:
    return lambda: cp.split_uniform(cp.make_world(*shape, seed=0, **how).log)


SPLITS: dict[str, Callable[[], cp.Split]] = {
    **{name: lambda name=name: load_split(name) for name in ("adressa", "gowalla", "ml10m", "netflix")},
    "ml1m": lambda: cp.split_uniform(read_log("ml1m")),
    "gowalla, 6,000 users": lambda: cp.split_uniform(some_users(read_log("gowalla"), 6000)),
    "netflix, 2,000 users": lambda: cp.split_uniform(some_users(read_log("netflix"), 2000)),
    "ml1m, 12 % of pairs": lambda: cp.split_uniform(some_pairs(read_log("ml1m"), 0.12)),
    "world, dense": world(3000, 1000, mean_activity=50),
    "world, long tail": world(1900, 6000, mean_activity=49, dim=12, temperature=0.08),
    "world, short histories": world(9000, 6000, mean_activity=9, dim=8, temperature=0.07),
}


def run_own(name: str, split: cp.Split) -> dict[str, Any]:
    """Our training with some settings: validation recall, and test recall at two points of `tune`."""
    start = time.process_time()
    run = cp.train(split, seed=0, threads=THREADS, **NAMED[name])
    seconds = time.process_time() - start
    record: dict[str, Any] = {"chosen": {key: run.settings[key] for key in ("loss", "negative_power", "chosen_epochs")}}
    record["race"] = [list(row.values()) for row in run.settings.get("race", {}).get("tried", ())]
    record["valid"] = max(entry["valid"] for entry in run.history if "valid" in entry)
    tuned = cp.tune(run, split, point="gain")
    balanced = tuned.points["balanced"]
    strengths = {"gain": (tuned.item_strength, tuned.user_strength), "plain": (0.0, 0.0)}
    strengths["balanced"] = (balanced.item_strength, balanced.user_strength) if balanced.proven else (0.0, 0.0)
    for point, at in strengths.items():
        found = cp.evaluate(tuned.with_strengths(*at), split, on="test", threads=THREADS)
        record[point] = figures(found.adjusted) | {"strengths": at}
        record[point] |= {"ordinary": found.ordinary.adjusted.recall} if found.ordinary else {}
    if tuned.trial is not None:
        record["no refit"] = figures(measure_model(replace(tuned.trial, seen=tuned.seen), split.test))
    return record | {"seconds": round(seconds, 1)}


def run_implicit(name: str, split: cp.Split) -> dict[str, Any]:
    """The best of a grid on validation, trained again on all that is known, on test."""
    start, known = time.process_time(), split.development
    tried = [measure_model(fit(name, how, known.train), known.valid, resamples=0).recall for how in GRIDS[name]]
    best = GRIDS[name][int(np.argmax(tried))]
    final = fit(name, best, known.refit_train())
    seconds = time.process_time() - start
    found = figures(measure_model(final, split.test))
    return {"chosen": best, "tried": tried, "valid": max(tried), "gain": found, "seconds": round(seconds, 1)}


def try_choices(split: cp.Split) -> Iterator[dict[str, Any]]:
    """Validation recall of every loss and power, trained for few epochs with their own schedule and for all."""
    for epochs, loss, power in product((*SHORT, None), ("bpr", "bce"), POWERS):
        short = {"epochs": epochs, "check_every": epochs} if epochs else {}
        run = cp.train(split, loss=loss, negative_power=power, refit=False, threads=THREADS, **short)
        valid = max(entry["valid"] for entry in run.history if "valid" in entry)
        yield {"loss": loss, "negative_power": power, "epochs": epochs, "valid": valid}


def show_powers() -> None:
    for shape, activity in (((2000, 800), 35), ((2000, 1500), 20)):
        split = cp.split_uniform(cp.make_world(*shape, mean_activity=activity, seed=1).log, seed=1)
        for power in POWERS:
            small = {"dim": 32, "epochs": 60, "lr": 0.05, "sampling": "interactions", "ledger_every": 4}
            run = cp.train(split, loss="bpr", negative_power=power, refit=False, threads=THREADS, **small)
            tuned = cp.tune(run, split, point="gain")
            even, ordinary = (tuned.grid.values["recall"], (tuned.ordinary or tuned.grid).values["recall"])
            print(shape, power, f"{even[0, 0]:.4f} {ordinary[0, 0]:.4f} {even.max():.4f}", flush=True)


def race_table(records: list[dict[str, Any]]) -> str:
    """What short trainings would have chosen, and how far below the best of the whole trainings that is."""
    names = [f"{loss} {power}" for loss, power in product(("bpr", "bce"), POWERS)]
    lines = [f"| data | {' | '.join(names)} | {' | '.join(f'{n} epochs' for n in SHORT)} |"]
    lines += ["|---" * (1 + len(names) + len(SHORT)) + "|"]
    for data in dict.fromkeys(one["data"] for one in records):
        by: dict[int | None, dict[str, float]] = {}
        for one in records:
            if one["data"] == data and f"{one['loss']} {one['negative_power']}" in names:
                by.setdefault(one["epochs"], {})[f"{one['loss']} {one['negative_power']}"] = one["valid"]
        whole, cells = by[None], []
        for epochs in SHORT:
            tried = by.get(epochs, {})
            taken = max(tried, key=lambda name: tried[name]) if len(tried) == len(names) else None
            cells.append(f"{taken} ({1 - whole[taken] / max(whole.values()):.1%})" if taken else "-")
        figures_of = [f"{whole[name]:.4f}" if name in whole else "-" for name in names]
        lines.append(f"| {data} | {' | '.join(figures_of + cells)} |")
    return "\n".join(lines)


def fit(name: str, how: dict[str, Any], log: cp.Interactions) -> cp.Recommender:
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    from counterpop.adapters.implicit import vectors_of

    kind = AlternatingLeastSquares if name == "implicit als" else BayesianPersonalizedRanking
    model = kind(random_state=0, num_threads=THREADS, **how)
    ones = np.ones(len(log), np.float32)
    model.fit(csr_matrix((ones, (log.user_ix, log.item_ix)), shape=(log.n_users, log.n_items)), show_progress=False)
    vectors = cp.Embeddings(**vectors_of(model, user_ids=log.user_ids, item_ids=log.item_ids))
    still = np.zeros(vectors.dim, np.float32)
    return cp.Recommender(still, still, 0.0, 0.0, embeddings=vectors, seen=log)


def figures(measures: cp.Measures) -> dict[str, Any]:
    return {"recall": measures.recall, "interval": measures.intervals["recall"], "ndcg": measures.ndcg}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SPLITS))
    parser.add_argument("--models", nargs="*", default=[*NAMED, *GRIDS])
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--out", type=Path, default=Path("defaults.jsonl"))
    parser.add_argument("--table", type=Path)
    parser.add_argument("--race", action="store_true")
    parser.add_argument("--powers", action="store_true")
    options = parser.parse_args()
    if options.powers:
        show_powers()
        return
    if options.table:
        records = [json.loads(line) for line in options.table.read_text().splitlines()]
        print((race_table if options.race else table)(records))
        return
    warnings.simplefilter("ignore")
    end = time.perf_counter() + 60 * options.minutes
    known = map(json.loads, options.out.read_text().splitlines() if options.out.exists() else ())
    done = {(one["data"], one.get("model")) for one in known}
    for name, model in product(options.names, [None] if options.race else options.models):
        if (name, model) in done or time.perf_counter() > end:
            continue
        split, start = SPLITS[name](), time.perf_counter()
        train = split.development.train
        made = try_choices(split) if options.race else [run_model(model, split)]
        with options.out.open("a") as out:
            for record in made:
                about = {"data": name, "pairs": len(train), "items": int(np.count_nonzero(train.item_counts))}
                print(json.dumps(about | record), file=out, flush=True)
        print(name, model, round(time.perf_counter() - start, 1), flush=True)


def run_model(name: str, split: cp.Split) -> dict[str, Any]:
    return {"model": name} | (run_own if name in NAMED else run_implicit)(name, split)


def table(records: list[dict[str, Any]]) -> str:
    """Test recall at 20 with its interval for each model, and what the defaults chose, one row for each data set."""
    known = {(one["data"], one["model"]): one for one in records}
    heads = ["default", "default, balanced", "default, no refit", *list(NAMED)[1:], *GRIDS]
    lines = [
        f"| data (train pairs, per item) | chosen | {' | '.join(heads)} | processor seconds |",
        "|---" * (len(heads) + 3) + "|",
    ]
    for name in dict.fromkeys(one["data"] for one in records):
        ours = {model: known.get((name, model)) for model in (*NAMED, *GRIDS)}
        cells = {model: show(one, "gain") for model, one in ours.items()}
        cells["default, balanced"], cells["default, no refit"] = (
            show(ours["default"], point) for point in ("balanced", "no refit")
        )
        first = next(one for one in ours.values() if one)
        chosen = ours["default"]["chosen"] if ours["default"] else {}
        seconds = " / ".join(f"{one['seconds']:.0f}" if one else "-" for one in ours.values())
        lines.append(
            f"| {name} ({first['pairs']:,}, {first['pairs'] / first['items']:.0f}) | {chosen.get('loss', '-')}, "
            f"{chosen.get('negative_power', '-')} | {' | '.join(cells[head] for head in heads)} | {seconds} |"
        )
    return "\n".join(lines)


def show(record: dict[str, Any] | None, point: str) -> str:
    if record is None or point not in record:
        return "-"
    low, high = record[point]["interval"]
    return f"{record[point]['recall']:.4f} ({low:.4f} to {high:.4f})"


if __name__ == "__main__":
    main()
