"""What this installation has and lacks, and whether its numbers are right."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import numpy as np

from counterpop import __version__
from counterpop.adjustment import Adjustment, adjust
from counterpop.embeddings import Embeddings
from counterpop.interactions import Interactions
from counterpop.kernels.threads import core_count
from counterpop.metrics.accuracy import find_hits, recall
from counterpop.ranking import rank, tie_order
from counterpop.worlds import World, make_world, taste_recall

FOR_DEVELOPERS = ("test", "bench", "docs")  # extras that nobody needs to use the package
LEAST_FREE = 1e9  # bytes of disk space that a run may need


def diagnose(folder: str | Path = ".") -> dict[str, Any]:
    """Versions, cores, GPU, extras, the folder and a self-test, as `counterpop doctor --json` prints them.

    `problems` lists what should be put right, in sentences; it is empty if everything works.
    """
    found: dict[str, Any] = {
        "versions": _versions(),
        "machine": {
            "system": platform.platform(),
            "processors": os.cpu_count(),
            "threads": core_count(),
            "gpus": _gpus(),
        },
        "extras": _extras(),
        "folder": _folder(Path(folder)),
        "checks": check_numbers(),
    }
    here = found["folder"]
    problems = [] if here["writable"] else [f"{here['path']} cannot be written; choose another folder"]
    if here["free_bytes"] < LEAST_FREE:
        problems.append(f"the disk of {here['path']} has only {here['free_bytes'] / 1e6:,.0f} MB left")
    problems += [
        f"{check['name']} is wrong: got {check['got']:.6g}, must be {check['expected']:.6g}; install the package again"
        for check in found["checks"]
        if not check["passed"]
    ]
    return found | {"problems": problems}


def _versions() -> dict[str, str]:
    needed = [re.split(r"[^A-Za-z0-9_.-]", one)[0] for one in requires("counterpop") or [] if "extra ==" not in one]
    return {"python": platform.python_version(), "counterpop": __version__, **{name: version(name) for name in needed}}


def _extras() -> dict[str, dict[str, Any]]:
    """Each extra with what it lacks; a package that other systems need does not count."""
    wanted: dict[str, list[str]] = {}
    for one in requires("counterpop") or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", one)
        name = re.match(r"[A-Za-z0-9_.-]+", one)
        if extra and name and extra[1] not in FOR_DEVELOPERS and "sys_platform" not in one:
            wanted.setdefault(extra[1], []).append(name[0])
    return {
        extra: {
            "missing": (missing := [name for name in names if not _is_installed(name)]),
            "install": f"pip install 'counterpop[{extra}]'" if missing else None,
        }
        for extra, names in wanted.items()
    }


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _gpus() -> list[str]:
    """The names of the GPUs that NVIDIA's driver reports."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    done = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def _folder(path: Path) -> dict[str, Any]:
    writable = True
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(1))
    except OSError:
        writable = False
    there = next(parent for parent in (path.resolve(), *path.resolve().parents) if parent.exists())
    return {"path": str(path.resolve()), "writable": writable, "free_bytes": shutil.disk_usage(there).free}


def check_numbers() -> list[dict[str, Any]]:
    """The self-test: results of the kernels beside what they must be."""
    world = make_world(200, 300, mean_activity=10.0)
    checks: list[tuple[str, Callable[[], float], float, float]] = [
        ("recall of a list with two of four held-out items", _recall_by_hand, 0.5, 0.0),
        ("share of lists ranked as by sorting all scores", lambda: _ranked_like_sorting(world), 1.0, 0.0),
        ("largest difference of query and adjusted vectors", _query_difference, 0.0, 1e-4),
        ("share of true favourites found by the true taste", lambda: _truth_found(world), 1.0, 0.0),
    ]
    found = []
    for name, measure, expected, tolerance in checks:
        start = time.perf_counter()
        got = measure()
        passed = abs(got - expected) <= tolerance
        seconds = time.perf_counter() - start
        found.append({"name": name, "got": got, "expected": expected, "passed": passed, "seconds": seconds})
    return found


def _recall_by_hand() -> float:
    held = Interactions(np.zeros(4, np.int32), np.array([1, 3, 5, 7], np.int32), np.arange(1), np.arange(9))
    lists, users = np.array([[1, 2, 3, 4]], np.int32), np.zeros(1, np.int32)
    return float(recall(find_hits(lists, users, held).astype(np.float64), held.user_counts)[0])


def _ranked_like_sorting(world: World, k: int = 10) -> float:
    users = np.arange(len(world.user_taste), dtype=np.int32)
    ties = tie_order(world.log.item_ids)
    lists, _ = rank(world.user_taste, world.item_taste, k, users=users, seen=[], ties=ties)
    best = np.argsort(-(world.user_taste.astype(np.float64) @ world.item_taste.T), axis=1, kind="stable")[:, :k]
    return float(np.mean([set(one) == set(other) for one, other in zip(lists.tolist(), best.tolist(), strict=True)]))


def _query_difference() -> float:
    draw = np.random.default_rng(0)
    P, Q = (draw.normal(size=(n, 8)).astype(np.float32) for n in (40, 60))
    q, p = (v / np.linalg.norm(v) for v in draw.normal(size=(2, 8)).astype(np.float32))
    adjustment = Adjustment(q, p, 0.7, 0.3)
    stored = adjust(Embeddings(P, Q, np.arange(40), np.arange(60)), adjustment)
    return float(np.abs(adjustment.query(P) @ Q.T - stored.user_vectors @ stored.item_vectors.T).max())


def _truth_found(world: World) -> float:
    users = np.arange(len(world.user_taste), dtype=np.int32)
    ties = tie_order(world.log.item_ids)
    lists, _ = rank(world.user_taste, world.item_taste, 20, users=users, seen=[world.log], ties=ties)
    return float(taste_recall(world, lists, exclude=world.log).mean())
