"""Python imports this at the start of a child process of a test: it lets the recorder change luxel's errors."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import recorder

ERRORS = "luxel.render.errors"


class NotesErrors(importlib.abc.MetaPathFinder):
    """Finds luxel.render.errors as the other finders do, and lets the recorder change it once it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != ERRORS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_install(module: ModuleType) -> None:
                load(module)
                recorder.install(module)

            spec.loader.exec_module = load_and_install  # type: ignore[method-assign]
        return spec


if os.environ.get(recorder.FOLDER):
    sys.meta_path.insert(0, NotesErrors())
