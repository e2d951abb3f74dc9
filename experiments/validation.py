"""Which carved validation part chooses as the test would? Nested carves: a pseudo-test is drawn out of train.

    python experiments/validation.py --data adressa --seed 0 --minutes 7 --out validation.jsonl
    python experiments/validation.py --table validation.jsonl

The real test part is not read. From the train part of a data set (found as in benchmarks/paper_data.py), or from a
made-up world, a pseudo-test is drawn as the real test was: a fixed number of pairs of every item, with items that are
too rare left out first, and where the real test leans to active users, so does this one. Several models are then
trained on each carve of the rest and, as truth, three times on all of the rest. A scheme chooses a model and its
strengths by its validation part. Its regret is the recall on the pseudo-test that it loses to the best choice.
"""

import argparse
import itertools
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import counterpop as cp
from counterpop.directions import find_directions
from counterpop.training.backbones.contract import Start
from counterpop.training.loop import begin, scheduled
from counterpop.training.settings import Settings
from paper_data import data_folder

# Of each data set: pairs of every item in the pseudo-test, fewest pairs of an item before it is drawn, share of users,
# share of items, and whether a user's pairs are drawn by the square of their number (as in Gowalla's own test).
DATA: dict[str, tuple[int, int, float, float, bool]] = {
    "adressa": (4, 5, 1.0, 1.0, False),
    "gowalla": (5, 10, 0.6, 0.5, True),
    "ml10m": (4, 5, 0.12, 1.0, False),
    "netflix": (4, 5, 0.12, 1.0, False),
    "ml1m": (4, 5, 0.25, 1.0, False),
    "world": (4, 5, 1.0, 1.0, False),
    "sparse": (5, 10, 1.0, 1.0, True),
}
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
CARVES = (
    "old",
    "one1",
    "one2",
    "one3",
    "fifth",
    "none",
    "none2",
    "none3",
    "oldlean",
    "onelean",
    "fifthlean",
)  # none: truth, three times
ORDER = ("none", "old", "oldlean", "fifthlean", "none2", "onelean", "none3", "one1", "fifth", "one2", "one3")
SCHEMES = {
    "old": "as the test, at most half",
    "oldlean": "as the test, at most half, users as in the test",
    "fifth": "at most a fifth",
    "fifthlean": "at most a fifth, users as in the test",
    "one1": "one pair",
    "onelean": "one pair, users as in the test",
    "three": "one pair, mean of three carves",
    "extrapolated": "extrapolated to no pairs taken",
}
WEIGHTS = ("plain", "equal", "items", "both")  # none; item-equal; by item counts as in test; by item and user counts
STRENGTHS = tuple(round(0.4 * n, 1) for n in range(6))
MOST_USERS = 4000  # measured, of each part


def compact(log: cp.Interactions, rows: NDArray[np.bool_]) -> cp.Interactions:
    """These rows as a log of its own."""
    users, user = np.unique(log.user_ix[rows], return_inverse=True)
    items, item = np.unique(log.item_ix[rows], return_inverse=True)
    ids = np.arange(len(users)), np.arange(len(items))
    return cp.Interactions(user.astype(np.int32), item.astype(np.int32), *ids)


def source(name: str, seed: int) -> cp.Interactions:
    """What a pseudo-test is drawn from: train of a data set, thinned, or a world."""
    _, least, users, items, _ = DATA[name]
    if name in ("world", "sparse"):
        shape = (3000, 1000) if name == "world" else (4000, 4000)
        log = cp.make_world(*shape, mean_activity=25, seed=seed).log
    else:
        with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as file:
            user, item, part = file["user"], file["item"], file["split"]
        keep = part <= (1 if name in ("ml10m", "netflix") else 0)
        order = np.lexsort((item[keep], user[keep]))
        ids = np.arange(user.max() + 1), np.arange(item.max() + 1)
        log = cp.Interactions(user[keep][order], item[keep][order], *ids)
    draw = np.random.default_rng([seed, 910])
    kept_users, kept_items = draw.random(log.n_users) < users, draw.random(log.n_items) < items
    log = compact(log, kept_users[log.user_ix] & kept_items[log.item_ix])
    for _ in range(20):  # every item must be able to give its share, as in the real data
        enough = log.item_counts[log.item_ix] >= least
        if enough.all():
            break
        log = compact(log, enough)
    return log


def draw_test(log: cp.Interactions, number: int, leaning: bool, draw: np.random.Generator) -> NDArray[np.bool_]:
    """This many rows of every item; `leaning`: by the square of how many pairs the user has."""
    key = draw.standard_exponential(len(log)) / log.user_counts[log.user_ix].astype(float) ** (2 if leaning else 0)
    return first_of_items(log, key, np.full(log.n_items, number))


def first_of_items(log: cp.Interactions, key: NDArray[np.float64], quota: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The `quota[i]` rows of each item i with the smallest keys, as a mask."""
    order = np.lexsort((key, log.item_ix))
    starts = np.concatenate([[0], np.cumsum(log.item_counts)])[:-1]
    place = np.arange(len(log)) - starts[log.item_ix[order]]
    taken = np.zeros(len(log), dtype=bool)
    taken[order[place < quota[log.item_ix[order]]]] = True
    return taken


def quota_of(carve: str, have: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """(I,) how many pairs of each item a carve takes."""
    carve = carve.removesuffix("lean")
    if carve == "old":
        return np.where(have > 2, np.minimum(number, have // 2), 0)
    if carve == "fifth":
        return np.where(have > 1, np.minimum(number, -(-have // 5)), 0)
    return np.where(have > 1, 1 if carve.startswith("one") else 0, 0)


def leaning_of(rest: cp.Interactions, test: cp.Interactions) -> NDArray[np.float64]:
    """(U,) how readily each user's pairs were drawn into the test: a power of their number, by trying draws."""
    whole = cp.join(rest, test)
    size = np.log(np.maximum(whole.user_counts, 1))
    wanted = size[test.user_ix].mean()
    chance = np.random.default_rng(913).standard_exponential(len(whole))
    low, high = -4.0, 4.0
    for _ in range(12):
        power = (low + high) / 2
        drawn = first_of_items(whole, chance / np.exp(power * size)[whole.user_ix], test.item_counts)
        low, high = (power, high) if size[whole.user_ix[drawn]].mean() < wanted else (low, power)
    return np.maximum(rest.user_counts, 0.5) ** power


def classes(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts in classes: 1, 2, 3, 4, then each about 1.4 times as wide as the one before."""
    return np.floor(2 * np.log2(np.maximum(counts, 0.5))).astype(np.int64) + 2


def rake(base: NDArray[np.float64], sides: list[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Weights with which `base` has, on each side, the wanted share of every class."""
    weight = np.ones(len(base))
    for _ in range(30):
        for group, wanted in sides:
            have = np.bincount(group, base * weight, minlength=len(wanted))
            weight *= (wanted / np.maximum(have, 1e-12))[group]
    return weight


def side_of(held_count: Any, test_count: Any, test_base: NDArray[np.float64]) -> tuple[Any, NDArray[np.float64]]:
    """The class of each validation pair, and the share of each class in test; sparse classes join the next below."""
    have, want = classes(held_count), classes(test_count)
    edges = [c for c in np.unique(have) if (have == c).sum() >= 20] or [0]
    group = np.maximum(np.searchsorted(edges, have, side="right") - 1, 0)
    target = np.maximum(np.searchsorted(edges, want, side="right") - 1, 0)
    return group, np.bincount(target, test_base, minlength=len(edges)) / test_base.sum()


def weigh(
    train: cp.Interactions, held: cp.Interactions, rest: cp.Interactions, test: cp.Interactions
) -> dict[str, Any]:
    """How much each validation pair counts, by each way of weighing."""
    base, test_base = 1 / held.user_counts[held.user_ix], 1 / test.user_counts[test.user_ix]
    items = side_of(train.item_counts[held.item_ix], rest.item_counts[test.item_ix], test_base)
    users = side_of(train.user_counts[held.user_ix], rest.user_counts[test.user_ix], test_base)
    ways = {
        "plain": np.ones(len(held)),
        "equal": 1 / held.item_counts[held.item_ix],
        "items": rake(base, [items]),
        "both": rake(base, [items, users]),
    }
    return {name: (way / way.mean()).astype(np.float32) for name, way in ways.items()}


def configs(name: str) -> list[dict[str, Any]]:
    epochs = 30 if name in ("gowalla", "ml10m", "ml1m", "netflix") else 40
    made = [{"loss": loss, "negative_power": power, "dim": 32} for loss in ("bpr", "bce") for power in POWERS]
    return [one | {"epochs": epochs, "lr": 0.2} for one in made]


def run_cells(name: str, seed: int, out: Path, minutes: float) -> None:
    """Trains and measures what the file lacks, until the time is over."""
    started = time.time()
    done = {line_key(json.loads(line)) for line in out.read_text().splitlines()} if out.exists() else set()
    number, _, _, _, leaning = DATA[name]
    log = source(name, seed)
    taken = draw_test(log, number, leaning, np.random.default_rng([seed, 911]))
    rest, test = log.rows(~taken), log.rows(taken)
    print(name, seed, log, np.percentile(rest.item_counts, [5, 25, 50, 75, 95]), file=sys.stderr)
    for carve, (n, config) in itertools.product(ORDER, enumerate(configs(name))):
        key = (name, seed, carve, n)
        if key in done or (name == "gowalla" and config["negative_power"] in (0.25, 0.75)):
            continue
        if time.time() - started > 60 * minutes:
            return
        draw = np.random.default_rng([seed, 912, CARVES.index(carve)])
        chance = draw.standard_exponential(len(rest))
        if carve.endswith("lean"):
            chance /= leaning_of(rest, test)[rest.user_ix]
        held_rows = first_of_items(rest, chance, quota_of(carve, rest.item_counts, number))
        train, held = (rest, test) if carve.startswith("none") else (rest.rows(~held_rows), rest.rows(held_rows))
        ways = {"plain": None} if carve.startswith("none") else weigh(train, held, rest, test)
        settings = Settings(**config, threads=2, seed=seed + 100 * CARVES.index(carve))
        trainee = begin(Start(train, settings))
        for epoch in range(1, settings.epochs + 1):
            trainee.epoch(scheduled(settings, epoch))
        model = trainee.model()
        directions = find_directions(model, train)
        users = np.flatnonzero(held.user_counts).astype(np.int32)
        users = np.sort(draw.permutation(users)[:MOST_USERS])
        grids = {}
        for way, weight in ways.items():
            part = held if weight is None else replace(held.rows(weight > 0), weight=weight[weight > 0])
            known = users[part.user_counts[users] > 0]
            options = {"item_strengths": STRENGTHS, "user_strengths": STRENGTHS, "users": known, "threads": 2}
            grid = cp.search_strengths(model.embeddings, directions, train, part, exposure=False, **options)
            grids[way] = grid.values["recall"].round(5).tolist()
        record = {"data": name, "seed": seed, "carve": carve, "n": n, "config": config, "grids": grids}
        record["pairs"] = len(held)
        with out.open("a") as file:
            file.write(json.dumps(record) + "\n")


def line_key(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["data"], record["seed"], record["carve"], record["n"]


Cells = dict[tuple[str, int], dict[str, Any]]  # by carve and model
Regret = tuple[float, float]  # of strengths, and of model and strengths together; shares of the best recall


def values_of(cells: Cells, carve: str, way: str, n: int) -> NDArray[np.float64]:
    """A model's recall at every pair of strengths, as a scheme sees it."""
    if carve == "three":
        return np.mean([values_of(cells, f"one{k}", way, n) for k in (1, 2, 3)], axis=0)
    if carve == "extrapolated":  # to a carve of no pairs, by a line through the old carve and one pair of each item
        small, large = (cells[name, n]["pairs"] for name in ("one1", "old"))
        near, far = (values_of(cells, name, way, n) for name in ("one1", "old"))
        return near + (near - far) * small / (large - small)
    return np.array(cells[carve, n]["grids"][way])


def regret(cells: Cells, truth: list[NDArray[np.float64]], models: list[int], carve: str, way: str) -> Regret:
    """What is lost by choosing strengths for each model, on average, and by choosing the model with its strengths."""
    seen = [values_of(cells, carve, way, n) for n in models]
    at = [np.unravel_index(values.argmax(), values.shape) for values in seen]
    best, chosen = max(t.max() for t in truth), int(np.argmax([values.max() for values in seen]))
    strengths = np.mean([(t.max() - t[a]) / best for t, a in zip(truth, at, strict=True)])
    return float(strengths), float((best - truth[chosen][at[chosen]]) / best)


def regrets(records: list[dict[str, Any]]) -> dict[tuple[str, str], dict[tuple[str, int], Regret]]:
    """The regrets of every scheme on every pseudo-test that has all it needs."""
    found: dict[tuple[str, str], dict[tuple[str, int], Regret]] = {}
    for key in sorted({(r["data"], r["seed"]) for r in records}):
        cells: Cells = {(r["carve"], r["n"]): r for r in records if (r["data"], r["seed"]) == key}
        models = sorted({n for carve, n in cells if carve == "none"})
        times = [carve for carve in CARVES if carve.startswith("none") and all((carve, n) in cells for n in models)]
        truth = [np.mean([values_of(cells, carve, "plain", n) for carve in times], axis=0) for n in models]
        for carve, way in itertools.product(SCHEMES, WEIGHTS):
            try:
                found.setdefault((carve, way), {})[key] = regret(cells, truth, models, carve, way)
            except KeyError:
                continue  # not all cells are there yet
    return found


def table(records: list[dict[str, Any]]) -> str:
    """Regret of strengths / of model and strengths, in % of the best recall, as means over pseudo-tests."""
    found = regrets(records)
    names = [name for name in DATA if any(key[0] == name for keys in found.values() for key in keys)]
    lines = [f"| carve | weights | {' | '.join(names)} | all |", "|---" * (len(names) + 3) + "|"]
    for (carve, way), keys in found.items():
        cells = [mean_of([value for key, value in keys.items() if key[0] == name]) for name in names]
        lines.append(
            f"| {SCHEMES[carve]} | {way} | {' | '.join(cells)} | {mean_of(list(keys.values()), spread=True)} |"
        )
    return "\n".join(lines)


def mean_of(values: list[Regret], spread: bool = False) -> str:
    if not values:
        return ""
    both = 100 * np.array(values)
    text = " / ".join(f"{mean:.1f}" for mean in both.mean(axis=0))
    return f"{text} ({len(values)}" + (f", sd {both[:, 1].std():.1f})" if spread else ")")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=list(DATA))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--out", type=Path, default=Path("validation.jsonl"))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    run_cells(options.data, options.seed, options.out, options.minutes)


if __name__ == "__main__":
    main()
