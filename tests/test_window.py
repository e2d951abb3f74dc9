"""The window of served lists: its gauges, its audit, and the Grafana dashboard that shows them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

pytest.importorskip("fastapi", reason="the server needs the extra serve")
import counterpop as cp
from counterpop.serving.guard import WINDOW_GAUGES, Counts
from counterpop.serving.watching import Watch, load_served, source_of
from counterpop.serving.window import KEPT_PLACES, OTHER, SAMPLE, Window
from serving_run import make_run, serving

DASHBOARD = Path(__file__).parents[1] / "docs" / "grafana.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("window")
    make_run(folder)
    items = [f"i{n}" for n in range(150)]
    table = {"item": items, "name": items, "genre": [("drama", "news", "")[n % 3] for n in range(150)]}
    pl.DataFrame(table).write_csv(folder / "films.csv")
    return folder


def gauges_of(text: str) -> dict[tuple[str, ...], float]:
    """{(metric, label values in order): value} of the window's gauges."""
    labels = ("lists", "column", "category", "group")
    return {
        (sample.name, *(sample.labels[label] for label in labels if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("counterpop_window_")
    }


def test_a_ring_keeps_the_last_lists_in_order() -> None:
    window = Window(4)
    for n in range(6):
        window.add(np.array([n % 5], np.int32), np.arange(n, n + 3, dtype=np.int32)[None])
    held = window.read()
    assert held.users.tolist() == [2, 3, 4, 0]
    assert held.lists[:, :4].tolist() == [[2, 3, 4, -1], [3, 4, 5, -1], [4, 5, 6, -1], [5, 6, 7, -1]]
    window.add(np.array([2], np.int32), np.array([[9]], np.int32))
    window.add(np.array([-1], np.int32), np.arange(70, dtype=np.int32)[None])
    held = window.read()
    assert held.users.tolist() == [4, 0, 2, -1] and held.lists.shape == (4, KEPT_PLACES)
    assert held.lists[2, :2].tolist() == [9, -1] and held.lists[3, -1] == KEPT_PLACES - 1
    window.add(np.array([4], np.int32), np.array([[1]], np.int32))  # the later list of user 4 counts
    assert window.read().users[window.read().latest].tolist() == [0, 2, 4]
    empty = Window(0)
    empty.add(np.array([1], np.int32), np.array([[1]], np.int32))
    assert len(empty.read().users) == 0
    many = Window(3)
    many.add(np.arange(5, dtype=np.int32), np.arange(10, dtype=np.int32).reshape(5, 2))
    assert many.read().users.tolist() == [2, 3, 4] and many.read().lists[:, 0].tolist() == [4, 6, 8]


def test_gauges_against_plain_numpy(folder: Path) -> None:
    source = source_of(folder / "run", folder / "films.csv", categories=["genre"])
    watch = Watch(source, Counts(), 200)
    model, counts = watch.model, watch.model.train.item_counts
    users = np.arange(0, 300, 2, dtype=np.int32)
    lists, _ = model.recommend(users, 10)
    watch.keep(model, users, lists)
    common = model.recommend_to_anybody(10)[0]
    watch.keep(model, np.array([-1], np.int32), common[None])
    watch.show_exposure()
    found = gauges_of(generate_latest(watch.counts.registry).decode())
    plain, _ = model.recommend(users, 10, 0.0, 0.0)
    order = np.argsort(-counts, kind="stable")
    tail = np.ones(len(counts), bool)
    tail[order[np.cumsum(counts[order]) <= 0.8 * counts.sum()]] = False
    genre = np.array([model.categories["genre"].values[n] if n >= 0 else OTHER for n in model.categories["genre"].of])
    group = np.empty(len(counts), int)
    group[order] = np.minimum(np.arange(len(counts)) // (0.05 * len(counts)), 4)
    profile = [counts[model.train.item_ix[model.train.user_ix == u]].mean() for u in users]
    assert len(users) <= SAMPLE
    every = np.vstack([lists, common])
    for kind, shown, mine in (("served", every, lists), ("sample", lists, lists), ("sample_plain", plain, plain)):
        exposed = np.bincount(shown.ravel(), minlength=len(counts))
        expected = {
            "lists": len(shown),
            "tail_share": tail[shown].mean(),
            "coverage": (exposed > 0).mean(),
            "gini": np.abs(exposed[:, None] - exposed).sum() / (2 * len(counts) * exposed.sum()),
            "popularity_lift": counts[mine].mean(axis=1).sum() / np.sum(profile) - 1,
        }
        assert expected.keys() == WINDOW_GAUGES.keys()
        for name, value in expected.items():
            assert found[f"counterpop_window_{name}", kind] == pytest.approx(value), (kind, name)
        for value in ("drama", "news", OTHER):
            share = (genre[shown] == value).mean()
            assert found["counterpop_window_category_share", kind, "genre", value] == pytest.approx(share)
        for n, name in enumerate(("0-5 %", "5-10 %", "10-15 %", "15-20 %", "20-100 %")):
            assert found["counterpop_window_group_share", kind, name] == pytest.approx((group[shown] == n).mean())
    assert found["counterpop_window_tail_share", "sample"] != found["counterpop_window_tail_share", "sample_plain"]


def test_a_new_run_starts_an_empty_window(folder: Path) -> None:
    watch = Watch(source_of(folder / "run"), Counts(), 50)
    old = watch.model
    some = np.array([1], np.int32), np.array([[1, 2]], np.int32)
    watch.keep(old, *some)
    assert len(watch.window.read().users) == 1
    watch._take(load_served(folder / "run"))
    watch.keep(old, *some)  # a request that began before: its positions mean something else
    assert len(watch.window.read().users) == 0


def test_the_server_shows_and_audits_its_window(folder: Path) -> None:
    with serving(folder / "run", folder / "films.csv") as (server, _):
        assert server.ask("/audit?of=window")[0] == 404
        assert not gauges_of(server.ask("/metrics")[1].decode())
        users = [f"u{n}" for n in range(40)]
        answers = [server.ask(f"/recommend?user={user}&k=5")[1] for user in users]
        many = server.ask("/recommend", {"users": [*users[:3], "stranger"], "k": 7})[1]
        server.ask("/recommend", {"histories": [["i1", "i2"]], "k": 4})
        found = gauges_of(server.ask("/metrics")[1].decode())
        assert found["counterpop_window_lists", "served"] == 45
        status, told, _ = server.ask("/audit?of=window")
        assert status == 200 and told["users"] == 40 and told["k"] == 7
        assert server.ask("/audit?of=window&k=3&item_strength=2")[1]["k"] == 3
        assert told["window"] == {"lists": 45, "of_unknown_users": 2, "size": 10_000}
        latest = {answer["user"]: [row["item"] for row in answer["items"]] for answer in answers}
        latest |= {one["user"]: [row["item"] for row in one["items"]] for one in many["lists"][:3]}
        rows = [(user, item) for user, items in latest.items() for item in items]
        model = load_served(folder / "run")
        lists = pl.DataFrame(rows, schema=["user", "item"], orient="row")
        expected = cp.read_recommendations(lists, model.train)
        again = cp.audit(expected.lists, expected.users, model.train).as_dict()
        for name in ("average_popularity", "tail_share", "coverage", "gini", "amplification"):
            assert told[name] == pytest.approx(again[name])


# ------------------------------------------------------------------------------------- the Grafana dashboard


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def test_the_dashboard_is_read_by_the_model_that_grafana_publishes() -> None:
    """Read and written again, nothing is lost. A real Grafana cannot be installed from the package registries."""
    reason = "Grafana's own model of its dashboards"
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason=reason)
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder", reason=reason)
    told = json.loads(DASHBOARD.read_text())
    again = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(told)))

    def lost(before: Any, after: Any, where: str) -> list[str]:
        if isinstance(before, dict) and isinstance(after, dict):
            return [each for key, value in before.items() for each in lost(value, after.get(key), f"{where}/{key}")]
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            return [
                each for n, pair in enumerate(zip(before, after, strict=True)) for each in lost(*pair, f"{where}/{n}")
            ]
        return [] if before == after or (not before and after is None) else [where]

    assert lost(told, again, "") == []


def test_the_dashboard_has_the_form_that_grafana_documents() -> None:
    """The fields of Grafana's dashboard JSON model, and panels that do not overlap."""
    told = json.loads(DASHBOARD.read_text())
    assert told["id"] is None and told["schemaVersion"] >= 36 and told["title"] and told["uid"]
    assert {
        "annotations",
        "editable",
        "links",
        "panels",
        "refresh",
        "tags",
        "templating",
        "time",
        "timezone",
    } <= told.keys()
    assert told["time"].keys() == {"from", "to"}
    sources = [one for one in told["templating"]["list"] if one["type"] == "datasource"]
    assert [one["query"] for one in sources] == ["prometheus"]
    ids = [panel["id"] for panel in told["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in told["panels"]:
        grid = panel["gridPos"]
        assert grid.keys() == {"h", "w", "x", "y"} and grid["x"] + grid["w"] <= 24
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, f"{panel['title']} overlaps another panel"
        taken |= cells
        assert panel["type"] in ("row", "timeseries", "stat", "bargauge")
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{sources[0]['name']}}}"}
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"} and panel["description"]
        for target in panel["targets"]:
            assert target["expr"] and target["refId"] and target["datasource"] == panel["datasource"]


def test_the_dashboard_asks_only_for_metrics_that_the_server_exports(folder: Path) -> None:
    with serving(folder / "run", folder / "films.csv") as (server, _):
        server.ask("/recommend?user=u1&k=5")
        server.ask("/recommend?user=stranger")
        text = server.ask("/metrics")[1].decode()
    # without categories the gauge has no series yet, but it is declared
    declared = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    exported = declared | {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]]
    asked = {name for expression in expressions for name in re.findall(r"counterpop_\w+", expression)}
    assert asked <= exported
    gauges = {f"counterpop_window_{name}" for name in (*WINDOW_GAUGES, "group_share", "category_share")}
    assert gauges <= asked  # every gauge is shown
    kinds = set(re.findall(r'lists=~?"([^"]+)"', " ".join(expressions)))
    assert {one for kind in kinds for one in kind.split("|")} <= {"served", "sample", "sample_plain"}
