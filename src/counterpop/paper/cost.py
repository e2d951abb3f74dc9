"""Table IV: seconds per epoch."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, TIMED_EPOCHS, title_of
from counterpop.paper.published import BACKBONES, OURS, PLAIN, TIMED
from counterpop.paper.results import Claim, Item, Table, judge, judge_similar
from counterpop.paper.runs import Bench
from counterpop.uncertainty import RESAMPLES, Spread

DATASETS = ("ml10m", "netflix")
CHEAP = 0.10  # more than plain training that we still call comparable; the paper has at most 9 %
THEIR_NEGATIVES = 4  # for each seen item, in DICE as its authors set it
TIME_STREAM = 705
SECTION = "V-C2, RQ1(c)"
CASES = len(BACKBONES) * len(DATASETS)


def make_table4(bench: Bench) -> Item:
    """Seconds per epoch and their ratio to plain training, next to the published ones."""
    missing: dict[str, list[str]] = {}
    machines: dict[str, None] = {}
    negatives: set[int] = set()
    timed: dict[tuple[str, str, str], list[float]] = {}
    for backbone, dataset, method in itertools.product(BACKBONES, DATASETS, TIMED):
        try:
            bench.plan.check(backbone, method)
            record = bench.timed(dataset, bench.plan.settings(backbone, method))
        except cp.InputError as error:
            title = f"{BACKBONE_TITLES[backbone]} {title_of(method)}, {TITLES[dataset]}"
            missing.setdefault(str(error), []).append(title)
            continue
        if method == "dice":
            negatives.add(record["settings"]["negatives"])
        on = record["machine"]
        names = f"{', '.join(on['processors'])} ({on['cores']} cores)"
        machines[f"{BACKBONE_TITLES[backbone]} with {record['settings']['device']} on {names}"] = None
        timed[backbone, dataset, method] = record["epochs"]
    spreads = {place: spread_of(seconds, n) for n, (place, seconds) in enumerate(timed.items())}
    rows = [_row(place, spreads) for place in itertools.product(BACKBONES, DATASETS, TIMED)]
    table = Table(
        "Seconds per epoch, here and on the paper's V100",
        ("Backbone", "Data set", "Method", "Seconds", "times plain", "V100 seconds", "V100 times plain"),
        [
            [BACKBONE_TITLES[r["backbone"]], TITLES[r["dataset"]], title_of(r["method"]), *list(r.values())[3:]]
            for r in rows
        ],
        (
            f"Timed: {'; '.join(machines) or 'nothing'}. The median of {TIMED_EPOCHS['mf'] - 1} epochs of MF or "
            f"{TIMED_EPOCHS['lightgcn'] - 1} of LightGCN after a warm-up epoch, with the default settings and without "
            "the time spent measuring validation; intervals from epochs drawn again. They do not cover other programs "
            "that share the machine.",
            "Ratios on the V100 are as printed. For MACR with MF on Netflix, the printed seconds give 1.13.",
        ),
    )
    return Item(
        "table4",
        "Table IV: cost of training",
        "What a method adds to the time of an epoch.",
        (table,),
        (),
        tuple(_claims(spreads, max(negatives, default=THEIR_NEGATIVES))),
        tuple(r for r in rows if r["seconds"] is not None),
        tuple(f"{'; '.join(titles)}: {why}." for why, titles in missing.items()),
    )


def spread_of(seconds: list[float], stream: int) -> Spread:
    """The median of epochs, with draws of the epochs."""
    values = np.array(seconds)
    drawn = np.random.default_rng([TIME_STREAM, stream]).integers(0, len(values), (RESAMPLES, len(values)))
    return Spread(float(np.median(values)), np.median(values[drawn], axis=1))


def _row(place: tuple[str, str, str], spreads: dict[tuple[str, str, str], Spread]) -> dict[str, Any]:
    backbone, dataset, method = place
    n = DATASETS.index(dataset)
    theirs = published.SECONDS[backbone, method][n]
    own, plain = spreads.get(place), spreads.get((backbone, dataset, PLAIN))
    ratio: Any = None
    if own and plain:
        over = own.over(plain)
        ratio = 1.0 if method == PLAIN else Spread(1 + over.mean, 1 + over.draws).to_json()
    return {
        "backbone": backbone,
        "dataset": dataset,
        "method": method,
        "seconds": own and own.to_json(),
        "ratio": ratio,
        "published_seconds": theirs,
        "published_ratio": 1.0 if method == PLAIN else published.RATIOS[backbone, method][n],
    }


def _claims(spreads: dict[tuple[str, str, str], Spread], negatives: int) -> list[Claim]:
    def longer(first: str, second: str) -> tuple[dict[str, Spread], dict[str, float]]:
        ours, theirs = {}, {}
        for backbone, (n, dataset) in itertools.product(BACKBONES, enumerate(DATASETS)):
            a, b = (spreads.get((backbone, dataset, method)) for method in (first, second))
            if a and b:
                case = f"{BACKBONE_TITLES[backbone]} {TITLES[dataset]}"
                ours[case] = a.over(b)
                printed = [published.SECONDS[backbone, method][n] for method in (first, second)]
                theirs[case] = printed[0] / printed[1] - 1
        return ours, theirs

    text = "An epoch of the method takes about as long as one of plain training."
    claims = [judge_similar(SECTION, text, longer(OURS, PLAIN)[0], CHEAP, of=CASES)]
    claims.append(judge(SECTION, "MACR takes longer than the method.", *longer("macr", OURS), of=CASES))
    twice = {case: Spread(one.mean - 1, one.draws - 1) for case, one in longer("dice", OURS)[0].items()}
    of_dice = (
        judge(SECTION, "DICE takes more than twice as long as the method (shown: beyond twice).", twice, of=CASES),
        judge(SECTION, "DICE is always slower than MACR.", *longer("dice", "macr"), of=CASES),
    )
    return [*claims, *(_with_fewer_negatives(claim, negatives) for claim in of_dice)]


def _with_fewer_negatives(claim: Claim, negatives: int) -> Claim:
    """A DICE that draws fewer negatives than its authors' is cheaper than theirs, so it denies nothing about theirs."""
    if negatives >= THEIR_NEGATIVES:
        return claim
    why = (
        f" Negatives for each seen item: {negatives} here, {THEIR_NEGATIVES} as DICE's authors set it, which is slower."
    )
    verdict = "cannot tell" if claim.verdict == "not seen" else claim.verdict
    return replace(claim, verdict=verdict, evidence=claim.evidence + why)
