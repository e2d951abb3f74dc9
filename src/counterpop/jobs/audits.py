"""Audits of other systems, from the vectors or the lists they write to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from counterpop.adapters.sources import Sources
from counterpop.artifacts import Subject
from counterpop.auditing import audit, audit_model
from counterpop.debiasing import as_embeddings, check_fit, in_order_of
from counterpop.interactions import Interactions, restrict
from counterpop.panels import Users
from counterpop.readers import LabelSources, read_recommendations
from counterpop.recommender import Recommender


def audit_lists(
    source: str | Path,
    log: Interactions,
    later: Interactions | None = None,
    about: LabelSources | None = None,
    **how: Any,
) -> Subject:
    """The audit of any system's lists, under the name of their file.

    `later` holds what users liked afterwards, `about` names and categories. `how` goes to `read_recommendations`.
    """
    found = read_recommendations(source, log, **how)
    held, notes = _match(later, found.log)
    more = (about or LabelSources()).read(found.log)
    one = audit(found.lists, found.users, found.log, held=held, notes={**found.notes, **notes}, **more)
    name, facts = Path(source).stem, {"recommendations": str(source), "order": found.order}
    return Subject({name: one}, [name], log, {"recommendations": [str(source)]}, facts)


def audit_vectors(
    sources: Sources,
    log: Interactions,
    later: Interactions | None = None,
    about: LabelSources | None = None,
    *,
    k: int = 20,
    drop_unknown: bool = False,
    users: Users = None,
    seed: int = 0,
) -> Subject:
    """The audit of the lists that vectors give for the users of a log; they leave out what the log holds.

    Every user and item of the log needs a vector, unless `drop_unknown` leaves out those without. Vectors whose rows
    do not belong to the log raise `InputError`, as in `debias`. `users` is as in `audit_model`; `seed` is that
    of a sample and of the pairs on which the order is checked.
    """
    vectors = as_embeddings(log=log, **sources.read())
    known = in_order_of(log, vectors, drop_unknown)
    check_fit(vectors, known, seed)
    held, notes = _match(later, known)
    axis = np.eye(1, vectors.dim, dtype=np.float32)[0]  # any direction: at strength 0 it changes nothing
    model = Recommender(axis, axis, 0.0, 0.0, embeddings=vectors, seen=known)
    notes["without_vector"] = len(log) - len(known)
    how: dict[str, Any] = {"users": users, "seed": seed, "held": held, "notes": notes}
    one = audit_model(model, known, k, **how, **(about or LabelSources()).read(known))
    paths = {role: str(path) for role, path in vars(sources).items() if path}
    name = Path(paths.get("model") or paths["item_vectors"]).stem
    return Subject({name: one}, [name], log, {role: [path] for role, path in paths.items()}, paths, {name: model})


def _match(later: Interactions | None, log: Interactions) -> tuple[Interactions | None, dict[str, int]]:
    """Held-out pairs in the positions of the log, and a note on how many have a user or item it lacks."""
    held = restrict(later, log.user_ids, log.item_ids) if later is not None else None
    return held, {"unknown_held_out": 0 if later is None or held is None else len(later) - len(held)}
