"""The runs behind the tables: each is made once, by a plan, on the data sets of a folder."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.encoding import to_json
from counterpop.kernels.threads import core_count
from counterpop.paper.cache import Cache, Record, digest, machine
from counterpop.paper.datasets import checksum, draw_intervened, everybody, find_datasets, load_dataset, thin
from counterpop.paper.pictures import cancelling, measure_vectors, picture_gradients
from counterpop.paper.plan import QUICK_USERS, SEARCHED, TIMED_EPOCHS, UNIFORM, Candidates, Plan
from counterpop.paper.published import DATASETS, METRICS
from counterpop.uncertainty import pack, resample

K = 20
POPULARITY_RESAMPLES = 200  # for the intervals of popularity groups
FOLDS = 20  # of validation users: their scatter is the noise of a difference between two points of a grid
FOLD_STREAM = 704
ESTIMATORS = (  # of the item and the user direction; the first is the method's own
    ("ledger", "ledger"),
    ("ledger-pull", "ledger"),
    ("mean", "ledger"),
    ("head-mean", "ledger"),
    ("popularity-mean", "ledger"),
    ("head-minus-tail", "ledger"),
    ("svd", "ledger"),
    ("ridge", "ledger"),
    ("ledger", "mean"),
    ("ledger", "ridge"),
    ("head-mean", "mean"),
    ("ridge", "ridge"),
)
QUICK_ESTIMATORS = (ESTIMATORS[0], ("head-mean", "mean"))

Watch = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained run, its grid on validation, and its model at the grid's best strengths."""

    run: cp.Run
    grid: cp.Grid
    tuned: cp.Recommender
    seconds: float


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a run in full: with its defaults, and with the number of threads if it runs on the CPU."""
    chosen = cp.Settings(**settings)
    threads = None if chosen.device == "cuda" else chosen.threads or core_count()
    return chosen.to_json() | {"threads": threads}


def measure_test(model: cp.Recommender, split: cp.Split, resamples: int = 0) -> cp.Measures:
    """The metrics of a model's lists on test; popularity is counted in what it was trained on."""
    known, users = split.development, np.flatnonzero(split.test.user_counts).astype(np.int32)
    log = known.refit_train() if model.refit else known.train
    return cp.measure(model.recommend(users, K)[0], users, log, split.test, resamples=resamples)


@dataclass(frozen=True)
class Tools:
    """What a run is made with; a machine without numba or polars brings its own."""

    load: Callable[[Path], cp.Split] = load_dataset
    measure: Callable[..., cp.Measures] = measure_test
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
        datasets: Sequence[str] = (),
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.plan, self.cache, self.tools = plan, Cache(runs), tools or Tools()
        found = find_datasets(data)
        if lost := [name for name in datasets if name not in found]:
            raise cp.InputError(f"{data} must hold every --dataset, but it has no {', '.join(lost)}; leave it out")
        self.paths = {name: path for name, path in found.items() if name in (datasets or DATASETS)}
        self._watch, self._should_stop = watch, should_stop
        self._splits, self._checksums, self._fitted = dict[str, cp.Split](), dict[str, str](), dict[str, Fitted]()

    def split(self, name: str) -> cp.Split:
        """A data set as it is split; of a smoke run only a few of its users."""
        if name not in self._splits:
            split = self.tools.load(self._path(name))
            self._splits[name] = thin(split, QUICK_USERS) if self.plan.quick else split
        return self._splits[name]

    def full(self, name: str) -> cp.Split:
        """A data set as it is split, with all of its users."""
        return self.tools.load(self._path(name)) if self.plan.quick else self.split(name)

    def _path(self, name: str) -> Path:
        if name not in self.paths:
            raise cp.InputError(f"no data set {name} in the data folder, or left out by --dataset")
        return self.paths[name]

    def choose(self, name: str, backbone: str, method: str, among: Candidates = (), **more: Any) -> Choice:
        """The settings of a cell with the best recall on validation, see `Plan.search`; `more` is not searched over.

        Raises `InputError` if none of them can be trained.
        """
        best, best_recall, why = None, -1.0, ""
        searched: list[dict[str, Any]] = []
        for settings in self.plan.search(backbone, method, among, **more):
            try:
                recall = self.validated(name, settings)["valid"]["recall"]
            except cp.InputError as error:
                why = str(error)
                searched.append({"settings": _tried(settings), "missing": why})
                continue
            searched.append({"settings": _tried(settings), "recall": recall})
            if recall > best_recall:
                best, best_recall = settings, recall
                for one in searched:
                    one["chosen"] = one is searched[-1]
            kept = to_json([name, resolve(best or settings)])
            self._fitted = {key: fitted for key, fitted in self._fitted.items() if key == kept}
        if best is None:
            raise cp.InputError(why or f"{method} has no candidates")
        return Choice(best, searched)

    def validated(self, name: str, settings: Mapping[str, Any]) -> Record:
        """How a run does on validation, and what was chosen there: epochs, strengths, the whole grid."""

        def make() -> Record:
            fitted = self._fit(name, settings, refit=False)
            run, grid = fitted.run, fitted.grid
            strengths = fitted.tuned.item_strength, fitted.tuned.user_strength
            folds = [fold.values["recall"] for fold in grid.user_groups]
            return {
                "dataset": name,
                "settings": run.settings,
                "epochs": run.settings["chosen_epochs"],
                "seconds": fitted.seconds,
                "epoch_seconds": float(np.median([e["seconds"] for e in run.history])),
                "looks": [[e["epoch"], e["valid"]] for e in run.history if "valid" in e],
                "strengths": strengths,
                "valid": figures_of(grid.at(*strengths)),
                "grid": {
                    "item_strengths": grid.item_strengths,
                    "user_strengths": grid.user_strengths,
                    **{metric: np.round(grid.values[metric], 6) for metric in METRICS},
                },
                "folds": pack(np.nan_to_num(np.stack(folds) - grid.values["recall"])) if folds else None,
            }

        return self.cache.get(self.key("validation", name, settings), make)

    def tested(self, name: str, settings: Mapping[str, Any], ensemble: Sequence[int] = ()) -> Record:
        """How a run does on test, at the strengths that validation chose and without them.

        With `ensemble`, of the runs of these seeds as one. If both sides have a strength, also with one side off (the
        other chosen on validation for that); if there is a ledger, also its picture of gradients.
        """

        def make() -> Record:
            split = self.split(name)
            refit = split.manifest.carved is not None
            fitted = self._together(name, settings, ensemble) if ensemble else self._fit(name, settings, refit=refit)
            final, train = fitted.tuned, _train_of(fitted.run, split)
            adjusted = self.tools.measure(final, split, POPULARITY_RESAMPLES)
            record: Record = {
                "dataset": name,
                "settings": fitted.run.settings,
                "strengths": [final.item_strength, final.user_strength],
                "users": len(adjusted.users),
                "all_users": everybody(split),
                "adjusted": {**adjusted.to_json(), "draws": draws_of(adjusted)},
                "plain": self.tools.measure(final.with_strengths(0.0, 0.0), split).to_json(),
                "vectors": measure_vectors(fitted.run.embeddings, train),
            }
            grid, recall = fitted.grid, np.asarray(fitted.grid.values["recall"])
            if min(recall.shape) > 1:
                record["item off"] = self._at(fitted, split, (0.0, grid.user_strengths[int(recall[0].argmax())]))
                record["user off"] = self._at(fitted, split, (grid.item_strengths[int(recall[:, 0].argmax())], 0.0))
            if fitted.run.ledger is not None:
                record["picture"] = picture_gradients(fitted.run.ledger, train)
            return record

        key = self.key("test", name, settings) | ({"ensemble": list(ensemble)} if ensemble else {})
        return self.cache.get(key, make)

    def _together(self, name: str, settings: Mapping[str, Any], seeds: Sequence[int]) -> Fitted:
        """The runs of these seeds as one; each seed's own results are made as well, while its run is in memory."""
        runs, split = [], self.split(name)
        for one in (dict(settings) | {"seed": seed} for seed in seeds):
            self.tested(name, one)
            self.validated(name, one)
            runs.append(self._fit(name, one, refit=split.manifest.carved is not None).run)
        models, refits = [run.model for run in runs], [run.refit for run in runs if run.refit]
        whole = replace(runs[0], model=cp.combine(models), refit=cp.combine(refits) if refits else None)
        return self.tune(replace(whole, settings=whole.settings | {"ensemble": len(runs)}), split.development)

    def _at(self, fitted: Fitted, split: cp.Split, strengths: tuple[float, float]) -> Record:
        measures = self.tools.measure(fitted.tuned.with_strengths(*strengths), split)
        return {"strengths": strengths, **measures.to_json(), "draws": draws_of(measures)}

    def estimated(self, name: str, settings: Mapping[str, Any]) -> Record:
        """A run's figures with each estimator of the two directions, strengths chosen on validation for each.

        "cosines" are with the method's own directions, "both" between the item and the user direction.
        """
        estimators = QUICK_ESTIMATORS if self.plan.quick else ESTIMATORS

        def make() -> Record:
            split = self.split(name)
            fitted = self._fit(name, settings, refit=split.manifest.carved is not None)
            run, known = fitted.run, split.development
            first, final = known.train, _train_of(run, split)
            own = cp.find_directions(run.final, final)
            rows = []
            for item, user in estimators:
                named = {"item": item, "user": user}
                grid = self._grid(run.model, known, cp.find_directions(run.model, first, **named))  # type: ignore[arg-type]
                directions = cp.find_directions(run.final, final, **named)  # type: ignore[arg-type]
                strengths = cp.choose_strengths(grid)
                model = replace(fitted.tuned, item_direction=directions.item, user_direction=directions.user)
                measures = self.tools.measure(model.with_strengths(*strengths), split)
                cosines = [abs(float(getattr(directions, side) @ getattr(own, side))) for side in ("item", "user")]
                row = {**named, "strengths": strengths, "valid": grid.at(*strengths)["recall"], "cosines": cosines}
                rows.append(row | figures_of(measures.to_json()) | {"draws": draws_of(measures)})
            both = float(own.item @ own.user)
            ledger = run.ledger
            return {"estimators": rows, "both": both, "cancels": cancelling(ledger, final) if ledger else None}

        key = self.key("directions", name, settings) | {"estimators": estimators}
        return self.cache.get(key, make)

    def timed(self, name: str, settings: Mapping[str, Any]) -> Record:
        """The seconds of a few epochs after the first, and the machine that they were measured on."""
        number = TIMED_EPOCHS[settings["backbone"]]
        few = dict(settings) | {"epochs": number, "check_every": number}

        def make() -> Record:
            run = self.train(name, self.split(name).development, few, refit=False)
            seconds = [entry["seconds"] for entry in run.history[1:]]
            return {"epochs": seconds, "settings": run.settings, "machine": machine()}

        return self.cache.get(self.key("time", name, few), make)

    def _fit(self, name: str, settings: Mapping[str, Any], *, refit: bool) -> Fitted:
        """A trained run at its best strengths: the one in memory if it will do, which then stays the only one."""
        key = to_json([name, resolve(settings)])
        held = self._fitted.get(key)
        if held is not None and (held.run.refit is not None or not refit):
            return held
        known, start = self.split(name).development, time.perf_counter()
        run = self.train(name, known, settings, refit=refit)
        fitted = self.tune(run, known, time.perf_counter() - start)
        self._fitted = {other: one for other, one in self._fitted.items() if not refit and other != key}
        self._fitted[key] = fitted
        return fitted

    def tune(self, run: cp.Run, known: cp.Development, seconds: float = 0.0) -> Fitted:
        """The run at the strengths with the best recall on validation, as the paper chooses them."""
        directions = cp.find_directions(run.model, known.train)
        grid = self._grid(run.model, known, directions)
        if run.refit is not None:
            directions = cp.find_directions(run.refit, known.refit_train())
        model: dict[str, Any] = {"embeddings": run.embeddings, "seen": known.refit_train()}
        model["refit"] = run.refit is not None
        sides = directions.item, directions.user
        return Fitted(run, grid, cp.Recommender(*sides, *cp.choose_strengths(grid), **model), seconds)

    def _grid(self, model: cp.Model, known: cp.Development, directions: cp.Directions) -> cp.Grid:
        """The metrics of a model on validation over the grid of its dials; for two dials also by folds of users."""
        dials = model.dials or cp.Dials()
        over: dict[str, Any] = {"item_strengths": dials.item_strengths, "user_strengths": dials.user_strengths}
        if min(map(len, over.values())) > 1:
            draw = np.random.default_rng([FOLD_STREAM]).permutation(known.train.n_users)
            over["user_groups"] = (draw % FOLDS).astype(np.int32)
        return self.tools.search(model.embeddings, directions, known.train, known.valid, k=K, **over)

    def train(self, name: str, known: cp.Development, settings: Mapping[str, Any], *, refit: bool) -> cp.Run:
        """A run, from its checkpoint if it was stopped; an intervened part is drawn for a method that needs one."""
        chosen = cp.Settings(**settings)
        if chosen.method.needs_intervened and known.intervened is None:
            known = draw_intervened(known)
        label = f"{name}, {chosen.backbone} {chosen.method.name}, {chosen.loss}, seed {chosen.seed}"
        with self._watch(label) as show:
            fixed = {"loss": chosen.loss, "negative_power": chosen.negative_power}  # what is named is not raced
            key = self.key("checkpoint", name, settings) | {"refit": refit, "cores": core_count()}
            key["parts"] = [zlib.crc32(part.item_ix.tobytes()) for part in (known.train, known.valid)]
            point = self.cache.folder / f"{digest(key)}.checkpoint"
            more = dict(settings) | fixed | {"checkpoint": point, "resume": True, "should_stop": self._should_stop}
            run = cp.train(known, refit=refit, on_progress=show, progress=False, **more)
        point.unlink(missing_ok=True)
        return run

    def key(self, what: str, name: str, settings: Mapping[str, Any]) -> Record:
        """What changes the bits of a result, and nothing else."""
        if name not in self._checksums:
            self._checksums[name] = checksum(self._path(name))
        carved = self.split(name).manifest.carved
        return {
            "what": what,
            "dataset": name,
            "data": self._checksums[name],
            **({"carved": carved} if carved else {}),
            "numbers": cp.NUMBERS,
            "k": K,
            "settings": resolve(settings),
            "users": QUICK_USERS if self.plan.quick else None,
        }


def _tried(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a candidate is told apart by, in full."""
    shown = {key: settings[key] for key in SEARCHED if key in settings and (key, settings[key]) != UNIFORM}
    return shown | ({"options": str(settings["method"])} if isinstance(settings["method"], cp.Method) else {})


def _train_of(run: cp.Run, split: cp.Split) -> cp.Interactions:
    """What the final model of a run was trained on."""
    return split.development.refit_train() if run.refit is not None else split.train


def draws_of(measures: cp.Measures) -> dict[str, Any]:
    return resample({metric: measures.per_user[metric] for metric in METRICS})


def figures_of(point: Mapping[str, float]) -> dict[str, float]:
    return {metric: point[metric] for metric in METRICS}
