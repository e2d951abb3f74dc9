"""Outputs that appear complete or not at all, and locks that let one writer in."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TextIO

import pytest
from click.testing import CliRunner

import counterpop as cp
from counterpop import artifacts
from counterpop.cli import main
from counterpop.errors import InputError
from counterpop.locks import locked
from counterpop.outputs import PREFIX, replacing, temporary


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_only_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page.html"
    with replacing(path) as part:
        part.write_text("old")
    with pytest.raises(KeyError), replacing(path) as part:
        part.write_text("half")
        assert path.read_text() == "old"
        raise KeyError
    assert path.read_text() == "old" and names_in(path.parent) == ["page.html"]


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with replacing(tmp_path / "page.html") as part:
            part.write_text("mine")
    finally:
        os.umask(before)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_left_is_swept_and_what_lives_stays(tmp_path: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path; from counterpop.outputs import temporary\n"
        f"with temporary(Path({str(tmp_path)!r}) / 'run', folder=True) as part:\n"
        "    (part / 'model').write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    with temporary(tmp_path / "run", folder=True) as mine:
        assert not left.exists()
        with replacing(tmp_path / "page.html") as part:
            part.write_text("page")
        assert mine.is_dir()
    assert names_in(tmp_path) == ["page.html"]


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    told: list[str] = []

    def write() -> None:
        try:
            with locked(tmp_path / "run"):
                told.append("let in")
        except InputError as error:
            told.append(str(error))

    with locked(tmp_path / "run"), locked(tmp_path / "run"):  # the same thread may
        other = threading.Thread(target=write)
        other.start()
        other.join()
    write()
    assert f"run is being written by process {os.getpid()} on" in told[0] and told[1] == "let in"
    assert names_in(tmp_path) == []


def test_a_stale_lock_is_taken_over(tmp_path: Path) -> None:
    lock = tmp_path / f"{PREFIX}lock-run"
    lock.write_text('{"pid": 1, "host": "elsewhere", "command": "counterpop train", "since": "yesterday"}')
    with locked(tmp_path / "run"):
        assert str(os.getpid()) in lock.read_text()
    assert not lock.exists()


def test_a_live_lock_without_a_name_is_still_a_lock(tmp_path: Path) -> None:
    with (tmp_path / f"{PREFIX}lock-run").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="is being written by another process"), locked(tmp_path / "run"):
            pass


def held_by_another(path: Path) -> TextIO:
    """The lock on a path, as another process would hold it."""
    file = path.with_name(f"{PREFIX}lock-{path.name}").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def test_links_that_lead_to_themselves_are_a_sentence(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u in range(20) for i in range(u, 30)))
    for words in (
        ("split", tmp_path / "log.csv", "--protocol", "random", "--out", loop / "split"),
        ("split", loop, "--protocol", "random", "--out", tmp_path / "split"),
        ("train", loop, "--out", loop),
        ("evaluate", loop),
        ("report", loop, "--out", loop),
        ("compare", loop, loop),
        ("debias", "--model", loop, "--interactions", loop, "--out", loop),
        ("audit", "--recommendations", loop, "--interactions", loop, "--html", loop),
    ):
        done = CliRunner().invoke(main, list(map(str, words)))
        assert done.exit_code == 1 and "unexpected failure" not in done.stderr, words


def test_a_path_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff")
    with pytest.raises(InputError, match=r"xff' must be a path in UTF-8"), replacing(path):
        pass
    assert names_in(tmp_path) == []


def test_a_pipe_in_place_of_a_manifest_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    words = [sys.executable, "-m", "counterpop", "evaluate", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "it has no manifest.json" in done.stderr


def test_a_lock_on_a_full_disk_has_no_name_and_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fail)
    with locked(tmp_path / "run"):
        assert names_in(tmp_path) == [f"{PREFIX}lock-run"]
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("OUT", "train SPLIT --seeds 2 --force --epochs 1 --loss bpr"),
        ("OUT/seed-0", "train SPLIT --auto --minutes .001 --force"),
        ("OUT", "paper table2 --data DATA"),
    ],
)
def test_a_second_command_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    split = cp.split_uniform(cp.make_world(120, 60, seed=1).log, test=2, valid=2, seed=0)
    cp.save_split(split, "SPLIT")
    cp.save_split(split, "DATA/ml10m")
    artifacts.begin_seeds("OUT", range(2))
    cp.save_run(cp.train(split, dim=4, epochs=1, loss="bpr", negative_power=0.0), "OUT/seed-0", split)
    Path("OUT/seed-0.search").write_text("another process's")

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and PREFIX not in path.name}

    before = files()
    with held_by_another(Path(out)):
        done = CliRunner().invoke(main, [*words.split(), "--out", out])
    assert done.exit_code == 1 and f"{out} is being written by another process; wait until it ends" in done.stderr
    assert files() == before
