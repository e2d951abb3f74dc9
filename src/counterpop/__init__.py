"""counterpop: find how much of a recommender is popularity rather than taste, and take it out.

The whole flow in ten lines:

>>> import counterpop as cp
>>> world = cp.make_world(300, 200, seed=0)                   # or cp.read_interactions("log.parquet")
>>> split = cp.split_uniform(world.log, test=2, valid=2, seed=0)
>>> run = cp.train(split, method="gradient", dim=8, epochs=20, seed=0)
>>> best = cp.tune(run, split)                                # strengths from validation
>>> result = cp.evaluate(best, split, on="test")
>>> bool(result.adjusted.average_popularity < result.plain.average_popularity)
True
>>> best.query(best.embeddings.user_vectors[:2]).shape        # send these to the index you have
(2, 8)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `as` tells type checkers that these are for everybody
    from counterpop.adjustment import Adjustment as Adjustment, adjust as adjust
    from counterpop.artifacts import (
        load_adjustment as load_adjustment,
        load_development as load_development,
        load_run as load_run,
        load_split as load_split,
        save_adjustment as save_adjustment,
        save_run as save_run,
        save_split as save_split,
        save_tuning as save_tuning,
    )
    from counterpop.auditing import Audit as Audit, audit as audit, audit_model as audit_model
    from counterpop.debiasing import Debiasing as Debiasing, debias as debias
    from counterpop.directions import Directions as Directions, find_directions as find_directions
    from counterpop.embeddings import Embeddings as Embeddings
    from counterpop.errors import (
        CounterpopError as CounterpopError,
        CounterpopWarning as CounterpopWarning,
        InputError as InputError,
    )
    from counterpop.evaluation import (
        Evaluation as Evaluation,
        Measures as Measures,
        compare as compare,
        evaluate as evaluate,
        measure as measure,
    )
    from counterpop.interactions import Interactions as Interactions, head as head
    from counterpop.ledger import Ledger as Ledger, gradient_picture as gradient_picture
    from counterpop.metrics.popularity import mean_by_rank as mean_by_rank
    from counterpop.ranking import rank as rank
    from counterpop.readers import (
        read_interactions as read_interactions,
        read_names as read_names,
        read_recommendations as read_recommendations,
    )
    from counterpop.runs import Model as Model, Run as Run
    from counterpop.splits import (
        Development as Development,
        Split as Split,
        split_as_given as split_as_given,
        split_intervened as split_intervened,
        split_mixed as split_mixed,
        split_random as split_random,
        split_temporal as split_temporal,
        split_uniform as split_uniform,
    )
    from counterpop.training import Settings as Settings, train as train
    from counterpop.tuning import (
        Grid as Grid,
        choose_strengths as choose_strengths,
        search_strengths as search_strengths,
        tune as tune,
    )
    from counterpop.worlds import World as World, make_world as make_world

__version__ = "0.1.0"

# Where each public name lives. They are imported on first use, so that `import counterpop` stays light.
_HOMES = {
    "adjustment": ("Adjustment", "adjust"),
    "artifacts": (
        "load_adjustment", "load_development", "load_run", "load_split",
        "save_adjustment", "save_run", "save_split", "save_tuning",
    ),
    "auditing": ("Audit", "audit", "audit_model"),
    "debiasing": ("Debiasing", "debias"),
    "directions": ("Directions", "find_directions"),
    "embeddings": ("Embeddings",),
    "errors": ("CounterpopError", "CounterpopWarning", "InputError"),
    "evaluation": ("Evaluation", "Measures", "compare", "evaluate", "measure"),
    "interactions": ("Interactions", "head"),
    "ledger": ("Ledger", "gradient_picture"),
    "metrics.popularity": ("mean_by_rank",),
    "ranking": ("rank",),
    "readers": ("read_interactions", "read_names", "read_recommendations"),
    "runs": ("Model", "Run"),
    "splits": (
        "Development", "Split", "split_as_given", "split_intervened", "split_mixed", "split_random",
        "split_temporal", "split_uniform",
    ),
    "training": ("Settings", "train"),
    "tuning": ("Grid", "choose_strengths", "search_strengths", "tune"),
    "worlds": ("World", "make_world"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'counterpop' has no attribute {name!r}")
    value = getattr(import_module(f"counterpop.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
