"""The one loop: epochs, looks at validation, early stopping, refit."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import BoolArray, IntArray, Interactions
from counterpop.runs import BOTH_SIDES, FIXED, Model, Run, Strengths
from counterpop.splits import Development, Split
from counterpop.training.methods import Options
from counterpop.training.settings import Settings
from counterpop.tuning import Grid, choose_strengths

if TYPE_CHECKING:
    from torch.nn import Module

    Encoder = Module | Callable[[Interactions], Module]

CHECK_USERS = 4000  # a look at validation needs no more
CHECK_STRENGTHS = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0)
# what a look tries on (items, users); 0 alone for the methods that are not here
CHECK_STRENGTHS_OF = {
    "gradient": (CHECK_STRENGTHS, CHECK_STRENGTHS),
    "macr": (FIXED, tuple(round(0.2 * n, 1) for n in range(11))),
}
CHECK_STREAM = 402


class Trainable(Protocol):
    """A model in training."""

    def epoch(self, lr: float) -> float:
        """Goes once through the data at this learning rate; returns the mean loss."""

    def model(self) -> Model:
        """A copy of the model as it is now."""

    def look(self, known: Development, users: IntArray, item_strengths: Strengths, user_strengths: Strengths) -> Grid:
        """How it does on the validation part of these users, at every pair of strengths."""


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
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Run:
    """A run: the model that was best on validation, its ledger, and how training went.

    Keywords are the fields of `Settings`; `method` may also be a value such as `DICE(margin=20)`. Every
    `check_every` epochs recall@20 is measured on validation (on a sample of users; for the gradient method
    and MACR at the best of a coarse grid of strengths, because that is how they will be used); training stops
    after `patience` looks without a better one and keeps the best model. With `refit`, a second model is
    trained for as many epochs on train + validation. Never looks at test.

    `encoder` is a torch module of your own that is called without arguments and returns (user vectors, item
    vectors), a row for each user and item of the split in its order; or a function that builds such a module
    from the interactions it will be trained on. The module itself is left as it is: a copy is trained.
    """
    known = split.development if isinstance(split, Split) else split
    names = [field.name for field in fields(Settings)]
    unknown = [name for name in settings if name not in names]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a setting; there are {', '.join(names)}")
    if encoder is not None:
        own = [name for name in ("backbone", "dim", "layers", "edge_dropout", "engine") if name in settings]
        if own:
            raise InputError(f"{own[0]} is the encoder's own affair; leave it out")
        settings |= {"backbone": "encoder", "engine": "torch"}
    if isinstance(settings.get("method"), Options):
        settings |= {"method": settings["method"].name, "options": settings["method"]}
    chosen = Settings(**settings)
    if chosen.backbone == "encoder" and encoder is None:
        raise InputError("backbone encoder needs an encoder: train(split, encoder=module)")
    if chosen.method == "cause" and (known.intervened is None or not known.intervened.any()):
        raise InputError(
            "CausE learns from a part of train that was drawn by intervention, but this split has none; make "
            "one with split_intervened (counterpop split --protocol intervened), or take a log whose split "
            "column marks it with 1"
        )
    report = on_progress or (lambda progress: None)
    _say_who_cannot_learn(known.refit_train() if refit else known.train)
    try:
        trainee = begin(known.train, known.intervened, chosen, encoder)
        model, epochs, history = _train_and_choose(trainee, known, chosen, report)
        again = None
        if refit:
            trainee = begin(known.refit_train(), known.refit_intervened(), chosen, encoder)
            again = _train_for(trainee, chosen, epochs, report)
    except RuntimeError as error:
        # torch's, which may not be there to be named; on the CPU it has no kind of its own
        if type(error).__name__ != "OutOfMemoryError" and "can't allocate memory" not in str(error):
            raise
        dim = "" if encoder is not None else f"dim (now {chosen.dim}) or "
        raise InputError(
            f"training ran out of memory on {chosen.device}; lower {dim}batch (now {chosen.batch}), or do "
            "without the ledger, which takes four times the memory of the vectors"
        ) from error
    if chosen.method == "gradient":
        model, again = replace(model, dials=BOTH_SIDES), again and replace(again, dials=BOTH_SIDES)
    made = {"dim": model.embeddings.item_vectors.shape[1], "refit": refit, "chosen_epochs": epochs}
    return Run(model, again, asdict(chosen) | made, tuple(history))


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
            raise InputError(f"the loss left all bounds in epoch {epoch}; lower lr (now {settings.lr})")
        if epoch % settings.check_every == 0 or epoch == settings.epochs:
            entry["valid"] = look.at(trainee)
            if entry["valid"] > best_value:
                best, best_value, best_epoch = trainee.model(), entry["valid"], epoch
        report(Progress("train", epoch, settings.epochs, loss, best_value if best else None, entry["seconds"]))
        if best and epoch - best_epoch >= settings.patience * settings.check_every:
            break
    if best is None:
        raise InputError("training came to no model that could be measured on validation")
    return best, best_epoch, history


def _say_who_cannot_learn(train: Interactions) -> None:
    """Warns of users for whom no negative can be drawn; refuses a log of nobody else."""
    full = np.flatnonzero(train.user_counts >= train.n_items)
    if len(full) == np.count_nonzero(train.user_counts):
        raise InputError("every user has touched every item, so there is no negative to learn from")
    if len(full):
        text = (
            f"{len(full)} users have touched every item (first: {train.user_ids[full[:1]].tolist()[0]!r}); "
            "no negative can be drawn for them, so they are not trained on"
        )
        warnings.warn(CounterpopWarning(text), stacklevel=3)


def _train_for(trainee: Trainable, settings: Settings, epochs: int, report: Callable[[Progress], None]) -> Model:
    """A model trained for a known number of epochs."""
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        loss = trainee.epoch(scheduled(settings, epoch))
        report(Progress("refit", epoch, epochs, loss, None, time.perf_counter() - start))
    return trainee.model()


def begin(train: Interactions, intervened: BoolArray | None, settings: Settings, encoder: Encoder | None) -> Trainable:
    """A model at its beginning, by the engine and backbone of the settings."""
    if settings.engine == "torch":
        try:
            from counterpop.training.device.trainees import begin as begin_on_device
        except ModuleNotFoundError as error:
            raise InputError("this needs torch: pip install 'counterpop[torch]'") from error
        return begin_on_device(train, settings, encoder, intervened)
    from counterpop.training.lightgcn import LightGCN
    from counterpop.training.mf import MatrixFactorisation

    return (LightGCN if settings.layers else MatrixFactorisation)(train, settings, intervened)


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
            raise InputError("training is stopped by the validation part, but it is empty; make another split")
        if len(users) > CHECK_USERS:
            draw = np.random.default_rng([settings.seed, CHECK_STREAM])
            users = np.sort(draw.choice(users, CHECK_USERS, replace=False))
        self._known, self._users = known, users
        self._strengths = CHECK_STRENGTHS_OF.get(settings.method, (FIXED, FIXED))

    def at(self, trainee: Trainable) -> float:
        """Recall@20 of the model."""
        grid = trainee.look(self._known, self._users, *self._strengths)
        return grid.at(*choose_strengths(grid))["recall"]
