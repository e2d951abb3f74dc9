"""The page about runs: what each recommends as trained, and with popularity removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from counterpop.auditing import DEFINITIONS, GROUP_RULE
from counterpop.encoding import to_json
from counterpop.evaluation import Evaluation
from counterpop.ledger import GradientPicture, gradient_picture
from counterpop.metrics.resampling import PER_USER
from counterpop.reporting import figures, findings
from counterpop.reporting.findings import SIGNIFICANT, RunReport
from counterpop.reporting.page import Section, Tile, card, cards, compose, definitions, missing, panel, panels, wide
from counterpop.reporting.settings_tried import CHOOSERS, settings_tried
from counterpop.reporting.tables import (
    LABELS,
    format_figure,
    format_p,
    format_price,
    html_contrasts,
    html_measures,
    html_table,
)

PERCENT = "\u00a0%"
BIAS = (
    "A recommender learns from what people chose, but people can only choose from what they are shown. Popular items "
    "are shown more, so they end up being recommended more than people’s tastes justify."
)
INTRO = (
    f"{BIAS} This page shows how strong that bias is in a model as trained (plain), and how good its lists are once "
    "the bias has been removed (adjusted)."
)
FREQUENCY = (
    "The share of users who are recommended an item, from the most popular item on the left to the least popular on "
    "the right. The steeper the fall, the more popularity decides. Both axes are logarithmic. Points are means over "
    "neighbouring ranks; a gap means never recommended."
)
GRADIENTS = (
    "During training, an item is pulled towards the users who chose it, and pushed away from users for whom it was "
    "sampled as an item they did not choose. The closer a cosine is to 1, the more that part decides the direction of "
    "the total."
)
POINTS = (
    "Removing more popularity finds more on pairs drawn evenly over items (the gain) and less on ordinary pairs, as "
    "traffic is today (the price). The line joins the pairs of strengths that no other pair beats in both. Three "
    "points have names: gain is the most gain at any price, balanced the most at a price of at most 5 % unless another "
    "limit was set, free the most without a significant loss."
)
DEFINED = (
    (
        "Recall@k",
        "The share of a user’s held-out items that are among the k recommended ones. Mean over users with at least one "
        "held-out item.",
    ),
    ("Hit rate@k", "1 if any held-out item is among the k recommended ones, otherwise 0. Mean over the same users."),
    (
        "NDCG@k",
        "Hits near the top count more: DCG = sum of 1 / log2(rank + 1) over the hits, divided by the DCG of a perfect "
        "list with min(k, held-out items) hits. Mean over the same users.",
    ),
    (
        "Two kinds of held-out pairs",
        "Even pairs hold every item about equally often: they show what would be found if every item were shown "
        "equally often. Ordinary pairs are drawn from the log as it is: they show what is found as traffic is today, "
        "which favours items that are popular already. "
        "After a refit, which trains on them, they are measured on the model before it, at the same strengths.",
    ),
    ("Gain", "How much the adjustment raises a metric, usually recall, on even pairs. Above 0 means better."),
    (
        "Price",
        "The share of recall on ordinary pairs that the adjustment loses. Above 0 it costs something; below 0 recall "
        "on ordinary pairs rises as well.",
    ),
    *(
        (DEFINITIONS[name].label, DEFINITIONS[name].text)
        for name in ("average_popularity", "tail_share", "coverage", "gini")
    ),
    ("The log", "Here the log is the data the model was trained on. Popularity is counted in it."),
    (
        "Popularity groups",
        f"{GROUP_RULE} Recall of a group: hits in the group / held-out pairs in the group, over all users together.",
    ),
    (
        "Strengths",
        "How much of the popular direction is removed from item vectors, and of the conformity direction from user "
        "vectors: v − strength (v · d) d for a unit vector d.",
    ),
    (
        "Pull and push",
        "Summed over all training steps: pull is what raised an item as a positive example, push is what lowered it "
        "as a negative one. The total is pull + push, where push is negative.",
    ),
    (
        "Intervals and p",
        "95 % intervals are bootstrapped over users. p comes from a paired randomisation test: how often differences "
        "with random signs have a mean at least as far from zero.",
    ),
)


def render_runs(reports: Sequence[RunReport], title: str) -> str:
    """The whole page as HTML."""
    sections = (_comparison, _groups, _frequency, _gradients, _strengths)
    first = cards([card(escape(r.name), findings.headline(r), findings.explanation(r), _tiles(r)) for r in reports])
    shown = [section(reports) for section in sections]
    return compose(title, INTRO, first, [*shown, *settings_tried(reports), _training(reports), _defined(reports)])


def _tiles(report: RunReport) -> list[Tile]:
    """The few numbers at the top of the page, before and after."""
    found, mean = report.evaluation, float(report.item_counts.mean())
    both = found.plain, found.adjusted
    times = [f"{m.average_popularity / mean if mean else 0.0:.1f}" for m in both]
    tail = (format_figure("tail_share", m.tail_share) for m in both)
    tiles = [
        Tile("Popularity", _change(*times), f"times the interactions of an average item ({mean:,.1f})"),
        Tile(
            "Tail items",
            _change(*tail),
            "of recommendations are not among the popular items (80&nbsp;% of interactions)",
        ),
        _recall_tile(found),
        *([_recall_tile(found.ordinary, found.price)] if found.ordinary else []),
    ]
    if report.truth is not None:
        shown = _change(*(_percent(report.truth[kind]) for kind in ("plain", "adjusted")))
        tiles.append(Tile("True favourites found", shown, "known here because this world is synthetic"))
    return tiles


def _recall_tile(found: Evaluation, price: Mapping[str, float] | None = None) -> Tile:
    """Recall before and after: the gain on the measured part, or on ordinary pairs the price."""
    note = f"recall@{found.k} on {found.on}{' pairs, before the refit' if found.before_refit else ''}"
    if findings.is_adjusted(found):
        row = found.comparison["recall"]
        change, low, high = (100 * row[name] for name in ("difference", "low", "high"))
        word = findings.verdict("recall", row)
        note += f": {change:+.1f} points ({low:+.1f} to {high:+.1f}), {format_p(row['p_value'])}, {word}"
        if price:
            note += f"; price {format_price(**price)}"
        elif found.gain:
            relative, low, high = (100 * found.gain[name] for name in ("change", "low", "high"))
            note += f"; gain {relative:+.1f}{PERCENT} ({low:+.1f} to {high:+.1f})"
    title = "Found if items were shown equally" if found.even else "Held-out choices found"
    shown = _change(*(_percent(m.recall) for m in (found.plain, found.adjusted)))
    return Tile("Found as traffic is today" if found.on == "ordinary" else title, shown, note)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}{PERCENT}"


def _change(before: str, after: str) -> str:
    """Both values, or one if they are the same; the percent sign is shown once."""
    return before if before == after else f"{before.removesuffix(PERCENT)} → {after}"


def _comparison(reports: Sequence[RunReport]) -> Section:
    found = [*findings.own_contrasts(reports), *findings.contrasts(reports)]
    number = len(found) * len(PER_USER)
    other = [escape(r.name) for r in reports[1:] if not findings.are_comparable(r, reports[0])]
    note = (
        "Differences, the first lists minus the second, with their 95&nbsp;% intervals. “Improved”, “worse”, “higher” "
        "and “lower” appear only where "
        f"p&nbsp;&lt;&nbsp;{SIGNIFICANT}. The p-values are not corrected for the {number} comparisons in this table, "
        f"about {number * SIGNIFICANT:.1g} of which would look significant by chance."
    )
    if other:
        first = escape(reports[0].name)
        note += f" {', '.join(other)}: not compared with {first}, because users, held-out pairs or k differ."
    return Section(
        "Comparison",
        "Every run as trained (plain) and with popularity removed (adjusted). In the chart, hollow marks are plain and "
        "filled ones adjusted. Higher means that more of what users chose later is found; further left means less "
        "popular. Thin lines and small numbers are 95&nbsp;% intervals.",
        panels([panel("Popularity against recall", "", figures.trade_off(reports))])
        + wide("Comparison", html_measures(reports))
        + f'<p class="lead">{note}</p>'
        + wide("Differences", html_contrasts(found)),
    )


def _groups(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        name = escape(r.name)
        shown.append(panel("What is recommended", name, figures.exposure_by_group(r.evaluation, r.item_counts)))
        shown.append(panel("What is found", name, figures.recall_by_group(r.evaluation)))
    return Section(
        "Which items get recommended",
        f"{GROUP_RULE} First, each group’s share of all recommendations, beside its share of the interactions the "
        "model learned from. Then, the share of each group’s held-out pairs that the lists find. Thin lines are "
        "95&nbsp;% intervals.",
        panels(shown),
    )


def _frequency(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        exposures = {kind.capitalize(): measures.exposure for kind, measures in findings.sides(r.evaluation).items()}
        figure = figures.frequency_by_rank(exposures, len(r.evaluation.plain.users), r.item_counts)
        shown.append(panel("Frequency by popularity", escape(r.name), figure))
    return Section("How often an item is recommended", FREQUENCY, panels(shown))


def _gradients(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        name = escape(r.name)
        if r.ledger is None:
            shown.append(missing(name, "kept no ledger of its training, so these charts are left out."))
            continue
        shown += gradient_panels(gradient_picture(r.ledger), r.item_counts, name)
    return Section("Where the popularity comes from", GRADIENTS, panels(shown))


def gradient_panels(picture: GradientPicture, item_counts: NDArray[np.int64], name: str = "") -> list[str]:
    return [
        panel("Direction", name, figures.gradient_cosines(picture, item_counts)),
        panel("Size", name, figures.gradient_norms(picture, item_counts)),
    ]


def _strengths(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        if r.grid is None:
            shown.append(missing(escape(r.name), "has no grid of strengths: they were given, or not tuned."))
            continue
        shown.append(_frontier(r))
        metrics = list(r.grid.values)
        first = "recall" if "recall" in metrics else metrics[0]
        figure = figures.strength_grid(r.grid, (r.evaluation.item_strength, r.evaluation.user_strength), first)
        choices = [escape(LABELS.get(metric, metric)) for metric in metrics]
        shown.append(panel("Every pair of strengths", escape(r.name), figure, choices, metrics.index(first)))
    notes = [
        f"<li>{escape(f'{r.name}: {text}')}</li>"
        for r in reports
        for text in ((r.tuning or {}).get("sentence"), *(r.tuning or {}).get("warnings", ()))
        if text
    ]
    return Section(
        "How strongly to adjust",
        f"{POINTS} All of it is measured on the validation part, never on the test part: the line on the users that "
        "strengths were chosen on, which flatters it a little, the named points on users they were not chosen on, with "
        "95&nbsp;% intervals. In the map, each cell is one pair of strengths. At 0, 0 the model is as trained. At 1 a "
        "direction is removed completely; above 1 it changes sign.",
        panels(shown) + (f"<ul>{''.join(notes)}</ul>" if notes else ""),
    )


def _frontier(report: RunReport) -> str:
    told = report.tuning or {}
    if not told.get("frontier") or not told.get("points"):
        why = "has no frontier of gain against price: it was tuned without an ordinary part, or without proof."
        return missing(escape(report.name), why)
    figure = figures.frontier(told["frontier"], told["points"], told.get("target", "recall"))
    return panel("Gain against price", escape(report.name), figure)


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
    return Section("Training", "The loss of every epoch, and the validation metrics if measured.", panels(shown))


def _defined(reports: Sequence[RunReport]) -> Section:
    body = definitions(DEFINED) + "".join(_settings(report) for report in reports)
    return Section("How the numbers are defined", "Every term and number on this page.", body)


def _settings(report: RunReport) -> str:
    rows = [
        (escape(str(name)), [escape(value if isinstance(value, str) else to_json(value))])
        for name, value in report.settings.items()
        if name not in CHOOSERS
    ]
    body = html_table((), rows, "settings") if rows else "<p>None were recorded.</p>"
    return f"<details><summary>Settings and versions: {escape(report.name)}</summary>{body}</details>"
