"""The one loop: epochs, looks at validation, early stopping."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from counterpop.errors import InputError
from counterpop.progress import Progress, Report
from counterpop.runs import Model
from counterpop.splits import Development
from counterpop.training.backbones import find_backbone
from counterpop.training.backbones.contract import Start, Trainable
from counterpop.training.checkpoints import Checkpoint
from counterpop.training.settings import Settings
from counterpop.tuning import Grid, choose_strengths

CHECK_USERS = 4000  # a look at validation needs no more


def begin(start: Start) -> Trainable:
    """A model at its start, by the backbone and engine of the settings."""
    try:
        return find_backbone(start.settings.backbone).begin(start)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError("this needs torch: pip install 'counterpop[torch]'") from error


@contextmanager
def memory_errors(settings: Settings) -> Iterator[None]:
    """Turns torch's out-of-memory errors into one that says what to lower."""
    try:
        yield
    except RuntimeError as error:
        if not is_memory_error(error):
            raise
        dim = f"dim (now {settings.dim}) or " if find_backbone(settings.backbone).builtin else ""
        raise InputError(
            f"training ran out of memory on {settings.device}; lower {dim}batch (now {settings.batch}), or train "
            "without the ledger, which takes four times the memory of the vectors"
        ) from error


def is_memory_error(error: Exception) -> bool:
    """Whether memory ran out; torch, which may not be installed, has no class of its own for this on the CPU."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "can't allocate memory" in str(error)


def train_and_choose(
    trainee: Trainable, known: Development, settings: Settings, report: Report, checkpoint: Checkpoint
) -> tuple[Model, int, list[dict[str, float]]]:
    """The best model on validation, its epoch, and the history."""
    look = Look(known, settings)
    standing: dict[str, Any] = {"epoch": 0, "best_value": -math.inf, "best_epoch": 0, "history": []}
    standing |= checkpoint.resume("train", trainee)
    best, best_value, best_epoch = checkpoint.best, standing["best_value"], standing["best_epoch"]
    history: list[dict[str, float]] = standing["history"]
    for epoch, loss, seconds in run_epochs(trainee, settings, settings.epochs, standing["epoch"]):
        entry = {"epoch": epoch, "loss": loss, "seconds": seconds}
        history.append(entry)
        if not math.isfinite(loss):
            raise InputError(f"the loss diverged in epoch {epoch}; lower lr (now {settings.lr})")
        looked = epoch % settings.check_every == 0 or epoch == settings.epochs
        if looked:
            entry["valid"] = look.at(trainee)
            if entry["valid"] > best_value:
                best, best_value, best_epoch = trainee.model(), entry["valid"], epoch
        report(Progress("train", epoch, settings.epochs, loss, best_value if best else None, seconds))
        over = best is not None and epoch - best_epoch >= settings.patience * settings.check_every
        standing = {"epoch": settings.epochs if over else epoch, "best_epoch": best_epoch, "history": history}
        standing |= {"best_value": best_value} if best else {}
        checkpoint.offer("train", trainee, best, looked, **standing)
        if over:
            break
    if best is None:
        raise InputError("training produced no model that could be measured on validation")
    return best, best_epoch, history


def train_for(trainee: Trainable, settings: Settings, epochs: int, report: Report, checkpoint: Checkpoint) -> Model:
    """A model trained for a known number of epochs."""
    done = checkpoint.resume("refit", trainee).get("epoch", 0)
    for epoch, loss, seconds in run_epochs(trainee, settings, epochs, done):
        report(Progress("refit", epoch, epochs, loss, None, seconds))
        checkpoint.offer("refit", trainee, checkpoint.best, epoch % settings.check_every == 0, epoch=epoch)
    return trainee.model()


def run_epochs(
    trainee: Trainable, settings: Settings, epochs: int, done: int = 0
) -> Iterator[tuple[int, float, float]]:
    """Trains for this many epochs, of which some are done; after each, its number from 1, its loss and its seconds."""
    for epoch in range(done + 1, epochs + 1):
        start = time.perf_counter()
        loss = trainee.epoch(scheduled(settings, epoch))
        yield epoch, loss, time.perf_counter() - start


def scheduled(settings: Settings, epoch: int) -> float:
    """The learning rate of an epoch, counted from 1: constant, or falling to nearly 0 over all `epochs`."""
    done = (epoch - 1) / settings.epochs
    if settings.schedule == "linear":
        return settings.lr * (1 - done)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
    return settings.lr


class Look:
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
