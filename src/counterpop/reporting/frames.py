"""The numbers of every result as columns, and as a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import singledispatch
from typing import Any

import numpy as np

from counterpop.adjustment import Adjustment
from counterpop.artifacts import Saved
from counterpop.auditing import Audit
from counterpop.comparison import Comparison
from counterpop.debiasing import Debiasing, Effect
from counterpop.directions import Directions
from counterpop.drift import Drift
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.evaluation import Evaluation, Measures
from counterpop.interactions import Interactions
from counterpop.ledger import GradientPicture, Ledger, gradient_picture
from counterpop.readers import Category, Labels, Recommendations
from counterpop.reporting.tables import LABELS
from counterpop.runs import Dials, Model, Run
from counterpop.splits import Development, Split
from counterpop.tuning import Grid, Tuned
from counterpop.worlds import Truth, World

Columns = dict[str, Any]
LIBRARIES = ("polars", "pandas")


def make_frame(value: object, library: str = "polars") -> Any:
    """A data frame of polars or pandas with the numbers of a result."""
    if library not in LIBRARIES:
        raise InputError(f"a data frame is made by polars or pandas, got {library!r}")
    columns = columns_of(value)
    if library == "polars":
        import polars as pl

        return pl.DataFrame(columns, strict=False)
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InputError("this needs pandas: pip install pandas, or leave out the argument to use polars") from error
    return pd.DataFrame({name: list(column) for name, column in columns.items()})


@singledispatch
def columns_of(value: object) -> Columns:
    """The numbers of a result, by column."""
    raise InputError(f"{type(value).__name__} has no table")


def _by_row(rows: list[dict[str, Any]]) -> Columns:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def _measured(measures: Measures) -> dict[str, dict[str, Any]]:
    """Value and interval of every metric."""
    found = {}
    for metric in LABELS:
        low, high = measures.intervals.get(metric, (None, None))
        found[metric] = {"value": getattr(measures, metric), "low": low, "high": high}
    return found


@columns_of.register
def _(value: Measures) -> Columns:
    return _by_row([{"metric": metric, **row} for metric, row in _measured(value).items()])


def _before_and_after(plain: Measures, adjusted: Measures, difference: Mapping[str, Any], part: str) -> list[Columns]:
    before, after = _measured(plain), _measured(adjusted)
    rows = []
    for metric in LABELS:
        row: Columns = {"part": part, "metric": metric}
        for name, one in (("plain", before[metric]), ("adjusted", after[metric])):
            row |= {name: one["value"], f"{name}_low": one["low"], f"{name}_high": one["high"]}
        moved = difference.get(metric, {})
        names = {"difference": "difference", "difference_low": "low", "difference_high": "high", "p_value": "p_value"}
        rows.append(row | {column: moved.get(key) for column, key in names.items()})
    return rows


@columns_of.register
def _(value: Evaluation) -> Columns:
    both = [value] if value.ordinary is None else [value, value.ordinary]
    rows = [_before_and_after(one.plain, one.adjusted, one.comparison, one.on) for one in both]
    return _by_row([row for part in rows for row in part])


@columns_of.register
def _(value: Effect) -> Columns:
    return _by_row(_before_and_after(value.plain, value.adjusted, value.comparison, "held out"))


@columns_of.register
def _(value: Drift) -> Columns:
    effects = {"stored against plain": value.against_plain, "new against stored": value.renewed}
    rows = [_before_and_after(one.plain, one.adjusted, one.comparison, name) for name, one in effects.items()]
    return _by_row([row for part in rows for row in part])


@columns_of.register
def _(value: Comparison) -> Columns:
    rows = []
    names = {"first_minus_this": "difference", "p_value": "p_value", "corrected": "corrected"}
    for model, figures in value.figures.items():
        moved = value.differences.get(model, {})
        for metric, figure in figures.items():
            against = {name: moved.get(metric, {}).get(key) for name, key in names.items()}
            rows.append({"model": model, "metric": metric, **figure, **against})
    return _by_row(rows)


@columns_of.register
def _(value: Run) -> Columns:
    return _by_row([dict(entry) for entry in value.history])


@columns_of.register
def _(value: Saved) -> Columns:
    return _by_row([dict(entry) for entry in value.history] or [dict(value.settings)])


@columns_of.register
def _(value: Grid) -> Columns:
    item, user = np.meshgrid(value.item_strengths, value.user_strengths, indexing="ij")
    columns = {"item_strength": item, "user_strength": user, **value.values}
    return {name: np.ravel(column) for name, column in columns.items()}


@columns_of.register(Tuned)
@columns_of.register(Debiasing)
def _(value: Tuned | Debiasing) -> Columns:
    rows = [{"point": name, **asdict(point)} for name, point in value.points.items()]
    return _by_row(rows or [{"item_strength": value.item_strength, "user_strength": value.user_strength}])


@columns_of.register
def _(value: Adjustment) -> Columns:
    sides = {"item_direction": value.item_direction, "user_direction": value.user_direction}
    return {"dimension": np.arange(len(value.item_direction)), **sides}


@columns_of.register
def _(value: Directions) -> Columns:
    return {"dimension": np.arange(len(value.item)), "item": value.item, "user": value.user}


@columns_of.register
def _(value: Audit) -> Columns:
    rows = []
    for name, figure in value.measures.items():
        known, interval = bool(np.isfinite(figure)), value.intervals.get(name)
        row = {"measure": name, "value": figure if known else None, "grade": value.grades.get(name)}
        row |= {"low": interval and interval.low, "high": interval and interval.high}
        rows.append(row | {"meaning": value.meanings.get(name)})
    return _by_row(rows)


@columns_of.register
def _(value: Interactions) -> Columns:
    columns: Columns = {"user": value.user_ids[value.user_ix], "item": value.item_ids[value.item_ix]}
    more = {"time": value.time, "part": value.part, "weight": value.weight}
    return columns | {name: column for name, column in more.items() if column is not None}


def _parts(known: Development, test: Interactions | None = None) -> Columns:
    logs = {"train": known.train, "valid": known.valid, "ordinary": known.ordinary, "test": test}
    rows = []
    for name, log in logs.items():
        if log is not None:
            users, items = (int(np.count_nonzero(counts)) for counts in (log.user_counts, log.item_counts))
            rows.append({"part": name, "pairs": len(log), "users": users, "items": items})
    return _by_row(rows)


@columns_of.register
def _(value: Split) -> Columns:
    return _parts(value.development, value.test)


@columns_of.register
def _(value: Development) -> Columns:
    return _parts(value)


@columns_of.register
def _(value: Embeddings) -> Columns:
    ids = np.concatenate([value.user_ids.astype(str), value.item_ids.astype(str)]).tolist()
    side = np.repeat(["user", "item"], [len(value.user_ids), len(value.item_ids)])
    return {"side": side, "id": ids, "vector": np.concatenate([value.user_vectors, value.item_vectors])}


@columns_of.register
def _(value: Model) -> Columns:
    return columns_of(value.embeddings)


@columns_of.register
def _(value: Dials) -> Columns:
    sides = [("item", value.item_strengths), ("user", value.user_strengths)]
    return _by_row([{"side": side, "strength": strength} for side, axis in sides for strength in axis])


@columns_of.register
def _(value: Ledger) -> Columns:
    return columns_of(gradient_picture(value))


@columns_of.register
def _(value: GradientPicture) -> Columns:
    return {"item": np.arange(len(value.norm_pull)), **vars(value)}


@columns_of.register
def _(value: Recommendations) -> Columns:
    row, place = np.nonzero(value.lists >= 0)
    users, items = value.log.user_ids[value.users[row]], value.log.item_ids[value.lists[row, place]]
    return {"user": users, "rank": place + 1, "item": items}


@columns_of.register
def _(value: Category) -> Columns:
    return {"category": [None if at < 0 else value.values[at] for at in value.of.tolist()]}


@columns_of.register
def _(value: Labels) -> Columns:
    return {"name": value.names, **{name: columns_of(one)["category"] for name, one in value.categories.items()}}


@columns_of.register
def _(value: Truth) -> Columns:
    counts = {"interactions": value.log.item_counts} if isinstance(value, World) else {}
    return {"item": np.arange(len(value.exposure)), "exposure": value.exposure, **counts}
