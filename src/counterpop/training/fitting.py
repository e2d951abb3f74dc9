"""From a split to a run: settings that were not given are raced, then one training, then a refit."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from counterpop.errors import CounterpopWarning, InputError, check_settings
from counterpop.interactions import Interactions
from counterpop.kernels.threads import core_count
from counterpop.progress import Report, following
from counterpop.runs import Run
from counterpop.splits import Development, Split
from counterpop.training.backbones import ENCODER, find_backbone
from counterpop.training.backbones.contract import Start
from counterpop.training.checkpoints import Checkpoint, Interrupted
from counterpop.training.ensembles import check_reduction, combine, member_seeds, reduce_width
from counterpop.training.loop import Look, begin, memory_errors, train_and_choose, train_for
from counterpop.training.racing import check_price, check_rise, check_width, race
from counterpop.training.settings import Settings, TrainOptions
from counterpop.tuning import PRICE

if TYPE_CHECKING:
    from torch.nn import Module

    Encoder = Module | Callable[[Interactions], Module]

RACE_BUDGET = 0.8  # of one training: what a race costs,
RACE_SHARE = 0.1  # or this share of a training for every candidate,
RACE_TRIPLES = 1e8  # or this many triples of MF if that is more: some ten seconds, in which a small log is learned
SLOW_PAIRS = 2_000_000  # more are too many for the slow settings of a method
LEAST_EPOCHS = 4  # of a candidate: fewer say too little, so a training too short for them races nothing
_NAMES = [field.name for field in fields(Settings)]


def train(
    split: Split | Development,
    *,
    encoder: Encoder | None = None,
    refit: bool = True,
    ensemble: int = 1,
    reduce: int | None = None,
    price: float | None = None,
    on_progress: Report | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    should_stop: Callable[[], bool] | None = None,
    **settings: Unpack[TrainOptions],
) -> Run:
    """A run: the model that was best on validation, its ledger, and how training went.

    Keywords are the fields of `Settings`; `method` is a name or a value such as `DICE(margin=20)`, built in or your own
    (see `Method`). If `loss` or `negative_power` is not given and the method has a choice, short trainings are compared
    on validation first (see `race`), for a tenth of a training each, or some ten seconds in all for a small log.
    Negatives by popularity that cost more than `price` of ordinary recall (.05 if not given) come last. If `price` is
    given, or there is no ordinary part, MF on the CPU with at most 2 million pairs also races softmax, which takes
    minutes, unless you name a setting that it has another default for.
    Then, unless `epochs` is given, two more short trainings look further: if training the winner twice as long gains
    10 % of validation recall (typical where items have few pairs), it is trained for twice the usual epochs; and if MF
    gains 5 % at twice the usual width, it gets that width, unless `dim` is given. `settings["race"]` of the run says
    what was tried.

    Every `check_every` epochs recall@20 is measured on validation, on a sample of users and at the best of the method's
    coarse grid of strengths, because that is how the model will be used; training stops after `patience` looks without
    an improvement and keeps the best model. Then, unless `refit` is False, a second model is trained for as many epochs
    on train + validation. Never looks at test.

    `encoder` is a torch module of your own that is called without arguments and returns (user vectors, item vectors), a
    row for each user and item of the split in its order; or a function that builds such a module from the interactions
    it will be trained on. The module itself stays as it is: a copy is trained.

    `ensemble=N` trains N models from different seeds and returns them as one, N times as wide: see `combine`. `reduce`
    brings its width down to this number: see `reduce_width`. The run's settings then name the members, with the
    validation recall of each, of all together, and after the reduction. `history` is that of the first member.

    A terminal or a notebook shows progress, unless `progress` is False or `on_progress` is a function of your own,
    which is called after every epoch.

    `checkpoint` is a file that is written at looks at validation, as often as 1.5 % of the time allow. With `resume`, a
    training that was stopped or killed goes on from it, and on the CPU with as many threads it ends with the same bits.
    Finished members of an ensemble are kept beside it. The files stay until you delete them. `should_stop` is asked
    after every epoch; once it says True, this raises `Interrupted`, whose `run` is the best model so far.
    """
    known = split.development if isinstance(split, Split) else split
    check_settings(settings, _NAMES, inspect.signature(train).parameters)
    limited = price is None and known.ordinary is not None  # in which case softmax takes minutes and finds no more
    candidates = candidates_of(dict(settings), encoder, math.inf if limited else len(known.train))
    if _least_budget(candidates) * candidates[0].epochs < LEAST_EPOCHS * len(candidates):
        candidates = candidates[:1]
    check_price(price, known)
    if price is not None and len(candidates) == 1:
        raise InputError("price limits what a race may choose, but here is nothing to choose; leave it out")
    _check_split(known, candidates[0], refit)
    if not isinstance(ensemble, int) or ensemble < 1:
        raise InputError(f"ensemble must be a whole number of at least 1, got {ensemble!r}")
    key = {"candidates": [one.to_json() for one in candidates], "refit": refit, "encoder": type(encoder).__name__}
    limit = PRICE if price is None else price
    free = [name for name in ("epochs", "dim") if settings.get(name) is None]
    key |= {"cores": core_count(), "ensemble": ensemble, "price": limit, "free": free}
    point = Checkpoint(checkpoint, known, key, resume, should_stop)
    with following(on_progress, progress) as report:
        with memory_errors(candidates[0]):
            raced = race(known, candidates, _budget(known, candidates), report, encoder, point, limit)
            if raced.trials and "epochs" in free:
                raced = check_rise(known, raced, report, encoder, point)
                if "dim" in free and encoder is None and not raced.winner.layers:
                    raced = check_width(known, raced, report, encoder, point)
        look, members = Look(known, raced.winner), list[Run]()
        with memory_errors(raced.winner):
            for number, seed in enumerate(member_seeds(raced.winner.seed, ensemble), start=1):
                place = f" {number} of {ensemble}" if ensemble > 1 else ""
                start = Start(known.train, replace(raced.winner, seed=seed), known.intervened, encoder)
                make = partial(_train_member, start, known, refit, _placed(report, place), point)
                try:
                    members.append(point.member(number, make) if ensemble > 1 else make())
                except Interrupted as interrupted:
                    raise _with_members(interrupted, members, look) from None
                if reduce is not None:  # better now than after the other members
                    check_reduction(members[0].model, reduce, ensemble)
    run = _as_one(members, reduce, look) if ensemble > 1 or reduce is not None else members[0]
    return replace(run, settings=run.settings | ({"race": raced.to_json()} if raced.trials else {}))


def _least_budget(candidates: Sequence[Settings]) -> float:
    return max(RACE_BUDGET, RACE_SHARE * len(candidates))


def _budget(known: Development, candidates: Sequence[Settings]) -> float:
    """What a race may cost in trainings of one candidate; at most a whole one of each."""
    first = candidates[0]
    cheap = 0.0 if first.layers else RACE_TRIPLES / (len(known.train) * first.epochs * first.negatives)
    return min(float(len(candidates)), max(_least_budget(candidates), cheap))


def _placed(report: Report, place: str) -> Report:
    """Reports progress with the place of a member in the name of its stage."""
    return lambda progress: report(replace(progress, stage=progress.stage + place))


def _train_member(start: Start, known: Development, refit: bool, report: Report, point: Checkpoint) -> Run:
    """A run of one model."""
    settings = start.settings
    again = None
    try:
        model, epochs, history = train_and_choose(begin(start), known, settings, report, point)
        if refit:
            start = replace(start, train=known.refit_train(), intervened=known.refit_intervened())
            again = train_for(begin(start), settings, epochs, report, point)
    except Interrupted as interrupted:
        raise point.stopped(interrupted, settings.to_json()) from None
    made = {"dim": model.embeddings.item_vectors.shape[1], "refit": refit, "chosen_epochs": epochs}
    return Run(model, again, settings.to_json() | made, tuple(history))


def _with_members(interrupted: Interrupted, members: Sequence[Run], look: Look) -> Interrupted:
    """The same with the members that are finished as the best model so far, if there are any."""
    if members:
        run = _as_one(members, None, look) if len(members) > 1 else members[0]
        interrupted.run = replace(run, settings=run.settings | {"interrupted": len(run.history)})
    return interrupted


def _as_one(members: Sequence[Run], reduce: int | None, look: Look) -> Run:
    """The run of an ensemble; settings and history are those of its first member."""
    model, refits = combine([run.model for run in members]), [run.refit for run in members if run.refit]
    refit = combine(refits) if refits else None
    made: dict[str, Any] = {"ensemble": len(members), "valid_recall": look.of_model(model)}
    made["members"] = [
        {name: run.settings[name] for name in ("seed", "chosen_epochs")} | {"valid_recall": look.of_model(run.model)}
        for run in members
    ]
    if reduce is not None:
        model, refit = reduce_width(model, reduce), refit and reduce_width(refit, reduce)
        made |= {"reduce": reduce, "valid_recall_before_reduction": made["valid_recall"]}
        made["valid_recall"] = look.of_model(model)
    first = members[0]
    return Run(model, refit, first.settings | {"dim": model.embeddings.dim} | made, first.history)


def candidates_of(given: dict[str, Any], encoder: Encoder | None = None, pairs: float = math.inf) -> list[Settings]:
    """The settings to choose among: every loss and power of the method that the user has not fixed.

    With few enough pairs also the method's slow ones, if nothing is given that has another default for them.
    """
    first = read_settings(given, encoder)
    choices: list[dict[str, Any]] = []
    for loss in first.method.raced or first.method.losses if given.get("loss") is None else (first.loss,):
        powers = () if "negative_power" in given else first.method.powers.get(loss, ())
        choices += [{"loss": loss, "negative_power": power} for power in powers] or [{"loss": loss}]
    if pairs <= SLOW_PAIRS and first.engine == "native" and not first.layers:
        named = {name for name, value in given.items() if value is not None}
        for choice in first.method.slow:
            own = first.method.loss_defaults.get(choice["loss"], {}).get(first.backbone, {})
            choices += [dict(choice)] * named.isdisjoint({"loss", "negative_power", "negatives", *own})
    return [read_settings(given | choice, encoder) for choice in choices]


def read_settings(given: dict[str, Any], encoder: Encoder | None = None) -> Settings:
    """The settings from keywords; an unknown one raises `InputError`."""
    check_settings(given, _NAMES)
    if encoder is not None:
        own = [name for name in ("backbone", "dim", "layers", "edge_dropout", "engine") if name in given]
        if own:
            raise InputError(f"{own[0]} is decided by the encoder; leave it out")
        given = given | {"backbone": ENCODER.name, "engine": "torch"}
    chosen = Settings(**given)
    if encoder is None and not find_backbone(chosen.backbone).builtin:
        raise InputError(f"backbone {chosen.backbone} needs an encoder: train(split, encoder=module)")
    return chosen


def _check_split(known: Development, settings: Settings, refit: bool) -> None:
    """Warns about users for whom no negative can be drawn; raises `InputError` if nothing can be learned."""
    if settings.method.needs_intervened and (known.intervened is None or not known.intervened.any()):
        raise InputError(
            f"{settings.method.title or settings.method.name} learns from a part of train that was drawn by "
            "intervention, but this split has none; make one with split_intervened (counterpop split --protocol "
            "intervened), or use a log whose split column marks it with 1"
        )
    train = known.refit_train() if refit else known.train
    full = np.flatnonzero(train.user_counts >= train.n_items)
    if len(full) == np.count_nonzero(train.user_counts):
        raise InputError("every user has touched every item, so there is no negative to learn from")
    if len(full):
        text = (
            f"{len(full)} users have touched every item (first: {train.user_ids[full[:1]].tolist()[0]!r}); "
            "no negative can be drawn for them, so they are not trained on"
        )
        warnings.warn(CounterpopWarning(text), stacklevel=3)
