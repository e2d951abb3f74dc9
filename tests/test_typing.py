"""The package as a type checker and an editor see it: public names, keywords, and what a mistyped one costs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import counterpop as cp
from builders import vectors_for
from counterpop.debiasing import DebiasOptions
from counterpop.errors import InputError
from counterpop.training import TrainOptions
from counterpop.tuning import GridOptions, TuneOptions, TuneSettings
from counterpop.tuning.search import SearchOptions

ROOT = Path(__file__).parents[1]
TREE = ast.parse(Path(cp.__file__).read_text(encoding="utf-8"))


def test_public_names_are_literal_and_the_ones_imported_for_type_checkers() -> None:
    block = next(node for node in TREE.body if isinstance(node, ast.If))
    named = {
        alias.name for statement in block.body if isinstance(statement, ast.ImportFrom) for alias in statement.names
    }
    literal = next(node.value for node in TREE.body if isinstance(node, ast.Assign) and _name(node) == "__all__")
    assert ast.literal_eval(literal) == cp.__all__
    assert named == set(cp.__all__) == {*cp._HOME_OF, *cp._MODULES}
    for name in cp.__all__:
        value = getattr(cp, name)
        assert getattr(value, "__name__", name).rpartition(".")[2] == name  # METHODS and NUMBERS have none


def _name(node: ast.Assign) -> str | None:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else None


def test_dir_shows_only_public_names() -> None:
    code = "import counterpop as cp; print(sorted(dir(cp)) == sorted([*cp.__all__, '__doc__', '__version__']))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "True"


def test_submodules_come_with_the_package_but_not_at_import() -> None:
    code = (
        "import sys, counterpop as cp\n"
        "before = [name for name in sys.modules if name.startswith('counterpop.')]\n"
        "print(before, cp.adapters.faiss.search.__name__, cp.reporting.write_report.__name__)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[] search write_report"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cp.adapters.nothing  # noqa: B018


OPTIONS = [
    (TrainOptions, cp.Settings),
    (TuneOptions, TuneSettings),
    (DebiasOptions, cp.DebiasSettings),
    (GridOptions, SearchOptions),
]


@pytest.mark.parametrize(("options", "settings"), OPTIONS, ids=lambda one: one.__name__)
def test_keywords_are_the_fields_of_the_settings(options: Any, settings: Any) -> None:
    """What type checkers are told is what the settings hold; None may stand for a default."""
    told = {name: _parts(kind.__forward_arg__) for name, kind in options.__annotations__.items()}
    held = {field.name: _parts(str(field.type)) for field in fields(settings)}
    assert told.keys() == held.keys()
    for name, kinds in held.items():
        assert kinds <= told[name] <= kinds | {"None", "str"}, name


def _parts(annotation: str) -> set[str]:
    return {part.strip() for part in annotation.split(" | ")}


def test_audit_model_takes_the_keywords_of_audit() -> None:
    from counterpop.auditing.measures import AuditOptions

    keywords = [p.name for p in inspect.signature(cp.audit).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert list(AuditOptions.__annotations__) == keywords


def test_a_mistyped_keyword_is_refused_with_a_suggestion(split: cp.Split) -> None:
    vectors, log = vectors_for(split.train), split.train
    run = cp.Run(cp.Model(vectors))
    both: Any = (vectors.user_vectors, vectors.item_vectors, log)
    calls: list[tuple[Any, str]] = [
        (lambda: cp.train(split, epoch=3), "'epoch' is not a setting; did you mean 'epochs'"),  # type: ignore[call-arg]
        (lambda: cp.train(split, ensembles=3), "did you mean 'ensemble'"),  # type: ignore[call-arg]
        (lambda: cp.search(split, minute=3), "did you mean 'minutes'"),  # type: ignore[call-arg]
        (lambda: cp.tune(run, split, prices=0.1), "did you mean 'price'"),  # type: ignore[call-arg]
        (lambda: cp.debias(*both, hold_out=log), "did you mean 'holdout'"),  # type: ignore[call-arg]
        (lambda: cp.train(split, zzz=3), "'zzz' is not a setting; there are backbone"),  # type: ignore[call-arg]
    ]
    for call, message in calls:
        with pytest.raises(InputError, match=message):
            call()


USER_CODE = """
import counterpop as cp

split = cp.split_uniform(cp.make_world(300, 200).log, test=2, valid=2)
run: cp.Run = cp.train(split, method="gradient", dim=8, epochs=20, seed=0)
best = cp.tune(run, split, point="gain")
result: cp.Evaluation = cp.evaluate(best, split, on="test")
print(result.adjusted.recall, cp.reporting.write_report, cp.adapters.Vectors)
cp.train(split, epoch=3)  # wrong
cp.train(split, epochs="3")  # wrong
cp.tune(run, split, point="most")  # wrong
cp.search(split, minute=3)  # wrong
"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_accept_user_code_and_refuse_mistyped_keywords(checker: str, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER_CODE)
    wrong = [n for n, line in enumerate(USER_CODE.splitlines(), 1) if "# wrong" in line]
    command = [sys.executable, "-m", checker]
    if checker == "mypy":
        command += ["--strict", "--config-file", str(ROOT / "pyproject.toml")]
    else:
        (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT / "src"}"]}}')
        command += ["--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run([*command, str(tmp_path / "user.py")], capture_output=True, text=True, cwd=ROOT, check=False)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if "error:" in line or "- error" in line}
    assert sorted(found) == wrong, done.stdout + done.stderr
