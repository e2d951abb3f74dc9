"""What the package costs before it does anything: installed size, import time, `counterpop --help`."""

import importlib.metadata
import subprocess
import sys
import time
from pathlib import Path

CORE = (
    "numpy",
    "scipy",
    "numba",
    "llvmlite",
    "polars",
    "polars-runtime-32",
    "safetensors",
    "click",
    "rich",
    "plotly",
    "threadpoolctl",
)


def seconds(*command: str) -> float:
    """The best of seven runs."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    for name in ("counterpop", *CORE):
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        size = sum(path.stat().st_size for f in files if (path := Path(str(f.locate()))).is_file())
        print(f"{name:20} {size / 1e6:7.1f} MB")
    bare = seconds(sys.executable, "-c", "pass")
    loaded = seconds(sys.executable, "-c", "import counterpop")
    print(f"import counterpop    {loaded - bare:.3f} s beyond Python's own {bare:.3f} s")
    print(f"counterpop --help    {seconds(sys.executable, '-m', 'counterpop', '--help'):.3f} s")


if __name__ == "__main__":
    main()
