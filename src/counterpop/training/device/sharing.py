"""Training in several processes, mostly one for each GPU, that torch.distributed connects.

All processes draw the same triples. Each works on those of its own users and adds up with the others what they share:
of MF the slopes of the items, of an encoder those of all parameters. The sums are the same everywhere, so a training
takes the steps of one process, to float tolerance. docs/scale.md says what that sends.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from counterpop.errors import InputError
from counterpop.training.device.ledger import DeviceLedger


@dataclass(frozen=True)
class Share:
    """Which of the processes this one is."""

    rank: int = 0
    world: int = 1

    @property
    def alone(self) -> bool:
        return self.world == 1

    def mine(self, triples: Tensor) -> Tensor:
        """The triples (3, B) whose user belongs to this process."""
        return triples if self.alone else triples[:, triples[0] % self.world == self.rank]

    def add_up(self, *tensors: Tensor) -> None:
        """Replaces each tensor by its sum over the processes."""
        if not self.alone:
            for tensor in tensors:
                distributed.all_reduce(tensor)

    def take_first(self, *modules: torch.nn.Module) -> None:
        """Gives the modules the parameters and buffers that they have in the first process."""
        if not self.alone:
            for module in modules:
                for tensor in (*module.parameters(), *module.buffers()):
                    distributed.broadcast(tensor.detach(), 0)

    def gather_rows(self, users: Tensor) -> None:
        """Replaces the rows of other processes' users by those that these have."""
        if not self.alone:
            own = torch.arange(len(users), device=users.device) % self.world == self.rank
            users[~own] = 0
            distributed.all_reduce(users)


def find_share() -> Share:
    """The place of this process, if `torch.distributed.init_process_group` was called; else it is alone."""
    if distributed.is_available() and distributed.is_initialized():
        return Share(distributed.get_rank(), distributed.get_world_size())
    return Share()


def check_shareable(share: Share, by_triple: bool) -> None:
    """Raises `InputError` for a loss that cannot be cut by users."""
    if not share.alone and not by_triple:
        raise InputError(
            "several processes can train only losses that are a sum over triples (bpr, bce), but this one compares "
            "the rows of a batch; train it in one process"
        )


class SharedLedger:
    """Brings a ledger to the sums over all processes, as often as it is asked."""

    def __init__(self, ledger: DeviceLedger, share: Share) -> None:
        self._ledger, self._share = ledger, share
        self._before = [torch.zeros_like(sums) for sums in self._sums()]

    def _sums(self) -> list[Tensor]:
        ledger = self._ledger
        counts = torch.tensor([ledger.triples, ledger.records], device=ledger.items.device)
        return [ledger.items, ledger.users, counts]

    def gather(self) -> None:
        """Adds to the ledger what the other processes have recorded since the last time."""
        sums = self._sums()
        for now, before in zip(sums, self._before, strict=True):
            now.sub_(before)
            self._share.add_up(now)
            now.add_(before)
            before.copy_(now)
        self._ledger.triples, self._ledger.records = sums[2].tolist()
