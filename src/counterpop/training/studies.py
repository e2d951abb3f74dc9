"""What a search has tried, in Optuna's studies: in memory, or in a file that an interrupted search goes on from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpop.errors import ArtifactError, InputError
from counterpop.locks import locked

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages.journal import JournalStorage


@contextmanager
def open_studies(storage: str | Path | None, given: Mapping[str, Any]) -> Iterator[tuple[Study, Study]]:
    """The studies of the two rounds, in memory or in a file; Optuna reports only warnings meanwhile."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise InputError("a search needs Optuna: pip install 'counterpop[search]'") from error
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with ExitStack() as held:
        held.callback(optuna.logging.set_verbosity, level)
        options: dict[str, Any] = {"direction": "maximize", "load_if_exists": True}
        options["storage"] = None if storage is None else held.enter_context(_journal(Path(storage)))
        studies = tuple(optuna.create_study(study_name=f"round {number}", **options) for number in (1, 2))
        before = studies[0].user_attrs.get("given")
        if before not in (None, given):
            raise InputError(
                f"{storage} belongs to a search with other settings or data; continue that one or remove the file"
            )
        studies[0].set_user_attr("given", given)
        seed = given["seed"] + len(studies[0].trials)  # a search that goes on must not propose the same again
        studies[0].sampler = optuna.samplers.TPESampler(seed=seed)
        for study in studies:  # what was interrupted is tried again
            for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
                study.enqueue_trial(trial.params)
        yield studies[0], studies[1]


@contextmanager
def _journal(path: Path) -> Iterator[JournalStorage]:
    """Optuna's storage in a file, which only this process may use; a line that a full disk cut short is dropped."""
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    with locked(path):
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)  # Optuna's own, which a killed search leaves
        damaged = ArtifactError(f"{path} is damaged, or no search at all; delete it to search from the beginning")
        written = path.read_bytes() if path.exists() else b""
        if not written.startswith(b'{"op_code":'[: len(written)]):
            raise damaged
        if cut := len(written) - written.rfind(b"\n") - 1:
            os.truncate(path, len(written) - cut)
        try:
            storage = JournalStorage(JournalFileBackend(str(path)))
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError):
            raise damaged from None
        yield storage
