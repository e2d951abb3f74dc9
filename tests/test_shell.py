"""Completion really completes in bash, and `doctor` finds what is there, what is missing and what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from counterpop import doctor
from counterpop.cli import main

BIN = Path(sys.executable).parent  # where the command is installed


def complete(*words: str) -> list[str]:
    """What bash offers for the last of these words, with the script as a user would load it."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        'eval "$(counterpop completion bash)"\n'
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
        "_counterpop_completion counterpop\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=os.environ | path, check=True)
    return done.stdout.split()


@pytest.mark.skipif(
    not (BIN / "counterpop").exists() or shutil.which("bash") is None, reason="needs bash and the installed command"
)
def test_bash_completes_commands_and_options() -> None:
    assert complete("counterpop", "comp") == ["compare", "completion"]
    assert set(complete("counterpop", "train", "--see")) == {"--seed", "--seeds"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0 and "_COUNTERPOP_COMPLETE" in done.stdout
    told = json.loads(CliRunner().invoke(main, ["completion", shell, "--json"]).stdout)
    assert told["script"].strip() == done.stdout.strip()
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


def test_doctor_checks_numbers(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["doctor", "--folder", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.stdout
    found = json.loads(done.stdout)
    assert len(found["checks"]) == 4
    assert all(check["passed"] for check in found["checks"]) and not found["problems"]
    assert found["versions"]["numpy"] and found["machine"]["threads"] >= 1
    assert found["folder"]["writable"] and found["folder"]["free_bytes"] > 0
    assert found["extras"]["implicit"]["missing"] == []
    assert "Everything works." in CliRunner().invoke(main, ["doctor"]).stdout


def test_doctor_says_what_is_wrong_and_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "recall", lambda hits, held: [0.25])
    monkeypatch.setattr(doctor, "_is_installed", lambda name: name != "implicit")
    done = CliRunner().invoke(main, ["doctor", "--folder", str(tmp_path / "nowhere")])
    assert done.exit_code == 1
    assert "implicit: lacks implicit; pip install 'counterpop[implicit]'" in done.stdout
    assert "held-out items is wrong: got 0.25, must be 0.5" in done.stdout
    assert "nowhere cannot be written" in done.stdout
