"""A folder with one run for each of several seeds: RUN/seed-0, RUN/seed-1, ..., each an ordinary run folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from counterpop.artifacts.folder import MANIFEST, check_target
from counterpop.artifacts.runs import is_interrupted
from counterpop.encoding import to_json
from counterpop.errors import ArtifactError, InputError
from counterpop.outputs import make_folder, replacing

SEEDS = "seeds.json"


def begin_seeds(path: str | Path, seeds: Sequence[int], force: bool = False, resume: bool = False) -> list[Path]:
    """The folders of the runs to train, after noting their seeds; nothing else is overwritten.

    With `resume`, the folder may hold some of the runs already.
    """
    folder = Path(path)
    if not has_seeds(folder):
        check_target(folder, "set of seeds", force=False)
    elif not (force or resume):
        raise InputError(f"{folder} already holds runs; pass --resume to train the rest, or --force to replace them")
    elif resume and not force and _seeds_of(folder) != list(seeds):
        raise InputError(f"{folder} is for seeds {_seeds_of(folder)}, not {list(seeds)}; repeat that command")
    if force and not resume:  # what was there is no longer part of the set, even if this training is stopped
        for manifest in folder.glob(f"seed-*/{MANIFEST}"):
            shutil.rmtree(manifest.parent)
    make_folder(folder)
    with replacing(folder / SEEDS) as part:
        part.write_text(to_json({"seeds": list(seeds)}) + "\n")
    return [folder / f"seed-{seed}" for seed in seeds]


def has_seeds(path: str | Path) -> bool:
    """Whether a folder is one of several seeds."""
    return (Path(path) / SEEDS).is_file() and not (Path(path) / MANIFEST).exists()


def is_trained(path: Path) -> bool:
    """Whether a folder holds a run that was trained to its end."""
    return (path / MANIFEST).is_file() and not is_interrupted(path)


def seed_folders(path: str | Path) -> list[Path]:
    """The run folders of several seeds, or the folder itself; `ArtifactError` if some seeds are missing."""
    folder = Path(path)
    if not has_seeds(folder):
        return [folder]
    folders = [folder / f"seed-{seed}" for seed in _seeds_of(folder)]
    done = sum(map(is_trained, folders))
    if done < len(folders):
        raise ArtifactError(f"{folder} has {done} of {len(folders)} seeds; repeat its training with --resume")
    return folders


def _seeds_of(folder: Path) -> list[int]:
    try:
        return [int(seed) for seed in json.loads((folder / SEEDS).read_text())["seeds"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{folder / SEEDS} is damaged; train the runs again with --force") from error
