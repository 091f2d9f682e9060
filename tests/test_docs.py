"""The documentation: links of the Markdown files, and the site that `make docs` builds of them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from luxel.viewer.cli import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "site"
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")])
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")


def site_module(name: str) -> ModuleType:
    """A module of docs/site, which is no package."""
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    seen: dict[str, int] = {}
    slugs = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", without_code(text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        slugs.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return slugs


def broken_links(page: Path) -> list[str]:
    """Links of a Markdown file to files of this repository, or to headings, that do not exist."""
    broken = []
    for target in LINK.findall(without_code(page.read_text())):
        file, _, anchor = target.partition("#")
        aim = (page.parent / file).resolve() if file else page
        if "://" in target:
            continue
        if not aim.exists() or (anchor and anchor not in anchors(aim.read_text())):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_markdown_files(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` / c\n[1](#a-b--c) [2](#a) [3](other.md) [4](page.md#x)\n```\n[5](in_code.md)\n```\n"
    )
    assert broken_links(page) == ["#a", "other.md", "page.md#x"]


def test_help_becomes_a_page() -> None:
    """Panels, wrapped texts, numbers that were broken at their comma, and markup in help texts."""
    pages = site_module("command_pages")
    parsed = pages.parse(
        "usage: luxel x [-h]\n\n Does it\n well.\n\u200b\n Examples:\n     luxel x 1\n\n"
        "╭─ options ─────────╮\n"
        "│ -h, --help   help │\n"
        "│ --a-long-one INT  │\n"
        "│              Up to 30,   │\n"
        "│              000 of *x*. │\n"
        "╰───────────────────╯\n"
        "╭─ y options ─╮\n│ About y.    │\n│ ─────────── │\n│ --y.z INT  As --ab. │\n╰─────────────╯\n"
    )
    assert (parsed.usage, parsed.about, parsed.examples) == ("luxel x [-h]", ["Does it well."], ["luxel x 1"])
    assert parsed.panels[0].entries[1] == pages.Entry("--a-long-one INT", "Up to 30,000 of *x*.")
    assert parsed.panels[1].about == ["About y."]
    lines = list(pages._panels(parsed.panels, set(), level=2))
    assert ": Up to 30,000 of \\*x\\*." in lines and ": As `--ab`." in lines
    assert "## Options `--y.*`" in lines and not any("--help" in line for line in lines)


def test_every_option_stands_on_the_page_of_its_command() -> None:
    pages = site_module("command_pages")
    for command in ("view", "export", "doctor"):
        options = set(re.findall(r"^│ (?:-\w, )?(--[\w.-]+)", pages.help_text(command), re.MULTILINE)) - {
            "--help"
        }
        assert options - set(re.findall(r"--[\w.-]*\w", pages.page(command))) == set()


def test_problems_of_a_site_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"></p><a href="#x"></a><a href="b.html#y"></a><a href="c.html"></a><a href="b.html#z"></a>'
        '<a href="https://example.org/"></a><script src="https://example.org/a.js"></script>'
        '<link rel="stylesheet" href="//example.org/a.css"><img src="none.png">'
    )
    (tmp_path / "b.html").write_text('<h1 id="y"></h1>')
    (tmp_path / "a.css").write_text("@import 'https://example.org/b.css'; p { background: url(data:,) }")
    assert site_module("site_links").problems(tmp_path) == [
        "a.html: loads https://example.org/a.js",
        "a.html: loads //example.org/a.css",
        "a.html: c.html does not exist",
        "a.html: b.html#z has no such anchor",
        "a.html: none.png does not exist",
        "a.css: loads https://example.org/b.css",
    ]


def test_the_page_of_errors_has_every_message() -> None:
    """A row each, and nothing that would end a cell."""
    pages = site_module("error_page")
    sites = pages.error_sites.all_sites()
    rows = [line for line in pages.page().splitlines() if line.startswith("| ")]
    headings = [row for row in rows if row in ("| message | remedy |", "| exception | message |")]
    assert len(rows) - len(headings) == len(sites) > 500
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    """Strictly, with every link and anchor of the HTML followed and nothing loaded from a network."""
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package)
    out = tmp_path / "site"
    run = subprocess.run(
        [sys.executable, SITE / "build_site.py", "--out", out], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert {path.stem for path in (out / "commands").glob("*.html")} == {*COMMANDS, "index"}
    assert "--holdout-every" in (out / "commands" / "train.html").read_text()
    assert "The gsplat backend is not installed." in (out / "errors.html").read_text()
    assert "cam_to_world" in (out / "api" / "cameras.html").read_text()
    assert all((out / page.with_suffix(".html").name).exists() for page in (ROOT / "docs").glob("*.md"))
