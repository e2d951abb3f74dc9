"""A training that is stopped again and again ends with the same bits as one that is left alone."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterpop as cp
from counterpop.training import Interrupted

QUICK = {"dim": 8, "epochs": 6, "check_every": 2, "threads": 2}
CASES: list[dict[str, Any]] = [
    {"epochs": 60, "check_every": 3, "patience": 3},  # with a race, and an early stop
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


def without_seconds(run: cp.Run) -> list[dict[str, float]]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in run.history]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_stopped_training_ends_with_the_same_bits(split: cp.Split, tmp_path: Path, case: dict[str, Any]) -> None:
    settings = QUICK | case
    whole = cp.train(split, **settings)
    for stops in itertools.count():
        asked = itertools.count()
        # more each time, so that it ends; a short training of a race starts again
        patient = stops + (settings["epochs"] + 5 if settings["epochs"] > 20 else 3)
        more = {"checkpoint": tmp_path / "x", "resume": True, "should_stop": lambda: next(asked) >= patient}  # noqa: B023
        try:
            run = cp.train(split, **settings, **more)
            break
        except Interrupted as interrupted:
            assert "--resume" in str(interrupted)
            if interrupted.run is not None:
                assert interrupted.run.settings["interrupted"] >= interrupted.run.settings["chosen_epochs"]
    assert stops > 1
    assert run.settings == whole.settings and without_seconds(run) == without_seconds(whole)
    for first, second in ((run.model, whole.model), (run.refit, whole.refit)):
        assert first is not None and second is not None
        one, other = first.tensors(), second.tensors()
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_checkpoint_of_another_training_or_a_damaged_one_is_refused(split: cp.Split, tmp_path: Path) -> None:
    path, settings = tmp_path / "x", QUICK | {"loss": "bpr", "negative_power": 0.0}
    with pytest.raises(Interrupted):
        cp.train(split, **settings, checkpoint=path, should_stop=lambda: True)
    for other in ({"seed": 1}, {"dim": 9}, {"refit": False}):
        with pytest.raises(cp.InputError, match="belongs to a training on other data, with other settings"):
            cp.train(split, **(settings | other), checkpoint=path, resume=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(cp.InputError, match="was changed after it was written; delete it"):
        cp.train(split, **settings, checkpoint=path, resume=True)
    path.write_bytes(content[:100])
    with pytest.raises(cp.InputError, match=r"cannot be read .*delete it"):
        cp.train(split, **settings, checkpoint=path, resume=True)
