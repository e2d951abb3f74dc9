"""Adjustments: two directions and two strengths, in a folder of their own or in that of a tuned run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
from safetensors.numpy import save_file

from counterpop.adjustment import Adjustment, Segments
from counterpop.artifacts.folder import Contents, read_folder, replaced
from counterpop.artifacts.splits import id_column
from counterpop.debiasing import Debiasing
from counterpop.embeddings import Embeddings
from counterpop.encoding import to_json
from counterpop.errors import ArtifactError


def save_adjustment(
    adjustment: Adjustment,
    path: str | Path,
    vectors: Embeddings | None = None,
    made_from: Mapping[str, Any] | None = None,
    pages: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes an adjustment: all that a query needs. `vectors` are written as well, with their ids.

    A result of `debias` also gets its effect (`effect.json`) and its trade-off (`curve.parquet`). `made_from`
    records what it was made from, for `origin_of`. `pages` are further texts by file name.
    """
    content = {"tuning": strengths_of(adjustment), "made_from": dict(made_from or {})}
    with replaced(Path(path), "adjustment", content) as folder:
        write_directions(adjustment, folder)
        directions = {name: getattr(adjustment, name) for name in ("item_direction", "user_direction")}
        # for languages without safetensors
        (folder / "adjustment.json").write_text(to_json(strengths_of(adjustment) | directions) + "\n")
        if isinstance(adjustment, Debiasing):
            (folder / "effect.json").write_text(to_json(adjustment.to_json(), indent=2) + "\n")
            pl.DataFrame(adjustment.curve()).write_parquet(folder / "curve.parquet")
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
        if vectors is not None:
            for name, ids, matrix in (
                ("users", vectors.user_ids, vectors.user_vectors),
                ("items", vectors.item_ids, vectors.item_vectors),
            ):
                pl.DataFrame({"id": id_column(ids), "vector": matrix}).write_parquet(folder / f"{name}.parquet")


def load_adjustment(path: str | Path) -> Adjustment:
    """The adjustment of a tuned run folder, or of a folder written by `save_adjustment`, at its tuned strengths."""
    return read_folder(path, ("adjustment", "run"), read_adjustment)


def load_with_origin(path: str | Path) -> tuple[Adjustment, dict[str, Any]]:
    """The same, and what it was made from, as given to `save_adjustment`; empty if nothing was."""

    def make(contents: Contents) -> tuple[Adjustment, dict[str, Any]]:
        return read_adjustment(contents), dict(contents.manifest.get("made_from", {}))

    return read_folder(path, ("adjustment", "run"), make)


def write_directions(adjustment: Adjustment, folder: Path) -> None:
    directions = {"item_direction": adjustment.item_direction, "user_direction": adjustment.user_direction}
    save_file(directions, folder / "adjustment.safetensors")


def read_adjustment(contents: Contents) -> Adjustment:
    tuning = contents.manifest["tuning"]
    if not tuning:
        raise ArtifactError(f"{contents.folder} has not been tuned yet; run `counterpop tune {contents.folder}`")
    tensors = contents.tensors("adjustment.safetensors")
    strengths = float(tuning["item_strength"]), float(tuning["user_strength"])
    segments = None
    if saved := tuning.get("segments"):
        pairs = tuple((item, user) for item, user in saved["strengths"])
        segments = Segments(saved["by"], tuple(saved["bounds"]), pairs)
    lean = tuning.get("lean", 0.0)  # folders written before it existed have none
    return Adjustment(tensors["item_direction"], tensors["user_direction"], *strengths, segments, lean)


def strengths_of(adjustment: Adjustment) -> dict[str, Any]:
    return {name: getattr(adjustment, name) for name in ("item_strength", "user_strength", "segments", "lean")}
