"""The results on disk: one page, and every item as Markdown, CSV, LaTeX, JSON, PNG and SVG."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import counterpop as cp
from counterpop.encoding import to_json, to_plain
from counterpop.paper.cache import Cache, machine, seal, source, unseal
from counterpop.paper.plan import Plan
from counterpop.paper.results import OWN, Claim, Item, Table, read_item
from counterpop.reporting import write_page
from counterpop.reporting.tables import html_table
from counterpop.tabular import distinct, format_cell, latex_table, markdown_table, write_csv

VERDICTS = {
    "confirmed": "as the paper says",
    "stronger": "the effect is larger here",
    "weaker": "smaller, or not in every case",
    "not seen": "our numbers say otherwise",
    "cannot tell": "within the noise, or not measured",
}
TITLE = "A gradient perspective on popularity bias: the paper, reproduced"
INTRO = (
    "Every table and figure of “Mitigating Popularity Bias in Recommendation with Unbalanced Interactions: A Gradient "
    "Perspective” (Ren et al.), from our own runs, next to the published one. Every choice was made on validation "
    "data; test was measured once. Each claim of the paper is named by its section, in our words, and judged by our "
    "numbers with their 95 % intervals: confirmed if it holds beyond the noise in every case; stronger or weaker if "
    "the whole interval of the effect is above 1.25 or below 0.8 times the published one, weaker also if it holds "
    "beyond the noise in only a majority of the cases; not seen if the opposite holds beyond the noise in some case "
    "and the claim in no majority; cannot tell otherwise. Our own checks are marked as such and not counted."
)
SMOKE = "SMOKE RUN: a few users and epochs, to check that everything works. Its figures mean nothing."


def is_written(item: Item, out: Path, used: Mapping[str, Any]) -> bool:
    """Whether the folder already holds exactly this item, made from the same runs."""
    held = _held(out, item.name)
    if held is None:
        return False
    same: bool = held["item"] == to_plain(item)
    return same and used.keys() <= held["made"]["runs"].keys()


def write_item(item: Item, out: Path, plan: Plan, cache: Cache) -> None:
    """Writes NAME.json, NAME.md, CSV and LaTeX for each table, PNG and SVG of each figure, and items/NAME.json."""
    for folder in (out / "items", out / "figures"):
        folder.mkdir(parents=True, exist_ok=True)
    (out / "items" / f"{item.name}.json").unlink(missing_ok=True)
    for old in (
        *out.glob(f"{item.name}*.csv"),
        *out.glob(f"{item.name}*.tex"),
        *(out / "figures").glob(f"{item.name}-*"),
    ):
        old.unlink()
    made = list(cache.used.values()) or [{"machine": machine(), "source": source()}]
    about = {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "plan": to_plain(plan),
        "numbers": cp.NUMBERS,
        "sources": distinct(one["source"] for one in made),
        "machines": distinct(one["machine"] for one in made),
        "runs": {key: one["seconds"] for key, one in cache.used.items()},
    }
    write_page(_json(item.rows), out / f"{item.name}.json")
    write_page(_markdown(item, about), out / f"{item.name}.md")
    for n, table in enumerate(item.tables, 1):
        name = f"{item.name}{f'-{n}' if n > 1 else ''}"
        write_csv(table, out / f"{name}.csv")
        write_page(latex_table(table, name), out / f"{name}.tex")
    if item.figures:
        _draw(item, out / "figures")
    # last, because an item counts as written once it is there
    write_page(seal({"made": about, "item": item}), out / "items" / f"{item.name}.json")


def _draw(item: Item, folder: Path) -> None:
    from counterpop.paper.drawing import draw_still

    try:
        for n, figure in enumerate(item.figures, 1):
            draw_still(figure, folder / f"{item.name}-{n}")
    except ModuleNotFoundError:
        text = "PNG and SVG files were not written, because they need matplotlib: pip install 'counterpop[paper]'"
        warnings.warn(cp.CounterpopWarning(text), stacklevel=3)


def read_items(out: Path, order: Sequence[str]) -> list[tuple[Item, dict[str, Any]]]:
    """Every item that a folder holds, and how it was made, in the given order."""
    found = []
    for name in order:
        if (content := _held(out, name)) is not None:
            found.append((read_item(content["item"]), content["made"]))
    return found


def _held(out: Path, name: str) -> dict[str, Any] | None:
    """What a folder holds of an item; None if another version wrote it in another form."""
    path = out / "items" / f"{name}.json"
    if not path.is_file():
        return None
    content = unseal(path)
    known = {field.name for field in fields(Plan)}
    try:
        made = content["made"]
        same = (
            made["plan"].keys() == known and "sources" in made and isinstance(made["runs"], dict) and "item" in content
        )
    except (LookupError, TypeError, AttributeError):
        return None
    return content if same else None


def write_overview(out: Path, order: Sequence[str]) -> None:
    """Writes index.html, README.md and results.json for all items that the folder holds."""
    items = read_items(out, order)
    write_page(_page(items), out / "index.html")
    text = "\n\n".join([f"# {TITLE}", _summary(items), *(_markdown(item, made, "## ") for item, made in items)])
    write_page(text + "\n", out / "README.md")
    whole = {"items": [{"made": made, **to_plain(item)} for item, made in items], "claims": _tally(items)}
    write_page(_json(whole), out / "results.json")


def _json(value: Any) -> str:
    return to_json(value, indent=1) + "\n"


def _how_made(made: Mapping[str, Any]) -> str:
    plan = made["plan"]
    seconds = sum(made["runs"].values())
    seeds = f"{plan['seeds']} seed{'s' if plan['seeds'] > 1 else ''}"
    places = distinct(
        f"{', '.join(on['processors'])} ({on['cores']} cores, Python {on['python']}, NumPy {on['numpy']}, "
        f"counterpop {on['counterpop']})"
        for on in made["machines"]
    )
    commits = distinct(f"{one['commit'][:7]}{'+' * one['dirty']}" for one in made["sources"] if one["commit"])
    code = f"commit {', '.join(commits)}" if commits else "code outside git"
    mf_device = " (MF on cpu)" if plan["mf_on_cpu"] and plan["device"] != "cpu" else ""
    few = plan["lightgcn_candidates"]
    number = f"{plan['candidates']} candidates for every method" + (f" ({few} with LightGCN)" if few else "")
    text = (
        f"Made {made['written']} from runs on {' and '.join(places)}; {code}, numbers {made['numbers']}; {seeds}, "
        f"device {plan['device']}{mf_device}, {number}; "
        f"{len(made['runs'])} results that took {seconds:,.0f} s to make."
    )
    return f"{SMOKE} {text}" if plan["quick"] and made["runs"] else text


def _markdown(item: Item, made: Mapping[str, Any], heading: str = "# ") -> str:
    parts = [f"{heading}{item.title}", f"{item.lead}"]
    parts += [markdown_table(table) for table in item.tables]
    parts += [f"![{f.caption}](figures/{item.name}-{n}.svg)" for n, f in enumerate(item.figures, 1)]
    parts += ["\n".join(f"- {text}" for text in ("**Missing:**", *item.missing))] if item.missing else []
    parts += (
        ["\n".join(f"- **{c.verdict}** ({c.section}): {c.claim} {c.evidence}" for c in item.claims)]
        if item.claims
        else []
    )
    return "\n\n".join([*parts, f"*{_how_made(made)}*"])


def _tally(items: Sequence[tuple[Item, Any]]) -> dict[str, int]:
    count = Counter(str(claim.verdict) for item, _ in items for claim in item.claims if claim.section != OWN)
    return {verdict: count[verdict] for verdict in VERDICTS}


def _summary(items: Sequence[tuple[Item, Mapping[str, Any]]]) -> str:
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in _tally(items).items() if number)
    seconds = sum({key: value for _, made in items for key, value in made["runs"].items()}.values())
    smoke = f" {SMOKE}" if any(made["plan"]["quick"] for _, made in items) else ""
    claims = f"Claims: {verdicts}. " if verdicts else ""
    return f"{claims}All runs together took {seconds / 60:,.1f} minutes to make.{smoke}"


def _page(items: Sequence[tuple[Item, Mapping[str, Any]]]) -> str:
    from counterpop.reporting.page import Section, Tile, card, cards, compose, definitions, panels

    tally = _tally(items)
    counted = VERDICTS.items() if any(tally.values()) else ()
    tiles = [Tile(verdict.capitalize(), str(tally[verdict]), note) for verdict, note in counted]
    first = cards([card("All claims", "What our own runs say about the paper", escape(_summary(items)), tiles)])
    body = definitions(
        (
            escape(claim.verdict),
            f"<strong>{escape(claim.claim)}</strong> {escape(claim.evidence)}"
            f"<small>{escape(_where(claim))}; measured in {escape(item.title)}</small>",
        )
        for item, _ in items
        for claim in item.claims
    )
    sections = [Section("The paper’s claims", "A one-word verdict for each, and the numbers behind it.", body)]
    for item, made in items:
        shown = "".join(map(_html_table, item.tables)) + panels(_panels(item))
        if item.missing:
            listed = "".join(f"<li>{escape(text)}</li>" for text in item.missing)
            shown += f"<h3>Missing</h3><ul>{listed}</ul>"
        shown += f'<p class="lead">{escape(_how_made(made))}</p>'
        sections.append(Section(escape(item.title), escape(item.lead), shown))
    return compose(TITLE, escape(INTRO), first, sections)


def _where(claim: Claim) -> str:
    return claim.section.capitalize() if claim.section == OWN else f"Section {claim.section}"


def _panels(item: Item) -> list[str]:
    from counterpop.paper.drawing import interactive
    from counterpop.reporting.page import panel

    choices = {"map": ("Recall@20",)}
    return [panel(escape(f.caption), "", interactive(f), choices.get(f.kind, ()), 0) for f in item.figures]


def _html_table(table: Table) -> str:
    from counterpop.reporting.page import wide

    rows = ((escape(format_cell(first)), map(_html_cell, rest)) for first, *rest in table.rows)
    text = html_table(map(escape, table.columns), rows)
    notes = "".join(f'<p class="lead">{escape(note)}</p>' for note in table.notes)
    return f"<h3>{escape(table.title)}</h3>{wide(escape(table.title), text)}{notes}"


def _html_cell(value: Any) -> str:
    if not isinstance(value, dict):
        return escape(format_cell(value))
    mean, _, interval = format_cell(value).partition(" ")
    return f"{mean}{f'<small>{interval[1:-1]}</small>' if interval else ''}"
