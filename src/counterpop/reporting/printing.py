"""Pages as PDF, printed by a Chromium on this machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from counterpop.errors import InputError
from counterpop.outputs import replacing

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
SECONDS = 120  # until a browser that does not finish is given up
DRAWING = 20_000  # virtual milliseconds for the page to draw its figures


def print_page(text: str, path: Path) -> None:
    """Writes an HTML page as PDF; `InputError` if there is no Chromium, or if it fails."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise InputError(
            f"a PDF is printed by Chromium, but none of {', '.join(BROWSERS)} is installed; install one, or pass a "
            "name that ends in .html and print that page from any browser"
        )
    with tempfile.TemporaryDirectory() as folder:
        page, printed = Path(folder) / "page.html", Path(folder) / "page.pdf"
        page.write_text(text, encoding="utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        flags += [f"--user-data-dir={folder}/profile", "--no-pdf-header-footer", f"--virtual-time-budget={DRAWING}"]
        try:
            done = subprocess.run(
                [browser, *flags, f"--print-to-pdf={printed}", page.as_uri()],
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
            failed = done.returncode != 0 or not printed.is_file() or not printed.read_bytes().startswith(b"%PDF")
        except subprocess.TimeoutExpired:
            failed = True
        if failed:
            raise InputError(f"{browser} could not print the page; pass a name that ends in .html and print that page")
        with replacing(path) as part:
            shutil.copyfile(printed, part)
