"""Models in training on a device: tables moved by SGD (MF), and encoders moved by Adam (LightGCN, yours)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from counterpop.directions import find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.interactions import IntArray, Interactions
from counterpop.runs import Model, Strengths
from counterpop.splits import Development
from counterpop.training.backbones.contract import Start
from counterpop.training.device import find_device, has_kernels
from counterpop.training.device.ledger import DeviceLedger
from counterpop.training.device.losses import OWN_RATE, TripleLoss
from counterpop.training.device.measuring import directions_of, search_on_device
from counterpop.training.device.sampling import DeviceSampler
from counterpop.training.device.sharing import SharedLedger, check_shareable, find_share
from counterpop.training.states import State
from counterpop.tuning import Grid


class _Trainee(ABC):
    """What both kinds share: the loss, the sampler, the ledger, the way back to the host."""

    def __init__(self, start: Start, dim: int) -> None:
        train, settings = start.train, start.settings
        self._train, self._settings, self._device = train, settings, find_device(settings)
        self._loss = settings.method.torch(train, settings).to(self._device)
        if settings.keeps_ledger:
            self._loss.ledger = DeviceLedger(train, dim, settings.ledger_every, self._device)
        self._share = find_share()
        compares = type(self._loss).contrast is not TripleLoss.contrast
        check_shareable(self._share, self._loss.by_triple and not compares)
        self._shared_ledger = None
        if self._loss.ledger and not self._share.alone:
            self._shared_ledger = SharedLedger(self._loss.ledger, self._share)
        self._sampler = DeviceSampler(start, self._device)
        self._epochs = 0

    @abstractmethod
    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss."""

    @abstractmethod
    def vectors(self) -> tuple[Tensor, Tensor]:
        """The vectors of users and items as they are now."""

    def _gather(self) -> None:
        """Gets from the other processes what this one lacks: all of them call it at the same time."""
        if self._shared_ledger:
            self._shared_ledger.gather()

    def model(self) -> Model:
        """A copy of the vectors as they are now and of the ledger so far, on the host."""
        self._gather()
        users, items = (table.detach().float().cpu().numpy().copy() for table in self._loss.ranking(*self.vectors()))
        ids = self._train.user_ids, self._train.item_ids
        return self._loss.model(Embeddings(users[: len(ids[0])], items[: len(ids[1])], *ids))  # of copies, the first

    def state(self) -> State:
        if not self._share.alone:
            raise InputError("a training in several processes cannot be checkpointed; leave checkpoint out")
        return {name: on_host(tensor) for name, tensor in self._tensors().items()} | {"epochs": np.array(self._epochs)}

    def restore(self, state: State) -> None:
        self._epochs = int(state["epochs"])
        with torch.no_grad():
            for name, tensor in self._tensors().items():
                if name.startswith("random."):
                    self._generators()[name].set_state(torch.from_numpy(state[name]))
                else:
                    tensor.copy_(torch.from_numpy(state[name]))
        if ledger := self._loss.ledger:
            ledger.triples, ledger.records = state["ledger.counts"].tolist()

    def _tensors(self) -> dict[str, Tensor]:
        """Everything that the next epochs depend on, by name."""
        found = {f"loss.{name}": tensor for name, tensor in self._loss.state_dict().items()}
        found |= {name: generator.get_state() for name, generator in self._generators().items()}
        if ledger := self._loss.ledger:
            counts = torch.tensor([ledger.triples, ledger.records])
            found |= {"ledger.items": ledger.items, "ledger.users": ledger.users, "ledger.counts": counts}
        return found

    def _generators(self) -> dict[str, torch.Generator]:
        return {"random.sampling": self._sampler.generator}

    def draw(self) -> Tensor:
        """(3, n) the triples of the next epoch."""
        self._loss.begin_epoch(self._epochs)
        self._epochs += 1
        return self._sampler.epoch(self._settings.method.negatives(self._epochs - 1))

    def look(self, known: Development, users: IntArray, strengths: tuple[Strengths, Strengths]) -> Grid:
        """Its metrics on the validation part of these users at every pair of strengths, measured on the device."""
        self._gather()
        if self._loss.ranks_as_trained:
            n_users, n_items = self._train.n_users, self._train.n_items
            vectors = self._loss.ranking(*self.vectors())
            P, Q = (table[:n].detach().float() for table, n in zip(vectors, (n_users, n_items), strict=True))
            directions = directions_of(P, Q, self._loss.ledger, known.train)
        else:
            model = self.model()
            found = find_directions(model, known.train)
            arrays = model.embeddings.user_vectors, model.embeddings.item_vectors, found.item, found.user
            P, Q, *both = (torch.from_numpy(array).to(self._device) for array in arrays)
            directions = both[0], both[1]
        return search_on_device((P, Q), directions, known.train, known.valid, strengths=strengths, users=users)


class DeviceTables(_Trainee):
    """Matrix factorisation: two tables of vectors, moved by SGD.

    A batch's steps are added up: the same as the CPU's, one after another, if no two of its triples share a row. On a
    GPU one kernel goes through the whole epoch with about `batch` triples in flight; its sums come in no fixed order,
    so runs agree only nearly. A loss without such a kernel (softmax) has one step recorded after the first epoch, which
    is then repeated.
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start, start.settings.dim)
        users, items = (torch.from_numpy(values).to(self._device) for values in start.first_values())
        self._users, self._items = users, items.repeat(start.settings.method.item_copies, 1)
        in_kernels = type(self._loss).step_batch is not TripleLoss.step_batch
        self._replays = self._device.type == "cuda" and in_kernels and self._loss.repeats and self._share.alone
        self._rate = torch.zeros((), device=self._device)  # of a recorded step
        self._repeated: _Repeated | None = None

    def epoch(self, lr: float) -> float:
        return float(self.run(self.draw(), lr))

    def run(self, triples: Tensor, lr: float) -> Tensor:
        """Goes along these triples (3, n); returns their mean loss."""
        if has_kernels(self._device) and self._share.alone:
            mean = self._loss.step_epoch(self._users, self._items, triples, lr)
            if mean is not None:
                return mean
        n = triples.shape[1]
        losses = []
        self._rate.fill_(lr)
        batches = torch.split(triples, -(-n // self._settings.steps(n)), dim=1)

        def step(batch: Tensor) -> Tensor:
            return self.step(batch, self._rate)

        if self._replays and not self._repeated:
            self._repeated = _Repeated(batches[0])
        for batch in batches:
            mine = self._share.mine(batch)
            if self._repeated and self._repeated.batch.shape == mine.shape:
                losses.append(self._repeated.take(mine, step))
            else:
                losses.append(self.step(mine, lr))
            if self._loss.ledger:
                self._loss.ledger.count(mine.shape[1])
        if self._repeated:
            self._repeated.record(step)
        if self._share.alone:
            return torch.cat(losses).mean()
        total = torch.cat(losses).sum()
        self._share.add_up(total)
        return total / n

    def _gather(self) -> None:
        super()._gather()
        self._share.gather_rows(self._users.detach())

    def step(self, triples: Tensor, lr: float | Tensor) -> Tensor:
        """One step along a batch (3, B); returns its losses. A method's own parameters, in every triple, go slower."""
        if has_kernels(self._device) and self._share.alone:
            here = lr if isinstance(lr, Tensor) else torch.full((), lr, device=self._device)
            found = self._loss.step_batch(self._users.detach(), self._items.detach(), triples, here)
            if found is not None:
                return found
        tables = [self._users.requires_grad_(), self._items.requires_grad_()]
        own = list(self._loss.parameters())
        total, losses = self._loss(*tables, triples)
        slopes = torch.autograd.grad(total, [*tables, *own])
        self._share.add_up(*slopes[1:])  # users are nobody else's
        with torch.no_grad():
            for n, (values, slope) in enumerate(zip([*tables, *own], slopes, strict=True)):
                rate = lr if n < len(tables) else lr * OWN_RATE
                if isinstance(rate, Tensor):
                    values.detach().addcmul_(slope, rate, value=-1)
                else:
                    values.detach().sub_(slope, alpha=rate)
        detached: Tensor = losses.detach()
        return detached

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self._users, self._items

    def _tensors(self) -> dict[str, Tensor]:
        return super()._tensors() | {"users": self._users.detach(), "items": self._items.detach()}


class _Repeated:
    """A step of MF along batches of one size. Once recorded, a GPU repeats it without the host's launches."""

    def __init__(self, like: Tensor) -> None:
        self.batch = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        self._recorded: torch.cuda.CUDAGraph | None = None

    def take(self, batch: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        """Takes this step along a batch; returns its losses."""
        self.batch.copy_(batch)
        if not self._recorded:
            return step(self.batch)
        self._recorded.replay()
        return self._losses.clone()

    def record(self, step: Callable[[Tensor], Tensor]) -> None:
        """To be called after a step was taken, which compiles its kernels for the address of `batch`."""
        if not self._recorded:
            self._recorded = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._recorded):
                self._losses = step(self.batch)


class DeviceEncoder(_Trainee):
    """Any module that returns (user vectors, item vectors), its parameters moved by Adam, batch after batch.

    With `replay`, for a module that does the same in every call, a GPU records one step and then repeats it, which
    saves the host the launch of some fifty kernels.
    Limit: every step encodes all users and items.
    """

    def __init__(self, module: torch.nn.Module, start: Start, replay: bool = False) -> None:
        settings = start.settings
        self._module = module.to(find_device(settings))
        dim = settings.dim if start.treated is not None else check_output(self.vectors(), start.train)
        super().__init__(start, dim)
        self._share.take_first(self._module, self._loss)
        if not any(part.requires_grad for part in self._module()):
            raise InputError("an encoder is trained by its parameters, but nothing that it returned can be trained")
        cuda = self._device.type == "cuda"
        self._lr = torch.tensor(settings.lr, device=self._device)
        parameters = [*self._module.parameters(), *self._loss.parameters()]
        lr = self._lr if cuda else settings.lr
        self._optimiser = torch.optim.Adam(parameters, lr=lr, fused=cuda, capturable=cuda)
        self._total = torch.zeros((), device=self._device)
        # every batch has the same size; the few triples left over are dropped
        self._steps = settings.steps(self._sampler.triples)
        size = self._sampler.triples // self._steps
        self._batch = torch.zeros(3, size, dtype=torch.int64, device=self._device)
        self._replays = replay and cuda and self._loss.repeats and self._share.alone
        self._recorded: torch.cuda.CUDAGraph | None = None

    def epoch(self, lr: float) -> float:
        self._module.train()
        self._lr.fill_(lr)
        if self._device.type == "cpu":  # where Adam needs a plain number
            self._optimiser.param_groups[0]["lr"] = lr
        self._total.zero_()
        triples, size = self.draw(), self._batch.shape[1]
        for step in range(self._steps):
            self._batch.copy_(triples[:, step * size : (step + 1) * size])
            if self._recorded:
                self._recorded.replay()
            else:
                self.step(self._batch)
            if self._loss.ledger:
                self._loss.ledger.count(self._share.mine(self._batch).shape[1])
        self._share.add_up(self._total)
        if self._replays and not self._recorded:  # after an epoch everything has been called once
            self._recorded = torch.cuda.CUDAGraph()
            if own := self._own_generator():  # a recorded step may draw from it
                self._recorded.register_generator_state(own)
            with torch.cuda.graph(self._recorded):
                self.step(self._batch)
        return float(self._total) / (size * self._steps)

    def step(self, triples: Tensor) -> None:
        """One step along a batch (3, B)."""
        triples = self._share.mine(triples)
        users, items = self._module()
        self._optimiser.zero_grad()
        more = self._loss.contrast(self._module, users, items, triples)
        if not self._add_by_kernel(users, items, triples, more):
            total, losses = self._loss(users, items, triples)
            self._total += losses.detach().sum()
            (total if more is None else total + more).backward()
        self._share.add_up(*(p.grad for p in self._optimiser.param_groups[0]["params"] if p.grad is not None))
        self._optimiser.step()

    def _add_by_kernel(self, users: Tensor, items: Tensor, triples: Tensor, more: Tensor | None) -> bool:
        """Carries the gradient back from a kernel and from `more`; False if the method has none for these vectors.

        The loss is then that of one triple in `ledger_every`.
        """
        plain = all(rows.dtype == torch.float32 and rows.is_contiguous() for rows in (users, items))
        if not plain or not has_kernels(self._device):
            return False
        with torch.no_grad():
            into = torch.zeros_like(users), torch.zeros_like(items)
            mean = self._loss.add_gradient(users, items, triples, into)
        if mean is None:
            return False
        self._total += triples.shape[1] * mean
        ends = [(users, into[0]), (items, into[1])] + ([] if more is None else [(more, torch.ones_like(more))])
        ends = [end for end in ends if end[0].requires_grad]
        torch.autograd.backward([end for end, _ in ends], [gradient for _, gradient in ends])
        return True

    def _tensors(self) -> dict[str, Tensor]:
        found = super()._tensors() | {f"module.{name}": tensor for name, tensor in self._module.state_dict().items()}
        for n, parameter in enumerate(self._optimiser.param_groups[0]["params"]):
            moments = self._optimiser.state[parameter]
            if not moments:  # Adam makes them in its first step; zeros are what it begins with
                device = self._device if self._device.type == "cuda" else None
                moments["step"] = torch.zeros((), device=device)
                moments |= {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            found |= {f"adam.{n}.{name}": tensor for name, tensor in moments.items()}
        return found

    def _generators(self) -> dict[str, torch.Generator]:
        own = self._own_generator()
        return super()._generators() | ({"random.module": own} if own else {})

    def _own_generator(self) -> torch.Generator | None:
        """What the module draws from, if it has a generator."""
        own = getattr(self._module, "generator", None)
        return own if isinstance(own, torch.Generator) else None

    def vectors(self) -> tuple[Tensor, Tensor]:
        self._module.eval()
        with torch.no_grad():
            found: tuple[Tensor, Tensor] = self._module()
            return found


def on_host(tensor: Tensor) -> NDArray[Any]:
    """A copy as an array; bfloat16, which NumPy lacks, as float32."""
    host = tensor.detach().cpu()
    return np.array((host.float() if host.dtype == torch.bfloat16 else host).numpy())


def check_output(output: object, train: Interactions) -> int:
    """The width of the vectors that an encoder returned; raises `InputError` if they do not fit the split."""
    parts = output if isinstance(output, tuple | list) else [output]
    shapes = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
    dim = shapes[-1][-1] if shapes and isinstance(shapes[-1], tuple) and shapes[-1] else 0
    if dim and shapes == [(train.n_users, dim), (train.n_items, dim)]:
        return int(dim)
    raise InputError(
        "an encoder must return (user vectors, item vectors) of one width, a row for each of the split's "
        f"{train.n_users} users and {train.n_items} items in its order; this one returned {shapes}"
    )
