"""The page about a debiasing: the gain, its price, and how to use the adjustment."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from counterpop.debiasing import Debiasing, Effect
from counterpop.evaluation import Evaluation, On, relative_change
from counterpop.readers import Labels
from counterpop.reporting import findings
from counterpop.reporting.cases import typical_users
from counterpop.reporting.catalogue import Catalogue
from counterpop.reporting.findings import RunReport
from counterpop.reporting.item_sections import category_sections, moved_sections, user_sections
from counterpop.reporting.page import Section, compose, wide
from counterpop.reporting.run_page import (
    comparison_section,
    definitions_section,
    first_screen,
    groups_section,
    intro_of,
    strengths_section,
)
from counterpop.reporting.tables import LABELS, format_figure, format_p, html_table

USE = """<pre><code>import counterpop as cp
fix = cp.load_adjustment("FOLDER")           # the folder of this page
query = fix.query(user_vectors)              # send these to the index you already have
query = fix.query(user_vectors, 0.3, 0.0)    # or choose item strength and user strength</code></pre>"""


def render_debiasing(found: Debiasing, name: str, labels: Labels | None = None) -> str:
    """The whole page as text."""
    report = as_report(found, name, labels)
    one = [report]
    sections = [
        _judgement(found),
        *user_sections(one),
        *moved_sections(one),
        *category_sections(one),
        groups_section(one),
        comparison_section(one),
        strengths_section(one, _choice(found)),
        *_segments(found),
        _use(),
        definitions_section(one),
    ]
    effect = findings.headline(report.evaluation)
    verdict = effect if found.gained else f"{found.headline}."
    tried = "" if found.gained else f"{found.sentences[0]} With the strengths that were tried: {effect}"
    intro = f"{intro_of(report)} {escape(tried)}"
    kicker = f"{escape(name)}. {escape(found.headline)}. Tuned on half of the users, measured on the other half"
    title = f"{name}: what the adjustment gives and what it costs"
    return compose(verdict, intro, first_screen(report), sections, kicker, title)


def as_report(found: Debiasing, name: str, labels: Labels | None = None) -> RunReport:
    """The result at the strengths that were tried, in the form of a report on a run."""
    model = found.with_strengths(*found.tried)
    evaluation = effect_of(found)
    return RunReport(
        name,
        {},
        (),
        evaluation,
        found.item_counts,
        found.grid,
        tuning=found.to_json(),
        catalogue=Catalogue(found.seen.item_ids, found.item_counts, labels),
        cases=typical_users(model, evaluation, found.item_counts) if findings.is_adjusted(evaluation) else (),
    )


def effect_of(found: Debiasing) -> Evaluation:
    """The measured effect of the strengths that were tried, on even and on ordinary pairs."""
    parts: tuple[tuple[On, Effect], ...] = (("test", found.uniform), ("ordinary", found.ordinary))
    even, ordinary = (
        Evaluation(
            found.k,
            on,
            *found.tried,
            effect.plain,
            effect.adjusted,
            effect.comparison,
            gain=relative_change(effect.adjusted, effect.plain),
        )
        for on, effect in parts
    )
    return replace(even, even=True, ordinary=ordinary)


def _judgement(found: Debiasing) -> Section:
    body = "".join(f"<li>{escape(sentence)}</li>" for sentence in found.sentences)
    lead = "How the strengths were chosen, and how far the numbers above can be trusted."
    return Section("How it was judged", lead, f"<ul>{body}</ul>", "Judgement")


def _choice(found: Debiasing) -> str:
    floors = ", ".join(f"{name} at least {share:g} of the plain model's" for name, share in found.floor.items())
    return (
        f"You asked for “{found.point}”. All {found.grid.values[found.target].size} pairs of strengths are in "
        f"curve.parquet, in the folder of this page. Floor: {escape(floors) or 'none'}."
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


def _use() -> Section:
    return Section(
        "How to use it",
        "The item vectors and the index that serves them stay as they are; only the query changes. This works in any "
        "language: adjustment.json, in the folder of this page, has the directions q (items) and p (users) and the "
        "strengths a and b. From a user vector u subtract b (u·p) p; from the result v subtract a (v·q) q.",
        wide("How to use it, in Python", USE),
    )
