"""How the paper's claims are judged: intervals, paired comparisons, pictures of vectors, and LaTeX."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import counterpop as cp
from counterpop.paper import accuracy, accuracy_claims, cost, published
from counterpop.paper.cells import Cell
from counterpop.paper.gradients import _gradient_claims
from counterpop.paper.groups import judge_some
from counterpop.paper.pictures import explained_by_one_dial, measure_vectors, picture_gradients
from counterpop.paper.proportion import PROPORTIONS, crossing
from counterpop.paper.results import Table, judge, judge_similar
from counterpop.paper.statistics import draw_negatives
from counterpop.paper.strengths import step_between
from counterpop.tabular import latex_table
from counterpop.uncertainty import RESAMPLES, Spread, average, correct, normal, over_seeds, pack, resample, unpack

ROOT = Path(__file__).parents[1]


def certain(mean: float, error: float = 0.001) -> Spread:
    return normal(mean, error, f"{mean}")


# --- uncertainty ---


def test_draws_of_users_give_the_standard_error_of_a_mean() -> None:
    values = np.random.default_rng(0).random(900) ** 2
    spread = over_seeds([values.mean()], [resample({"recall": values})["recall"]], "x")
    assert spread.draws.std() == pytest.approx(values.std() / 30, rel=0.05)
    low, high = stats.norm.interval(0.95, values.mean(), values.std() / 30)
    assert spread.low == pytest.approx(low, abs=0.003) and spread.high == pytest.approx(high, abs=0.003)


def test_the_same_users_are_drawn_for_every_run_so_differences_are_paired() -> None:
    draw = np.random.default_rng(1)
    hard = draw.random(800)  # some users are easy for every method
    first, second = hard + 0.02 + 0.01 * draw.normal(size=800), hard + 0.01 * draw.normal(size=800)
    spreads = [over_seeds([v.mean()], [resample({"m": v})["m"]], key) for v, key in ((first, "a"), (second, "b"))]
    difference = spreads[0].minus(spreads[1])
    expected = stats.ttest_rel(first, second)
    assert difference.draws.std() == pytest.approx((first - second).std() / np.sqrt(800), rel=0.05)
    assert difference.low > 0 and spreads[0].low < spreads[1].high  # beyond the noise only because it is paired
    small = spreads[0].minus(over_seeds([first.mean() + 0.0004], [resample({"m": first + 0.0004})["m"]], "c"))
    assert small.p_value < 1e-6 and expected.pvalue < 1e-6  # the same shift for everybody is certain


def test_p_values_agree_with_a_paired_t_test() -> None:
    draw = np.random.default_rng(2)
    for shift in (0.0, 0.002, 0.004):
        first, second = draw.random(600), draw.random(600)
        second = first + 0.05 * draw.normal(size=600) + shift
        spreads = [over_seeds([v.mean()], [resample({"m": v})["m"]], "x") for v in (second, first)]
        ours, theirs = spreads[0].minus(spreads[1]).p_value, stats.ttest_rel(second, first).pvalue
        assert ours == pytest.approx(theirs, rel=0.2, abs=0.03)


def test_the_scatter_of_seeds_is_part_of_the_interval_and_unbiased() -> None:
    """Many cells of three seeds without noise of users: the variance of the draws is that of a mean of three."""
    draw, none = np.random.default_rng(3), pack(np.zeros(RESAMPLES))
    variances = []
    for n in range(300):
        figures = draw.normal(0.2, 0.01, 3).tolist()
        variances.append(over_seeds(figures, [none] * 3, str(n)).draws.var())
    assert np.mean(variances) == pytest.approx(0.01**2 / 3, rel=0.1)
    assert over_seeds([0.2], [none], "x").to_json() == {"mean": 0.2, "low": 0.2, "high": 0.2, "seeds": 1}


def test_ratios_stay_finite_where_a_draw_has_no_hit() -> None:
    few = np.zeros(200)
    few[0] = 1.0  # in a third of the draws nobody has a hit
    rare = over_seeds([few.mean()], [resample({"m": few})["m"]], "a")
    ratio = rare.times(2).over(rare)
    assert ratio.mean == pytest.approx(1) and ratio.low > -1.001 and ratio.high < 1e3


def test_packed_draws_keep_four_digits() -> None:
    values = np.random.default_rng(4).normal(0, 0.003, (20, 7))
    again = unpack(json.loads(json.dumps(pack(values))))
    assert again.shape == values.shape and np.abs(again - values).max() < 1e-6
    assert np.array_equal(unpack(pack(np.zeros(3))), np.zeros(3))


def test_holm_against_its_definition() -> None:
    p_values = np.random.default_rng(5).random(12) ** 3
    order = np.argsort(p_values)
    expected = np.minimum(1, np.maximum.accumulate((12 - np.arange(12)) * p_values[order]))
    assert np.allclose(np.array(correct(p_values.tolist()))[order], expected)
    assert correct([]) == []


# --- verdicts ---


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ((0.1, 0.1, 0.1), "confirmed"),
        ((0.2, 0.2, 0.2), "stronger"),
        ((0.02, 0.02, 0.02), "weaker"),
        ((0.1, 0.1, 0.0), "weaker"),  # not in every case
        ((0.1, 0.0, 0.0), "cannot tell"),
        ((0.1, -0.1, 0.0), "not seen"),
        ((), "cannot tell"),
    ],
)
def test_claims_are_judged_by_intervals(effects: tuple[float, ...], verdict: str) -> None:
    cases = {str(n): certain(effect) for n, effect in enumerate(effects)}
    claim = judge("V", "x", cases, dict.fromkeys(cases, 0.1))
    assert claim.verdict == verdict
    assert ("Opposite: 1 " in claim.evidence) is (-0.1 in effects)
    assert ("Within the noise" in claim.evidence) is (0.0 in effects)


def test_no_verdict_from_a_difference_within_the_noise() -> None:
    wide = {"a": normal(0.3, 0.2, "a")}  # three times the published effect, but it may as well be 0
    assert judge("V", "x", wide, {"a": 0.1}).verdict == "cannot tell"
    likely = {"a": normal(0.3, 0.12, "a")}  # surely above 0, not surely above 1.25 times the published one
    assert judge("V", "x", likely, {"a": 0.1}).verdict == "confirmed"
    assert judge("V", "x", {"a": certain(0.1), "b": certain(0.1), "c": certain(0.0)}, most=True).verdict == "confirmed"


def test_a_few_cases_do_not_confirm_a_claim_about_many() -> None:
    effects = {"a": certain(0.1), "b": certain(0.1)}
    found = [judge("V", "x", effects, of=of).verdict for of in (2, 4, 6)]
    assert found == ["confirmed", "confirmed", "cannot tell"]
    assert "about 6 cases" in judge("V", "x", effects, of=6).evidence
    assert judge("V", "x", {"a": certain(-0.1)}, of=6).verdict == "not seen"  # one is enough to deny it


def test_similar_needs_an_interval_inside_the_margin() -> None:
    def verdict(mean: float, error: float) -> str:
        return judge_similar("V", "x", {"a": normal(mean, error, "a")}, 0.05).verdict

    found = [verdict(0.01, 0.01), verdict(0.01, 0.05), verdict(0.2, 0.01), verdict(-0.2, 0.01)]
    assert found == ["confirmed", "cannot tell", "not seen", "not seen"]
    effects = {"a": certain(0.03), "b": certain(0.03)}
    assert judge_similar("V", "x", effects, {"a": 0.05, "b": 0.04}).verdict == "confirmed"
    assert judge_similar("V", "x", effects, {"a": 0.05, "b": 0.02}).verdict == "not seen"


def test_one_of_many_effects_of_zero_does_not_deny_a_claim() -> None:
    """By chance one of 24 is below 0 at the 5 % level; corrected for 24 cases that says nothing."""
    effects = {str(n): normal(0.0, 0.01, f"zero {n}") for n in range(23)} | {"low": normal(-0.025, 0.01, "low")}
    assert effects["low"].high < 0 and judge("V", "x", effects).verdict == "cannot tell"
    sure = effects | {"low": certain(-0.1)}
    assert judge("V", "x", sure).verdict == "not seen"
    near = {case: normal(0.05, 0.01, case) for case in effects} | {"far": normal(0.073, 0.01, "far")}
    assert near["far"].low > 0.05 and judge_similar("V", "x", near, 0.05).verdict == "cannot tell"


def test_some_case_needs_p_values_corrected_for_all_cases() -> None:
    def verdict(first: Spread, second: Spread) -> str:
        others = {str(n): normal(0.0, 0.01, f"other {n}") for n in range(9)}
        return judge_some([*others.values(), first], others | {"x": second}).verdict

    assert verdict(certain(0.1), certain(0.1)) == "confirmed"
    assert verdict(certain(0.1), normal(0.023, 0.01, "x")) == "cannot tell"  # beyond its own interval only
    assert verdict(certain(-0.1), certain(-0.1)) == "cannot tell"  # both below 0 are no case of it
    assert judge_some([certain(-0.1)], {"x": certain(0.1)}).verdict == "not seen"
    assert judge_some([], {}).verdict == "cannot tell"


def test_table4_judges_ratios_with_their_noise() -> None:
    def verdicts(
        gradient: float, dice: float, noise: float, datasets: tuple[str, ...] = cost.DATASETS, negatives: int = 4
    ) -> list[str]:
        draw = np.random.default_rng(6)
        seconds = {"plain": 1.0, "gradient": gradient, "dice": dice, "macr": 1.3}
        spreads = {
            ("mf", dataset, method): cost.spread_of((mean + noise * draw.random(15)).tolist(), n)
            for dataset in datasets
            for n, (method, mean) in enumerate(seconds.items())
        }
        return [claim.verdict for claim in cost._claims(spreads, negatives)]

    assert verdicts(1.02, 2.6, 0.01) == ["confirmed", "stronger", "confirmed", "weaker"]
    assert verdicts(1.5, 1.2, 0.01) == ["not seen", "not seen", "not seen", "not seen"]
    assert verdicts(1.5, 1.2, 0.01, negatives=1) == ["not seen", "not seen", "cannot tell", "cannot tell"]
    assert verdicts(1.02, 2.6, 0.01, negatives=1) == verdicts(1.02, 2.6, 0.01)  # what holds with one holds with four
    assert verdicts(1.02, 2.6, 0.01, ("netflix",)) == ["cannot tell"] * 4  # one of four cases
    assert set(verdicts(1.02, 1.3, 3.0)) <= {"cannot tell", "not seen"}


# --- the main table ---


def made_cell(method: str, recall: float, seeds: int = 2, dataset: str = "ml10m") -> Cell:
    draw = np.random.default_rng(7)
    easy = np.repeat([0.0, 0.4], 500)
    records = []
    for n in range(seeds):
        values = recall - 0.2 + easy + 0.02 * draw.normal(size=1000) + 0.001 * n
        figures = {m: float(values.mean()) for m in published.METRICS}
        part = {**figures, "draws": resample(dict.fromkeys(published.METRICS, values))}
        records.append({"adjusted": part, "users": 900, "all_users": 1000, "settings": {}})
    return Cell(dataset, "mf", method, records=tuple(records))


def test_rows_are_compared_with_the_papers_method_in_pairs_and_corrected() -> None:
    cells = [made_cell("gradient", 0.25), made_cell("dice", 0.2495), made_cell("macr", 0.2), made_cell("plain", 0.29)]
    compared = accuracy.compare_rows(cells, "mf")
    assert len(compared) == 3 * len(published.METRICS)
    marks = {cell.method: (accuracy.marked(cell, "recall", compared) or {}).get("mark") for cell in cells}
    assert marks == {"gradient": None, "dice": "", "macr": "***", "plain": accuracy.ABOVE * 3}
    for found in compared.values():
        assert found["low"] < found["difference"] < found["high"]
        assert found["p_value"] <= found["corrected"] <= 1
    interval = cells[1].figure("recall")
    assert interval is not None and interval["high"] - interval["low"] > 0.02  # unpaired, users differ far more


def test_the_lead_over_all_others_is_one_claim() -> None:
    recalls = {"gradient": 0.3, "plain": 0.2, "ips": 0.2, "cause": 0.2, "dice": 0.2, "macr": 0.31}
    at = {("mf", d, m): made_cell(m, recall, dataset=d) for d in published.DATASETS for m, recall in recalls.items()}
    claim = accuracy_claims._above_others(at, 12)
    assert claim.verdict == "weaker" and "in 48 of 60 cases" in claim.evidence
    gains = {}
    for method in ("plain", "macr"):
        pair = [at["mf", "ml10m", one].spread() for one in ("gradient", method)]  # all data sets have the same users
        assert pair[0] is not None and pair[1] is not None
        gains[method] = f"{100 * (pair[0].mean / pair[1].mean - 1):+.1f} %"
    assert f"plain 12 of 12, {gains['plain']}" in claim.evidence
    assert f"MACR 0 of 12, {gains['macr']}" in claim.evidence


def test_popularity_figures_have_the_noise_of_users_and_of_seeds() -> None:
    def record(share: float, recall: float) -> dict[str, Any]:
        intervals = {"tail_share": [share - 0.0196, share + 0.0196], "group_2_recall": [recall - 0.02, recall + 0.02]}
        groups = [{"recall": 0.9}, {"recall": recall}]
        return {"adjusted": {"tail_share": share, "groups": groups, "intervals": intervals}}

    cell = Cell("ml10m", "mf", "ips", records=(record(0.1, 0.3), record(0.12, 0.3)))
    share, recall = cell.popularity("tail_share"), cell.popularity("recall", 1)
    assert share is not None and recall is not None and share.seeds == 2
    assert share.mean == pytest.approx(0.11)
    assert share.draws.std() == pytest.approx(np.hypot(0.01, np.std([0.1, 0.12], ddof=1) / np.sqrt(2)), rel=0.05)
    assert recall.mean == pytest.approx(0.3) and recall.draws.std() == pytest.approx(0.02 / 1.96, rel=0.05)
    assert Cell("ml10m", "mf", "ips").popularity("tail_share") is None


def test_popular_items_are_recommended_too_much_if_test_has_fewer_of_them() -> None:
    found = {"tail_share": 0.3, "intervals": {"tail_share": [0.29, 0.31]}}
    at = {("mf", d, "plain"): Cell(d, "mf", "plain", records=({"adjusted": found},)) for d in ("ml10m", "netflix")}
    claim = accuracy_claims._too_popular(at, {"ml10m": 0.4, "netflix": 0.5}, 2)
    assert claim.verdict == "confirmed" and "on average +0.25 " in claim.evidence  # .7 less .4 and .5
    assert accuracy_claims._too_popular(at, {"ml10m": 0.9, "netflix": 0.4}, 2).verdict == "not seen"


@pytest.mark.parametrize(("power", "verdict"), [(1.0, "confirmed"), (0.25, "cannot tell")])
def test_milder_weights_settle_nothing_about_ips_as_the_paper_has_it(power: float, verdict: str) -> None:
    def cell(method: str, dataset: str, backbone: str, share: float) -> Cell:
        groups = [{"recall": share}] * 5
        intervals = {name: [share - 0.001, share + 0.001] for name in ("tail_share", "group_5_recall")}
        found = {"tail_share": share, "groups": groups, "intervals": intervals}
        record = {"adjusted": found, "settings": {"options": {"power": power} if method == "ips" else {}}}
        return Cell(dataset, backbone, method, records=(record,))

    at = {
        (b, d, m): cell(m, d, b, share)
        for b in published.BACKBONES
        for d in published.DATASETS
        for m, share in (("ips", 0.2), ("plain", 0.1))
    }
    claims = accuracy_claims._of_ips(at, 8)
    assert [claim.verdict for claim in claims] == [verdict] * 2
    assert all("in 8 of 8 cases" in claim.evidence for claim in claims)
    assert ("power of 0.25" in claims[0].evidence) is (power == 0.25)


def test_both_bases_are_counted() -> None:
    cell = made_cell("gradient", 0.18)  # published .173, .536 and .116; over all users .162
    alone, over_all = (accuracy_claims.against_published([cell], 1.0, basis) for basis in (False, True))
    assert list(alone.values()) == [True, False, True] and list(over_all.values()) == [False, False, True]
    assert accuracy_claims.against_published([made_cell("gradient", 0.13, dataset="adressa")], 1.0, True).popitem()[1]


def test_the_average_gains_that_the_text_quotes_do_not_follow_from_its_table() -> None:
    cells = {
        ("mf", d, m): made_cell(m, 0.3 if m == "gradient" else 0.2, dataset=d)
        for d in published.DATASETS
        for m in ("gradient", "plain")
    }
    claim = accuracy_claims._mean_gain(cells, "mf")
    assert "37.33 % (Recall)" in claim.claim and "give 42.7 %, 28.3 %, 51.9 %" in claim.evidence


def test_published_cells_are_those_of_the_text() -> None:
    paper = ROOT.parent / "shared" / "paper.txt"
    if not paper.is_file():
        pytest.skip("the text of the paper is not here")
    lines = [line for line in paper.read_text().splitlines() if not line.strip().startswith("%")]
    found = [[float(x) for x in re.findall(r"0\.\d{3}(?!\d)", line)] for line in lines if "& " in line]
    three = [
        [published.table3(b, d, m)[metric] for d in published.DATASETS for metric in published.METRICS]
        for b in published.BACKBONES
        for m in published.METHODS
    ]
    five = [
        [published.table5(b, d, v)[metric] for d in published.ABLATED for metric in published.METRICS]
        for b in published.BACKBONES
        for v in published.VARIANTS
    ]
    assert [row for row in found if len(row) == 12] == three and [row for row in found if len(row) == 6] == five
    ratios = [tuple(map(float, pair)) for line in lines if len(pair := re.findall(r"\$([\d.]+)\$x", line)) == 2]
    assert ratios == [published.RATIOS[b, m] for b in published.BACKBONES for m in ("dice", "macr", "gradient")]


def test_published_counts_times_and_gains_are_those_of_the_text() -> None:
    paper = ROOT.parent / "shared" / "paper.txt"
    if not paper.is_file():
        pytest.skip("the text of the paper is not here")
    text = "\n".join(line for line in paper.read_text().splitlines() if not line.strip().startswith("%"))

    def rows(label: str) -> list[tuple[float, ...]]:
        """The numbers of the table that ends with this label, of every row that has nothing else after its name."""
        table = text[: text.index(label)].rsplit(r"\begin{tabular}", 1)[1]
        cells = [line.split(r"\\")[0].split("&")[1:] for line in table.splitlines() if r"\\" in line]
        numbers = [[cell.strip().replace(",", "") for cell in row] for row in cells]
        return [tuple(map(float, row)) for row in numbers if row and all(re.fullmatch(r"[\d.]+", cell) for cell in row)]

    assert rows(r"\label{tab:v}") == list(published.UNBALANCED.values())
    assert rows(r"\label{tab::dataset}") == list(published.SIZES.values())
    times = re.findall(r"& *(\d+) *(?:\(\$[\d.]+\$x\))? *& *(\d+) *(?:\(\$[\d.]+\$x\))? *\\\\", text)
    assert [tuple(map(float, pair)) for pair in times] == list(published.SECONDS.values())
    for gains in published.GAINS.values():
        assert all(f"{gain:.2f}\\%" in text for gain in gains.values())


def test_published_ablation_has_the_sides_of_the_text() -> None:
    """Section V-C3: alpha 1 = 0 drops the user term. On ML-10M that costs more with both backbones."""
    for backbone in published.BACKBONES:
        user, item = (published.table5(backbone, "ml10m", f"{side} side off")["recall"] for side in ("user", "item"))
        assert user < item
        whole = published.table5(backbone, "adressa", "whole method")
        assert whole == published.table3(backbone, "adressa", "gradient")


# --- pictures ---


def test_by_count_a_popular_item_is_its_positive_part_and_another_its_negative_part() -> None:
    """As Eq. 8 has it: a popular item is pulled often and pushed rarely; slopes may tell another story."""
    world = cp.make_world(400, 150, mean_activity=20, seed=1)
    split = cp.split_uniform(world.log, test=2, valid=2, ordinary=0)
    run = cp.train(split, method="gradient", loss="bpr", refit=False, epochs=20, dim=16, ledger_every=1, check_every=20)
    found = picture_gradients(run.ledger, split.train)
    ledger, popular = run.ledger, cp.head(split.train.item_counts)
    for weighting in ("count", "slope"):
        pull, push = (getattr(ledger, f"item_{part}")(weighting)[popular].astype(float) for part in ("pull", "push"))
        cosine = np.sum(pull * (pull - push), 1) / np.linalg.norm(pull, axis=1) / np.linalg.norm(pull - push, axis=1)
        means = found[weighting]["means"]
        assert means["cosine_pull"]["popular"]["mean"] == pytest.approx(cosine.mean(), rel=1e-6)
        gap = np.linalg.norm(pull, axis=1) - np.linalg.norm(push, axis=1)
        assert means["norm_gap"]["popular"]["mean"] == pytest.approx(gap.mean(), rel=1e-6)
        assert means["norm_gap"]["popular"]["error"] == pytest.approx(gap.std() / np.sqrt(len(gap)), rel=1e-6)
    assert (
        found["count"]["means"]["norm_gap"]["popular"]["mean"]
        > 0
        > found["count"]["means"]["norm_gap"]["other"]["mean"]
    )


def test_claims_of_figure_1_are_counted_once_for_both_ways_of_training() -> None:
    def picture(popular: float, other: float) -> dict[str, Any]:
        def mean(*values: float) -> dict[str, Any]:
            return {side: {"mean": v, "error": 0.001} for side, v in zip(("popular", "other"), values, strict=True)}

        means = {"cosine_pull": mean(popular, other), "cosine_gap": mean(1.5, -1.0), "norm_gap": mean(30.0, -1.0)}
        means |= {"norm_push": mean(10.0, 2.0), "norm_pull": mean(40.0, 1.0)}
        return {"count": {"means": means}, "alike": mean(0.6, 0.2)}

    claims = _gradient_claims({"not normalised": picture(0.99, 0.1), "users normalised": picture(0.95, 0.1)})
    assert len(claims) == 6 and {claim.verdict for claim in claims} == {"confirmed"}
    assert all("in 2 of 2 cases" in claim.evidence for claim in claims)
    assert "+300.0 %" in claims[3].evidence and "+3800.0 %" in claims[4].evidence  # 40 to 10; 40 to 1, less 2
    claims = _gradient_claims({"not normalised": picture(0.99, 0.1), "users normalised": picture(0.5, 0.1)})
    assert claims[0].verdict == "not seen" and {claim.verdict for claim in claims[1:]} == {"confirmed"}


def test_lengths_and_angles_of_vectors_with_a_known_answer() -> None:
    log = cp.make_world(300, 100, mean_activity=15, seed=2).log
    draw = np.random.default_rng(8)
    items, users = (draw.normal(size=(n, 6)) for n in (100, 300))
    items *= (log.item_counts / np.linalg.norm(items, axis=1))[:, None]  # as long as popular
    users /= np.linalg.norm(users, axis=1)[:, None] * (1 + log.user_counts[:, None])  # shorter, the more active
    popular = cp.head(log.item_counts)
    items[popular] = np.abs(items[popular])  # all in one orthant
    found = measure_vectors(
        cp.Embeddings(*(v.astype(np.float32) for v in (users, items)), log.user_ids, log.item_ids), log
    )
    assert found["item_length"]["mean"] > 0.98 and found["user_length"]["mean"] < -0.98
    units = items[popular] / np.linalg.norm(items[popular], axis=1, keepdims=True)
    cosines = (units @ units.T)[np.triu_indices(len(units), 1)]
    assert found["alike"]["popular"]["mean"] == pytest.approx(cosines.mean(), abs=1e-5)
    assert abs(found["alike"]["other"]["mean"]) < 0.1 < found["alike"]["popular"]["mean"]


def test_one_dial_explains_a_grid_that_depends_on_c_only() -> None:
    strengths = [round(0.2 * n, 1) for n in range(11)]
    a, b = np.meshgrid(strengths, strengths, indexing="ij")
    c = a + b - a * b

    def explained(recall: np.ndarray) -> float | None:
        return explained_by_one_dial({"item_strengths": strengths, "user_strengths": strengths, "recall": recall})

    assert (explained(np.exp(-((c - 0.7) ** 2))) or 0) > 0.995
    assert (explained(np.exp(-((a - 0.7) ** 2))) or 1) < 0.6
    assert explained(np.ones_like(c)) is None


# --- the other items ---


def test_expected_negatives_against_a_simulation() -> None:
    log = cp.make_world(60, 40, mean_activity=10, seed=3).log
    popular, active = cp.head(log.item_counts), cp.head(log.user_counts)
    draw, counted, rounds = np.random.default_rng(9), np.zeros((2, 2)), 60
    touched = [set(log.item_ix[log.user_ix == u].tolist()) for u in range(log.n_users)]
    for u, seen in enumerate(touched):
        unseen = np.array([i for i in range(log.n_items) if i not in seen])
        drawn = popular[draw.choice(unseen, rounds * len(seen))]
        counted[0 if active[u] else 1] += [drawn.sum(), (~drawn).sum()]
    assert draw_negatives(log) == pytest.approx(counted / rounds, rel=0.05)


def test_lines_cross_where_the_difference_is_zero() -> None:
    def spreads(*means: float) -> list[Spread]:
        return [certain(mean) for mean in means]

    at = crossing(spreads(-0.1, -0.02, 0.02, 0.1, 0.2))
    assert at is not None and at.mean == pytest.approx(0.625) and 0.6 < at.low < at.high < 0.65
    always, never = crossing(spreads(0.1, 0.1, 0.1, 0.1, 0.1)), crossing(spreads(-0.1, -0.1, -0.1, -0.1, -0.1))
    assert always is not None and always.mean == 0 and never is None
    assert len(PROPORTIONS) == 5


def test_steps_in_the_grid_have_the_noise_of_the_folds() -> None:
    draw = np.random.default_rng(10)
    grid = np.array([[0.1, 0.2], [0.3, 0.4]])
    folds = 0.05 * draw.normal(size=(20, 2, 2)) + 0.2 * draw.normal(size=(20, 1, 1))  # hard and easy folds of users
    record: dict[str, Any] = {"grid": {"recall": grid}, "folds": pack(folds)}
    step = step_between((record,), (1, 0), (0, 0), "x")
    assert step.mean == pytest.approx(0.2)
    assert step.draws.std() == pytest.approx((folds[:, 1, 0] - folds[:, 0, 0]).std(ddof=1) / np.sqrt(20), rel=0.06)
    three = step_between((record,) * 3, (1, 0), (0, 0), "x")  # the same users: more seeds do not make them more
    assert three.draws.std() == pytest.approx(step.draws.std(), rel=1e-6) and three.seeds == 3
    over = step_between((record,), (1, [0, 1]), (0, 1), "x")
    assert over.mean == pytest.approx(0.15)


def test_a_table_in_latex_is_complete_and_escaped() -> None:
    figure = {"mean": 0.12, "low": 0.11, "high": 0.13, "seeds": 3, "mark": "**"}
    table = Table("5 % & more", ("Data_set", "Recall"), [["A", figure], ["A", None], ["B", 0.2]], ("A note: #1.",))
    text = latex_table(table, "x")
    assert text.count(r"\\") == 4 and text.count(" & ") == 4 and r"5 \% \& more" in text and r"Data\_set" in text
    assert r"0.1200$^{{*}{*}}$ {\scriptsize (0.1100 to 0.1300)}" in text and "missing" in text and r"\#1" in text
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")
    assert text.count(r"\midrule") == 2  # under the head, and between A and B
    depth = np.cumsum([(char == "{") - (char == "}") for char in re.sub(r"\\[{}]", "", text)])
    assert depth.min() >= 0 and depth[-1] == 0


def test_the_page_copies_no_sentence_of_the_paper() -> None:
    paper = ROOT.parent / "shared" / "paper.txt"
    if not paper.is_file():
        pytest.skip("the text of the paper is not here")
    words = re.findall(r"[a-z]+", paper.read_text().lower())
    known = {tuple(words[n : n + 9]) for n in range(len(words) - 8)}
    title = tuple(
        re.findall("[a-z]+", "mitigating popularity bias in recommendation with unbalanced interactions a gradient")
    )
    for path in (ROOT / "src" / "counterpop" / "paper").glob("*.py"):
        ours = re.findall(r"[a-z]+", path.read_text().lower())
        copied = [run for n in range(len(ours) - 8) if (run := tuple(ours[n : n + 9])) in known and run[0] not in title]
        assert not copied, f"{path.name}: {' '.join(copied[0])}"


def test_averages_of_effects_are_less_noisy_than_each() -> None:
    one, two = normal(0.1, 0.02, "a"), normal(0.3, 0.02, "b")
    both = average([one, two])
    assert both.mean == pytest.approx(0.2) and both.draws.std() == pytest.approx(0.02 / np.sqrt(2), rel=0.1)
