"""Notes which raise statements of built-in exceptions the tests reach: luxel is compiled with a note at each.

The exceptions are not luxel's, so nothing in them can write the note (as recorder.py has LuxelError do). pytest's
processes alone do this, and must before luxel is imported; child processes of tests do not.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from importlib.machinery import SourceFileLoader
from typing import Any

import recorder
from error_sites import BUILTINS, PRODUCTION, ROOT, raised_call

NOTE = "__luxel_note__"


def requested(arguments: list[str]) -> bool:
    """Whether this process of pytest is to note errors: it has the option, or is a worker of one that has."""
    return recorder.FOLDER in os.environ or any(text.startswith("--error-sites") for text in arguments)


def install() -> None:
    """Compiles the modules of luxel with notes, from now on and without files of byte code."""
    original = SourceFileLoader.get_code
    roots = tuple(f"{ROOT / folder}{os.sep}" for folder in PRODUCTION)

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if not os.path.realpath(path).startswith(roots):
            return original(self, fullname)
        return compile(with_notes(self.get_data(path), path), path, "exec", dont_inherit=True)

    setattr(builtins, NOTE, noted)
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def noted(error: BaseException) -> BaseException:
    """Notes the place that called this; returns the error."""
    recorder.note(sys._getframe(1), str(error), "", "")
    return error


def with_notes(source: bytes, path: str) -> ast.Module:
    """The module with each ``raise ValueError(...)`` made ``raise __luxel_note__(ValueError(...))``."""
    return Notes().visit(ast.parse(source, path))


class Notes(ast.NodeTransformer):
    """Puts the call of the note around the exceptions of raise statements."""

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        call = raised_call(node)
        if call and isinstance(call.func, ast.Name) and call.func.id in BUILTINS:
            name = ast.copy_location(ast.Name(NOTE, ast.Load()), call)
            node.exc = ast.copy_location(ast.Call(name, [call], []), call)
        return node
