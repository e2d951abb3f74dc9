"""Every number of an audit, recomputed by plain NumPy from the exported CSV files and the inputs."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

import counterpop as cp
from counterpop.auditing.grades import MEANINGS, THRESHOLDS
from counterpop.cli import main

K, N_USERS, N_ITEMS = 8, 500, 120
GENRES, MAKERS, AGES = ("drama", "comedy", "news"), ("small", "large"), ("18-34", "35-59", "60+")


def call(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, lists that lean to popular items and repeat nothing, later pairs, names and attributes, as files."""
    folder, draw = tmp_path_factory.mktemp("audited"), np.random.default_rng(0)
    log = cp.make_world(N_USERS, N_ITEMS, mean_activity=12, seed=3).log
    pl.DataFrame({"user": log.user_ix, "item": log.item_ix + 1000}).write_csv(folder / "log.csv")
    seen = np.zeros((N_USERS, N_ITEMS), bool)
    seen[log.user_ix, log.item_ix] = True
    scores = np.log1p(log.item_counts) * 1.5 + draw.gumbel(size=(N_USERS, N_ITEMS))
    scores[seen] = -np.inf
    lists = np.argsort(-scores, axis=1)[:, :K]
    with (folder / "lists.csv").open("w") as file:
        file.write("user,item,rank\n")
        for user in range(0, N_USERS, 2):
            for place in range(K - (user % 10 == 0)):
                file.write(f"{user},{lists[user, place] + 1000},{place + 1}\n")
    later = np.argwhere((draw.random((N_USERS, N_ITEMS)) < 0.03) & ~seen)
    pl.DataFrame({"user": later[:, 0], "item": later[:, 1] + 1000}).write_csv(folder / "later.csv")
    with (folder / "films.csv").open("w") as file:
        file.write("item,title,genre,maker\n")
        for item in range(N_ITEMS - 5):
            file.write(f'{item + 1000},"Film, no. {item}",{GENRES[item % 3]},{MAKERS[item % 7 == 0]}\n')
    with (folder / "people.csv").open("w") as file:
        file.write("user,age\n" + "".join(f"{user},{AGES[user % 3]}\n" for user in range(N_USERS)))
    words = ("--names", folder / "films.csv", "--category", "genre", "--category", "maker")
    words += ("--attributes", folder / "people.csv", "--attribute", "age", "--holdout", folder / "later.csv")
    words += ("--recommendations", folder / "lists.csv", "--interactions", folder / "log.csv")
    done = call("audit", *words, "--html", folder / "page.html", "--csv", folder / "tables", "--json")
    assert done.exit_code == 0, done.output
    (folder / "audit.json").write_text(done.stdout)
    return folder


class Inputs:
    """The inputs as plain arrays, and every measure from its definition. Nothing of counterpop is used."""

    def __init__(self, folder: Path) -> None:
        pairs = {
            name: np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1, dtype=int)
            for name in ("log", "lists", "later")
        }
        self.users, self.items = (np.unique(pairs["log"][:, n]) for n in (0, 1))
        place = {name: np.searchsorted(self.items, rows[:, 1]) for name, rows in pairs.items()}
        n_users, n_items = len(self.users), len(self.items)
        self.chosen, self.later = np.zeros((2, n_users, n_items), bool)
        self.rank = np.zeros((n_users, n_items), int)  # 0: not in the list
        at = {name: np.searchsorted(self.users, rows[:, 0]) for name, rows in pairs.items()}
        self.chosen[at["log"], place["log"]] = True
        ok = np.isin(pairs["later"][:, 0], self.users) & np.isin(pairs["later"][:, 1], self.items)
        self.later[at["later"][ok], place["later"][ok]] = True
        self.later &= ~self.chosen
        self.rank[at["lists"], place["lists"]] = pairs["lists"][:, 2]
        self.shown = self.rank > 0
        self.counts = self.chosen.sum(axis=0)
        order = sorted(range(n_items), key=lambda i: (-self.counts[i], i))
        running = np.cumsum(self.counts[order]) / self.counts.sum()
        self.klass = np.zeros(n_items, int)
        self.klass[order] = np.where(running <= 0.2, 0, np.where(running <= 0.8, 1, 2))
        self.klass[order[0]] = 0
        self.tail = self.klass == 2
        self.group = np.zeros(n_items, int)
        self.group[order] = np.minimum(np.arange(n_items) // (0.05 * n_items), 4).astype(int) + 1
        self.order = np.array(order)

    def per_user(self) -> dict[str, np.ndarray]:
        has = np.flatnonzero(self.shown.any(axis=1))
        c, tail = self.counts, self.tail
        weight = np.where(self.shown, 1 / np.log2(1 + np.maximum(self.rank, 1)), 0)
        rows = []
        log_mix = np.array([c[self.klass == n].sum() for n in range(3)]) / c.sum()
        for u in has:
            free, mine, listed = ~self.chosen[u], self.chosen[u], self.shown[u]
            best = [i for i in self.order if free[i]][:K]
            mixes = [np.array([s[self.klass == n].sum() for n in range(3)]) for s in (mine, listed, weight[u])]
            p, q, a = (m / m.sum() for m in mixes)
            rows.append(
                {
                    "user": self.users[u],
                    "average_popularity": c[listed].mean(),
                    "expected_popularity": (c[free] ** 2).sum() / c[free].sum(),
                    "profile_popularity": c[mine].mean(),
                    "highest_popularity": c[best].mean(),
                    "tail_share": tail[listed].mean(),
                    "expected_tail_share": c[free & tail].sum() / c[free].sum(),
                    "profile_tail_share": tail[mine].mean(),
                    "miscalibration": divergence(p, q),
                    "awrf": 1 - divergence(a, log_mix),
                }
            )
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def measures(self) -> dict[str, float]:
        means = {name: values.mean() for name, values in self.per_user().items() if name != "user"}
        has, n_items = self.shown.any(axis=1), len(self.items)
        exposed, c, tail = self.shown.sum(axis=0), self.counts, self.tail
        attention = np.where(self.shown, 1 / np.log2(1 + np.maximum(self.rank, 1)), 0).sum(axis=0)
        e, t, top = attention / attention.sum(), c / c.sum(), int(np.ceil(0.01 * n_items))
        free = (~self.chosen)[has]
        rates = [(self.shown & ~self.chosen)[has][:, side].sum() / free[:, side].sum() for side in (tail, ~tail)]
        drawn = means["expected_tail_share"]
        draws = [drawn / free[:, tail].sum(), (1 - drawn) / free[:, ~tail].sum()]
        found = [(self.shown & self.later)[has][:, s].sum() / self.later[has][:, s].sum() for s in (tail, ~tail)]
        return means | {
            "amplification": means["average_popularity"] / means["expected_popularity"] - 1,
            "popularity_lift": means["average_popularity"] / means["profile_popularity"] - 1,
            "tail_items": exposed[tail].sum() / has.sum(),
            "tail_coverage": (exposed[tail] > 0).mean(),
            "coverage": (exposed > 0).mean(),
            "expected_coverage": (1 - (1 - t) ** exposed.sum()).mean(),
            "gini": np.abs(exposed[:, None] - exposed).sum() / (2 * n_items * exposed.sum()),
            "log_gini": np.abs(c[:, None] - c).sum() / (2 * n_items * c.sum()),
            "most_recommended_share": np.sort(exposed)[-top:].sum() / exposed.sum(),
            "log_top_share": np.sort(t)[-top:].sum(),
            "exposure_disparity": (e**2).sum(),
            "log_disparity": (t**2).sum(),
            "exposure_loss": ((e - t) ** 2).sum(),
            "pop_rsp": np.std(rates) / np.mean(rates),
            "expected_pop_rsp": np.std(draws) / np.mean(draws),
            "pop_reo": np.std(found) / np.mean(found),
        }


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Jensen-Shannon, in bits."""
    half = (p + q) / 2
    return sum(np.sum(s[s > 0] * np.log2(s[s > 0] / half[s > 0])) for s in (p, q)) / 2


@pytest.fixture(scope="module")
def inputs(folder: Path) -> Inputs:
    return Inputs(folder)


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Cells(HTMLParser):
    """The rows of every table of a page, as text, with the exact values of their cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, list[float]]] = []
        self.text, self.skip = "", 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.skip += tag in ("script", "style")
        if tag == "tr":
            self.rows.append(("", []))
        if tag == "data" and self.rows:
            self.rows[-1][1].append(float(str(dict(attrs)["value"])))

    def handle_endtag(self, tag: str) -> None:
        self.skip -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self.skip:
            self.text += data.replace("\u00a0", " ")
            if self.rows:
                self.rows[-1] = (self.rows[-1][0] + data.replace("\u00a0", " "), self.rows[-1][1])


@pytest.fixture(scope="module")
def page(folder: Path) -> Cells:
    return Cells((folder / "page.html").read_text(encoding="utf-8"))


def test_measures_on_page_csv_and_json_are_those_of_the_inputs(folder: Path, inputs: Inputs, page: Cells) -> None:
    expected = inputs.measures()
    rows = {row["measure"]: row for row in table(folder, "measures")}
    told = json.loads((folder / "audit.json").read_text())
    assert set(rows) == set(expected) == set(MEANINGS)
    for name, value in expected.items():
        assert float(rows[name]["value"]) == pytest.approx(value, abs=1e-12), name
        assert told[name] == pytest.approx(value, abs=1e-12)
        shown = [cells[0] for text, cells in page.rows if text.startswith(told["definitions"][name]["label"]) and cells]
        assert any(cell == pytest.approx(value, abs=1e-12) for cell in shown), name


def test_the_sentences_and_grades_hold_the_same_numbers(folder: Path, inputs: Inputs, page: Cells) -> None:
    m = inputs.measures()
    words = m | {
        "tail_percent": 100 * m["tail_share"],
        "expected_tail_percent": 100 * m["expected_tail_share"],
        "profile_tail_percent": 100 * m["profile_tail_share"],
        "tail_coverage_percent": 100 * m["tail_coverage"],
        "never_percent": 100 * (1 - m["coverage"]),
        "expected_never_percent": 100 * (1 - m["expected_coverage"]),
        "expected_coverage_percent": 100 * m["expected_coverage"],
        "top_percent": 100 * m["most_recommended_share"],
        "log_top_percent": 100 * m["log_top_share"],
        "awrf_percent": 100 * m["awrf"],
        "times_log": m["average_popularity"] / m["expected_popularity"],
        "times_profile": m["average_popularity"] / m["profile_popularity"],
        "concentrated": "more" if m["gini"] > m["log_gini"] else "less",
        "effective_items": 1 / m["exposure_disparity"],
        "log_effective_items": 1 / m["log_disparity"],
        "loss_times": m["exposure_loss"] / m["log_disparity"],
    }
    text = " ".join(page.text.split())
    for sentence in MEANINGS.values():
        assert sentence.format(**words) in text
    judged = {
        "amplification": (m["amplification"], 0.1, 0.5),
        "popularity_lift": (m["popularity_lift"], 0.1, 0.5),
        "tail_share": (-m["tail_share"] / m["expected_tail_share"], -0.8, -0.5),
        "coverage": (-m["coverage"] / m["expected_coverage"], -0.8, -0.5),
        "gini": (m["gini"] - m["log_gini"], 0.05, 0.15),
        "most_recommended_share": (m["most_recommended_share"] / m["log_top_share"], 1.25, 2),
        "exposure_disparity": (m["exposure_disparity"] / m["log_disparity"], 1.5, 3),
        "exposure_loss": (m["exposure_loss"] / m["log_disparity"], 0.25, 1),
        "awrf": (-m["awrf"], -0.95, -0.8),
        "miscalibration": (m["miscalibration"], 0.1, 0.3),
        "pop_rsp": (m["pop_rsp"] - m["expected_pop_rsp"], 0.02, 0.1),
        "pop_reo": (m["pop_reo"], 0.2, 0.5),
    }
    assert judged.keys() == THRESHOLDS.keys()
    rows = {row["measure"]: row for row in table(folder, "measures")}
    for name, (value, watch, bad) in judged.items():
        assert rows[name]["grade"] == ("bad" if value > bad else "watch" if value > watch else "good"), name
    never = (~inputs.shown.any(axis=0)).sum()
    assert f"{never:,} of {len(inputs.items):,} items ({100 * (1 - m['coverage']):.1f} %) are never" in text


def test_intervals_are_a_jackknife_over_folds_of_users(folder: Path, inputs: Inputs) -> None:
    """The folds as documented: the upper half of a 64-bit hash of the id, modulo 40."""
    keys = inputs.users.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    fold = ((keys ^ (keys >> np.uint64(32))) >> np.uint64(32)).astype(int) % 40
    whole, rank, shown = inputs.measures(), inputs.rank.copy(), inputs.shown.copy()
    rows = {row["measure"]: row for row in table(folder, "measures")}
    told = json.loads((folder / "audit.json").read_text())
    names = ("popularity_lift", "coverage", "gini", "exposure_loss", "awrf", "pop_rsp", "pop_reo")
    without = {name: [] for name in names}
    for n in range(40):
        inputs.shown, inputs.rank = shown & (fold != n)[:, None], rank * (fold != n)[:, None]
        again = inputs.measures()
        for name in names:
            without[name].append(again[name])
    inputs.shown, inputs.rank = shown, rank
    for name in names:
        assert told["without"][name] == pytest.approx(without[name], abs=1e-12)
        error = np.sqrt(39 / 40 * ((without[name] - np.mean(without[name])) ** 2).sum())
        assert float(rows[name]["standard_error"]) == pytest.approx(error, abs=1e-12)
        assert float(rows[name]["low"]) == pytest.approx(whole[name] - 2.0226909 * error, abs=1e-7)
        highest = 1 if name == "coverage" else np.inf  # shares end at 1
        assert float(rows[name]["high"]) == pytest.approx(min(whole[name] + 2.0226909 * error, highest), abs=1e-7)


def test_items_by_name(folder: Path, inputs: Inputs, page: Cells) -> None:
    exposed = inputs.shown.sum(axis=0)
    expected = exposed.sum() * inputs.counts / inputs.counts.sum()
    rows = table(folder, "items")
    assert [int(row["item"]) for row in rows] == inputs.items.tolist()
    for row, lists, wanted, count, group, klass in zip(
        rows, exposed, expected, inputs.counts, inputs.group, inputs.klass, strict=True
    ):
        assert (int(row["lists"]), int(row["interactions"]), int(row["group"])) == (lists, count, group)
        assert float(row["expected_lists"]) == pytest.approx(wanted)
        assert row["class"] == ("top", "middle", "tail")[klass]
        item = int(row["item"]) - 1000
        named = (f"Film, no. {item}", GENRES[item % 3], MAKERS[item % 7 == 0]) if item < N_ITEMS - 5 else ("", "", "")
        assert (row["name"], row["genre"], row["maker"]) == named
    told = json.loads((folder / "audit.json").read_text())
    over = sorted(range(len(exposed)), key=lambda i: (expected[i] - exposed[i], i))[:20]
    over = [i for i in over if exposed[i] > expected[i]]
    assert [row["item"] for row in told["over_exposed"]] == inputs.items[over].tolist()
    never = sorted(np.flatnonzero(exposed == 0), key=lambda i: (-inputs.counts[i], i))[:20]
    assert [row["item"] for row in told["never_recommended"]] == inputs.items[never].tolist()
    for i in [*over[:10], *never[:10]]:
        item = inputs.items[i]
        name = f"Film, no. {item - 1000}" if item < 1000 + N_ITEMS - 5 else "item "
        text = next(text for text, _ in page.rows if text.startswith(f"{name}{item}"))
        assert f"{inputs.counts[i]:,}" in text and f"{exposed[i]:,}" in text and f"{expected[i]:,.1f}" in text


def test_categories_and_groups(folder: Path, inputs: Inputs, page: Cells) -> None:
    exposed = inputs.shown.sum(axis=0)
    attention = np.where(inputs.shown, 1 / np.log2(1 + np.maximum(inputs.rank, 1)), 0).sum(axis=0)
    number = inputs.items - 1000
    named = number < N_ITEMS - 5
    columns = {"genre": np.array(GENRES)[number % 3], "maker": np.array(MAKERS)[(number % 7 == 0).astype(int)]}
    rows = {(row["category"], row["name"]): row for row in table(folder, "categories")}
    told = json.loads((folder / "audit.json").read_text())["categories"]
    seen = set()
    for category, values in columns.items():
        values = np.where(named, values, "(none)")
        shares = []
        for value in np.unique(values):
            mine, row = values == value, rows[category, str(value)]
            seen.add((category, str(value)))
            assert int(row["items"]) == mine.sum()
            assert int(row["never_recommended"]) == (exposed[mine] == 0).sum()
            numbers = {"interactions": inputs.counts, "frequency": exposed, "attention": attention}
            for name, amounts in numbers.items():
                assert float(row[name]) == pytest.approx(amounts[mine].sum() / amounts.sum())
            shares.append([attention[mine].sum() / attention.sum(), inputs.counts[mine].sum() / inputs.counts.sum()])
            exact = [amounts[mine].sum() / amounts.sum() for amounts in numbers.values()]
            assert any(cells == pytest.approx(exact) for text, cells in page.rows if text.startswith(str(value)))
        agreed = 1 - divergence(*np.array(shares).T)
        assert told[category]["awrf"] == pytest.approx(agreed)
        assert f"The mix of attention agrees with the log by {100 * agreed:.1f} % (AWRF)." in page.text
    assert seen == rows.keys()
    for row in table(folder, "groups"):
        mine = inputs.group == int(row["group"])
        assert int(row["items"]) == mine.sum()
        assert float(row["interactions"]) == pytest.approx(inputs.counts[mine].sum() / inputs.counts.sum())
        assert float(row["frequency"]) == pytest.approx(exposed[mine].sum() / exposed.sum())


def test_users_by_taste_and_by_attribute(folder: Path, inputs: Inputs, page: Cells) -> None:
    per_user = inputs.per_user()
    for name, values in per_user.items():
        assert [float(row[name]) for row in table(folder, "users")] == pytest.approx(values.tolist())
    head_share = 1 - per_user["profile_tail_share"]
    low, high = np.quantile(head_share, [0.2, 0.8])
    ages = np.array(AGES)[per_user["user"] % 3]
    groups = {
        "niche": head_share <= low,
        "mixed": (head_share > low) & (head_share < high),
        "mainstream": head_share >= high,
        **{age: ages == age for age in AGES},
    }
    rows = {row["name"]: row for row in [*table(folder, "users_by_taste"), *table(folder, "users_by_attribute")]}
    assert rows.keys() == groups.keys()
    for name, those in groups.items():
        row = rows[name]
        assert int(row["users"]) == those.sum() > 10
        means = {figure: values[those].mean() for figure, values in per_user.items()}
        shown, chosen = means["average_popularity"], means["profile_popularity"]
        means |= {
            "popularity_lift": shown / chosen - 1,
            "amplification": shown / means["expected_popularity"] - 1,
            "head_share": 1 - means["profile_tail_share"],
        }
        for figure in ("profile_popularity", "average_popularity", "popularity_lift", "amplification", "tail_share"):
            assert float(row[figure]) == pytest.approx(means[figure])
        exact = [means[n] for n in ("profile_popularity", "average_popularity", "popularity_lift", "amplification")]
        exact += [means[n] for n in ("profile_tail_share", "tail_share", "miscalibration")]
        assert any(cells == pytest.approx(exact) for _, cells in page.rows), name


def test_what_would_be_ignored_or_is_missing_is_refused(folder: Path) -> None:
    given = ("audit", "--recommendations", folder / "lists.csv", "--interactions", folder / "log.csv")
    assert call(*given, "--category", "genre").exit_code == 2
    assert call(*given, "--attributes", folder / "people.csv").exit_code == 2
    missing = call(*given, "--names", folder / "films.csv", "--category", "mood")
    assert missing.exit_code == 1 and "has no column 'mood', only 'item', 'title', 'genre', 'maker'" in missing.stderr
    twice = folder / "twice.csv"
    twice.write_text("item,name,genre\n1000,a,drama\n1000,a,news\n")
    refused = call(*given, "--names", twice, "--category", "genre")
    assert refused.exit_code == 1 and "each item needs one genre" in refused.stderr
    (folder / "strangers.csv").write_text("user,age\n99999,60+\n")
    refused = call(*given, "--attributes", folder / "strangers.csv", "--attribute", "age")
    assert refused.exit_code == 1 and "must hold users of the log" in refused.stderr


def test_an_output_that_cannot_be_written_is_refused_before_the_work(folder: Path) -> None:
    """The log is not even opened: it does not exist."""
    words = ("audit", "--recommendations", folder / "lists.csv", "--interactions", folder / "nowhere.csv")
    for option, place in (("--csv", "log.csv"), ("--html", "log.csv/page.html"), ("--out", "log.csv/lists.json")):
        refused = call(*words, option, folder / place)
        assert refused.exit_code == 1 and "log.csv is a file" in refused.stderr, option
