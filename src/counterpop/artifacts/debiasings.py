"""What `debias` found, in its folder: the effect and its arrays, the log, and the vectors or where they are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors.numpy import save_file

from counterpop.adapters.sources import Sources
from counterpop.adjustment import Adjustment
from counterpop.artifacts.adjustments import read_adjustment, strengths_of, write_directions
from counterpop.artifacts.folder import MANIFEST, Contents, fingerprint, replaced
from counterpop.artifacts.saved import HeldOut, Saved
from counterpop.artifacts.splits import id_column, read_split, save_split
from counterpop.debiasing import Debiasing, Effect, as_embeddings, hold_out, rebuild
from counterpop.embeddings import Embeddings
from counterpop.encoding import to_json
from counterpop.errors import ArtifactError
from counterpop.evaluation import Measures, On
from counterpop.interactions import Interactions
from counterpop.metrics.resampling import PER_USER
from counterpop.recommender import Recommender
from counterpop.splits import Split
from counterpop.tuning import Grid, Proof

VECTORS = "vectors.safetensors"
SPLIT = f"split/{MANIFEST}"
FILES = tuple(field.name for field in fields(Sources))
_EFFECTS = ("uniform", "ordinary", "by_segment")
_ARRAYS = ("exposure", "users", "weights")
_PLAIN = ("target", "k", "agreement", "sample", "point", "allowed_price", "floor")  # in effect.json as they are


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SavedDebiasing(Saved):
    """The content of a folder that `debias` wrote."""

    found: Debiasing

    def recommender(self, on: On = "test") -> Recommender:
        """What `debias` found: its vectors were not trained on any held-out pair."""
        return self.found

    def trained_on(self, on: On = "test") -> Interactions:
        return self.known.train

    def held_out(self) -> HeldOut:
        """Pairs of the later log; without one, pairs of the log and vectors rebuilt without them, as in `debias`."""
        found = self.found
        if found.agreement is None:
            return [(found, self.known.valid)] + ([(found, self.known.ordinary)] if self.known.ordinary else [])
        trial, _ = rebuild(hold_out(found.seen, None, found.seed), found.embeddings, found.seen, found.k, found.seed)
        return [
            (replace(found, embeddings=part.vectors or found.embeddings, seen=part.seen), part.tuning)
            for part in trial.parts
        ]

    @property
    def settings(self) -> Mapping[str, Any]:
        made_from = self.manifest.get("made_from", {})
        paths = (*FILES, "interactions", "holdout")
        return {name: Path(value).name if name in paths else value for name, value in made_from.items()}

    @property
    def tuning(self) -> Mapping[str, Any]:
        return self.found.to_json() | {"sentence": " ".join([f"{self.found.headline}.", *self.found.sentences])}


def save_adjustment(
    adjustment: Adjustment,
    path: str | Path,
    vectors: Embeddings | None = None,
    made_from: Mapping[str, Any] | None = None,
    pages: Mapping[str, str] = MappingProxyType({}),
    *,
    copy_vectors: bool = False,
) -> None:
    """Writes an adjustment: all that a query needs. `vectors` are written as well, with their ids.

    A result of `debias` is written whole, so that `load` gives it back: its effect (`effect.json` and its arrays), its
    trade-off (`curve.parquet`), the log and what was held out (`split`). Its own vectors are copied with
    `copy_vectors`; otherwise the manifest refers to the files that `made_from` names, relative to the folder and with
    their checksums. `pages` are further texts by file name.
    """
    origin, found = dict(made_from or {}), adjustment if isinstance(adjustment, Debiasing) else None
    content = {"tuning": strengths_of(adjustment), "made_from": origin}
    if found is not None:
        content |= _describe(found, Path(path), {} if copy_vectors else origin)
    with replaced(Path(path), "adjustment", content) as folder:
        write_directions(adjustment, folder)
        directions = {name: getattr(adjustment, name) for name in ("item_direction", "user_direction")}
        # for languages without safetensors
        (folder / "adjustment.json").write_text(to_json(strengths_of(adjustment) | directions) + "\n")
        if found is not None:
            _write(found, folder)
            if copy_vectors:
                own = found.embeddings
                save_file({"user": own.user_vectors, "item": own.item_vectors}, folder / VECTORS)
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
        if vectors is not None:
            for name, ids, matrix in (
                ("users", vectors.user_ids, vectors.user_vectors),
                ("items", vectors.item_ids, vectors.item_vectors),
            ):
                pl.DataFrame({"id": id_column(ids), "vector": matrix}).write_parquet(folder / f"{name}.parquet")


def _describe(found: Debiasing, path: Path, made_from: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says of a result of `debias`, beside its strengths."""
    told = [{"users": g.users, "looked_at": g.looked_at, "weight": g.weight} for g in (found.grid, found.ordinary_grid)]
    files = {name: Path(made_from[name]) for name in FILES if made_from.get(name)}
    return {
        "grids": told,
        "seed": found.seed,
        "vectors": {
            name: {"path": os.path.relpath(file, path.resolve()), "sha256": fingerprint(file)["sha256"]}
            for name, file in files.items()
        },
    }


def _write(found: Debiasing, folder: Path) -> None:
    (folder / "effect.json").write_text(to_json(found.to_json(), indent=2) + "\n")
    pl.DataFrame(found.curve()).write_parquet(folder / "curve.parquet")
    arrays: dict[str, NDArray[Any]] = {}
    for name in _EFFECTS:
        for side in ("plain", "adjusted") if getattr(found, name) else ():
            measures: Measures = getattr(getattr(found, name), side)
            own = {**{array: getattr(measures, array) for array in _ARRAYS}, **measures.per_user}
            own["held"] = np.frombuffer(bytes.fromhex(measures.held), np.uint8)
            arrays |= {f"{name}.{side}.{array}": np.ascontiguousarray(value) for array, value in own.items()}
    save_file(arrays, folder / "effect.safetensors")
    save_split(found.split, folder / "split")


def read_debiasing(path: Path, contents: Contents) -> SavedDebiasing:
    if SPLIT not in contents:
        raise ArtifactError(
            f"{path} holds only directions and strengths: it was not made by debias, or by an older version, so there "
            "is no model to load; run counterpop debias again, or use cp.load_adjustment"
        )
    split, told = read_split(contents), json.loads(contents.read("effect.json"))
    arrays, grids = contents.tensors("effect.safetensors"), _read_grids(contents)
    effects: dict[str, Any] = {name: told[name] and _read_effect(name, told[name], arrays) for name in _EFFECTS}
    found = Debiasing(
        **vars(read_adjustment(contents)),
        **effects,
        **{name: told[name] for name in _PLAIN},
        embeddings=_read_vectors(contents, split),
        seen=split.train,
        grid=grids[0],
        ordinary_grid=grids[1],
        tried=tuple(told["tried"]),
        points={name: Proof(**point) for name, point in told["points"].items()},
        warnings=tuple(told["warnings"]),
        item_counts=split.train.item_counts,
        split=split,
        seed=contents.manifest["seed"],
    )
    return SavedDebiasing(path=path, manifest=contents.manifest, known=split.development, grid=found.grid, found=found)


def _read_effect(name: str, told: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Effect:
    plain, adjusted = (_read_measures(told[side], f"{name}.{side}.", arrays) for side in ("plain", "adjusted"))
    return Effect(plain, adjusted, told["comparison"])


def _read_measures(told: Mapping[str, Any], at: str, arrays: Mapping[str, NDArray[Any]]) -> Measures:
    figures = {name: np.nan if told[name] is None else told[name] for name in (*PER_USER, "coverage", "gini")}
    own: dict[str, Any] = figures | {name: arrays[at + name] for name in _ARRAYS}
    return Measures(
        **own,
        groups=tuple(told["groups"]),
        intervals={name: (low, high) for name, (low, high) in told["intervals"].items()},
        per_user={name: arrays[at + name] for name in PER_USER},
        held=arrays[f"{at}held"].tobytes().hex(),
    )


def _read_grids(contents: Contents) -> list[Grid]:
    """The grids of uniform and of ordinary pairs, from the curve."""
    table = contents.table("curve.parquet")
    a, b = (tuple(table[name].unique(maintain_order=True).to_list()) for name in ("item_strength", "user_strength"))
    grids = []
    for part, told in zip(("uniform_", "ordinary_"), contents.manifest["grids"], strict=True):
        columns = [name for name in table.columns if name.startswith(part)]
        values = {name.removeprefix(part): table[name].to_numpy().reshape(len(a), len(b)) for name in columns}
        grids.append(Grid(a, b, values, **told))
    return grids


def _read_vectors(contents: Contents, split: Split) -> Embeddings:
    """The copied vectors, or those in the files that the manifest refers to, if they are still the same."""
    folder, log = contents.folder, split.train
    if VECTORS in contents:
        tensors = contents.tensors(VECTORS)
        return Embeddings(tensors["user"], tensors["item"], log.user_ids, log.item_ids)
    recorded = contents.manifest["vectors"]
    if not recorded:
        raise ArtifactError(
            f"{folder} does not hold the vectors it was made for, and they came from no file; save it again with "
            "copy_vectors=True"
        )
    return as_embeddings(log=log, **find_sources(folder, contents.manifest).read())


def find_sources(folder: Path, manifest: Mapping[str, Any], *, changed: bool = False) -> Sources:
    """The files of the vectors: relative to the folder, or where they were; `ArtifactError` if they are gone.

    Unless `changed` is allowed, it is also an error if they are not what they were.
    """
    origin, paths = manifest.get("made_from", {}), {}
    for name in FILES:
        one = manifest.get("vectors", {}).get(name)
        places = [*([folder.resolve() / one["path"]] if one else []), *([Path(origin[name])] if name in origin else [])]
        if not places:
            continue
        at = next((place for place in places if place.exists()), None)
        if at is None:
            raise ArtifactError(
                f"{folder} refers to vectors that are not there any more ({os.path.normpath(places[0])}); put the file "
                "back, or run counterpop debias again, with --copy-vectors to keep a copy in the folder"
            )
        if one and not changed and fingerprint(at)["sha256"] != one["sha256"]:
            raise ArtifactError(
                f"{os.path.normpath(at)} was changed after {folder} was made from it; run counterpop debias again, "
                "with --copy-vectors to keep a copy in the folder"
            )
        paths[name] = at
    return Sources(**paths)
