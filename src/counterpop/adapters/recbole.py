"""RecBole: the checkpoint (.pth) that its trainer saves.

A checkpoint is a pickle, and unpickling runs whatever a file names. Here every name but the few that rebuild
a tensor stands for an inert object that takes anything and does nothing: the tensors come out, nothing in the
file is run or imported, and RecBole need not be installed. torch must be: pip install counterpop[torch].
TorchScript archives, whose code torch would run past the unpickler, are refused before they are loaded.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from counterpop.adapters.vectors import Vectors, as_vectors
from counterpop.errors import InputError
from counterpop.interactions import Ids

TABLES = ("BPR",)  # models whose score is the inner product of two tables, as they stand in the checkpoint
_ZIP = b"PK\x03\x04"
_REBUILD_TENSORS = {("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2")}


def vectors_of(
    checkpoint: str | Path, *, user_ids: Sequence[Any] | Ids | None = None, item_ids: Sequence[Any] | Ids | None = None
) -> Vectors:
    """The vectors of a BPR checkpoint.

    A checkpoint does not hold the outside ids: pass `dataset.field2id_token["user_id"]` and `["item_id"]`,
    whose first entry is the padding, which is left out. Other models compute their vectors from the tables:
    call the model's own `forward` and pass what comes out to `debias` (LightGCN gives both matrices).
    """
    content = _load(Path(checkpoint))
    model = _model_name(content)
    state = content.get("state_dict", {})
    names = "user_embedding.weight", "item_embedding.weight"
    if model not in TABLES or any(name not in state for name in names):
        raise InputError(
            "vectors can be read from checkpoints of models that score by two tables "
            f"({', '.join(TABLES)}), got {model}; compute them with the model's forward() "
            "and pass the two matrices"
        )
    if user_ids is None or item_ids is None:
        raise InputError(
            "a RecBole checkpoint holds no outside ids; pass user_ids and item_ids from the dataset's field2id_token"
        )
    try:
        users, items = (state[name].float().numpy() for name in names)  # NumPy has no bfloat16
    except Exception as error:  # what stands there may be anything
        raise InputError(f"{checkpoint} must hold two tables of numbers ({error}); save it again") from None
    ids = [own[1:] if len(own) and own[0] == "[PAD]" else own for own in (user_ids, item_ids)]
    return as_vectors(users[1:], items[1:], *ids)


class _Inert:
    """Stands for anything that a checkpoint names but that is not needed; keeps its state, does nothing."""

    state: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> _Inert:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass

    def extend(self, values: Any) -> None:
        pass


def _data_of(data: Any, *_: Any) -> Any:
    """What a pickled Parameter is made of, without its hooks."""
    return data


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _data_of
        return super().find_class(module, name) if (module, name) in _REBUILD_TENSORS else _Inert


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    try:
        import torch
    except ImportError:
        raise InputError("a RecBole checkpoint is read with torch; pip install counterpop[torch]") from None
    sentence = f"{path} must be a checkpoint that RecBole's trainer saved"
    with path.open("rb") as file:
        if file.read(len(_ZIP)) != _ZIP:  # torch would take it for a file of long ago, and unpack it
            raise InputError(f"{sentence}, but it is not a torch file of today")
    inert = SimpleNamespace(Unpickler=_Unpickler, __name__="inert")
    try:
        # with the reader of torch.load itself, so that no archive can look different to the two
        script = "constants.pkl" in torch._C.PyTorchFileReader(str(path)).get_all_records()
        content = None if script else torch.load(path, map_location="cpu", pickle_module=inert, weights_only=False)
    except Exception as error:  # a damaged file fails wherever the damage lies
        raise InputError(f"{sentence} ({error}); save it again") from None
    if script:  # torch.load would hand it to torch.jit.load, which runs what it holds
        raise InputError(f"{sentence}, but it is a TorchScript archive, which holds code; save the state_dict")
    if not isinstance(content, dict) or "state_dict" not in content:
        raise InputError(f"{sentence}, but it has no state_dict")
    return content


def _model_name(content: dict[str, Any]) -> str:
    state = getattr(content.get("config"), "state", None)
    settings = state.get("final_config_dict", {}) if isinstance(state, dict) else {}
    return str(settings.get("model", "a model without a name"))
