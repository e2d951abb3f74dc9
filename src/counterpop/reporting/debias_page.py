"""The page of a debiasing: what is gained, on whom, at what price, and how to use it."""

from __future__ import annotations

from html import escape

from counterpop.debiasing import Debiasing, Effect
from counterpop.evaluation import Evaluation
from counterpop.reporting import figures
from counterpop.reporting.page import Section, Tile, card, cards, compose, panel, panels, wide
from counterpop.reporting.tables import LABELS, format_figure, format_interval, format_p

INTRO = (
    "A model that was trained elsewhere, as it is and with popularity taken out of its query vectors. Half "
    "of the users chose how much to take out; the figures are those of the other half."
)
USE = """<pre><code>import counterpop as cp
fix = cp.load_adjustment("FOLDER")           # this page lies in it
query = fix.query(user_vectors)              # send these to the index you have
query = fix.query(user_vectors, 0.3, 0.0)    # or turn the dial: item strength, user strength</code></pre>"""


def render_debiasing(found: Debiasing, name: str) -> str:
    """The whole page as text."""
    sections = [_effects(found), _dial(found), _groups(found), *_segments(found), _use(found)]
    return compose("Is there popularity to take out?", INTRO, cards([_card(found, escape(name))]), sections)


def _card(found: Debiasing, name: str) -> str:
    label = LABELS[found.target].lower()
    pair = f"item strength {found.tried[0]}, user strength {found.tried[1]}"
    proof = found.uniform.proof(found.target)
    if found.gained:
        heading = f"Yes: take it out, at {pair}"
        text = f"On held-out pairs that hold every item about equally often, {label} is better ({proof})."
    elif found.unproven:
        heading = "Not proven: leave the vectors as they are"
        text = (
            f"The best that was tried, {pair}, looks better in {label} on users who took no part in the "
            f"choice, but chance may explain it ({proof}), so the strengths are 0. More users may tell."
        )
    else:
        heading = "No: leave the vectors as they are"
        text = (
            f"The best that was tried, {pair}, is no better in {label} on users who took no part in the "
            "choice, so the strengths are 0."
        )
    if found.price:
        text += f" {found.price}"
    if found.in_sample:
        text += (
            " The held-out pairs were in the log that the model was trained on: the choice carries over, but "
            "the figures are too high. A later log (--holdout) gives true ones."
        )
    if found.sample is not None:
        text += f" With so many items, a random sample of at most {found.sample:,} users stands for each half."
    tiles = [_tile(title, effect, found) for title, effect in _parts(found)]
    tiles.append(_tile("Popularity, every item alike", found.uniform, found, "average_popularity"))
    return card(name, heading, escape(text), tiles)


def _parts(found: Debiasing) -> list[tuple[str, Effect]]:
    return [("Every item alike", found.uniform), ("Pairs as they come", found.ordinary)]


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
        f"Before and after at the strengths tried ({found.tried[0]} item, {found.tried[1]} user), with "
        "95&nbsp;% intervals. First on held-out pairs drawn so that every item counts about the same, then "
        "on pairs as they come, which favour what was popular already.",
        wide("The effect in numbers", table),
    )


def _dial(found: Debiasing) -> Section:
    metrics = list(found.grid.values)
    shown = [
        panel("The whole trade-off", "", figures.debias_curve(found)),
        panel(
            "Every pair of strengths",
            "every item alike",
            figures.strength_grid(found.grid, found.tried, found.target),
            [LABELS[metric] for metric in metrics],
            metrics.index(found.target),
        ),
    ]
    floors = ", ".join(f"{name} at least {share:g} of the plain model's" for name, share in found.floor.items())
    return Section(
        "Choosing the dial",
        f"Every point is one of {found.grid.values[found.target].size} pairs of strengths, measured on the "
        "users who choose. To the right: more recall on pairs as they come. Up: more of what was asked for "
        "on pairs that hold every item alike. The line joins the points that no other beats in both; "
        f"all of them are in curve.parquet beside this page. Floor: {escape(floors) or 'none'}.",
        panels(shown),
    )


def _groups(found: Debiasing) -> Section:
    pair = Evaluation(
        found.k, "valid", *found.tried, found.uniform.plain, found.uniform.adjusted, found.uniform.comparison
    )
    return Section(
        "Who gets the recommendations",
        "Items sorted by popularity: four groups of 5&nbsp;% of the items each, then the rest. How much of "
        "all recommendations goes to each group, and how much of what was held out of it is found.",
        panels(
            [
                panel("What is recommended", "", figures.exposure_by_group(pair, found.item_counts)),
                panel("What is found", "every item alike", figures.recall_by_group(pair)),
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
        "head-taste": "the share of their interactions in popular items",
    }[kinds.by]
    return [
        Section(
            "Strengths by segment",
            f"Users in three parts by {meaning}. Against one pair for all, "
            f"{LABELS[found.target].lower()} changes by {change} "
            f"({format_p(row['p_value']).replace('<', '&lt;')}) on users who took no part in the choice.",
            wide("Strengths by segment", f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"),
        )
    ]


def _use(found: Debiasing) -> Section:
    return Section(
        "How to use it",
        "The item vectors and the index that serves them stay as they are; only the query changes. Any "
        "language can do it: adjustment.json beside this page holds two directions q (items) and p (users) "
        "and two strengths a and b. Of a user vector u take b (u·p) p, and of what is left, v, a (v·q) q.",
        wide("How to use it, in Python", USE),
    )
