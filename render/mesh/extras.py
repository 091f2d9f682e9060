"""Packages that meshes need beyond the required ones: the extra luxel[mesh]."""

from __future__ import annotations

import importlib
from typing import Any

from luxel.render.errors import LuxelError

PURPOSES = {
    "fast_simplification": "Fewer triangles need",
    "scipy": "Hulls of convexes and repaired meshes need",
    "xatlas": "Textures need",
}  # by the name of the module


def mesh_package(name: str) -> Any:
    """One of the packages `PURPOSES`.

    Raises:
        LuxelError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise LuxelError(
            f"{PURPOSES[name]} the package {name.replace('_', '-')}, which is not installed.",
            "Install it with: pip install 'luxel[mesh]'.",
        ) from None
