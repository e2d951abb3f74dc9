"""README's way from `pip install` to a page about implicit's ALS runs as written."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import counterpop

ROOT = Path(__file__).parents[1]


def test_the_four_commands_make_a_page_with_titles_and_users(tmp_path: Path) -> None:
    pytest.importorskip("implicit", reason="implicit is not installed (pip install 'counterpop[implicit]')")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("with titles and single users before and after:\n")[1]
    commands = re.findall(r"^    (\S.*)$", section.split("The second line")[0], re.MULTILINE)
    install, *commands = commands
    assert len(commands) <= 3 and install == "pip install '.[implicit]'"  # done: this environment has it
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert "implicit" in extras
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    sources = Path(counterpop.__path__[0]).parent
    there = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    there |= {"PYTHONPATH": str(sources), "OPENBLAS_NUM_THREADS": "1"}
    shown = ""
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=there, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        shown = done.stdout
    with (tmp_path / "films.csv").open(encoding="utf-8") as file:
        titles = {row["item"]: row["title"] for row in csv.DictReader(file)}
    lists = [*csv.DictReader(shown.splitlines())]
    assert len(lists) == 10 and {row["user"] for row in lists} == {"17"}
    assert [row["title"] for row in lists] == [titles[row["item"]] for row in lists]
    page = (tmp_path / "FIX" / "report.html").read_text(encoding="utf-8")
    assert sum(f">{title}<" in page for title in titles.values()) > 30
    assert "<h2>What changes for a user</h2>" in page
