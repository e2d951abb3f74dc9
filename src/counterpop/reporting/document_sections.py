"""The parts of an audit's page that come from its document: when and of what, what moved, rules, and the record."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from counterpop.reporting.audit_tables import html_changes
from counterpop.reporting.page import Section, definitions, wide
from counterpop.reporting.tables import format_figure, format_interval, html_table

NOT_STATED = "not stated"
PAIRED = (
    "Intervals and tests compare the two audits without the same folds of users, so that users who are in both do not "
    "count as chance. “Moved” means significant at 5 %, corrected for the number of measures; the rest may be noise."
)


def summary_line(told: Mapping[str, Any]) -> str:
    """Date, period and version in one line below the title."""
    log = told["log"]
    dated = isinstance(log["from"], str)
    period = f", log from {_day(log['from'])} to {_day(log['to'])}" if dated else ""
    note = f" {escape(told['note'])}" if told["note"] else ""
    return f"<strong>Audit of {_day(told['date'])}{period}, counterpop {escape(told['counterpop'])}.</strong>{note}"


def document_sections(told: Mapping[str, Any]) -> list[Section]:
    """What moved, and the rules: the first thing a returning reader looks for."""
    sections = []
    if "rules" in told:
        rows = [
            (
                f"fail if {escape(rule['rule'])}<small>{escape(rule['lists'])}</small>",
                [
                    f'<small class="grade {"bad" if rule["broken"] else "good"}">'
                    f"{'broken' if rule['broken'] else 'kept'}</small>",
                    escape(rule["sentence"]),
                ],
            )
            for rule in told["rules"]
        ]
        table = wide("Rules", html_table(["Rule", "Outcome", "Measured"], rows))
        sections.append(Section("Rules", "What was agreed to be a reason to fail.", table))
    if "changes" in told:
        before = told["against"]
        lead = f"Compared with “{escape(before['title'])}” of {_day(before['date'])}. {PAIRED}"
        sections.append(
            Section("What moved since the last audit", lead, wide("Changes", html_changes(told["changes"])))
        )
    if told.get("between"):
        body = "".join(
            f"<h3>{escape(name)}</h3>{wide(f'Changes, {escape(name)}', html_changes(rows))}"
            for name, rows in told["between"].items()
        )
        lead = f"“Before” is the first system, “now” the one named above each table. {PAIRED}"
        sections.append(Section("What the systems do differently", lead, body))
    return sections


def closing_sections(told: Mapping[str, Any]) -> list[Section]:
    """The record, if there is one, and what was audited."""
    if not told:
        return []
    sections = [_record(told["record"])] if "record" in told else []
    return [*sections, _about(told)]


def _about(told: Mapping[str, Any]) -> Section:
    log = told["log"]
    period = f"{_day(log['from'])} to {_day(log['to'])}" if log["from"] is not None else "not known (pass --time)"
    facts = [
        ("Title", escape(told["title"])),
        ("Date", escape(told["date"])),
        ("Period of the log", period),
        ("Log", f"{log['pairs']:,} pairs of {log['users']:,} users and {log['items']:,} items"),
        ("Population", escape(told["population"])),
        ("Sampling", escape(told["sampling"])),
        ("Length of the lists", f"up to k = {told['k']}"),
        ("Made by", f"counterpop {escape(told['counterpop'])}, Python {escape(told['python'])}"),
        ("Form", f"{escape(told['schema'])} (counterpop audit --schema)"),
    ]
    rows = [
        (
            escape(one["role"]),
            [escape(one["path"]), "–" if one["bytes"] is None else f"{one['bytes']:,}", one["sha256"] or "–"],
        )
        for one in told["inputs"]
    ]
    table = wide("Inputs", html_table(["Input", "Path", "Bytes", "SHA-256"], rows, "settings"))
    return Section("About this audit", "What was measured, so that it can be repeated.", definitions(facts) + table)


def _record(record: Mapping[str, Any]) -> Section:
    weights = record["main_parameters"]["popularity_in_scores"] or {}
    measured = [
        f"{escape(name)}: {format_figure('coverage', one['share'])} of the variance of scores goes with popularity "
        f"({format_interval('coverage', one['low'], one['high'])}, {one['users']:,} users)"
        for name, one in weights.items()
        if one["share"] is not None
    ]
    options, before = record["options"], record["declared_beforehand"]
    offered = [_text(options["stated"])]
    if "defaults" in options:
        defaults = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in options["defaults"].items())
        offered += [f"Defaults: {defaults}; each from {options['range'][0]:g} to {options['range'][1]:g}."]
        offered += [escape(options["sentence"])]
    results = []
    for name, one in record["result"].items():
        around = one["interval"]
        shown = f"{escape(one['label'])} {_figure(name, one['value'])}"
        shown += f" ({format_interval(name, around['low'], around['high'])})" if around else ""
        results.append(f"{shown}: {one['grade']}")
    since, mitigation = record["since_last_audit"], record["mitigation"]
    moved = "no earlier audit was given (--against)"
    if since is not None:
        names = ", ".join(name.replace("_", " ") for name in since["moved"]) or "nothing beyond noise"
        moved = f"Since {_day(since['against']['date'])} moved: {names}"
    adjustment = mitigation.get("adjustment")
    proof = escape(adjustment.get("sentence") or "The run was not tuned.") if adjustment is not None else ""
    facts = [
        ("Responsible", _text(record["responsible"])),
        ("Service", _text(record["service"])),
        ("Surface", _text(record["surface"])),
        ("Main parameters", "<br>".join([_text(record["main_parameters"]["stated"]), *measured])),
        ("How weights are measured", escape(record["main_parameters"]["how"])),
        ("Options and defaults", "<br>".join(offered)),
        ("Declared beforehand", _text(before["date"])),
        ("Benchmark", _text(before["benchmark"])),
        (
            "Threshold",
            "<br>".join([_text(before["threshold"]), *(f"fail if {escape(rule)}" for rule in before["rules"])]),
        ),
        ("Result", "<br>".join(results)),
        (
            "Verdict",
            f"{escape(record['verdict']['headline'])} (worst grade of any measure: {record['verdict']['grade']})",
        ),
        ("Since the last audit", moved),
        ("Mitigation and proof", "<br>".join(filter(None, [_text(mitigation["stated"]), proof]))),
        ("Limits", "<br>".join(escape(text) for text in record["limits"])),
    ]
    return Section(
        "Record",
        "What European rules on the transparency of recommenders ask to be kept (Digital Services Act, Art. 27; "
        "Regulation 2019/1150, Art. 5). It is a record, not legal advice; “not stated” marks what the team has to add "
        "(--declared).",
        definitions(facts),
    )


def _figure(name: str, value: float | None) -> str:
    return "–" if value is None else format_figure(name, value)


def _text(value: Any) -> str:
    if not value:
        return NOT_STATED
    return "<br>".join(escape(text) for text in (value if isinstance(value, list) else [value]))


def _day(value: Any) -> str:
    """The day of an ISO date; a number as it is."""
    return escape(value[:10]) if isinstance(value, str) else f"{value:g}"
