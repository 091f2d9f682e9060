"""Builds the documentation as a static site that opens without a network.

python docs/site/build_site.py [--out build/site]

The pages are those of docs/, the README, CHANGELOG, CONTRIBUTING and SECURITY, the help of every command, the scripts
of examples/, the error messages and the docstrings of the public modules. They are put together in a folder beside the
site, then Sphinx makes HTML of them; its warnings are errors. At last every link and anchor of the HTML is followed.
"""

from __future__ import annotations

import argparse
import ast
import posixpath
import re
import shutil
import sys
import tempfile
from pathlib import Path

SITE = Path(__file__).resolve().parent
ROOT = SITE.parents[1]
sys.path.insert(0, str(SITE))

import api_pages  # noqa: E402
import command_pages  # noqa: E402
import error_page  # noqa: E402
import site_links  # noqa: E402

# Pages that stand outside of docs/, and their names on the site.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
FOLDERS = {"examples": "examples.md"}  # folders that documents link to, and the page that has their files
PARTS = {
    "First steps": ("tutorial", "gallery", "guide", "viewer", "comparison"),
    "Reference": ("commands/index", "api/index", "fields", "formats", "conventions", "errors"),
    "Figures": ("results", "results-h100", "performance", "reliability", "packaging", "dependencies"),
    "Development": ("architecture", "extending", "examples", "contributing", "security", "changelog"),
}
LINK = re.compile(r"(?<!\\)\]\((?P<target>[^)\s]+)\)")


def site_place(source: Path) -> str | None:
    """Where a file of the repository stands on the site, relative to its root; None: it is not part of it."""
    inside = source.relative_to(ROOT).as_posix()
    if inside in OUTSIDE:
        return OUTSIDE[inside]
    if inside.rstrip("/") in FOLDERS:
        return FOLDERS[inside.rstrip("/")]
    return inside.removeprefix("docs/") if inside.startswith("docs/") else None


def moved_links(text: str, source: Path, place: str) -> str:
    """Markdown with its relative links as they are from the file's place on the site.

    Args:
        text: of the file.
        source: the file in the repository.
        place: where it stands on the site.

    Raises:
        ValueError: a link to a file that is not part of the site.
    """

    def move(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or "://" in target:
            return match[0]
        aim = site_place((source.parent / target).resolve())
        if aim is None:
            raise ValueError(f"{source.relative_to(ROOT)} links to {target}, which is no part of the site")
        moved = posixpath.relpath(aim, posixpath.dirname(place) or ".")
        return f"]({moved}{'#' + anchor if anchor else ''})"

    return LINK.sub(move, text)


def write_pages(folder: Path) -> None:
    """Puts the Markdown pages of the site together in an empty folder."""
    sources = [*(ROOT / name for name in OUTSIDE), *sorted((ROOT / "docs").glob("*.md"))]
    for source in sources:
        place = site_place(source)
        assert place is not None
        text = moved_links(source.read_text(), source, place)
        (folder / place).write_text(text + contents() if place == "index.md" else text)
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    (folder / "examples.md").write_text(examples_page())
    (folder / "errors.md").write_text(error_page.page())
    for name, pages in {"commands": command_pages.pages(), "api": api_pages.pages()}.items():
        (folder / name).mkdir()
        for file, text in pages.items():
            (folder / name / file).write_text(text)


def contents() -> str:
    """The list of pages beside every page, as directives at the end of the first page."""
    blocks = []
    for title, names in PARTS.items():
        blocks.append(
            "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", ":maxdepth: 2", "", *names, "```"])
        )
    return "\n" + "\n\n".join(blocks) + "\n"


def examples_page() -> str:
    """The scripts of examples/, each with its docstring as text."""
    lines = ["# Examples", "", "Scripts that need no download; the tests run them.", ""]
    for path in sorted((ROOT / "examples").glob("*.py")):
        source = path.read_text()
        about, *usage = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")
        code = source.split('"""', 2)[2].strip()
        lines += [f"## {path.name}", "", about, ""]
        for block in usage:
            lines += ["```text", block, "```", ""]
        lines += ["```python", code, "```", ""]
    return "\n".join(lines)


def build(out: Path) -> list[str]:
    """Writes the site into a folder, whose former content goes.

    Returns:
        What is wrong with the links of the HTML; an empty list: nothing.

    Raises:
        RuntimeError: Sphinx found something to warn of, which it has printed.
    """
    from sphinx.cmd.build import main as sphinx

    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        pages, caches = Path(folder) / "pages", Path(folder) / "caches"
        pages.mkdir()
        write_pages(pages)
        strict = ["-q", "-W", "--keep-going"]
        status = sphinx(["-b", "html", *strict, "-c", str(SITE), "-d", str(caches), str(pages), str(out)])
    shutil.rmtree(out / "_sources", ignore_errors=True)
    if status != 0:
        raise RuntimeError("the documentation has warnings, see above")
    return site_links.problems(out)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the documentation as a static site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="folder of the site")
    out = parser.parse_args().out.resolve()
    try:
        broken = build(out)
    except (RuntimeError, ValueError) as error:
        broken = [str(error)]
    for problem in broken:
        print(problem, file=sys.stderr)
    if not broken:
        print(f"{out / 'index.html'}: {len(list(out.rglob('*.html')))} pages")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
