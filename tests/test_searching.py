"""The search: what it tries, what it keeps, and that an interrupted one goes on."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import counterpop as cp
from counterpop.errors import ArtifactError
from counterpop.training import searching
from counterpop.training.checkpoints import Interrupted

FEW = {"epochs": 20, "check_every": 10, "threads": 1, "ledger_every": 4}


@pytest.fixture(scope="module")
def split() -> cp.Split:
    return cp.split_uniform(cp.make_world(300, 150, mean_activity=20, seed=1).log, test=2, valid=2, seed=0)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of the search that goes on by 5 ms whenever it is read, so that a busy machine changes nothing."""
    monkeypatch.setattr(searching, "time", SimpleNamespace(perf_counter=itertools.count(0, 0.005).__next__))


@pytest.fixture(scope="module")
def run(split: cp.Split) -> cp.Run:
    return cp.search(split, minutes=0.15, backbone="mf", seed=0, ensemble=1, **FEW)


def test_the_leaderboard_is_sorted_and_its_first_row_is_trained(run: cp.Run) -> None:
    rows = run.settings["search"]["leaderboard"]
    for number in (1, 2):
        places = [("too_costly" in row, -row["valid"]) for row in rows if row["round"] == number]
        assert places == sorted(places)
    assert [row["round"] for row in rows] == sorted((row["round"] for row in rows), reverse=True)
    best = {name: value for name, value in rows[0].items() if name not in searching.NOT_SETTINGS}
    assert {name: run.settings[name] for name in best} == best
    assert run.refit is not None


def test_time_that_is_left_trains_an_ensemble(split: cp.Split) -> None:
    run = cp.search(split, minutes=0.3, backbone="mf", dim=8, loss="bpr", negative_power=0.5, refit=False, **FEW)
    assert run.settings["ensemble"] == searching.MEMBERS
    assert run.embeddings.item_vectors.shape[1] == 8 * searching.MEMBERS


@pytest.mark.parametrize(
    ("minutes", "per_look", "refit", "ensemble"),
    [(45.0, 0.0, False, None), (45.0, 0.0, True, None), (45.0, 4.0, True, None), (6.0, 0.0, False, 3)],
)
def test_the_last_training_fits_the_time_with_its_looks_and_its_refit(
    split: cp.Split, monkeypatch: pytest.MonkeyPatch, minutes: float, per_look: float, refit: bool, ensemble: int | None
) -> None:
    now, epoch = [0.0], 0.5
    planned: dict[str, object] = {}

    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        for _ in range(settings.epochs):
            now[0] += epoch
            advance(0.5, epoch)  # type: ignore[operator]
        now[0] += 2 * per_look  # on validation and on the ordinary part
        return [settings.lr, 0.1]

    monkeypatch.setattr(searching, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(searching, "try_settings", pretend)
    monkeypatch.setattr(
        searching, "train", lambda known, **settings: planned.update(settings) or cp.train(known, **FEW)
    )
    cp.search(split, minutes=minutes, backbone="mf", loss="bpr", dim=8, check_every=10, refit=refit, ensemble=ensemble)
    known, epochs = split.development, planned["epochs"]
    trainings = 1 + (len(known.train) + len(known.valid)) / len(known.train) if refit else 1
    needed = planned["ensemble"] * epochs * (epoch * trainings + per_look / 10)  # type: ignore[operator]
    left = 60 * minutes - now[0]
    assert needed <= left
    if ensemble:
        assert planned["ensemble"] == ensemble and needed > 0.8 * left
    elif planned["ensemble"] < searching.MEMBERS:
        assert needed * (1 + 1 / planned["ensemble"]) > 0.9 * left  # type: ignore[operator]


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize(("gain", "longer"), [(0.09, 1), (0.11, 2)])
def test_what_still_rises_is_trained_for_twice_the_epochs(
    split: cp.Split, monkeypatch: pytest.MonkeyPatch, gain: float, longer: int
) -> None:
    planned: dict[str, object] = {}

    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        advance(0.5, 1e-3)  # type: ignore[operator]
        return [(0.1 + settings.lr / 100) * (1 + gain) ** np.log2(settings.epochs)]

    monkeypatch.setattr(searching, "try_settings", pretend)
    monkeypatch.setattr(
        searching, "train", lambda known, **settings: planned.update(settings) or cp.train(known, **FEW)
    )
    cp.search(split, minutes=0.05, backbone="mf", loss="bpr", dim=8, refit=False)  # more than a doubling is measured
    assert planned["epochs"] == longer * cp.Settings(loss="bpr").epochs
    cp.search(split, minutes=0.1, backbone="mf", loss="bpr", dim=8, refit=False, epochs=20)
    assert planned["epochs"] == 20


def test_known_good_settings_are_tried_first(run: cp.Run) -> None:
    rows = run.settings["search"]["leaderboard"]
    default = cp.Settings()
    first = {"loss": default.loss, "dim": default.dim, "lr": default.lr, "reg": default.reg, "negative_power": 0.0}
    assert any(first.items() <= row.items() for row in rows)


def test_a_given_setting_is_kept(split: cp.Split) -> None:
    run = cp.search(split, minutes=0.02, backbone="mf", loss="bce", dim=8, refit=False, ensemble=2, **FEW)
    assert {(row["loss"], row["dim"]) for row in run.settings["search"]["leaderboard"]} == {("bce", 8)}
    assert run.refit is None
    assert run.embeddings.item_vectors.shape[1] == 2 * 8


@pytest.mark.usefixtures("steady")
def test_an_interrupted_search_goes_on(split: cp.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, tried = tmp_path / "search", list[str]()
    options = {"minutes": 0.05, "storage": journal, "backbone": "mf", "dim": 8, **FEW}

    def pretend(known: cp.Development, settings: cp.Settings, *rest: object) -> list[float]:
        rest[0](0.5, 0.01)  # type: ignore[operator]
        tried.append(f"{settings.loss} {settings.negative_power} {settings.epochs}")
        if len(tried) == 4:
            raise KeyboardInterrupt
        return [0.1 + len(tried) / 100]

    monkeypatch.setattr(searching, "try_settings", pretend)
    with pytest.raises(KeyboardInterrupt):
        cp.search(split, **options)
    cp.search(split, **options)
    _, *finished, interrupted, _ = tried[:5]  # each call starts with a probe of three epochs
    assert len(finished) == 2
    assert not set(finished) & set(tried[5:])
    assert interrupted in tried[5:]
    with pytest.raises(cp.InputError, match="belongs to a search with other settings"):
        cp.search(split, **options | {"dim": 16})


@pytest.mark.usefixtures("steady")
def test_a_slow_setting_is_dropped(split: cp.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = Counter[str]()

    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        for _ in range(min(3, settings.epochs)):
            epochs[settings.backbone] += 1
            advance(0.5, 1e-4 if settings.backbone == "mf" else 100.0)  # type: ignore[operator]
        return [float(np.exp(-abs(settings.negative_power - 0.5)))]

    monkeypatch.setattr(searching, "try_settings", pretend)
    run = cp.search(split, minutes=0.1, threads=1, refit=False, ensemble=1)
    most = 2 * len(searching.WIDTHS) * len(cp.Settings().method.losses)  # a smaller width or a loss may be tried again
    assert 0 < epochs["lightgcn"] <= most < epochs["mf"]
    assert run.settings["backbone"] == "mf"


@pytest.mark.usefixtures("steady")
def test_a_slow_loss_drops_only_itself(split: cp.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = set[tuple[str, int]]()

    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        tried.add((settings.loss, settings.dim))
        for _ in range(min(3, settings.epochs)):
            advance(0.5, 100.0 if settings.loss == "softmax" else 1e-4)  # type: ignore[operator]
        return [float(np.exp(-abs(settings.negative_power - 0.5)))]

    monkeypatch.setattr(searching, "try_settings", pretend)
    run = cp.search(split, minutes=0.1, backbone="mf", threads=1, refit=False, ensemble=1)
    width = cp.Settings().dim
    assert {("softmax", width), ("bpr", 2 * width), ("bce", 2 * width)} <= tried
    assert "softmax" not in {row["loss"] for row in run.settings["search"]["leaderboard"]}


@pytest.mark.usefixtures("steady")
def test_a_loss_with_fewer_epochs_is_tried_where_the_cheapest_is_too_slow(
    split: cp.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LightGCN has 150 epochs with BPR and 50 with softmax. The first trial is never dropped."""

    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        for _ in range(min(3, settings.epochs)):
            advance(0.5, 0.01 if settings.epochs == 3 else 0.06)  # type: ignore[operator]  # 3: to probe
        return [float(np.exp(-settings.lr))]

    monkeypatch.setattr(searching, "try_settings", pretend)
    run = cp.search(split, minutes=0.1, backbone="lightgcn", dim=8, threads=1, refit=False, ensemble=1)
    assert {row["loss"] for row in run.settings["search"]["leaderboard"]} == {"bpr", "softmax"}


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_what_costs_more_than_the_price_comes_last(split: cp.Split, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """Recall on even pairs rises with the steepness of the draw; on ordinary ones it falls by up to a third."""
    usual = cp.Settings(loss=loss)

    def steepness(draw: dict[str, float]) -> float:
        return draw["negative_power"] if loss == "bpr" else float(usual.logq or 0.0) - draw["logq"]

    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        advance(0.5, 0.01)  # type: ignore[operator]
        steep = steepness(settings.to_json())
        return [1.1 + steep, 0.3 - 0.1 * steep]

    monkeypatch.setattr(searching, "try_settings", pretend)
    known = replace(split.development, ordinary=split.development.valid)
    options = {"minutes": 0.02, "backbone": "mf", "loss": loss, "dim": 8, "refit": False, "ensemble": 1, **FEW}
    chosen = {}
    for price in (1.0, 0.2, 0.05):
        found = cp.search(known, price=None if price == 0.05 else price, **options).settings
        chosen[price] = steepness(found)
        board = found["search"]["leaderboard"]
        rows = [row for row in board if row["round"] == 1]
        assert rows == sorted(rows, key=lambda row: ("too_costly" in row, -row["valid"]))
        assert all(("too_costly" in row) == (row["ordinary"] < (1 - price) * 0.3) for row in rows)
        assert chosen[price] == max(steepness(row) for row in rows if row["ordinary"] >= (1 - price) * 0.3)
        lost = 1 - (0.3 - 0.1 * chosen[price]) / max(row["ordinary"] for row in rows)
        assert f"finds {lost:.1%} less on ordinary pairs" in found["search"]["sentence"]
        finalists = [row for row in board if row["round"] == 2]
        assert len(finalists) == searching.FINALISTS
        assert all(row["ordinary"] >= (1 - price) * 0.3 for row in finalists)
    assert chosen[0.05] < chosen[0.2] < chosen[1.0]


@pytest.mark.usefixtures("steady")
def test_a_loss_is_compared_with_its_own_usual_draw(split: cp.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """BPR finds less on ordinary pairs than BCE whatever it draws, which is no price of its draw."""

    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        advance(0.5, 0.01)  # type: ignore[operator]
        ahead = settings.loss == "bpr"
        return [0.1 + 0.2 * ahead + settings.negative_power, 0.3 - 0.1 * ahead - 0.1 * settings.negative_power]

    monkeypatch.setattr(searching, "try_settings", pretend)
    known = replace(split.development, ordinary=split.development.valid)
    found = cp.search(known, minutes=0.02, backbone="mf", dim=8, refit=False, ensemble=1, **FEW).settings
    assert found["loss"] == "bpr"
    assert found["negative_power"] <= 0.1


@pytest.mark.usefixtures("steady")
def test_what_draws_as_usual_is_never_too_costly(split: cp.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(known: cp.Development, settings: cp.Settings, advance: object, encoder: object = None) -> list[float]:
        advance(0.5, 0.01)  # type: ignore[operator]
        return [1 / settings.lr, settings.lr]  # a smaller rate finds more even pairs and fewer ordinary ones

    monkeypatch.setattr(searching, "try_settings", pretend)
    known = replace(split.development, ordinary=split.development.valid)
    options = {"minutes": 0.02, "backbone": "mf", "loss": "bpr", "negative_power": 0.0, "dim": 8, **FEW}
    board = cp.search(known, refit=False, ensemble=1, **options).settings["search"]["leaderboard"]
    assert len({row["lr"] for row in board}) > 2 and not any("too_costly" in row for row in board)
    assert board[0]["lr"] == min(row["lr"] for row in board)


def test_a_search_stops_when_asked(split: cp.Split, tmp_path: Path) -> None:
    asked: list[int] = []
    options = {"backbone": "mf", "dim": 8, "storage": tmp_path / "search", **FEW}
    with pytest.raises(Interrupted, match="keeps what was tried"):
        cp.search(split, minutes=5, should_stop=lambda: asked.append(1) or len(asked) > 3, **options)
    assert len(asked) == 4
    assert (tmp_path / "search").exists()


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_time_must_be_a_number_above_0(split: cp.Split, minutes: float) -> None:
    with pytest.raises(cp.InputError, match="minutes must be a number above 0"):
        cp.search(split, minutes=minutes)


def test_the_last_training_of_a_search_goes_on_as_it_began(split: cp.Split, tmp_path: Path) -> None:
    seen: list[cp.Progress] = []
    options = {"minutes": 0.02, "storage": tmp_path / "search", "checkpoint": tmp_path / "point", "backbone": "mf"}
    options |= {"dim": 8, "on_progress": seen.append, **FEW}
    with pytest.raises(Interrupted) as caught:
        cp.search(split, should_stop=lambda: seen[-1].stage.startswith("train") and seen[-1].epoch == 12, **options)
    kept = caught.value.run
    assert kept is not None and kept.settings["interrupted"] == 12
    seen.clear()
    run = cp.search(split, **options)
    assert seen[0].stage.startswith("train") and seen[0].epoch == 13  # nothing is tried again
    assert run.settings["search"]["leaderboard"][0]["loss"] == run.settings["loss"] == kept.settings["loss"]


def stop_in_a_search(split: cp.Split, journal: Path) -> None:
    asked = itertools.count()
    with pytest.raises(Interrupted):
        cp.search(split, minutes=1, storage=journal, backbone="mf", dim=8, should_stop=lambda: next(asked) > 20, **FEW)


def test_a_search_goes_on_after_a_full_disk_and_a_kill(split: cp.Split, tmp_path: Path) -> None:
    """Its journal ends within a line, and Optuna's lock on it is still there."""
    journal = tmp_path / "search"
    stop_in_a_search(split, journal)
    *whole, last = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(whole) + last[:-9])
    (tmp_path / "search.lock").symlink_to(journal)
    start = time.perf_counter()
    cp.search(split, minutes=1e-9, storage=journal, backbone="mf", dim=8, ensemble=1, refit=False, **FEW)
    assert time.perf_counter() - start < 20  # Optuna would wait for 30 seconds
    assert journal.read_bytes().startswith(b"".join(whole))


@pytest.mark.parametrize("line", [b"\xed\n", b"notes of mine", b'{"op_code":99999}\n', b'{"op_code":[]}\n'])
def test_a_damaged_journal_is_refused_and_left_as_it_is(split: cp.Split, tmp_path: Path, line: bytes) -> None:
    journal = tmp_path / "search"
    journal.write_bytes(line)
    with pytest.raises(ArtifactError, match="search is damaged, or no search at all; delete it"):
        cp.search(split, minutes=1e-9, storage=journal, backbone="mf", dim=8, **FEW)
    assert journal.read_bytes() == line


def test_a_journal_has_one_search_at_a_time(split: cp.Split, tmp_path: Path) -> None:
    code = "import sys, time, counterpop.locks as l\nwith l.locked(sys.argv[1]): print(flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path / "search"], stdout=subprocess.PIPE)
    assert other.stdout is not None and other.stdout.readline()
    try:
        with pytest.raises(cp.InputError, match=f"is being written by process {other.pid}"):
            cp.search(split, minutes=1e-9, storage=tmp_path / "search", backbone="mf", dim=8, **FEW)
    finally:
        other.kill()
        other.communicate()
