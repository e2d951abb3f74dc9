"""Training a model, and recording what training does to it."""

from counterpop.training.loop import Progress, train
from counterpop.training.settings import Settings

__all__ = ["Progress", "Settings", "train"]
