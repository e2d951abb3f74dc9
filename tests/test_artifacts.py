"""Run, split and adjustment folders: what is saved is loaded, and damage is detected."""

import hashlib
import json
import threading
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import counterpop as cp
from counterpop import artifacts
from counterpop.errors import ArtifactError, InputError
from counterpop.runs import STRENGTHS
from counterpop.tuning import tune


@pytest.fixture(scope="module")
def split() -> cp.Split:
    world = cp.make_world(150, 80, seed=3)
    return cp.split_intervened(world.log, seed=1, ordinary=0.05)


@pytest.fixture(scope="module")
def run(split: cp.Split) -> cp.Run:
    return cp.train(split, dim=8, epochs=4, check_every=2, refit=True, threads=1)


@pytest.fixture
def folder(tmp_path: Path, run: cp.Run, split: cp.Split) -> Path:
    cp.save_split(split, tmp_path / "split")
    cp.save_run(run, tmp_path / "run", tmp_path / "split")
    adjustment = tune(run, split, point="gain")
    cp.save_tuning(tmp_path / "run", adjustment, adjustment.grid, {"target": "recall"})
    return tmp_path


def same(first: cp.Interactions | None, second: cp.Interactions | None) -> bool:
    if first is None or second is None:
        return first is second
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("user_ix", "item_ix", "user_ids", "item_ids", "time", "weight")
    )


def test_a_split_is_loaded_as_saved(folder: Path, split: cp.Split) -> None:
    for place in (folder / "split", folder / "run"):
        back = cp.load_split(place)
        for part in ("train", "valid", "ordinary"):
            assert same(getattr(back.development, part), getattr(split.development, part))
        assert same(back.test, split.test)
        assert np.array_equal(back.development.intervened, split.development.intervened)
        assert asdict(back.manifest) == asdict(split.manifest)


def test_weights_are_saved_and_count(tmp_path: Path, split: cp.Split) -> None:
    log = cp.join(split.train, split.valid, split.development.ordinary)
    rare = log.item_counts[log.item_ix] > 2
    log = replace(log.rows(rare), time=None)
    part = np.zeros(len(log), np.int8)
    part[np.unique(log.item_ix, return_index=True)[1]] = 3  # one pair of every item
    made = cp.split_as_given(replace(log, part=part))
    assert made.manifest.carved == "matched" and len(np.unique(made.valid.weight)) == 1
    weighted = replace(made.valid, weight=np.arange(1, 1 + len(made.valid), dtype=np.float32))
    made = replace(made, development=replace(made.development, valid=weighted))
    cp.save_split(made, tmp_path / "split")
    back = cp.load_split(tmp_path / "split")
    assert same(back.valid, weighted) and back.valid.weight.dtype == np.float32
    run = cp.train(back, dim=4, epochs=2)
    tuned = cp.tune(run, back)
    on_valid = cp.evaluate(tuned.with_strengths(0.0, 0.0), back, on="valid")
    assert on_valid.plain.recall == pytest.approx(tuned.grid.at(0.0, 0.0)["recall"], rel=1e-5)
    unweighted = replace(back, development=replace(back.development, valid=replace(weighted, weight=None)))
    again = cp.evaluate(tuned.with_strengths(0.0, 0.0), unweighted, on="valid")
    assert again.plain.recall != on_valid.plain.recall


@pytest.mark.parametrize("ids", [np.array(["a", "ü", "x y"], dtype=object), np.array([-(2**62), 0, 2**62])])
def test_ids_keep_their_type(tmp_path: Path, ids: np.ndarray) -> None:
    log = cp.Interactions(
        np.repeat(np.arange(3, dtype=np.int32), 3),
        np.tile(np.arange(3, dtype=np.int32), 3),
        ids,
        ids,
        part=np.array([0, 2, 3] * 3, dtype=np.int8),
    )
    with pytest.warns(cp.CounterpopWarning, match="no train pair"):
        split = cp.split_as_given(log)
    cp.save_split(split, tmp_path / "split")
    back = cp.load_split(tmp_path / "split").train
    assert back.user_ids.dtype == ids.dtype
    assert back.user_ids.tolist() == ids.tolist()


def test_a_run_is_loaded_as_saved(folder: Path, run: cp.Run, split: cp.Split) -> None:
    saved = cp.load_run(folder / "run")
    for name in ("model", "refit"):
        first, second = getattr(saved.run, name), getattr(run, name)
        assert np.array_equal(first.embeddings.user_vectors, second.embeddings.user_vectors)
        assert np.array_equal(first.embeddings.item_vectors, second.embeddings.item_vectors)
        assert np.array_equal(first.ledger.items, second.ledger.items)
        assert np.array_equal(first.ledger.users, second.ledger.users)
        for name in ("every", "triples", "scale"):
            assert getattr(first.ledger, name) == getattr(second.ledger, name)
    assert saved.run.settings == run.settings
    assert saved.run.history == run.history
    adjustment = tune(run, split, point="gain")
    assert saved.adjustment is not None
    assert saved.grid is not None
    assert saved.adjustment.item_strength == adjustment.item_strength
    assert np.array_equal(saved.adjustment.item_direction, adjustment.item_direction)
    for name, values in adjustment.grid.values.items():
        assert np.array_equal(saved.grid.values[name], values)
    vectors = run.embeddings.user_vectors
    assert np.array_equal(cp.load_adjustment(folder / "run").query(vectors), adjustment.query(vectors))


def test_an_adjustment_is_loaded_as_saved(tmp_path: Path) -> None:
    east, north = np.eye(2, dtype=np.float32)
    cp.save_adjustment(cp.Adjustment(east, north, 0.6, 0.4), tmp_path / "fix")
    query = cp.load_adjustment(tmp_path / "fix").query(np.array([1.0, 1.0]))
    assert query == pytest.approx([0.4, 0.6])


def test_tuning_does_not_open_test(folder: Path) -> None:
    (folder / "run" / "split" / "test.parquet").unlink()
    assert len(artifacts.load_development(folder / "run").valid)
    with pytest.raises(ArtifactError, match=r"test\.parquet is missing"):
        cp.load_split(folder / "run")


@pytest.mark.parametrize("name", ["model.safetensors", "split/train.parquet", "history.parquet", "grid.parquet"])
def test_one_changed_byte_is_detected(folder: Path, name: str) -> None:
    path = folder / "run" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=f"damaged: {Path(name).name}"):
        cp.load_run(folder / "run")


def change_manifest(folder: Path, *, sealed: bool = True, **changes: object) -> None:
    """Edits a manifest; without a checksum of its own, as formats 1 and 2 were, or with the right one."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | changes
    del manifest["checksum"]
    if sealed:
        text = json.dumps(manifest, sort_keys=True)
        manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))


def test_a_newer_format_is_rejected(folder: Path) -> None:
    change_manifest(folder / "run", format=artifacts.FORMAT + 1)
    with pytest.raises(ArtifactError, match="newer than this version's 3; upgrade"):
        cp.load_run(folder / "run")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "run"}'])
def test_a_damaged_manifest_is_rejected(folder: Path, text: str) -> None:
    (folder / "run" / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged"):
        cp.load_run(folder / "run")


def test_the_wrong_kind_of_folder_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is a split folder, but a run folder is needed"):
        cp.load_run(folder / "split")
    with pytest.raises(ArtifactError, match=r"not a run folder: it has no manifest\.json"):
        cp.load_run(tmp_path / "nothing")


def test_an_untuned_run_has_no_adjustment(tmp_path: Path, run: cp.Run, split: cp.Split) -> None:
    cp.save_run(run, tmp_path / "run", split)
    assert cp.load_run(tmp_path / "run").adjustment is None
    with pytest.raises(ArtifactError, match="has not been tuned yet"):
        cp.load_adjustment(tmp_path / "run")


def test_a_crash_while_writing_leaves_the_old_folder_intact(
    folder: Path, run: cp.Run, split: cp.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / "run" / "manifest.json").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(artifacts.runs, "_write_model", fail)
    with pytest.raises(OSError, match="disk full"):
        cp.save_run(run, folder / "run", split)
    assert (folder / "run" / "manifest.json").read_bytes() == before
    assert cp.load_run(folder / "run").adjustment is not None
    assert sorted(path.name for path in folder.iterdir()) == ["run", "split"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_new_run_replaces_the_old_one(
    folder: Path, run: cp.Run, split: cp.Split, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:  # as on systems that cannot swap two folders in one step
        monkeypatch.setattr(artifacts.folder.ctypes, "CDLL", lambda *_, **__: object())
    cp.save_run(run, folder / "run", split)
    assert cp.load_run(folder / "run").adjustment is None
    assert sorted(path.name for path in folder.iterdir()) == ["run", "split"]


def test_a_folder_with_other_files_is_not_overwritten(tmp_path: Path, run: cp.Run, split: cp.Split) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else, which is not overwritten"):
        cp.save_run(run, tmp_path, split)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_run_shares_no_file_with_its_split(folder: Path) -> None:
    with (folder / "split" / "train.parquet").open("ab") as file:
        file.write(b"x")
    (folder / "split" / "users.parquet").chmod(0o600)
    assert cp.load_run(folder / "run").adjustment is not None
    assert all(path.stat().st_nlink == 1 for path in (folder / "run").rglob("*") if path.is_file())
    assert (folder / "run" / "split" / "users.parquet").stat().st_mode & 0o777 == 0o644


def test_another_kind_of_folder_is_not_overwritten(folder: Path, run: cp.Run, split: cp.Split) -> None:
    with pytest.raises(InputError, match="holds a run, which is not overwritten"):
        cp.save_split(split, folder / "run")
    with pytest.raises(InputError, match="holds a split, which is not overwritten"):
        cp.save_run(run, folder / "split", split)
    (folder / "web").mkdir()
    (folder / "web" / "manifest.json").write_text('{"name": "something of the web"}')
    with pytest.raises(InputError, match="is not overwritten"):
        cp.save_run(run, folder / "web", split)


def test_other_files_in_the_folder_are_kept(folder: Path, run: cp.Run, split: cp.Split) -> None:
    notes = folder / "run" / "notes.txt"
    notes.write_text("mine")
    adjustment = tune(run, split, point="gain")
    cp.save_tuning(folder / "run", adjustment, adjustment.grid, {})
    notes.write_text("mine, later")
    assert cp.load_run(folder / "run").adjustment is not None
    cp.save_run(run, folder / "run", split)
    assert notes.read_text() == "mine, later"


def test_training_and_tuning_work_without_the_test_part(
    tmp_path: Path, folder: Path, run: cp.Run, split: cp.Split
) -> None:
    (folder / "split" / "test.parquet").unlink()
    cp.save_run(run, tmp_path / "again", folder / "split")
    adjustment = tune(run, artifacts.load_development(tmp_path / "again"), point="gain")
    cp.save_tuning(tmp_path / "again", adjustment, adjustment.grid, {})
    assert cp.load_run(tmp_path / "again").adjustment is not None
    with pytest.raises(ArtifactError, match=r"test\.parquet is missing"):
        cp.load_split(tmp_path / "again")


def test_a_run_is_written_through_a_link(folder: Path, run: cp.Run, split: cp.Split) -> None:
    (folder / "current").symlink_to(folder / "run")
    cp.save_run(run, folder / "current", split)
    assert (folder / "current").is_symlink()
    assert cp.load_run(folder / "run").adjustment is None
    assert (folder / "run" / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_a_run_of_format_1_gets_the_dials_of_its_method(folder: Path, run: cp.Run, split: cp.Split) -> None:
    """Format 1 may lack the grids; they are then those of the method."""
    bare = replace(run, model=replace(run.model, dials=None), refit=None)
    for method, grids in (("gradient", (STRENGTHS, STRENGTHS)), ("plain", None), ("plain+tten", None)):
        cp.save_run(replace(bare, settings=run.settings | {"method": method}), folder / "old", split)
        assert cp.load_run(folder / "old").run.model.dials is None
        change_manifest(folder / "old", sealed=False, format=1)
        dials = cp.load_run(folder / "old").run.model.dials
        assert (dials and (dials.item_strengths, dials.user_strengths)) == grids
        expected = pytest.warns(cp.CounterpopWarning, match="has not been tuned, so its strengths are 0")
        with expected if grids else nullcontext():
            assert cp.load(folder / "old").item_strength == 0


def test_load_gives_the_final_model_at_its_tuned_strengths(folder: Path, run: cp.Run, split: cp.Split) -> None:
    model, tuned = cp.load(folder / "run"), tune(run, split, point="gain")
    assert isinstance(model, cp.Recommender) and model.refit
    users = np.arange(20, dtype=np.int32)
    for first, second in zip(model.recommend(users, 10), tuned.recommend(users, 10), strict=True):
        assert np.array_equal(first, second)
    seen = np.zeros((split.train.n_users, split.train.n_items), dtype=bool)
    seen[model.seen.user_ix, model.seen.item_ix] = True
    assert len(model.seen) == len(split.development.refit_train())
    assert not seen[users[:, None], model.recommend(users, 10)[0]].any()


@pytest.mark.parametrize("name", ["../../notes.rc", "/etc/hostname", "sub/../../notes.rc", "./train.parquet", ""])
def test_a_manifest_that_names_files_outside_its_folder_is_refused(folder: Path, run: cp.Run, name: str) -> None:
    (folder / "notes.rc").write_text("mine")
    files = json.loads((folder / "split" / "manifest.json").read_text())["files"]
    change_manifest(folder / "split", files=files | {name: hashlib.sha256(b"mine").hexdigest()})
    with pytest.raises(ArtifactError, match="lists files outside its folder"):
        cp.save_run(run, folder / "deep" / "run", folder / "split")
    assert (folder / "notes.rc").read_text() == "mine" and not (folder / "deep" / "run").exists()


def test_links_and_unlisted_parts_are_refused(folder: Path) -> None:
    train = folder / "split" / "train.parquet"
    train.rename(folder / "train.parquet")
    train.symlink_to(folder / "train.parquet")
    with pytest.raises(ArtifactError, match=r"train\.parquet is not a regular file"):
        cp.load_split(folder / "split")
    (folder / "run" / "split" / "ordinary.parquet").rename(folder / "ordinary.parquet")
    files = json.loads((folder / "run" / "split" / "manifest.json").read_text())["files"]
    del files["ordinary.parquet"]
    change_manifest(folder / "run" / "split", files=files)
    (folder / "ordinary.parquet").rename(folder / "run" / "split" / "ordinary.parquet")
    with pytest.raises(ArtifactError, match=r"ordinary\.parquet is not in its manifest"):
        cp.load_split(folder / "run" / "split")


@pytest.mark.parametrize("number", [0, -7, 1.9, True, "2", None])
def test_formats_that_never_were_are_refused(folder: Path, number: object) -> None:
    change_manifest(folder / "run", format=number)
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged"):
        cp.load_run(folder / "run")


def test_an_edited_manifest_is_refused(folder: Path) -> None:
    path = folder / "run" / "manifest.json"
    text = path.read_text()
    assert '"tuning": {\n    "item_strength": ' in text
    path.write_text(text.replace('"item_strength": ', '"item_strength": 1', 1))
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged"):
        cp.load_run(folder / "run")


def test_a_sealed_manifest_with_nonsense_in_it_is_one_sentence(folder: Path) -> None:
    tuning = json.loads((folder / "run" / "manifest.json").read_text())["tuning"]
    for wrong in (tuning | {"item_strength": "much"}, tuning | {"segments": 3}, {"item_strength": 1.0}, 5):
        change_manifest(folder / "run", tuning=wrong)
        with pytest.raises(ArtifactError, match=r"run is damaged \("):
            cp.load_run(folder / "run")


def test_tuning_a_run_that_was_replaced_is_refused(folder: Path, run: cp.Run, split: cp.Split) -> None:
    saved, tuned = cp.load_run(folder / "run"), tune(run, split, point="gain")
    cp.save_run(run, folder / "run", split)
    with pytest.raises(ArtifactError, match="was replaced by another run since it was loaded"):
        cp.save_tuning(saved, tuned, tuned.grid, {})
    assert cp.load_run(folder / "run").adjustment is None


def test_a_run_that_cannot_be_saved_is_kept_elsewhere(
    tmp_path: Path, run: cp.Run, split: cp.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = artifacts.runs._write_model, iter([OSError(28, "No space left on device")])

    def fail_once(*args: object) -> None:
        for failure in failures:
            raise failure
        real(*args)

    monkeypatch.setattr(artifacts.runs, "_write_model", fail_once)
    monkeypatch.setattr(artifacts.runs.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"run could not be written \(No space left on device\)") as caught:
        cp.save_run(run, tmp_path / "run", split)
    kept = cp.load_run(str(caught.value).split("kept in ")[1])
    assert np.array_equal(kept.run.embeddings.user_vectors, run.embeddings.user_vectors)


def test_every_load_beside_a_writer_is_one_version(folder: Path, run: cp.Run, split: cp.Split) -> None:
    """The two versions differ in the model, its settings and the split."""
    other = cp.split_intervened(cp.make_world(150, 80, seed=4).log, seed=1, ordinary=0.05)
    versions = [(run, split), (cp.train(other, dim=4, epochs=2, threads=1), other)]
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for one, of in versions:
                cp.save_run(one, folder / "run", of)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        loads = [artifacts.load_tested(folder / "run") for _ in range(40)]
        while len({saved.run.settings["dim"] for saved, _ in loads[-1000:]}) < 2:  # until both versions were there
            loads.append(artifacts.load_tested(folder / "run"))
    finally:
        stop.set()
        writer.join()
    for saved, read in loads:
        one, of = versions[saved.run.settings["dim"] == 4]
        assert np.array_equal(saved.run.embeddings.user_vectors, one.embeddings.user_vectors)
        assert same(read.test, of.test) and same(saved.known.train, of.train)
