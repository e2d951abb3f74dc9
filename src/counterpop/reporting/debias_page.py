"""The page about a debiasing: the gain, its price, and how to use the adjustment."""

from __future__ import annotations

from html import escape

from counterpop.debiasing import Debiasing, Effect
from counterpop.evaluation import Evaluation
from counterpop.reporting import figures
from counterpop.reporting.page import Section, Tile, card, cards, compose, panel, panels, wide
from counterpop.reporting.tables import LABELS, format_figure, format_interval, format_p

INTRO = (
    "A model trained elsewhere, as it is and with popularity removed from its query vectors. How much to remove was "
    "tuned on half of the users; the figures are for the other half."
)
USE = """<pre><code>import counterpop as cp
fix = cp.load_adjustment("FOLDER")           # the folder of this page
query = fix.query(user_vectors)              # send these to the index you already have
query = fix.query(user_vectors, 0.3, 0.0)    # or choose item strength and user strength</code></pre>"""


def render_debiasing(found: Debiasing, name: str) -> str:
    """The whole page as text."""
    sections = [_effects(found), _dial(found), _groups(found), *_segments(found), _use(found)]
    return compose("Is there popularity to remove?", INTRO, cards([_card(found, escape(name))]), sections)


def _card(found: Debiasing, name: str) -> str:
    tiles = [_tile(title, effect, found) for title, effect in _parts(found)]
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
    columns = "".join(f'<th scope="col">{label}</th>' for label in LABELS.values())
    body = ""
    for title, effect in _parts(found):
        for kind, measures in (("plain", effect.plain), ("adjusted", effect.adjusted)):
            cells = "".join(
                f"<td>{format_figure(m, getattr(measures, m))}"
                f"<small>{format_interval(m, *measures.intervals[m])}</small></td>"
                for m in LABELS
            )
            body += f'<tr class="{kind}"><th scope="row">{title}<small>{kind}</small></th>{cells}</tr>'
        cells = "".join(
            f"<td>{format_figure(m, row['difference'], True)}<small>{format_p(row['p_value'])}</small></td>"
            if (row := effect.comparison.get(m))
            else "<td></td>"
            for m in LABELS
        )
        body += f'<tr><th scope="row">{title}<small>difference</small></th>{cells}</tr>'
    table = f'<table><thead><tr><th scope="col">Pairs</th>{columns}</tr></thead><tbody>{body}</tbody></table>'
    return Section(
        "The effect in numbers",
        f"Before and after at the best strengths ({found.tried[0]} item, {found.tried[1]} user), with 95&nbsp;% "
        "intervals: on uniform held-out pairs, which hold every item about equally often, and on ordinary ones, which "
        "favour items that are popular already.",
        wide("The effect in numbers", table),
    )


def _dial(found: Debiasing) -> Section:
    metrics = list(found.grid.values)
    shown = [
        panel("The whole trade-off", "", figures.debias_curve(found)),
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
        f"Every point is one of {found.grid.values[found.target].size} pairs of strengths, measured on the tuning "
        "users: recall on ordinary pairs to the right, the target on uniform pairs upwards. The line joins the points "
        "that no other point beats in both. All points are in curve.parquet, in the folder of this page. "
        f"Floor: {escape(floors) or 'none'}.",
        panels(shown),
    )


def _groups(found: Debiasing) -> Section:
    pair = Evaluation(
        found.k, "valid", *found.tried, found.uniform.plain, found.uniform.adjusted, found.uniform.comparison
    )
    return Section(
        "Who gets the recommendations",
        "Items sorted by popularity: four groups of 5&nbsp;% of the items each, then the rest. The share of all "
        "recommendations that goes to each group, and the recall of its held-out pairs.",
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
    bounds = [f"from {b:.3g}" for b in kinds.bounds]
    rows = "".join(
        f'<tr><th scope="row">{where}</th><td>{item}</td><td>{user}</td></tr>'
        for where, (item, user) in zip(["below", *bounds], kinds.strengths, strict=True)
    )
    columns = ("Users", "Item strength", "User strength")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
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
            wide("Strengths by segment", f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"),
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
