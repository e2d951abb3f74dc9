"""Any folder with a model: loaded, measured and audited in the same way, whatever made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from counterpop.artifacts.debiasings import read_debiasing
from counterpop.artifacts.documents import Subject
from counterpop.artifacts.folder import Contents, read_folder
from counterpop.artifacts.runs import read_run
from counterpop.artifacts.saved import Saved
from counterpop.artifacts.splits import read_split
from counterpop.auditing import audit_model
from counterpop.debiasing import in_order_of, split_later
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.readers import LabelSources, read_interactions
from counterpop.recommender import Recommender
from counterpop.splits import LATER, Split

READERS: Mapping[str, Callable[[Path, Contents], Saved]] = {"run": read_run, "adjustment": read_debiasing}
TOLD = ("item_strength", "user_strength", "point", "target", "sentence", "drawn")  # of a tuning, in an audit


def load_saved(path: str | Path, mapped: bool = False) -> Saved:
    """The content of a folder that `train` or `debias` wrote.

    If `mapped`, vectors stay in their files and processes that load the same folder share them: never write to one of
    these files (commands replace them, which is safe).
    """
    return read_folder(path, tuple(READERS), lambda contents: _read(path, contents), mapped)


def load(path: str | Path) -> Recommender:
    """The final model in a folder of `train` or `debias`, at its tuned strengths.

    Lists leave out what users are known to have touched: train and validation items of a run, the items of the log that
    `debias` was given. What `debias` wrote is loaded as the `Debiasing` it was, with its measured effect.
    """
    return load_saved(path).recommender()


def load_tested(
    path: str | Path,
    holdout: Interactions | str | Path | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
    *,
    seed: int = 0,
) -> tuple[Saved, Split]:
    """The content of a folder, and its split with the test part.

    `holdout` is a later log, or its file, to measure a result of `debias` on: an even draw of its pairs as test, all of
    them as ordinary. Users on whom strengths were tuned are left out, and so are ids without a vector, with a warning.
    `columns` are keywords of `read_interactions`; by default the file is read as the log of `debias` was. Without a
    holdout, the test part is what `debias` held out of the one it was given; empty if it was given none.
    """
    saved, split = read_folder(path, tuple(READERS), lambda contents: (_read(path, contents), read_split(contents)))
    if holdout is None:
        return saved, split
    if split.manifest.protocol != LATER:
        raise InputError(f"{path} has a test part of its own; a holdout (--holdout) is only for what debias wrote")
    if not isinstance(holdout, Interactions):
        recorded = saved.manifest["made_from"].get("columns", {})
        holdout = read_interactions(holdout, **{**recorded, **columns})
    later = in_order_of(holdout, saved.recommender().embeddings, drop_unknown=True)
    return saved, split_later(split.train, later, split.valid, seed)


def _read(path: str | Path, contents: Contents) -> Saved:
    return READERS[contents.manifest["kind"]](Path(path), contents)


def audit_saved(path: str | Path, k: int = 20, about: LabelSources | None = None, **how: Any) -> Subject:
    """The audits of a folder's final model "as trained" and, unless its strengths are 0, "adjusted".

    Lists are for users of the part that the model was trained on, in which popularity is counted. They leave out what
    `recommend` leaves out. `how` is passed on to `audit_model`: `users` and `seed`.
    """
    saved, split = load_tested(path)
    model, log = saved.recommender(), saved.trained_on()
    models = {"as trained": model.with_strengths(0.0, 0.0)}
    if model.item_strength or model.user_strength or model.lean:
        models["adjusted"] = model
    held = split.test if len(split.test) else None
    more = {"held": held, "ledger": saved.ledger, **(about or LabelSources()).read(log)}
    audits = {name: audit_model(one, log, k, **more, **how) for name, one in models.items()}
    strengths = {"item_strength": model.item_strength, "user_strength": model.user_strength}
    tuning = saved.tuning or {}
    facts: dict[str, Any] = {"run": str(path), **strengths, "tuning": {n: tuning[n] for n in TOLD if n in tuning}}
    return Subject(audits, [*models][-1:], log, {"run": [str(path)]}, facts, models, "as trained")
