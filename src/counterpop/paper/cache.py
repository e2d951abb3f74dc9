"""Results that are made once: each is a JSON file named after what decides its bits, and says what really made it."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import counterpop as cp
from counterpop.encoding import to_json
from counterpop.kernels.threads import core_count
from counterpop.outputs import replacing

LIBRARIES = ("numpy", "scipy", "numba", "polars")
IF_USED = ("torch", "triton")

Record = dict[str, Any]


def machine() -> Record:
    """What runs are made on: processors, system and library versions; torch's only if it was imported."""
    used = [name for name in IF_USED if name in sys.modules]
    return {
        "processors": sorted(set(_names_of("cpu") + _names_of("cuda"))) or [platform.machine()],
        "cores": core_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: known for name in (*LIBRARIES, *used) if (known := _version(name))},
        "counterpop": cp.__version__,
    }


def _names_of(device: str) -> list[str]:
    """Model names of the CPU or the GPUs, read without torch."""
    files = [Path("/proc/cpuinfo")] if device == "cpu" else [*Path("/proc/driver/nvidia/gpus").glob("*/information")]
    start = "model name" if device == "cpu" else "Model:"
    lines = [line for file in files if file.is_file() for line in file.read_text(errors="replace").splitlines()]
    return [line.split(":", 1)[1].strip() for line in lines if line.startswith(start)]


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


@cache
def source() -> dict[str, Any]:
    """The commit this package is run from, and whether its files differ from it; None without a git checkout."""
    root = Path(cp.__path__[0])

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # not a package installed inside some other checkout
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", "."))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}


def seal(content: Mapping[str, Any]) -> str:
    """The content as JSON with a checksum, for `unseal`."""
    return to_json({**content, "checksum": _checksum(content)}, indent=1) + "\n"


def unseal(path: Path) -> Record:
    """The content of a file; `CounterpopError` if it was edited. Files of older versions have no checksum."""
    try:
        content: Record = json.loads(path.read_text(encoding="utf-8"))
        written = content.pop("checksum", None)
        if written not in (None, _checksum(content)):
            raise cp.CounterpopError(f"{path} was edited after it was written; delete it to make it again")
    except (ValueError, AttributeError, TypeError) as error:
        raise cp.CounterpopError(f"{path} is damaged ({error}); delete it to make it again") from None
    return content


def digest(key: Any) -> str:
    """The name of a file for what has this key."""
    return hashlib.sha256(to_json(key, sort_keys=True).encode()).hexdigest()[:24]


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(to_json(content, sort_keys=True).encode()).hexdigest()


class Cache:
    """A folder of results, one JSON file each. A file is written once and never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made, self._seconds = folder, 0, 0.0
        self.used: dict[str, Record] = {}
        """How each result that was asked for was made: seconds, date, source and machine."""

    def get(self, key: Mapping[str, Any], make: Callable[[], Record]) -> Record:
        """The result with this key: from its file, or made now and written.

        The key must hold everything that changes bits of the result, and nothing else. `device` and `threads` of its
        settings go into the file again as what made it, with the device's name.
        """
        path = self.folder / f"{digest(key)}.json"
        if path.is_file():
            return self._read(path)
        start, before = time.perf_counter(), self._seconds
        result = make()
        seconds = time.perf_counter() - start - (self._seconds - before)  # less what other results took on the way
        self._seconds += seconds
        self.made += 1
        settings = key["settings"]
        about = {
            "seconds": round(seconds, 2),
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": source(),
            "device": ", ".join(sorted(set(_names_of(settings["device"])))) or settings["device"],
            "threads": settings["threads"],
            "machine": machine(),
        }
        with replacing(path) as part:
            part.write_text(seal({"key": key, **about, "result": result}), encoding="utf-8")
        return self._read(path)

    def _read(self, path: Path) -> Record:
        try:
            content = unseal(path)
            self.used[path.stem] = {name: content[name] for name in ("seconds", "written", "source", "machine")}
            return dict(content["result"])
        except (ValueError, KeyError, TypeError) as error:
            raise cp.CounterpopError(f"{path} is damaged ({error}); delete it to make it again") from None
