"""What a page shows first: gain and price as one pair, one chart, and the titles that gain and lose most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpop.evaluation import Evaluation
from counterpop.reporting.catalogue import Catalogue, Exposure, Move, moved_items
from counterpop.reporting.findings import is_adjusted, sides, verdict
from counterpop.reporting.tables import format_p

TITLES = 5
SIDES = (
    '<span class="plain">Plain</span> is the model as trained. <span class="adjusted">Adjusted</span> is the same '
    "model, not trained again, with part of what popularity adds to its scores removed."
)
NO_PRICE = (
    "The split has no ordinary pairs, so nobody knows what the adjustment costs as traffic is today. Make the split "
    "again with --ordinary 0.05."
)


def gain_price_pair(found: Evaluation) -> str:
    """Gain and price side by side, each with its interval and with recall before and after on one scale."""
    top = max(m.recall for one in (found, found.ordinary) if one for m in (one.plain, one.adjusted))
    gain = found.gain if is_adjusted(found) else None
    heading = "if every item were shown equally often" if found.even else f"on the {found.on} part"
    first = _side(
        f"Gain <span>{heading}</span>",
        *_figure(gain, "change", signed=True),
        found,
        top,
        f"of the items that users chose are found (recall@{found.k}, "
        f"{'even' if found.even else found.on} pairs of {len(found.plain.users):,} users).",
    )
    if found.ordinary is None:
        return f'<div class="pair">{first}{_unknown(found)}</div>'
    price = found.price if is_adjusted(found) else None
    second = _side(
        "Price <span>as traffic is today</span>",
        *_figure(price, "lost", signed=False),
        found.ordinary,
        top,
        f"of the items that users chose are found (recall@{found.k}, ordinary pairs of "
        f"{len(found.ordinary.plain.users):,} users{', before the refit' if found.ordinary.before_refit else ''}).",
    )
    return f'<div class="pair">{first}{second}</div>'


def _unknown(found: Evaluation) -> str:
    if not found.even:
        return ""
    return (
        '<section class="side"><h2>Price <span>as traffic is today</span></h2><p class="figure">not known</p>'
        f'<p class="note">{NO_PRICE}</p></section>'
    )


def _figure(found: Mapping[str, float] | None, name: str, signed: bool) -> tuple[str, str]:
    """A relative change and its interval as text."""
    if found is None:
        return "none", ""
    sign, below = "+" if signed else "", found[name] < 0
    value, low, high = (f"{100 * found[one]:{sign}.1f}".replace("-", "−") for one in (name, "low", "high"))
    words = ("less is found" if below else "more is found") if signed else "of what was found is lost"
    if not signed and below:
        words = "below 0: more is found"
    return f"{value} %", f"{words}<br>95 % interval {low} to {high} %"


def _side(heading: str, figure: str, around: str, found: Evaluation, top: float, note: str) -> str:
    bars = ""
    for kind, m in sides(found).items():
        width = f"{100 * m.recall / top if top else 0:.1f}"
        css = ' class="after"' if kind == "adjusted" else ""
        bar = f'<i style="width:{width}%"></i><span>{100 * m.recall:.1f} %</span>'
        bars += f"<dt>{kind.capitalize()}</dt><dd{css}>{bar}</dd>"
    if is_adjusted(found):
        row = found.comparison["recall"]
        change, low, high = (f"{100 * row[name]:+.1f}".replace("-", "−") for name in ("difference", "low", "high"))
        p = format_p(row["p_value"]).replace("<", "&lt;")
        note += f" Difference {change} points ({low} to {high}), {p}: {verdict('recall', row)}."
    return (
        f'<section class="side"><h2>{heading}</h2>'
        f'<div><p class="figure">{figure}</p><p class="around">{around}</p></div>'
        f'<dl class="bars">{bars}</dl><p class="note">{note}</p></section>'
    )


def glance(chart: str, titles: str) -> str:
    """One chart and, if items can be listed, the titles beside it."""
    return f'<div class="glance{"" if titles else " only"}">{chart}{titles}</div>'


def movers(catalogue: Catalogue | None, before: Exposure, after: Exposure, lists: int) -> str:
    """The five titles that gain and the five that lose the most places, as HTML; nothing if none moved."""
    gained, lost = moved_items(before, after, TITLES)
    if catalogue is None or not (gained or lost):
        return ""
    columns = _titles("Gained most", gained, catalogue) + _titles("Lost most", lost, catalogue)
    note = f"In how many of {lists:,} lists an item is: plain → adjusted."
    return f'<div class="movers">{columns}<p>{note}</p></div>'


def _titles(heading: str, moves: Sequence[Move], catalogue: Catalogue) -> str:
    rows = "".join(
        f"<li>{catalogue.title(m.item)}<small>{m.before:,} → {m.after:,} lists · popularity "
        f"{catalogue.item_counts[m.item]:,}</small></li>"
        for m in moves
    )
    return f"<section><h2>{heading}</h2><ol>{rows or '<li>None.</li>'}</ol></section>"
