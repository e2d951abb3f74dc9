"""`debias` and `check_drift` on files, as the command line runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

from counterpop.adapters.files import read_ids, read_model, read_vectors
from counterpop.adapters.vectors import Vectors
from counterpop.adjustment import adjust
from counterpop.artifacts import claimed, load_with_origin, save_adjustment
from counterpop.debiasing import Debiasing, DebiasOptions, DebiasSettings, debias
from counterpop.drift import Drift, check_drift
from counterpop.errors import InputError
from counterpop.readers import read_interactions
from counterpop.reporting import debiasing_page


@dataclass(frozen=True)
class Sources:
    """The files to read vectors from: `user_vectors` and `item_vectors`, or a `model`; and ids of their rows."""

    user_vectors: str | Path | None = None
    item_vectors: str | Path | None = None
    model: str | Path | None = None
    user_ids: str | Path | None = None
    item_ids: str | Path | None = None

    def __post_init__(self) -> None:
        sides = [self.user_vectors is not None, self.item_vectors is not None]
        if any(sides) == (self.model is not None) or sides[0] != sides[1]:
            raise InputError("give --user-vectors and --item-vectors, or --model")

    def read(self) -> Vectors:
        """The vectors; ids from `user_ids` and `item_ids` take precedence over those in a vector file."""
        user_ids, item_ids = (read_ids(path) if path else None for path in (self.user_ids, self.item_ids))
        if self.model is not None:
            return read_model(self.model, user_ids=user_ids, item_ids=item_ids)
        (users, own_users), (items, own_items) = (read_vectors(str(p)) for p in (self.user_vectors, self.item_vectors))
        return Vectors(
            user_vectors=users,
            item_vectors=items,
            user_ids=own_users if user_ids is None else user_ids,
            item_ids=own_items if item_ids is None else item_ids,
        )


def debias_files(
    sources: Sources,
    interactions: str | Path,
    out: str | Path,
    *,
    holdout: str | Path | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
    write_vectors: bool = False,
    force: bool = True,
    **settings: Unpack[DebiasOptions],
) -> Debiasing:
    """Runs `debias` on files and writes the adjustment and its report into the folder `out`.

    `columns` are keywords of `read_interactions` for both logs. The folder also records where everything came from, for
    `check_files`.
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
        paths = vars(sources) | {"interactions": interactions}
        origin: dict[str, Any] = {name: str(Path(path).resolve()) for name, path in paths.items() if path}
        origin |= {"columns": dict(columns), "target": found.target, "floor": found.floor, "k": found.k}
        origin |= {"point": chosen.point, "price": chosen.price}
        adjusted = adjust(found.embeddings, found) if write_vectors else None
        pages = {"report.html": debiasing_page(found, Path(sources.model or interactions).name)}
        own = {name: getattr(chosen, name) for name in ("seed", "item_direction", "user_direction")}
        save_adjustment(found, out, adjusted, origin | own, pages)
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
    adjustment, origin = load_with_origin(folder)
    if sources is None:
        paths = {field.name: origin.get(field.name) for field in fields(Sources)}
        missing = [path for path in paths.values() if path and not Path(path).exists()]
        if missing or not any(paths.values()):
            raise InputError(
                f"checking {folder} takes the vectors it was made from, but they are not there "
                f"({', '.join(missing) or 'it records none'}); give --user-vectors and --item-vectors, or --model"
            )
        sources = Sources(**paths)
    names = "target", "point", "price", "floor", "k", "seed", "item_direction", "user_direction"
    settings = {name: origin[name] for name in names if name in origin} | settings
    vectors = sources.read()
    recorded = origin.get("columns") or {side: origin[side] for side in ("user", "item") if side in origin}
    new = read_interactions(interactions, **{**recorded, **columns})
    old, trained_on = origin.get("interactions"), None
    if old and Path(old).exists() and Path(old).resolve() != Path(interactions).resolve():
        trained_on = read_interactions(old, **recorded)
    return check_drift(adjustment, **vectors, interactions=new, trained_on=trained_on, **settings)
