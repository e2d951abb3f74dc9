"""Training a model, and recording what training does to it."""

from counterpop.progress import Progress
from counterpop.training.checkpoints import Interrupted
from counterpop.training.fitting import train
from counterpop.training.methods import DICE, IPS, MACR, PAAC, CausE, Gradient, Method, Plain, SimGCL
from counterpop.training.racing import Race, Trial, race
from counterpop.training.searching import search
from counterpop.training.settings import Settings, TrainOptions

__all__ = ["DICE", "IPS", "MACR", "PAAC", "CausE", "Gradient", "Interrupted", "Method", "Plain", "Progress"]
__all__ += ["Race", "Settings", "SimGCL", "TrainOptions", "Trial", "race", "search", "train"]
