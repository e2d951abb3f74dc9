"""What a backbone is: where vectors come from, its default settings, and how a model of it starts on each engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import BoolArray, IntArray, Interactions
from counterpop.runs import Model, Strengths
from counterpop.splits import Development
from counterpop.training.states import State, capture, restore
from counterpop.tuning import Grid

if TYPE_CHECKING:
    from counterpop.kernels.drawing import Triples
    from counterpop.training.native import Recorded, Together
    from counterpop.training.settings import Settings


class Trainable(Protocol):
    """A model in training."""

    def epoch(self, lr: float) -> float:
        """Goes once through the data at this learning rate; returns the mean loss."""

    def model(self) -> Model:
        """A copy of the model as it is now."""

    def look(self, known: Development, users: IntArray, strengths: tuple[Strengths, Strengths]) -> Grid:
        """Its metrics on the validation part of these users, at every pair of item and user strengths."""

    def state(self) -> State:
        """Copies of everything that the next epochs depend on."""

    def restore(self, state: State) -> None:
        """Goes back to a state of the same model, so that the next epochs are the same to the bit."""


Begin = Callable[["Start"], Trainable]


@dataclass(frozen=True, eq=False)
class Start:
    """What a model in training starts from."""

    train: Interactions
    settings: Settings
    intervened: BoolArray | None = None
    """(N,) the rows of train that were drawn by intervention, if the split marks them."""
    encoder: Any = None
    """The user's own torch module, or a function that builds one."""

    @property
    def treated(self) -> BoolArray | None:
        """The intervened rows for a method that needs them, None for others."""
        return self.intervened if self.settings.method.needs_intervened else None

    def first_values(self) -> tuple[FloatArray, FloatArray]:
        """The first values of user vectors (U, D) and item vectors (I, D), the same on every engine."""
        sides = self.train.n_users, self.train.n_items
        users, items = (np.empty((n, self.settings.dim), dtype=np.float32) for n in sides)
        self.fill_first_values(users, items)
        return users, items

    def fill_first_values(self, users: FloatArray, items: FloatArray) -> None:
        """Writes the first values into tables, without a copy of them."""
        values, scale = self.settings.generator("initial"), np.float32(self.settings.initial_scale)
        for table in (users, items):
            values.standard_normal(out=table, dtype=np.float32)
            table *= scale


@dataclass(frozen=True)
class Backbone:
    """A backbone as data. An engine that it has no function for is refused."""

    name: str
    title: str
    defaults: Mapping[str, Any]
    """Settings where none are given; a method's own defaults come first."""
    layers: tuple[int, int] = (0, 0)
    """The least and the most layers."""
    has_graph: bool = False
    """Whether there are edges to drop."""
    builtin: bool = True
    """Whether it comes with its vectors; False if the user brings an encoder."""
    native: Begin | None = None
    torch: Begin | None = None

    def check(self, settings: Settings) -> None:
        """Raises `InputError` if these settings do not go with the backbone."""
        least, most = self.layers
        if not least <= settings.layers <= most:
            have = f"{least} to {most}" if most else "no"
            raise InputError(f"{self.name} has {have} layers, got {settings.layers}")
        if settings.edge_dropout >= 1 or (settings.edge_dropout and not self.has_graph):
            must = "a share below 1" if self.has_graph else f"0, because {self.name} has no graph"
            raise InputError(f"edge_dropout must be {must}, got {settings.edge_dropout}")
        if settings.method.needs_graph and not self.has_graph:
            name = settings.method.title or settings.method.name
            raise InputError(f"{name} trains only backbones with a graph, such as lightgcn, got {self.name}")
        if not self.builtin and not settings.method.any_encoder:
            raise InputError(f"{settings.method.name} cannot train an encoder of your own; use a built-in backbone")

    def begin(self, start: Start) -> Trainable:
        """A model at its start, on the engine of the settings."""
        begin = self.native if start.settings.engine == "native" else self.torch
        if begin is None:
            raise InputError(f"backbone {self.name} has no engine {start.settings.engine}")
        return begin(start)


class NativeTrainee:
    """What the CPU's own models share: threads, the method's objective, the sampler, and a count of what was done."""

    def __init__(self, start: Start, window: int = 1 << 62, most: int = 1 << 62) -> None:
        from counterpop.training.sampling import TripleSampler, thread_count

        self._settings, self._threads = start.settings, thread_count(start.train, start.settings)
        self._objective = start.settings.method.native(start.train, start.settings, self._threads)
        self._sampler = TripleSampler(start, self._threads, window, 1 << 62 if self._objective.by_batch else most)
        self._triples, self._recorded, self._epochs = 0, 0, 0

    own: ClassVar[tuple[str, ...]] = ()
    """Attributes with a state of their own: arrays, numbers or generators."""

    @property
    def _parts(self) -> dict[str, tuple[object, tuple[str, ...]]]:
        """What has a state: an object, and which of its attributes."""
        objective = self._objective
        return {
            "model": (self, ("_triples", "_recorded", "_epochs", *self.own)),
            "sampler": (self._sampler, ("_generator",)),
            "objective": (objective, tuple(name for name in vars(objective) if name not in objective.scratch)),
        }

    def state(self) -> State:
        return {
            f"{part}.{name}": value
            for part, (owner, names) in self._parts.items()
            for name, value in capture(owner, names).items()
        }

    def restore(self, state: State) -> None:
        for part, (owner, names) in self._parts.items():
            restore(owner, names, {n.removeprefix(f"{part}."): v for n, v in state.items() if n.startswith(f"{part}.")})

    def draw(self, helping: int = 0) -> tuple[list[Triples], int]:
        """The triples of the next epoch for every thread, or of one helping of it, and their number."""
        if helping == 0:
            self._objective.begin_epoch(self._epochs)
            self._epochs += 1
        drawn = self._sampler.epoch(self._epochs - 1, helping)
        number = sum(int(triples.block_starts[-1]) for triples in drawn)
        self._triples += number
        return drawn, number

    def go_by_batch(self, work: Callable[[Together, IntArray], Recorded]) -> float:
        """Goes through the shuffled triples of the next epoch, batch by batch; returns the mean recorded loss."""
        from counterpop.kernels.threads import crew, stretches, without_blas_threads

        drawn, number = self.draw()
        triples = self._sampler.shuffled(drawn)
        total = np.zeros(2)
        with crew(self._threads) as together, without_blas_threads():
            for first, last in stretches(number, self._settings.steps(number)):
                total += work(together, triples[:, first:last])
        return self.mean_loss(*total)

    def mean_loss(self, total: float, recorded: float) -> float:
        """The mean loss of an epoch's recorded triples, which are counted."""
        self._recorded += int(recorded)
        return float(total / max(1.0, recorded))

    def model(self, copy: bool = True) -> Model:
        """The vectors as they are now and the ledger so far; without a copy they may change as training goes on."""
        raise NotImplementedError

    def look(self, known: Development, users: IntArray, strengths: tuple[Strengths, Strengths]) -> Grid:
        """Its metrics on the validation part of these users, at every pair of item and user strengths."""
        from counterpop.training.native import look_at

        return look_at(self.model(copy=False), known, users, strengths, self._settings.threads)
