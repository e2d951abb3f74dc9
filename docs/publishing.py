"""Makes README.md and pyproject.toml ready for the package index, which shows them outside the repository.

    python docs/publishing.py https://github.com/OWNER/counterpop v0.1.0

Relative links of README.md become links to the tag, pyproject.toml gets its project URLs, and a tag that is not the
version is refused. It changes both files in place, for a fresh checkout.
"""

import re
import sys
import tomllib
from pathlib import Path


def absolute(text: str, repository: str, tag: str) -> str:
    """The Markdown with links to files as links to a tag; pictures to the file itself, not to its page.

    >>> absolute("![a](docs/a.png) [b](docs/b.md#c) [d](https://e.org) [f](#g)", "https://h.org/i", "v1")
    '![a](https://h.org/i/raw/v1/docs/a.png) [b](https://h.org/i/blob/v1/docs/b.md#c) [d](https://e.org) [f](#g)'
    """
    text = re.sub(r"(!\[[^\]]*\]\()(?!\w+:|#)", rf"\1{repository}/raw/{tag}/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!\w+:|#)", rf"\1{repository}/blob/{tag}/", text)


def main(repository: str, tag: str) -> None:
    readme, project = Path("README.md"), Path("pyproject.toml")
    settings = project.read_text(encoding="utf-8")
    version = tomllib.loads(settings)["project"]["version"]
    if tag != f"v{version}":
        sys.exit(f"the tag must be v{version}, the version in pyproject.toml, but it is {tag}")
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), repository, tag), encoding="utf-8")
    pages = {"Homepage": "", "Documentation": f"/tree/{tag}/docs", "Issues": "/issues"}
    pages["Changelog"] = f"/blob/{tag}/CHANGELOG.md"
    urls = "".join(f'{name} = "{repository}{path}"\n' for name, path in pages.items())
    project.write_text(f"{settings}\n[project.urls]\n{urls}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
