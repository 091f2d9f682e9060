"""Help texts of commands, from their docstrings and those of their options, wrapped to the terminal."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import shutil
import textwrap
import types
import typing
from collections.abc import Iterator
from typing import Any

from luxel.render.bounds import Bounds, bounds_of, option_types

NARROWEST, WIDEST = 40, 100


def description(command: Any) -> str:
    """The docstring of a command, wrapped to the terminal; examples keep their lines.

    tyro joins lines that begin with a letter and doubles empty ones, so these begin with a space, and empty lines
    hold a zero-width space.
    """
    width = max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST) - 2)
    blocks = []
    for block in (inspect.getdoc(command) or "").split("\n\n"):
        examples = any(line.startswith(" ") for line in block.splitlines())
        lines = block.splitlines() if examples else textwrap.wrap(block, width, break_on_hyphens=False)
        blocks.append("\n".join(f" {line}" for line in lines))
    return "\n\u200b\n".join(blocks)


def join_option_lines(command: Any) -> None:
    """Sets the help text of each option of a command to its docstring as one line, which tyro then wraps.

    Left alone, tyro keeps the line breaks of a docstring that spans several lines of source. The bounds of a number are
    added where they are to be stated and the docstring does not state them.

    Args:
        command: a dataclass; the dataclasses that its fields hold are included.
    """
    for kind in _dataclasses(command, set()):
        docs = {name: text for base in reversed(kind.__mro__) for name, text in _option_docs(base).items()}
        for option in dataclasses.fields(kind):
            if option.name in docs and "help" not in option.metadata:
                text = with_bounds(docs[option.name], bounds_of(option_types(kind)[option.name]))
                option.metadata = types.MappingProxyType({**option.metadata, "help": text})


def with_bounds(text: str, bounds: Bounds | None) -> str:
    """A help text with the bounds of its option at the end, where they are to be stated and it has none yet."""
    if bounds is None or not bounds.stated or str(bounds) in text:
        return text
    return f"{text} Range: {bounds}."


def _dataclasses(annotation: Any, seen: set[Any]) -> Iterator[type]:
    """The dataclasses that an annotation names, and those of their fields, each once."""
    for part in typing.get_args(annotation):
        yield from _dataclasses(part, seen)
    if not isinstance(annotation, type) or not dataclasses.is_dataclass(annotation) or annotation in seen:
        return
    seen.add(annotation)
    yield annotation
    for hint in typing.get_type_hints(annotation).values():
        yield from _dataclasses(hint, seen)


def _option_docs(kind: type) -> dict[str, str]:
    """The docstring under each field of a class itself, by field, as one line."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):  # made at run time, or builtin
        return {}
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for entry, following in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name)):
            continue
        text = following.value if isinstance(following, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            docs[entry.target.id] = " ".join(text.value.split())
    return docs
