"""Models in training on a device: tables moved by SGD (MF), and encoders moved by Adam (LightGCN, yours)."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from counterpop.directions import find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.interactions import BoolArray, IntArray, Interactions
from counterpop.runs import Model, Strengths
from counterpop.splits import Development
from counterpop.training.device.lightgcn import LightGCN
from counterpop.training.device.losses import LOSSES, OWN_RATE, MethodLoss
from counterpop.training.device.measuring import directions_of, search_on_device
from counterpop.training.device.sampling import DeviceSampler
from counterpop.training.device.tables import find_device, initial_tables
from counterpop.training.device.triples import DeviceLedger, Pulls, pulls
from counterpop.training.methods import IPS
from counterpop.training.settings import SAMPLING_STREAM, Settings
from counterpop.tuning import Grid


def begin(
    train: Interactions,
    settings: Settings,
    encoder: torch.nn.Module | Callable[[Interactions], torch.nn.Module] | None,
    intervened: BoolArray | None = None,
) -> DeviceTables | DeviceEncoder:
    """A model at its beginning on the device of the settings."""
    if encoder is not None:
        own = copy.deepcopy(encoder)
        if not isinstance(own, torch.nn.Module) and callable(own):
            own = own(train)
        if not isinstance(own, torch.nn.Module):
            raise InputError(
                "encoder must be a torch module, or a function that builds one from the interactions; got "
                f"{type(own).__name__}"
            )
        return DeviceEncoder(own, train, settings)
    treated = intervened if settings.method == "cause" else None
    if settings.backbone == "lightgcn":
        return DeviceEncoder(LightGCN(train, settings, treated), train, settings, True, treated)
    return DeviceTables(train, settings, treated)


class _Trainee(ABC):
    """What both kinds share: the sampler, the ledger, the way back to the host."""

    def __init__(self, train: Interactions, settings: Settings, dim: int, treated: BoolArray | None = None) -> None:
        self._train, self._settings, self._device = train, settings, find_device(settings)
        self._method = LOSSES[settings.method](train, settings).to(self._device) if settings.method in LOSSES else None
        self._weights = None
        if isinstance(settings.options, IPS):
            self._weights = torch.from_numpy(settings.options.weights(train.item_counts)).to(self._device)
        self._epochs = 0
        self._sampler = DeviceSampler(
            train,
            sampling=settings.sampling,
            negatives=settings.negatives,
            negative_power=settings.negative_power,
            device=self._device,
            seed=int(np.random.default_rng([settings.seed, SAMPLING_STREAM]).integers(1 << 62)),
            treated=treated,
        )
        self._ledger = None
        if settings.keeps_ledger:
            self._ledger = DeviceLedger(train, dim, settings.ledger_every, self._device)

    @abstractmethod
    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss."""

    @abstractmethod
    def vectors(self) -> tuple[Tensor, Tensor]:
        """The vectors of users and items as they are now."""

    def model(self) -> Model:
        """A copy of the vectors as they are now and of the ledger so far, on the host."""
        users, items = (np.array(table.detach().float().cpu().numpy()) for table in self.vectors())
        ids = self._train.user_ids, self._train.item_ids
        vectors = Embeddings(users[: len(ids[0])], items[: len(ids[1])], *ids)  # of copies, the first
        if self._method:
            return self._method.model(vectors)
        return Model(vectors, self._ledger.on_host() if self._ledger else None)

    def draw(self) -> Tensor:
        """(3, n) the triples of the next epoch."""
        asked = self._method.sampling(self._epochs) if self._method else {}
        self._epochs += 1
        return self._sampler.epoch(**asked)

    def pulls(self, users: Tensor, items: Tensor, triples: Tensor) -> Pulls:
        """The gradient of a batch (3, B) where a method takes scores alone; the ledger records it."""
        u, i, j = triples
        A, B = items[i], items[j]
        weights = None if self._weights is None else self._weights[i]
        found = pulls(users[u], A, B, self._settings, weights)
        if self._ledger:
            self._ledger.record(triples, found, A, B)
        return found

    def look(self, known: Development, users: IntArray, item_strengths: Strengths, user_strengths: Strengths) -> Grid:
        """Every metric on validation at every pair of strengths, measured on the device."""
        if self._method:  # its vectors may be others than those it trains
            model = self.model()
            found = find_directions(model, known.train)
            arrays = model.embeddings.user_vectors, model.embeddings.item_vectors, found.item, found.user
            P, Q, *directions = (torch.from_numpy(array).to(self._device) for array in arrays)
        else:
            P, Q = (table.detach().float() for table in self.vectors())
            directions = list(directions_of(P, Q, self._ledger, known.train))
        return search_on_device(
            P,
            Q,
            (directions[0], directions[1]),
            known.train,
            known.valid,
            item_strengths=item_strengths,
            user_strengths=user_strengths,
            users=users,
        )


class DeviceTables(_Trainee):
    """Matrix factorisation: two tables of vectors, moved by SGD.

    A batch's steps are added up: the same as the CPU's, one after another, where no two of its triples share
    a row. On a GPU one kernel goes through the whole epoch with about `batch` triples on their way at a time
    (`fused`); its sums come in no fixed order, so runs agree only nearly.
    """

    def __init__(self, train: Interactions, settings: Settings, treated: BoolArray | None = None) -> None:
        super().__init__(train, settings, settings.dim, treated)
        copies = self._method.copies if self._method else 1
        self._users, self._items = initial_tables(train, settings, self._device, copies)

    def epoch(self, lr: float) -> float:
        return float(self.run(self.draw(), lr))

    def run(self, triples: Tensor, lr: float) -> Tensor:
        """Goes along these triples (3, n); returns their mean loss."""
        fused = self.run_fused(triples, lr) if has_kernels(self._device) else None
        if fused is not None:
            return fused
        n = triples.shape[1]
        batches = torch.split(triples, -(-n // self._settings.steps(n)), dim=1)
        losses = torch.cat([self.step(batch, lr) for batch in batches])
        if self._ledger:
            for batch in batches:
                self._ledger.count(batch.shape[1])
        return losses.mean()

    def run_fused(self, triples: Tensor, lr: float) -> Tensor | None:
        """As `run`, in one kernel or a few; None where the method has none."""
        if self._method:
            return self._method.step_epoch(self._users, self._items, triples, lr)
        from counterpop.training.device.fused import scores

        if self._ledger:
            self._ledger.count(triples.shape[1])
        return scores.step(self._users, self._items, triples, lr, self._settings, self._weights, self._ledger)

    def step(self, triples: Tensor, lr: float) -> Tensor:
        """One step along a batch (3, B); returns its losses."""
        if self._method:
            return self._descend(self._method, triples, lr)
        u, i, j = triples
        found = self.pulls(self._users, self._items, triples)
        self._users.index_add_(0, u, found.user, alpha=-lr)
        self._items.index_add_(0, i, found.item, alpha=-lr)
        self._items.index_add_(0, j, found.negative, alpha=-lr)
        return found.loss

    def _descend(self, method: MethodLoss, triples: Tensor, lr: float) -> Tensor:
        """One step down the slope of a method's loss; its own parameters see every triple and go slower."""
        tables = [table.requires_grad_() for table in (self._users, self._items)]
        own = list(method.parameters())
        total, losses = method(*tables, triples)
        slopes = torch.autograd.grad(total, [*tables, *own])
        with torch.no_grad():
            for n, (values, slope) in enumerate(zip([*tables, *own], slopes, strict=True)):
                values.detach().sub_(slope, alpha=lr if n < len(tables) else lr * OWN_RATE)
        detached: Tensor = losses.detach()
        return detached

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self._users, self._items


class DeviceEncoder(_Trainee):
    """Any module that returns (user vectors, item vectors), its parameters moved by Adam, batch after batch.

    The loss's gradient at the module's output is computed here, recorded in the ledger there, and handed to
    autograd, which carries it back to the parameters. With `replay`, for a module whose every call does the
    same, a GPU records one step and then repeats it, which spares the host's time for some fifty kernels.
    Limit: every step encodes all users and items.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        train: Interactions,
        settings: Settings,
        replay: bool = False,
        treated: BoolArray | None = None,
    ) -> None:
        self._module = module.to(find_device(settings))
        dim = settings.dim if treated is not None else check_output(self.vectors(), train)
        super().__init__(train, settings, dim, treated)
        if not any(part.requires_grad for part in self._module()):
            raise InputError("an encoder is trained by its parameters, but nothing that it returned can be trained")
        cuda = self._device.type == "cuda"
        self._lr = torch.tensor(settings.lr, device=self._device)
        own = self._method.parameters() if self._method else ()
        self._optimiser = torch.optim.Adam(
            [*self._module.parameters(), *own], lr=self._lr if cuda else settings.lr, fused=cuda, capturable=cuda
        )
        self._loss = torch.zeros((), device=self._device)
        # every batch has the same size; the few triples over are another epoch's
        self._steps = settings.steps(self._sampler.triples)
        self._batch = torch.zeros(3, self._sampler.triples // self._steps, dtype=torch.int64, device=self._device)
        self._replays = replay and cuda
        self._recorded: torch.cuda.CUDAGraph | None = None

    def epoch(self, lr: float) -> float:
        self._module.train()
        self._lr.fill_(lr)
        if self._device.type == "cpu":  # where Adam wants a plain number
            self._optimiser.param_groups[0]["lr"] = lr
        self._loss.zero_()
        triples, size = self.draw(), self._batch.shape[1]
        for step in range(self._steps):
            self._batch.copy_(triples[:, step * size : (step + 1) * size])
            if self._recorded:
                self._recorded.replay()
            else:
                self.step(self._batch)
        if self._ledger:
            self._ledger.count(size, self._steps)
        if self._replays and not self._recorded:  # after an epoch everything has been called once
            self._recorded = torch.cuda.CUDAGraph()
            if self._settings.edge_dropout:  # what is drawn within a recorded step
                self._recorded.register_generator_state(self._module.generator)
            with torch.cuda.graph(self._recorded):
                self.step(self._batch)
        return float(self._loss) / (size * self._steps)

    def step(self, triples: Tensor) -> None:
        """One step along a batch (3, B)."""
        users, items = self._module()
        self._optimiser.zero_grad()
        if self._method:
            total, losses = self._method(users, items, triples)
            self._loss += losses.detach().sum()
            total.backward()
            self._optimiser.step()
            return
        with torch.no_grad():
            at_users, at_items = torch.zeros_like(users), torch.zeros_like(items)
            self._loss += triples.shape[1] * self.add_gradient(users, items, triples, at_users, at_items)
        pairs = [pair for pair in ((users, at_users), (items, at_items)) if pair[0].requires_grad]
        torch.autograd.backward([found for found, _ in pairs], [gradient for _, gradient in pairs])
        self._optimiser.step()

    def add_gradient(self, users: Tensor, items: Tensor, triples: Tensor, at_users: Tensor, at_items: Tensor) -> Tensor:
        """Adds the loss's gradient at these vectors to the last two and records it.

        Returns the mean loss; on a GPU that of one triple in `ledger_every`.
        """
        plain = all(rows.dtype == torch.float32 and rows.is_contiguous() for rows in (users, items))
        if plain and has_kernels(self._device):
            from counterpop.training.device.fused import scores

            return scores.step(
                users, items, triples, -1.0, self._settings, self._weights, self._ledger, (at_users, at_items)
            )
        u, i, j = triples
        found = self.pulls(users, items, triples)
        at_users.index_add_(0, u, found.user)
        at_items.index_add_(0, i, found.item).index_add_(0, j, found.negative)
        return found.loss.mean()

    def vectors(self) -> tuple[Tensor, Tensor]:
        self._module.eval()
        with torch.no_grad():
            found: tuple[Tensor, Tensor] = self._module()
            return found


def has_kernels(device: torch.device) -> bool:
    """Whether `fused` can run: on a GPU, where Triton is there (torch for Windows comes without it)."""
    return device.type == "cuda" and find_spec("triton") is not None


def check_output(found: object, train: Interactions) -> int:
    """The width of the vectors that an encoder returned; says what is wrong with them."""
    parts = found if isinstance(found, tuple | list) else [found]
    shapes = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
    dim = shapes[-1][-1] if shapes and isinstance(shapes[-1], tuple) and shapes[-1] else 0
    if dim and shapes == [(train.n_users, dim), (train.n_items, dim)]:
        return int(dim)
    raise InputError(
        "an encoder must return (user vectors, item vectors) of one width, a row for each of the split's "
        f"{train.n_users} users and {train.n_items} items in its order; this one returned {shapes}"
    )
