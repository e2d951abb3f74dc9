"""Trackers against the real thing, with local storage: what was logged is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

import counterpop as cp
from counterpop.adapters import trackers
from counterpop.progress import Progress

RUN = cp.Run(None, settings={"dim": 8, "method": "gradient", "race": {"x": 1}})  # type: ignore[arg-type]
EPOCHS = [Progress("train", n, 3, 0.9 / n, 0.1 * n, 0.01) for n in (1, 2, 3)]


def feed(tracker: trackers.Tracker) -> None:
    for progress in EPOCHS:
        tracker(progress)
    tracker.record(RUN)


def test_tensorboard_events_are_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with trackers.track_tensorboard(tmp_path) as tracker:
        feed(tracker)
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("train/loss")
    assert [event.step for event in events] == [1, 2, 3]
    assert [event.value for event in events] == pytest.approx([progress.loss for progress in EPOCHS])


@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_metrics_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/runs.db"
    with trackers.track_mlflow(uri) as tracker:
        feed(tracker)
        number = mlflow.active_run().info.run_id
    client = mlflow.MlflowClient(uri)
    history = client.get_metric_history(number, "train/best_recall")
    assert [(one.step, one.value) for one in history] == [(p.epoch, p.best) for p in EPOCHS]
    assert client.get_run(number).data.params == {"dim": "8", "method": "gradient"}


@pytest.mark.filterwarnings("ignore")
def test_wandb_offline_writes_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    seen = {}
    with trackers.track_wandb(mode="offline", dir=str(tmp_path)) as tracker:
        feed(tracker)
        import wandb

        seen |= dict(wandb.run.summary)  # type: ignore[union-attr]
        assert wandb.run.config["dim"] == 8  # type: ignore[union-attr]
    assert seen["train/loss"] == pytest.approx(0.3) and seen["epoch"] == 3
    assert list(tmp_path.rglob("*.wandb"))
