"""A training that is stopped again and again ends with the same bits as one that is left alone."""

from __future__ import annotations

import errno
import itertools
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterpop as cp
from counterpop.errors import ArtifactError, CounterpopWarning
from counterpop.training import Interrupted, checkpoints, fitting, racing
from counterpop.training.backbones.mf import MF
from training_cases import train_in_pieces

QUICK = {"dim": 8, "epochs": 6, "check_every": 2, "threads": 2}
CASES: list[dict[str, Any]] = [
    {"epochs": 30, "check_every": 3, "patience": 3},  # with a race, and an early stop
    {"method": "macr"},
    {"method": "dice"},
    {"method": "cause"},
    {"backbone": "lightgcn", "edge_dropout": 0.2, "method": "macr"},
    {"loss": "softmax"},
    {"ensemble": 2, "loss": "bpr"},
    {"engine": "torch", "backbone": "lightgcn", "edge_dropout": 0.2, "epochs": 4},
    {"engine": "torch", "loss": "bce", "epochs": 4},
]


@pytest.fixture(scope="module")
def split() -> cp.Split:
    return cp.split_intervened(cp.make_world(200, 90, seed=1).log, seed=1)


def with_a_new_item(log: cp.Interactions) -> cp.Interactions:
    return replace(log, item_ids=np.append(log.item_ids, log.item_ids[-1:] + 1))


def without_seconds(run: cp.Run) -> list[dict[str, float]]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in run.history]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_stopped_training_ends_with_the_same_bits(split: cp.Split, tmp_path: Path, case: dict[str, Any]) -> None:
    settings = QUICK | case
    whole = cp.train(split, **settings)
    run, stops = train_in_pieces(split, tmp_path / "x", 2, **settings)
    assert len(stops) > 1
    for interrupted in stops:
        assert "--resume" in str(interrupted)
        if interrupted.run is not None:
            assert interrupted.run.settings["interrupted"] >= interrupted.run.settings["chosen_epochs"]
    assert len({entry["epoch"] for entry in run.history}) == len(run.history)
    assert run.settings == whole.settings and without_seconds(run) == without_seconds(whole)
    for first, second in ((run.model, whole.model), (run.refit, whole.refit)):
        assert first is not None and second is not None
        one, other = first.tensors(), second.tensors()
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_stopped_race_goes_on_to_the_same_epochs_and_width(
    split: cp.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the trials of twice the epochs and twice the width, which a named number of epochs leaves out."""
    monkeypatch.setattr(fitting, "RACE_TRIPLES", 1.0)
    for name, value in {"epochs": 40, "dim": 4}.items():
        monkeypatch.setitem(MF.defaults, name, value)  # type: ignore[arg-type]
    settings = {"loss": "bpr", "check_every": 2, "patience": 2, "threads": 1, "refit": False}
    whole = cp.train(split, **settings)
    run, stops = train_in_pieces(split, tmp_path / "x", 3, **settings)
    *_, longer, wider = run.settings["race"]["tried"]
    assert longer["round"] == wider["round"] == 2 and (longer["dim"], wider["dim"]) == (4, 8)
    assert len(stops) > 10 and run.settings == whole.settings
    assert np.array_equal(run.embeddings.item_vectors, whole.embeddings.item_vectors)


def test_a_checkpoint_of_another_training_or_a_damaged_one_is_refused(split: cp.Split, tmp_path: Path) -> None:
    path, settings = tmp_path / "x", QUICK | {"loss": "bpr", "negative_power": 0.0}
    with pytest.raises(Interrupted):
        cp.train(split, **settings, checkpoint=path, should_stop=lambda: True)
    for other in ({"seed": 1}, {"dim": 9}, {"refit": False}):
        with pytest.raises(ArtifactError, match="belongs to a training on other data, with other settings"):
            cp.train(split, **(settings | other), checkpoint=path, resume=True)
    few = {name: value for name, value in settings.items() if name not in ("dim", "negative_power")}
    with pytest.raises(Interrupted):
        cp.train(split, **few, checkpoint=tmp_path / "y", should_stop=lambda: True)
    with pytest.raises(ArtifactError, match="belongs to a training on other data, with other settings"):
        cp.train(split, **few, dim=cp.Settings().dim, checkpoint=tmp_path / "y", resume=True)  # the usual, but named
    known = split.development
    wider = replace(known, **{name: with_a_new_item(getattr(known, name)) for name in ("train", "valid", "ordinary")})
    heavier = replace(known, valid=replace(known.valid, weight=np.arange(1.0, len(known.valid) + 1)))
    for changed in (wider, heavier):
        with pytest.raises(ArtifactError, match="belongs to a training on other data"):
            cp.train(changed, **settings, checkpoint=path, resume=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="was changed after it was written; delete it"):
        cp.train(split, **settings, checkpoint=path, resume=True)
    path.write_bytes(content[:100])
    with pytest.raises(ArtifactError, match=r"cannot be read .*delete it"):
        cp.train(split, **settings, checkpoint=path, resume=True)


def test_a_width_that_did_not_fit_in_memory_is_not_tried_again(
    split: cp.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may fit now, for instance on a GPU that another process has left; what was trained meanwhile would be lost."""

    def pretend(known: cp.Development, settings: cp.Settings, *others: object) -> list[float]:
        if settings.dim > 128 and not seen:
            raise MemoryError
        return [0.9 if settings.dim > 128 else 0.1, 0.3]

    seen: list[tuple[str, int]] = []
    more: dict[str, Any] = {"loss": "bce", "refit": False, "threads": 1, "check_every": 1, "patience": 2}
    more |= {"checkpoint": tmp_path / "x", "on_progress": lambda one: seen.append((one.stage, one.epoch))}
    monkeypatch.setattr(racing, "try_settings", pretend)
    with pytest.raises(Interrupted):
        cp.train(split, **more, should_stop=lambda: seen[-1:] == [("train", 2)])
    run = cp.train(split, **more, resume=True)
    assert seen[2] == ("train", 3) and run.settings["dim"] == 128


def test_a_member_that_is_kept_counts_even_where_the_checkpoint_is_older(split: cp.Split, tmp_path: Path) -> None:
    path, settings = tmp_path / "x", QUICK | {"loss": "bpr", "negative_power": 0.0, "ensemble": 2, "seed": 3}

    def stop_after(asked: int) -> None:
        times = itertools.count(1)
        with pytest.raises(Interrupted) as caught:
            cp.train(split, **settings, checkpoint=path, resume=True, should_stop=lambda: next(times) >= asked)
        made.append(caught.value.run)

    made: list[cp.Run | None] = []
    stop_after(2)  # in the first member
    older = path.read_bytes()
    stop_after(15)  # in the second
    path.write_bytes(older)  # as if it was killed between the two files
    seen: list[str] = []
    run = cp.train(
        split, **settings, checkpoint=path, resume=True, on_progress=lambda p: seen.append(f"{p.stage} {p.epoch}")
    )
    assert seen[0] == "train 2 of 2 1"
    first, kept = cp.train(split, **(settings | {"ensemble": 1})), made[1]
    assert kept is not None and np.array_equal(kept.embeddings.item_vectors, first.embeddings.item_vectors)
    whole = cp.train(split, **settings)
    assert np.array_equal(run.embeddings.item_vectors, whole.embeddings.item_vectors)
    assert run.settings == whole.settings


def test_a_full_disk_ends_no_training(split: cp.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = QUICK | {"loss": "bpr", "negative_power": 0.0}
    whole = cp.train(split, **settings)

    def fail(path: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(checkpoints, "replacing", fail)
    monkeypatch.setattr(checkpoints, "SHARE", math.inf)  # every look at validation writes
    asked = itertools.count()
    failure = r"x could not be written \(No space left on device\)"
    with pytest.warns(CounterpopWarning, match=f"{failure}; training goes on") as noted:
        run = cp.train(split, **settings, checkpoint=tmp_path / "x")
    assert len(noted) == 1
    assert np.array_equal(run.final.embeddings.item_vectors, whole.final.embeddings.item_vectors)
    with pytest.warns(CounterpopWarning), pytest.raises(Interrupted, match=f"stopped; .*{failure}") as caught:
        cp.train(split, **settings, checkpoint=tmp_path / "x", should_stop=lambda: next(asked) >= 3)
    assert caught.value.run is not None
