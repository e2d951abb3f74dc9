"""Runs every tutorial in a fresh environment, made by the `pip install` line of its page, and prints the time.

    python docs/tutorials.py [quickstart.md tutorial.md]

The package is taken from this checkout instead of the package index.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

DOCS = Path(__file__).parent
LOG = """
import counterpop as cp, polars as pl
log = cp.make_world(300, 150, seed=5).log
pl.DataFrame({"user_id": log.user_ids[log.user_ix], "item_id": log.item_ids[log.item_ix]}).write_parquet("log.parquet")
"""


def run(page: str) -> None:
    os.environ.pop("PYTHONPATH", None)  # what is installed, not the sources
    text = (DOCS / page).read_text(encoding="utf-8")
    (extras,) = re.findall(r"pip install '?counterpop(\[[\w,]+\])?'?(?:`|$)", text, re.MULTILINE)[:1]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "env", with_pip=True)
        bin = Path(folder) / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        start = time.perf_counter()
        install = [bin / "python", "-m", "pip", "install", "--quiet", f"{DOCS.parent}{extras}"]
        subprocess.run(install, check=True)
        installed = time.perf_counter()
        subprocess.run([bin / "python", "-c", LOG], cwd=folder, check=True)
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            for line in block.splitlines():
                subprocess.run([bin / "counterpop", *line.split()[1:]], cwd=folder, check=True)
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        subprocess.run([bin / "python", "-c", "\n".join(blocks)], cwd=folder, check=True)
        print(f"{page}: installed in {installed - start:.0f} s, ran in {time.perf_counter() - installed:.0f} s")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["quickstart.md", "tutorial.md"]:
        run(name)
