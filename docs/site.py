"""What MkDocs cannot do by itself: pages from outside docs/, the list of public names, and doctests as code.

MkDocs loads this file as a hook (`on_files`, `on_page_markdown`), and mkdocstrings as an extension of griffe.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def on_files(files: Files, config: Any) -> Files:
    """Adds the experiments, their pictures, the examples (as pages of code), the changelog and how to contribute."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for path in sorted([*(ROOT / "experiments").rglob("*"), *(ROOT / "examples").glob("*.ipynb")]):
        if path.suffix in (".md", ".png", ".svg", ".py", ".json", ".jsonl", ".ipynb"):
            uri = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = f"# {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Points the links of the repository's layout to the site's, and fills in the public names."""
    folder = page.file.src_uri.rpartition("/")[0]
    if not folder:  # docs/x.md, or a page from the root: experiments/ and docs/ are beside it on the site
        markdown = markdown.replace("](../experiments/", "](experiments/").replace("](docs/", "](")
        markdown = re.sub(r"\]\((?:\.\./)?examples/(\w+)\.py\)", r"](examples/\1.md)", markdown)
        markdown = markdown.replace("](../examples/", "](examples/")
    up = "../" * (folder.count("/") + 1)
    markdown = markdown.replace(f"]({up}docs/", f"]({up}")
    return markdown.replace("<!-- public names -->", public_names())


def public_names() -> str:
    """One section for each module with public names, in the order of the package's list of them."""
    lines = []
    for node in ast.walk(ast.parse((ROOT / "src" / "counterpop" / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("counterpop."):
            lines.append(f"## {node.module.removeprefix('counterpop.')}\n")
            lines += [f"::: {node.module}.{alias.name}\n" for alias in node.names]
    return "\n".join(lines)


class Doctests(griffe.Extension):  # type: ignore[misc]
    """Shows doctests as code; Markdown would take their >>> for quotations."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fence(obj.docstring.value)


def fence(text: str) -> str:
    """The text with every doctest, up to the next empty line, in a block of code."""
    parts = re.split(r"\n{2,}", text)
    shown = [f"```pycon\n{part}\n```" if part.lstrip().startswith(">>>") else part for part in parts]
    return "\n\n".join(shown)
