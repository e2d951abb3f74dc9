"""The page about a debiasing: the gain, its price, and how to use the adjustment."""

from __future__ import annotations

from html import escape

from counterpop.auditing import GROUP_RULE
from counterpop.debiasing import Debiasing, Effect
from counterpop.evaluation import Evaluation
from counterpop.readers import Labels
from counterpop.reporting import figures
from counterpop.reporting.page import Section, Tile, card, cards, compose, panel, panels, wide
from counterpop.reporting.run_page import POINTS
from counterpop.reporting.tables import (
    LABELS,
    format_figure,
    format_interval,
    format_p,
    format_price,
    html_points,
    html_table,
)

INTRO = (
    "A model trained elsewhere, as it is and with popularity removed from its query vectors. How much to remove was "
    "tuned on half of the users; the figures are for the other half."
)
USE = """<pre><code>import counterpop as cp
fix = cp.load_adjustment("FOLDER")           # the folder of this page
query = fix.query(user_vectors)              # send these to the index you already have
query = fix.query(user_vectors, 0.3, 0.0)    # or choose item strength and user strength</code></pre>"""


def render_debiasing(found: Debiasing, name: str, labels: Labels | None = None) -> str:
    """The whole page as text."""
    sections = [_effects(found), _dial(found), _groups(found), *_segments(found), _use(found)]
    return compose("Is there popularity to remove?", INTRO, cards([_card(found, escape(name))]), sections)


def _card(found: Debiasing, name: str) -> str:
    tiles = [_tile(title, effect, found) for title, effect in _parts(found)]
    worth = found.points[found.point]
    price = format_price(worth.price, worth.price_low, worth.price_high)
    tiles[1] = tiles[1]._replace(note=f"{tiles[1].note}; price {price} of recall")
    tiles.append(_tile("Popularity, uniform pairs", found.uniform, found, "average_popularity"))
    return card(name, found.headline, escape(" ".join(found.sentences)), tiles)


def _parts(found: Debiasing) -> list[tuple[str, Effect]]:
    return [("Uniform pairs", found.uniform), ("Ordinary pairs", found.ordinary)]


def _tile(title: str, effect: Effect, found: Debiasing, metric: str | None = None) -> Tile:
    metric = metric or found.target
    before, after = (format_figure(metric, getattr(m, metric)) for m in (effect.plain, effect.adjusted))
    note = f"{LABELS[metric].lower()} of {len(effect.plain.users):,} users, lists of {found.k}"
    if metric in effect.comparison:
        row = effect.comparison[metric]
        change = format_interval(metric, row["low"], row["high"], signed=True)
        note += f"; difference {change}, {format_p(row['p_value'])}"
    return Tile(title, f"{before} → {after}", escape(note))


def _effects(found: Debiasing) -> Section:
    rows = []
    for title, effect in _parts(found):
        for kind, one in (("plain", effect.plain), ("adjusted", effect.adjusted)):
            cells = [
                f"{format_figure(m, getattr(one, m))}<small>{format_interval(m, *one.intervals[m])}</small>"
                for m in LABELS
            ]
            rows.append((f"{title}<small>{kind}</small>", cells))
        cells = [
            f"{format_figure(m, row['difference'], True)}<small>{format_p(row['p_value'])}</small>"
            if (row := effect.comparison.get(m))
            else ""
            for m in LABELS
        ]
        rows.append((f"{title}<small>difference</small>", cells))
    return Section(
        "The effect in numbers",
        f"Before and after at the strengths of the “{found.point}” point ({found.tried[0]} item, {found.tried[1]} "
        "user), with 95&nbsp;% intervals: on uniform held-out pairs, which hold every item about equally often, and on "
        "ordinary ones, which favour items that are popular already.",
        wide("The effect in numbers", html_table(["Pairs", *LABELS.values()], rows)),
    )


def _dial(found: Debiasing) -> Section:
    metrics, told = list(found.grid.values), found.to_json()
    shown = [
        panel("Gain against price", "", figures.frontier(told["frontier"], told["points"], found.target)),
        panel(
            "Every pair of strengths",
            "uniform pairs",
            figures.strength_grid(found.grid, found.tried, found.target),
            [LABELS[metric] for metric in metrics],
            metrics.index(found.target),
        ),
    ]
    floors = ", ".join(f"{name} at least {share:g} of the plain model's" for name, share in found.floor.items())
    return Section(
        "Choosing the strengths",
        f"{POINTS} The line is measured on the users whose pairs the strengths were tuned on, which flatters it a "
        f"little; the named points are measured on the other users, with 95 % intervals. You asked for "
        f"“{found.point}”. All {found.grid.values[found.target].size} pairs of strengths are in curve.parquet, in the "
        f"folder of this page. Floor: {escape(floors) or 'none'}.",
        panels(shown) + wide("Points of the frontier", html_points(found.points)),
    )


def _groups(found: Debiasing) -> Section:
    pair = Evaluation(
        found.k, "valid", *found.tried, found.uniform.plain, found.uniform.adjusted, found.uniform.comparison
    )
    return Section(
        "Who gets the recommendations",
        f"{GROUP_RULE} Each group’s share of all recommendations, and the share of its held-out pairs that is found.",
        panels(
            [
                panel("What is recommended", "", figures.exposure_by_group(pair, found.item_counts)),
                panel("What is found", "uniform pairs", figures.recall_by_group(pair)),
            ]
        ),
    )


def _segments(found: Debiasing) -> list[Section]:
    if found.segments is None or found.by_segment is None:
        return []
    kinds = found.segments
    names = ["below", *(f"from {bound:.3g}" for bound in kinds.bounds)]
    rows = [(name, map(str, pair)) for name, pair in zip(names, kinds.strengths, strict=True)]
    row = found.by_segment.comparison[found.target]
    change = format_figure(found.target, row["difference"], True)
    meaning = {
        "activity": "their number of interactions",
        "head-taste": "the share of popular items in their interactions",
    }[kinds.by]
    return [
        Section(
            "Strengths by segment",
            f"Users divided into thirds by {meaning}. Compared with one pair of strengths for all, "
            f"{LABELS[found.target].lower()} changes by {change} ({format_p(row['p_value']).replace('<', '&lt;')}) on "
            "users who were not used for tuning.",
            wide("Strengths by segment", html_table(("Users", "Item strength", "User strength"), rows)),
        )
    ]


def _use(found: Debiasing) -> Section:
    return Section(
        "How to use it",
        "The item vectors and the index that serves them stay as they are; only the query changes. This works in any "
        "language: adjustment.json, in the folder of this page, has the directions q (items) and p (users) and the "
        "strengths a and b. From a user vector u subtract b (u·p) p; from the result v subtract a (v·q) q.",
        wide("How to use it, in Python", USE),
    )
