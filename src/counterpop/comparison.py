"""Several models, each with one seed or many, measured on the same users and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.artifacts import load_saved, load_tested, seed_folders
from counterpop.errors import InputError
from counterpop.evaluation import Evaluation, Measures, On, evaluate
from counterpop.interactions import pair_keys
from counterpop.metrics.resampling import PER_USER
from counterpop.outputs import place_of
from counterpop.presentation import Pictured
from counterpop.recommender import Recommender
from counterpop.splits import Split
from counterpop.uncertainty import Spread, correct, over_seeds, resample

Subject = Recommender | str | Path | Sequence[Recommender]
ORDINARY = "ordinary_recall"  # recall on ordinary pairs, if the split has some
PLAIN = ", plain"  # after the name of a model: its lists at strengths 0
WHOLE = ("coverage", "gini")  # of all lists together, so without an interval over users


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Pictured):
    """Figures of several models with their scatter, and the first model minus each other."""

    k: int
    on: On
    users: int
    figures: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """By model and metric: mean over seeds, its standard deviation over seeds (`std`, None for one seed), a 95 %
    interval over users and seeds (`low`, `high`, None for coverage and Gini), and the number of `seeds`."""
    values: Mapping[str, Mapping[str, Sequence[float]]]
    """By model and metric: the figure of each seed."""
    differences: Mapping[str, Mapping[str, Mapping[str, float]]]
    """By the other model and metric: first minus other (`difference`), its interval, the paired `p_value`, and that
    value `corrected` by Holm for all differences here."""

    @property
    def names(self) -> list[str]:
        """The models, without the rows of their plain lists."""
        return [name for name in self.figures if not name.endswith(PLAIN)]

    @property
    def first(self) -> str:
        return next(iter(self.figures))

    def to_json(self) -> dict[str, Any]:
        """What `counterpop compare --json` prints."""
        names = "k", "on", "users", "first", "figures", "values", "differences"
        return {name: getattr(self, name) for name in names}


def compare(
    subjects: Mapping[str, Subject] | Sequence[Subject],
    split: Split | None = None,
    *,
    on: On = "test",
    k: int = 20,
    plain: bool = False,
) -> Comparison:
    """The first of several models against each other one, on the same users of a held-out part.

    A subject is a folder that `train` or `debias` wrote, a folder of several seeds (`train --seeds`), a model, or a
    list of models that differ only by their seed. Models in memory need the `split`; otherwise it is that of the first
    folder. `plain` adds the lists of each model at strengths 0.

    Users are drawn again for every interval, the same ones for all models, and seeds as well, independently for each
    model. So a difference is paired over users and knows about the scatter of seeds: see `uncertainty`. With one seed
    each, it says nothing about other seeds.
    """
    named = _named(subjects)
    if split is None:
        folder = next((one for one in named.values() if isinstance(one, str | Path)), None)
        if folder is None:
            raise InputError("models in memory are measured on a split: pass it as compare(models, split)")
        split = load_tested(seed_folders(folder)[0])[1]
    rows: dict[str, list[Evaluation]] = {}
    for name, subject in named.items():
        models = _models(subject, on)
        rows[name] = [evaluate(model, split, on, k, resamples=0) for model in models]
        trained_on = (
            [model.seen for model in models] if isinstance(subject, str | Path) else []
        )  # of folders it is train
        if on == "valid" and any(np.isin(pair_keys(split.valid), pair_keys(log)).any() for log in trained_on):
            raise InputError(f"{name} was trained on pairs that are held out here; compare models of one split")
    return summarise_seeds(rows, plain)


def _named(subjects: Mapping[str, Subject] | Sequence[Subject]) -> dict[str, Subject]:
    if not isinstance(subjects, Mapping | Sequence) or isinstance(subjects, str):
        raise InputError(
            f"compare takes a list of models or folders, or names of them, got {type(subjects).__name__}; two "
            "results of the same users are compared by cp.contrast"
        )
    if isinstance(subjects, Mapping):
        named = dict(subjects)
    else:
        names = [place_of(one).name if isinstance(one, str | Path) else "" for one in subjects]
        full = [
            f"model {n}" if not name else name if names.count(name) == 1 else str(one)
            for n, (name, one) in enumerate(zip(names, subjects, strict=True), 1)
        ]
        if len(set(full)) < len(full):
            raise InputError("each model can be compared only once, but one is named twice")
        named = dict(zip(full, subjects, strict=True))
    if not named:
        raise InputError("there must be at least one model to compare, got none")
    return named


def _models(subject: Subject, on: On) -> list[Recommender]:
    if isinstance(subject, Recommender):
        return [subject]
    if isinstance(subject, str | Path):
        return [load_saved(folder).recommender(on) for folder in seed_folders(subject)]
    return list(subject)


def summarise_seeds(rows: Mapping[str, Sequence[Evaluation]], plain: bool = False) -> Comparison:
    """The comparison of evaluations on the same users: one for each seed, by the name of the model."""
    first = next(iter(rows.values()))[0]
    lists: dict[str, tuple[str, list[Measures], list[Measures]]] = {}
    for name, found in rows.items():
        if any(one.plain.held != first.plain.held for one in found):
            raise InputError(f"only models measured on the same held-out pairs can be compared; {name} has others")
        kinds = {name: "adjusted"} | ({f"{name}{PLAIN}": "plain"} if plain else {})
        for row, kind in kinds.items():
            ordinary = [getattr(one.ordinary, kind) for one in found if one.ordinary]
            lists[row] = name, [getattr(one, kind) for one in found], ordinary
    spreads = {row: _spreads(*those) for row, those in lists.items()}
    values = {row: _values(those, ordinary) for row, (_, those, ordinary) in lists.items()}
    figures = {
        row: {metric: _figure(each, spreads[row].get(metric)) for metric, each in by_metric.items()}
        for row, by_metric in values.items()
    }
    return Comparison(first.k, first.on, len(first.plain.users), figures, values, _differences(spreads))


def _values(measures: Sequence[Measures], ordinary: Sequence[Measures]) -> dict[str, list[float]]:
    found = {metric: [float(getattr(one, metric)) for one in measures] for metric in (*PER_USER, *WHOLE)}
    return found | ({ORDINARY: [one.recall for one in ordinary]} if len(ordinary) == len(measures) else {})


def _spreads(key: str, measures: Sequence[Measures], ordinary: Sequence[Measures]) -> dict[str, Spread]:
    """Each metric that is a mean over users, over users and seeds. Lists of the same models share draws."""
    draws = [resample({name: _known(one.per_user[name]) for name in PER_USER}, one.weights) for one in measures]
    found = {
        name: over_seeds([float(getattr(one, name)) for one in measures], [one[name] for one in draws], key)
        for name in PER_USER
    }
    if len(ordinary) == len(measures):
        today = [resample({"recall": one.per_user["recall"]}, one.weights)["recall"] for one in ordinary]
        found[ORDINARY] = over_seeds([one.recall for one in ordinary], today, key)
    return found


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A user with an empty list, which has no popularity, counts as an average one."""
    known = np.isfinite(values)
    return np.where(known, values, values[known].mean() if known.any() else 0.0)


def _figure(values: Sequence[float], spread: Spread | None) -> dict[str, Any]:
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    interval = {"low": spread.low, "high": spread.high} if spread else {"low": None, "high": None}
    return {"mean": float(np.mean(values)), "std": std, **interval, "seeds": len(values)}


def _differences(spreads: Mapping[str, Mapping[str, Spread]]) -> dict[str, dict[str, dict[str, float]]]:
    (_, first), *others = spreads.items()
    pairs = [
        (row, metric, first[metric].minus(one[metric])) for row, one in others for metric in one if metric in first
    ]
    corrected = correct([difference.p_value for _, _, difference in pairs])
    found: dict[str, dict[str, dict[str, float]]] = {row: {} for row, _ in others}
    for (row, metric, difference), p_value in zip(pairs, corrected, strict=True):
        interval = {"difference": difference.mean, "low": difference.low, "high": difference.high}
        found[row][metric] = interval | {"p_value": difference.p_value, "corrected": p_value}
    return found
