"""Train, validation and test: random, by time, uniform over items, intervened, a mix, or as given.

Every function here is deterministic by `seed` and leaves each pair of the log in exactly one part
(`split_mixed` leaves some out, and counts them). Tuning is handed `Split.development`, which has no way to
the test part.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import BoolArray, Interactions, gini, join, pair_keys

Carve = Literal["auto", "uniform", "intervened", "random", "temporal"]

TRAIN, INTERVENED, VALID, TEST, ORDINARY, LEFT_OUT = range(6)  # the first four as in `Interactions.part`
OTHER_PARTS = {"intervened": INTERVENED, "valid": VALID, "ordinary": ORDINARY, "test": TEST, "left_out": LEFT_OUT}
CAP = 95.0  # percentile of the weights 1/popularity over items
FLAT = 0.9  # a test with a Gini below this share of train's was not drawn as the log was
# One random stream for each purpose, shared with no other module: no draw depends on another's.
TEST_STREAM, VALID_STREAM, ORDINARY_STREAM, CUT_STREAM, MIX_STREAM = range(100, 105)


@dataclass(frozen=True, eq=False)
class Development:
    """What training and tuning may see."""

    train: Interactions
    valid: Interactions
    intervened: BoolArray | None = None
    """Per train row: drawn by intervention (DICE's way); None where the split has no such rows."""
    ordinary: Interactions | None = None
    """A second validation part, drawn as the log was (biased); None unless asked for."""

    def refit_train(self) -> Interactions:
        """Train, validation and the ordinary part together: what a refit trains on."""
        return join(*(part for part in (self.train, self.valid, self.ordinary) if part is not None))

    def refit_intervened(self) -> BoolArray | None:
        """Per row of `refit_train`: drawn by intervention, as validation is wherever a part of train is."""
        if self.intervened is None:
            return None
        known = np.concatenate([pair_keys(self.train.rows(self.intervened)), pair_keys(self.valid)])
        return np.isin(pair_keys(self.refit_train()), known)


@dataclass(frozen=True)
class SplitManifest:
    """How a split came about and what it holds; `dataclasses.asdict` of it can be written as JSON."""

    protocol: str
    seed: int
    settings: dict[str, Any]
    carved: str | None
    """How the validation part was carved out of train; None where the protocol or the log gave one."""
    counts: dict[str, int]
    """Pairs of each part; `train` includes `intervened`, `left_out` are in no part."""
    gini: dict[str, float | None]
    """Gini of the item counts of each part over all items of the log; None for an empty part."""
    untrained_items: int
    """Items of validation or test without a train row."""
    untrained_users: int


@dataclass(frozen=True, eq=False)
class Split:
    """The parts of one log; all share its ids."""

    development: Development
    test: Interactions
    manifest: SplitManifest

    @property
    def train(self) -> Interactions:
        return self.development.train

    @property
    def valid(self) -> Interactions:
        return self.development.valid


def split_random(
    log: Interactions, test: float = 0.2, valid: float = 0.1, *, seed: int = 0, ordinary: float = 0.0
) -> Split:
    """A split in which every pair is equally likely to be in each part: as biased as the log itself."""
    part = _part_overall("random", log, test, valid, seed, ordinary)
    return _assemble("random", log, part, seed, {"test": test, "valid": valid}, ordinary)


def split_temporal(
    log: Interactions, test: float = 0.2, valid: float = 0.1, *, seed: int = 0, ordinary: float = 0.0
) -> Split:
    """A split by two points in time: the latest pairs are test, those before them validation.

    Pairs of the same time at a cut are divided at random.
    """
    part = _part_overall("temporal", log, test, valid, seed, ordinary)
    return _assemble("temporal", log, part, seed, {"test": test, "valid": valid}, ordinary)


def split_uniform(
    log: Interactions, test: float = 0.1, valid: float = 0.1, *, seed: int = 0, ordinary: float = 0.0
) -> Split:
    """A split whose test and validation parts hold the same number of pairs of every item (MACR's way).

    An integer is that number. A share (a float below 1) stands for the number that makes the part about
    that share of all pairs: the share of the mean count of an item, rounded, at least 1. The latest pairs
    of an item are taken where the log has time, else random ones. Every item keeps at least one pair in
    train; one with too few gives what it has to spare, to test before validation.
    """
    _check_log(log, ordinary)
    part = np.zeros(len(log), dtype=np.int8)
    numbers = [_number_per_item(log, "test", test), _number_per_item(log, "valid", valid)]
    for number, code, stream in zip(numbers, (TEST, VALID), (TEST_STREAM, VALID_STREAM), strict=True):
        quota = np.minimum(number, _item_counts(log, part == TRAIN) - 1)
        part[draw_by_item(log, quota, _generator(seed, stream), part == TRAIN)] = code
    return _assemble("uniform", log, part, seed, {"test": test, "valid": valid}, ordinary)


def split_intervened(
    log: Interactions,
    test: float = 0.2,
    valid: float = 0.1,
    intervened: float = 0.1,
    *,
    cap: float = CAP,
    seed: int = 0,
    ordinary: float = 0.0,
) -> Split:
    """A split whose test and validation parts are drawn as if items were exposed evenly (DICE's way).

    Of each user's pairs, the share test + valid + intervened is drawn without replacement with weights
    1/popularity, the weights capped at the percentile `cap` of all items' weights, and then cut at random
    into the three. Shares hold within one pair for each user, and on average exactly; a user's last pair
    stays in train.
    """
    _check_log(log, ordinary)
    _check_shares(test=test, valid=valid, intervened=intervened)
    part = np.zeros(len(log), dtype=np.int8)
    shares = {TEST: test, VALID: valid, INTERVENED: intervened}
    _draw_by_user(log, part, shares, _even_weights(log, part == TRAIN, cap), seed, TEST_STREAM)
    settings = {"test": test, "valid": valid, "intervened": intervened, "cap": cap}
    return _assemble("intervened", log, part, seed, settings, ordinary)


def split_mixed(
    log: Interactions,
    proportion: float,
    test: float = 0.2,
    valid: float = 0.1,
    intervened: float = 0.1,
    *,
    cap: float = CAP,
    seed: int = 0,
    ordinary: float = 0.0,
) -> Split:
    """A split whose test part is intervened to the given proportion, from 0 to 1, and else as observed.

    At one seed, train and validation (intervened, as in `split_intervened`) are the same for every
    proportion, and so is the size of test. Two pools of that size are held out, one drawn evenly from each
    user's pairs and one by intervention; what of them is not in the test part is left out altogether.
    """
    _check_log(log, ordinary)
    _check_shares(test=test, test_as_observed=test, valid=valid, intervened=intervened)
    if not 0 <= proportion <= 1:
        raise InputError(f"the proportion of intervened test pairs must be from 0 to 1, got {proportion}")
    part = np.zeros(len(log), dtype=np.int8)
    _draw_by_user(log, part, {LEFT_OUT: test}, np.ones(log.n_items), seed, MIX_STREAM)
    rest = 1 - test  # the observed pool comes first: drawn after the other it would be too popular
    shares = {TEST: test / rest, VALID: valid / rest, INTERVENED: intervened / rest}
    _draw_by_user(log, part, shares, _even_weights(log, part == TRAIN, cap), seed, TEST_STREAM)

    generator = _generator(seed, CUT_STREAM)
    pools = [generator.permutation(np.flatnonzero(part == code)) for code in (TEST, LEFT_OUT)]
    size = min(map(len, pools))
    n_intervened = round(proportion * size)
    part[np.concatenate(pools)] = LEFT_OUT
    part[pools[0][:n_intervened]] = TEST
    part[pools[1][: size - n_intervened]] = TEST
    settings = {"proportion": proportion, "test": test, "valid": valid, "intervened": intervened, "cap": cap}
    return _assemble("mixed", log, part, seed, settings, ordinary)


def split_as_given(
    log: Interactions, *, carve: Carve = "auto", cap: float = CAP, seed: int = 0, ordinary: float = 0.0
) -> Split:
    """The split that the log came with; where it has no validation part, one is carved out of train.

    The carved part is drawn as the test was, or as `carve` says. "auto" finds out: by time where every
    test pair is at least as late as all of train; uniform where at least 95 % of items have the same
    number of test pairs; intervened where the Gini of the test's item counts is below 0.9 of train's; else
    random. A uniform carve takes as many of each item as the test has, but leaves the item at least half
    of its train pairs, and those with one or two give none: it is less flat than the test, and a model
    should be trained again on `Development.refit_train()` once everything is chosen. The other carves hold
    half as many pairs as the test, at most a quarter of train.
    """
    _check_log(log, ordinary)
    if carve not in get_args(Carve):
        raise InputError(f"carve must be one of {', '.join(get_args(Carve))}, got {carve!r}")
    if log.part is None:
        raise InputError(
            "the log has no split column (0 train, 1 train intervened, 2 validation, 3 test); "
            "read it with one or choose another protocol"
        )
    bad = ~np.isin(log.part, (TRAIN, INTERVENED, VALID, TEST))
    if bad.any():
        raise InputError(
            f"the split column must hold 0, 1, 2 or 3, but {bad.sum()} rows do not (first: {log.part[bad][0]})"
        )
    part = log.part.copy()
    carved = None
    if not (part == VALID).any():
        _check_parts(part, TRAIN, TEST)
        carved = _how_test_was_drawn(log, part) if carve == "auto" else carve
        _carve(log, part, carved, cap, seed)
    return _assemble("as-given", log, part, seed, {"carve": carve, "cap": cap}, ordinary, carved)


def _part_overall(
    how: str, log: Interactions, test: float, valid: float, seed: int, ordinary: float
) -> NDArray[np.int8]:
    _check_log(log, ordinary)
    _check_shares(test=test, valid=valid)
    part = np.zeros(len(log), dtype=np.int8)
    for share, code, stream in ((test, TEST, TEST_STREAM), (valid, VALID, VALID_STREAM)):
        number = round(share * len(log))
        part[_draw_overall(log, part == TRAIN, number, how, _generator(seed, stream))] = code
    return part


def _carve(log: Interactions, part: NDArray[np.int8], how: str, cap: float, seed: int) -> None:
    """Marks a validation part among the train rows of `part`, in place."""
    train = part <= INTERVENED
    if how == "uniform":
        have = _item_counts(log, train)
        wanted = _item_counts(log, part == TEST)
        quota = np.where(have > 2, np.minimum(wanted, have // 2), 0)
        part[draw_by_item(log, quota, _generator(seed, VALID_STREAM), train)] = VALID
        return
    number = max(1, min((part == TEST).sum() // 2, train.sum() // 4))
    if how in ("random", "temporal"):
        part[_draw_overall(log, train, number, how, _generator(seed, VALID_STREAM))] = VALID
    else:
        drawn = np.where(train, TRAIN, LEFT_OUT).astype(np.int8)
        weights = _even_weights(log, train, cap)
        _draw_by_user(log, drawn, {VALID: number / train.sum()}, weights, seed, VALID_STREAM)
        part[drawn == VALID] = VALID


def _how_test_was_drawn(log: Interactions, part: NDArray[np.int8]) -> str:
    train, test = part <= INTERVENED, part == TEST
    if log.time is not None and log.time[test].min() >= log.time[train].max() > log.time[train].min():
        return "temporal"
    train_counts, test_counts = _item_counts(log, train), _item_counts(log, test)
    present = test_counts[log.item_counts > 0]
    commonest = np.bincount(present).argmax()
    if commonest > 0 and (present == commonest).mean() >= 0.95:
        return "uniform"
    return "intervened" if gini(test_counts) < FLAT * gini(train_counts) else "random"


def _draw_overall(
    log: Interactions, pool: BoolArray, number: int, how: str, generator: np.random.Generator
) -> NDArray[np.intp]:
    """That many rows of the pool: any, or the latest."""
    rows = generator.permutation(np.flatnonzero(pool))
    if how == "temporal":
        if log.time is None or not np.isfinite(log.time).all():
            raise InputError(
                "a split by time needs a time for every row, but the log "
                f"has {'none' if log.time is None else 'rows without one'}; "
                "name the time column when reading, or split another way"
            )
        rows = rows[np.argsort(-log.time[rows], kind="stable")]
    return rows[:number]


def draw_by_item(
    log: Interactions, quota: NDArray[np.int64], generator: np.random.Generator, pool: BoolArray | None = None
) -> NDArray[np.intp]:
    """`quota[i]` rows of each item i of the pool (all where it has fewer): the latest, or any."""
    rows = generator.permutation(len(log) if pool is None else np.flatnonzero(pool))
    if log.time is not None:
        rows = rows[np.argsort(-log.time[rows], kind="stable")]
    return _first_of_each(rows, log.item_ix, quota)


def _draw_by_user(
    log: Interactions,
    part: NDArray[np.int8],
    shares: Mapping[int, float],
    weights: NDArray[np.float64],
    seed: int,
    stream: int,
) -> None:
    """Moves the given shares of each user's train rows to other parts, in place.

    The rows are drawn together by item weights (I,) and divided among the parts at random. Exponential
    variables divided by the weights, the smallest taken: that is drawing one by one without replacement.
    """
    generator = _generator(seed, stream)
    rows = np.flatnonzero(part == TRAIN)
    have = np.bincount(log.user_ix[rows], minlength=log.n_users)
    # One random offset for each user rounds all running shares: each part is off by less than one row.
    running = np.floor(np.cumsum(list(shares.values()))[:, None] * have + generator.random(log.n_users))
    running = np.minimum(running.astype(np.int64), np.maximum(have - 1, 0))  # (parts, U)
    keys = generator.standard_exponential(len(rows)) / weights[log.item_ix[rows]]
    drawn = _first_of_each(rows[np.argsort(keys)], log.user_ix, running[-1])
    drawn = generator.permutation(drawn)
    for code, last in reversed(list(zip(shares, running, strict=True))):
        part[_first_of_each(drawn, log.user_ix, last)] = code


def _first_of_each(rows: NDArray[np.intp], group: NDArray[np.int32], quota: NDArray[np.int64]) -> NDArray[np.intp]:
    """Of the rows in their order, the first `quota[g]` of each group g."""
    by_group = rows[np.argsort(group[rows], kind="stable")]
    groups = group[by_group]
    counts = np.bincount(groups, minlength=len(quota))
    place = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return by_group[place < quota[groups]]


def _even_weights(log: Interactions, pool: BoolArray, cap: float) -> NDArray[np.float64]:
    """1/popularity (I,), capped at that percentile of the items that have a row in the pool."""
    if not 0 <= cap <= 100:
        raise InputError(f"cap is a percentile and must be from 0 to 100, got {cap}")
    counts = _item_counts(log, pool)
    weights = 1 / np.maximum(counts, 1)
    return np.minimum(weights, np.percentile(weights[counts > 0], cap))


def _item_counts(log: Interactions, rows: BoolArray) -> NDArray[np.int64]:
    return np.bincount(log.item_ix[rows], minlength=log.n_items)


def _number_per_item(log: Interactions, name: str, share: float) -> int:
    if isinstance(share, (int, np.integer)) and share >= 1:
        return int(share)
    if not 0 < share < 1:
        raise InputError(
            f"{name} must be a number of pairs of every item (an integer from 1) or a share "
            f"between 0 and 1, got {share}"
        )
    return max(1, round(share * len(log) / np.count_nonzero(log.item_counts)))


def _check_log(log: Interactions, ordinary: float) -> None:
    if not len(log):
        raise InputError("a log must hold pairs to be split, but this one has none")
    if not 0 <= ordinary < 1:
        raise InputError(f"ordinary is a share of train and must be from 0 to below 1, got {ordinary}")


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise InputError(f"{name} is a share of all pairs and must be from 0 to below 1, got {share}")
    if sum(shares.values()) > 1 - 1e-9:
        raise InputError(
            f"the shares must leave something for train, but {' + '.join(shares)} is {sum(shares.values()):g}"
        )


def _check_parts(part: NDArray[np.int8], *needed: int) -> None:
    present = np.bincount(part, minlength=LEFT_OUT + 1)
    present[TRAIN] += present[INTERVENED]
    names = {TRAIN: "train"} | {code: name for name, code in OTHER_PARTS.items()}
    for code in needed:
        if not present[code]:
            raise InputError(
                f"every part of a split must hold pairs, but {names[code]} got none of the "
                f"log's {len(part)}; give it a larger share or a larger log"
            )


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])


def _assemble(
    protocol: str,
    log: Interactions,
    part: NDArray[np.int8],
    seed: int,
    settings: dict[str, Any],
    ordinary: float,
    carved: str | None = None,
) -> Split:
    """The split with these parts, after the ordinary validation part has been drawn from train."""
    if ordinary > 0:
        _draw_ordinary(log, part, ordinary, _generator(seed, ORDINARY_STREAM))
    _check_parts(part, TRAIN, VALID, TEST, *([ORDINARY] if ordinary > 0 else []))
    masks = {"train": part <= INTERVENED} | {name: part == code for name, code in OTHER_PARTS.items()}
    parts = {name: log.rows(mask) for name, mask in masks.items()}
    train, valid, test = parts["train"], parts["valid"], parts["test"]

    missing = np.flatnonzero((test.item_counts > 0) & (train.item_counts == 0))
    if len(missing):
        warnings.warn(
            CounterpopWarning(
                f"{len(missing)} items of test have no train pair "
                f"(first: {log.item_ids[missing].tolist()[0]!r}); no model trained on this split "
                "can rank them, so they count as misses"
            ),
            stacklevel=3,
        )
    manifest = SplitManifest(
        protocol,
        int(seed),
        settings | {"ordinary": ordinary},
        carved,
        counts={name: len(rows) for name, rows in parts.items()},
        gini={name: gini(rows.item_counts) if len(rows) else None for name, rows in parts.items()},
        untrained_items=_count_missing(train.item_counts, valid.item_counts + test.item_counts),
        untrained_users=_count_missing(train.user_counts, valid.user_counts + test.user_counts),
    )
    intervened = masks["intervened"][masks["train"]] if len(parts["intervened"]) else None
    development = Development(train, valid, intervened, parts["ordinary"] if ordinary > 0 else None)
    return Split(development, test, manifest)


def _draw_ordinary(log: Interactions, part: NDArray[np.int8], share: float, generator: np.random.Generator) -> None:
    """Marks that share of the observed train rows as the ordinary part, in place.

    Never an item's last train row, so that asking for this part makes no item unrankable.
    """
    observed = generator.permutation(np.flatnonzero(part == TRAIN))
    spare = _first_of_each(observed, log.item_ix, _item_counts(log, part <= INTERVENED) - 1)
    part[generator.permutation(spare)[: math.ceil(share * len(observed))]] = ORDINARY


def _count_missing(trained: NDArray[np.int64], asked: NDArray[np.int64]) -> int:
    return int(((asked > 0) & (trained == 0)).sum())
