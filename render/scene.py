"""A scene as those that show, film, score and export it see it: a value made by a function, whatever it consists of.

`luxel.render.raster.primitive_scene`, `luxel.render.fields.drawing.field_scene` and
`luxel.render.surfaces.mesh_scene` have such functions, `luxel.scenes.loading.loaders` makes scenes of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera

Part = TypeVar("Part")
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Draw(NamedTuple):
    """What is rendered of a scene.

    Args:
        layers: names of the images, see `Layers`; of those in `About.layers`.
        time: of a scene that moves, in the unit of its times; others ignore it.
        background: colour in [0, 1] behind the scene, [3]; None: black.
        depth_limit: z beyond which nothing is rendered, [H, W], capture units, of scenes with the option "depth_limit".
        options: of those in `About.options`: "antialiased" (bool), "scale" (size of the parts, a factor), "to_sun"
            (direction towards a sun, of any length above 0), "exposure" (of linear colours, a power of two), "shaded"
            (bool: the surface without its colours).
    """

    layers: tuple[str, ...] = ("colour",)
    time: float = 0.0
    background: Tensor | None = None
    depth_limit: Tensor | None = None
    options: Mapping[str, Any] = NOTHING


class Layers(NamedTuple):
    """Images of a scene; they last until it is rendered again.

    Args:
        images: by name, on the device of the scene: "colour" [H, W, 3], sRGB over the background; "alpha" [H, W] in
            [0, 1]; "depth" and "median_depth" [H, W], z in capture units, 0 where there is none; "normal" [H, W, 3],
            world coordinates, weighted by contribution; "count", int32 [H, W], contributing primitives. Primitives
            also have "splats" [1, N, W] and "tile_counts", int32 [1, N], rows on the screen and the tiles of each.
        complete: whether drawing again would give the same; False: it would give a better image.
    """

    images: dict[str, Tensor]
    complete: bool = True


@dataclass(frozen=True)
class About:
    """What is known of a scene without drawing it.

    Args:
        noun: what it consists of, plural.
        layers: that `Draw` may name; "colour" is always one of them.
        options: that `Draw` may name.
        up: upward direction, of length 1; None: it is not known.
        front: direction from its centre to a good first camera; None: any.
        metres: length of its unit; None: it is not known.
        background: colour in [0, 1] that a page starts with.
        times: first and last time of a scene that moves, in the unit of its data; None: it is static.
        antialiased: whether it was made with the option "antialiased"; None: it is not known.
        flat: whether it is a plane viewed from +z, which a page moves and scales instead of turning it.
        linear: whether it has linear colours, which the option "exposure" scales.
        shift: what was subtracted from large coordinates: those of the world are the scene's plus this, in float64.
            None: nothing.
    """

    noun: str
    layers: tuple[str, ...] = ("colour",)
    options: tuple[str, ...] = ()
    up: tuple[float, float, float] | None = None
    front: tuple[float, float, float] | None = None
    metres: float | None = None
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    times: tuple[float, float] | None = None
    antialiased: bool | None = None
    flat: bool = False
    linear: bool = False
    shift: tuple[float, float, float] | None = None

    @property
    def moves(self) -> bool:
        """Whether its images depend on the time."""
        return self.times is not None

    def chosen(self, **options: Any) -> dict[str, Any]:
        """Those of some options that the scene has."""
        return {name: value for name, value in options.items() if name in self.options}


@dataclass(frozen=True)
class Scene:
    """A scene on a device.

    Args:
        about: what it is.
        device: where it is rendered.
        numbers: ``count`` and more, under the keys that a trainer's ``status`` uses.
        centres: points that mark its place and size, [P, 3].
        draw: its images for a camera on its device, with gradients where the scene has them; one caller at a time.
        to: the same on another device.
        parts: what else it is good for, by type: `Parameters`, `Application`, `MeshScene`, `FlatImage`, ...
    """

    about: About
    device: torch.device
    numbers: Callable[[], dict[str, int]]
    centres: Callable[[], Tensor]
    draw: Callable[[Camera, Draw], Layers]
    to: Callable[[torch.device], Scene]
    parts: Mapping[type, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many parts it consists of."""
        return self.numbers()["count"]

    def part(self, kind: type[Part]) -> Part | None:
        """The part of a type; None: the scene has none."""
        return self.parts.get(kind)


@dataclass(frozen=True)
class FlatImage:
    """The part of a scene that is an image as a whole.

    Args:
        width, height: of its own, pixels.
        bands: (width, height, (left, top, right, bottom) of a part as shares of the whole, exposure as a power of two)
            -> that part in so many pixels, a few rows at a time, [R, width, 3] in [0, 1] each.
    """

    width: int
    height: int
    bands: Callable[[int, int, tuple[float, float, float, float], float], Iterator[Tensor]]


class Extent(NamedTuple):
    """The part of a scene that explains an empty image.

    Args:
        opacities: of the points at a time: centres [P, 3] and opacities [P] of what is visible then.
        finite: which of the parts have only finite values, bool [N].
    """

    opacities: Callable[[float], tuple[Tensor, Tensor]]
    finite: Callable[[], Tensor]


def check_request(about: About, request: Draw) -> None:
    """Refuses layers and options that a scene does not have.

    Raises:
        LuxelError: one of them is none of the scene's.
    """
    wrong = [name for name in request.layers if name not in about.layers]
    wrong += [name for name in request.options if name not in about.options]
    wrong += ["depth_limit"] if request.depth_limit is not None and "depth_limit" not in about.options else []
    if wrong:
        raise LuxelError(
            f"This scene of {about.noun} has no {wrong[0]!r}.",
            f"Choose of {', '.join((*about.layers, *about.options))}.",
        )
