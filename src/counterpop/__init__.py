"""counterpop: find how much of a recommender is popularity rather than taste, and take it out.

The whole flow in ten lines:

>>> import counterpop as cp
>>> world = cp.make_world(300, 200, seed=0)                   # or cp.read_interactions("log.parquet")
>>> split = cp.split_uniform(world.log, test=2, valid=2, seed=0)
>>> run = cp.train(split, method="gradient", dim=8, epochs=20, seed=0)
>>> best = cp.tune(run, split, point="gain")                  # from validation; by default only with proof
>>> result = cp.evaluate(best, split, on="test")
>>> bool(result.adjusted.average_popularity < result.plain.average_popularity)
True
>>> best.query(best.embeddings.user_vectors[:2]).shape        # send these to the index you have
(2, 8)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpop import adapters, reporting, spark, sql
    from counterpop.adjustment import Adjustment, Segments, adjust
    from counterpop.artifacts import (
        load,
        load_adjustment,
        load_development,
        load_run,
        load_split,
        save_adjustment,
        save_run,
        save_split,
        save_tuning,
    )
    from counterpop.auditing import Audit, audit, audit_model
    from counterpop.comparison import Comparison, compare
    from counterpop.corrections import calibrated_lists, choose_calibration, correct
    from counterpop.debiasing import Debiasing, DebiasSettings, debias
    from counterpop.directions import Directions, find_directions
    from counterpop.drift import Drift, check_drift
    from counterpop.embeddings import Embeddings
    from counterpop.errors import CounterpopError, CounterpopWarning, InputError
    from counterpop.evaluation import Evaluation, Measures, contrast, evaluate, measure
    from counterpop.interactions import Interactions, head, join
    from counterpop.ledger import Ledger, gradient_picture
    from counterpop.metrics.popularity import mean_by_rank
    from counterpop.numbers import NUMBERS
    from counterpop.ranking import rank
    from counterpop.readers import read_interactions, read_labels, read_names, read_recommendations
    from counterpop.recommender import Recommender
    from counterpop.reporting import report
    from counterpop.runs import Dials, Model, Run
    from counterpop.splits import (
        Development,
        Split,
        split_as_given,
        split_from_logs,
        split_intervened,
        split_mixed,
        split_random,
        split_temporal,
        split_uniform,
    )
    from counterpop.training import (
        DICE,
        IPS,
        MACR,
        PAAC,
        CausE,
        Gradient,
        Method,
        Plain,
        Settings,
        SimGCL,
        search,
        train,
    )
    from counterpop.training.ensembles import combine
    from counterpop.training.methods import METHODS
    from counterpop.tuning import Grid, Tuned, choose_strengths, search_strengths, tune
    from counterpop.worlds import World, make_world

__version__ = "0.1.0"

# Where each public name lives. They are imported on first use, so that `import counterpop` stays light.
_HOMES = {
    "adjustment": "Adjustment Segments adjust",
    "artifacts": "load load_adjustment load_development load_run "
    "load_split save_adjustment save_run save_split save_tuning",
    "auditing": "Audit audit audit_model",
    "comparison": "Comparison compare",
    "corrections": "calibrated_lists choose_calibration correct",
    "debiasing": "DebiasSettings Debiasing debias",
    "directions": "Directions find_directions",
    "drift": "Drift check_drift",
    "embeddings": "Embeddings",
    "errors": "CounterpopError CounterpopWarning InputError",
    "evaluation": "Evaluation Measures contrast evaluate measure",
    "interactions": "Interactions head join",
    "ledger": "Ledger gradient_picture",
    "metrics.popularity": "mean_by_rank",
    "numbers": "NUMBERS",
    "ranking": "rank",
    "readers": "read_interactions read_labels read_names read_recommendations",
    "recommender": "Recommender",
    "runs": "Dials Model Run",
    "splits": "Development Split split_as_given split_from_logs split_intervened split_mixed "
    "split_random split_temporal split_uniform",
    "training": "CausE DICE Gradient IPS MACR Method PAAC Plain Settings SimGCL search train",
    "training.ensembles": "combine",
    "training.methods": "METHODS",
    "tuning": "Grid Tuned choose_strengths search_strengths tune",
    "reporting": "report",
    "worlds": "World make_world",
}
_MODULES = ("adapters", "reporting", "spark", "sql")  # used by their own names: cp.sql.write_audit
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

# literal, because type checkers and editors read it; a test compares it with the table
__all__ = [
    "DICE",
    "IPS",
    "MACR",
    "METHODS",
    "NUMBERS",
    "PAAC",
    "Adjustment",
    "Audit",
    "CausE",
    "Comparison",
    "CounterpopError",
    "CounterpopWarning",
    "DebiasSettings",
    "Debiasing",
    "Development",
    "Dials",
    "Directions",
    "Drift",
    "Embeddings",
    "Evaluation",
    "Gradient",
    "Grid",
    "InputError",
    "Interactions",
    "Ledger",
    "Measures",
    "Method",
    "Model",
    "Plain",
    "Recommender",
    "Run",
    "Segments",
    "Settings",
    "SimGCL",
    "Split",
    "Tuned",
    "World",
    "adapters",
    "adjust",
    "audit",
    "audit_model",
    "calibrated_lists",
    "check_drift",
    "choose_calibration",
    "choose_strengths",
    "combine",
    "compare",
    "contrast",
    "correct",
    "debias",
    "evaluate",
    "find_directions",
    "gradient_picture",
    "head",
    "join",
    "load",
    "load_adjustment",
    "load_development",
    "load_run",
    "load_split",
    "make_world",
    "mean_by_rank",
    "measure",
    "rank",
    "read_interactions",
    "read_labels",
    "read_names",
    "read_recommendations",
    "report",
    "reporting",
    "save_adjustment",
    "save_run",
    "save_split",
    "save_tuning",
    "search",
    "search_strengths",
    "spark",
    "split_as_given",
    "split_from_logs",
    "split_intervened",
    "split_mixed",
    "split_random",
    "split_temporal",
    "split_uniform",
    "sql",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"counterpop.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'counterpop' has no attribute {name!r}")
    value = getattr(import_module(f"counterpop.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return ["__doc__", "__version__", *__all__]
