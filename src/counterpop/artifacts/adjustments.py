"""Adjustments: two directions and two strengths, in a folder of their own or in that of a tuned run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from counterpop.adjustment import Adjustment, Segments
from counterpop.artifacts.folder import Contents, read_folder
from counterpop.errors import ArtifactError


def load_adjustment(path: str | Path) -> Adjustment:
    """The adjustment of a tuned run folder, or of a folder written by `save_adjustment`, at its tuned strengths."""
    return read_folder(path, ("adjustment", "run"), read_adjustment)


def load_with_manifest(path: str | Path) -> tuple[Adjustment, dict[str, Any]]:
    """The same, and the folder's manifest, which says what it was made from."""
    return read_folder(
        path, ("adjustment", "run"), lambda contents: (read_adjustment(contents), dict(contents.manifest))
    )


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
