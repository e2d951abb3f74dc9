"""A split whose parts come as separate logs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Ids, IntArray, Interactions, as_ids, places
from counterpop.splits.drawing import TEST, TRAIN, VALID, Carve
from counterpop.splits.protocols import CAP, ORDINARY_SHARE, split_as_given
from counterpop.splits.values import Split

CODES = {"train": TRAIN, "valid": VALID, "test": TEST}


def split_from_logs(
    train: Interactions,
    test: Interactions,
    valid: Interactions | None = None,
    *,
    drop_repeated: bool = False,
    carve: Carve = "auto",
    cap: float = CAP,
    seed: int = 0,
    ordinary: float = ORDINARY_SHARE,
) -> Split:
    """The split whose parts are separate logs; without `valid`, a validation part is carved out of train.

    `carve`, `cap`, `seed` and `ordinary` are those of `split_as_given`. Validation and test may hold a few ids that
    train lacks, which a `CounterpopWarning` reports, but not only such ids. A pair in two parts is an error;
    `drop_repeated` keeps it only in the earlier one (train before validation before test). Times are kept if all logs
    have them, and the logs' own split columns are ignored.

    >>> import polars as pl
    >>> from counterpop.readers import read_interactions
    >>> train = read_interactions(pl.DataFrame({"user": [1, 1, 2, 2, 3], "item": ["a", "b", "a", "c", "b"]}))
    >>> test = read_interactions(pl.DataFrame({"user": [1, 2], "item": ["c", "b"]}))
    >>> split = split_from_logs(train, test, carve="random")
    >>> [len(part) for part in (split.train, split.valid, split.test)]
    [4, 1, 2]
    """
    logs = {name: log for name, log in (("train", train), ("valid", valid), ("test", test)) if log is not None}
    user_ids, users = _unite({name: (log.user_ids, log.user_ix) for name, log in logs.items()}, "user")
    item_ids, items = _unite({name: (log.item_ids, log.item_ix) for name, log in logs.items()}, "item")
    part = np.repeat(np.array([CODES[name] for name in logs], np.int8), [len(log) for log in logs.values()])
    times = [log.time for log in logs.values() if log.time is not None]
    order = np.lexsort((part, items, users))
    keys = users[order].astype(np.int64) * len(item_ids) + items[order]
    repeated = order[np.diff(keys, prepend=-1) == 0]
    if len(repeated) and not drop_repeated:
        user, item = user_ids[users[repeated]].tolist()[0], item_ids[items[repeated]].tolist()[0]
        raise InputError(
            f"no pair may be in two parts, but {len(repeated)} pairs of validation or test are in an earlier part too "
            f"(first: user {user!r}, item {item!r}); remove them, or pass drop_repeated=True (--drop-repeated) to keep "
            "them only in the earlier part"
        )
    order = order[np.diff(keys, prepend=-1) > 0]
    time = np.concatenate(times)[order] if len(times) == len(logs) else None
    whole = Interactions(users[order], items[order], user_ids, item_ids, time, part[order])
    return split_as_given(whole, carve=carve, cap=cap, seed=seed, ordinary=ordinary)


def _unite(sides: Mapping[str, tuple[Ids, IntArray]], what: str) -> tuple[Ids, IntArray]:
    """The ids of all parts together, and the position of each row's id among them, part after part."""
    text = [ids for ids, _ in sides.values() if ids.dtype == object]
    known = np.unique(np.concatenate([as_ids(ids, text[0], what) if text else ids for ids, _ in sides.values()]))
    rows = {name: places(ids, known, what)[0].astype(np.int32)[ix] for name, (ids, ix) in sides.items()}
    for name in ("valid", "test"):
        here = np.unique(rows.get(name, rows["train"]))
        missing = known[np.setdiff1d(here, rows["train"])].tolist()
        if len(missing) == len(here) > 0:
            raise InputError(
                f"{name} and train must share {what}s, but none of the {len(here)} {what}s of {name} is in train "
                f"(first: {missing[0]!r}); check that both use the same ids"
            )
        if missing and (what, name) != ("item", "test"):  # which every split reports
            note = f"{len(missing)} {what}s of {name} are not in train (first: {missing[0]!r})"
            warnings.warn(CounterpopWarning(f"{note}; no model trained on this split knows them"), stacklevel=3)
    return known, np.concatenate(list(rows.values()))
