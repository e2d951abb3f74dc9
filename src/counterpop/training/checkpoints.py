"""Checkpoints: one file that a training goes on from, to the same bits, after it was stopped or killed."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from counterpop.encoding import to_json
from counterpop.errors import CounterpopError, InputError
from counterpop.numbers import NUMBERS
from counterpop.outputs import replacing
from counterpop.runs import Model, Run, model_of
from counterpop.splits import Development
from counterpop.training.backbones.contract import Trainable
from counterpop.training.states import State

Report = Callable[[Any], None]

SHARE = 0.015  # of the time of training that writing checkpoints may take
SPEED = 2e8  # bytes a second: a guess, until the first was written


class Interrupted(CounterpopError):
    """Training was asked to stop."""

    run: Run | None = None
    """The best model so far, if there is one."""


class Checkpoint:
    """Where a training stands. Without a path nothing is written, but it can still be stopped."""

    def __init__(
        self,
        path: str | Path | None,
        known: Development,
        key: Mapping[str, Any],
        resume: bool = False,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.path, self._known = None if path is None else Path(path), known
        self._key = hashlib.sha256(to_json({"numbers": NUMBERS, **key, "data": _digest(known)}).encode()).hexdigest()
        self._should_stop = should_stop or (lambda: False)
        self._start, self._next = time.perf_counter(), 0.0
        self._trials: dict[str, Any] = {}
        self._stages: dict[str, dict[str, Any]] = {}
        self._state: State = {}
        self.best: Model | None = None
        if resume and self.path is not None and self.path.exists():
            self._read(self.path)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """A plain value that is made now, or was made before the training was stopped."""
        if name not in self._trials:
            self._trials[name] = make()
            self._write()
        return self._trials[name]

    def check(self) -> None:
        """Raises `Interrupted` if training was asked to stop."""
        if self._should_stop():
            raise Interrupted(self._sentence())

    def watched(self, report: Report) -> Report:
        """The same report, which also stops training when asked to: where there is nothing to write first."""

        def both(progress: Any) -> None:
            report(progress)
            self.check()

        return both

    def resume(self, stage: str, trainee: Trainable) -> dict[str, Any]:
        """What `offer` was given last for this stage, with the model as it was then; empty if there is nothing."""
        if stage == next(reversed(self._stages), None) and self._state:
            trainee.restore(self._state)
            self._state = {}
        return dict(self._stages.get(stage, {}))

    def offer(self, stage: str, trainee: Trainable, best: Model | None, looked: bool, **standing: Any) -> None:
        """Writes the checkpoint if training has looked at validation and it is time, or if it was asked to stop."""
        self._stages[stage], self.best = standing, best
        if best is not None and not self._next:
            size = 2 * sum(
                array.nbytes for array in best.tensors().values()
            )  # of the best model and the one in training
            self._next = self._start + size / SPEED / SHARE
        due = looked and best is not None and time.perf_counter() >= self._next
        if self.path is not None and (self._should_stop() or due):
            start = time.perf_counter()
            self._write(trainee.state())
            self._next = time.perf_counter() + (time.perf_counter() - start) / SHARE
        self.check()

    def _sentence(self) -> str:
        if self.path is None:
            return "training was stopped"
        return f"training was stopped; {self.path} has everything to go on from it with --resume"

    def _write(self, state: State | None = None) -> None:
        if self.path is None:
            return
        tensors = {f"state/{name}": np.asarray(value, order="C") for name, value in (state or {}).items()}
        if self.best is not None:
            tensors |= {f"best/{name}": value for name, value in self.best.tensors().items()}
        text = to_json({"key": self._key, "trials": self._trials, "stages": list(self._stages.items())})
        with replacing(self.path) as part:
            part.write_bytes(save(tensors, {"standing": text, "checksum": _checksum(text, tensors)}))

    def _read(self, path: Path) -> None:
        try:
            with safe_open(path, "numpy") as file:
                text, written = (file.metadata()[name] for name in ("standing", "checksum"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            standing = json.loads(text)
            right = written == _checksum(text, tensors)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} cannot be read ({error}); delete it to start from the beginning") from None
        if not right:
            raise InputError(f"{path} was changed after it was written; delete it to start from the beginning")
        if standing["key"] != self._key:
            raise InputError(
                f"{path} belongs to a training on other data, with other settings or by another version; repeat that "
                "command, or delete the file to start from the beginning"
            )
        self._trials, self._stages = standing["trials"], dict(standing["stages"])
        self._state = _below(tensors, "state/")
        if best := _below(tensors, "best/"):
            self.best = model_of(best, self._known.train.user_ids, self._known.train.item_ids)

    def stopped(self, interrupted: Interrupted, settings: Mapping[str, Any]) -> Interrupted:
        """The same with the best model so far as a run."""
        if self.best is not None and (standing := self._stages.get("train")):
            made = {"refit": False, "chosen_epochs": standing["best_epoch"], "interrupted": len(standing["history"])}
            made |= {"dim": self.best.embeddings.item_vectors.shape[1]}
            interrupted.run = Run(self.best, None, {**settings, **made}, tuple(standing["history"]))
        return interrupted


def _below(tensors: State, prefix: str) -> State:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _checksum(text: str, tensors: State) -> str:
    found = zlib.crc32(text.encode())
    for name, value in sorted(tensors.items()):
        found = zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data, found)
        found = zlib.crc32(f"{name} {value.dtype} {value.shape}".encode(), found)
    return f"{found:08x}"


def _digest(known: Development) -> str:
    found = hashlib.sha256()
    parts = [part for part in (known.train, known.valid, known.ordinary) if part is not None]
    for array in (known.intervened, *(array for part in parts for array in (part.user_ix, part.item_ix))):
        found.update(b"" if array is None else array.tobytes())
    return found.hexdigest()
