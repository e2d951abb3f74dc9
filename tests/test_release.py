"""What a release needs agrees with itself: versions, Pythons, links, and what the package index will show."""

from __future__ import annotations

import doctest
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import counterpop as cp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [path for part in (".", "docs", "experiments") for path in sorted((ROOT / part).glob("*.md"))]


def load(name: str) -> ModuleType:
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert PROJECT["version"] == cp.__version__
    assert f"\nversion: {cp.__version__}\n" in citation


def test_the_matrix_has_the_pythons_that_the_package_names() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    named = [line.split(" :: ")[-1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert matrix["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_of_the_repository_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    made = {"changelog.md": "../CHANGELOG.md", "contributing.md": "../CONTRIBUTING.md"}  # pages of the site only
    for link in LINK.findall(text):
        target = link.split("#")[0]
        if target and "://" not in target:
            assert (page.parent / made.get(target, target)).exists(), (
                f"{page.name} links to {target}, which is not there"
            )


def test_links_of_the_readme_are_absolute_on_the_package_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publishing = load("publishing")
    assert doctest.testmod(publishing).failed == 0
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"the tag must be v{cp.__version__}"):
        publishing.main("https://example.org/x/counterpop", "v0.0.0")
    publishing.main("https://example.org/x/counterpop", f"v{cp.__version__}")
    readme = Path("README.md").read_text(encoding="utf-8")
    links = LINK.findall(readme)
    assert links
    assert all(link.startswith(("https://", "#")) for link in links)
    urls = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Homepage"] == "https://example.org/x/counterpop"


def test_the_site_shows_doctests_as_code_and_names_everything_public() -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (pip install 'counterpop[docs]')")
    pytest.importorskip("griffe", reason="mkdocstrings is not installed (pip install 'counterpop[docs]')")
    site = load("site")
    assert site.fence("One.\n\n>>> 1 + 1\n2\n\nTwo.") == "One.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nTwo."
    named = set(re.findall(r"^::: counterpop\.(?:\w+\.)*(\w+)$", site.public_names(), re.MULTILINE))
    modules = {name for name in cp.__all__ if isinstance(getattr(cp, name), ModuleType)}
    assert named == set(cp.__all__) - modules
