"""RecBole: the checkpoint (.pth) that its trainer saves.

A checkpoint is a pickle, and unpickling can run any code that the file names. Here every name except the few that
rebuild a tensor is replaced by an inert object that accepts anything and does nothing. The tensors are read, nothing
in the file is run or imported, and RecBole need not be installed, only torch: pip install counterpop[torch].
TorchScript archives, whose code torch would run without the unpickler, are refused before they are loaded.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from counterpop.adapters.vectors import Vectors, as_vectors, existing_file
from counterpop.errors import InputError
from counterpop.interactions import RowIds

TABLES = ("BPR",)  # models that score by the inner product of two tables, as stored in the checkpoint
_ZIP = b"PK\x03\x04"
_REBUILD_TENSORS = {("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2")}


def vectors_of(checkpoint: str | Path, *, user_ids: RowIds = None, item_ids: RowIds = None) -> Vectors:
    """The vectors of a BPR checkpoint.

    A checkpoint does not contain the original ids: pass `dataset.field2id_token["user_id"]` and `["item_id"]`; their
    first entry, the padding, is left out. Other models compute their vectors from the tables: call the model's
    `forward` and pass its result to `debias` (LightGCN's returns both matrices).
    """
    content = _load(existing_file(checkpoint))
    model = _model_name(content)
    state = content.get("state_dict", {})
    names = "user_embedding.weight", "item_embedding.weight"
    if model not in TABLES or any(name not in state for name in names):
        raise InputError(
            f"the model must score by two tables ({', '.join(TABLES)}), got {model}; compute its vectors with its "
            "forward() and pass the two matrices"
        )
    if user_ids is None or item_ids is None:
        raise InputError(
            "a RecBole checkpoint does not contain the original ids; pass user_ids and item_ids from the dataset's "
            "field2id_token"
        )
    try:
        users, items = (state[name].float().numpy() for name in names)  # NumPy has no bfloat16
    except Exception as error:  # the entries may be anything
        raise InputError(f"{checkpoint} must hold two tables of numbers ({error}); save it again") from None
    ids = [own[1:] if len(own) and own[0] == "[PAD]" else own for own in (user_ids, item_ids)]
    return as_vectors(users[1:], items[1:], *ids)


class _Inert:
    """Replaces everything that a checkpoint names but that is not needed; keeps its state, does nothing."""

    state: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> _Inert:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def ignore(self, *values: Any) -> None:
        pass

    __setitem__ = append = extend = ignore


def _data_of(data: Any, *_: Any) -> Any:
    """The data of a pickled Parameter, without its hooks."""
    return data


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _data_of
        return super().find_class(module, name) if (module, name) in _REBUILD_TENSORS else _Inert


def _load(path: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        raise InputError("reading a RecBole checkpoint needs torch; pip install counterpop[torch]") from None
    sentence = f"{path} must be a checkpoint that RecBole's trainer saved"
    with path.open("rb") as file:
        if file.read(len(_ZIP)) != _ZIP:  # torch would try its legacy formats, and unpack a tar archive
            raise InputError(f"{sentence}, but it is not in torch's zip format")
    inert = SimpleNamespace(Unpickler=_Unpickler, __name__="inert")
    try:
        # by torch.load's own reader, so that both see the same archive
        script = "constants.pkl" in torch._C.PyTorchFileReader(str(path)).get_all_records()
        content = None if script else torch.load(path, map_location="cpu", pickle_module=inert, weights_only=False)
    except Exception as error:  # a damaged file can fail anywhere
        raise InputError(f"{sentence} ({error}); save it again") from None
    if script:  # torch.load would pass it to torch.jit.load, which runs its code
        raise InputError(f"{sentence}, but it is a TorchScript archive, which contains code; save the state_dict")
    if not isinstance(content, dict) or "state_dict" not in content:
        raise InputError(f"{sentence}, but it has no state_dict")
    return content


def _model_name(content: dict[str, Any]) -> str:
    state = getattr(content.get("config"), "state", None)
    settings = state.get("final_config_dict", {}) if isinstance(state, dict) else {}
    return str(settings.get("model", "a model without a name"))
