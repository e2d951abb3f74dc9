"""Run folders as the server loads and watches them."""

from __future__ import annotations

from pathlib import Path

from counterpop.artifacts import MANIFEST, load_development, load_run
from counterpop.readers import read_names
from counterpop.serving.model import ServedModel, Trial
from counterpop.serving.watching import Source


def load_served(
    run: str | Path, names: str | Path | None = None, item: str = "item", name: str = "name"
) -> ServedModel:
    """A run folder ready to serve, with what the first requests need already computed.

    `names` is a table with the columns `item` and `name`.
    """
    saved, known = load_run(run), load_development(run)
    model = ServedModel(
        Path(run).resolve().name,
        saved.manifest["written"],
        saved.recommender(known),
        saved.trained_on(known),
        Trial(saved.recommender(known, "valid"), known.valid),
        read_names(names, saved.run.embeddings.item_ids, item=item, name=name) if names else None,
    )
    _ = model.popular
    return model


def source_of(run: str | Path, names: str | Path | None = None, item: str = "item", name: str = "name") -> Source:
    """A run folder to watch: every new run replaces its manifest."""

    def stamp() -> object:
        try:
            status = (Path(run) / MANIFEST).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    return Source(lambda: load_served(run, names, item, name), stamp)
