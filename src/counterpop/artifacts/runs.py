"""Run folders: models, history, the split, and once tuned the adjustment and its grid."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import save_file

from counterpop.adjustment import Adjustment
from counterpop.artifacts.adjustments import read_adjustment, strengths_of, write_directions
from counterpop.artifacts.folder import (
    MANIFEST,
    TEST,
    Contents,
    carry_files,
    check_target,
    checksum,
    copy_file,
    read_folder,
    replaced,
    same_version,
)
from counterpop.artifacts.saved import HeldOut, Saved
from counterpop.artifacts.splits import read_development, save_split, split_of
from counterpop.directions import find_directions
from counterpop.embeddings import FloatArray
from counterpop.encoding import to_json
from counterpop.errors import ArtifactError, CounterpopWarning
from counterpop.evaluation import On
from counterpop.interactions import Ids, Interactions
from counterpop.ledger import Ledger
from counterpop.recommender import Recommender
from counterpop.runs import Dials, Model, Run, model_of
from counterpop.splits import Development, Split
from counterpop.training.methods import METHODS
from counterpop.tuning import Grid


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SavedRun(Saved):
    """The content of a run folder, except its test part."""

    run: Run
    adjustment: Adjustment | None = None
    """The final model's, if the run has been tuned."""

    def trained_on(self, on: On = "test") -> Interactions:
        return self.known.refit_train() if self.run.refit is not None and on == "test" else self.known.train

    def recommender(self, on: On = "test") -> Recommender:
        """The model to use on a part, at its tuned strengths; at strengths 0, with a warning, before it is tuned.

        For test and serving this is the final model, which leaves out all that users are known to have touched: train,
        validation and the ordinary part, with or without a refit. For validation it is the model that was trained
        without validation, which leaves out train items.
        """
        if not self.tuning and self.run.model.dials is not None:
            text = f"{self.path} has not been tuned, so its strengths are 0; run `counterpop tune` first"
            warnings.warn(CounterpopWarning(text), stacklevel=2)
        return self._model(on)

    def _model(self, on: On) -> Recommender:
        """The same without the warning."""
        run, tuning, known = self.run, self.tuning or {}, self.known
        trial = self._model("valid") if run.refit is not None and on == "test" else None
        model = run.final if on == "test" else run.model
        adjustment = self.adjustment
        if adjustment is None or model is not run.final:
            by = tuning.get("item_direction"), tuning.get("user_direction")
            directions = find_directions(model, self.trained_on(on), *by)
            strengths = tuning.get("item_strength", 0.0), tuning.get("user_strength", 0.0)
            adjustment = Adjustment(directions.item, directions.user, *strengths, lean=tuning.get("lean", 0.0))
        return Recommender(
            **vars(adjustment),
            embeddings=model.embeddings,
            seen=known.refit_train() if on == "test" else known.train,
            refit=trial is not None,
            trial=trial,
        )

    def held_out(self) -> HeldOut:
        trial, parts = self._model("valid"), (self.known.valid, self.known.ordinary)
        return [(trial, part) for part in parts if part is not None]

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.run.settings

    @property
    def tuning(self) -> Mapping[str, Any] | None:
        tuning: Mapping[str, Any] | None = self.manifest["tuning"]
        return tuning

    @property
    def history(self) -> Sequence[Mapping[str, float]]:
        return self.run.history

    @property
    def ledger(self) -> Ledger | None:
        return self.run.ledger


@contextmanager
def begin_run(
    path: str | Path, split: str | Path | Split, force: bool = True
) -> Iterator[tuple[Development, Callable[[Run], None]]]:
    """What to train on, and a function that takes the run; the folder takes its place on exit.

    Until then nobody else can write it. The split is copied first, so a folder that cannot be written, a full disk or
    a damaged split is found before any training. If writing still fails, the run is kept in the folder for temporary
    files, and the error says where.
    """
    check_target(path, "run", force)
    trained: list[Run] = []
    try:
        with _new_run(Path(path), split, trained) as known:
            yield known, trained.append
    except OSError as error:
        if not trained:
            raise
        kept = Path(tempfile.mkdtemp(prefix="counterpop-"))
        try:
            with _new_run(kept / "run", split, trained):
                pass
        except OSError:
            shutil.rmtree(kept, ignore_errors=True)
            raise error from None
        reason = error.strerror or str(error)
        raise ArtifactError(f"{path} could not be written ({reason}); the run was kept in {kept / 'run'}") from error


@contextmanager
def _new_run(path: Path, split: str | Path | Split, trained: Sequence[Run]) -> Iterator[Development]:
    content: dict[str, Any] = {}
    checksums: dict[str, str] = {}
    with replaced(path, "run", content, checksums) as folder:
        if isinstance(split, Split):
            save_split(split, folder / "split")
            yield split.development
        else:
            yield read_folder(split, ("split", "run"), partial(_copy_split, folder / "split", checksums))
        content |= {"settings": trained[-1].settings, "tuning": None}
        _write_run(trained[-1], folder)


def save_run(run: Run, path: str | Path, split: str | Path | Split) -> None:
    """Writes a run folder with its split inside."""
    with begin_run(path, split) as (_, fill):
        fill(run)


def load_run(path: str | Path) -> SavedRun:
    """The run in a folder, with its adjustment and grid if it has been tuned."""
    return read_folder(path, ("run",), partial(read_run, Path(path)))


def is_interrupted(path: str | Path) -> bool:
    """Whether a folder holds the best model of a training that was stopped."""
    if not (Path(path) / MANIFEST).is_file():
        return False
    return read_folder(path, ("run",), lambda contents: "interrupted" in contents.manifest["settings"])


def save_tuning(run: str | Path | SavedRun, adjustment: Adjustment, grid: Grid, chosen: Mapping[str, Any]) -> None:
    """Writes an adjustment and the grid it was chosen from into a run folder; `chosen` records how.

    A `SavedRun` must still be what the folder holds; otherwise this raises `ArtifactError`.
    """
    saved = run if isinstance(run, SavedRun) else load_run(run)
    path, manifest = saved.path.resolve(), saved.manifest
    tuning = strengths_of(adjustment) | {"users": grid.users, "looked_at": grid.looked_at} | dict(chosen)
    content = {"settings": manifest["settings"], "tuning": tuning}
    kept = {n: c for n, c in manifest["files"].items() if n not in ("grid.parquet", "adjustment.safetensors")}
    with replaced(path, "run", content, kept) as new:
        if not same_version(path, manifest):
            raise ArtifactError(f"{path} was replaced by another run since it was loaded; tune it again")
        carry_files(path, new, [name for name in kept if Path(name).name != TEST or (path / name).is_file()])
        a, b = np.meshgrid(grid.item_strengths, grid.user_strengths, indexing="ij")
        columns = {"item_strength": a, "user_strength": b, **grid.values}
        table = pl.DataFrame({name: value.ravel() for name, value in columns.items()})
        table.write_parquet(new / "grid.parquet")
        write_directions(adjustment, new)


def _copy_split(target: Path, known: dict[str, str], contents: Contents) -> Development:
    """Copies a split, whose test part may be missing, and adds its checksums to `known`; returns it without test."""
    contents = split_of(contents)
    shutil.rmtree(target, ignore_errors=True)  # of an attempt before, if the split was replaced meanwhile
    target.mkdir()
    for name, expected in contents.manifest["files"].items():
        if name == TEST and not (contents.folder / name).exists():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy_file(contents.folder / name, target / name)
        if checksum(target / name) != expected:
            raise ArtifactError(f"{contents.folder} is damaged: {name} was changed after writing; make the split again")
        known[f"split/{name}"] = expected
    (target / MANIFEST).write_text(to_json(contents.manifest, indent=2) + "\n")
    return read_development(Contents(target, contents.manifest))


def _write_run(run: Run, folder: Path) -> None:
    for name, model in (("model", run.model), ("refit", run.refit)):
        if model is not None:
            _write_model(model, folder / f"{name}.safetensors")
    pl.DataFrame(list(run.history), infer_schema_length=None).write_parquet(folder / "history.parquet")


def read_run(path: Path, contents: Contents) -> SavedRun:
    known, manifest = read_development(contents), contents.manifest
    ids = known.train.user_ids, known.train.item_ids
    method = manifest["settings"].get("method") if manifest["format"] == 1 else None
    models = {
        name: _read_model(contents.tensors(f"{name}.safetensors"), *ids, method)
        for name in ("model", "refit")
        if f"{name}.safetensors" in contents
    }
    if "model" not in models:
        raise ArtifactError(f"{path} has no model; train it again")
    history = contents.table("history.parquet").to_dicts()
    measured = tuple({key: value for key, value in entry.items() if value is not None} for entry in history)
    run = Run(models["model"], models.get("refit"), manifest["settings"], measured)
    if not manifest["tuning"]:
        return SavedRun(path=path, run=run, known=known, manifest=manifest)
    grid = _read_grid(contents.table("grid.parquet"), manifest["tuning"])
    adjustment = read_adjustment(contents)
    return SavedRun(path=path, run=run, known=known, manifest=manifest, adjustment=adjustment, grid=grid)


def _read_grid(table: pl.DataFrame, tuning: Mapping[str, Any]) -> Grid:
    a, b = (tuple(table[name].unique(maintain_order=True).to_list()) for name in ("item_strength", "user_strength"))
    values = {name: table[name].to_numpy().reshape(len(a), len(b)) for name in table.columns[2:]}
    return Grid(a, b, values, tuning["users"], tuning["looked_at"])


def _write_model(model: Model, path: Path) -> None:
    save_file(model.tensors(), path)


def _read_model(tensors: Mapping[str, Any], users: Ids, items: Ids, method: str | None) -> Model:
    """The model in a file; `method` is given for format 1, where a file may lack the grids of its dials."""
    model = model_of(tensors, users, items)
    if model.dials is None and method is not None:
        return replace(model, dials=_dials_of(method, tensors.get("dial")))
    return model


def _dials_of(method: str, direction: FloatArray | None) -> Dials | None:
    """The dials of a run in format 1 that was saved without their grids: those of its method, if it is built in."""
    dials = next((known.dials for known in METHODS if known.name == method), None)
    return dials and replace(dials, user_direction=direction)
