"""Checkpoints: one file that a training goes on from, to the same bits, after it was stopped or killed."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from counterpop.encoding import to_json
from counterpop.errors import ArtifactError, CounterpopError, CounterpopWarning
from counterpop.numbers import NUMBERS
from counterpop.outputs import replacing
from counterpop.runs import Model, Run, model_of
from counterpop.splits import Development
from counterpop.training.backbones.contract import Trainable
from counterpop.training.states import State

SHARE = 0.015  # of the time of training that writing checkpoints may take
LATENCY, SPEED = 0.01, 2e8  # seconds and bytes a second: a guess at what writing takes, until the first was written


class Interrupted(CounterpopError):
    """Training was asked to stop."""

    run: Run | None = None
    """The best model so far, if there is one."""


class Checkpoint:
    """Where a training stands. Without a path nothing is written, but it can still be stopped.

    Beside the file there is one for each finished member of an ensemble, named by its number.
    """

    def __init__(
        self,
        path: str | Path | None,
        known: Development,
        key: Mapping[str, Any],
        resume: bool = False,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.path, self._known = None if path is None else Path(path), known
        self._should_stop = should_stop or (lambda: False)
        self._start, self._spent, self._slowness = time.perf_counter(), 0.0, 1.0
        self._trials: dict[str, Any] = {}
        self._stages: dict[str, dict[str, Any]] = {}
        self._state: State = {}
        self._size = 0  # of the last stage's state, in bytes
        self._failure = ""  # why the last attempt to write failed
        self._members, self._unwritten = 0, dict[Path, Run]()  # how many have ended, and which are still to be written
        self.best: Model | None = None
        if self.path is None:
            return
        self._key = hashlib.sha256(to_json({"numbers": NUMBERS, **key, "data": digest(known)}).encode()).hexdigest()
        if not resume:
            remove_checkpoint(self.path)
        elif self.path.exists():
            self._resume(self.path)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """A plain value that is made now, or was made before the training was stopped."""
        if name not in self._trials:
            self._trials[name] = make()
            self._forget()
            self._write_if_due()
        return self._trials[name]

    def member(self, number: int, make: Callable[[], Run]) -> Run:
        """A finished member of an ensemble, trained now or before the training was stopped."""
        path = None if self.path is None else self.path.with_name(f"{self.path.name}.{number}")
        if path is not None and path.exists():
            standing, tensors = self._read(path)
            if number > self._members:  # killed before the file itself was written: that still stands at this member
                self._forget()
            refit = self._model_of(tensors, "refit/") if "refit/user_vectors" in tensors else None
            return Run(
                self._model_of(tensors, "model/"), refit, standing["settings"], tuple(map(dict, standing["history"]))
            )
        run = make()
        self._forget()
        self._members = number
        if path is not None:
            self._unwritten[path] = run
        try:
            self._write_if_due()
        except Interrupted as interrupted:
            interrupted.run = replace(run, settings=run.settings | {"interrupted": len(run.history)})
            raise
        return run

    def resume(self, stage: str, trainee: Trainable) -> dict[str, Any]:
        """What `offer` was given last for this stage, with the model as it was then; empty if there is nothing."""
        if stage == next(reversed(self._stages), None) and self._state:
            trainee.restore(self._state)
            self._state = {}
        return dict(self._stages.get(stage, {}))

    def offer(self, stage: str, trainee: Trainable, best: Model | None, looked: bool, **standing: Any) -> None:
        """Writes the checkpoint if training has looked at validation and it is time, or if it was asked to stop."""
        if self.path is not None and (stage not in self._stages or not self._size):
            self._size = _size(trainee.state())
        self._stages[stage], self.best = standing, best
        self._write_if_due(trainee, looked)

    def _forget(self) -> None:
        """Drops where a training stands that has ended."""
        self._stages, self._state, self._size, self.best = {}, {}, 0, None

    def _write_if_due(self, trainee: Trainable | None = None, looked: bool = True) -> None:
        """Writes if that is within the share of time, or if training was asked to stop: then raises `Interrupted`."""
        now, size = time.perf_counter(), self._size
        size += sum(_size(model.tensors()) for model in (self.best, *self._models()) if model is not None)
        guess = LATENCY + size / SPEED
        due = looked and self._spent + self._slowness * guess <= SHARE * (now - self._start)
        stop = self._should_stop()
        if self.path is not None and (stop or due):
            state, before = trainee.state() if trainee else {}, self._failure
            try:
                self._write(self.path, state)
                self._failure = ""
            except OSError as error:  # a full disk must not end a training that can go on without
                self._failure = f"{self.path} could not be written ({error.strerror or error})"
            took = time.perf_counter() - now
            self._spent, self._slowness = self._spent + took, took / guess
            if self._failure and not before and not stop:
                warnings.warn(CounterpopWarning(f"{self._failure}; training goes on"), stacklevel=2)
        if stop:
            raise Interrupted(self._sentence())

    def _models(self) -> Iterator[Model | None]:
        """Of the members that are not written yet."""
        return (model for run in self._unwritten.values() for model in (run.model, run.refit))

    def _model_of(self, tensors: State, prefix: str) -> Model:
        return model_of(_below(tensors, prefix), self._known.train.user_ids, self._known.train.item_ids)

    def _sentence(self) -> str:
        if self.path is None:
            return "training was stopped"
        if self._failure:
            return f"training was stopped; {self._failure}"
        return f"training was stopped; {self.path} has everything to go on from it with --resume"

    def _write(self, path: Path, state: State) -> None:
        for other, run in self._unwritten.items():
            tensors = _named("model/", run.model.tensors()) | _named("refit/", run.refit.tensors() if run.refit else {})
            self._save(other, {"settings": run.settings, "history": run.history}, tensors)
        self._unwritten = {}
        tensors = _named("state/", {name: np.asarray(value, order="C") for name, value in state.items()})
        if self.best is not None:
            tensors |= _named("best/", self.best.tensors())
        standing = {"trials": self._trials, "members": self._members, "stages": list(self._stages.items())}
        self._save(path, standing, tensors)

    def _save(self, path: Path, standing: Mapping[str, Any], tensors: State) -> None:
        text = to_json({"key": f"{self._key} {path.suffix}", **standing})
        with replacing(path) as part:
            _write_tensors(part, tensors, {"standing": text, "checksum": _checksum(text, tensors)})

    def _read(self, path: Path) -> tuple[dict[str, Any], State]:
        try:
            with safe_open(path, "numpy") as file:
                text, written = (file.metadata()[name] for name in ("standing", "checksum"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            standing = json.loads(text)
            right = written == _checksum(text, tensors)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path} cannot be read ({error}); delete it to start from the beginning") from None
        if not right:
            raise ArtifactError(f"{path} was changed after it was written; delete it to start from the beginning")
        if standing["key"] != f"{self._key} {path.suffix}":
            raise ArtifactError(
                f"{path} belongs to a training on other data, with other settings or by another version; repeat that "
                "command, or delete the file to start from the beginning"
            )
        return standing, tensors

    def _resume(self, path: Path) -> None:
        standing, tensors = self._read(path)
        self._trials, self._members, self._stages = standing["trials"], standing["members"], dict(standing["stages"])
        self._state = _below(tensors, "state/")
        if "best/user_vectors" in tensors:
            self.best = self._model_of(tensors, "best/")

    def stopped(self, interrupted: Interrupted, settings: Mapping[str, Any]) -> Interrupted:
        """The same with the best model so far as a run."""
        if self.best is not None and (standing := self._stages.get("train")):
            made = {"refit": False, "chosen_epochs": standing["best_epoch"], "interrupted": len(standing["history"])}
            made |= {"dim": self.best.embeddings.item_vectors.shape[1]}
            interrupted.run = Run(self.best, None, {**settings, **made}, tuple(standing["history"]))
        return interrupted


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint with its members."""
    for file in (path, *path.parent.glob(f"{escape(path.name)}.[0-9]*")):
        file.unlink(missing_ok=True)


def _write_tensors(path: Path, tensors: State, metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file array after array; the library's `save` would hold all of them twice more in memory."""
    about: dict[str, Any] = {"__metadata__": dict(metadata)}
    tensors = dict(sorted(tensors.items(), key=lambda named: (-named[1].itemsize, named[0])))  # keeps them aligned
    end = 0
    for name, value in tensors.items():
        kind = "BOOL" if value.dtype == bool else f"{value.dtype.kind.upper()}{8 * value.itemsize}"
        about[name] = {"dtype": kind, "shape": value.shape, "data_offsets": [end, end + value.nbytes]}
        end += value.nbytes
    head = json.dumps(about).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for value in tensors.values():
            file.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)


def _size(tensors: State) -> int:
    return sum(value.nbytes for value in tensors.values())


def _named(prefix: str, tensors: State) -> State:
    return {f"{prefix}{name}": value for name, value in tensors.items()}


def _below(tensors: State, prefix: str) -> State:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _checksum(text: str, tensors: State) -> str:
    found = zlib.crc32(text.encode())
    for name, value in sorted(tensors.items()):
        found = zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data, found)
        found = zlib.crc32(f"{name} {value.dtype} {value.shape}".encode(), found)
    return f"{found:08x}"


def digest(known: Development) -> str:
    """A fingerprint of what a training may use."""
    found = hashlib.sha256()
    parts = [part for part in (known.train, known.valid, known.ordinary) if part is not None]
    found.update(repr([(part.n_users, part.n_items, len(part)) for part in parts]).encode())
    for array in (known.intervened, *(one for part in parts for one in (part.user_ix, part.item_ix, part.weight))):
        found.update(b"" if array is None else np.ascontiguousarray(array).data)
    return found.hexdigest()
