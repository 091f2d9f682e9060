"""The registry of neural field applications: one line each; an application is imported on first use.

An application is a file that defines one subclass of `luxel.render.fields.application.Application`. The class
defines everything else: its configuration and defaults, the data it is trained on, its outputs, scores and surface.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from luxel.render.errors import LuxelError

# Name on the command line and in files: module and class.
APPLICATIONS = {
    "image": "luxel.render.fields.image:ImageField",
    "sdf": "luxel.render.fields.sdf:SdfField",
    "volume": "luxel.render.fields.volume:VolumeField",
    "radiance": "luxel.render.fields.radiance:RadianceField",
}


class Configuration(NamedTuple):
    """The options of an application's training, which are known without importing it.

    Args:
        target: module and class, a dataclass.
        defaults: values that differ from those of the class.
    """

    target: str = "luxel.render.fields.config:FieldConfig"
    defaults: Mapping[str, Any] = {}

    @property
    def type(self) -> type[Any]:
        """The class, `luxel.render.fields.config.FieldConfig` or one derived from it."""
        return _imported(self.target)


# Of luxel's own applications, whose classes take these values. Those of others are taken from their classes.
CONFIGURATIONS = {
    "image": Configuration(defaults={"decay_from": 2_000, "decay_every": 2_000, "ema": 0.99}),
    "sdf": Configuration(
        defaults={"rate": 5e-3, "decay_factor": 0.5, "decay_from": 5_000, "decay_every": 500}
    ),
    "volume": Configuration(defaults={"decay_from": 5_000, "decay_every": 2_000}),
    "radiance": Configuration(
        "luxel.render.fields.radiance_config:RadianceConfig",
        {"steps": 35_000, "hidden": 1, "sparse": True, "schedule": "shares", "weight_decay": 0.0},
    ),
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
    return _imported(_target(name))


def configuration_of(name: str) -> tuple[type[Any], Mapping[str, Any]]:
    """The class of an application's configuration, and the values in which its defaults differ from the class.

    Raises:
        LuxelError: there is no such application.
    """
    _target(name)
    if name in CONFIGURATIONS:
        return CONFIGURATIONS[name].type, CONFIGURATIONS[name].defaults
    application = application_type(name)
    return application.config_type, application.training_defaults


def _target(name: str) -> str:
    """Module and class of an application, of a name that exists."""
    entry = APPLICATIONS.get(name) if isinstance(name, str) else None
    if entry is None:
        raise LuxelError(f"There is no field of {name!r}.", f"There are {', '.join(APPLICATIONS)}.")
    return entry


def _imported(target: str) -> type[Any]:
    module, _, cls = target.partition(":")
    return getattr(importlib.import_module(module), cls)


def application_types() -> Iterator[tuple[str, type[Any]]]:
    """Name and class of all applications, in the order of the registry; imports them."""
    for name in APPLICATIONS:
        yield name, application_type(name)
