"""`debias` and `check_drift` on files, as the command line runs them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

from counterpop.adapters.sources import Sources
from counterpop.adjustment import adjust
from counterpop.artifacts import claimed, find_sources, load_with_manifest, save_adjustment
from counterpop.debiasing import Debiasing, DebiasOptions, DebiasSettings, debias
from counterpop.drift import Drift, check_drift
from counterpop.errors import ArtifactError, InputError
from counterpop.outputs import place_of
from counterpop.readers import LabelSources, read_interactions
from counterpop.reporting import debiasing_page


def debias_files(
    sources: Sources,
    interactions: str | Path,
    out: str | Path,
    *,
    holdout: str | Path | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
    about: LabelSources | None = None,
    write_vectors: bool = False,
    copy_vectors: bool = False,
    force: bool = True,
    **settings: Unpack[DebiasOptions],
) -> Debiasing:
    """Runs `debias` on files and writes the adjustment and its report into the folder `out`.

    `columns` are keywords of `read_interactions` for both logs. The folder also records where everything came from, for
    `check_files` and `load`; with `copy_vectors` it holds the vectors themselves. `about` names the items on the
    page.
    """
    chosen = DebiasSettings.of(settings)
    with claimed(out, "adjustment", force):
        chosen.report("reading")
        vectors = sources.read()
        log = read_interactions(interactions, **columns)
        later = read_interactions(holdout, **columns) if holdout else None
        chosen.report("matching vectors and log")
        found = debias(**vectors, interactions=log, holdout=later, **settings)
        chosen.report("writing")
        paths = vars(sources) | {"interactions": interactions, "holdout": holdout}
        origin: dict[str, Any] = {name: str(place_of(path)) for name, path in paths.items() if path}
        origin |= {"columns": dict(columns), "target": found.target, "floor": found.floor, "k": found.k}
        origin |= {"point": chosen.point, "price": chosen.price}
        adjusted = adjust(found.embeddings, found) if write_vectors else None
        labels = about.read(found.seen).get("labels") if about else None
        pages = {"report.html": debiasing_page(found, Path(sources.model or interactions).name, labels)}
        own = {name: getattr(chosen, name) for name in ("seed", "item_direction", "user_direction")}
        save_adjustment(found, out, adjusted, origin | own, pages, copy_vectors=copy_vectors)
    return found


def check_files(
    folder: str | Path,
    interactions: str | Path,
    sources: Sources | None = None,
    *,
    columns: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> Drift:
    """Runs `check_drift` on the adjustment in a folder and a new log.

    Vectors, columns and settings are those it was made with, unless others are given.
    """
    adjustment, manifest = load_with_manifest(folder)
    origin = manifest.get("made_from", {})
    if sources is None:
        try:
            sources = find_sources(Path(folder), manifest, changed=True)
        except (ArtifactError, InputError):
            raise InputError(
                f"checking {folder} takes the vectors it was made from, but they are not there; give --user-vectors "
                "and --item-vectors, or --model"
            ) from None
    names = "target", "point", "price", "floor", "k", "seed", "item_direction", "user_direction"
    settings = {name: origin[name] for name in names if name in origin} | settings
    vectors = sources.read()
    recorded = origin.get("columns") or {side: origin[side] for side in ("user", "item") if side in origin}
    new = read_interactions(interactions, **{**recorded, **columns})
    old, trained_on = origin.get("interactions"), None
    if old and Path(old).exists() and Path(old).resolve() != Path(interactions).resolve():
        trained_on = read_interactions(old, **recorded)
    return check_drift(adjustment, **vectors, interactions=new, trained_on=trained_on, **settings)
