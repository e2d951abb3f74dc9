"""The protocols: functions from a log to a `Split`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Interactions
from counterpop.splits import drawing
from counterpop.splits.drawing import INTERVENED, LEFT_OUT, ORDINARY, TEST, TRAIN, VALID, Carve, Parts
from counterpop.splits.values import Development, Split, SplitManifest

CAP = 95.0  # percentile of the weights 1/popularity over items
ORDINARY_SHARE = 0.05  # of train, held out as it was observed: what an adjustment costs as traffic is today
OTHER_PARTS = {"intervened": INTERVENED, "valid": VALID, "ordinary": ORDINARY, "test": TEST, "left_out": LEFT_OUT}


def split_random(
    log: Interactions, test: float = 0.2, valid: float = 0.1, *, seed: int = 0, ordinary: float = 0.0
) -> Split:
    """A split in which every pair is equally likely to be in each part: as biased as the log itself."""
    part = _part_overall("random", log, test, valid, seed, ordinary)
    return _assemble("random", log, part, seed, {"test": test, "valid": valid, "ordinary": ordinary})


def split_temporal(
    log: Interactions, test: float = 0.2, valid: float = 0.1, *, seed: int = 0, ordinary: float = 0.0
) -> Split:
    """A split by two points in time: the latest pairs are test, those before them validation.

    Pairs with the same time at a cut are divided at random.
    """
    part = _part_overall("temporal", log, test, valid, seed, ordinary)
    return _assemble("temporal", log, part, seed, {"test": test, "valid": valid, "ordinary": ordinary})


def split_uniform(
    log: Interactions, test: float = 0.1, valid: float = 0.1, *, seed: int = 0, ordinary: float = ORDINARY_SHARE
) -> Split:
    """A split whose test and validation parts hold the same number of pairs of every item (as in MACR).

    `test` and `valid` are that number, or, as a float below 1, the share of all pairs that the part should hold. A
    share becomes the number nearest to that share of an item's mean count, at least 1. The latest pairs of an item are
    taken if the log has time, else random ones. Every item keeps at least one pair in train; an item with too few gives
    what it can spare, to test before validation.
    """
    _check(log, ordinary)
    part = np.zeros(len(log), dtype=np.int8)
    numbers = _number_per_item(log, "test", test), _number_per_item(log, "valid", valid)
    for number, code, stream in zip(numbers, (TEST, VALID), (drawing.TEST_STREAM, drawing.VALID_STREAM), strict=True):
        quota = np.minimum(number, drawing.item_counts(log, part == TRAIN) - 1)
        part[drawing.draw_by_item(log, quota, np.random.default_rng([seed, stream]), part == TRAIN)] = code
    return _assemble("uniform", log, part, seed, {"test": test, "valid": valid, "ordinary": ordinary})


def split_intervened(
    log: Interactions,
    test: float = 0.2,
    valid: float = 0.1,
    intervened: float = 0.1,
    *,
    cap: float = CAP,
    seed: int = 0,
    ordinary: float = ORDINARY_SHARE,
) -> Split:
    """A split whose test and validation parts are drawn as if items were exposed evenly (as in DICE).

    The share test + valid + intervened of each user's pairs is drawn without replacement with weights 1/popularity,
    capped at the percentile `cap` of all items' weights, and then divided at random among the three. Each user's shares
    are off by less than one pair, and exact on average; a user's last pair stays in train.
    """
    _check(log, ordinary, test=test, valid=valid, intervened=intervened)
    part = np.zeros(len(log), dtype=np.int8)
    _intervene(log, part, {TEST: test, VALID: valid, INTERVENED: intervened}, cap, seed)
    settings = {"test": test, "valid": valid, "intervened": intervened, "cap": cap, "ordinary": ordinary}
    return _assemble("intervened", log, part, seed, settings)


def split_mixed(
    log: Interactions,
    proportion: float,
    test: float = 0.2,
    valid: float = 0.1,
    intervened: float = 0.1,
    *,
    cap: float = CAP,
    seed: int = 0,
    ordinary: float = ORDINARY_SHARE,
) -> Split:
    """A split in which the given proportion of the test part, from 0 to 1, is intervened and the rest is as observed.

    At one seed, train and validation (intervened, as in `split_intervened`) and the size of test are the same for every
    proportion. Two pools of the size of test are held out, one drawn evenly from each user's pairs and one by
    intervention; pairs of the pools that are not in the test part are left out of the split.
    """
    _check(log, ordinary, test=test, test_as_observed=test, valid=valid, intervened=intervened)
    if not 0 <= proportion <= 1:
        raise InputError(f"the proportion of intervened test pairs must be from 0 to 1, got {proportion}")
    part = np.zeros(len(log), dtype=np.int8)
    mix = np.random.default_rng([seed, drawing.MIX_STREAM])
    drawing.draw_by_user(log, part, {LEFT_OUT: test}, np.ones(log.n_items), mix)
    rest = 1 - test  # the observed pool comes first: drawn after the other, it would be too popular
    _intervene(log, part, {TEST: test / rest, VALID: valid / rest, INTERVENED: intervened / rest}, cap, seed)

    cut = np.random.default_rng([seed, drawing.CUT_STREAM])
    pools = [cut.permutation(np.flatnonzero(part == code)) for code in (TEST, LEFT_OUT)]
    size = min(map(len, pools))
    n_intervened = round(proportion * size)
    part[np.concatenate(pools)] = LEFT_OUT
    part[pools[0][:n_intervened]] = TEST
    part[pools[1][: size - n_intervened]] = TEST
    settings = {"proportion": proportion, "test": test, "valid": valid, "intervened": intervened, "cap": cap}
    return _assemble("mixed", log, part, seed, settings | {"ordinary": ordinary})


def split_as_given(
    log: Interactions, *, carve: Carve = "auto", cap: float = CAP, seed: int = 0, ordinary: float = ORDINARY_SHARE
) -> Split:
    """The split that the log came with; if it has no validation part, one is carved out of train.

    `carve` names how that part is drawn. "auto" draws it the way the test seems to have been drawn: temporal if every
    test pair is at least as late as all of train; matched if at least 95 % of the items have the same number of test
    pairs, or all of their pairs but one if they have fewer; otherwise intervened or random, whichever gives items about
    as popular (mean log count) as those of the test when as many pairs are drawn again from the whole log. A uniform
    carve takes as many pairs of each item as the test has, but at most half of the item's train pairs, and none of an
    item with one or two. So a model should be trained again on `Development.refit_train()` once everything is chosen.
    The other carves hold half as many pairs as the test, at most a quarter of train.

    For a uniform test, "auto" takes "matched": a uniform carve that resembles the test in two more ways. Its pairs have
    weights (`Interactions.weight`): every item counts as in the test, however few pairs it could give. And the users of
    an item are drawn with weights (number of the user's pairs) ** b, with the b by which the test's users seem to have
    been drawn (`settings["leaning"]` of the manifest; about 0 if activity did not matter). If the log has time, the
    latest pairs of an item are taken instead. `carve="uniform"` does neither.
    """
    _check(log, ordinary)
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
    carved, leaning = None, None
    if not (part == VALID).any():
        _check_sizes(len(log), train=(part <= INTERVENED).sum(), test=(part == TEST).sum())
        carved = drawing.guess_how_test_was_drawn(log, part, cap) if carve == "auto" else carve
        leaning = drawing.carve(log, part, carved, cap, np.random.default_rng([seed, drawing.VALID_STREAM]))
    settings = {"carve": carve, "cap": cap, "ordinary": ordinary} | ({} if leaning is None else {"leaning": leaning})
    return _assemble("as-given", log, part, seed, settings, carved)


PROTOCOLS: Mapping[str, Callable[..., Split]] = {
    "as-given": split_as_given,
    "random": split_random,
    "temporal": split_temporal,
    "uniform": split_uniform,
    "intervened": split_intervened,
    "mixed": split_mixed,
}


def _part_overall(how: str, log: Interactions, test: float, valid: float, seed: int, ordinary: float) -> Parts:
    _check(log, ordinary, test=test, valid=valid)
    part = np.zeros(len(log), dtype=np.int8)
    for share, code, stream in ((test, TEST, drawing.TEST_STREAM), (valid, VALID, drawing.VALID_STREAM)):
        generator = np.random.default_rng([seed, stream])
        part[drawing.draw_overall(log, part == TRAIN, round(share * len(log)), how, generator)] = code
    return part


def _intervene(log: Interactions, part: Parts, shares: Mapping[int, float], cap: float, seed: int) -> None:
    """Moves these shares of each user's train rows to other parts by weights 1/popularity, in place."""
    weights = drawing.even_weights(log, part == TRAIN, cap)
    drawing.draw_by_user(log, part, shares, weights, np.random.default_rng([seed, drawing.TEST_STREAM]))


def _number_per_item(log: Interactions, name: str, share: float) -> int:
    if isinstance(share, (int, np.integer)) and share >= 1:
        return int(share)
    if not 0 < share < 1:
        raise InputError(
            f"{name} must be a number of pairs of every item (an integer of at least 1) or a share between 0 and 1, "
            f"got {share}"
        )
    return max(1, round(share * len(log) / np.count_nonzero(log.item_counts)))


def _check(log: Interactions, ordinary: float, **shares: float) -> None:
    if not len(log):
        raise InputError("a log must hold pairs to be split, but this one has none")
    if not 0 <= ordinary < 1:
        raise InputError(f"ordinary is a share of train and must be at least 0 and below 1, got {ordinary}")
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise InputError(f"{name} is a share of all pairs and must be at least 0 and below 1, got {share}")
    if sum(shares.values()) > 1 - 1e-9:
        raise InputError(
            f"the shares must leave something for train, but {' + '.join(shares)} is {sum(shares.values()):g}"
        )


def _check_sizes(n_pairs: int, **sizes: int) -> None:
    for name, size in sizes.items():
        if not size:
            raise InputError(
                f"every part of a split must hold pairs, but {name} got none of the log's {n_pairs}; give it a larger "
                "share, or use a larger log"
            )


def _assemble(
    protocol: str, log: Interactions, part: Parts, seed: int, settings: dict[str, Any], carved: str | None = None
) -> Split:
    """The split with these parts, after the ordinary validation part has been drawn from train."""
    if settings["ordinary"] > 0:
        generator = np.random.default_rng([seed, drawing.ORDINARY_STREAM])
        drawing.draw_ordinary(log, part, settings["ordinary"], generator)
    parts = {"train": log.rows(part <= INTERVENED)}
    parts |= {name: log.rows(part == code) for name, code in OTHER_PARTS.items()}
    train, valid, test = parts["train"], parts["valid"], parts["test"]
    _check_sizes(len(log), **{name: len(parts[name]) for name in ("train", "valid", "test")})
    missing = np.flatnonzero((test.item_counts > 0) & (train.item_counts == 0))
    if len(missing):
        note = (
            f"{len(missing)} items of test have no train pair (first: {log.item_ids[missing].tolist()[0]!r}); no model "
            "trained on this split can rank them, so they count as misses"
        )
        warnings.warn(CounterpopWarning(note), stacklevel=3)
    manifest = SplitManifest.of(protocol, seed, settings, carved, parts)
    intervened = (part == INTERVENED)[part <= INTERVENED] if len(parts["intervened"]) else None
    observed = parts["ordinary"] if len(parts["ordinary"]) else None
    if carved == "matched":
        share = (np.maximum(test.item_counts, 1) / np.maximum(valid.item_counts, 1))[valid.item_ix]
        valid = replace(valid, weight=(share / share.mean()).astype(np.float32))
    development = Development(train, valid, intervened, observed, manifest.drawn)
    return Split(development, test, manifest)
