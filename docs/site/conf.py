"""Configuration of Sphinx; `build_site.py` runs it over the pages that it has put together."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import typing
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext import napoleon

project = "luxel"
author = "the authors of luxel"
copyright = "the authors of luxel, Apache-2.0"  # the name is Sphinx's
release = version = importlib.metadata.version("luxel")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
nitpicky = False

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4  # the anchors of headings are those of GitHub

default_role = "code"  # `name` in docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
html_theme = "furo"
html_title = "luxel"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False

sys.path.insert(0, str(Path(__file__).parent))

import api_pages  # noqa: E402

from luxel.render.bounds import Options  # noqa: E402

SECTIONS = napoleon.Config(napoleon_use_rtype=False, napoleon_use_ivar=True)
MARKUP = re.compile(r"(``.*?``|`[^`]*`)|(?<!^)(?<!\\)([*|]|(?<=\w)_(?!\w))", re.MULTILINE)


def read_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with code in backticks, and sections (Args, Returns, Raises) where they have any.

    What reStructuredText would read as emphasis or as a substitution stays as it is written. Sphinx's extension
    napoleon would take `sharp: as the camera made them` under an attribute for a type and its description, so it is
    not asked there.
    """
    text = MARKUP.sub(lambda match: match[1] or "\\" + match[2], "\n".join(lines))
    if what in ("attribute", "data", "property"):
        lines[:] = text.split("\n")
    else:
        lines[:] = napoleon.GoogleDocstring(text, SECTIONS, app, what, name, obj, options).lines()


def short_signature(app: Sphinx, what: str, name: str, obj: Any, *_: Any) -> tuple[str, str] | None:
    """Dataclasses of options have a page of fields; their signature does not repeat it."""
    return ("(**options)", "") if what == "class" and issubclass(obj, Options) else None


def show_plain_types() -> None:
    """Options are shown with the types of their values, without the bounds that the annotations carry."""
    for content in api_pages.PAGES.values():
        for value in content.values():
            if isinstance(value, type) and issubclass(value, Options):
                value.__annotations__ = {
                    option: hint
                    for option, hint in typing.get_type_hints(value).items()
                    if option in value.__annotations__
                }


def setup(app: Sphinx) -> None:
    show_plain_types()
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", short_signature)
