"""The search: from a split to the best model that the time allows, by short trainings that Optuna proposes."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from counterpop.errors import InputError, check_settings
from counterpop.progress import Progress, Report, following
from counterpop.runs import Run
from counterpop.splits import Development, Split
from counterpop.training.backbones import BACKBONES
from counterpop.training.checkpoints import Interrupted, digest
from counterpop.training.fitting import candidates_of, read_settings, train
from counterpop.training.racing import RISING, check_price, try_settings
from counterpop.training.settings import Settings, TrainOptions
from counterpop.training.studies import open_studies
from counterpop.tuning import PRICE

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

ROUNDS = (0.35, 0.2)  # of the time; the rest is for the last training
TRIALS = 16  # of the first round: a setting trains for the share of its epochs that lets about this many fit,
SHORT = (0.05, 0.5)  # within these bounds,
LONGER = 5.0  # and in the second round for this many times as much
FINALISTS = 3  # of the first round, which enter the second
MEMBERS = 5  # at most, if time is left for an ensemble
MARGIN = 1.1  # of time: what the last training costs beyond its epochs and looks
SLOW = 0.25  # of a round's time: a setting that would take longer is dropped after its second epoch
LEAST_FOR_IMPORTANCE = 8  # trials
WIDTHS = (64, 128, 256, 512)
FACTORS = {"lr": (0.4, 2.5), "reg": (0.25, 4.0)}  # around the default of backbone, method and loss
RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = {  # by loss: numbers that matter only for it
    "softmax": {"temperature": (0.05, 0.3), "logq": (-1.0, 1.0)}
}
STEEP = {
    "softmax": {"logq": -0.5}
}  # by loss: tried beside its default if the price is unlimited, for the best may lie far from it
UNLIMITED = 1.0  # a price
NOT_SETTINGS = ("round", "epochs", "valid", "ordinary", "too_costly")  # in a row of the leaderboard
POWERS = {"negative_power": (0.0, 1.0)}  # for the other losses
CHEAPEST = "bpr"  # of the losses: an epoch of the others takes at least as long
DRAWS = ("negative_power", "logq")  # settings of the draw of negatives


class _TooSlow(Exception):
    """A setting takes too long for the time that is left."""


@dataclass(frozen=True)
class _Space:
    """What may vary: all that the user has not fixed; and what the choice may cost."""

    given: Mapping[str, Any]
    price: float

    @property
    def backbones(self) -> list[str]:
        if "backbone" in self.given:
            return [self.given["backbone"]]
        return [backbone.name for backbone in BACKBONES if backbone.builtin]

    def first_points(self) -> Iterator[dict[str, Any]]:
        """What is tried before Optuna proposes anything: the candidates of a race, also at twice the width."""
        for backbone in self.backbones:
            given = {**self.given, "backbone": backbone}
            narrow = candidates_of(given)
            if "loss" not in given:  # also what is too slow for a race
                others = [loss for loss in narrow[0].method.losses if loss not in {one.loss for one in narrow}]
                named: list[dict[str, Any]] = [{"loss": loss} for loss in others]
                if self.price == UNLIMITED:
                    named += [{"loss": loss} | STEEP[loss] for loss in others if loss in STEEP]
                narrow += [read_settings(given | one) for one in named]
            wide = [replace(one, dim=2 * one.dim) for one in narrow] if "dim" not in self.given else []
            for one in [*narrow, *wide]:
                point = {"backbone": backbone, "loss": one.loss, "dim": one.dim} | dict.fromkeys(FACTORS, 1.0)
                yield point | {name: getattr(one, name) for name in self._ranges(one)}

    def propose(self, trial: Trial) -> Settings:
        """The settings of a trial, each chosen by Optuna unless it is given."""
        chosen = dict(self.given) | {"backbone": trial.suggest_categorical("backbone", self.backbones)}
        method = read_settings(chosen).method
        if "loss" not in self.given:
            chosen["loss"] = trial.suggest_categorical("loss", method.losses)
        if "dim" not in self.given:
            chosen["dim"] = trial.suggest_categorical("dim", WIDTHS)
        base = read_settings(chosen)
        for name, bounds in FACTORS.items():
            if name not in self.given:
                chosen[name] = getattr(base, name) * trial.suggest_float(name, *bounds, log=True)
        for name, bounds in self._ranges(base).items():
            chosen[name] = trial.suggest_float(name, *bounds)
        return read_settings(chosen)

    def describe(self, settings: Settings) -> dict[str, Any]:
        """The settings that may vary, by name."""
        return {
            name: getattr(settings, name) for name in ("backbone", "loss", "dim", *FACTORS, *self._ranges(settings))
        }

    def costly(self, done: Sequence[FrozenTrial]) -> set[int]:
        """Which of these trials draw negatives at more than the price, by number.

        Each is compared with the best that draws them as usual, with the same backbone and loss, if there is one:
        negatives by popularity take popularity out in training, at a price that no strength gives back.
        """
        rows = {trial.number: trial.user_attrs["row"] for trial in done}
        floors, usual = dict[tuple[str, str], float](), set[int]()
        for number, row in rows.items():
            kind = row["backbone"], row["loss"]
            base = read_settings(dict(self.given) | {"backbone": row["backbone"], "loss": row["loss"]})
            if all(row.get(name, getattr(base, name)) == getattr(base, name) for name in DRAWS):
                floors[kind] = max(floors.get(kind, 0.0), (1 - self.price) * row.get("ordinary", 0.0))
                usual.add(number)
        return {
            number
            for number, row in rows.items()
            if number not in usual and row.get("ordinary", 0.0) < floors.get((row["backbone"], row["loss"]), 0.0)
        }

    def _ranges(self, settings: Settings) -> dict[str, tuple[float, float]]:
        """The numbers that matter for a loss, with their bounds."""
        others = {} if settings.method.draws_negatives else POWERS
        ranges = RANGES.get(settings.loss, others)
        return {name: bounds for name, bounds in ranges.items() if name not in self.given}


def search(
    split: Split | Development,
    *,
    minutes: float = 10.0,
    storage: str | Path | None = None,
    refit: bool = True,
    ensemble: int | None = None,
    reduce: int | None = None,
    price: float | None = None,
    on_progress: Report | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    resume: bool = True,
    should_stop: Callable[[], bool] | None = None,
    **given: Unpack[TrainOptions],
) -> Run:
    """The best run that can be had in about this many minutes, from nothing but a split.

    Searches backbone, loss, width, learning rate, L2 and the draw of negatives by validation recall; a setting that is
    given is kept. A first round of short trainings starts from known good settings and goes on with what Optuna (TPE)
    proposes; the best three train for longer; the best of these is trained to the end and, unless `refit` is False,
    again on train + validation. If time is left for it, up to five such models are trained as an ensemble, which is
    that many times as wide (`ensemble` fixes their number, `reduce` the width: see `train`). Settings too slow for the
    time, such as LightGCN on a large log, are dropped after two epochs. `settings["search"]` of the run holds the
    leaderboard and how much each setting matters.

    If the split has an ordinary part, negatives by popularity that cost more than `price` of ordinary recall (.05 if
    not given, as in `train`) come last: in the first round, against the usual draw with the same backbone and loss.
    price=1 limits nothing, and the best for an even test may then be drawn steeply.

    With `storage`, the name of a file, an interrupted search goes on where it stopped; its last training goes on from
    `checkpoint` unless `resume` is False. `should_stop` is asked after every epoch and progress shown as in `train`.
    Never looks at test.
    Limit: what is tried depends on the speed of the machine, so a second search may choose other settings.
    """
    if not 0 < minutes < math.inf:
        raise InputError(f"minutes must be a number above 0, got {minutes}")
    check_settings(given, [field.name for field in fields(Settings)], inspect.signature(search).parameters)
    known = split.development if isinstance(split, Split) else split
    check_price(price, known)
    limit = price if price is not None else PRICE if known.ordinary is not None else UNLIMITED
    space = _Space({name: value for name, value in given.items() if value is not None}, limit)
    stop = should_stop or (lambda: False)

    def report(progress: Progress) -> None:
        show(progress)
        if stop():
            kept = f"; {storage} keeps what was tried, and the same call goes on from it" if storage else ""
            raise Interrupted(f"the search was stopped{kept}")

    first = read_settings(dict(space.given)).to_json()
    fixed = {name: first[name] for name in ("seed", "method", *space.given)} | {"data": digest(known), "price": limit}
    with following(on_progress, progress) as show, open_studies(storage, fixed) as studies:
        if "last" not in studies[0].user_attrs:
            clock = _Clock(60 * minutes, studies, report)
            _play_rounds(known, space, clock)
            # kept, because what is left of the time decides it, and an interrupted training must go on as it began
            studies[0].set_user_attr("last", _plan_last(known, space, clock, refit, ensemble))
        last: dict[str, Any] = studies[0].user_attrs["last"]
        rows = _leaderboard(studies, space)
        found: dict[str, Any] = {"minutes": minutes, "leaderboard": rows, "importance": _importance(studies[0])}
    how: dict[str, Any] = {"refit": refit, "reduce": reduce, "on_progress": on_progress, "should_stop": should_stop}
    how |= {"checkpoint": checkpoint, "resume": resume, "progress": progress}
    run = train(known, **how, **dict(space.given) | last)
    return replace(run, settings=run.settings | {"search": found | {"sentence": _sentence(rows, last["ensemble"])}})


def _play_rounds(known: Development, space: _Space, clock: _Clock) -> None:
    """Both rounds of short trainings."""
    studies = clock.studies
    clock.probe(known, read_settings(dict(space.given)))
    for point in space.first_points():
        studies[0].enqueue_trial(point, skip_if_exists=True)
    _compare(known, space, clock, 0)
    tried = _ranked(studies[0])
    costly = space.costly(tried)
    for finalist in [trial for trial in tried if trial.number not in costly][:FINALISTS]:
        studies[1].enqueue_trial(finalist.params, skip_if_exists=True)
    _compare(known, space, clock, 1)


def _board(studies: tuple[Study, ...], space: _Space) -> list[FrozenTrial]:
    """All finished trials, best first: those of the second round, then the affordable ones of the first, the others."""
    first = _ranked(studies[0])
    costly = space.costly(first)
    return [*_ranked(studies[1]), *sorted(first, key=lambda trial: trial.number in costly)]


def _leaderboard(studies: tuple[Study, ...], space: _Space) -> list[dict[str, Any]]:
    """A row for each trial of the board."""
    costly = space.costly(_ranked(studies[0]))
    rows = []
    for trial in _board(studies, space):
        row = trial.user_attrs["row"]
        beyond = {"too_costly": True} if row["round"] == 1 and trial.number in costly else {}
        rows.append(row | beyond | {"valid": trial.value})
    return rows


def _plan_last(known: Development, space: _Space, clock: _Clock, refit: bool, ensemble: int | None) -> dict[str, Any]:
    """What the last training is made with: the best settings, and epochs and members for the time that is left."""
    about = _board(clock.studies, space)[0].user_attrs
    best = about["row"]
    chosen = {name: value for name, value in _settings_of(best).items() if name not in space.given}
    settings = read_settings(dict(space.given) | chosen)
    trainings = 1 + (len(known.refit_train()) / len(known.train) if refit else 0)  # the refit has more pairs
    seconds = MARGIN * (trainings * about["per_epoch"] + about["per_look"] / settings.check_every)
    fits = int((clock.seconds - clock.elapsed) / (seconds * (ensemble or 1)))  # epochs
    full = settings.epochs * (2 if "epochs" not in space.given and _still_rises(clock.studies, settings.epochs) else 1)
    members = min(MEMBERS, max(1, fits // full)) if ensemble is None else ensemble
    return chosen | {"epochs": min(full, max(fits, best["epochs"])), "ensemble": members}


def _still_rises(studies: tuple[Study, ...], epochs: int) -> bool:
    """Whether the best of the second round, trained for all its `epochs`, gained much in each doubling since the first.

    That is a mean: the last doubling of two gained less.
    """
    if not (finalists := _ranked(studies[1])):
        return False
    best, row = finalists[0], finalists[0].user_attrs["row"]
    before = next((trial for trial in _ranked(studies[0]) if trial.params == best.params), None)
    if before is None or row["epochs"] < epochs or not before.value:
        return False
    doublings = math.log2(row["epochs"] / before.user_attrs["row"]["epochs"])
    return bool((best.value or 0.0) >= before.value * (1 + RISING) ** doublings)


class _Clock:
    """The time of a search, of which interrupted calls have used some."""

    def __init__(self, seconds: float, studies: tuple[Study, ...], report: Report) -> None:
        self.seconds, self.studies, self._report = seconds, studies, report
        self.share = SHORT[0]  # of its epochs that a setting trains for in the first round
        self._used: float = sum(trial.user_attrs.get("seconds", 0.0) for study in studies for trial in study.trials)
        # a number, because asking Optuna for all trials after every epoch would take longer and longer
        self.best = max((trial.value or 0.0 for study in studies for trial in _ranked(study)), default=None)
        self._start = time.perf_counter()

    @property
    def elapsed(self) -> float:
        return self._used + time.perf_counter() - self._start

    def ends(self, number: int) -> float:
        """When a round ends, in seconds from the start of the search."""
        return self.seconds * sum(ROUNDS[: number + 1])

    def probe(self, known: Development, settings: Settings) -> None:
        """Sets the share by the time of an epoch; the first, which may compile, does not count."""
        took: list[float] = []
        try_settings(known, replace(settings, epochs=3), lambda loss, seconds: took.append(seconds))
        fits = ROUNDS[0] * self.seconds / (TRIALS * settings.epochs * min(took))
        share = min(max(fits, SHORT[0]), SHORT[1])
        self.share = self.studies[0].user_attrs.get("share", share)  # an interrupted search keeps its own
        self.studies[0].set_user_attr("share", self.share)

    def show(self, loss: float, seconds: float) -> None:
        """Reports progress in seconds of both rounds."""
        end = round(self.ends(len(ROUNDS) - 1))
        self._report(Progress("search", min(end, round(self.elapsed)), end, loss, self.best, seconds))


def _compare(known: Development, space: _Space, clock: _Clock, number: int) -> None:
    """One round: trains what waits in its study and, in the first, what Optuna proposes, until its time is over."""
    from optuna.trial import TrialState

    study, share = clock.studies[number], min(1.0, clock.share * LONGER**number)
    limit = SLOW * (number + 1) * ROUNDS[number] * clock.seconds
    while clock.elapsed < clock.ends(number) or not (number or _ranked(study)):  # something must be found
        if number and not study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
            return
        trial = study.ask()
        settings = space.propose(trial)
        short = replace(settings, epochs=max(1, int(share * settings.epochs)))
        row = space.describe(settings) | {"round": number + 1, "epochs": short.epochs}
        if _is_slow(study, row, limit):
            study.tell(trial, state=TrialState.PRUNED)
            continue
        took: list[float] = []
        valid: float | None

        def advance(loss: float, seconds: float, took: list[float] = took, total: int = short.epochs) -> None:
            took.append(seconds)
            clock.show(loss, seconds)
            if len(took) > 1 and min(took) * total > limit and _ranked(study):  # the first epoch may compile
                raise _TooSlow

        start = time.perf_counter()
        try:
            valid, *ordinary = try_settings(known, short, advance)
            row |= {"ordinary": ordinary[0]} if ordinary else {}
        except _TooSlow:
            valid = None
        seconds, looks = time.perf_counter() - start, 1 + (known.ordinary is not None)
        about = {"row": row, "per_epoch": float(np.mean(took[1:] or took)), "seconds": seconds}
        about["per_look"] = (seconds - sum(took)) / looks
        for name, value in about.items():
            trial.set_user_attr(name, value)
        study.tell(trial, valid, state=TrialState.PRUNED if valid is None else None)
        if valid is not None:
            clock.best = max(valid, clock.best or 0.0)


def _is_slow(study: Study, row: Mapping[str, Any], limit: float) -> bool:
    """Whether this backbone was too slow at this width or a smaller one: with this loss, or even with the cheapest.

    Losses have epochs of their own, so it is asked whether this many of the cheapest would take longer than `limit`.
    """
    from optuna.trial import TrialState

    dropped = study.get_trials(deepcopy=False, states=[TrialState.PRUNED])
    known = [(trial.user_attrs["row"], trial.user_attrs["per_epoch"]) for trial in dropped if trial.user_attrs]
    return any(
        one["loss"] == row["loss"] or (one["loss"] == CHEAPEST and per_epoch * row["epochs"] > limit)
        for one, per_epoch in known
        if one["backbone"] == row["backbone"] and one["dim"] <= row["dim"]
    )


def _ranked(study: Study) -> list[FrozenTrial]:
    """Finished trials, best first."""
    from optuna.trial import TrialState

    done = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    return sorted(done, key=lambda trial: -(trial.value or 0.0))


def _importance(study: Study) -> dict[str, float]:
    """How much of the difference between the best settings and the rest each one explains; empty after few trials."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    done = _ranked(study)
    varied = [name for name in done[0].params if len({trial.params.get(name) for trial in done}) > 1]
    varied = [name for name in varied if all(name in trial.params for trial in done)]
    if len(done) < LEAST_FOR_IMPORTANCE or not varied:
        return {}
    return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(), params=varied)


def _sentence(rows: list[dict[str, Any]], members: int) -> str:
    best = _settings_of(rows[0])
    shown = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in best.items()
    )
    several = f" An ensemble of {members} such models fits the time." if members > 1 else ""
    how = (
        f"Chosen by validation among {len(rows)} short trainings"
        if len(rows) > 1
        else "All that the time allowed to try"
    )
    text = f"{how}: {shown}.{several}"
    first = [row for row in rows if row["round"] == 1 and row.get("ordinary")]  # the finalists of the second are few
    mine = [row["ordinary"] for row in first if _settings_of(row) == best]
    if not mine or len(rows) == 1:
        return text
    lost = 1 - mine[0] / max(row["ordinary"] for row in first)
    if not lost:
        return f"{text} None of them finds more on ordinary pairs."
    return f"{text} It finds {lost:.1%} less on ordinary pairs than the short training that finds most there."


def _settings_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in NOT_SETTINGS}
