"""One self-contained HTML page about runs: the script that draws is inside, nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from counterpop.ledger import gradient_picture
from counterpop.reporting import figures
from counterpop.reporting.findings import RunReport, explanation, headline, verdict
from counterpop.reporting.tables import (
    LABELS,
    format_figure,
    format_interval,
    format_p,
    html_contrasts,
    html_measures,
)


def render_page(reports: Sequence[RunReport], title: str) -> str:
    """The whole page as text."""
    template = files("counterpop.reporting").joinpath("page.html").read_text(encoding="utf-8")
    sections = (_groups, _frequency, _gradients, _strengths, _training)
    return Template(template).substitute(
        title=escape(title),
        headlines="\n".join(map(_headline, reports)),
        measures=html_measures(reports),
        contrasts=html_contrasts(reports),
        sections="\n".join(section(reports) for section in sections),
        settings="\n".join(map(_settings, reports)),
        plotly=get_plotlyjs(),
    )


def _headline(report: RunReport) -> str:
    tiles = "\n".join(
        f'<div class="tile"><h3>{label}</h3><p class="figure">{before} → {after}</p><p>{note}</p></div>'
        for label, before, after, note in _tiles(report)
    )
    return (
        f'<section class="run"><p class="name">{escape(report.name)}</p><h2>{headline(report)}</h2>'
        f'<p class="lead">{explanation(report)}</p><div class="tiles">{tiles}</div></section>'
    )


def _tiles(report: RunReport) -> list[tuple[str, ...]]:
    """Label, plain figure, adjusted figure and a note for each of the few numbers of the first screen."""
    found, mean = report.evaluation, float(report.item_counts.mean())
    before, after = (m.average_popularity / mean if mean else 0.0 for m in (found.plain, found.adjusted))
    row = found.comparison["recall"]
    change = (
        f"{format_figure('recall', row['difference'], True)} "
        f"({format_interval('recall', row['low'], row['high'], True)}), {format_p(row['p_value'])}: "
        f"{verdict('recall', row)}"
    )
    notes = {
        "average_popularity": f"interactions of a recommended item, {before:.1f} → {after:.1f} times those "
        f"of an average item ({mean:,.1f})",
        "tail_share": "of recommendations are items outside the first 80&nbsp;% of interactions",
        "recall": change,
    }
    labels = ("Popularity", "From the tail", f"Recall@{found.k} on {found.on}")
    tiles = [
        (label, *(format_figure(m, getattr(side, m)) for side in (found.plain, found.adjusted)), note)
        for label, (m, note) in zip(labels, notes.items(), strict=True)
    ]
    if report.truth is not None:
        plain, adjusted = (f"{100 * report.truth[kind]:.1f}&nbsp;%" for kind in ("plain", "adjusted"))
        tiles.append(("True favourites found", plain, adjusted, "known here, because this world is made up"))
    return tiles


def _groups(reports: Sequence[RunReport]) -> str:
    panels = ""
    for r in reports:
        shares = figures.exposure_by_group(r.evaluation, r.item_counts)
        panels += _panel(r, "What is recommended", shares) + _panel(
            r, "What is found", figures.recall_by_group(r.evaluation)
        )
    return _section(
        "Who gets the recommendations",
        "Items sorted by popularity: four groups of 5&nbsp;% of the items each, then the rest. First, how "
        "much of all recommendations goes to each group, beside its share of the interactions the model "
        "learned from. Then, how much of what was held out of each group the lists find. Thin lines are "
        "95&nbsp;% intervals.",
        panels,
    )


def _frequency(reports: Sequence[RunReport]) -> str:
    return _section(
        "How often an item is recommended",
        "Share of users to whom an item is recommended, from the most popular item on the left to the least "
        "popular on the right. The steeper the fall, the more popularity decides. Both axes are logarithmic; "
        "points are means over neighbouring ranks, and a gap means never.",
        "".join(
            _panel(r, "Frequency by popularity", figures.frequency_by_rank(r.evaluation, r.item_counts))
            for r in reports
        ),
    )


def _gradients(reports: Sequence[RunReport]) -> str:
    panels = ""
    for r in reports:
        if r.ledger is None:
            panels += _missing(r, "kept no ledger of its training, so this picture is left out.")
            continue
        picture = gradient_picture(r.ledger)
        panels += _panel(r, "Direction", figures.gradient_cosines(picture, r.item_counts))
        panels += _panel(r, "Size", figures.gradient_norms(picture, r.item_counts))
    return _section(
        "Where the popularity comes from",
        "While training, an item is pulled towards the users who chose it and pushed away from users for "
        "whom it was drawn as an example of something not chosen. The nearer a cosine is to 1, the more that "
        "part decides where the sum of both points.",
        panels,
    )


def _strengths(reports: Sequence[RunReport]) -> str:
    panels = ""
    for r in reports:
        if r.grid is None:
            panels += _missing(r, "has no grid of strengths (they were given, or not tuned).")
            continue
        first = "recall" if "recall" in r.grid.values else next(iter(r.grid.values))
        chosen = (r.evaluation.item_strength, r.evaluation.user_strength)
        options = "".join(
            f"<option{' selected' if metric == first else ''}>{escape(LABELS.get(metric, metric))}</option>"
            for metric in r.grid.values
        )
        menu = f"<label>Show <select>{options}</select></label>"
        panels += _panel(r, "Every pair of strengths", figures.strength_grid(r.grid, chosen, first), menu)
    return _section(
        "How strongly to adjust",
        "Each cell is one pair of strengths, measured on the validation part, never on the test part. At "
        "0, 0 the model is as trained; at 1 a direction is taken out; beyond 1 it is turned round.",
        panels,
    )


def _training(reports: Sequence[RunReport]) -> str:
    panels = ""
    for r in reports:
        if not r.history:
            panels += _missing(r, "has no training history.")
            continue
        panels += _panel(r, "Loss", figures.training_loss(r.history))
        validation = figures.validation_curve(r.history)
        panels += _panel(r, "Validation", validation) if validation is not None else ""
    lead = "The loss of every epoch, and validation metrics where they were measured."
    return _section("Training", lead, panels)


def _section(heading: str, lead: str, panels: str) -> str:
    panels = f'<div class="panels">{panels}</div>'
    return f'<section><h2>{heading}</h2><p class="lead">{lead}</p>{panels}</section>'


def _missing(report: RunReport, why: str) -> str:
    return f'<p class="missing">{escape(report.name)} {why}</p>'


def _panel(report: RunReport, caption: str, figure: go.Figure, menu: str = "") -> str:
    """A figure with its caption and its numbers; plotly writes "<" as an escape, so no text ends it."""
    name = escape(report.name)
    return (
        f"<figure><figcaption><span>{caption} <small>{name}</small></span>{menu}</figcaption>"
        f'<div class="plot" role="img" aria-label="{caption}: {name}"></div>'
        f'<script type="application/json">{figure.to_json()}</script></figure>'
    )


def _settings(report: RunReport) -> str:
    rows = ""
    for name, value in report.settings.items():
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        rows += f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(shown)}</td></tr>'
    body = f'<table class="settings"><tbody>{rows}</tbody></table>' if rows else "<p>None were recorded.</p>"
    return f"<details><summary>Settings and versions: {escape(report.name)}</summary>{body}</details>"
