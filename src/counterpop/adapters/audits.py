"""Audits of other systems, from the vectors or the lists they write to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from counterpop.adapters.sources import Sources
from counterpop.auditing import Audit, audit, audit_model
from counterpop.debiasing import as_embeddings, in_order_of
from counterpop.interactions import Interactions, restrict
from counterpop.readers import read_recommendations
from counterpop.recommender import Recommender


def audit_lists(
    source: str | Path, log: Interactions, later: Interactions | None = None, **how: Any
) -> tuple[Audit, str]:
    """The audit of any system's lists, and what the lists are sorted by: "rank", "score" or "rows".

    `later` holds what users liked afterwards. `how` is passed on to `read_recommendations`.
    """
    found = read_recommendations(source, log, **how)
    held, notes = _match(later, found.log)
    return audit(found.lists, found.users, found.log, held=held, notes={**found.notes, **notes}), found.order


def audit_vectors(
    user_vectors: str | Path,
    item_vectors: str | Path,
    log: Interactions,
    later: Interactions | None = None,
    *,
    k: int = 20,
    drop_unknown: bool = False,
) -> Audit:
    """The audit of the lists that vectors give for the users of a log; they leave out what the log holds.

    Every user and item of the log needs a vector, unless `drop_unknown` leaves out those without.
    """
    vectors = as_embeddings(log=log, **Sources(user_vectors, item_vectors).read())
    known = in_order_of(log, vectors, drop_unknown)
    held, notes = _match(later, known)
    axis = np.eye(1, vectors.dim, dtype=np.float32)[0]  # any direction: at strength 0 it changes nothing
    model = Recommender(axis, axis, 0.0, 0.0, embeddings=vectors, seen=known)
    return audit_model(model, known, k, held=held, notes={"without_vector": len(log) - len(known), **notes})


def _match(later: Interactions | None, log: Interactions) -> tuple[Interactions | None, dict[str, int]]:
    """Held-out pairs in the positions of the log, and a note on how many have a user or item it lacks."""
    held = restrict(later, log.user_ids, log.item_ids) if later is not None else None
    return held, {"unknown_held_out": 0 if later is None or held is None else len(later) - len(held)}
