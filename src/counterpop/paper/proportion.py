"""How the method does as test data go from observed to intervened, against plain models tuned for either end."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.paper.cache import Record
from counterpop.paper.datasets import whole
from counterpop.paper.plan import METRIC_TITLES, ORDINARY, PROPORTIONS
from counterpop.paper.published import METRICS, OURS, PLAIN
from counterpop.paper.results import Claim, Figure, Item, Table, judge, show
from counterpop.paper.runs import Bench, draws_of, figures_of, resolve
from counterpop.uncertainty import Spread, over_seeds

DATASET = "ml10m"
MIX_STREAM = 701
STARTS = 0.75  # the share of intervened pairs from which the paper's method wins
SECTION = "V-C5, RQ3(b)"
LINES = {
    "plain": "plain, chosen on intervened pairs",
    "ordinary": "plain, chosen on observed pairs",
    "fixed": "gradient, strengths chosen at 100 % intervened",
    "chosen": "gradient, strengths chosen for each proportion",
}


def make_proportion(bench: Bench) -> Item:
    """MF, plain and with the gradient method, as the test part goes from observed to intervened."""
    lead = (
        "ML-10M split again, MF: test parts of the same size, for the same train part. A share of each is drawn as if "
        "all items had been shown equally often, the rest as observed. Validation is mixed in the same proportion. One "
        "plain model is chosen for intervened pairs, as in Table III, and one for pairs as they are observed."
    )
    title = "Proportion of intervened test data"
    try:
        bench.plan.check("mf", OURS)
        plain, gradient = (bench.choose(DATASET, "mf", method).settings for method in (PLAIN, OURS))
        records = [measure_mixtures(bench, plain, gradient, seed) for seed in bench.plan.all_seeds]
    except cp.InputError as error:
        return Item("proportion", title, lead, missing=(f"ML-10M, MF: {error}.",))
    at = {
        (n, line, m): over_seeds([r[line][n][m] for r in records], [r[line][n]["draws"][m] for r in records], line)
        for n in range(len(PROPORTIONS))
        for line in LINES
        for m in METRICS
    }
    rows: list[dict[str, Any]] = []
    for n, p in enumerate(PROPORTIONS):
        for line in LINES:
            figures = {m: at[n, line, m].to_json() for m in METRICS}
            strengths = [record[line][n].get("strengths") for record in records]
            rows.append(
                {
                    "proportion": p,
                    "line": line,
                    **figures,
                    "strengths": strengths if line in ("fixed", "chosen") else [],
                }
            )
    table = Table(
        "ML-10M, MF",
        ("Intervened", "Method", *METRIC_TITLES.values(), "Strengths item / user"),
        [
            [
                f"{r['proportion']:.0%}",
                LINES[r["line"]],
                *(r[m] for m in METRICS),
                ", ".join(f"{a:g} / {b:g}" for a, b in r["strengths"]),
            ]
            for r in rows
        ],
        (
            f"{ORDINARY:.0%} of the observed part of train is held out for choosing what suits observed pairs, so "
            "these figures differ from table3.",
        ),
    )
    recall = {(n, line): at[n, line, "recall"] for n in range(len(PROPORTIONS)) for line in LINES}
    series = [
        {
            "name": name,
            "x": [100 * p for p in PROPORTIONS],
            "y": [recall[n, line].mean for n in range(len(PROPORTIONS))],
        }
        for line, name in LINES.items()
    ]
    caption = "Recall@20 by proportion, ML-10M, MF"
    figure = Figure(caption, "lines", "% of test drawn by intervention", "Recall@20", series)
    tables = (table, _crossings(recall))
    return Item("proportion", title, lead, tables, (figure,), tuple(_claims(recall)), tuple(rows))


def measure_mixtures(bench: Bench, plain: Mapping[str, Any], gradient: Mapping[str, Any], seed: int) -> Record:
    """Both methods on test parts of which a growing share was drawn by intervention.

    Train and validation are the same throughout. The strengths are chosen once, on the intervened validation part
    ("fixed"), and again for each proportion on a validation part of that proportion, made of intervened pairs and of
    pairs held out as they were observed ("chosen"). "ordinary" is plain training searched over the same candidates,
    with settings and epochs chosen on pairs held out as they were observed.
    """
    candidates = [one | {"seed": seed} for one in bench.plan.search("mf", PLAIN)]
    plain, gradient = (dict(one) | {"seed": seed} for one in (plain, gradient))

    def make() -> Record:
        log = whole(bench.split(DATASET))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cp.CounterpopWarning)
            splits = [cp.split_mixed(log, p, seed=seed, ordinary=ORDINARY) for p in PROPORTIONS]
        known = splits[0].development
        observed = known if known.ordinary is None else replace(known, valid=known.ordinary, ordinary=known.valid)
        runs = {
            "plain": bench.train(DATASET, known, plain, refit=False),
            "ordinary": _best_on(bench, observed, candidates),
            "fixed": bench.train(DATASET, known, gradient, refit=False),
        }
        models = {line: bench.tune(run, known).tuned for line, run in runs.items()}
        record: Record = {line: [] for line in LINES}
        for p, split in zip(PROPORTIONS, splits, strict=True):
            held = mix(known.valid, observed.valid, p, seed)
            own = bench.tune(runs["fixed"], replace(known, valid=held, ordinary=None)).tuned
            strengths = own.item_strength, own.user_strength
            for line, model in (models | {"chosen": models["fixed"].with_strengths(*strengths)}).items():
                found = bench.tools.measure(model, split)
                at = model.item_strength, model.user_strength
                record[line].append({**figures_of(found.to_json()), "draws": draws_of(found), "strengths": at})
        return record

    key = bench.key("mixed", DATASET, gradient)
    key |= {"plain": resolve(plain), "candidates": [resolve(one) for one in candidates]}
    return bench.cache.get(key | {"mix": [PROPORTIONS, ORDINARY]}, make)


def _best_on(bench: Bench, known: cp.Development, candidates: list[dict[str, Any]]) -> cp.Run:
    """The candidate with the best recall on the validation part."""
    best, best_recall = None, -1.0
    for settings in candidates:
        run = bench.train(DATASET, known, settings, refit=False)
        fitted = bench.tune(run, known)
        recall = fitted.grid.at(fitted.tuned.item_strength, fitted.tuned.user_strength)["recall"]
        if recall > best_recall:
            best, best_recall = run, recall
    assert best is not None
    return best


def mix(intervened: cp.Interactions, observed: cp.Interactions, share: float, seed: int) -> cp.Interactions:
    """Pairs of two disjoint parts of one log, `share` of them from the first; as many pairs as the smaller part has."""
    size = min(len(intervened), len(observed))
    first = round(share * size)
    draw = np.random.default_rng([seed, MIX_STREAM])
    return cp.join(
        *(
            part.rows(np.sort(draw.permutation(len(part))[:number]))
            for part, number in ((intervened, first), (observed, size - first))
        )
    )


def crossing(differences: list[Spread]) -> Spread | None:
    """The proportion at which a difference first rises above 0, between the measured ones; None if it never does.

    A draw that is above 0 throughout counts as 0, and one that never is as 1.
    """
    values = np.stack([one.draws for one in differences])
    means = np.array([[one.mean] for one in differences])
    if means.max() <= 0:
        return None
    return Spread(float(_first_above(means)[0]), _first_above(values), min(one.seeds for one in differences))


def _first_above(values: np.ndarray) -> np.ndarray:
    """(R,) for each column of (P, R)."""
    shares = np.array(PROPORTIONS)
    found = np.where(values[0] > 0, 0.0, 1.0)
    for n in range(len(shares) - 1, 0, -1):
        below, above = values[n - 1], values[n]
        crosses = (below <= 0) & (above > 0)
        rise = np.where(crosses, above - below, 1.0)
        found = np.where(crosses, shares[n - 1] + (shares[n] - shares[n - 1]) * -below / rise, found)
    return found


def _differences(recall: dict[tuple[int, str], Spread], line: str, other: str) -> list[Spread]:
    return [recall[n, line].minus(recall[n, other]) for n in range(len(PROPORTIONS))]


def _crossings(recall: dict[tuple[int, str], Spread]) -> Table:
    rows = []
    for line in ("fixed", "chosen"):
        for other in ("plain", "ordinary"):
            differences = _differences(recall, line, other)
            at = crossing(differences)
            rows.append(
                [LINES[line], LINES[other], *(one.to_json() for one in differences), at.to_json() if at else "never"]
            )
    columns = ("Line", "less", *(f"at {p:.0%}" for p in PROPORTIONS), "first above at a share of")
    return Table("Where the lines cross: difference in recall", columns, rows)


def _claims(recall: dict[tuple[int, str], Spread]) -> list[Claim]:
    text = f"The method starts to be better than plain MF at {STARTS:.0%} of intervened test pairs."
    verdicts, shown = [], []
    for other, name in (("ordinary", "observed"), ("plain", "intervened")):
        differences = dict(zip(PROPORTIONS, _differences(recall, "fixed", other), strict=True))
        starts = [p for p, one in differences.items() if one.low > 0]
        verdicts.append(judge_start(starts, [p for p, one in differences.items() if one.high < 0]))
        steps = "; ".join(f"{p:.0%} {show(one, '')}" for p, one in differences.items())
        shown.append(f"less that of a plain model chosen on {name} pairs: {steps}")
    evidence = (
        f"Recall {shown[0]}. The paper does not say what its MF was chosen on; {shown[1]}, and the verdict would be: "
        f"{verdicts[1]}."
    )
    claim = Claim(SECTION, text, verdicts[0], evidence)
    leads = _differences(recall, "fixed", "ordinary")
    last = len(PROPORTIONS) - 1
    growth = {f"100 % against {p:.0%}": leads[last].minus(leads[n]) for n, p in enumerate(PROPORTIONS) if n < last}
    return [claim, judge(SECTION, "Its lead is largest at 100 %.", growth, unit="")]


def judge_start(above: list[float], below: list[float]) -> Any:
    """The verdict on where the method starts to win, from the proportions at which it surely does and surely does not.

    >>> judge_start([0.75, 0.9, 1.0], [0.0, 0.5]), judge_start([0.5, 0.75, 0.9, 1.0], [0.0]), judge_start([1.0], [0.75])
    ('confirmed', 'stronger', 'weaker')
    >>> judge_start([], [1.0]), judge_start([0.9, 1.0], [0.0, 0.5]), judge_start([0.5], [0.0])
    ('not seen', 'cannot tell', 'cannot tell')
    """
    if not above:
        return "not seen" if 1.0 in below else "cannot tell"
    if any(p not in above for p in PROPORTIONS if p > min(above)):
        return "cannot tell"  # once it wins, it must keep winning
    if min(above) < STARTS:
        return "stronger"
    if min(above) > STARTS:
        return "weaker" if STARTS in below else "cannot tell"
    return "confirmed" if all(p in below for p in PROPORTIONS if p < STARTS) else "cannot tell"
