"""The runs behind the tables: each is made once, by a plan, on the data sets of a folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.encoding import to_json
from counterpop.kernels.threads import core_count
from counterpop.paper.cache import Cache, Record, machine
from counterpop.paper.datasets import checksum, find_datasets, load_dataset, thin, whole
from counterpop.paper.plan import ORDINARY, PROPORTIONS, QUICK_USERS, SEARCHED, TIMED_EPOCHS, Plan
from counterpop.paper.published import METRICS
from counterpop.training.settings import SOFTMAX_ONLY

K = 20
RESAMPLES = 200
MIX_STREAM = 701

Watch = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained run, and its model as tuned on validation."""

    run: cp.Run
    tuned: cp.Tuned
    seconds: float


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a run in full: with its defaults, and with the number of threads if it runs on the CPU."""
    chosen = cp.Settings(**settings)
    threads = None if chosen.device == "cuda" else chosen.threads or core_count()
    full = chosen.to_json() | {"threads": threads}
    # a setting that another loss has no use for must not change the keys of its results
    return {name: value for name, value in full.items() if value is not None or name not in SOFTMAX_ONLY}


@dataclass(frozen=True)
class Tools:
    """What a run is made with; a machine without numba or polars brings its own."""

    load: Callable[[Path], cp.Split] = load_dataset
    tune: Callable[..., cp.Tuned] = field(default_factory=lambda: partial(cp.tune, point="gain", prove=False))
    evaluate: Callable[..., cp.Evaluation] = field(default_factory=lambda: cp.evaluate)
    search: Callable[..., cp.Grid] = field(default_factory=lambda: cp.search_strengths)


@dataclass(frozen=True, eq=False)
class Choice:
    """The outcome of a cell's search."""

    settings: dict[str, Any]
    searched: list[dict[str, Any]]
    """Each setting that was tried with its recall on validation, or why there is none; one is "chosen"."""


class Bench:
    """Makes runs by a plan on the data sets of a folder, each once."""

    def __init__(
        self,
        data: Path,
        runs: Path,
        plan: Plan,
        *,
        watch: Watch = lambda label: nullcontext(None),
        tools: Tools | None = None,
    ) -> None:
        self.plan, self.cache, self.paths = plan, Cache(runs), find_datasets(data)
        self._watch, self._tools = watch, tools or Tools()
        self._splits: dict[str, cp.Split] = {}
        self._checksums: dict[str, str] = {}
        self._fitted: dict[str, Fitted] = {}

    def split(self, name: str) -> cp.Split:
        """A data set as it is split; of a smoke run only a few of its users."""
        if name not in self._splits:
            split = self._tools.load(self._path(name))
            self._splits[name] = thin(split, QUICK_USERS) if self.plan.quick else split
        return self._splits[name]

    def full(self, name: str) -> cp.Split:
        """A data set as it is split, with all of its users."""
        return self._tools.load(self._path(name)) if self.plan.quick else self.split(name)

    def _path(self, name: str) -> Path:
        if name not in self.paths:
            raise cp.InputError(f"no data set {name} in the data folder")
        return self.paths[name]

    def choose(self, name: str, backbone: str, method: str, **more: Any) -> Choice:
        """The settings of a cell with the best recall on validation; `more` is not searched over.

        Raises `InputError` if none of them can be trained.
        """
        best, best_recall, why = None, -1.0, ""
        searched: list[dict[str, Any]] = []
        for settings in self.plan.candidates(backbone, method, **more):
            tried = {key: settings[key] for key in SEARCHED if key in settings}
            tried |= {"options": str(settings["method"])} if isinstance(settings["method"], cp.Method) else {}
            try:
                record = self.validated(name, settings)
            except cp.InputError as error:
                why = str(error)
                searched.append({"settings": tried, "missing": why})
                continue
            recall = record["valid"]["recall"]
            searched.append({"settings": tried, "recall": recall})
            if recall > best_recall:
                best, best_recall = settings, recall
                for one in searched:
                    one["chosen"] = one is searched[-1]
            kept = self._name_of(name, best or settings)
            self._fitted = {key: fitted for key, fitted in self._fitted.items() if key == kept}
        if best is None:
            raise cp.InputError(why or f"{method} accepts none of the settings that the plan tries")
        return Choice(best, searched)

    def validated(self, name: str, settings: Mapping[str, Any]) -> Record:
        """How a run does on validation, and what was chosen there: epochs, strengths, the whole grid."""

        def make() -> Record:
            fitted = self._fit(name, settings)
            self._fitted[self._name_of(name, settings)] = fitted
            run, grid = fitted.run, fitted.tuned.grid
            strengths = fitted.tuned.item_strength, fitted.tuned.user_strength
            return {
                "dataset": name,
                "settings": run.settings,
                "epochs": run.settings["chosen_epochs"],
                "seconds": fitted.seconds,
                "epoch_seconds": float(np.median([e["seconds"] for e in run.history])),
                "looks": [[e["epoch"], e["valid"]] for e in run.history if "valid" in e],
                "strengths": strengths,
                "valid": _figures(grid.at(*strengths)),
                "grid": {
                    "item_strengths": grid.item_strengths,
                    "user_strengths": grid.user_strengths,
                    **{metric: np.round(grid.values[metric], 6) for metric in METRICS},
                },
            }

        return self.cache.get(self._key("validation", name, settings), make)

    def tested(self, name: str, settings: Mapping[str, Any]) -> Record:
        """How a run does on test, at the strengths that validation chose.

        If both sides have a strength, also with one side off (the other chosen on validation for that) and with both
        off; if there is a ledger, also its picture of gradients.
        """

        def make() -> Record:
            self.validated(name, settings)  # leaves the model behind, unless it was made earlier
            fitted = self._fitted.pop(self._name_of(name, settings), None) or self._fit(name, settings)
            split, final = self.split(name), fitted.tuned
            found = self._tools.evaluate(final, split, on="test", k=K, resamples=RESAMPLES)
            record: Record = {
                "dataset": name,
                "settings": fitted.run.settings,
                "strengths": [final.item_strength, final.user_strength],
                "users": len(found.plain.users),
                "adjusted": found.adjusted.to_json(),
                "plain": found.plain.to_json(),
                "comparison": found.comparison,
            }
            if min(len(final.grid.item_strengths), len(final.grid.user_strengths)) > 1:
                record["sides"] = self._one_side(fitted, split)
            if fitted.run.ledger is not None:
                record["picture"] = _picture(fitted.run.ledger, _train_of(fitted.run, split))
            return record

        return self.cache.get(self._key("test", name, settings), make)

    def timed(self, name: str, settings: Mapping[str, Any]) -> Record:
        """The seconds of a few epochs after the first, and the machine that they were measured on."""
        number = TIMED_EPOCHS[settings["backbone"]]
        few = dict(settings) | {"epochs": number, "check_every": number}

        def make() -> Record:
            run = self._train(name, self.split(name).development, few, refit=False)
            seconds = [entry["seconds"] for entry in run.history[1:]]
            return {"epochs": seconds, "settings": run.settings, "machine": machine()}

        return self.cache.get(self._key("time", name, few), make)

    def mixed(self, name: str, plain: Mapping[str, Any], gradient: Mapping[str, Any], seed: int) -> Record:
        """Both methods on test parts of which a growing share was drawn by intervention.

        Train and validation are the same throughout. The strengths are chosen once, on the intervened validation part
        ("fixed"), and again for each proportion on a validation part of that proportion, made of intervened pairs and
        of pairs held out as they were observed ("chosen").
        """

        def make() -> Record:
            log = whole(self.split(name))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cp.CounterpopWarning)
                splits = [cp.split_mixed(log, p, seed=seed, ordinary=ORDINARY) for p in PROPORTIONS]
            known = splits[0].development
            plain_run, run = (
                self._train(name, known, dict(s) | {"seed": seed}, refit=False) for s in (plain, gradient)
            )
            fixed = self._tools.tune(run, known, k=K)
            always = fixed.item_strength, fixed.user_strength
            record: Record = {"proportions": PROPORTIONS, "fixed_strengths": always, "chosen_strengths": []}
            record |= {"plain": [], "fixed": [], "chosen": []}
            for p, split in zip(PROPORTIONS, splits, strict=True):
                held = mix(known.valid, known.ordinary or known.valid, p, seed)
                own = cp.choose_strengths(self._search(run, known, held))
                figures = self._search(run, known, split.test, always, own)
                unadjusted = self._search(plain_run, known, split.test, (0.0, 0.0))
                record["plain"].append(_figures(unadjusted.at(0.0, 0.0)))
                record["fixed"].append(_figures(figures.at(*always)))
                record["chosen"].append(_figures(figures.at(*own)))
                record["chosen_strengths"].append(own)
            return record

        key = self._key("mixed", name, dict(gradient) | {"seed": seed})
        key |= {"plain": resolve(dict(plain) | {"seed": seed}), "mix": [PROPORTIONS, ORDINARY]}
        return self.cache.get(key, make)

    def _search(
        self, run: cp.Run, known: cp.Development, held: cp.Interactions, *points: tuple[float, float]
    ) -> cp.Grid:
        """The metrics of a run's first model: at these points on test, or over the whole grid on validation pairs."""
        directions = cp.find_directions(run.model, known.train)
        grid, seen = (_crossing(*points), known.refit_train()) if points else ({}, known.train)
        return self._tools.search(run.model.embeddings, directions, seen, held, k=K, **grid)

    def _fit(self, name: str, settings: Mapping[str, Any]) -> Fitted:
        split, start = self.split(name), time.perf_counter()
        run = self._train(name, split.development, settings, refit=split.manifest.carved is not None)
        return Fitted(run, self._tools.tune(run, split.development, k=K), time.perf_counter() - start)

    def _train(self, name: str, known: cp.Development, settings: Mapping[str, Any], *, refit: bool) -> cp.Run:
        chosen = resolve(settings)
        label = f"{name}, {chosen['backbone']} {chosen['method']}, {chosen['loss']}, seed {chosen['seed']}"
        with self._watch(label) as show:
            fixed = {name: chosen[name] for name in ("loss", "negative_power")}  # what is not named is not searched
            return cp.train(known, refit=refit, on_progress=show, **dict(settings) | fixed)

    def _one_side(self, fitted: Fitted, split: cp.Split) -> dict[str, Any]:
        """Test figures with the item side off, the user side off, and both off; strengths chosen on validation."""
        final, grid = fitted.tuned, fitted.tuned.grid
        recall = np.asarray(grid.values["recall"])
        points = {
            "item off": (0.0, grid.user_strengths[int(recall[0].argmax())]),
            "user off": (grid.item_strengths[int(recall[:, 0].argmax())], 0.0),
            "both off": (0.0, 0.0),
        }
        on_test = self._tools.search(
            fitted.run.embeddings,
            cp.Directions(final.item_direction, final.user_direction),
            final.seen,
            split.test,
            k=K,
            **_crossing(*points.values()),
        )
        return {side: {"strengths": at, **_figures(on_test.at(*at))} for side, at in points.items()}

    def _key(self, what: str, name: str, settings: Mapping[str, Any]) -> Record:
        """What changes the bits of a result, and nothing else."""
        if name not in self._checksums:
            self._checksums[name] = checksum(self._path(name))
        return {
            "what": what,
            "dataset": name,
            "data": self._checksums[name],
            "numbers": cp.NUMBERS,
            "k": K,
            "settings": resolve(settings),
            "users": QUICK_USERS if self.plan.quick else None,
        }

    def _name_of(self, name: str, settings: Mapping[str, Any]) -> str:
        return to_json([name, resolve(settings)])


def mix(intervened: cp.Interactions, observed: cp.Interactions, share: float, seed: int) -> cp.Interactions:
    """Pairs of two disjoint parts of one log, `share` of them from the first; as many pairs as the smaller part has."""
    size = min(len(intervened), len(observed))
    first = round(share * size)
    draw = np.random.default_rng([seed, MIX_STREAM])
    return cp.join(
        *(
            part.rows(np.sort(draw.permutation(len(part))[:number]))
            for part, number in ((intervened, first), (observed, size - first))
        )
    )


def _crossing(*points: tuple[float, float]) -> dict[str, tuple[float, ...]]:
    """The smallest grid of strengths that holds these points."""
    items, users = (tuple(sorted({point[side] for point in points})) for side in (0, 1))
    return {"item_strengths": items, "user_strengths": users}


def _picture(ledger: cp.Ledger, train: cp.Interactions) -> Record:
    """Figure 1 in bins of popularity ranks, and its means over popular items and the rest."""
    picture, counts = cp.gradient_picture(ledger), train.item_counts
    popular = cp.head(counts)
    record: Record = {}
    for name, values in vars(picture).items():
        rank, mean = cp.mean_by_rank(values, counts)
        record["rank"] = np.round(rank, 1)
        record[name] = [float(f"{m:.5g}") if np.isfinite(m) else None for m in mean]
        record[f"{name}_means"] = [_mean_known(values[rows]) for rows in (popular, ~popular)]
    return record


def _mean_known(values: Any) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _train_of(run: cp.Run, split: cp.Split) -> cp.Interactions:
    """What the final model of a run was trained on."""
    return split.development.refit_train() if run.refit is not None else split.train


def _figures(point: Mapping[str, float]) -> dict[str, float]:
    return {metric: point[metric] for metric in METRICS}
