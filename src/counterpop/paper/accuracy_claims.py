"""What the paper claims of accuracy, and what our runs say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.cells import Cell
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, METRIC_TITLES, title_of
from counterpop.paper.published import BACKBONES, DATASETS, METHODS, METRICS, OURS, OVER_ALL_USERS, PLAIN
from counterpop.paper.results import OWN, Claim, but, judge, judge_cases, show
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread, average

SECTION = "V-B, RQ1(a)"
LITTLE = 0.05  # a gain over plain that we call limited
NEAR = 0.05  # how far below its published figure a baseline may be
Places = dict[tuple[str, str, str], Cell]

EXACT = Claim(
    "II, Eq. 2",
    "A user's list depends on the lengths of item vectors and their cosines with the user's, not on the user's length.",
    "confirmed",
    "By algebra, nothing to measure: the user's length is a factor of all scores of a list.",
)
DOMINATED = (
    "Table I has the counts that this is derived from; what each group adds to the vectors is not measured separately."
)
NO_NUMBER = "No number follows from it that could be measured."
UNMEASURED = (
    (
        "I, III",
        "Item popularity, user activity and user conformity cause the bias.",
        "No experiment separates the three.",
    ),
    ("VI", "Unequal positive and negative gradients of the same item cause the bias.", "Figure 1 has no causes."),
    ("III, IV-C2", "Active users dominate item vectors; popular items and other users shape user vectors.", DOMINATED),
    ("I", "Earlier methods need complex designs or strong assumptions, and do not generalise.", NO_NUMBER),
    ("I, IV", "The adjustment is simple, explainable and interpretable.", NO_NUMBER),
    (
        "Abstract, V-B",
        "It fits most recommenders.",
        "Two backbones are measured here; docs/debias.md has models of other packages.",
    ),
    ("V-B", "DICE and MACR need prior knowledge and much tuning; DICE's rules are sensitive to the data.", NO_NUMBER),
    (
        "VI",
        "Reweighting overfits and varies much, transferred knowledge adds noise, auxiliary data are scarce, reranking "
        "costs accuracy.",
        NO_NUMBER,
    ),
)


def lead(first: Cell | None, second: Cell | None, metric: str) -> Spread | None:
    """By which share a row is above another; None if either is missing or the second is 0."""
    a, b = (cell.spread(metric) if cell else None for cell in (first, second))
    return a.over(b) if a and b and b.mean > 0 else None


def _leads(at: Places, first: str, second: str, metrics: Sequence[str], datasets: Sequence[str] = DATASETS) -> Any:
    """Our and the published leads of one method over another, by case."""
    ours, theirs = {}, {}
    for backbone in BACKBONES:
        for dataset in datasets:
            for metric in metrics:
                pair = [at.get((backbone, dataset, method)) for method in (first, second)]
                found = lead(pair[0], pair[1], metric)
                if found:
                    case = f"{BACKBONE_TITLES[backbone]} {TITLES[dataset]} {METRIC_TITLES[metric]}"
                    printed = [published.table3(backbone, dataset, method)[metric] for method in (first, second)]
                    ours[case], theirs[case] = found, printed[0] / printed[1] - 1
    return ours, theirs


def judge_claims(bench: Bench, cells: list[Cell]) -> list[Claim]:
    """Every claim of the paper about accuracy, with its verdict, and our own checks."""
    at = {(cell.backbone, cell.dataset, cell.method): cell for cell in cells}
    places = len(BACKBONES) * len(DATASETS)
    claims = [_too_popular(at, _popular_in_test(bench), places), _above_others(at, places * len(METRICS))]
    claims += [_mean_gain(at, backbone) for backbone in BACKBONES]
    second = [_leads(at, "dice", "macr", METRICS, OVER_ALL_USERS), _leads(at, "macr", "dice", METRICS, DATASETS[2:])]
    text = (
        "DICE and MACR are not consistent (by its Table III: DICE is the better of the two on ML-10M and Netflix, MACR "
        "on Adressa and Gowalla)."
    )
    every = places * len(METRICS)
    claims.append(judge(SECTION, text, second[0][0] | second[1][0], second[0][1] | second[1][1], of=every))
    gains, _ = _leads(at, "cause", PLAIN, ("recall",))
    text = (
        f"CausE gains little over plain training or is worse (here: less than {LITTLE:.0%}; shown: how far its gain "
        "stays below that)."
    )
    claims.append(judge(SECTION, text, {case: replace_sign(gain, LITTLE) for case, gain in gains.items()}, of=places))
    ours, theirs = dict[str, Any](), dict[str, Any]()
    for other in ("dice", "macr"):
        for into, leads in zip((ours, theirs), _leads(at, other, "ips", ("recall",)), strict=True):
            into |= {f"{case}, {title_of(other)}": one for case, one in leads.items()}
    text = "IPS does poorly in most cases (we read: its recall is below those of DICE and of MACR, as in Table III)."
    claims.append(judge(SECTION, text, ours, theirs, most=True, of=2 * places))
    claims += _of_ips(at, places)
    claims += [Claim(where, text, "cannot tell", why) for where, text, why in UNMEASURED]
    return [EXACT, *claims, *_own_checks(cells)]


def _popular_in_test(bench: Bench) -> dict[str, float]:
    """The share of test pairs that popular items have, by data set."""
    shares = {}
    for name in (name for name in DATASETS if name in bench.paths):
        split = bench.split(name)
        known = split.development
        train = known.refit_train() if split.manifest.carved is not None else known.train
        shares[name] = float(cp.head(train.item_counts)[split.test.item_ix].mean())
    return shares


def _too_popular(at: Places, popular: dict[str, float], places: int) -> Claim:
    """The bias itself: what plain training recommends against what even test pairs show that users like."""
    found = {}
    for backbone in BACKBONES:
        for dataset, share in popular.items():
            cell = at.get((backbone, dataset, PLAIN))
            rest = cell.popularity("tail_share") if cell else None
            if rest:
                over = replace(rest, mean=1 - rest.mean - share, draws=1 - rest.draws - share)
                found[f"{BACKBONE_TITLES[backbone]} {TITLES[dataset]}"] = over
    text = (
        "Popular items are recommended too much (we read: their share of plain training's lists is above that of "
        "test pairs; shown: by how much)."
    )
    return judge("I", text, found, unit="", of=places)


def _above_others(at: Places, every: int) -> Claim:
    """The paper's main claim, about all other methods at once; the evidence also has each of them."""
    ours, theirs, each = dict[str, Spread](), dict[str, float](), list[str]()
    others = [method for method in METHODS if method != OURS]
    for other in others:
        leads, printed = _leads(at, OURS, other, METRICS)
        ours |= {f"{case}, {title_of(other)}": one for case, one in leads.items()}
        theirs |= {f"{case}, {title_of(other)}": one for case, one in printed.items()}
        if leads:
            held = sum(one.low > 0 for one in leads.values())
            mean, published_mean = average(list(leads.values())), sum(printed.values()) / len(printed)
            each.append(
                f"{title_of(other)} {held} of {len(leads)}, {show(mean)}, published {100 * published_mean:+.1f} %"
            )
    text = "The gradient method is above every other method in every metric, on every data set and backbone."
    claim = judge(f"Abstract, {SECTION}, VII", text, ours, theirs, of=every * len(others))
    return replace(claim, evidence=f"{claim.evidence}{but('By method', each)}")


def _of_ips(at: Places, places: int) -> list[Claim]:
    """What the paper says of unpopular items under IPS, which only weights like its own could settle."""
    texts = {
        ("V-B", "tail_share", None): (
            "IPS makes a model recommend unpopular items too readily (we read: they have a larger share of its lists "
            "than of plain's)."
        ),
        ("VI", "recall", 4): (
            "Reweighting serves rare items better (we read: IPS finds more of the least popular 80 % of items than "
            "plain)."
        ),
    }
    settings = [cell.records[0]["settings"] for key, cell in at.items() if key[2] == "ips" and cell.records]
    powers = sorted({one["options"]["power"] for one in settings})
    claims = []
    for (section, name, group), text in texts.items():
        claim = judge(section, text, _more_than_plain(at, "ips", name, group), unit="", of=places)
        if powers and powers != [1.0]:
            shown = " or ".join(f"{power:g}" for power in powers)
            why = f" Our weights have a power of {shown}, the paper's 1, so theirs may do otherwise."
            claim = replace(claim, verdict="cannot tell", evidence=claim.evidence + why)
        claims.append(claim)
    return claims


def _more_than_plain(at: Places, method: str, name: str, group: int | None = None) -> dict[str, Spread]:
    """A popularity figure of a method less that of plain training, by place."""
    found = {}
    for backbone in BACKBONES:
        for dataset in DATASETS:
            pair = [at.get((backbone, dataset, one)) for one in (method, PLAIN)]
            first, second = (cell.popularity(name, group) if cell else None for cell in pair)
            if first and second:
                found[f"{BACKBONE_TITLES[backbone]} {TITLES[dataset]}"] = first.minus(second)
    return found


def replace_sign(gain: Spread, limit: float) -> Spread:
    """How far a gain stays below a limit."""
    return replace(gain, mean=limit - gain.mean, draws=limit - gain.draws)


def _mean_gain(at: Places, backbone: str) -> Claim:
    """The average gains over the plain backbone that the text quotes."""
    quoted = published.GAINS[backbone]
    effects, own_table, there = {}, [], []
    for metric in METRICS:
        leads = {d: lead(at.get((backbone, d, OURS)), at.get((backbone, d, PLAIN)), metric) for d in DATASETS}
        there = [dataset for dataset, one in leads.items() if one]
        known = [one for one in leads.values() if one]
        if known:
            effects[METRIC_TITLES[metric]] = average(known)
        pairs = [[published.table3(backbone, d, m)[metric] for m in (OURS, PLAIN)] for d in DATASETS]
        own_table.append(sum(a / b - 1 for a, b in pairs) / len(pairs))
    numbers = ", ".join(f"{quoted[m]:.2f} % ({METRIC_TITLES[m]})" for m in METRICS)
    text = f"Averaged over the data sets, the method raises {BACKBONE_TITLES[backbone]} by {numbers}."
    claim = judge(SECTION, text, effects, {METRIC_TITLES[m]: quoted[m] / 100 for m in METRICS})
    own = ", ".join(f"{100 * gain:.1f} %" for gain in own_table)
    shown = "; ".join(f"{name} {100 * one.mean:+.1f} %" for name, one in effects.items())
    more = (f" Ours: {shown}." if shown else "") + f" The cells of the paper's own Table III give {own}."
    if effects and len(there) < len(DATASETS):
        more += f" Only of {', '.join(TITLES[d] for d in there)}, so not the same average."
        claim = replace(claim, verdict="cannot tell")
    return replace(claim, evidence=claim.evidence + more)


def _own_checks(cells: list[Cell]) -> list[Claim]:
    own = [cell for cell in cells if cell.method == OURS]
    others = [cell for cell in cells if cell.method != OURS]
    checks = [
        (
            "Every figure of the gradient method is at or above the published one, over users with test items.",
            own,
            1.0,
            False,
        ),
        ("The same with ML-10M and Netflix over all users, as DICE averages.", own, 1.0, True),
        (
            f"Every other method has at least {1 - NEAR:.0%} of its published figures, over users with test items.",
            others,
            1 - NEAR,
            False,
        ),
        ("The same with ML-10M and Netflix over all users, as DICE averages.", others, 1 - NEAR, True),
    ]
    claims = []
    for text, among, least, over_all in checks:
        reached = against_published(among, least, over_all)
        below = [case for case, held in reached.items() if not held]
        total = len(among) * len(METRICS)
        held = len(reached) - len(below)
        evidence = f"{held} of the {len(reached)} figures we could make (of {total}).{but('Below', below)}"
        verdict = judge_cases(held, len(below), len(reached)) if len(reached) == total else "cannot tell"
        claims.append(Claim(OWN, text, verdict, evidence))
    return claims


def against_published(cells: Sequence[Cell], least: float, over_all: bool) -> dict[str, bool]:
    """Whether each figure that we could make reaches this share of the published one."""
    reached = {}
    for cell in cells:
        printed = published.table3(cell.backbone, cell.dataset, cell.method)
        share = cell.share_with_test if over_all and cell.dataset in OVER_ALL_USERS else 1.0
        for metric in METRICS:
            spread = cell.spread(metric)
            if spread is not None:
                mean = spread.mean * share
                case = f"{cell.title} {METRIC_TITLES[metric]} ({mean:.4f}, published {printed[metric]:.3f})"
                reached[case] = mean >= least * printed[metric]
    return reached
