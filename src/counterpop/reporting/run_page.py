"""The page about runs: what each recommends as trained, and with popularity removed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from counterpop.auditing import GROUP_RULE
from counterpop.encoding import to_json
from counterpop.ledger import GradientPicture, gradient_picture
from counterpop.metrics.resampling import PER_USER
from counterpop.reporting import figures, findings
from counterpop.reporting.findings import SIGNIFICANT, RunReport
from counterpop.reporting.first_screen import SIDES, gain_price_pair, glance, movers
from counterpop.reporting.glossary import GLOSSARY, words
from counterpop.reporting.item_sections import category_sections, moved_sections, user_sections
from counterpop.reporting.page import Section, compose, definitions, missing, panel, panels, wide
from counterpop.reporting.settings_tried import CHOOSERS, settings_tried
from counterpop.reporting.tables import LABELS, html_contrasts, html_measures, html_points, html_table

BIAS = (
    "A recommender learns from what people chose, but people can only choose from what they are shown. Popular items "
    "are shown more, so they end up being recommended more than people’s tastes justify."
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
    "Removing more finds more on even pairs (the gain) and less on ordinary pairs (the price). The line joins the "
    f"pairs of strengths that no other pair beats in both. {GLOSSARY['Named points']}"
)


def render_runs(reports: Sequence[RunReport], title: str) -> str:
    """The whole page as HTML: first the first run, then all of them."""
    reports = findings.labelled(reports)
    subject = reports[0]
    sections = [
        *user_sections(reports),
        *moved_sections(reports),
        *category_sections(reports),
        groups_section(reports),
        _frequency(reports),
        comparison_section(reports),
        strengths_section(reports),
        *settings_tried(reports),
        _training(reports),
        _gradients(reports),
        definitions_section(reports),
    ]
    found = subject.evaluation
    kicker = f"{escape(subject.name)}, measured on the {findings.PARTS[found.on]} part"
    if len(reports) > 1:
        kicker += f"; compared below with {', '.join(escape(r.name) for r in reports[1:])}"
    return compose(findings.headline(found), intro_of(subject), first_screen(subject), sections, kicker, title)


def intro_of(report: RunReport) -> str:
    """What plain and adjusted are, and what the adjustment does to a list."""
    return f"{SIDES} {findings.explanation(report)}"


def first_screen(report: RunReport) -> str:
    """Gain and price, one chart, and the titles that gain and lose most."""
    found, truth = report.evaluation, ""
    if report.truth is not None:
        plain, adjusted = (f"{100 * report.truth[kind]:.1f} %" for kind in ("plain", "adjusted"))
        change = plain if plain == adjusted else f"<strong>{plain} → {adjusted}</strong>"
        truth = (
            f'<p class="fact">True favourites found: {change}. This world is synthetic, so what its users truly like '
            "most is known.</p>"
        )
    chart = frontier_panel(report) or panel(
        "What is recommended, by popularity", "", figures.exposure_by_group(found, report.item_counts)
    )
    titles = ""
    if findings.is_adjusted(found):
        titles = movers(report.catalogue, found.plain.exposure, found.adjusted.exposure, len(found.plain.users))
    return gain_price_pair(found) + truth + glance(chart, titles)


def frontier_panel(report: RunReport) -> str:
    """The frontier of gain against price with its named points; nothing if the run was tuned without a price."""
    told = report.tuning or {}
    if not told.get("frontier") or not told.get("points") or report.grid is None:
        return ""
    strengths = report.evaluation.item_strength, report.evaluation.user_strength
    used = next((n for n, p in told["points"].items() if (p["item_strength"], p["user_strength"]) == strengths), None)
    own = "measured on validation pairs, so the figures differ from those above"
    where = "" if "uniform" in told else own  # debias has no other pairs
    figure = figures.frontier(told, _bases(report), used)
    return panel("How much to remove is a choice: gain against price", where, figure)


def _bases(report: RunReport) -> tuple[float, float]:
    """The plain value of the target where the frontier's line was measured, and where its points were."""
    told = report.tuning or {}
    target = told.get("target", "recall")
    own = report.grid.at(0.0, 0.0)[target] if report.grid is not None else 0.0
    return own, told.get("uniform", {}).get("plain", {}).get(target, own)


def comparison_section(reports: Sequence[RunReport]) -> Section:
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
        "All numbers",
        "Every model plain and adjusted. In the chart, hollow marks are plain and "
        "filled ones adjusted. Higher means that more of what users chose later is found; further left means less "
        "popular. Thin lines and small numbers are 95&nbsp;% intervals.",
        panels([panel("Popularity against recall", "", figures.trade_off(reports))])
        + wide("Comparison", html_measures(reports))
        + f'<p class="lead">{note}</p>'
        + wide("Differences", html_contrasts(found)),
    )


def groups_section(reports: Sequence[RunReport]) -> Section:
    shown = figures.same_scale([figures.exposure_by_group(r.evaluation, r.item_counts) for r in reports])
    found = figures.same_scale([figures.recall_by_group(r.evaluation) for r in reports])
    body = []
    for r, exposure, recall in zip(reports, shown, found, strict=True):
        name = escape(r.name) if len(reports) > 1 else ""
        body += [panel("What is recommended", name, exposure), panel("What is found", name, recall)]
    return Section(
        "Which items get recommended",
        f"{GROUP_RULE} First, each group’s share of all recommendations, beside its share of the interactions the "
        "model learned from. Then, the share of each group’s held-out pairs that the lists find. Thin lines are "
        "95&nbsp;% intervals.",
        panels(body),
        "By popularity",
    )


def _frequency(reports: Sequence[RunReport]) -> Section:
    drawn = []
    for r in reports:
        exposures = {kind.capitalize(): measures.exposure for kind, measures in findings.sides(r.evaluation).items()}
        drawn.append(figures.frequency_by_rank(exposures, len(r.evaluation.plain.users), r.item_counts))
    names = [escape(r.name) if len(reports) > 1 else "" for r in reports]
    pairs = zip(names, figures.same_scale(drawn), strict=True)
    shown = [panel("Frequency by popularity", name, figure) for name, figure in pairs]
    return Section("How often an item is recommended", FREQUENCY, panels(shown), "How often")


def _gradients(reports: Sequence[RunReport]) -> Section:
    shown = []
    for r in reports:
        name = escape(r.name)
        if r.ledger is None:
            shown.append(missing(name, "kept no ledger of its training, so these charts are left out."))
            continue
        shown += gradient_panels(gradient_picture(r.ledger), r.item_counts, name)
    return Section("Where the popularity comes from", GRADIENTS, panels(shown), "Ledger")


def gradient_panels(picture: GradientPicture, item_counts: NDArray[np.int64], name: str = "") -> list[str]:
    return [
        panel("Direction", name, figures.gradient_cosines(picture, item_counts)),
        panel("Size", name, figures.gradient_norms(picture, item_counts)),
    ]


def strengths_section(reports: Sequence[RunReport], more: str = "") -> Section:
    """The frontier, its named points and the map of all pairs of strengths."""
    shown, tables = [], ""
    for n, r in enumerate(reports):
        name = escape(r.name) if len(reports) > 1 else ""
        if r.grid is None:
            shown.append(missing(escape(r.name), "has no grid of strengths: they were given, or not tuned."))
            continue
        told, target = r.tuning or {}, (r.tuning or {}).get("target", "recall")
        why = "has no frontier of gain against price: it was tuned without an ordinary part, or without proof."
        chart = frontier_panel(r) or missing(escape(r.name), why)
        shown += [chart] if n or "missing" in chart else []  # that of the first run is at the top of the page
        metrics = list(r.grid.values)
        first = target if target in metrics else metrics[0]
        figure = figures.strength_grid(r.grid, (r.evaluation.item_strength, r.evaluation.user_strength), first)
        choices = [escape(LABELS.get(metric, metric)) for metric in metrics]
        shown.append(panel("Every pair of strengths", name, figure, choices, metrics.index(first)))
        if told.get("points"):
            base = _bases(r)[1] if target in findings.ACCURACY else None
            tables += wide(f"Named points, {escape(r.name)}", html_points(told["points"], base))
    notes = [
        f"<li>{escape(f'{r.name}: {text}')}</li>"
        for r in reports
        for text in ((r.tuning or {}).get("sentence"), *(r.tuning or {}).get("warnings", ()))
        if text
    ]
    return Section(
        "How much to remove",
        f"{POINTS} The chart is at the top of this page. All of it is measured on validation pairs, never on test: the "
        "line on the users that strengths were chosen on, which flatters it a little, the named points on users they "
        "were not chosen on, with 95&nbsp;% intervals. In the map, each cell is one pair of strengths. At 0, 0 the "
        f"model is plain. At 1 a direction is removed completely; above 1 it changes sign. {more}",
        panels(shown) + tables + (f"<ul>{''.join(notes)}</ul>" if notes else ""),
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
    return Section("Training", "The loss of every epoch, and the validation metrics if measured.", panels(shown))


def definitions_section(reports: Sequence[RunReport]) -> Section:
    """The glossary and the settings."""
    body = definitions(words()) + "".join(_settings(report) for report in reports)
    return Section("What the words mean", "Every word and number on this page.", body, "Definitions")


def _settings(report: RunReport) -> str:
    rows = [
        (escape(str(name)), [escape(value if isinstance(value, str) else to_json(value))])
        for name, value in report.settings.items()
        if name not in CHOOSERS
    ]
    body = html_table((), rows, "settings") if rows else "<p>None were recorded.</p>"
    return f"<details><summary>Settings and versions: {escape(report.name)}</summary>{body}</details>"
