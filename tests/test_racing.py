"""Settings that were not given are chosen by short trainings, the same as by hand."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.splits import Development, Split
from counterpop.training import Progress, Race, Settings, Trial, fitting, race, racing, train
from counterpop.training.backbones.contract import Start
from counterpop.training.backbones.mf import MatrixFactorisation
from counterpop.training.fitting import SLOW_PAIRS, candidates_of
from counterpop.training.racing import rounds_of
from counterpop.tuning import search_strengths

QUICK = {"dim": 8, "epochs": 40, "lr": 0.1, "threads": 1, "ledger_every": 1}


def by_hand(split: Split, epochs: int, **given: object) -> float:
    """Validation recall after this many epochs, at rates that fall to nearly 0, at the best of the coarse strengths."""
    settings = Settings(**QUICK | given)
    trainee = MatrixFactorisation(Start(split.train, settings))
    for epoch in range(epochs):
        trainee.epoch(settings.lr * (epochs - epoch) / epochs)
    model, (of_items, of_users) = trainee.model(), settings.method.looks
    case = model.embeddings, find_directions(model, split.train), split.train, split.valid
    return float(search_strengths(*case, item_strengths=of_items, user_strengths=of_users).values["recall"].max())


def test_train_takes_the_loss_and_power_that_short_trainings_rank_first(split: Split) -> None:
    run = train(split, refit=False, **QUICK)
    tried = run.settings["race"]["tried"]
    choices = [(row["loss"], row["negative_power"]) for row in tried]
    assert choices == [(loss, power) for loss in ("bpr", "bce") for power in (0.0, 0.25, 0.5, 0.75)]
    for row in tried:
        assert row["round"] == 1 and row["epochs"] == 40  # all of them: a log this small takes no time
        found = by_hand(split, 40, loss=row["loss"], negative_power=row["negative_power"])
        assert row["valid"] == pytest.approx(found, abs=1e-12)
    least = {row["loss"]: 0.95 * row["ordinary"] for row in tried if not row["negative_power"]}
    affordable = [row["valid"] if row["ordinary"] >= least[row["loss"]] else 0.0 for row in tried]
    loss, power = choices[int(np.argmax(affordable))]
    assert (run.settings["loss"], run.settings["negative_power"]) == (loss, power)
    assert run.settings["race"]["sentence"].startswith(
        f"Chosen by validation recall of short trainings: loss {loss}, negative_power {power}: "
    )
    named = train(split, refit=False, loss=loss, negative_power=power, **QUICK)
    assert "race" not in named.settings
    assert np.array_equal(named.embeddings.item_vectors, run.embeddings.item_vectors)


@pytest.mark.parametrize(("gain", "longer"), [(0.09, 1), (0.11, 2)])
def test_what_gains_much_by_twice_the_epochs_is_trained_for_twice_as_many(
    split: Split, monkeypatch: pytest.MonkeyPatch, gain: float, longer: int
) -> None:
    def pretend(known: Development, settings: Settings, *others: object) -> list[float]:
        return [(1 + gain) ** math.log2(settings.epochs) / (10 + settings.negative_power), 0.3]

    monkeypatch.setattr(racing, "try_settings", pretend)
    options = {"refit": False, "dim": 4, "loss": "bce", "threads": 1}
    settings = train(split, **options).settings
    *tried, last = settings["race"]["tried"]
    assert {row["round"] for row in tried} == {1} and last["round"] == 2
    assert (last["negative_power"], last["epochs"]) == (0.0, 2 * tried[0]["epochs"])
    assert settings["epochs"] == longer * Settings(loss="bce").epochs
    assert ("epochs gained 11%" in settings["race"]["sentence"]) == (longer == 2)
    given = train(split, **options, epochs=40).settings
    assert given["epochs"] == 40 and {row["round"] for row in given["race"]["tried"]} == {1}


@pytest.mark.parametrize(("gain", "dim"), [(0.04, 128), (0.06, 256)])
def test_what_gains_enough_by_twice_the_width_gets_it(
    split: Split, monkeypatch: pytest.MonkeyPatch, gain: float, dim: int
) -> None:
    def pretend(known: Development, settings: Settings, *others: object) -> list[float]:
        return [(1 + gain) ** math.log2(settings.dim) / (10 + settings.negative_power), 0.3]

    monkeypatch.setattr(racing, "try_settings", pretend)
    options = {"refit": False, "loss": "bce", "threads": 1}
    settings = train(split, **options).settings
    *tried, longer, last = settings["race"]["tried"]
    assert [row["dim"] for row in (*tried, longer)] == [128] * 5
    assert (last["dim"], last["negative_power"], last["epochs"]) == (256, 0.0, longer["epochs"])
    assert settings["dim"] == dim
    assert f"trainings: dim {dim}, negative_power 0.0: " in settings["race"]["sentence"]
    assert ("not 5% more" in settings["race"]["sentence"]) == last.get("too_little_gained", False) == (dim == 128)
    for named in ({"dim": 16}, {"epochs": 40}):
        given = train(split, **options, **named).settings
        assert given["dim"] == named.get("dim", 128) and all("dim" not in row for row in given["race"]["tried"])


def test_only_mf_is_tried_at_twice_the_width_and_only_where_the_longer_trial_found_something(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(known: Development, settings: Settings, *others: object) -> list[float]:
        tried.append((settings.epochs, settings.dim))
        return [0.0 if settings.epochs > longest and settings.dim == 128 else settings.dim / 2000, 0.3]

    tried: list[tuple[int, int]] = []
    longest = 250
    monkeypatch.setattr(racing, "try_settings", pretend)
    options = {"refit": False, "loss": "bce", "threads": 1, "check_every": 1, "patience": 1}
    assert train(split, **options).settings["dim"] == 128
    assert {dim for _, dim in tried} == {128} and max(tried) == (2 * longest, 128)
    longest = 10**6
    train(split, **options, backbone="lightgcn")
    assert {dim for _, dim in tried} == {128, Settings(backbone="lightgcn").dim}


def test_what_the_user_names_is_not_raced(split: Split) -> None:
    given = train(split, refit=False, negative_power=0.0, **QUICK).settings
    assert [set(row) for row in given["race"]["tried"]] == [{"loss", "round", "epochs", "valid", "ordinary"}] * 2
    assert given["negative_power"] == 0
    given = train(split, refit=False, loss="bce", **QUICK).settings
    assert [row["negative_power"] for row in given["race"]["tried"]] == [0.0, 0.25, 0.5, 0.75]
    assert given["loss"] == "bce"


def test_softmax_is_raced_for_a_price_where_it_takes_minutes_and_nothing_given_is_its_own(split: Split) -> None:
    """It has other epochs, so these are whole default trainings: narrow, with the fewest users there are."""
    run = train(split, refit=False, dim=4, threads=1, price=0.05)
    tried = [row for row in run.settings["race"]["tried"] if row["round"] == 1]
    assert [(row["loss"], row["logq"], row["temperature"]) for row in tried[8:]] == [
        ("softmax", 1.0, 0.15),
        ("softmax", 0.5, 0.15),
        ("softmax", -0.5, 0.1),
    ]
    assert {row["loss"] for row in tried[:8]} == {"bpr", "bce"}
    assert set(tried[0]) == set(tried[8]) >= {"loss", "negative_power", "logq", "temperature", "valid"}
    assert "lr" not in tried[0] and "loss softmax, temperature 0.15, logq 1.0: " in run.settings["race"]["sentence"]
    assert {row["epochs"] for row in tried[8:]} == {Settings(loss="softmax").epochs}
    within = train(split, refit=False, dim=4, threads=1).settings["race"]["tried"]
    assert [row["loss"] for row in within if row["round"] == 1] == ["bpr"] * 4 + ["bce"] * 4
    few = 1000
    assert len(candidates_of({"dim": 4}, None, few)) == 11
    assert len(candidates_of({"dim": 4}, None, SLOW_PAIRS + 1)) == 8
    for given in (
        {"loss": "bpr"},
        {"reg": 0.01},
        {"epochs": 50},
        {"temperature": None, "lr": 0.1},
        {"engine": "torch"},
    ):
        assert "softmax" not in {one.loss for one in candidates_of(given, None, few)}
    assert [one.loss for one in candidates_of({"method": "plain"}, None, few)] == ["bpr", "bce"]
    assert len(candidates_of({"backbone": "lightgcn"}, None, few)) == 8


def test_the_price_of_softmax_is_that_of_its_own_negatives() -> None:
    soft = tuple(Settings(loss="softmax", logq=q) for q in (1.0, -0.5))
    found = [(0.10, 0.40), (0.2, 0.30), (0.30, 0.2)]
    trials = tuple(Trial(n, 1, 5, valid, 1.0, ordinary) for n, (valid, ordinary) in enumerate(found))
    raced = Race((Settings(loss="bpr"), *soft), trials)
    assert [raced.is_costly(trial) for trial in trials] == [False, False, True]
    assert raced.winner is soft[0]
    backwards = Race(
        (Settings(loss="bpr"), *reversed(soft)), (trials[0], *(replace(trials[n], candidate=3 - n) for n in (2, 1)))
    )
    assert backwards.winner is soft[0]


def test_negatives_by_popularity_must_not_cost_more_than_the_price() -> None:
    bpr, bce = (tuple(Settings(loss=loss, negative_power=power) for power in (0.0, 0.5)) for loss in ("bpr", "bce"))
    found = [(0.10, 0.40), (0.30, 0.37), (0.20, 0.30), (0.25, 0.29)]  # valid, ordinary; BCE has less of it anyway
    trials = tuple(Trial(n, 1, 5, valid, 1.0, ordinary) for n, (valid, ordinary) in enumerate(found))
    raced = Race(bpr + bce, trials)
    assert [raced.is_costly(trial) for trial in trials] == [False, True, False, False]
    assert raced.winner is bce[1]
    assert [trial.candidate for trial in raced.ranking] == [3, 2, 0, 1]
    assert raced.sentence.count("too costly") == 1
    assert Race(bpr + bce, trials, price=0.08).winner is bpr[1]  # 7.5 % less than the same with uniform negatives
    assert Race(bpr + bce, trials, price=0.07).winner is bce[1]
    unknown = Race(bpr + bce, tuple(replace(trial, ordinary=None) for trial in trials))
    assert unknown.winner is bpr[1]


def test_uniform_negatives_are_never_too_costly() -> None:
    """On a log with few pairs an item, short trainings find more ordinary pairs with negatives by popularity."""
    candidates = tuple(Settings(loss="bce", negative_power=power) for power in (0.0, 0.75))
    raced = Race(candidates, (Trial(0, 1, 5, 0.04, 1.0, 0.18), Trial(1, 1, 5, 0.03, 1.0, 0.20)))
    assert not any(raced.is_costly(trial) for trial in raced.trials)
    assert raced.winner is candidates[0]


def test_a_draw_that_diverged_is_nothing_to_compare_with() -> None:
    candidates = tuple(Settings(loss="bpr", negative_power=power) for power in (0.0, 0.25, 0.75))
    found = [(0.0, 0.0), (0.1, 0.3), (0.2, 0.1)]
    raced = Race(candidates, tuple(Trial(n, 1, 5, valid, 1.0, ordinary) for n, (valid, ordinary) in enumerate(found)))
    assert raced.winner is candidates[1]


def test_a_price_needs_a_share_an_ordinary_part_and_a_choice(split: Split) -> None:
    with pytest.raises(InputError, match="price needs an ordinary part"):
        train(replace(split.development, ordinary=None), price=0.1, **QUICK)
    known = replace(split.development, ordinary=split.development.valid)
    for price in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError, match="price must be a share from 0 to 1"):
            train(known, price=price, **QUICK)
    with pytest.raises(InputError, match="nothing to choose"):
        train(known, price=0.1, loss="bpr", negative_power=0.5, **QUICK)


@pytest.mark.parametrize("given", [{"method": "dice"}, {"method": "macr"}, {"epochs": 39}], ids=str)
def test_without_a_choice_or_with_few_epochs_nothing_is_raced(split: Split, given: dict) -> None:
    run = train(split, refit=False, **QUICK | given)
    assert "race" not in run.settings
    assert (run.settings["loss"], run.settings["negative_power"]) == (Settings(**given).loss, 0)


def test_later_rounds_hold_the_best_of_the_round_before(split: Split) -> None:
    rates = (1e-4, 0.02, 0.05, 0.1, 0.2, 1e-3, 1e-5, 0.5, 0.3, 3e-4, 3e-5, 1e-6, 1e-7)
    candidates = [Settings(**QUICK | {"lr": rate, "epochs": 52}) for rate in rates]
    stages: list[Progress] = []
    found = race(split.development, candidates, 2.0, stages.append)
    first, second = ([trial for trial in found.trials if trial.round == number] for number in (1, 2))
    assert [trial.candidate for trial in first] == list(range(13))
    assert {trial.epochs for trial in first} == {4} and {trial.epochs for trial in second} == {26}
    best = sorted(first, key=lambda trial: -trial.valid)[:2]
    assert [trial.candidate for trial in second] == [trial.candidate for trial in best]
    assert found.winner is candidates[max(second, key=lambda trial: trial.valid).candidate]
    assert [row["lr"] for row in found.table()[:13]] == list(rates)
    assert Counter(p.stage for p in stages) == {"race 1 of 2": 52, "race 2 of 2": 52}
    assert [p.epoch for p in stages if p.stage == "race 2 of 2"] == list(range(1, 53))
    assert stages[-1].best == second[0].valid


@pytest.mark.parametrize("candidates", [1, 2, 3, 4, 5, 9, 17, 64, 65])
def test_a_race_costs_its_budget(candidates: int) -> None:
    rounds = rounds_of(candidates, 2.0)
    assert sum(size * share for size, share in rounds) == pytest.approx(2.0 if candidates > 1 else 0.0)
    assert [size for size, _ in rounds][:1] == ([candidates] if candidates > 1 else [])
    assert all(later <= -(-size // 12) for (size, _), (later, _) in pairwise(rounds))


def test_a_candidate_whose_loss_diverges_loses(split: Split) -> None:
    plain = QUICK | {"method": "plain", "reg": 0.0, "epochs": 120}
    wild, tame = (Settings(**plain | {"lr": rate}) for rate in (80.0, 0.05))
    found = race(split.development, [wild, tame], 1.0)
    assert found.winner is tame
    assert [trial.valid > 0 for trial in found.trials] == [False, True]


def test_a_race_needs_candidates_and_validation(split: Split) -> None:
    with pytest.raises(InputError, match="a race needs at least one candidate, got none"):
        race(split.development, [], 1.0)
    only = Settings(**QUICK)
    assert race(split.development, [only], 1.0).winner is only
    empty = replace(split.development, valid=split.valid.rows(np.zeros(len(split.valid), bool)))
    with pytest.raises(InputError, match="training needs a validation part"):
        race(empty, [only, only], 1.0)


def test_a_width_that_does_not_fit_in_memory_is_not_taken(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(known: Development, settings: Settings, *others: object) -> list[float]:
        if settings.dim > 128:
            raise MemoryError
        return [0.1, 0.3]

    monkeypatch.setattr(racing, "try_settings", pretend)
    settings = train(split, refit=False, loss="bce", threads=1).settings
    assert settings["dim"] == 128 and all("dim" not in row for row in settings["race"]["tried"])


def test_memory_that_runs_out_after_the_race_names_the_width_that_it_chose(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    def fail(*given: object) -> None:
        raise OutOfMemoryError

    monkeypatch.setattr(racing, "try_settings", lambda known, settings, *others: [settings.dim / 1000, 0.3])
    monkeypatch.setattr(fitting, "train_and_choose", fail)
    with pytest.raises(InputError, match=r"lower dim \(now 256\)"):
        train(split, refit=False, loss="bce", threads=1)
