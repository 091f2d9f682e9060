"""Pages of the Python interface: which names each page has. Sphinx takes signatures and texts from the docstrings."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ApiPage:
    """A page of the interface.

    Args:
        title: its heading.
        about: a paragraph in Markdown.
        modules: module and the names of it that the page documents, in this order; no names: all public ones.
    """

    title: str
    about: str
    modules: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def names(self) -> Iterator[tuple[str, str]]:
        """Module and name of all that the page documents."""
        for module, names in self.modules.items():
            for name in names or importlib.import_module(module).__all__:
                if names or not name.endswith("Error"):  # these have a page of their own
                    yield module, name

    def values(self) -> Iterator[Any]:
        """What the names stand for."""
        for module, name in self.names():
            yield getattr(importlib.import_module(module), name)


PAGES = {
    "rasterize": ApiPage(
        "Rendering",
        "`rasterize` draws primitives for a camera, with gradients; `Renderer` draws a scene again and again, without. "
        "Axes and units: [conventions](../conventions.md).",
        {
            "luxel.render.raster.rasterize": ("rasterize", "Frame"),
            "luxel.render.raster.renderer": ("Renderer",),
        },
    ),
    "cameras": ApiPage(
        "Cameras and views",
        "Cameras have OpenCV axes: x right, y down, z forward.",
        {"luxel.render.geometry.camera": ("Camera", "View", "Pixels", "Points")},
    ),
    "primitives": ApiPage(
        "Primitives",
        "Parameters are raw values, as the optimizer moves them; activations are properties. A primitive of your own: "
        "[extending luxel](../extending.md#a-primitive).",
        {
            "luxel.render.primitives": (
                *("Parameters", "Gaussians", "Gaussians4d", "Convexes", "Surfels"),
                *("PrimitiveSpec", "register", "spec_of"),
            )
        },
    ),
    "scenes": ApiPage(
        "Captures and scene files",
        "What a capture may be: [guide](../guide.md#captures). Scene formats: [formats](../formats.md).",
        {"luxel.scenes": ()},
    ),
    "training": ApiPage(
        "Training",
        "A `Trainer` takes views and a `TrainConfig`; the example "
        "[train_a_scene.py](../examples.md#train-a-scene-py) makes a capture, trains on it and resumes the run.",
        {
            "luxel.render.train": ("TrainConfig", "Trainer", "TrainResult", "StepReport"),
            "luxel.render.train.presets": ("preset",),
            "luxel.render.metrics.evaluate": ("evaluate", "Evaluation", "ViewScore"),
            "luxel.render.metrics.image_metrics": ("psnr", "ssim", "lpips"),
        },
    ),
    "fields": ApiPage(
        "Neural fields",
        "What each application learns, and the encodings: [fields](../fields.md).",
        {
            "luxel.render.fields.config": ("FieldConfig",),
            "luxel.render.fields.training.trainer": ("FieldTrainer", "FieldResult"),
            "luxel.render.fields.files": ("load_field", "save_field"),
            "luxel.render.fields.image": ("ImageField",),
            "luxel.render.fields.sdf": ("SdfField",),
            "luxel.render.fields.volume": ("VolumeField",),
            "luxel.render.fields.radiance": ("RadianceField",),
            "luxel.render.fields.nets.field": ("Field",),
            "luxel.render.fields.nets.point_function": ("PointFunction", "Snapshot"),
            "luxel.render.fields.encodings.encoding": ("Encoding",),
            "luxel.render.fields.encodings.grid_encoding": ("GridEncoding",),
            "luxel.render.fields.encodings.frequency": ("FrequencyEncoding",),
            "luxel.render.fields.encodings.spherical_harmonics": ("SphericalHarmonicsEncoding",),
            "luxel.render.fields.nets.mlp": ("Mlp",),
        },
    ),
    "errors": ApiPage(
        "Errors",
        "Every message of luxel with its remedy: [errors](../errors.md).",
        {"luxel.render.errors": ("LuxelError", "NativeError"), "luxel.scenes": ("CaptureError",)},
    ),
}


def directive(module: str, name: str) -> str:
    """The directive that documents a public name of a module."""
    kind = "autoclass" if inspect.isclass(getattr(importlib.import_module(module), name)) else "autofunction"
    return f"```{{eval-rst}}\n.. {kind}:: {module}.{name}\n```"


def page(content: ApiPage) -> str:
    """The Markdown page."""
    lines = [f"# {content.title}", "", content.about, ""]
    for module in content.modules:
        lines += [f"## `{module}`", ""]
        for name in (name for owner, name in content.names() if owner == module):
            lines += [directive(module, name), ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """File names below `api/` and the text of their pages, the list of pages first."""
    rows = [
        f"* [{content.title}]({name}.md): {', '.join(content.modules)}" for name, content in PAGES.items()
    ]
    listed = "\n".join(PAGES)
    index = (
        "# Python interface\n\nMade from the docstrings. Shapes are in brackets: N primitives, C cameras, "
        "H x W pixels, K coefficients of spherical harmonics.\n\n"
        + "\n".join(rows)
        + f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )
    return {"index.md": index, **{f"{name}.md": page(content) for name, content in PAGES.items()}}
