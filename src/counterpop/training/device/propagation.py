"""Tables smoothed over the graph: E = mean over layers l of A^l E0, A the normalised graph of users and items.

A method with `skips_input` leaves layer 0 out of the mean.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from counterpop.interactions import Interactions, separate_treated
from counterpop.training.backbones.contract import Start
from counterpop.training.device import find_device, has_kernels
from counterpop.training.graph import graph_of

if TYPE_CHECKING:
    from counterpop.training.device.fused_graph import Stretches


class Smoothed(torch.nn.Module):
    """LightGCN as an encoder."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        train, settings = start.train, start.settings
        device = find_device(settings)
        self._n_users, self._layers, self._dropout = train.n_users, settings.layers, settings.edge_dropout
        self._skips = settings.method.skips_input
        self._copies = settings.method.item_copies  # CausE: a graph of the treated rows beside the other
        users, items = start.first_values()
        self.tables = torch.nn.Parameter(torch.from_numpy(np.concatenate([users, *[items] * self._copies])).to(device))
        self._graph, self._edges = adjacency(
            train if start.treated is None else separate_treated(train, start.treated), device
        )
        self._rough = replace(self._graph, rough=True)
        self.generator = torch.Generator(device).manual_seed(int(settings.generator("dropout").integers(1 << 62)))

    def forward(self) -> tuple[Tensor, Tensor]:
        graph = self._rough if self.training else self._graph
        if self._drops:
            draws = torch.rand(len(self._edges) // 2, device=self._edges.device, generator=self.generator)
            kept = draws >= self._dropout
            graph = graph.weighted(graph.entries.values() * kept[self._edges] / (1 - self._dropout))
        return self._encode(graph)

    @property
    def _drops(self) -> bool:
        return bool(self._dropout) and self.training

    def _encode(self, graph: DeviceGraph) -> tuple[Tensor, Tensor]:
        tables: Tensor = self.tables
        n_users = self._copies * self._n_users
        if self._copies > 1:  # a user has one table in both graphs
            tables = torch.cat([tables[: self._n_users], tables])
        vectors: Tensor = _Propagation.apply(tables, graph, self._layers, self._skips)  # type: ignore[no-untyped-call]
        users, items = torch.split(vectors, [n_users, len(vectors) - n_users])
        return users, items

    def noisy(self, vectors: tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor], length: float) -> list[Tensor]:
        """These rows of users, then of items (R, D), in two encodings with fresh noise of this length in every layer.

        `vectors` are those that the module has returned for this step. Noise is added, and signs have no slope, so the
        gradient goes back through them, together with everybody else's.
        """
        if self._drops:  # a noisy encoding has all edges
            vectors = self._encode(self._rough)
        clean = torch.cat([of.index_select(0, at) for of, at in zip(vectors, rows, strict=True)])
        both = torch.cat((rows[0], self._n_users + rows[1]))
        with torch.no_grad():
            smoothed = self._rough @ self.tables
            moves = [self._add_noise(smoothed, both, length) - clean for _ in range(2)]
        return [clean + move for move in moves]

    def _add_noise(self, vectors: Tensor, rows: Tensor, length: float) -> Tensor:
        """(R, D) these rows of one such encoding; `vectors` (U + I, D) are those of layer 1, without noise.

        Each vector moves away from the axes, by a random vector of its own orthant.
        """
        total = self.tables.index_select(0, rows) * (not self._skips)  # layer 0
        for left in reversed(range(self._layers)):
            noise = torch.rand(vectors.shape, device=vectors.device, generator=self.generator)
            if not left:  # nobody reads the other rows of the last layer
                vectors, noise = vectors.index_select(0, rows), noise.index_select(0, rows)
            scale = length / noise.norm(dim=1, keepdim=True)
            vectors = torch.addcmul(vectors, noise.copysign_(vectors), scale)
            if left:
                total += vectors.index_select(0, rows)
                vectors = self._rough @ vectors
        return (total + vectors) / (self._layers + (not self._skips))


class _Propagation(torch.autograd.Function):
    """The graph is symmetric, so the gradient is propagated exactly as the vectors are."""

    @staticmethod
    def forward(ctx: Any, tables: Tensor, graph: DeviceGraph, layers: int, skips_input: bool) -> Tensor:
        ctx.how = graph, layers, skips_input
        return propagate(tables, *ctx.how)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return propagate(gradients[0], *ctx.how), None, None, None


def propagate(tables: Tensor, graph: DeviceGraph, layers: int, skips_input: bool = False) -> Tensor:
    """(X + A X + ... + A^layers X) / (layers + 1), as X + A (X + A (...)); without X, A times that of a layer less."""
    vectors = tables
    for _ in range(layers - skips_input):
        vectors = graph.add_to(tables, vectors)
    vectors = vectors / (layers + (not skips_input))
    return graph @ vectors if skips_input else vectors


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A square sparse matrix that multiplies vectors: by torch, or by a kernel on a GPU that has one."""

    entries: Tensor
    """As CSR."""
    rough: bool = False
    """Whether the kernel reads neighbours as bfloat16, twice as fast; sums are float32 all the same."""
    stretches: Stretches | None = None
    """How the kernel goes through the rows, if there is one."""

    def weighted(self, values: Tensor) -> DeviceGraph:
        """The same graph with other values."""
        entries = self.entries
        return replace(self, entries=_csr(entries.crow_indices(), entries.col_indices(), values, len(entries)))

    def __matmul__(self, vectors: Tensor) -> Tensor:
        """The product with vectors (N, D)."""
        return self._add(torch.zeros_like(vectors), vectors) if self._kernel(vectors) else self.entries @ vectors

    def add_to(self, base: Tensor, vectors: Tensor) -> Tensor:
        """base + the product with vectors (N, D)."""
        if not self._kernel(vectors):
            return torch.addmm(base, self.entries, vectors)
        return self._add(base.clone(memory_format=torch.contiguous_format), vectors)

    def _add(self, into: Tensor, vectors: Tensor) -> Tensor:
        from counterpop.training.device.fused_graph import add_product

        assert self.stretches
        read = vectors.bfloat16() if self.rough else vectors
        return add_product(into, self.entries.values(), self.stretches, read)

    def _kernel(self, vectors: Tensor) -> bool:
        return self.stretches is not None and vectors.dtype == torch.float32 and vectors.is_contiguous()


def adjacency(train: Interactions, device: torch.device) -> tuple[DeviceGraph, Tensor]:
    """The normalised adjacency (U + I, U + I), and for each entry the row of train it came from."""
    graph = graph_of(train)
    n = len(graph.scale)
    values = np.repeat(graph.scale, np.diff(graph.starts)) * graph.scale[graph.neighbours]
    starts, columns, edges = (
        torch.from_numpy(array.astype(np.int64)).to(device) for array in (graph.starts, graph.neighbours, graph.edges)
    )
    entries = _csr(starts, columns, torch.from_numpy(values).to(device), n)
    stretches = None
    if has_kernels(device):
        from counterpop.training.device.fused_graph import cut

        stretches = cut(entries)
    return DeviceGraph(entries, stretches=stretches), edges


def _csr(starts: Tensor, columns: Tensor, values: Tensor, n: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its CSR tensors beta
        return torch.sparse_csr_tensor(starts, columns, values, (n, n))
