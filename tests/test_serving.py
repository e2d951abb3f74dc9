"""The server answers exactly, refuses in one sentence, and switches runs without a pause."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import string
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import polars as pl
import pytest
import schemathesis
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import counterpop as cp
from counterpop.adjustment import adjust
from counterpop.auditing import audit_model
from counterpop.cli import main
from counterpop.errors import InputError
from counterpop.folding import fold_in, ridge
from counterpop.readers import read_names
from counterpop.serving import connections
from counterpop.serving.app import create_app
from counterpop.serving.guard import LOOPBACK, Counts, Guard, Limits
from counterpop.serving.measures import measure_stops
from counterpop.serving.model import ServedModel, find
from counterpop.serving.server import TokenFile, read_tokens
from counterpop.serving.turns import EACH
from counterpop.serving.watching import Watch, load_served, source_of
from serving_run import ITEMS, Server, make_run, serving

TOKEN = "a-token-of-enough-length"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving")
    make_run(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> ServedModel:
    return load_served(folder / "run", str(folder / "names.csv"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(folder / "run", folder / "names.csv") as (server, _):
        yield server


def brute_force(model: ServedModel, user: int, k: int, a: float, b: float) -> tuple[list[int], list[float]]:
    """A user's list from adjusted vectors and a full sort, in float64."""
    moved = adjust(model.vectors, model.recommender.with_strengths(a, b))
    scores = moved.item_vectors.astype(float) @ moved.user_vectors[user].astype(float)
    scores[model.seen.item_ix[model.seen.user_ix == user]] = -np.inf
    best = np.argsort(-scores)[:k]
    return best.tolist(), scores[best].tolist()


# ------------------------------------------------------------------------------------------------ the model


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.7, 0.3), (2.0, 1.1)])
def test_lists_match_the_adjusted_vectors(model: ServedModel, a: float, b: float) -> None:
    users = np.arange(40, dtype=np.int32)
    items, scores = model.recommend(users, 15, a, b)
    for user in users:
        expected, values = brute_force(model, user, 15, a, b)
        assert items[user].tolist() == expected
        assert scores[user] == pytest.approx(values, abs=1e-5)


def test_a_score_is_the_exact_sum_of_what_is_removed_and_what_is_kept(model: ServedModel) -> None:
    a, b = 0.8, 0.5
    P, Q = (v.astype(float) for v in (model.vectors.user_vectors, model.vectors.item_vectors))
    p, q = model.recommender.user_direction.astype(float), model.recommender.item_direction.astype(float)
    for user in (3, 77):
        plain, adjusted = model.recommender.explain(user, 12, a, b)
        assert [row.item for row in plain] == brute_force(model, user, 12, 0, 0)[0]
        expected, scores = brute_force(model, user, 12, a, b)
        assert [row.item for row in adjusted] == expected
        assert [row.adjusted_score for row in adjusted] == pytest.approx(scores, abs=1e-5)
        for row in plain + adjusted:
            assert row.plain_score == pytest.approx(P[user] @ Q[row.item], abs=1e-9)
            assert row.plain_score - row.popular_part - row.conformity_part == row.adjusted_score
            # the paper's form: a (P.q)(Q.q) + b (P.p)(Q.p) - a b (P.p)(p.q)(Q.q) is removed
            along = a * (P[user] @ q) * (Q[row.item] @ q) + b * (P[user] @ p) * (Q[row.item] @ p)
            both = a * b * (P[user] @ p) * (p @ q) * (Q[row.item] @ q)
            assert row.popular_part + row.conformity_part == pytest.approx(along - both, abs=1e-9)
        assert [row.plain_rank for row in plain] == [row.adjusted_rank for row in adjusted] == list(range(1, 13))
        whole = brute_force(model, user, ITEMS, 0, 0)[0]
        unseen = ITEMS - np.count_nonzero(model.seen.user_ix == user)
        assert [row.item for row in model.recommender.explain(user, 1000, a, b)[0]] == whole[:unseen]
        assert all(whole.index(row.item) + 1 == row.plain_rank for row in adjusted)


@pytest.mark.parametrize("strength", [0.0, 0.6, 1.0, 1.7])
def test_similar_items_are_ranked_by_the_cosine_of_adjusted_vectors(model: ServedModel, strength: float) -> None:
    vectors = adjust(model.vectors, model.recommender.with_strengths(strength, 0.0)).item_vectors.astype(float)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = units @ units[7]
    cosines[7] = -np.inf
    items, found = model.similar(7, 10, strength)
    assert items.tolist() == np.argsort(-cosines)[:10].tolist()
    assert found == pytest.approx(np.sort(cosines)[::-1][:10], abs=1e-5)
    assert len(model.similar(7, 1000)[0]) == ITEMS - 1


def test_a_history_is_folded_in_by_ridge_regression(model: ServedModel) -> None:
    Q = model.vectors.item_vectors
    histories = [np.array([3, 9, 40], dtype=np.int32), np.array([5], dtype=np.int32)]
    reg = 4 * np.mean((Q**2).sum(axis=1))
    for items, vector in zip(histories, fold_in(Q, histories, ridge(Q)), strict=True):
        rows = np.vstack([Q[items], np.sqrt(reg) * np.eye(Q.shape[1])])
        expected = np.linalg.lstsq(rows, np.r_[np.ones(len(items)), np.zeros(Q.shape[1])], rcond=None)[0]
        assert vector == pytest.approx(expected, rel=1e-4, abs=1e-7)
    lists, _ = model.recommend_to([*histories, np.array([9, 3, 3, 40], dtype=np.int32)], 10, 0.5, 0.5)
    assert not {3, 9, 40} & set(lists[0].tolist())
    assert lists[2].tolist() == lists[0].tolist()  # neither order nor repetition matters
    scores = Q @ model.recommender.query(fold_in(Q, histories, ridge(Q))[1], 0.5, 0.5)
    scores[5] = -np.inf
    assert lists[1].tolist() == np.argsort(-scores)[:10].tolist()


def test_folding_in_solves_one_system_of_equations_at_a_time() -> None:
    Q = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)
    histories = [np.array([n % 50], dtype=np.int32) for n in range(500)]
    tracemalloc.start()
    try:
        fold_in(Q, histories, ridge(Q))
        assert tracemalloc.get_traced_memory()[1] < 100 * 64 * 64 * 8
    finally:
        tracemalloc.stop()


def test_a_folded_history_recommends_nearly_as_well_as_the_trained_vector(model: ServedModel) -> None:
    trial, valid = model.parts[0]
    users = np.flatnonzero(valid.user_counts).astype(np.int32)
    train = trial.seen
    histories = [train.item_ix[train.user_starts[u] : train.user_starts[u + 1]] for u in users]
    folded, _ = model.recommend_to(histories, 20)
    trained, _ = trial.recommend(users, 20)
    measured = [cp.measure(lists, users, train, valid, resamples=0) for lists in (folded, trained)]
    chance = 20 / ITEMS
    assert measured[0].recall > 0.8 * measured[1].recall > 1.5 * chance


def test_unknown_users_get_the_items_most_adjusted_lists_contain(model: ServedModel) -> None:
    everybody = np.arange(model.seen.n_users, dtype=np.int32)
    lists, _ = model.recommend(everybody, 20)
    shown = np.bincount(lists.ravel(), minlength=ITEMS)
    items, shares = model.recommend_to_anybody(ITEMS)
    assert sorted(items.tolist()) == list(range(ITEMS))
    assert shares.tolist() == pytest.approx((np.sort(shown)[::-1] / len(everybody)).tolist())
    assert (shown[items] / len(everybody)).tolist() == pytest.approx(shares.tolist())


@pytest.mark.parametrize(
    ("wanted", "place"),
    [("7", 1), (7, 1), ("07", None), (" 7", None), ("7_", None), ("٧", None), ("9" * 30, None), (8, None), ("", None)],
)
def test_ids_are_found_only_as_written_in_the_log(wanted: str | int, place: int | None) -> None:
    assert find(np.array([3, 7, 9]), wanted) == place
    assert find(np.array(["7", "a"], dtype=object), "7") == find(np.array(["7", "a"], dtype=object), 7) == 0


def test_slider_metrics_match_evaluate(folder: Path, model: ServedModel) -> None:
    measured = measure_stops(model)
    split = cp.load_split(folder / "run")
    assert measured["users"] == measured["of_users"] == np.count_nonzero(split.development.valid.user_counts)
    assert measured["item_strengths"] == tuple(round(0.1 * n, 1) for n in range(21))
    for a, b in ((0, 0), (7, 2), (20, 13)):
        strengths = measured["item_strengths"][a], measured["user_strengths"][b]
        found = cp.evaluate(model.recommender.with_strengths(*strengths), split, "valid", resamples=0).adjusted
        for name in ("recall", "hit_rate", "ndcg", "average_popularity", "tail_share", "coverage", "gini"):
            assert measured["values"][name][a][b] == pytest.approx(getattr(found, name), rel=1e-6), name
        for g, group in enumerate(found.groups):
            assert measured["values"][f"group_{g + 1}_frequency"][a][b] == pytest.approx(group["frequency"])
            assert measured["groups"][g]["items"] == group["items"]
    few = measure_stops(model, most_users=50)
    assert (few["users"], few["of_users"]) == (50, measured["of_users"])


def test_a_refit_run_serves_its_second_model_and_measures_its_first(tmp_path: Path) -> None:
    run = make_run(tmp_path, refit=True)
    served, saved = load_served(run), cp.load_run(run)
    assert saved.run.refit is not None
    assert np.array_equal(served.vectors.item_vectors, saved.run.refit.embeddings.item_vectors)
    trial = served.parts[0][0]
    assert np.array_equal(trial.embeddings.item_vectors, saved.run.model.embeddings.item_vectors)
    measured, grid = measure_stops(served), saved.grid
    assert grid is not None
    a, b = (measured[f"{side}_strengths"].index(0.4) for side in ("item", "user"))
    assert measured["values"]["recall"][a][b] == pytest.approx(grid.at(0.4, 0.4)["recall"])


def test_tuned_strengths_off_the_grid_become_stops(model: ServedModel) -> None:
    measured = measure_stops(replace(model, recommender=model.recommender.with_strengths(0.37, 2.5)))
    assert 0.37 in measured["item_strengths"]
    assert measured["user_strengths"][-1] == 2.5


def test_names_are_read_by_id(tmp_path: Path) -> None:
    ids = np.array([5, 6, 7])
    assert read_names(pl.DataFrame({"item_id": ["7", "5"], "label": ["a", None]}), ids, name="label") == [
        None,
        None,
        "a",
    ]
    with pytest.raises(InputError, match="both 'a' and 'b'"):
        read_names(pl.DataFrame({"item": [5, 5], "name": ["a", "b"]}), ids)
    with pytest.raises(InputError, match=r"holds none of its 3 ids \(such as 5\)"):
        read_names(pl.DataFrame({"item": [50, 60], "name": ["a", "b"]}), ids)
    with pytest.raises(InputError, match="no column 'name'"):
        read_names(pl.DataFrame({"item": [5], "year": [1999]}), ids)


# ------------------------------------------------------------------------------------------------ answers


def test_one_user(server: Server, model: ServedModel) -> None:
    body = server.get("/recommend?user=u17&k=7&item_strength=0.4&user_strength=1")
    at = find(model.vectors.user_ids, "u17")
    assert at is not None
    expected, scores = brute_force(model, at, 7, 0.4, 1.0)
    assert [entry["item"] for entry in body["items"]] == model.vectors.item_ids[expected].tolist()
    assert [entry["score"] for entry in body["items"]] == pytest.approx(scores, abs=1e-5)
    assert model.item_names is not None
    assert [entry["name"] for entry in body["items"]] == [model.item_names[item] for item in expected]
    assert (body["user"], body["k"], body["item_strength"], body["user_strength"]) == ("u17", 7, 0.4, 1.0)
    tuned = server.get("/recommend?user=u17")
    assert tuned["item_strength"] == model.recommender.item_strength
    assert len(tuned["items"]) == 20
    longest = server.get("/recommend?user=u17&k=1000")["items"]
    assert len(longest) == ITEMS - np.count_nonzero(model.seen.user_ix == at)


def test_batches_match_single_requests(server: Server, model: ServedModel) -> None:
    users = [f"u{n}" for n in range(0, 60, 7)] + ["nobody"]
    asked = {"users": users, "k": 5, "item_strength": 0.3, "user_strength": 0.2}
    status, body, _ = server.ask("/recommend", asked)
    assert status == 200
    for user, one in zip(users, body["lists"], strict=True):
        single = server.get(f"/recommend?user={user}&k=5&item_strength=0.3&user_strength=0.2")
        assert (one["user"], one["fallback"]) == (single["user"], single["fallback"])
        assert [entry["item"] for entry in one["items"]] == [entry["item"] for entry in single["items"]]
        scores = [entry["score"] for entry in single["items"]]  # a matrix product rounds differently
        assert [entry["score"] for entry in one["items"]] == pytest.approx(scores, rel=1e-6)
    assert body["lists"][-1]["fallback"] == "popular"
    tuned = model.recommender.item_strength, model.recommender.user_strength
    assert (single["item_strength"], single["user_strength"]) == tuned != (0.3, 0.2)  # the fallback's
    assert [one["fallback"] for one in body["lists"][:-1]] == [None] * (len(users) - 1)


def test_a_batch_of_histories(server: Server, model: ServedModel) -> None:
    status, body, _ = server.ask("/recommend", {"histories": [["i3", "i9"], ["i5"]], "k": 4})
    assert status == 200
    touched = [
        np.array([find(model.vectors.item_ids, i) for i in items], dtype=np.int32) for items in (["i3", "i9"], ["i5"])
    ]
    lists, _ = model.recommend_to(touched, 4)
    got = [[entry["item"] for entry in one["items"]] for one in body["lists"]]
    assert got == [model.vectors.item_ids[row].tolist() for row in lists]
    assert body["lists"][0]["user"] is None


def test_explanations_histories_and_searches(server: Server, model: ServedModel) -> None:
    at = find(model.vectors.user_ids, "u4")
    assert at is not None
    body = server.get("/explain?user=u4&k=6&item_strength=0.9&user_strength=0.1")
    plain, adjusted = model.recommender.explain(at, 6, 0.9, 0.1)
    assert [row["item"] for row in body["adjusted"]] == [model.vectors.item_ids[row.item] for row in adjusted]
    for got, row in zip(body["plain"] + body["adjusted"], plain + adjusted, strict=True):
        assert got["popular_part"] == pytest.approx(row.popular_part)
        assert got["adjusted_rank"] == row.adjusted_rank
        assert got["interactions"] == model.train.item_counts[row.item]
        parts = got["popular_part"] + got["conformity_part"] + got["adjusted_score"]
        assert got["plain_score"] == pytest.approx(parts, abs=1e-12)
    history = server.get("/history?user=u4")["items"]
    seen = model.seen.item_ix[model.seen.user_ix == at]
    assert {row["item"] for row in history} == set(model.vectors.item_ids[seen].tolist())
    assert [row["interactions"] for row in history] == sorted((row["interactions"] for row in history), reverse=True)
    found = server.get("/users?search=u4")["users"]
    assert found[0]["user"] == "u4"
    assert all(row["user"].startswith("u4") for row in found)
    assert len(found) == 11  # u4 and u40 to u49
    assert len(server.get("/users")["users"]) == 20
    assert server.get("/users?search=zzz")["users"] == []


def test_the_last_time_of_the_log_is_found_once(model: ServedModel) -> None:
    times = np.linspace(3.0, 1.0, len(model.seen.user_ix))
    recommender = model.recommender
    dated = replace(model, recommender=replace(recommender, seen=replace(model.seen, time=times)))
    assert dated.last_time == 3.0
    assert dated.last_time is dated.last_time
    assert replace(model, recommender=replace(recommender, seen=replace(model.seen, time=None))).last_time is None


def test_similar_and_audit(server: Server, model: ServedModel) -> None:
    body = server.get("/similar?item=i7&k=3&item_strength=1")
    at = find(model.vectors.item_ids, "i7")
    assert at is not None
    items, cosines = model.similar(at, 3, 1.0)
    assert [entry["item"] for entry in body["items"]] == model.vectors.item_ids[items].tolist()
    assert [entry["score"] for entry in body["items"]] == pytest.approx(cosines.tolist())
    body = server.get("/audit?k=10&item_strength=0&user_strength=0")
    expected = audit_model(model.recommender.with_strengths(0.0, 0.0), model.train, 10)
    assert body["verdict"]["headline"] == expected.verdict.headline
    assert body["gini"] == pytest.approx(expected.measures["gini"])
    assert body["pop_reo"] is None  # the test part is never opened
    for n in range(12):  # more than are kept
        assert server.get(f"/audit?k=10&item_strength={n / 10}")["item_strength"] == n / 10


def test_probes_metrics_and_openapi(server: Server) -> None:
    assert server.get("/healthz") == {"status": "ok"}
    ready = server.get("/readyz")
    assert (ready["run"], ready["users"], ready["items"], ready["names"]) == ("run", 300, ITEMS, ITEMS // 2)
    before = server.get("/metrics").decode()
    server.get("/recommend?user=u1")
    server.ask("/recommend?user=u1&k=0")
    server.ask("/nowhere/at/all")
    after = server.get("/metrics").decode()

    def count(text: str, line: str) -> float:
        return sum(float(row.split()[-1]) for row in text.splitlines() if row.startswith(line))

    for line, more in (
        ('counterpop_requests_total{path="/recommend",status="200"}', 1),
        ('counterpop_requests_total{path="/recommend",status="422"}', 1),
        ('counterpop_requests_total{path="other",status="404"}', 1),
        ('counterpop_request_seconds_count{path="/recommend"}', 2),
        ("counterpop_lists_total", 1),
    ):
        assert count(after, line) - count(before, line) == more, line
    paths = server.get("/openapi.json")["paths"]
    for path in ("/recommend", "/similar", "/audit", "/explain", "/healthz", "/readyz", "/metrics"):
        assert "422" in paths[path]["get"]["responses"]
    assert {"get", "post"} == set(paths["/recommend"])


# ------------------------------------------------------------------------------------------------ refusals

BAD = {
    "/recommend": (422, "user is missing"),
    "/recommend?user=": (422, "user"),
    "/recommend?user=u1&k=0": (422, "k must be greater than or equal to 1, got '0'"),
    "/recommend?user=u1&k=1000000": (422, "k must be less than or equal to 1000"),
    "/recommend?user=u1&k=-5": (422, "k "),
    "/recommend?user=u1&k=ten": (422, "k must be a valid integer"),
    "/recommend?user=u1&k=2.5": (422, "k must be a valid integer"),
    "/recommend?user=u1&k=": (422, "k must be a valid integer"),
    "/recommend?user=u1&item_strength=nan": (422, "item_strength must be a finite number"),
    "/recommend?user=u1&user_strength=inf": (422, "user_strength must be a finite number"),
    "/recommend?user=u1&user_strength=1e300": (422, "user_strength must be less than or equal to 10"),
    "/recommend?user=u1&item_strength=much": (422, "item_strength must be a valid number"),
    "/recommend?user=u1&strength=1": (422, "'strength' is not a parameter of /recommend"),
    "/recommend?user=" + "x" * 5000: (422, "user must have at most 256 characters"),
    "/similar?item=nothing": (404, "item 'nothing' is not among the 150 items"),
    "/similar?item=%00": (404, "item"),
    "/explain?user=nobody": (404, "user 'nobody' is not among the 300 users"),
    "/history?user=%F0%9F%98%80": (404, "user"),
    "/audit?k=101": (422, "k must be less than or equal to 100"),
    "/healthz?verbose=1": (422, "'verbose' is not a parameter"),
    "/recommend/": (404, "there is nothing at"),
    "//recommend?user=u1": (404, "there is nothing at"),
    "/../../etc/passwd": (404, "there is nothing at"),
    "/%2e%2e/%2e%2e/etc/passwd": (404, "there is nothing at"),
    "/page.js/../../model.py": (404, "there is nothing at"),
    "/model.py": (404, "there is nothing at"),
    "/page.js%00.css": (404, "there is nothing at"),
    "/docs": (404, "there is nothing at"),
}


def check_refusal(answer: tuple[int, Any, Any], status: int, sentence: str) -> None:
    got, body, _ = answer
    assert got == status, body
    assert set(body) == {"detail"}
    assert sentence in body["detail"]
    assert "Traceback" not in body["detail"]
    assert len(body["detail"]) < 400


@pytest.mark.parametrize("path", BAD)
def test_bad_queries_get_a_sentence(server: Server, path: str) -> None:
    check_refusal(server.ask(path), *BAD[path])


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 422, "either users or histories"),
        ({"users": ["u1"], "histories": [["i1"]]}, 422, "either users or histories"),
        ({"users": []}, 422, "users must have at least 1 item"),
        ({"users": ["u1"] * 1025}, 422, "users must have at most 1024 items"),
        ({"users": ["u1"] * 1000, "k": 1000}, 422, "lists times k must be at most 200,000"),
        ({"users": "u1"}, 422, "users must be a valid list"),
        ({"users": [True]}, 422, "users.0 must be an id"),
        ({"users": [None]}, 422, "users.0 must be an id"),
        ({"users": [1.5]}, 422, "users.0 must be an id"),
        ({"histories": [[10**30]]}, 404, "item 1000000"),
        ({"users": ["u1"], "k": "20"}, 422, "k must be a whole number"),
        ({"users": ["u1"], "k": True}, 422, "k must be a whole number"),
        ({"users": ["u1"], "item_strength": float("nan")}, 422, "item_strength must be a finite number"),
        ({"users": ["u1"], "item_strength": float("inf")}, 422, "item_strength"),
        ({"users": ["u1"], "more": 1}, 422, "'more' is not a parameter"),
        ({"histories": [[]]}, 422, "histories.0 must have at least 1 item"),
        ({"histories": [["i1"] * 1001]}, 422, "histories.0 must have at most 1000 items"),
        ({"histories": [["i1", "nothing"]]}, 404, "item 'nothing' is not among"),
        ({"users": ["\ud800"]}, 422, "users.0"),
        ([], 422, "the body must be"),
        (None, 422, ""),
        (b"{", 422, "the body must be JSON"),
        (b"", 422, "the body is missing"),
        (b"\xff\xff", 400, "the body cannot be read"),
        (b"[" * 100_000, 400, "the body cannot be read"),
        (b'{"users": [' + b"9" * 5000 + b"]}", 400, "the body cannot be read"),
        (b" " * (10 << 20), 413, "at most 1,048,576 bytes"),
    ],
)
def test_bad_bodies_get_a_sentence(server: Server, body: Any, status: int, sentence: str) -> None:
    check_refusal(server.ask("/recommend", body, method="POST"), status, sentence)


def test_other_content_and_methods(server: Server) -> None:
    plain = {"Content-Type": "text/plain"}
    check_refusal(server.ask("/recommend", b'{"users": ["u1"]}', headers=plain), 422, "application/json")
    for method in ("PUT", "DELETE", "PATCH", "POST", "OPTIONS"):
        answer = server.ask("/similar?item=i1", b"", method=method)
        check_refusal(answer, 405, f"{method} is not allowed at '/similar'; use GET")
        assert answer[2]["allow"] == "GET"
    assert server.ask("/recommend", b"", method="PUT")[2]["allow"] == "GET, POST"
    status, body, headers = server.ask("/recommend?user=u1", method="HEAD")
    assert (status, body) == (200, b"") and int(headers["content-length"]) > 100


def converse(server: Server, *parts: bytes, pause: float = 0.0) -> bytes:
    """Sends raw bytes to the server; everything it answers until it stops or closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        connection.settimeout(3)
        said = b""
        while b"}" not in said:
            try:
                piece = connection.recv(65536)
            except TimeoutError:
                break
            if not piece:
                break
            said += piece
        return said


def test_a_large_chunked_body_is_cut_off(server: Server) -> None:
    head = b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"80000\r\n" + b" " * 0x80000 + b"\r\n"
    assert converse(server, head, piece, piece, piece).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "words",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /recommend?user=\xff\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /recommend HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /recommend HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
    ],
)
def test_invalid_http_is_refused(server: Server, words: bytes) -> None:
    said = converse(server, words)
    assert said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200")), said
    assert server.get("/healthz") == {"status": "ok"}


def test_unknown_users_can_be_refused(folder: Path) -> None:
    with serving(folder / "run", unknown="404") as (server, _):
        check_refusal(server.ask("/recommend?user=nobody"), 404, "user 'nobody' is not among the 300 users")
        check_refusal(server.ask("/recommend", {"users": ["u1", "nobody"]}), 404, "user 'nobody'")
        assert server.get("/readyz")["unknown"] == "404"
        assert "name" not in server.get("/recommend?user=u1")["items"][0]


def test_limits_on_time_and_concurrency(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServedModel, "similar", lambda *_: time.sleep(2.5))
    with serving(folder / "run", limits=Limits(seconds=1.0, at_once=3)) as (server, _):
        check_refusal(server.ask("/similar?item=i1"), 503, "no answer within 1 seconds")
        head = b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        assert converse(server, head, b"{", pause=0.4).startswith(b"HTTP/1.1 408")
        slow = [threading.Thread(target=server.ask, args=("/similar?item=i1",)) for _ in range(3)]
        for thread in slow:
            thread.start()
        time.sleep(0.4)
        answer = server.ask("/recommend?user=u1")
        check_refusal(answer, 503, "3 requests are already in progress")
        assert answer[2]["retry-after"] == "1"
        assert server.get("/healthz") == {"status": "ok"}  # probes are answered however busy it is
        for thread in slow:
            thread.join()
        assert server.get("/healthz") == {"status": "ok"}


def test_headers_are_limited_in_size_and_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    with serving(folder / "run") as (server, _):
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        for line in (b"x: " + b"y" * 200_000, b"x" * 200_000 + b": y", b"x: " + b"y" * 70_000 + b"\r\n\r\n"):
            with suppress(ConnectionError):  # closed while the headers were still coming in
                assert b" 431 " in converse(server, head + line)
        start = time.monotonic()
        assert converse(server, head, b"", pause=0.0) == b""  # closed without an answer
        assert 0.4 < time.monotonic() - start < 5
        assert server.get("/healthz") == {"status": "ok"}


def test_probes_are_answered_beyond_the_limit_on_connections(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "most_connections", lambda: 20)
    with serving(folder / "run") as (server, _), ExitStack() as held:
        for _ in range(20):
            slow = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            slow.sendall(b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        time.sleep(0.3)
        assert server.get("/healthz") == {"status": "ok"}
        check_refusal(server.ask("/recommend?user=u1"), 503, "too many connections are open")
    assert "20 connections are open, which is the limit" in caplog.text


def test_a_probe_does_not_wait_for_a_crowd() -> None:
    started: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        started.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(guard: Guard, path: str) -> None:
        async def say(message: Any) -> None:
            pass

        await guard({"type": "http", "method": "GET", "path": path, "headers": []}, say, say)  # type: ignore[arg-type]

    async def crowd() -> None:
        guard = Guard(inner, Counts(), (), limits=Limits())
        await asyncio.gather(*(ask(guard, f"/{n}") for n in range(200)), ask(guard, "/healthz"))

    asyncio.run(crowd())
    assert started.index("/healthz") == EACH  # in the first round, after those whose turn it was
    assert [path for path in started if path != "/healthz"] == [f"/{n}" for n in range(200)]


def test_wrong_tokens_are_limited_and_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(folder / "run", tokens=[TOKEN]) as (server, _):
        wrong = {"Authorization": f"Bearer {TOKEN}x"}
        answers = [server.ask("/metrics", headers=wrong)[0] for _ in range(22)]
        assert answers == [401] * 20 + [429] * 2
        assert server.ask("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 429
        assert server.get("/healthz") == {"status": "ok"}
    assert "wrong tokens from 127.0.0.1: 20 in the last minute" in caplog.text


def test_a_token_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("counterpop.serving.server.time.monotonic", lambda: float(next(clock)))
    path = tmp_path / "tokens"
    path.write_text(TOKEN)
    tokens = TokenFile(path)
    path.write_text(f"{TOKEN}-new")
    os.utime(path, (1, 1))
    assert tokens() == [f"{TOKEN}-new"]
    path.write_text("short")
    os.utime(path, (2, 2))
    assert tokens() == [f"{TOKEN}-new"]  # a bad file changes nothing


def test_the_end_of_the_watch_is_visible(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(cp.InputError, match="look_every must be a number of seconds above 0, got nan"):
        create_app(source_of(folder / "run"), look_every=float("nan"))

    async def end(*_: object) -> None:
        raise RuntimeError("out of threads")

    monkeypatch.setattr(Watch, "look", end)
    with serving(folder / "run") as (server, _):
        time.sleep(0.5)
        assert "no longer watched" in server.get("/readyz")["failed_reload"]


def test_an_unexpected_error_gives_one_sentence_and_is_logged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(folder / "run") as (server, _):
        monkeypatch.setattr(ServedModel, "similar", lambda *_: 1 / 0)
        check_refusal(server.ask("/similar?item=i1"), 500, "unexpected error")
    assert "ZeroDivisionError" in caplog.text


def test_tokens(folder: Path) -> None:
    with serving(folder / "run", tokens=["another-token-of-theirs", TOKEN]) as (server, _):
        for headers in (
            {},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer é"},
        ):
            answer = server.ask("/recommend?user=u1", headers=headers)
            check_refusal(answer, 401, "a bearer token is required")
            assert answer[2]["www-authenticate"] == "Bearer"
        for path in ("/metrics", "/openapi.json", "/audit", "/measures", "/nowhere", "/users", "/history?user=u1"):
            assert server.ask(path)[0] == 401, path
        for path in ("/", "/page.js", "/curve.js", "/saving.js", "/page.css", "/healthz", "/readyz"):
            assert server.ask(path)[0] == 200, path
        assert server.ask("/recommend?user=u1", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200
        assert server.ask("/metrics", headers={"Authorization": f"bearer {TOKEN}"})[0] == 200


def test_only_local_host_names_without_a_token(folder: Path) -> None:
    with serving(folder / "run", hosts=LOOPBACK) as (server, _):
        for host in ("localhost", f"127.0.0.1:{server.port}", "[::1]:80", "LOCALHOST:1"):
            assert server.ask("/healthz", headers={"Host": host})[0] == 200, host
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", ""):
            check_refusal(server.ask("/healthz", headers={"Host": host}), 421, "only to localhost")


# ------------------------------------------------------------------------------------------------- fuzzing

FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(max_size=20) | st.sampled_from(["nan", "-inf", "1e400", "0", "-1", "9" * 40, "u1", "i1", "\x00", "%"])


def check_sane(answer: tuple[int, Any, Any]) -> None:
    status, body, _ = answer
    assert status in (200, 400, 404, 405, 413, 422), (status, body)
    if status != 200:
        assert set(body) == {"detail"}
        assert isinstance(body["detail"], str)
        assert body["detail"]


@FUZZ
@given(
    path=st.sampled_from(["/recommend", "/similar", "/explain", "/history", "/users", "/audit", "/readyz", "/measures"])
    | st.text(string.printable, max_size=12).map(lambda text: "/" + quote(text, safe="/.;%~")),
    query=st.lists(
        st.tuples(st.sampled_from(["user", "item", "k", "item_strength", "user_strength", "search"]) | TEXT, TEXT),
        max_size=4,
    ),
)
def test_no_query_breaks_the_server(server: Server, path: str, query: list[tuple[str, str]]) -> None:
    answer = server.ask(f"{path}?{urlencode(query, errors='surrogatepass')}")
    if path != "/measures" or answer[0] != 202:
        check_sane(answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@FUZZ
@given(
    body=JSON
    | st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("users", "histories", "k", "item_strength", "user_strength"), JSON)
    )
    | st.binary(max_size=40)
)
def test_no_body_breaks_the_server(server: Server, body: Any) -> None:
    check_sane(server.ask("/recommend", body, method="POST"))


def test_answers_match_the_openapi_description(server: Server) -> None:
    """schemathesis on every operation: answers match their schema, wrong input is refused, nothing fails."""
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    seen = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        seen.add(f"{operation.method} {operation.path}")

        @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(
            case=operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
        )
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate()

        check()
    assert {"get /recommend", "post /recommend", "get /similar", "get /audit", "get /readyz"} <= seen


# ---------------------------------------------------------------------------------- reloading and load


def test_a_new_run_is_loaded_without_dropping_requests(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    make_run(tmp_path / "other", seed=9)
    new = load_served(tmp_path / "other" / "run")
    with serving(tmp_path / "run") as (server, old):
        answers: list[tuple[int, list[str]]] = []
        stop = threading.Event()

        def client() -> None:
            while not stop.is_set():
                status, body, _ = server.ask("/recommend?user=u17&k=10&item_strength=0&user_strength=0")
                answers.append((status, [entry["item"] for entry in body["items"]]))

        threads = [threading.Thread(target=client) for _ in range(2)]
        for thread in threads:
            thread.start()
        saved, split = cp.load_run(tmp_path / "other" / "run"), cp.load_split(tmp_path / "other" / "run")
        cp.save_run(saved.run, tmp_path / "run", split)  # in two steps, as `train` and `tune` write it
        assert saved.adjustment is not None and saved.grid is not None
        cp.save_tuning(tmp_path / "run", saved.adjustment, saved.grid, {})
        deadline = time.monotonic() + 20
        while server.get("/readyz")["version"] < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join()
        at = find(old.vectors.user_ids, "u17")
        assert at is not None
        before, after = (
            m.vectors.item_ids[m.recommend(np.array([at], np.int32), 10, 0.0, 0.0)[0][0]].tolist() for m in (old, new)
        )
        assert before != after
        assert {status for status, _ in answers} == {200}
        kinds = ["old" if items == before else "new" if items == after else "neither" for _, items in answers]
        assert "neither" not in kinds
        assert kinds[0] == "old"
        assert kinds[-1] == "new"
        assert server.measures()["version"] == server.get("/readyz")["version"]


def test_a_run_that_cannot_be_loaded_leaves_the_old_one_in_place(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    with serving(tmp_path / "run") as (server, _):
        expected = server.get("/recommend?user=u1")
        (tmp_path / "run" / "manifest.json").write_text("{")
        for _ in range(100):
            if (failure := server.get("/readyz")["failed_reload"]) is not None:
                break
            time.sleep(0.05)
        assert "manifest.json is damaged" in failure
        assert server.get("/recommend?user=u1") == expected
        assert b'counterpop_reloads_total{result="refused"} 1.0' in server.get("/metrics")
        shutil.copy(folder / "run" / "manifest.json", tmp_path / "run" / "manifest.json")
        for _ in range(100):
            if server.get("/readyz")["version"] == 2:
                break
            time.sleep(0.05)
        assert server.get("/readyz")["failed_reload"] is None


def test_two_clients_at_full_speed_get_exact_lists(server: Server, model: ServedModel) -> None:
    ids = model.vectors.user_ids.tolist()
    expected = {
        user: model.vectors.item_ids[model.recommend(np.array([n], np.int32), 20)[0][0]].tolist()
        for n, user in enumerate(ids)
    }
    seconds: list[float] = []
    wrong: list[object] = []

    def client(seed: int) -> None:
        draw = np.random.default_rng(seed)
        connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
        stop = time.perf_counter() + 2
        while (start := time.perf_counter()) < stop:
            user = ids[draw.integers(len(ids))]
            connection.request("GET", f"/recommend?user={user}&k=20")
            answer = connection.getresponse()
            body = json.loads(answer.read())
            seconds.append(time.perf_counter() - start)
            if answer.status != 200 or [entry["item"] for entry in body["items"]] != expected[user]:
                wrong.append((answer.status, body))
        connection.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(seconds) > 200  # benchmarks/bench_serving.py measures the real speed, on a quiet machine
    assert np.quantile(seconds, 0.99) < 0.5


# ------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "0.0.0.0"], "pass --token-file"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--token-file", "{folder}/short"], "at least 16 characters"),
        (["--token-file", "{folder}/missing"], "No such file"),
        (["--names", "{folder}/missing.csv"], "missing.csv is missing"),
        (["--names", "{folder}/names.csv", "--name", "nom"], "has no column 'nom'"),
    ],
)
def test_the_command_refuses_in_one_sentence(folder: Path, words: list[str], sentence: str) -> None:
    (folder / "short").write_text("short\n")
    filled = [word.format(folder=folder) for word in words]
    result = CliRunner().invoke(main, ["serve", str(folder / "run"), "--port", "0", *filled])
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_the_command_needs_a_run_and_a_free_port(folder: Path) -> None:
    result = CliRunner().invoke(main, ["serve", str(folder), "--port", "0"])
    assert result.exit_code == 1
    assert "is not a run or adjustment folder" in result.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["serve", str(folder / "run"), "--port", str(port)])
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in result.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_the_command_serves_until_interrupted(folder: Path, host: str) -> None:
    words = [sys.executable, "-m", "counterpop", "serve", str(folder / "run"), "--port", "0", "--json"]
    words += ["--host", host]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith(f"Serving {folder / 'run'} at http://{host}:"), line
            port = int(line.split(":")[2].split("/")[0])
            server = Server(None, port, host)  # type: ignore[arg-type]
            assert len(server.get("/recommend?user=u3&k=5")["items"]) == 5
            check_refusal(server.ask("/healthz", headers={"Host": "evil.example"}), 421, "only to localhost")
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["requests"] == 2
    assert "Traceback" not in stderr


def test_tokens_are_read_one_per_line(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"{TOKEN}\n\n  {TOKEN}2  \n")
    assert read_tokens(str(tmp_path / "tokens")) == [TOKEN, f"{TOKEN}2"]
