"""Each row of a batch against many columns, without ever holding all of their scores: for losses of a whole batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from counterpop.training.device import has_kernels

SCORES = 1 << 24  # at a time: 64 MB
WIDEST = 256  # numbers in the widest row that the kernels accept
LOWEST = -1e30  # instead of minus infinity, whose differences are not numbers


def log_sum_exp(
    queries: Tensor, keys: Tensor, bias: Tensor, labels: tuple[Tensor, Tensor], kinds: Tensor | None = None
) -> Tensor:
    """(B,) the log of the sum of exp(query . key + bias of the key) over the keys whose label is not the query's own.

    queries (B, D), keys (N, D), bias (N,), labels (B,) and (N,) below 2**31. If a key's bias depends on the query,
    bias is (K, N) and `kinds` (B,) says which of its rows. -1e30 where no key is left. Its gradient computes the
    scores again, some rows at a time, so that memory grows with B + N and not with B x N. On a GPU with Triton,
    float32 vectors of up to 256 numbers go through `fused_contrast`, once for each row of biases, with products as
    exact as in tf32.
    """
    if has_kernels(queries.device) and all(fit_kernels(rows) for rows in (queries, keys)):
        from counterpop.training.device.fused_contrast import fused_log_sum_exp

        return fused_log_sum_exp(queries, keys, bias, labels, kinds)
    found: Tensor = _LogSumExp.apply(queries, keys, bias, labels, kinds)  # type: ignore[no-untyped-call]
    return found


def is_new(ordered: Tensor) -> Tensor:
    """(B,) which of these sorted values differ from the one before: each distinct value once.

    Unlike `unique`, its result has the same shape for every batch, so that a step can be recorded.
    """
    found = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=found[1:])
    return found


def fit_kernels(rows: Tensor) -> bool:
    """Whether `fused_contrast` takes such rows (., D), where Triton is. A GPU must be an A100 or newer."""
    fits = rows.dtype == torch.float32 and len(rows) > 0 and rows.shape[1] <= WIDEST
    return fits and (rows.device.type != "cuda" or torch.cuda.get_device_capability(rows.device) >= (8, 0))


def scores_of(
    queries: Tensor, keys: Tensor, bias: Tensor, labels: tuple[Tensor, Tensor], kinds: Tensor | None = None
) -> Iterator[tuple[slice, Tensor]]:
    """Stretches of rows, and their scores; -1e30 where labels are the same."""
    size = max(1, SCORES // max(1, len(keys)))
    for first in range(0, len(queries), size):
        rows = slice(first, first + size)
        added = bias if kinds is None else bias.index_select(0, kinds[rows])
        scores = torch.addmm(added, queries[rows], keys.T)
        yield rows, scores.masked_fill_(labels[0][rows, None] == labels[1], LOWEST)


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, bias: Tensor, labels: tuple[Tensor, Tensor], kinds: Tensor | None
    ) -> Tensor:
        sums = queries.new_empty(len(queries))
        for rows, scores in scores_of(queries, keys, bias, labels, kinds):
            sums[rows] = scores.logsumexp(1)
        ctx.save_for_backward(queries, keys, bias, kinds, *labels, sums)
        return sums

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        queries, keys, bias, kinds, *labels, sums = ctx.saved_tensors
        to_queries, to_keys = torch.empty_like(queries), torch.zeros_like(keys)
        for rows, scores in scores_of(queries, keys, bias, (labels[0], labels[1]), kinds):
            weights = scores.sub_(sums[rows, None]).exp_()
            torch.mm(weights, keys, out=to_queries[rows])
            to_keys.addmm_(weights.T, queries[rows] * slopes[0][rows, None])
        return to_queries * slopes[0][:, None], to_keys, None, None, None
