"""The paper's four data sets: each as a split, and where to get them."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import counterpop as cp
from counterpop.paper.published import DATASETS

TITLES = {"ml10m": "ML-10M", "netflix": "Netflix", "adressa": "Adressa", "gowalla": "Gowalla"}
THIN_STREAM = 700  # of the seed
INTERVENED = (0.04, 0.03, 0.03)  # shares of three parts drawn by intervention, together a tenth

HOW_TO_GET = """\
`counterpop paper` looks in --data DIR for each data set under its name, in one of two forms:

  DIR/NAME.npz   arrays user, item (whole numbers from 0) and split (0 train, 1 train drawn by intervention,
                 2 validation, 3 test): the split of the paper's own authors, as below
  DIR/NAME       a split folder that `counterpop split` wrote: the same protocol, drawn again from the ratings;
                 figures are then close to the published ones, but not comparable digit by digit

NAME is one of ml10m, netflix, adressa, gowalla. Data sets that are not there are shown as missing. The licences
of MovieLens and Netflix allow research and forbid redistribution, so counterpop comes without the data.

ml10m    MovieLens 10M, https://grouplens.org/datasets/movielens/10m/ (ratings.dat); only five-star ratings count.
         The authors' split: the data of DICE, https://github.com/tsinghua-fib-lab/DICE
           sed 's/::/,/g' ratings.dat > ml10m.csv
           counterpop split ml10m.csv --no-header --min-rating 5 \\
               --protocol intervened --test 0.2 --valid 0.1 --out DIR/ml10m
netflix  Netflix Prize data, https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data, as one file of
         lines user,item,rating; the authors' split: the data of DICE, as above (a sample of users and items)
           counterpop split netflix.csv --no-header --min-rating 5 \\
               --protocol intervened --test 0.2 --valid 0.1 --out DIR/netflix
adressa  Adressa news reading, https://reclab.idi.ntnu.no/dataset/, as lines user,item
         The authors' split: the data of MACR, https://github.com/weitianxin/MACR
           counterpop split adressa.csv --no-header --protocol uniform --test 4 --valid 4 --out DIR/adressa
gowalla  Gowalla check-ins, https://snap.stanford.edu/data/loc-gowalla.html, users and items with at least ten
         The authors' split: the data of MACR, as above
           counterpop split gowalla.csv --no-header --protocol uniform --test 5 --valid 5 --out DIR/gowalla

`--protocol intervened` is DICE's: pairs are drawn as if every item had been shown equally often. `--protocol
uniform` is MACR's: the same number of pairs for every item. If a split has no validation part (the authors'
Adressa and Gowalla), one is carved out of train in the way the test part was drawn. Everything is chosen on it,
and the model is trained again on all of train before test is measured once.
"""


def find_dataset(folder: Path, name: str) -> Path | None:
    """The path of a data set: its npz file, or a split folder of its name; None if there is neither."""
    for path in (folder / f"{name}.npz", folder / name):
        if path.is_file() or (path / "manifest.json").is_file():
            return path
    return None


def find_datasets(folder: Path) -> dict[str, Path]:
    """All data sets of a folder by name; raises InputError if there are none, and says how to get them."""
    found = {name: path for name in DATASETS if (path := find_dataset(folder, name))}
    if not found:
        raise cp.InputError(
            f"{folder} must hold at least one of {', '.join(f'{name}.npz' for name in DATASETS)}, but it has none; "
            "`counterpop paper --how-to-get-data` says where to get them"
        )
    return found


def checksum(path: Path) -> str:
    """The checksum of a data set: of its file, or of the files that a split folder lists."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    manifest = json.loads((path / "manifest.json").read_text())
    return hashlib.sha256(json.dumps(manifest.get("files"), sort_keys=True).encode()).hexdigest()


def load_dataset(path: Path) -> cp.Split:
    """A data set as it is split; items without a train pair are counted in the split's manifest."""
    if path.is_dir():
        return cp.load_split(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterpopWarning)  # table2 names the number
        return cp.split_as_given(cp.read_interactions(path), ordinary=0.0)  # published figures use all of train


def thin(split: cp.Split, users: int, seed: int = 0) -> cp.Split:
    """The split with only this many users, drawn at random; smoke runs use it."""
    known = split.development
    if users >= known.train.n_users:
        return split
    draw = np.random.default_rng([seed, THIN_STREAM])
    kept = np.zeros(known.train.n_users, dtype=bool)
    kept[draw.choice(known.train.n_users, users, replace=False)] = True

    def keep(log: cp.Interactions) -> cp.Interactions:
        return log.rows(kept[log.user_ix])

    intervened = None if known.intervened is None else known.intervened[kept[known.train.user_ix]]
    ordinary = None if known.ordinary is None else keep(known.ordinary)
    few = cp.Development(keep(known.train), keep(known.valid), intervened, ordinary, known.drawn)
    return replace(split, development=few, test=keep(split.test))


def draw_intervened(known: cp.Development, seed: int = 0) -> cp.Development:
    """The same with a tenth of train marked as drawn by intervention, for data that come without such a part.

    Our choice, because the paper does not say how CausE was trained on Adressa and Gowalla: the tenth is drawn as DICE
    draws its parts, from each user's pairs with weights 1/popularity. Nothing leaves train.
    """
    drawn = cp.split_intervened(known.train, *INTERVENED, ordinary=0.0, seed=seed).development
    assert drawn.intervened is not None
    left = _keys(drawn.train.rows(~drawn.intervened))
    return replace(known, intervened=~np.isin(_keys(known.train), left))


def _keys(log: cp.Interactions) -> np.ndarray:
    return log.user_ix.astype(np.int64) * log.n_items + log.item_ix


def everybody(split: cp.Split) -> int:
    """How many users have a pair in any part."""
    return int(np.sum((split.development.refit_train().user_counts > 0) | (split.test.user_counts > 0)))


def observed(split: cp.Split) -> cp.Interactions:
    """Train as it was observed: without rows drawn by intervention, with those carved out for validation."""
    known = split.development
    if split.manifest.carved is not None:
        return known.refit_train()
    return known.train if known.intervened is None else known.train.rows(~known.intervened)


def whole(split: cp.Split) -> cp.Interactions:
    """All pairs of a split as one log again."""
    return cp.join(split.development.refit_train(), split.test)
