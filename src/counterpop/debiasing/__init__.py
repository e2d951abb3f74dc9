"""Debiasing vectors trained by any other model: a tuned adjustment and its measured effect."""

from counterpop.debiasing.matching import as_embeddings, check_fit, in_order_of
from counterpop.debiasing.rebuilding import rebuild
from counterpop.debiasing.search import Debiasing, debias
from counterpop.debiasing.trials import DebiasOptions, DebiasSettings, Effect, hold_out, split_later

__all__ = [
    "DebiasOptions",
    "DebiasSettings",
    "Debiasing",
    "Effect",
    "as_embeddings",
    "check_fit",
    "debias",
    "hold_out",
    "in_order_of",
    "rebuild",
    "split_later",
]
