"""A file imports only from lines above it, and importing the package stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import counterpop

# The order of DESIGN.md, made a true order: `embeddings` stands before `worlds`, which uses its types.
LAYERS = [
    "errors",
    "numbers",
    "encoding",
    "presentation",
    "progress",
    "uncertainty",
    "outputs",
    "tabular",
    "locks",
    "kernels",
    "interactions",
    "embeddings",
    "folding",
    "readers",
    "worlds",
    "splits",
    "ledger",
    "runs",
    "directions",
    "adjustment",
    "ranking",
    "recommender",
    "panels",
    "metrics",
    "evaluation",
    "grid",
    "tuning",
    "corrections",
    "training",
    "segmentation",
    "debiasing",
    "drift",
    "auditing",
    "adapters",
    "sql",
    "spark",
    "artifacts",
    "comparison",
    "reporting",
    "jobs",
    "paper",
    "serving",
    "demo",
    "doctor",
    "cli",
    "__main__",
]
TORCH_ONLY_IN = {"training", "adapters"}
ROOT = Path(counterpop.__path__[0])
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports_of(path: Path) -> set[str]:
    """Dotted names of everything a file imports, wherever in it; `from a import b` is both a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports within the package are absolute"
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_from_lines_above_it(path: Path) -> None:
    layer = layer_of(path)
    assert layer in LAYERS, f"{layer} has no line in the order; give it one"
    allowed = {*LAYERS[: LAYERS.index(layer)], layer}
    used = {name.split(".")[1] for name in imports_of(path) if name.startswith("counterpop.")}
    assert {name for name in used if name in LAYERS} <= allowed
    # of the names that the root itself holds, only the version is for use within
    assert used - set(LAYERS) <= {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_torch_is_imported_only_where_it_is_needed(path: Path) -> None:
    if layer_of(path) not in TORCH_ONLY_IN:
        assert not {name for name in imports_of(path) if name.split(".")[0] == "torch"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "torch", "numba", "plotly", "polars", "scipy", "fastapi"
    code = f"import sys, counterpop; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("test_*.py")), ids=lambda path: path.name)
def test_test_modules_do_not_import_each_other(path: Path) -> None:
    shared = {name for name in imports_of(path) if name.startswith("test_") or name.split(".")[0] == "conftest"}
    assert not shared, f"move what {path.name} imports to tests/builders.py"


def test_the_experiments_on_a_gpu_need_neither_numba_nor_polars() -> None:
    """A machine with a GPU may have little more than torch and NumPy."""
    pytest.importorskip("torch", reason="torch is not installed")
    folders = [str(ROOT.parents[1] / name) for name in ("experiments", "benchmarks")]
    code = (
        "import sys; sys.modules |= dict.fromkeys(('numba', 'polars', 'plotly'))\n"
        f"sys.path[:0] = {folders!r}\n"
        "import paper_on_gpu, bench_device"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
