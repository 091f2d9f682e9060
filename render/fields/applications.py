"""The registry of neural field applications: one line each; an application is imported on first use.

An application is a file that defines one subclass of `luxel.render.fields.application.Application`. The class
defines everything else: its configuration and defaults, the data it is trained on, its outputs, scores and surface.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from luxel.render.errors import LuxelError

# Name on the command line and in files: module and class.
APPLICATIONS = {
    "image": "luxel.render.fields.image:ImageField",
    "sdf": "luxel.render.fields.sdf:SdfField",
    "volume": "luxel.render.fields.volume:VolumeField",
    "radiance": "luxel.render.fields.radiance:RadianceField",
}

if TYPE_CHECKING:
    FieldName = str
else:
    FieldName = Literal[tuple(APPLICATIONS)]


def application_type(name: str) -> type[Any]:
    """The class of an application, a subclass of `luxel.render.fields.application.Application`.

    Raises:
        LuxelError: there is none of this name.
    """
    entry = APPLICATIONS.get(name) if isinstance(name, str) else None
    if entry is None:
        raise LuxelError(f"There is no field of {name!r}.", f"There are {', '.join(APPLICATIONS)}.")
    module, _, cls = entry.partition(":")
    return getattr(importlib.import_module(module), cls)


def application_types() -> Iterator[tuple[str, type[Any]]]:
    """Name and class of all applications, in the order of the registry; imports them."""
    for name in APPLICATIONS:
        yield name, application_type(name)
