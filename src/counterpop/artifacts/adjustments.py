"""Adjustments: two directions and two strengths, in a folder of their own or in that of a tuned run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from safetensors.numpy import save_file

from counterpop.adjustment import Adjustment, Segments
from counterpop.artifacts.folder import read_manifest, read_tensors, replaced
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
) -> None:
    """Writes an adjustment: all that a query needs. `vectors` are written as well, with their ids.

    A result of `debias` also gets its effect (`effect.json`) and its trade-off (`curve.parquet`). `made_from`
    records what it was made from, for `origin_of`.
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
        if vectors is not None:
            for name, ids, matrix in (
                ("users", vectors.user_ids, vectors.user_vectors),
                ("items", vectors.item_ids, vectors.item_vectors),
            ):
                pl.DataFrame({"id": id_column(ids), "vector": matrix}).write_parquet(folder / f"{name}.parquet")


def load_adjustment(path: str | Path) -> Adjustment:
    """The adjustment of a tuned run folder, or of a folder written by `save_adjustment`, at its tuned strengths."""
    folder = Path(path)
    manifest = read_manifest(folder, "adjustment", "run")
    if not manifest["tuning"]:
        raise ArtifactError(f"{folder} has not been tuned yet; run `counterpop tune {folder}`")
    return read_adjustment(folder, manifest["tuning"])


def origin_of(path: str | Path) -> dict[str, Any]:
    """What an adjustment was made from, as given to `save_adjustment`; empty if nothing was."""
    return dict(read_manifest(Path(path), "adjustment", "run").get("made_from", {}))


def write_directions(adjustment: Adjustment, folder: Path) -> None:
    directions = {"item_direction": adjustment.item_direction, "user_direction": adjustment.user_direction}
    save_file(directions, folder / "adjustment.safetensors")


def read_adjustment(folder: Path, tuning: Mapping[str, Any]) -> Adjustment:
    tensors = read_tensors(folder / "adjustment.safetensors")
    strengths = tuning["item_strength"], tuning["user_strength"]
    segments = None
    if saved := tuning.get("segments"):
        pairs = tuple((item, user) for item, user in saved["strengths"])
        segments = Segments(saved["by"], tuple(saved["bounds"]), pairs)
    lean = tuning.get("lean", 0.0)  # folders written before it existed have none
    return Adjustment(tensors["item_direction"], tensors["user_direction"], *strengths, segments, lean)


def strengths_of(adjustment: Adjustment) -> dict[str, Any]:
    return {name: getattr(adjustment, name) for name in ("item_strength", "user_strength", "segments", "lean")}
