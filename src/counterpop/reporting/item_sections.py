"""The sections about items by title and category, and about single users."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from counterpop.recommender import Explained
from counterpop.reporting import figures
from counterpop.reporting.cases import Case
from counterpop.reporting.catalogue import Catalogue, category_shares, moved_items
from counterpop.reporting.findings import RunReport, is_adjusted
from counterpop.reporting.page import Section, panel, panels, wide
from counterpop.reporting.tables import exact, format_figure, html_table

MOST_ITEMS, MOST_CATEGORIES, FIRST = 10, 12, 10
USERS = (
    "Both lists of a few users, chosen by fixed rules among the measured users whose history is at least as long as "
    "the median. A niche user’s history is less popular than that of nine in ten, a mainstream user’s more popular; "
    "“gains” and “loses” go by how many more or fewer held-out items the adjusted list finds. Below each item is why "
    "it moved: its score before is the score after plus what was removed through items (popular direction) and "
    "through users (conformity direction)."
)
KEY = '<p class="key"><span>score after: what is kept</span> <span class="gone">what is removed</span></p>'


def listed(reports: Sequence[RunReport]) -> list[tuple[str, RunReport, Catalogue]]:
    """The adjusted reports whose items can be listed, each with a heading if there are several."""
    found = [(r, r.catalogue) for r in reports if r.catalogue is not None and is_adjusted(r.evaluation)]
    return [(f"<h3>{escape(r.name)}</h3>" * (len(found) > 1), r, items) for r, items in found]


def user_sections(reports: Sequence[RunReport]) -> list[Section]:
    """What changes for a few users, or nothing if none were chosen."""
    body = ""
    for _, r, items in listed(reports)[:1]:  # of one run: those of many would fill the page
        body = "".join(_case(case, items, n == 0) for n, case in enumerate(r.cases))
    return [Section("What changes for a user", USERS, KEY + body, "Users")] if body else []


def _case(case: Case, items: Catalogue, shown: bool) -> str:
    kept = len({row.item for row in case.plain} & {row.item for row in case.adjusted})
    parts = [part for row in (*case.plain, *case.adjusted) for part in (row.adjusted_score, _removed(row))]
    low, high = min(0.0, *parts), max(0.0, *parts)
    plain = _list([_entry(case, row, items, (low, high), False) for row in case.plain])
    adjusted = _list([_entry(case, row, items, (low, high), True) for row in case.adjusted])
    order = "latest first" if case.dated else "most popular first"
    history = "".join(
        f"<li><span>{items.title(i)}</span><span class='moved'>{items.item_counts[i]:,}</span></li>"
        for i in case.history
    )
    many = (
        f"{len(case.history)} of {case.length:,} items" if len(case.history) < case.length else f"{case.length} items"
    )
    return (
        f'<details class="case"{" open" if shown else ""}><summary>{case.kind} ({escape(str(case.user))}) '
        f"<span>{kept} of {len(case.plain)} items stay</span></summary>"
        f'<p class="lead">{escape(case.why)}</p>'
        f'<div class="lists"><section><h3><span class="plain">Plain list</span></h3>{plain}</section>'
        f'<section><h3><span class="adjusted">Adjusted list</span></h3>{adjusted}</section>'
        f'<section class="history"><h3>History <small>{many}, {order}, with their popularity</small></h3>'
        f"<ul>{history}</ul></section></div></details>"
    )


def _list(entries: Sequence[str]) -> str:
    """A list, whose end is folded away."""
    rest = entries[FIRST:]
    more = f"<details><summary>Ranks {FIRST + 1} to {len(entries)}</summary><ol>{''.join(rest)}</ol></details>"
    return f"<ol>{''.join(entries[:FIRST])}</ol>{more if rest else ''}"


def _removed(row: Explained) -> float:
    return row.popular_part + row.conformity_part


def _entry(case: Case, row: Explained, items: Catalogue, span: tuple[float, float], after: bool) -> str:
    """An item of a list: where it goes to or came from, and the parts of its score, drawn and in words."""
    own, other = (row.adjusted_rank, row.plain_rank) if after else (row.plain_rank, row.adjusted_rank)
    moved, css = "", "moved"
    if own != other:
        rose = row.adjusted_rank < row.plain_rank
        moved = f"{'▲' if rose else '▼'} {'from' if after else 'to'} {other:,}"
        css += " new" if after and other > len(case.plain) else ""
    hit = ' <span class="hit">✓ chosen later</span>' if row.item in case.later else ""
    bars = _bar("", row.adjusted_score, span) + _bar(' class="gone"', _removed(row), span)
    score = [f"{value:.2f}" for value in (row.plain_score, row.adjusted_score)]
    taken = [f"{value:+.2f}" for value in (row.popular_part, row.conformity_part)]
    why = f"popularity {items.item_counts[row.item]:,} · score {score[0]} → {score[1]}, removed: "
    why += f"{taken[0]} through items, {taken[1]} through users"
    return (
        f'<li><span class="rank">{own}</span><span>{items.title(row.item)}{hit}</span>'
        f'<span class="{css}">{moved}</span>'
        f'<span class="parts">{bars}</span><span class="why">{why.replace("-", "−")}</span></li>'
    )


def _bar(css: str, value: float, span: tuple[float, float]) -> str:
    low, high = span
    whole = (high - low) or 1.0
    left, width = 100 * (min(0.0, value) - low) / whole, 100 * abs(value) / whole
    return f'<i{css} style="left:{left:.1f}%;width:{width:.1f}%"></i>'


def moved_sections(reports: Sequence[RunReport]) -> list[Section]:
    """The items that gain and lose the most places in lists."""
    body = ""
    for heading, r, items in listed(reports):
        found = r.evaluation
        both = moved_items(found.plain.exposure, found.adjusted.exposure, MOST_ITEMS)
        tables = []
        for title, moves in zip(("Gained most", "Lost most"), both, strict=True):
            rows = []
            for m in moves:
                about = items.about(m.item)
                name = items.title(m.item) + (f"<small>{about}</small>" if about else "")
                numbers = (int(items.item_counts[m.item]), m.before, m.after)
                rows.append((name, [*(f"{n:,}" for n in numbers), f"{m.after - m.before:+,}".replace("-", "−")]))
            columns = ["Item", "Popularity", "Plain lists", "Adjusted lists", "Change"]
            table = wide(f"{title}, {escape(r.name)}", html_table(columns, rows)) if rows else "<p>None.</p>"
            tables.append(f"<div><h3>{title}</h3>{table}</div>")
        body += heading + panels(tables)
    lists = len(reports[0].evaluation.plain.users)
    lead = f"In how many of the {lists:,} measured lists an item is, plain and adjusted. Popularity: its interactions."
    return [Section("Which items gain and lose", lead, body, "Items")] if body else []


def category_sections(reports: Sequence[RunReport]) -> list[Section]:
    """Each category's share of the interactions and of both kinds of lists."""
    body = ""
    for heading, r, items in listed(reports):
        found = r.evaluation
        for column, kind in (items.labels.categories if items.labels else {}).items():
            rows = category_shares(kind, items.item_counts, [found.plain.exposure, found.adjusted.exposure])
            cells = [
                (
                    escape(row.name),
                    [
                        f"{row.items:,}",
                        *(exact("coverage", share) for share in (row.interactions, *row.shares)),
                        format_figure("coverage", row.shares[1] - row.shares[0], True).replace("-", "−"),
                    ],
                )
                for row in rows
            ]
            columns = ["Category", "Items", "Of interactions", "Of plain lists", "Of adjusted lists", "Change"]
            chart = panels(
                [
                    panel(
                        escape(column.capitalize()),
                        escape(r.name) if heading else "",
                        figures.by_category(rows[:MOST_CATEGORIES]),
                    )
                ]
            )
            body += heading + chart + wide(f"{escape(column)}, {escape(r.name)}", html_table(columns, cells))
            heading = ""
    lead = "Each category’s share of the interactions in the log, and of all places in plain and in adjusted lists."
    return [Section("Which categories gain and lose", lead, body, "Categories")] if body else []
