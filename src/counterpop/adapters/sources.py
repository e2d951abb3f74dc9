"""Where vectors are read from: plain files or a saved model, and ids of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counterpop.adapters.files import read_ids, read_model, read_vectors
from counterpop.adapters.vectors import Vectors
from counterpop.errors import InputError


@dataclass(frozen=True)
class Sources:
    """The files to read vectors from: `user_vectors` and `item_vectors`, or a `model`; and ids of their rows."""

    user_vectors: str | Path | None = None
    item_vectors: str | Path | None = None
    model: str | Path | None = None
    user_ids: str | Path | None = None
    item_ids: str | Path | None = None

    def __post_init__(self) -> None:
        sides = [self.user_vectors is not None, self.item_vectors is not None]
        if any(sides) == (self.model is not None) or sides[0] != sides[1]:
            raise InputError("give --user-vectors and --item-vectors, or --model")

    def read(self) -> Vectors:
        """The vectors; ids from `user_ids` and `item_ids` take precedence over those in a vector file."""
        user_ids, item_ids = (read_ids(path) if path else None for path in (self.user_ids, self.item_ids))
        if self.model is not None:
            return read_model(self.model, user_ids=user_ids, item_ids=item_ids)
        (users, own_users), (items, own_items) = (read_vectors(str(p)) for p in (self.user_vectors, self.item_vectors))
        return Vectors(
            user_vectors=users,
            item_vectors=items,
            user_ids=own_users if user_ids is None else user_ids,
            item_ids=own_items if item_ids is None else item_ids,
        )
