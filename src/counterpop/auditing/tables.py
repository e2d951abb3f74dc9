"""The tables of an audit: whom it concerns, by item, by category, and every measure. Each can be written as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.auditing.definitions import CLASSES, DEFINITIONS
from counterpop.auditing.grades import THRESHOLDS
from counterpop.metrics.popularity import jensen_shannon, mean_by_rank, popularity_classes, popularity_groups
from counterpop.outputs import replacing

if TYPE_CHECKING:
    from counterpop.auditing.result import Audit

SHOWN = 20  # items in the tables of a page


def expected_lists(audit: Audit) -> NDArray[np.float64]:
    """(I,) the lists each item would be in if the places were shared out like the interactions of the log."""
    return np.asarray(audit.exposure.sum() * audit.item_counts / audit.item_counts.sum())


def over_exposed(audit: Audit, most: int = SHOWN) -> list[dict[str, Any]]:
    """The items that are in the most lists beyond `expected_lists`, first the furthest beyond."""
    beyond = audit.exposure - expected_lists(audit)
    order = np.lexsort((np.arange(audit.items), -beyond))[:most]
    return [_item(audit, n) for n in order[beyond[order] > 0].tolist()]


def never_recommended(audit: Audit, most: int = SHOWN) -> list[dict[str, Any]]:
    """Items in no list, first those with the most interactions."""
    never = np.flatnonzero(audit.exposure == 0)
    order = np.lexsort((never, -audit.item_counts[never]))[:most]
    return [_item(audit, n) for n in never[order].tolist()]


def _item(audit: Audit, at: int) -> dict[str, Any]:
    expected = float(audit.exposure.sum() * audit.item_counts[at] / audit.item_counts.sum())
    about: dict[str, Any] = {"item": audit.item_ids[at : at + 1].tolist()[0], "name": None}
    if audit.labels is not None:
        about["name"] = audit.labels.names[at]
        for name, category in audit.labels.categories.items():
            about[name] = category.values[category.of[at]] if category.of[at] >= 0 else None
    numbers = {"interactions": int(audit.item_counts[at]), "lists": int(audit.exposure[at])}
    return about | numbers | {"expected_lists": expected}


def category_tables(audit: Audit) -> dict[str, dict[str, Any]]:
    """For each category column: a row per category, most interactions first, and how well the two mixes agree.

    Items without a category form a row of their own, named "(none)". `awrf` is 1 - the Jensen-Shannon divergence
    between the categories' shares of all attention and of the interactions.
    """
    tables = {}
    for name, category in (audit.labels.categories if audit.labels else {}).items():
        names = [*category.values, "(none)"]
        of = np.where(category.of < 0, len(category.values), category.of)
        columns = {
            "items": np.bincount(of, minlength=len(names)),
            "never_recommended": np.bincount(of, audit.exposure == 0, len(names)).astype(np.int64),
            "interactions": np.bincount(of, audit.item_counts, len(names)) / audit.item_counts.sum(),
            "frequency": np.bincount(of, audit.exposure, len(names)) / audit.exposure.sum(),
            "attention": np.bincount(of, audit.attention, len(names)) / audit.attention.sum(),
        }
        awrf = 1 - float(jensen_shannon(columns["attention"], columns["interactions"]))
        order = [n for n in np.argsort(-columns["interactions"], kind="stable").tolist() if columns["items"][n]]
        rows = [{"name": names[n], **{key: column[n].item() for key, column in columns.items()}} for n in order]
        tables[name] = {"awrf": awrf, "rows": rows}
    return tables


def write_tables(audits: Mapping[str, Audit], folder: Path) -> list[Path]:
    """Writes every table of the audits as CSV into the folder; a first column names the lists. Returns the paths."""
    written = []
    makers: dict[str, Callable[[Audit], Any]] = {
        "measures": _measures,
        "groups": _groups,
        "users_by_taste": lambda one: [_flat(segment) for segment in one.segments],
        "users_by_attribute": lambda one: [
            {"attribute": name, **_flat(row)} for name, rows in one.attributes.items() for row in rows
        ],
        "categories": lambda one: [
            {"category": name, **row} for name, table in category_tables(one).items() for row in table["rows"]
        ],
        "frequency_by_rank": _frequency,
        "notes": lambda one: [{"note": name, "number": number} for name, number in one.notes.items()],
        "items": _items,
        "users": _users,
    }
    for name, make in makers.items():
        frames = []
        for lists, one in audits.items():
            frame = make(one)
            frame = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame, infer_schema_length=None)
            if frame.height:
                frames.append(frame.select(pl.lit(lists).alias("audit"), pl.all()))
        if frames:
            written.append(folder / f"{name}.csv")
            with replacing(written[-1]) as part:
                pl.concat(frames, how="diagonal_relaxed").write_csv(part)
    return written


def _measures(one: Audit) -> list[dict[str, Any]]:
    rows = []
    for name, definition in DEFINITIONS.items():
        interval = one.intervals.get(name)
        rows.append(
            {
                "measure": name,
                "label": definition.label,
                "value": _finite(one.measures[name]),
                "low": interval.low if interval else None,
                "high": interval.high if interval else None,
                "standard_error": interval.standard_error if interval else None,
                "grade": one.grades.get(name),
                "threshold": THRESHOLDS[name].text if name in THRESHOLDS else None,
                "meaning": one.meanings[name],
                "definition": definition.text,
            }
        )
    return rows


def _groups(one: Audit) -> list[dict[str, Any]]:
    return [{"group": n, **group} for n, group in enumerate(one.groups, 1)]


def _flat(segment: Mapping[str, Any]) -> dict[str, Any]:
    """A group of users in one row."""
    flat = {name: _finite(value) for name, value in segment.items() if name not in ("profile", "lists")}
    return flat | {f"{what}_{c}": _finite(segment[what][c]) for what in ("profile", "lists") for c in CLASSES}


def _frequency(one: Audit) -> pl.DataFrame:
    rank, share = mean_by_rank(one.exposure / max(1, one.users), one.item_counts)
    return pl.DataFrame({"rank": rank, "share_of_users": share})


def _items(one: Audit) -> pl.DataFrame:
    columns: dict[str, Any] = {"item": one.item_ids.tolist()}
    if one.labels is not None:
        columns["name"] = one.labels.names
        for name, category in one.labels.categories.items():
            columns[name] = [category.values[n] if n >= 0 else None for n in category.of.tolist()]
    classes: Sequence[str] = np.array(CLASSES)[popularity_classes(one.item_counts)].tolist()
    return pl.DataFrame(
        columns
        | {
            "interactions": one.item_counts,
            "lists": one.exposure,
            "expected_lists": expected_lists(one),
            "attention": one.attention,
            "class": classes,
            "group": popularity_groups(one.item_counts) + 1,
        }
    )


def _users(one: Audit) -> pl.DataFrame:
    columns = {"user": one.user_ids[one.user_ix].tolist(), **one.per_user}
    return pl.DataFrame(columns).fill_nan(None)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
