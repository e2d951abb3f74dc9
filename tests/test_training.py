"""Training learns what there is to learn, repeats itself bit for bit, and sees only what it may."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from builders import make_log
from counterpop.embeddings import Embeddings
from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Interactions, head
from counterpop.ranking import rank, tie_order
from counterpop.runs import Model, Run
from counterpop.splits import Development, Split, split_uniform
from counterpop.training import Progress, Settings, train
from counterpop.training.backbones.contract import Start
from counterpop.training.backbones.mf import MatrixFactorisation
from counterpop.training.loop import scheduled
from counterpop.tuning import tune
from counterpop.worlds import make_world, taste_recall
from training_cases import known_answer

QUICK = {
    "loss": "bpr",
    "negative_power": 0.0,
    "dim": 8,
    "epochs": 4,
    "lr": 0.05,
    "schedule": "constant",
    "sampling": "interactions",
    "check_every": 2,
    "ledger_every": 1,
    "threads": 1,
}


def same_bits(first: Model, second: Model) -> bool:
    return (
        np.array_equal(first.embeddings.user_vectors, second.embeddings.user_vectors)
        and np.array_equal(first.embeddings.item_vectors, second.embeddings.item_vectors)
        and np.array_equal(first.ledger.items, second.ledger.items)
        and np.array_equal(first.ledger.users, second.ledger.users)
    )


def trained(log: Interactions, epochs: int, **settings: object) -> Model:
    """A model trained without the loop."""
    chosen = Settings(**{**QUICK, **settings})
    trainee = MatrixFactorisation(Start(log, chosen))
    for _ in range(epochs):
        trainee.epoch(chosen.lr)
    return trainee.model()


# --- repeating ---


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("sampling", ["interactions", "users"])
def test_the_same_seed_and_threads_give_the_same_bits(split: Split, threads: int, sampling: str) -> None:
    settings = QUICK | {"threads": threads, "sampling": sampling}
    first, again, other = (train(split, seed=seed, **settings) for seed in (5, 5, 6))
    assert same_bits(first.model, again.model)
    assert [row["loss"] for row in first.history] == [row["loss"] for row in again.history]
    assert not same_bits(first.model, other.model)


def test_a_development_alone_gives_the_run_of_its_split(split: Split) -> None:
    whole, alone = train(split, refit=True, **QUICK), train(split.development, refit=True, **QUICK)
    assert same_bits(whole.model, alone.model)
    assert same_bits(whole.refit, alone.refit)
    assert whole.settings == alone.settings


# --- learning ---


@pytest.mark.parametrize(
    ("loss", "normalised", "sampling", "threads"),
    list(itertools.product(["bpr", "bce"], [True, False], ["interactions", "users"], [1, 2])),
)
def test_a_known_answer_is_learned(loss: str, normalised: bool, sampling: str, threads: int) -> None:
    known, test = known_answer()
    run = train(
        known,
        loss=loss,
        normalised=normalised,
        sampling=sampling,
        threads=threads,
        dim=8,
        epochs=60,
        lr=0.05,
        schedule="constant",
        ledger_every=1,
    )
    vectors, users = run.embeddings, np.arange(60, dtype=np.int32)
    lists, _ = rank(
        vectors.user_vectors,
        vectors.item_vectors,
        6,
        users=users,
        seen=[known.train, known.valid],
        ties=tie_order(vectors.item_ids),
    )
    assert len(test) == 60 * 6  # all that is left of what they like
    assert np.mean(lists % 2 == users[:, None] % 2) > 0.99
    losses = [row["loss"] for row in run.history]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("negatives", [1, 3])
def test_more_negatives_are_more_triples(split: Split, negatives: int) -> None:
    ledger = trained(split.train, 2, negatives=negatives).ledger
    assert ledger.triples == 2 * negatives * len(split.train)


# --- the ledger ---


def test_the_ledger_does_not_change_training(split: Split) -> None:
    with_ledger, without = trained(split.train, 3), trained(split.train, 3, ledger=False)
    assert np.array_equal(with_ledger.embeddings.user_vectors, without.embeddings.user_vectors)
    assert np.array_equal(with_ledger.embeddings.item_vectors, without.embeddings.item_vectors)
    assert without.ledger is None


def test_a_sampled_ledger_estimates_the_whole_sum(split: Split) -> None:
    whole, part = (trained(split.train, 30, ledger_every=every).ledger for every in (1, 8))
    assert (whole.every, part.every) == (1, 8)
    popular = head(split.train.item_counts)
    for name in ("item_pull", "item_push"):
        full, estimate = (getattr(ledger, name)()[popular].sum(axis=0) for ledger in (whole, part))
        assert np.linalg.norm(estimate - full) < 0.05 * np.linalg.norm(full), name


def test_pull_and_push_cancel_over_all_items_but_not_over_the_popular(split: Split) -> None:
    ledger = trained(split.train, 30).ledger
    net = ledger.item_pull("count").astype(np.float64) - ledger.item_push("count")
    popular = np.linalg.norm(net[head(split.train.item_counts)].sum(axis=0))
    assert np.linalg.norm(net.sum(axis=0)) < 1e-3 * popular
    assert popular > 100


# --- stopping, schedule, refit ---


def test_early_stopping_keeps_the_best_epoch(split: Split) -> None:
    settings = QUICK | {"epochs": 400, "check_every": 3, "patience": 2, "lr": 0.3}
    run = train(split, refit=False, **settings)
    looks = {row["epoch"]: row["valid"] for row in run.history if "valid" in row}
    best = max(looks, key=lambda epoch: (looks[epoch], -epoch))
    assert run.settings["chosen_epochs"] == best
    assert list(looks) == list(range(3, best + 2 * 3 + 1, 3))  # two more looks, then no more
    assert len(run.history) == best + 6 < 400
    assert same_bits(run.model, trained(split.train, best, lr=0.3))
    assert not same_bits(run.model, trained(split.train, best + 6, lr=0.3))


def test_the_last_epoch_is_always_looked_at(split: Split) -> None:
    run = train(split, **QUICK | {"epochs": 5, "check_every": 3})
    assert [row["epoch"] for row in run.history if "valid" in row] == [3, 5]


def test_schedules() -> None:
    rates = {
        name: [scheduled(Settings(epochs=4, lr=0.8, schedule=name), epoch) for epoch in (1, 2, 3, 4)]
        for name in ("constant", "linear", "cosine")
    }
    root = math.sqrt(0.5)
    assert rates["constant"] == [0.8] * 4
    assert rates["linear"] == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert rates["cosine"] == pytest.approx([0.8, 0.4 * (1 + root), 0.4, 0.4 * (1 - root)])


def test_the_schedule_reaches_the_steps(split: Split) -> None:
    fixed, falling = (train(split, **QUICK | {"schedule": name}) for name in ("constant", "linear"))
    assert fixed.history[0]["loss"] == falling.history[0]["loss"]
    assert not same_bits(fixed.model, falling.model)


def test_a_refit_is_training_on_train_and_validation(split: Split) -> None:
    run = train(split, refit=True, **QUICK)
    known = split.development
    assert same_bits(run.model, trained(known.train, run.settings["chosen_epochs"]))
    assert same_bits(run.refit, trained(known.refit_train(), run.settings["chosen_epochs"]))
    assert run.final is run.refit and run.embeddings is run.refit.embeddings
    assert train(split, refit=False, **QUICK).refit is None


def test_an_item_that_only_validation_knows_is_pulled_after_a_refit() -> None:
    known, _ = known_answer()
    only = known.train.item_ix == 7
    run = train(Development(known.train.rows(~only), known.train.rows(only)), refit=True, **QUICK)
    assert not run.model.ledger.item_pull("count")[7].any()
    assert run.refit.ledger.item_pull("count")[7].any()


def test_progress_is_reported_for_every_epoch(split: Split) -> None:
    seen: list[Progress] = []
    run = train(split, refit=True, on_progress=seen.append, **QUICK)
    chosen = run.settings["chosen_epochs"]
    assert [(p.stage, p.epoch, p.epochs) for p in seen] == [("train", n, 4) for n in (1, 2, 3, 4)] + [
        ("refit", n, chosen) for n in range(1, chosen + 1)
    ]
    assert [p.loss for p in seen[:4]] == [row["loss"] for row in run.history]
    assert seen[0].best is None and seen[3].best == max(row.get("valid", 0) for row in run.history)


# --- settings ---


def test_the_method_decides_normalisation_and_ledger_by_default() -> None:
    assert (Settings().normalises, Settings().keeps_ledger) == (True, True)
    plain = Settings(method="plain")
    assert (plain.normalises, plain.keeps_ledger) == (False, False)
    assert Settings(method="plain", normalised=True).normalises
    assert not Settings(ledger=False).keeps_ledger


def test_plain_training_has_no_ledger_and_other_vectors(split: Split) -> None:
    plain, gradient = (train(split, method=method, **QUICK) for method in ("plain", "gradient"))
    assert plain.ledger is None and gradient.ledger is not None
    assert not np.array_equal(plain.embeddings.item_vectors, gradient.embeddings.item_vectors)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "hinge"}, "the loss of gradient must be bpr or bce or softmax, got 'hinge'"),
        ({"sampling": "items"}, "sampling must be one of interactions, users, got 'items'"),
        ({"method": "magic"}, "method must be one of plain, gradient.*, got 'magic'"),
        ({"backbone": "tree"}, "backbone must be one of mf.*, got 'tree'"),
        ({"schedule": "step"}, "schedule must be one of constant, linear, cosine, got 'step'"),
        ({"dim": 0}, "dim must be a whole number of at least 1, got 0"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"negatives": 0}, "negatives must be a whole number of at least 1, got 0"),
        ({"ledger_every": 0}, "ledger_every must be a whole number of at least 1, got 0"),
        ({"check_every": 0}, "check_every must be a whole number of at least 1, got 0"),
        ({"patience": 0}, "patience must be a whole number of at least 1, got 0"),
        ({"threads": 0}, "threads must be a whole number of at least 1, got 0"),
        ({"lr": 0.0}, "lr and initial_scale must be above 0"),
        ({"dim": "64"}, "dim must be a whole number of at least 1, got '64'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"negative_power": float("nan")}, "negative_power must be a finite number of at least 0, got nan"),
        ({"reg": -1.0}, "reg must be a finite number of at least 0, got -1.0"),
        ({"reg": 30.0}, "reg must be below 1/lr = .*, got 30.0"),
        ({"speed": 3}, "'speed' is not a setting; did you mean 'seed'\\? There are backbone, method, "),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(split: Split, settings: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        train(split, **settings)


def test_data_that_cannot_be_trained_on_is_refused(split: Split) -> None:
    empty = make_log([], split.train.n_users, split.train.n_items)
    with pytest.raises(InputError, match="training needs a validation part to know when to stop, but it is empty"):
        train(dataclasses.replace(split.development, valid=empty), **QUICK)


@pytest.mark.parametrize("loss", ["bpr", "bce"])
@pytest.mark.parametrize("threads", [1, 2])
def test_diverging_training_is_reported(split: Split, loss: str, threads: int) -> None:
    # the loss is recorded now and then, so that the vectors may be the first to show it
    said = r"the loss diverged in epoch \d+; lower lr|vectors must be finite.*lower the learning"
    with pytest.raises(InputError, match=said):
        train(split, method="plain", loss=loss, lr=50.0, reg=0.0, epochs=60, threads=threads)


# --- the made-up world ---


def test_adjusted_lists_find_the_true_taste_that_plain_ones_miss() -> None:
    """The claim of the whole package, where the truth is known: strengths come from validation alone."""
    world = make_world()
    split = split_uniform(world.log, ordinary=0, seed=1)
    run: Run = train(split.development, loss="bpr", negative_power=0.0, epochs=40, refit=False)
    best = tune(run, split.development, point="gain")
    vectors: Embeddings = run.embeddings
    found = []
    for adjustment in (best.with_strengths(0.0, 0.0), best):
        lists, _ = rank(
            adjustment.query(vectors.user_vectors),
            vectors.item_vectors,
            20,
            users=np.arange(world.log.n_users, dtype=np.int32),
            seen=[split.train],
            ties=tie_order(vectors.item_ids),
        )
        found.append(np.nanmean(taste_recall(world, lists, exclude=split.train)))
    plain, adjusted = found
    assert adjusted > 2 * plain
    assert adjusted > 0.4


def test_a_user_who_has_touched_everything_is_left_out_with_a_note() -> None:
    known, _ = known_answer()
    every_item = [(0, i) for i in range(known.train.n_items)]
    rows = np.column_stack([known.train.user_ix, known.train.item_ix]).tolist()
    full = make_log([*every_item, *rows], known.train.n_users, known.train.n_items)
    with pytest.warns(CounterpopWarning, match=r"1 users have touched every item \(first: 100\)"):
        run = train(Development(full, known.valid), refit=False, **QUICK)
    first = MatrixFactorisation(Start(full, Settings(**QUICK))).model()
    moved = (run.embeddings.user_vectors != first.embeddings.user_vectors).any(axis=1)
    assert not moved[0]
    assert moved[1:].all()
