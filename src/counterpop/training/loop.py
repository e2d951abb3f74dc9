"""The one loop: epochs, looks at validation, early stopping, refit."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Interactions
from counterpop.runs import Model, Run
from counterpop.splits import Development, Split
from counterpop.training.backbones import ENCODER, find_backbone
from counterpop.training.backbones.contract import Start, Trainable
from counterpop.training.ensembles import check_reduction, combine, member_seeds, reduce_width
from counterpop.training.settings import Settings
from counterpop.tuning import Grid, choose_strengths

if TYPE_CHECKING:
    from torch.nn import Module

    Encoder = Module | Callable[[Interactions], Module]

CHECK_USERS = 4000  # a look at validation needs no more


@dataclass(frozen=True)
class Progress:
    """Where training stands, after each epoch."""

    stage: str
    """"train", or "refit" for the second training on train + validation."""
    epoch: int
    epochs: int
    loss: float
    best: float | None
    """The best validation metric so far."""
    seconds: float
    """Of this epoch."""


def train(
    split: Split | Development,
    *,
    encoder: Encoder | None = None,
    refit: bool = False,
    ensemble: int = 1,
    reduce: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Run:
    """A run: the model that was best on validation, its ledger, and how training went.

    Keywords are the fields of `Settings`; `method` is a name or a value such as `DICE(margin=20)`, built in or your own
    (see `Method`). Every `check_every` epochs recall@20 is measured on validation, on a sample of users and at the best
    of the method's coarse grid of strengths, because that is how the model will be used; training stops after
    `patience` looks without an improvement and keeps the best model. With `refit`, a second model is trained for as
    many epochs on train + validation. Never looks at test.

    `encoder` is a torch module of your own that is called without arguments and returns (user vectors, item vectors), a
    row for each user and item of the split in its order; or a function that builds such a module from the interactions
    it will be trained on. The module itself stays as it is: a copy is trained.

    `ensemble=N` trains N models from different seeds and returns them as one, N times as wide: see `combine`. `reduce`
    brings its width down to this number: see `reduce_width`. The run's settings then name the members, with the
    validation recall of each, of all together, and after the reduction. `history` is that of the first member.
    """
    known = split.development if isinstance(split, Split) else split
    chosen = _read_settings(settings, encoder)
    _check_split(known, chosen, refit)
    if not isinstance(ensemble, int) or ensemble < 1:
        raise InputError(f"ensemble must be a whole number of at least 1, got {ensemble!r}")
    report, members = on_progress or (lambda progress: None), []
    for number, seed in enumerate(member_seeds(chosen.seed, ensemble), start=1):

        def named(progress: Progress, place: str = f" {number} of {ensemble}" * (ensemble > 1)) -> None:
            report(replace(progress, stage=progress.stage + place))

        members.append(_train_member(known, replace(chosen, seed=seed), encoder, refit, named))
        if reduce is not None:  # better now than after the other members
            check_reduction(members[0].model, reduce, ensemble)
    if ensemble == 1 and reduce is None:
        return members[0]
    return _as_one(members, reduce, _Look(known, chosen))


def _train_member(
    known: Development, settings: Settings, encoder: Encoder | None, refit: bool, report: Callable[[Progress], None]
) -> Run:
    """A run of one model."""
    with _memory_errors(settings):
        start = Start(known.train, settings, known.intervened, encoder)
        model, epochs, history = _train_and_choose(begin(start), known, settings, report)
        again = None
        if refit:
            start = Start(known.refit_train(), settings, known.refit_intervened(), encoder)
            again = _train_for(begin(start), settings, epochs, report)
    made = {"dim": model.embeddings.item_vectors.shape[1], "refit": refit, "chosen_epochs": epochs}
    return Run(model, again, settings.to_json() | made, tuple(history))


def _as_one(members: list[Run], reduce: int | None, look: _Look) -> Run:
    """The run of an ensemble; the settings and the history are those of its first member."""
    model, refits = combine([run.model for run in members]), [run.refit for run in members if run.refit]
    refit = combine(refits) if refits else None
    recall = look.of_model(model)
    made: dict[str, Any] = {
        "ensemble": len(members),
        "members": [
            {
                "seed": run.settings["seed"],
                "chosen_epochs": run.settings["chosen_epochs"],
                "valid_recall": look.of_model(run.model),
            }
            for run in members
        ],
        "valid_recall": recall,
    }
    if reduce is not None:
        model, refit = reduce_width(model, reduce), refit and reduce_width(refit, reduce)
        made |= {"reduce": reduce, "valid_recall": look.of_model(model), "valid_recall_before_reduction": recall}
    first = members[0]
    return Run(model, refit, first.settings | {"dim": model.embeddings.dim} | made, first.history)


def _read_settings(given: dict[str, Any], encoder: Encoder | None) -> Settings:
    """The settings from keywords; an unknown one raises `InputError`."""
    names = [field.name for field in fields(Settings)]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a setting; there are {', '.join(names)}")
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


def begin(start: Start) -> Trainable:
    """A model at its start, by the backbone and engine of the settings."""
    try:
        return find_backbone(start.settings.backbone).begin(start)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError("this needs torch: pip install 'counterpop[torch]'") from error


@contextmanager
def _memory_errors(settings: Settings) -> Iterator[None]:
    """Turns torch's out-of-memory errors into one that says what to lower."""
    try:
        yield
    except RuntimeError as error:
        # torch's, which may not be installed; on the CPU it has no class of its own
        if type(error).__name__ != "OutOfMemoryError" and "can't allocate memory" not in str(error):
            raise
        dim = f"dim (now {settings.dim}) or " if find_backbone(settings.backbone).builtin else ""
        raise InputError(
            f"training ran out of memory on {settings.device}; lower {dim}batch (now {settings.batch}), or train "
            "without the ledger, which takes four times the memory of the vectors"
        ) from error


def _train_and_choose(
    trainee: Trainable, known: Development, settings: Settings, report: Callable[[Progress], None]
) -> tuple[Model, int, list[dict[str, float]]]:
    """The best model on validation, its epoch, and the history."""
    look = _Look(known, settings)
    best, best_value, best_epoch = None, -math.inf, 0
    history: list[dict[str, float]] = []
    for epoch in range(1, settings.epochs + 1):
        start = time.perf_counter()
        loss = trainee.epoch(scheduled(settings, epoch))
        entry = {"epoch": epoch, "loss": loss, "seconds": time.perf_counter() - start}
        history.append(entry)
        if not math.isfinite(loss):
            raise InputError(f"the loss diverged in epoch {epoch}; lower lr (now {settings.lr})")
        if epoch % settings.check_every == 0 or epoch == settings.epochs:
            entry["valid"] = look.at(trainee)
            if entry["valid"] > best_value:
                best, best_value, best_epoch = trainee.model(), entry["valid"], epoch
        report(Progress("train", epoch, settings.epochs, loss, best_value if best else None, entry["seconds"]))
        if best and epoch - best_epoch >= settings.patience * settings.check_every:
            break
    if best is None:
        raise InputError("training produced no model that could be measured on validation")
    return best, best_epoch, history


def _train_for(trainee: Trainable, settings: Settings, epochs: int, report: Callable[[Progress], None]) -> Model:
    """A model trained for a known number of epochs."""
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        loss = trainee.epoch(scheduled(settings, epoch))
        report(Progress("refit", epoch, epochs, loss, None, time.perf_counter() - start))
    return trainee.model()


def scheduled(settings: Settings, epoch: int) -> float:
    """The learning rate of an epoch, counted from 1: constant, or falling to nearly 0 over all `epochs`."""
    done = (epoch - 1) / settings.epochs
    if settings.schedule == "linear":
        return settings.lr * (1 - done)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
    return settings.lr


class _Look:
    """Measures a model on validation: recall@20 at the best strengths, or plain."""

    def __init__(self, known: Development, settings: Settings) -> None:
        users = np.flatnonzero(known.valid.user_counts).astype(np.int32)
        if not len(users):
            raise InputError(
                "training needs a validation part to know when to stop, but it is empty; make another split"
            )
        if len(users) > CHECK_USERS:
            draw = settings.generator("check")
            users = np.sort(draw.choice(users, CHECK_USERS, replace=False))
        self._known, self._users = known, users
        self._strengths, self._threads = settings.method.looks, settings.threads

    def at(self, trainee: Trainable) -> float:
        """Recall@20 of a model in training."""
        return _best_recall(trainee.look(self._known, self._users, self._strengths))

    def of_model(self, model: Model) -> float:
        """Recall@20 of a trained model."""
        from counterpop.training.native import look_at

        return _best_recall(look_at(model, self._known, self._users, self._strengths, self._threads))


def _best_recall(grid: Grid) -> float:
    return grid.at(*choose_strengths(grid))["recall"]
