"""The page about runs: what each recommends as trained and with popularity taken out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from counterpop.auditing import DEFINITIONS, GROUP_RULE
from counterpop.evaluation import PER_USER
from counterpop.ledger import gradient_picture
from counterpop.reporting import figures
from counterpop.reporting.findings import (
    SIGNIFICANT,
    RunReport,
    are_comparable,
    contrasts,
    explanation,
    headline,
    is_left_alone,
    own_contrasts,
    sides,
    verdict,
)
from counterpop.reporting.page import (
    Section,
    Tile,
    card,
    cards,
    compose,
    definitions,
    folded,
    missing,
    panel,
    panels,
    wide,
)
from counterpop.reporting.tables import LABELS, format_figure, format_p, html_contrasts, html_measures

PERCENT = "\u00a0%"
INTRO = (
    "A recommender learns from what people chose, and people choose among what they are shown. Popular "
    "items are shown more, so they come to be recommended beyond anybody’s taste. This page says how much "
    "of that is in a model as trained (plain), and what its lists are worth once it has been taken out "
    "(adjusted)."
)
DEFINED = (
    (
        "Recall@k",
        "Of a user’s held-out items, the share that is among the k recommended: hits / number of "
        "held-out items. Mean over users who have at least one.",
    ),
    ("Hit rate@k", "1 if any held-out item is among the k recommended, else 0. Mean over the same users."),
    (
        "NDCG@k",
        "Hits count more the higher they stand: DCG = sum of 1 / log2(rank + 1) over the hits, "
        "divided by the DCG of a perfect list of min(k, held-out items) hits. Mean over the same users.",
    ),
    *(
        (DEFINITIONS[name].label, DEFINITIONS[name].text)
        for name in ("average_popularity", "tail_share", "coverage", "gini")
    ),
    ("The log", "Popularity is counted in what the model was trained on."),
    (
        "Popularity groups",
        f"{GROUP_RULE} Recall of a group: hits in it / held-out pairs in it, over all users together.",
    ),
    (
        "Strengths",
        "How much of the popular direction is taken out of item vectors, and of the conformity "
        "direction out of user vectors: v − strength (v · d) d for a unit vector d.",
    ),
    (
        "Pull and push",
        "The sums, over all training steps, of what lifted an item as a seen one and of what "
        "lowered it as a negative one. The whole is pull + push, the push with its minus sign.",
    ),
    (
        "Intervals and p",
        "95 % intervals by bootstrap over users. p by a paired randomisation test: how often "
        "differences with random signs have a mean at least as far from zero.",
    ),
)


def render_runs(reports: Sequence[RunReport], title: str) -> str:
    """The whole page as text."""
    sections = (_comparison, _groups, _frequency, _gradients, _strengths, _training, _defined)
    first = cards([_card(report) for report in reports])
    return compose(title, INTRO, first, [section(reports) for section in sections])


def _card(report: RunReport) -> str:
    return card(escape(report.name), headline(report), explanation(report), _tiles(report))


def _tiles(report: RunReport) -> list[Tile]:
    """The few numbers of the first screen, before and after."""
    found, mean = report.evaluation, float(report.item_counts.mean())
    before, after = (m.average_popularity / mean if mean else 0.0 for m in (found.plain, found.adjusted))
    row = found.comparison["recall"]
    points = [100 * row[name] for name in ("difference", "low", "high")]
    change = (
        f": {points[0]:+.1f} points ({points[1]:+.1f} to {points[2]:+.1f}), {format_p(row['p_value'])}, "
        f"{verdict('recall', row)}"
    )
    tiles = [
        Tile(
            "Popularity",
            _change(f"{before:.1f}", f"{after:.1f}"),
            f"times as many interactions as an average item has ({mean:,.1f})",
        ),
        Tile(
            "From the tail",
            _change(*(format_figure("tail_share", m.tail_share) for m in (found.plain, found.adjusted))),
            "of recommendations are items outside the first 80&nbsp;% of interactions",
        ),
        Tile(
            "Choices found",
            _change(*(_percent(m.recall) for m in (found.plain, found.adjusted))),
            f"recall@{found.k} on {found.on}{'' if is_left_alone(found) else change}",
        ),
    ]
    if report.truth is not None:
        shown = _change(*(_percent(report.truth[kind]) for kind in ("plain", "adjusted")))
        tiles.append(Tile("True favourites found", shown, "known here, because this world is made up"))
    return tiles


def _percent(share: float) -> str:
    return f"{100 * share:.1f}{PERCENT}"


def _change(before: str, after: str) -> str:
    """Both figures, or one where they are the same; the sign of a share is shown once."""
    return before if before == after else f"{before.removesuffix(PERCENT)} → {after}"


def _comparison(reports: Sequence[RunReport]) -> Section:
    found = [*own_contrasts(reports), *contrasts(reports)]
    number = len(found) * len(PER_USER)
    apart = [escape(r.name) for r in reports[1:] if not are_comparable(r, reports[0])]
    alone = (
        f" {', '.join(apart)}: not compared with {escape(reports[0].name)}, because users, held-out pairs or k differ."
        if apart
        else ""
    )
    body = (
        panels([panel("Popularity against recall", "", figures.trade_off(reports))])
        + wide("Comparison", html_measures(reports))
        + '<p class="lead">Differences with their 95&nbsp;% interval. “Improved”, “worse”, “higher” and '
        "“lower” "
        f"are said only where p &lt; {SIGNIFICANT}; the p-values are not corrected for the {number} "
        f"comparisons of this table, of which chance alone would make about {number * SIGNIFICANT:.1g} look "
        f"so.{alone}</p>" + wide("Differences", html_contrasts(found))
    )
    return Section(
        "Comparison",
        "Every run as trained (plain) and with popularity taken out (adjusted). In the figure hollow is "
        "plain and filled adjusted; up finds more of what users chose later, left is less popular. Thin "
        "lines and small figures are 95&nbsp;% intervals.",
        body,
    )


def _groups(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        name = escape(r.name)
        shown.append(panel("What is recommended", name, figures.exposure_by_group(r.evaluation, r.item_counts)))
        shown.append(panel("What is found", name, figures.recall_by_group(r.evaluation)))
    return Section(
        "Who gets the recommendations",
        "Items sorted by popularity: four groups of 5&nbsp;% of the items each, then the rest. First, how "
        "much of all recommendations goes to each group, beside its share of the interactions the model "
        "learned from. Then, how much of what was held out of each group the lists find. Thin lines are "
        "95&nbsp;% intervals.",
        panels(shown),
    )


def _frequency(reports: Sequence[RunReport]) -> Section:
    return Section(
        "How often an item is recommended",
        "Share of users to whom an item is recommended, from the most popular item on the left to the least "
        "popular on the right. The steeper the fall, the more popularity decides. Both axes are logarithmic; "
        "points are means over neighbouring ranks, and a gap means never.",
        panels(
            panel(
                "Frequency by popularity",
                escape(r.name),
                figures.frequency_by_rank(
                    {kind.capitalize(): measures.exposure for kind, measures in sides(r.evaluation).items()},
                    len(r.evaluation.plain.users),
                    r.item_counts,
                ),
            )
            for r in reports
        ),
    )


def _gradients(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        name = escape(r.name)
        if r.ledger is None:
            shown.append(missing(name, "kept no ledger of its training, so this picture is left out."))
            continue
        picture = gradient_picture(r.ledger)
        shown.append(panel("Direction", name, figures.gradient_cosines(picture, r.item_counts)))
        shown.append(panel("Size", name, figures.gradient_norms(picture, r.item_counts)))
    return Section("Where the popularity comes from", GRADIENTS, panels(shown))


GRADIENTS = (
    "While training, an item is pulled towards the users who chose it and pushed away from users for whom "
    "it was drawn as an example of something not chosen. The nearer a cosine is to 1, the more that part "
    "decides where the sum of both points."
)


def _strengths(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        if r.grid is None:
            why = "has no grid of strengths (they were given, or not tuned)."
            shown.append(missing(escape(r.name), why))
            continue
        metrics = list(r.grid.values)
        first = "recall" if "recall" in metrics else metrics[0]
        figure = figures.strength_grid(r.grid, (r.evaluation.item_strength, r.evaluation.user_strength), first)
        choices = [escape(LABELS.get(metric, metric)) for metric in metrics]
        shown.append(panel("Every pair of strengths", escape(r.name), figure, choices, metrics.index(first)))
    return Section(
        "How strongly to adjust",
        "Each cell is one pair of strengths, measured on the validation part, never on the test part. At "
        "0, 0 the model is as trained; at 1 a direction is taken out; beyond 1 it is turned round.",
        panels(shown),
    )


def _training(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        name = escape(r.name)
        if not r.history:
            shown.append(missing(name, "has no training history."))
            continue
        shown.append(panel("Loss", name, figures.training_loss(r.history)))
        validation = figures.validation_curve(r.history)
        if validation is not None:
            shown.append(panel("Validation", name, validation))
    lead = "The loss of every epoch, and validation metrics where they were measured."
    return Section("Training", lead, panels(shown))


def _defined(reports: Sequence[RunReport]) -> Section:
    body = definitions(DEFINED) + "".join(_settings(report) for report in reports)
    return Section("How the numbers are defined", "Every word and figure of this page.", body)


def _settings(report: RunReport) -> str:
    rows = ""
    for name, value in report.settings.items():
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        rows += f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(shown)}</td></tr>'
    body = f'<table class="settings"><tbody>{rows}</tbody></table>' if rows else "<p>None were recorded.</p>"
    return folded(f"Settings and versions: {escape(report.name)}", body)
