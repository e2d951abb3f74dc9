"""Run folders: models, history, the split, and once tuned the adjustment and its grid."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import save_file

from counterpop.adjustment import Adjustment
from counterpop.artifacts.adjustments import read_adjustment, strengths_of, write_directions
from counterpop.artifacts.documents import Subject
from counterpop.artifacts.folder import MANIFEST, TEST, link_files, read_manifest, read_tensors, replaced
from counterpop.artifacts.splits import load_development, load_split, read_ids, save_split, split_folder
from counterpop.auditing import audit_model
from counterpop.directions import find_directions
from counterpop.embeddings import Embeddings, FloatArray
from counterpop.errors import ArtifactError, CounterpopWarning
from counterpop.evaluation import On
from counterpop.interactions import Ids, Interactions
from counterpop.ledger import Ledger
from counterpop.readers import LabelSources
from counterpop.recommender import Recommender
from counterpop.runs import Dials, Model, Run
from counterpop.splits import Development, Split
from counterpop.training.methods import METHODS
from counterpop.tuning import Grid

TOLD = ("item_strength", "user_strength", "point", "target", "sentence", "drawn")  # of a tuning, in an audit


@dataclass(frozen=True, eq=False)
class SavedRun:
    """The content of a run folder, except its split (see `load_split`, `load_development`)."""

    path: Path
    run: Run
    manifest: Mapping[str, Any]
    adjustment: Adjustment | None = None
    """The final model's, if the run has been tuned."""
    grid: Grid | None = None

    def trained_on(self, known: Development, on: On = "test") -> Interactions:
        """The interactions that the model of `recommender` was trained on."""
        return known.refit_train() if self.run.refit is not None and on == "test" else known.train

    def recommender(self, known: Development, on: On = "test") -> Recommender:
        """The model to use on a part, at its tuned strengths; at strengths 0, with a warning, before it is tuned.

        For test and serving this is the final model, which leaves out all that users are known to have touched: train,
        validation and the ordinary part, with or without a refit. For validation it is the model that was trained
        without validation, which leaves out train items.
        """
        run, tuning = self.run, self.manifest["tuning"] or {}
        trial = self.recommender(known, "valid") if run.refit is not None and on == "test" else None
        if not tuning and run.model.dials is not None and trial is None:
            text = f"{self.path} has not been tuned, so its strengths are 0; run `counterpop tune` first"
            warnings.warn(CounterpopWarning(text), stacklevel=2)
        model = run.final if on == "test" else run.model
        adjustment = self.adjustment
        if adjustment is None or model is not run.final:
            by = tuning.get("item_direction"), tuning.get("user_direction")
            directions = find_directions(model, self.trained_on(known, on), *by)
            strengths = tuning.get("item_strength", 0.0), tuning.get("user_strength", 0.0)
            adjustment = Adjustment(directions.item, directions.user, *strengths, lean=tuning.get("lean", 0.0))
        return Recommender(
            **vars(adjustment),
            embeddings=model.embeddings,
            seen=known.refit_train() if on == "test" else known.train,
            refit=trial is not None,
            trial=trial,
        )


def load(path: str | Path) -> Recommender:
    """The final model of a run folder at its tuned strengths; lists leave out train and validation items."""
    return load_run(path).recommender(load_development(path))


def audit_run(path: str | Path, k: int = 20, about: LabelSources | None = None) -> Subject:
    """The audits of a run's final model "as trained" and, unless its strengths are 0, "adjusted".

    Lists are for all users of the part that the model was trained on, in which popularity is counted. They leave out
    what `recommend` leaves out.
    """
    saved, split = load_run(path), load_split(path)
    model = saved.recommender(split.development)
    models = {"as trained": model.with_strengths(0.0, 0.0)}
    if model.item_strength or model.user_strength or model.lean:
        models["adjusted"] = model
    log = saved.trained_on(split.development)
    more = {"held": split.test, "ledger": saved.run.ledger, **(about or LabelSources()).read(log)}
    audits = {name: audit_model(one, log, k, **more) for name, one in models.items()}
    strengths = {"item_strength": model.item_strength, "user_strength": model.user_strength}
    tuning = saved.manifest["tuning"] or {}
    facts = {"run": str(path), **strengths, "tuning": {name: tuning[name] for name in TOLD if name in tuning}}
    return Subject(audits, [*models][-1:], log, {"run": [str(path)]}, facts, models, "as trained")


def save_run(run: Run, path: str | Path, split: str | Path | Split) -> None:
    """Writes a run folder with its split inside, linked instead of copied if the file system allows it."""
    linked: dict[str, str] = {}
    source = None if isinstance(split, Split) else split_folder(Path(split))
    if source is not None:
        files = read_manifest(source, "split", without=TEST)["files"]
        linked = {f"split/{name}": checksum for name, checksum in files.items()}
    with replaced(Path(path), "run", {"settings": run.settings, "tuning": None}, linked) as folder:
        if isinstance(split, Split):
            save_split(split, folder / "split")
        elif source is not None:
            link_files(source, folder / "split", [MANIFEST, *files])
        for name, model in (("model", run.model), ("refit", run.refit)):
            if model is not None:
                _write_model(model, folder / f"{name}.safetensors")
        pl.DataFrame(list(run.history), infer_schema_length=None).write_parquet(folder / "history.parquet")


def load_run(path: str | Path) -> SavedRun:
    """The run in a folder, with its adjustment and grid if it has been tuned."""
    folder = Path(path)
    manifest = read_manifest(folder, "run", without=TEST)
    users, items = (read_ids(folder / "split", name) for name in ("users", "items"))
    method = manifest["settings"].get("method") if manifest["format"] == 1 else None
    models = {
        name: _read_model(folder / f"{name}.safetensors", users, items, method)
        for name in ("model", "refit")
        if f"{name}.safetensors" in manifest["files"]
    }
    if "model" not in models:
        raise ArtifactError(f"{folder} has no model; train it again")
    history = pl.read_parquet(folder / "history.parquet").to_dicts()
    measured = tuple({key: value for key, value in entry.items() if value is not None} for entry in history)
    run = Run(models["model"], models.get("refit"), manifest["settings"], measured)
    if not manifest["tuning"]:
        return SavedRun(folder, run, manifest)
    adjustment = read_adjustment(folder, manifest["tuning"])
    return SavedRun(folder, run, manifest, adjustment, _read_grid(folder / "grid.parquet", manifest["tuning"]))


def save_tuning(path: str | Path, adjustment: Adjustment, grid: Grid, chosen: Mapping[str, Any]) -> None:
    """Writes an adjustment and the grid it was chosen from into a run folder; `chosen` records how."""
    folder = Path(path)
    manifest = read_manifest(folder, "run", without=TEST)
    tuning = strengths_of(adjustment) | {"users": grid.users, "looked_at": grid.looked_at} | dict(chosen)
    kept = {n: c for n, c in manifest["files"].items() if n not in ("grid.parquet", "adjustment.safetensors")}
    with replaced(folder, "run", {"settings": manifest["settings"], "tuning": tuning}, kept) as new:
        link_files(folder, new, kept)
        a, b = np.meshgrid(grid.item_strengths, grid.user_strengths, indexing="ij")
        columns = {"item_strength": a, "user_strength": b, **grid.values}
        table = pl.DataFrame({name: value.ravel() for name, value in columns.items()})
        table.write_parquet(new / "grid.parquet")
        write_directions(adjustment, new)


def _read_grid(path: Path, tuning: Mapping[str, Any]) -> Grid:
    table = pl.read_parquet(path)
    a, b = (tuple(table[name].unique(maintain_order=True).to_list()) for name in ("item_strength", "user_strength"))
    values = {name: table[name].to_numpy().reshape(len(a), len(b)) for name in table.columns[2:]}
    return Grid(a, b, values, tuning["users"], tuning["looked_at"])


def _write_model(model: Model, path: Path) -> None:
    tensors = {"user_vectors": model.embeddings.user_vectors, "item_vectors": model.embeddings.item_vectors}
    if ledger := model.ledger:
        counts = np.array([ledger.every, ledger.triples, ledger.scale])
        tensors |= {"ledger_items": ledger.items, "ledger_users": ledger.users, "ledger_counts": counts}
    if dials := model.dials:
        tensors |= {"dial_items": np.array(dials.item_strengths), "dial_users": np.array(dials.user_strengths)}
        if dials.user_direction is not None:
            tensors |= {"dial": dials.user_direction}
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path)


def _read_model(path: Path, users: Ids, items: Ids, method: str | None) -> Model:
    """The model in a file; `method` is given for format 1, where a file may lack the grids of its dials."""
    tensors = read_tensors(path)
    vectors = Embeddings(tensors["user_vectors"], tensors["item_vectors"], users, items)
    ledger = dials = None
    if "ledger_items" in tensors:
        every, triples, scale = tensors["ledger_counts"].tolist()
        ledger = Ledger(tensors["ledger_items"], tensors["ledger_users"], int(every), int(triples), scale)
    if "dial_items" in tensors:
        of_items, of_users = (tuple(tensors[name].tolist()) for name in ("dial_items", "dial_users"))
        dials = Dials(of_items, of_users, tensors.get("dial"))
    elif method is not None:
        dials = _dials_of(method, tensors.get("dial"))
    return Model(vectors, ledger, dials)


def _dials_of(method: str, direction: FloatArray | None) -> Dials | None:
    """The dials of a run in format 1 that was saved without their grids: those of its method, if it is built in."""
    dials = next((known.dials for known in METHODS if known.name == method), None)
    return dials and replace(dials, user_direction=direction)
