"""The audit against a slow reference written from the definitions, and its verdict on known systems."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from builders import make_log, random_log, vectors_for
from counterpop.auditing import CLASSES, DEFINITIONS, NOTES, SEGMENTS, Audit, audit, audit_model
from counterpop.errors import InputError
from counterpop.interactions import Interactions, head
from counterpop.ledger import Ledger
from counterpop.metrics.popularity import jensen_shannon, mean_by_rank, popularity_classes
from counterpop.recommender import Recommender

N_USERS, N_ITEMS, K = 60, 40, 6


@pytest.fixture(scope="module")
def log() -> Interactions:
    """Popularity falls with the position; user 0 has no profile."""
    drawn = random_log(N_USERS, N_ITEMS, 0.9 / np.arange(1, N_ITEMS + 1) ** 0.5, seed=3)
    return drawn.rows(drawn.user_ix > 0)


@pytest.fixture(scope="module")
def held(log: Interactions) -> Interactions:
    """Later pairs, some of which are also in the log."""
    return random_log(N_USERS, N_ITEMS, 0.1, seed=4)


def some_lists(users: np.ndarray, seed: int = 0) -> np.ndarray:
    """(B, K) without repeats; every fifth is short, the last is empty."""
    draw = np.random.default_rng(seed)
    lists = np.stack([draw.permutation(N_ITEMS)[:K] for _ in users]).astype(np.int32)
    lists[::5, 4:] = -1
    lists[-1] = -1
    return lists


def slow_audit(lists: np.ndarray, users: np.ndarray, log: Interactions, held: Interactions) -> dict:
    """Every measure by loops over sets, from the words of its definition."""
    profile = {u: set(log.item_ix[log.user_ix == u].tolist()) for u in range(log.n_users)}
    later = {u: set(held.item_ix[held.user_ix == u].tolist()) - profile[u] for u in range(log.n_users)}
    shown = {int(u): [int(i) for i in row if i >= 0] for u, row in zip(users, lists, strict=True)}
    count = Counter(log.item_ix.tolist())
    order = sorted(range(log.n_items), key=lambda i: (-count[i], i))
    running, class_of = 0, {}
    for i in order:
        running += count[i]
        class_of[i] = "top" if running <= 0.2 * len(log) else "middle" if running <= 0.8 * len(log) else "tail"
    class_of[order[0]] = "top"
    tail = {i for i in order if class_of[i] == "tail"}
    filled = {u: items for u, items in shown.items() if items}
    both = {u: items for u, items in filled.items() if profile[u]}

    def mean(values: object) -> float:
        values = list(values)  # type: ignore[call-overload]
        return sum(values) / len(values)

    def mix(items: object) -> list[float]:
        found = Counter(class_of[i] for i in items)  # type: ignore[attr-defined]
        return [found[c] / sum(found.values()) for c in CLASSES]

    def spread(rates: list[float]) -> float:
        middle = mean(rates)
        return math.sqrt(mean((r - middle) ** 2 for r in rates)) / middle

    exposed = Counter(i for items in shown.values() for i in items)
    parity, opportunity = [], []
    for group in (set(order) - tail, tail):
        candidates = sum(len(group - profile[u]) for u in shown)
        parity.append(sum(i in group - profile[u] for u in shown for i in shown[u]) / candidates)
        found = sum(i in later[u] & group for u in shown for i in shown[u])
        opportunity.append(found / sum(len(later[u] & group) for u in shown))
    chosen = mean(mean(count[i] for i in profile[u]) for u in both)
    all_counts = [exposed[i] for i in order]
    average = mean(mean(count[i] for i in items) for items in both.values())
    attention = Counter()
    for items in filled.values():
        attention.update({i: 1 / math.log2(place + 2) for place, i in enumerate(items)})
    share = {i: count[i] / len(log) for i in order}
    seen = {i: attention[i] / sum(attention.values()) for i in order}

    def weighted_mix(items: list[int]) -> list[float]:
        weights = [1 / math.log2(place + 2) for place in range(len(items))]
        return [sum(w for w, i in zip(weights, items, strict=True) if class_of[i] == c) / sum(weights) for c in CLASSES]

    log_mix = [sum(share[i] for i in order if class_of[i] == c) for c in CLASSES]
    free = [sum(len(group - profile[u]) for u in shown) for group in (set(order) - tail, tail)]
    tail_of_log = sum(count[i] for i in tail) / len(log)
    places = sum(all_counts)
    # these lists repeat items of the profiles, so the draw is from all items
    expected = sum(count[i] ** 2 for i in order) / len(log)
    return {
        "average_popularity": average,
        "expected_popularity": expected,
        "amplification": (average - expected) / expected,
        "expected_tail_share": sum(count[i] for i in tail) / len(log),
        "profile_popularity": chosen,
        "highest_popularity": mean(count[i] for i in order[:K]),
        "popularity_lift": (average - chosen) / chosen,
        "tail_share": mean(mean(i in tail for i in items) for items in both.values()),
        "profile_tail_share": mean(mean(i in tail for i in profile[u]) for u in both),
        "tail_items": sum(i in tail for items in shown.values() for i in items) / len(shown),
        "tail_coverage": len(tail & exposed.keys()) / len(tail),
        "coverage": len(exposed) / log.n_items,
        "gini": sum(abs(a - b) for a in all_counts for b in all_counts) / (2 * log.n_items * sum(all_counts)),
        "log_gini": sum(abs(count[a] - count[b]) for a in order for b in order) / (2 * log.n_items * len(log)),
        "most_recommended_share": max(all_counts) / sum(all_counts),  # 1 % of 40 items, rounded up
        "miscalibration": mean(jensenshannon(mix(profile[u]), mix(items), base=2) ** 2 for u, items in both.items()),
        "pop_rsp": spread(parity),
        "expected_pop_rsp": spread([(1 - tail_of_log) / free[0], tail_of_log / free[1]]),
        "expected_coverage": mean(1 - (1 - share[i]) ** places for i in order),
        "log_top_share": max(share.values()),
        "exposure_disparity": sum(e**2 for e in seen.values()),
        "log_disparity": sum(t**2 for t in share.values()),
        "exposure_loss": sum((seen[i] - share[i]) ** 2 for i in order),
        "awrf": mean(1 - jensenshannon(weighted_mix(items), log_mix, base=2) ** 2 for items in both.values()),
        "pop_reo": spread(opportunity),
    }


@pytest.mark.parametrize("seed", range(3))
def test_every_measure_against_the_slow_reference(log: Interactions, held: Interactions, seed: int) -> None:
    users = np.random.default_rng(seed).permutation(N_USERS)[:50].astype(np.int32)
    lists = some_lists(users, seed)
    found = audit(lists, users, log, held=held)
    expected = slow_audit(lists, users, log, held)
    assert list(found.measures) == list(DEFINITIONS)
    assert found.measures == pytest.approx(expected, abs=1e-12)
    assert found.published == pytest.approx(
        {
            "ARP": expected["average_popularity"],
            "APLT": expected["tail_share"],
            "ACLT": expected["tail_items"],
            "PopRSP": expected["pop_rsp"],
            "PopREO": expected["pop_reo"],
            "EE-D": expected["exposure_disparity"],
            "EE-L": expected["exposure_loss"],
            "AWRF": expected["awrf"],
        }
    )


def test_published_measures_by_hand() -> None:
    # counts 4, 2, 1, 1 of 8: the first holds 50 %, the first two 75 % (head), the other two are the tail
    log = make_log([(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 2), (3, 3)], 4, 4)
    users, lists = np.array([0, 2], np.int32), np.array([[2, 3], [1, -1]], np.int32)
    held = make_log([(0, 2), (2, 1), (2, 3)], 4, 4)
    found = audit(lists, users, log, held=held)
    assert found.head_items == 2
    assert found.published["ARP"] == (1 + 2) / 2
    assert found.published["APLT"] == (1 + 0) / 2
    assert found.published["ACLT"] == (2 + 0) / 2
    # candidates: user 0 lacks 2 and 3, user 2 lacks 1 and 3; head 1 of 1 shown, tail 2 of 3
    assert found.published["PopRSP"] == pytest.approx((1 - 2 / 3) / 2 / ((1 + 2 / 3) / 2))
    # of the held-out pairs one of one head pair is found and one of two tail pairs
    assert found.published["PopREO"] == pytest.approx((1 - 1 / 2) / 2 / ((1 + 1 / 2) / 2))


def test_jensen_shannon_against_scipy() -> None:
    first, second = np.random.default_rng(0).dirichlet([0.3] * 5, (2, 100))
    outside = [jensenshannon(a, b, base=2) ** 2 for a, b in zip(first, second, strict=True)]
    assert jensen_shannon(first, second) == pytest.approx(outside, abs=1e-12)
    stacked = jensen_shannon(first.reshape(4, 25, 5), second.reshape(4, 25, 5))  # along the last axis
    assert stacked.shape == (4, 25) and stacked.ravel() == pytest.approx(outside, abs=1e-12)
    assert np.isnan(jensen_shannon(np.array([[np.nan, np.nan]]), np.array([[0.5, 0.5]])))[0]


def test_the_highest_popularity_of_users_who_have_nearly_everything() -> None:
    log = make_log([(0, i) for i in range(4)] + [(1, i) for i in range(5)] + [(2, 0), (3, 1)], 4, 5)
    # user 0 lacks only item 4; the most popular items for user 2 are 1 and 2
    found = audit(np.array([[4, -1], [3, 4]], np.int32), np.array([0, 2], np.int32), log)
    assert log.item_counts.tolist() == [3, 3, 2, 2, 1]
    assert found.measures["highest_popularity"] == np.mean([1, 2.5])


def test_lists_that_repeat_profiles_are_compared_with_all_items() -> None:
    log, _ = systems()
    hits = np.tile(np.argsort(-log.item_counts, kind="stable")[:10].astype(np.int32), (400, 1))
    found = audit(hits, np.arange(400, dtype=np.int32), log)
    assert found.notes["already_chosen"] > 0.01 * hits.size
    most = found.measures["average_popularity"]
    assert found.measures["highest_popularity"] == pytest.approx(most)
    times = f"{1 + found.measures['amplification']:.2f} times"
    assert f"recommending only the most popular items would give {times}" in found.verdict.text
    assert found.verdict.text.count(times) >= 2  # the lists have the same figure


def test_a_verdict_without_comparison_is_unknown() -> None:
    log = make_log([(u, i) for u in range(3) for i in range(3)], 3, 5)  # everybody has every item with interactions
    found = audit(np.array([[3, 4], [4, 3], [3, -1]], np.int32), np.arange(3, dtype=np.int32), log)
    assert math.isnan(found.measures["amplification"])
    assert found.verdict.leaning == "unknown"
    assert found.verdict.headline.startswith("The recommendations cannot be compared with the log")
    assert "nan" not in found.verdict.text


def test_segments_are_cut_by_the_share_of_head_items(log: Interactions) -> None:
    users = np.arange(N_USERS, dtype=np.int32)
    lists = some_lists(users)
    found = audit(lists, users, log)
    popular = head(log.item_counts)
    share = {u: popular[log.item_ix[log.user_ix == u]].mean() for u in range(1, N_USERS - 1)}
    low, high = np.quantile(list(share.values()), [0.2, 0.8])
    members = {
        "niche": [u for u, s in share.items() if s <= low],
        "mixed": [u for u, s in share.items() if low < s < high],
        "mainstream": [u for u, s in share.items() if s >= high],
    }
    assert [s["name"] for s in found.segments] == list(SEGMENTS)
    for segment in found.segments:
        mine = members[segment["name"]]
        separate = audit(lists[mine], users[mine], log)
        assert segment["users"] == len(mine) > 5
        for name in ("average_popularity", "amplification", "popularity_lift", "tail_share", "miscalibration"):
            assert segment[name] == pytest.approx(separate.measures[name])
        assert segment["head_share"] == pytest.approx(np.mean([share[u] for u in mine]))
        for what in ("profile", "lists"):
            assert sum(segment[what].values()) == pytest.approx(1)
        assert segment["lists"]["tail"] == pytest.approx(segment["tail_share"])
    assert found.segments[0]["head_share"] < found.segments[1]["head_share"] < found.segments[2]["head_share"]


def test_users_with_equal_shares_stay_in_one_segment() -> None:
    log = make_log([(u, i) for u in range(10) for i in range(2)], 10, 4)  # all profiles are the same
    segments = audit(np.full((10, 1), 2, np.int32), np.arange(10, dtype=np.int32), log).segments
    assert [s["users"] for s in segments] == [0, 10, 0]
    assert math.isnan(segments[0]["popularity_lift"])


def test_groups_and_curve_cover_every_recommendation(log: Interactions) -> None:
    users = np.arange(N_USERS, dtype=np.int32)
    lists = some_lists(users)
    found = audit(lists, users, log)
    for what in ("interactions", "frequency"):
        assert sum(group[what] for group in found.groups) == pytest.approx(1)
    assert [group["items"] for group in found.groups] == [2, 2, 2, 2, 32]
    two = np.argsort(-log.item_counts, kind="stable")[:2]
    assert found.groups[0]["frequency"] == pytest.approx(np.isin(lists, two).sum() / (lists >= 0).sum())
    ranks, values = mean_by_rank(found.exposure.astype(float), found.item_counts, 1000)
    assert ranks.tolist() == list(range(1, N_ITEMS + 1))  # enough bins: one for each item
    assert values.tolist() == found.exposure[np.argsort(-log.item_counts, kind="stable")].tolist()


def test_notes_count_what_is_unusual_in_the_input(log: Interactions, held: Interactions) -> None:
    users = np.arange(50, dtype=np.int32)
    lists = some_lists(users)
    found = audit(lists, users, log, held=held, notes={"repeated": 7, "unknown_users": 0})
    seen = {(u, i) for u, i in zip(log.user_ix.tolist(), log.item_ix.tolist(), strict=True)}
    again = sum((u, int(i)) in seen for u, row in enumerate(lists) for i in row)
    both = sum((u, i) in seen for u, i in zip(held.user_ix.tolist(), held.item_ix.tolist(), strict=True))
    assert found.notes == {
        "short_lists": 10,
        "empty_lists": 1,
        "users_without_list": 10,
        "users_without_profile": 1,
        "already_chosen": again,
        "repeated": 7,
        "known_held_out": both,
    }
    assert "Lists of fewer than 6 items: 10." in found.sentences
    assert len(found.sentences) == len(found.notes)
    assert set(found.notes) <= set(NOTES)


def test_unknown_figures_are_nan(log: Interactions) -> None:
    users = np.arange(N_USERS, dtype=np.int32)
    assert math.isnan(audit(some_lists(users), users, log).measures["pop_reo"])
    stranger = audit(np.array([[0, 1]], np.int32), np.array([0], np.int32), log)
    assert stranger.verdict.leaning == "popular"  # compared only with the log
    assert math.isnan(stranger.measures["popularity_lift"])
    assert stranger.measures["average_popularity"] == log.item_counts[:2].mean()
    assert "nan" not in stranger.verdict.text


# ------------------------------------------------------------------------------------- known systems


def systems() -> tuple[Interactions, dict[str, np.ndarray]]:
    """Lists of hits, of draws in proportion to interactions, of the tail, of the middle, and of hits and tail."""
    draw = np.random.default_rng(0)
    chance = 0.9 / np.arange(1, 501) ** 0.8
    log = random_log(400, 500, chance, seed=1)
    popular = head(log.item_counts)
    unseen = np.ones((400, 500), bool)
    unseen[log.user_ix, log.item_ix] = False
    scores = {
        "popular": np.where(unseen, log.item_counts, -np.inf),
        # the largest of log(u) / weight are a draw by weight without replacement
        "even": np.where(unseen, np.log(draw.random((400, 500))) / np.maximum(log.item_counts, 1e-9), -np.inf),
        "tail": np.where(popular, -np.inf, draw.random((400, 500))),
        "middle": np.where(popular & (log.item_counts < 60), draw.random((400, 500)), -np.inf),
    }
    lists = {}
    for name, of_items in scores.items():
        best = np.argsort(-of_items, axis=1)[:, :10].astype(np.int32)
        lists[name] = np.where(np.isfinite(np.take_along_axis(of_items, best, axis=1)), best, np.int32(-1))
    return log, lists | {"ends": np.hstack([lists["popular"][:, :5], lists["tail"][:, :5]])}


def test_the_verdict_recognises_each_system() -> None:
    log, lists = systems()
    everybody = np.arange(400, dtype=np.int32)
    found = {name: audit(rows, everybody, log) for name, rows in lists.items()}
    for name, one in found.items():
        assert one.verdict.leaning == name
        assert one.verdict.text.startswith(one.verdict.headline)
        assert "\n" not in one.verdict.text
        assert f"{1 + one.measures['amplification']:.2f} times" in one.verdict.text
        assert f"gets {100 * one.measures['tail_share']:.1f} % of the recommendations" in one.verdict.text
    share = {u: log.item_ix[log.user_ix == u] for u in range(400)}
    draws = [np.delete(log.item_counts, share[u]) for u in range(400)]
    expected = np.mean([(counts**2).sum() / counts.sum() for counts in draws])
    assert found["popular"].measures["expected_popularity"] == pytest.approx(expected)
    from_tail = [
        log.item_counts[np.setdiff1d(np.flatnonzero(~head(log.item_counts)), share[u])].sum() / draws[u].sum()
        for u in range(400)
    ]
    assert found["popular"].measures["expected_tail_share"] == pytest.approx(np.mean(from_tail))
    biased, fair, reversed_ = (found[name] for name in ("popular", "even", "tail"))
    assert "strongly towards popular items" in biased.verdict.headline
    assert "strongly towards rarely chosen items" in reversed_.verdict.headline
    assert "about as popular as the log" in fair.verdict.headline
    assert "more concentrated than the log" in biased.verdict.text
    assert "less concentrated than the log" in reversed_.verdict.text
    for name in ("amplification", "popularity_lift", "gini"):
        assert biased.measures[name] > fair.measures[name] > reversed_.measures[name]
    for name in ("tail_share", "tail_items"):
        assert biased.measures[name] < fair.measures[name] < reversed_.measures[name]
    assert fair.measures["miscalibration"] < biased.measures["miscalibration"]
    assert fair.measures["miscalibration"] < reversed_.measures["miscalibration"]
    assert biased.measures["pop_rsp"] == pytest.approx(1) == reversed_.measures["pop_rsp"]
    everything = biased.measures
    assert everything["average_popularity"] == pytest.approx(everything["highest_popularity"])
    # the lists of niche users are further from their profiles
    niche, _, mainstream = biased.segments
    assert niche["popularity_lift"] > mainstream["popularity_lift"]
    assert niche["miscalibration"] > mainstream["miscalibration"]


def test_the_verdict_says_strongly_if_the_tail_gets_nothing_and_most_items_are_never_shown() -> None:
    log, _ = systems()
    order = np.argsort(-log.item_counts, kind="stable")
    # the same twenty for everybody, from the middle of the head: hardly more popular than the log
    lists = np.tile(order[14:34].astype(np.int32), (400, 1))
    found = audit(lists, np.arange(400, dtype=np.int32), log)
    m = found.measures
    assert m["tail_share"] == 0 and m["coverage"] == 20 / 500
    assert not m["amplification"] > 0.5 * (m["highest_popularity"] / m["expected_popularity"] - 1)
    assert found.verdict.headline.endswith("96.0 % of the items are never recommended")
    assert found.grades["coverage"] == found.grades["tail_share"] == found.verdict.grade == "bad"
    some = audit(np.tile(order[2:22].astype(np.int32), (400, 1)), np.arange(400, dtype=np.int32), log)
    assert some.verdict.leaning == "popular"
    assert "lean strongly towards popular items, and 96.0 % of the items" in some.verdict.headline


def test_the_verdict_names_a_lift_that_points_the_other_way() -> None:
    """Users who chose only hits: what is left for them is far less popular than what they chose."""
    rows = [(u, i) for u in range(200) for i in range(3)] + [(u, 3 + u % 97) for u in range(200)]
    log = make_log(rows, 200, 100)
    counts = log.item_counts.astype(float)
    seen = np.zeros((200, 100), bool)
    seen[log.user_ix, log.item_ix] = True
    best = np.argsort(np.where(seen, np.inf, -counts), axis=1, kind="stable")[:, :5].astype(np.int32)
    found = audit(best, np.arange(200, dtype=np.int32), log)
    assert found.measures["amplification"] > 0.1 and found.measures["popularity_lift"] < -0.1
    assert "although they are less popular than what their users chose" in found.verdict.headline
    shown, drawn = found.measures["average_popularity"], found.measures["expected_popularity"]
    assert f"{shown / drawn:.2f} times as many as an item drawn from the log" in found.verdict.text
    chosen = found.measures["profile_popularity"]
    assert f"It is {shown / chosen:.2f} times as popular as what the same users chose" in found.verdict.text


def test_popularity_is_compared_over_the_same_users(log: Interactions) -> None:
    """User 0 has a list but no profile: neither comparison counts that list."""
    users = np.arange(N_USERS, dtype=np.int32)
    lists = some_lists(users)
    found, known = audit(lists, users, log), audit(lists[1:], users[1:], log)
    for name in ("average_popularity", "expected_popularity", "amplification", "popularity_lift", "tail_share"):
        assert found.measures[name] == pytest.approx(known.measures[name])
    assert found.exposure.sum() > known.exposure.sum()


def test_the_interval_covers_what_other_users_give() -> None:
    """With 400 users drawn again and again, the interval holds the mean over all draws about 95 times in 100."""
    draw = np.random.default_rng(0)
    log = random_log(4000, 60, 0.9 / np.arange(1, 61) ** 0.7, seed=1)
    weights = np.log1p(log.item_counts)
    lists = np.argsort(-(weights + draw.gumbel(size=(4000, 60))), axis=1)[:, :5].astype(np.int32)
    names = ("average_popularity", "tail_share", "gini", "miscalibration", "awrf", "most_recommended_share")
    found = []
    for _ in range(100):
        some = np.sort(draw.choice(4000, 400, replace=False)).astype(np.int32)
        found.append(audit(lists[some], some, log))
    for name in names:
        mean = np.mean([one.measures[name] for one in found])
        inside = sum(one.intervals[name].low <= mean <= one.intervals[name].high for one in found)
        assert 88 <= inside <= 100, name
        spread = np.std([one.measures[name] for one in found]) / np.sqrt(0.9)  # drawn without replacement
        error = np.mean([one.intervals[name].standard_error for one in found])
        assert 0.75 < error / spread < 1.35, name


def test_the_audit_of_a_model_equals_that_of_its_lists(log: Interactions) -> None:
    vectors = vectors_for(log)
    flat = np.zeros(vectors.dim, np.float32)
    flat[0] = 1
    adjustment = Recommender(flat, flat, 0.5, 0.2, embeddings=vectors, seen=log)
    ledger = Ledger(
        np.random.default_rng(0).random((N_ITEMS, 4, 6), np.float32), np.ones((N_USERS, 4, 6), np.float32), 1, 9
    )
    found = audit_model(adjustment, log, 5, ledger=ledger)
    scores = adjustment.query(vectors.user_vectors) @ vectors.item_vectors.T
    scores[log.user_ix, log.item_ix] = -np.inf
    users = np.flatnonzero(log.user_counts).astype(np.int32)
    lists = np.argsort(-scores[users], axis=1)[:, :5].astype(np.int32)
    assert found.measures == pytest.approx(audit(lists, users, log).measures, nan_ok=True)
    assert found.users == N_USERS - 1 and "already_chosen" not in found.notes
    assert found.picture is not None
    assert set(found.as_dict()["gradient"]) == {"rank", "cosine_pull", "cosine_push", "norm_pull", "norm_push"}


def test_as_dict_is_json_and_defines_every_figure(log: Interactions) -> None:
    users = np.arange(N_USERS, dtype=np.int32)
    values = audit(some_lists(users), users, log).as_dict()
    json.dumps(values, allow_nan=False)
    assert values["pop_reo"] is None is values["published"]["PopREO"]  # nothing was held out
    assert {"average_popularity", "tail_share", "coverage", "gini", "groups", "segments"} <= values.keys()
    for name, definition in values["definitions"].items():
        assert name in values and definition["definition"].endswith(".")
    assert set(values["published"]) == {"ARP", "APLT", "ACLT", "PopRSP", "PopREO", "EE-D", "EE-L", "AWRF"}
    for name in values["published"]:
        assert any(d["published"] == name and d["source"] for d in values["definitions"].values())


def test_classes_are_cut_at_20_and_80_percent() -> None:
    # running sums of 100: 15, 30, 45, 60, 70, 80, 90, 100
    counts = np.array([15, 15, 15, 15, 10, 10, 10, 10])
    assert popularity_classes(counts).tolist() == [0, 1, 1, 1, 1, 1, 2, 2]


def refused(log: Interactions, lists: list, users: list, **more: Audit) -> str:
    with pytest.raises(InputError) as caught:
        audit(np.array(lists, np.int32), np.array(users, np.int32), log, **more)  # type: ignore[arg-type]
    return str(caught.value)


def test_unusable_lists_raise_one_sentence(log: Interactions) -> None:
    assert "a row for each of the 2 users" in refused(log, [[1, 2]], [1, 2])
    assert "it holds no rows" in refused(log.rows(log.user_ix < 0), [[1, 2]], [1])
    assert "no list holds an item" in refused(log, [[-1, -1]], [1])
    assert "positions among the log's 40 items" in refused(log, [[1, 40]], [1])
    assert "positions among" in refused(log, [[1, 2]], [60])
    assert "each user must have one list" in refused(log, [[1], [2]], [5, 5])
    assert "1 lists repeat one (first: the list of user 105)" in refused(log, [[1, 2], [3, 3]], [4, 5])
    other = random_log(N_USERS, N_ITEMS + 1, 0.2)
    assert "the same items" in refused(log, [[1, 2]], [1], held=other)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="matrix of item positions"):
        audit(np.array([[0.5]]), np.array([0], np.int32), log)  # type: ignore[arg-type]
