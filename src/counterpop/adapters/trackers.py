"""MLflow, TensorBoard and Weights & Biases: pass a tracker to `train` as `on_progress`, and `record` what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counterpop.errors import InputError
from counterpop.evaluation import Evaluation
from counterpop.progress import Progress
from counterpop.runs import Run

METRICS = ("recall", "hit_rate", "ndcg", "average_popularity", "tail_share", "coverage", "gini")


class Tracker:
    """Logs the loss and the best validation recall after every epoch; `record` logs a finished run or evaluation."""

    def __init__(
        self, log: Callable[[dict[str, float], int], Any], note: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        self._log, self._note = log, note or (lambda settings: None)

    def __call__(self, progress: Progress) -> None:
        values = {f"{progress.stage}/loss": progress.loss, f"{progress.stage}/seconds": progress.seconds}
        if progress.best is not None:
            values[f"{progress.stage}/best_recall"] = progress.best
        self._log(values, progress.epoch)

    def record(self, result: Run | Evaluation) -> None:
        """Logs the settings of a run, or the metrics of an evaluation, plain and adjusted."""
        if isinstance(result, Run):
            plain = {n: v for n, v in result.settings.items() if isinstance(v, str | int | float | bool)}
            self._note(plain)
            return
        sides = {"plain": result.plain, "adjusted": result.adjusted}
        self._log({f"{result.on}/{side}/{m}": getattr(one, m) for side, one in sides.items() for m in METRICS}, 0)


@contextmanager
def track_mlflow(uri: str | None = None, experiment: str = "counterpop", name: str | None = None) -> Iterator[Tracker]:
    """A run of MLflow; `uri` is where it is stored, by default as MLflow is configured."""
    with _needed("mlflow"):
        import mlflow
    if uri is not None:
        mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=name):
        yield Tracker(
            lambda values, step: mlflow.log_metrics(values, step=step), lambda settings: mlflow.log_params(settings)
        )


@contextmanager
def track_tensorboard(folder: str | Path) -> Iterator[Tracker]:
    """Event files for TensorBoard in a folder; settings are not written, because it has no place for them."""
    with _needed("tensorboard"):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    writer = EventFileWriter(str(folder))

    def log(values: Mapping[str, float], step: int) -> None:
        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        writer.add_event(Event(step=step, summary=Summary(value=scalars)))

    try:
        yield Tracker(log)
    finally:
        writer.close()


@contextmanager
def track_wandb(project: str = "counterpop", **init: Any) -> Iterator[Tracker]:
    """A run of Weights & Biases; `init` are further keywords of `wandb.init`, such as mode="offline"."""
    with _needed("wandb"):
        import wandb
    with wandb.init(project=project, **init) as run:
        yield Tracker(lambda values, step: run.log({**values, "epoch": step}), run.config.update)


@contextmanager
def _needed(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"this needs {name}: pip install 'counterpop[{name}]'") from error
