"""Follows the links of built HTML pages: to other pages, to anchors in them, and to what a browser loads by itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING_TAGS = {"script", "img", "link", "iframe", "source", "video", "audio", "embed", "object", "input"}
LINKS_OF_PAGES = {"canonical", "next", "prev", "search", "index", "author", "help", "copyright"}  # not loaded
CSS_URL = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


class Page(HTMLParser):
    """The anchors of a page, the targets of its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in LOADING_TAGS:
            aims = [values[name] for name in ("src", "href", "data", "poster") if name in values]
            passive = tag == "link" and set(values.get("rel", "").split()) & LINKS_OF_PAGES
            (self.links if passive else self.loaded).extend(aims)


def problems(site: Path) -> list[str]:
    """What is wrong with the links of a site.

    Args:
        site: folder with HTML and CSS files.

    Returns:
        A line for each link to a file or anchor that does not exist, and for each file that a page would load from a
        network.
    """
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        name = path.relative_to(site)
        broken += [f"{name}: loads {url}" for url in page.loaded if is_remote(url)]
        for url in (*page.links, *page.loaded):
            if urlsplit(url).scheme or url.startswith("//"):
                continue
            file, _, anchor = url.partition("#")
            aim = (path.parent / unquote(urlsplit(file).path)).resolve() if file else path
            if not aim.is_file():
                broken.append(f"{name}: {url} does not exist")
            elif aim in pages and unquote(anchor) not in pages[aim].anchors:
                broken.append(f"{name}: {url} has no such anchor")
    for path in sorted(site.rglob("*.css")):
        for match in CSS_URL.finditer(path.read_text()):
            url = match[1] or match[2]
            if is_remote(url):
                broken.append(f"{path.relative_to(site)}: loads {url}")
    return broken


def is_remote(url: str) -> bool:
    """Whether a browser would use a network for this URL."""
    return urlsplit(url).scheme in ("http", "https", "ws", "wss") or url.startswith("//")
