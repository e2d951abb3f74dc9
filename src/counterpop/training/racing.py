"""The race: short trainings decide among settings by validation, so that one long training is enough."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from counterpop.errors import InputError
from counterpop.progress import Progress, Report
from counterpop.splits import Development
from counterpop.training.backbones.contract import Start
from counterpop.training.checkpoints import Checkpoint
from counterpop.training.loop import Look, begin, is_memory_error, run_epochs
from counterpop.training.settings import Settings
from counterpop.tuning import PRICE

Advance = Callable[[float, float], None]  # takes the loss and the seconds of an epoch

RISING = 0.1  # of validation recall: a winner that gains this much from twice the epochs is trained for twice as many
WORTH = 0.05  # of validation recall: what twice the width must gain, because it costs time, memory and a wider index
KEPT = 12  # one candidate in this many goes on: better one longer round than two that are too short to tell


@dataclass(frozen=True)
class Trial:
    """One short training."""

    candidate: int
    """Which of the settings, counted from 0."""
    round: int
    """Of the race, counted from 1."""
    epochs: int
    valid: float
    """Validation recall@20 at its end, at the best of the method's coarse strengths; 0 if the loss diverged."""
    seconds: float
    ordinary: float | None = None
    """The same on the ordinary part, if there is one."""


@dataclass(frozen=True)
class Race:
    """Every short training of a race, round after round."""

    candidates: tuple[Settings, ...]
    trials: tuple[Trial, ...]
    price: float = PRICE
    rise: float = 0.0
    """What the winner gained by twice the epochs, as a share of its validation recall; 0 if that was not tried."""
    wider: int | None = None
    """The candidate that is the first winner at twice its width, if that was tried."""

    @property
    def ranking(self) -> list[Trial]:
        """The last trial of each candidate, best first: later rounds before earlier ones, too costly ones last."""
        last = {trial.candidate: trial for trial in self.trials}

        def place(trial: Trial) -> tuple[float, ...]:
            worth = trial.valid / (1 + WORTH) if trial.candidate == self.wider else trial.valid
            return -trial.round, self.is_costly(trial), -worth

        return sorted(last.values(), key=place)

    def is_costly(self, trial: Trial) -> bool:
        """Whether its choice of negatives costs more than `price` of ordinary recall.

        Negatives drawn or weighed by popularity take popularity out in training, at a price that no strength gives
        back, so they have the limit that `tune` has by default. Compared are the trials of a round that differ in
        nothing else, with the one that is closest to uniform negatives.
        """
        if trial.ordinary is None:
            return False
        alike = [replace(one, negative_power=0.0, logq=None, temperature=None) for one in self.candidates]
        twins = [one for one in self.trials if one.round == trial.round]
        twins = [one for one in twins if alike[one.candidate] == alike[trial.candidate]]
        # after those that found nothing, whose loss diverged
        base = min(twins, key=lambda one: (not one.ordinary, _steepness(self.candidates[one.candidate])))
        return trial.ordinary < (1 - self.price) * (base.ordinary or 0.0)

    @property
    def rises(self) -> bool:
        """Whether the winner needs more epochs than usual."""
        return self.rise >= RISING

    @property
    def winner(self) -> Settings:
        """The candidate that was chosen, with twice its epochs if it rises."""
        best = self.candidates[self.ranking[0].candidate if self.trials else 0]
        return replace(best, epochs=2 * best.epochs) if self.rises else best

    def table(self) -> list[dict[str, Any]]:
        """A row for each trial: the settings that differ between candidates, and round, epochs, valid and seconds.

        What differs only from loss to loss is left out, except for the loss. `too_costly` or `too_little_gained` is
        there, and True, where that is why a trial lost.
        """
        names = {name for trial in self.trials for name in self._differing(trial)}
        return [
            {name: value for name, value in self.candidates[trial.candidate].to_json().items() if name in names}
            | {name: value for name, value in vars(trial).items() if name != "candidate"}
            | ({"too_costly": True} if self.is_costly(trial) else {})
            | ({"too_little_gained": True} if self._gains_too_little(trial) else {})
            for trial in self.trials
        ]

    @property
    def sentence(self) -> str:
        """What was chosen, and what else was tried."""
        named = [
            f"{', '.join(f'{name} {value}' for name, value in self._differing(trial).items())}: {trial.valid:.4f}"
            + (
                ""
                if trial.ordinary is None
                else f" (ordinary {trial.ordinary:.4f}{', too costly' * self.is_costly(trial)})"
            )
            + f" after {trial.epochs} epochs{', not 5% more' * self._gains_too_little(trial)}"
            for trial in self.ranking
        ]
        longer = f" Doubling the epochs gained {self.rise:.0%}, so it is trained for twice as many." * self.rises
        return f"Chosen by validation recall of short trainings: {named[0]}. Tried: {'; '.join(named[1:])}.{longer}"

    def to_json(self) -> dict[str, Any]:
        """What a run folder holds: the same for the same seed, so without seconds."""
        rows = [{name: value for name, value in row.items() if name != "seconds"} for row in self.table()]
        return {"sentence": self.sentence, "tried": rows}

    def _gains_too_little(self, trial: Trial) -> bool:
        """Whether this is a wider winner that lost."""
        return trial.candidate == self.wider != self.ranking[0].candidate

    def _differing(self, trial: Trial) -> dict[str, Any]:
        """The settings in which a candidate differs from others with its loss, and the loss if there are several."""
        values = [one.to_json() for one in self.candidates]
        mine = values[trial.candidate]
        same = [one for one in values if one["loss"] == mine["loss"]]
        return {
            name: value
            for name, value in mine.items()
            if any(one[name] != value for one in (values if name == "loss" else same))
        }


def _steepness(settings: Settings) -> float:
    """How the draw of negatives follows popularity: 0 if it is uniform, 1 if by popularity."""
    return settings.negative_power if settings.logq is None else 1 - settings.logq


@dataclass
class _Stage:
    """Reports the progress of a round, whose trainings count as one."""

    name: str
    epochs: int
    report: Report
    epoch: int = 0
    best: float | None = None

    def advance(self, loss: float, seconds: float) -> None:
        self.epoch += 1
        self.report(Progress(self.name, self.epoch, self.epochs, loss, self.best, seconds))


def race(
    known: Development,
    candidates: Sequence[Settings],
    budget: float,
    report: Report = lambda progress: None,
    encoder: Any = None,
    checkpoint: Checkpoint | None = None,
    price: float = PRICE,
) -> Race:
    """All candidates train briefly, the best go on to a longer round, until one is left (successive halving).

    `budget` is what all rounds may cost, in whole trainings of one candidate; see `rounds_of`. A candidate trains for a
    share of its own epochs, at least one. It starts again in every round, and its learning rate falls over the epochs
    of that round, so that it ends as a whole training does (how well that ranks: experiments/defaults.md). Never
    looks at test.
    """
    if not candidates:
        raise InputError("a race needs at least one candidate, got none")
    point = checkpoint or Checkpoint(None, known, {})
    rounds = rounds_of(len(candidates), budget)
    entered, trials = list(range(len(candidates))), list[Trial]()
    for number, (size, share) in enumerate(rounds, start=1):
        entered = entered[:size]
        short = {one: replace(candidates[one], epochs=max(1, int(share * candidates[one].epochs))) for one in entered}
        stage = _Stage(f"race {number} of {len(rounds)}", sum(one.epochs for one in short.values()), report)
        finished = [_try(known, settings, (number, one), stage, encoder, point) for one, settings in short.items()]
        trials += finished
        entered = [trial.candidate for trial in Race(tuple(candidates), tuple(finished), price).ranking]
    return Race(tuple(candidates), tuple(trials), price)


def check_rise(known: Development, raced: Race, report: Report, encoder: Any, point: Checkpoint) -> Race:
    """The race, and what its winner gains by twice the epochs of its last trial: one more trial, in a round of its own.

    A log with few pairs an item is learned slowly: there the usual epochs end long before the model does.
    """
    last = raced.ranking[0]
    settings = replace(raced.winner, epochs=2 * last.epochs)
    stage, place = _Stage("race, longer", settings.epochs, report), (last.round + 1, last.candidate)
    trial = _try(known, settings, place, stage, encoder, point)
    rise = trial.valid / last.valid - 1 if last.valid else 0.0
    return replace(raced, trials=(*raced.trials, trial), rise=rise)


def check_width(known: Development, raced: Race, report: Report, encoder: Any, point: Checkpoint) -> Race:
    """The race with its winner at twice the width as one more candidate, trained as in the winner's last trial.

    Without it if that trial diverged, or if memory runs out or did so before the training was stopped.
    """
    last = raced.ranking[0]
    if not last.valid:
        return raced
    wider = replace(raced.candidates[last.candidate], dim=2 * raced.candidates[last.candidate].dim)
    number, settings = len(raced.candidates), replace(wider, epochs=last.epochs)
    stage = _Stage("race, wider", settings.epochs, report)
    attempt = partial(_try, known, settings, (last.round, number), stage, encoder, point)

    def fits() -> bool:
        try:
            attempt()
        except (RuntimeError, MemoryError) as error:
            if not is_memory_error(error):
                raise
            return False
        return True

    if not point.once("wider fits", fits):
        return raced
    return replace(raced, candidates=(*raced.candidates, wider), trials=(*raced.trials, attempt()), wider=number)


def _try(
    known: Development, settings: Settings, place: tuple[int, int], stage: _Stage, encoder: Any, point: Checkpoint
) -> Trial:
    """A short training of the candidate at this place: its round and number."""
    number, candidate = place

    def measure() -> list[float]:
        start = time.perf_counter()
        found = try_settings(known, settings, stage.advance, encoder, point)
        return [time.perf_counter() - start, *found]

    seconds, valid, *rest = point.once(f"{number}/{candidate}", measure)
    stage.best = max(valid, stage.best or 0.0)
    return Trial(candidate, number, settings.epochs, valid, seconds, *rest)


def check_price(price: float | None, known: Development) -> None:
    """Raises `InputError` if a price is no share, or there is no ordinary part that would show it."""
    if price is None:
        return
    if not 0 <= price <= 1:
        raise InputError(f"price must be a share from 0 to 1, got {price}")
    if known.ordinary is None:
        raise InputError("price needs an ordinary part, and this split has none: make it with ordinary=0.05")


def rounds_of(candidates: int, budget: float) -> list[tuple[int, float]]:
    """The number of candidates in each round of a race, and the share of their epochs that they train for.

    A round keeps one candidate in twelve for the next. Every round gets the same part of the budget, so fewer
    candidates train for longer.

    >>> rounds_of(4, 0.4), rounds_of(24, 6.0)
    ([(4, 0.1)], [(24, 0.125), (2, 1.5)])
    """
    sizes = []
    while candidates > 1:
        sizes.append(candidates)
        candidates = -(-candidates // KEPT)
    return [(size, budget / (len(sizes) * size)) for size in sizes]


def try_settings(
    known: Development, settings: Settings, advance: Advance, encoder: Any = None, checkpoint: Checkpoint | None = None
) -> list[float]:
    """Recall on validation and, if there is one, on the ordinary part after all epochs; 0 if the loss diverged.

    `advance` is called with the loss and the seconds of each epoch.
    """
    held = [known.valid] if known.ordinary is None else [known.valid, known.ordinary]
    looks, point = (
        [Look(replace(known, valid=part), settings) for part in held],
        checkpoint or Checkpoint(None, known, {}),
    )
    trainee = begin(Start(known.train, settings, known.intervened, encoder))
    done = {"epoch": 0, "finite": False} | point.resume("race", trainee)
    for epoch, loss, seconds in run_epochs(trainee, settings, settings.epochs, done["epoch"]):
        advance(loss, seconds)
        done = {"epoch": epoch, "finite": math.isfinite(loss)}
        point.offer("race", trainee, None, epoch % settings.check_every == 0, **done)
    try:
        return [look.at(trainee) if done["finite"] else 0.0 for look in looks]
    except InputError:  # the vectors are no longer finite; if no candidate's are, the long training will report it
        return [0.0] * len(looks)
