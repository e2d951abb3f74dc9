"""What several commands need of a run folder: its adjustment for a given model."""

from __future__ import annotations

from counterpop.adjustment import Adjustment
from counterpop.artifacts import SavedRun
from counterpop.cli.progress import console
from counterpop.directions import find_directions
from counterpop.evaluation import On
from counterpop.interactions import Interactions
from counterpop.splits import Development


def trained_on(saved: SavedRun, known: Development, on: On = "test") -> Interactions:
    """The interactions behind the model that `on` calls for."""
    return known.refit_train() if saved.run.refit is not None and on == "test" else known.train


def adjustment_for(saved: SavedRun, known: Development, on: On = "test") -> Adjustment:
    """The run's adjustment for the model that `on` calls for, at strengths 0 where it has not been tuned.

    Test and serving take the final model. Validation takes the first, which has not seen it.
    """
    if saved.adjustment is not None and (on == "test" or saved.run.refit is None):
        return saved.adjustment
    tuning = saved.manifest["tuning"] or {}
    if not tuning and saved.run.settings["method"] in ("gradient", "macr"):
        console.print(f"Note: {saved.path} has not been tuned, so its strengths are 0; run `counterpop tune` first.")
    refit = saved.run.refit is not None and on == "test"
    model = saved.run.final if refit else saved.run.model
    found = find_directions(
        model, trained_on(saved, known, on), tuning.get("item_direction"), tuning.get("user_direction")
    )
    strengths = tuning.get("item_strength", 0.0), tuning.get("user_strength", 0.0)
    return Adjustment(found.item, found.user, *strengths, model.embeddings, refit)
