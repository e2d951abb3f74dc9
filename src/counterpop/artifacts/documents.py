"""An audit as a document: when, of what, by which version; written as JSON, and read again by later versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from counterpop import __version__
from counterpop.artifacts.folder import fingerprint
from counterpop.auditing import Audit, Change, Rule, check_rule, compare_audits
from counterpop.encoding import to_plain
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.recommender import Recommender

FORM = "counterpop-audit"
VERSION = 1  # raised only if a reader of the old form would misread the new one; new fields do not raise it
SAMPLING = "None: every list was measured, and every place of it up to k."


@dataclass(frozen=True, eq=False)
class Subject:
    """What one document is about: the lists of one or several systems for the same log."""

    audits: Mapping[str, Audit]
    """By name, in the order of the page."""
    mains: Sequence[str]
    """The audits that rules and comparisons are about, one for each system; the first is the document's own."""
    log: Interactions
    inputs: Mapping[str, Sequence[str]]
    """The files that were read, by role."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the first system, such as its strengths."""
    models: Mapping[str, Recommender] = field(default_factory=dict)
    """What made the lists of each audit, if that is known."""
    plain: str | None = None
    """Of a run: the audit of its lists as trained."""

    @property
    def main(self) -> Audit:
        return self.audits[self.mains[0]]


def together(subjects: Mapping[str, Subject]) -> Subject:
    """Several systems as one subject; audits are named after them. A single one is returned as it is."""
    first, *others = subjects.values()
    if not others:
        return first
    for system, one in subjects.items():
        if not np.array_equal(one.log.item_ids, first.log.item_ids):
            raise InputError(
                f"systems can be audited together only for the same items, but {system} has other items than "
                f"{next(iter(subjects))}; audit them separately"
            )
    names = {
        (system, name): f"{system}, {name}" if len(one.audits) > 1 else system
        for system, one in subjects.items()
        for name in one.audits
    }
    inputs: dict[str, list[str]] = {}
    for one in subjects.values():
        for role, paths in one.inputs.items():
            inputs[role] = list(dict.fromkeys([*inputs.get(role, []), *paths]))
    return Subject(
        {names[system, name]: audit for system, one in subjects.items() for name, audit in one.audits.items()},
        [names[system, one.mains[0]] for system, one in subjects.items()],
        first.log,
        inputs,
        first.facts,
        {names[system, name]: model for system, one in subjects.items() for name, model in one.models.items()},
        first.plain and names[next(iter(subjects)), first.plain],
    )


def make_document(
    subject: Subject, *, title: str = "", note: str = "", against: str | Path | None = None, rules: Sequence[Rule] = ()
) -> dict[str, Any]:
    """The whole audit as one value for JSON: see `schema.audit_schema`.

    `against` is the file of an older audit. Rules are checked for every system; the changes they name are those of the
    first since `against`, and those of the others from the first.
    """
    name = Path(subject.facts["run"]).resolve().name if "run" in subject.facts else subject.mains[0]
    document = describe(subject, title or name, note)
    document |= subject.main.as_dict()
    if subject.plain is not None:
        document["plain"] = subject.audits[subject.plain].as_dict()
    rest = [name for name in subject.audits if name not in (subject.mains[0], subject.plain)]
    between = changes_between(subject)
    if rest:
        document["others"] = {name: subject.audits[name].as_dict() for name in rest}
        document["between"] = {name: [row._asdict() for row in rows] for name, rows in between.items()}
    changes: list[Change] = []
    if against is not None:
        old = read_document(against)
        changes = changes_since(old, subject.main, against)
        told = {name: str(old.get(name, "")) for name in ("date", "title", "counterpop")}
        document |= {"against": {"path": str(against), **told}, "changes": [row._asdict() for row in changes]}
    if rules:
        outcomes = [
            check_rule(rule, name, subject.audits[name].measures, between.get(name, changes))
            for name in subject.mains
            for rule in rules
        ]
        document["rules"] = [vars(outcome) for outcome in outcomes]
    return dict(to_plain(document))


def describe(subject: Subject, title: str, note: str) -> dict[str, Any]:
    """The head of the document: date, version, period of the log, inputs with checksums, population and sampling."""
    main, log = subject.main, subject.log
    without = main.notes.get("users_without_list", 0)
    return {
        "schema": f"{FORM}/{VERSION}",
        "counterpop": __version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": title,
        "note": note,
        "log": {"pairs": len(log), "merged": log.merged, "users": log.n_users, "items": log.n_items, **period_of(log)},
        "inputs": [
            {"role": role, "path": path, **fingerprint(Path(path))}
            for role, paths in subject.inputs.items()
            for path in paths
        ],
        "population": f"The lists of {main.users:,} users; {without:,} other users of the log have no list.",
        "sampling": main.sample.sentence if main.sample else SAMPLING,
        **subject.facts,
    }


def period_of(log: Interactions) -> dict[str, str | float | None]:
    """The first and last time of the log: as a date if the numbers are seconds or milliseconds since 1970."""
    if log.time is None or not len(log.time):
        return {"from": None, "to": None}
    first, last = float(np.min(log.time)), float(np.max(log.time))
    return {"from": as_date(first, last) or first, "to": as_date(last, last) or last}


def as_date(time: float, last: float) -> str | None:
    """A time of a log that ends at `last` as a date; None if its numbers are no seconds or milliseconds since 1970.

    >>> as_date(86400.0, 1.7e9), as_date(0.5, 1.0)
    ('1970-01-02T00:00:00+00:00', None)
    """
    scale = 1.0 if 1e8 <= last < 1e11 else 1e-3 if 1e11 <= last < 1e14 else 0.0
    return datetime.fromtimestamp(time * scale, UTC).isoformat(timespec="seconds") if scale else None


def read_document(path: str | Path) -> dict[str, Any]:
    """An audit that `counterpop audit` wrote, today or in an older version; `InputError` if it is none."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise InputError(f"{path} could not be read as an audit: {reason}; pass what audit --out wrote") from None
    form, _, version = str(document.get("schema") if isinstance(document, dict) else "").partition("/")
    if form != FORM or not version.isdigit():
        raise InputError(f"{path} is not an audit: its schema must be {FORM}/{VERSION}; pass what audit --out wrote")
    if int(version) > VERSION:
        raise InputError(f"{path} was written by a newer counterpop (schema {version}); update counterpop to read it")
    return dict(document)


def read_history(folder: str | Path) -> list[dict[str, Any]]:
    """All audits in a folder (files that end in .json), oldest first; other JSON files are an error."""
    if not Path(folder).is_dir():
        raise InputError(f"{folder} must be a folder of audits; pass the folder that audit --out writes into")
    documents = [{**read_document(path), "file": path.name} for path in sorted(Path(folder).glob("*.json"))]
    if not documents:
        raise InputError(f"{folder} holds no audits (*.json); write some with audit --out")
    return sorted(documents, key=lambda document: (str(document["date"]), document["file"]))


def changes_since(document: Mapping[str, Any], one: Audit, path: str | Path) -> list[Change]:
    """What moved from an older audit to this one; both must be of lists of the same length."""
    if document.get("k") != one.k:
        raise InputError(
            f"audits can be compared only for lists of the same length, but k is {one.k} here and {document.get('k')} "
            f"in {path}; pass --k {document.get('k')}, or another audit"
        )
    return compare_audits(document, one.measures, document.get("without") or {}, one.without)


def changes_between(subject: Subject) -> dict[str, list[Change]]:
    """What each further system does differently from the first, by its name."""
    first = subject.main
    others = {name: subject.audits[name] for name in subject.mains[1:]}
    for name, one in others.items():
        if one.k != first.k:
            raise InputError(
                f"lists can be compared only if they have the same length, but k is {first.k} for {subject.mains[0]} "
                f"and {one.k} for {name}; pass --k {min(first.k, one.k)}"
            )
    return {
        name: compare_audits(first.measures, one.measures, first.without, one.without) for name, one in others.items()
    }
