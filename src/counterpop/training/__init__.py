"""Training a model, and recording what training does to it."""

from counterpop.training.loop import Progress, train
from counterpop.training.methods import DICE, IPS, MACR, CausE, Gradient, Method, Plain
from counterpop.training.settings import Settings

__all__ = ["DICE", "IPS", "MACR", "CausE", "Gradient", "Method", "Plain", "Progress", "Settings", "train"]
