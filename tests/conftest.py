"""Fixtures that many tests share: a simulated world and its split. Builders are in builders.py."""

from __future__ import annotations

from contextlib import suppress

import pytest

from counterpop.splits import Split, split_uniform
from counterpop.worlds import World, make_world

with suppress(ModuleNotFoundError):  # the kernels' environment has no Hypothesis
    from hypothesis import settings

    settings.register_profile("counterpop", deadline=None)  # a busy machine is no failure
    settings.load_profile("counterpop")


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(300, 150, mean_activity=20)


@pytest.fixture(scope="session")
def split(world: World) -> Split:
    return split_uniform(world.log, test=3, valid=3, ordinary=0.05)
