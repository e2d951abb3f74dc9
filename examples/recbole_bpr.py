"""RecBole: train BPR, then read its checkpoint without running anything in it."""

import tempfile
from pathlib import Path

import numpy as np

for old, new in (("float_", "float64"), ("complex_", "complex128"), ("unicode_", "str_")):
    if not hasattr(np, old):  # RecBole 1.2.1 uses names that NumPy 2 removed
        setattr(np, old, getattr(np, new))

from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.model.general_recommender import BPR  # noqa: E402
from recbole.trainer import Trainer  # noqa: E402
from recbole.utils import init_seed  # noqa: E402

import counterpop as cp  # noqa: E402
from counterpop.adapters.recbole import vectors_of  # noqa: E402

log = cp.make_world(600, 120, seed=2).log
with tempfile.TemporaryDirectory() as folder:
    inter = Path(folder) / "shop" / "shop.inter"
    inter.parent.mkdir()
    lines = [f"u{u}\ti{i}" for u, i in zip(log.user_ix, log.item_ix, strict=True)]
    inter.write_text("\n".join(["user_id:token\titem_id:token", *lines]) + "\n")
    settings = {
        "data_path": folder,
        "checkpoint_dir": folder,
        "epochs": 20,
        "eval_step": 20,
        "embedding_size": 16,
        "use_gpu": False,
        "load_col": {"inter": ["user_id", "item_id"]},
        "state": "ERROR",
        "show_progress": False,
    }
    config = Config(model="BPR", dataset="shop", config_dict=settings)
    init_seed(config["seed"], reproducibility=True)
    dataset = create_dataset(config)
    train, valid, _ = data_preparation(config, dataset)
    trainer = Trainer(config, BPR(config, getattr(train, "dataset")))  # noqa: B009 -- RecBole has no types
    trainer.fit(train, valid, saved=True, show_progress=False)

    ids = {side: dataset.field2id_token[f"{side}_id"] for side in ("user", "item")}
    vectors = vectors_of(trainer.saved_model_file, user_ids=ids["user"], item_ids=ids["item"])
    fix = cp.debias(**vectors, interactions=cp.read_interactions(inter))
    print(
        f"strengths {fix.item_strength} / {fix.user_strength}: recall on uniform held-out pairs "
        f"{fix.uniform.plain.recall:.3f} -> {fix.uniform.adjusted.recall:.3f}"
    )
