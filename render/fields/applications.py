"""The applications of neural fields by name; each is imported when it is asked for."""

from __future__ import annotations

import importlib

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.config import FieldConfig

APPLICATIONS = {
    "image": ("image", "ImageField"),
    "sdf": ("sdf", "SdfField"),
    "volume": ("volume", "VolumeField"),
    "radiance": ("radiance", "RadianceField"),
}


def application_type(name: str) -> type[Application]:
    """The class of an application.

    Raises:
        LuxelError: there is none of this name.
    """
    if name not in APPLICATIONS:
        raise LuxelError(f"There is no field of {name!r}.", f"There are {', '.join(APPLICATIONS)}.")
    module, cls = APPLICATIONS[name]
    return getattr(importlib.import_module(f"luxel.render.fields.{module}"), cls)


def make_application(config: FieldConfig) -> Application:
    """The application that a configuration describes, with its first parameters, on the CPU.

    Raises:
        LuxelError: the configuration makes no field.
    """
    config.check()
    return application_type(config.field)(config)
