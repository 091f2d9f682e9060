"""What the viewer draws: primitives, a neural field or a triangle mesh.

All have the attributes of `Interface`, so that the viewer needs no branches. Only the function that draws differs, see
`render_function`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from luxel.render.backends import Backend, rasterizer
from luxel.render.fields.application import Application
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import by_sigma_points, require_drawable
from luxel.render.scene import Draw, Scene
from luxel.render.surfaces.mesh_scene import MeshScene
from luxel.scenes.loader import LoadOptions
from luxel.scenes.loaders import open_scene


class Interface(Protocol):
    """The attributes that primitives, fields and meshes share; a further class that is drawn needs all of them.

    Attributes:
        noun: what it consists of, plural.
        outputs: what can be shown, of `luxel.viewer.web.images.shading.OUTPUTS`.
        moves: whether an image depends on the time.
        antialiases: whether Mip-Splatting's opacity compensation applies.
        resizable: whether it has ``scaled(factor)``, which draws its parts larger or smaller.
    """

    noun: ClassVar[str]
    outputs: ClassVar[tuple[str, ...]]
    moves: ClassVar[bool]
    antialiases: ClassVar[bool]
    resizable: ClassVar[bool]

    @property
    def count(self) -> int:
        """How many parts it consists of."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it is drawn."""
        ...

    @property
    def centres(self) -> Tensor:
        """Points that mark its place and size, [P, 3]."""
        ...

    def numbers(self) -> dict[str, int]:
        """``count`` and more, under the keys that a trainer's ``status`` uses."""
        ...

    def detach(self) -> Self:
        """Without gradients."""
        ...

    def to(self, device: torch.device) -> Self:
        """On another device."""
        ...


Drawable = Parameters | Application | MeshScene  # each with the attributes of Interface


@dataclass
class FieldFrame:
    """A rendered image of a field, as `luxel.render.raster.rasterize.Frame` has it: rgb [H, W, 3] in [0, 1]."""

    rgb: Tensor


def render_field(
    scene: Application,
    camera: Camera,
    *,
    background: Tensor | None = None,
    to_sun: tuple[float, float, float] | None = None,
) -> FieldFrame:
    """Renders a field; called like luxel.render.raster.rasterize.

    Args:
        scene: the field.
        camera: one camera, on the field's device.
        background: colour in [0, 1] behind the field, [3]; None: black.
        to_sun: direction towards a sun that lights the field and casts shadows; None: no sun.
    """
    with torch.no_grad():
        if to_sun is not None:
            return FieldFrame(scene.render_sunlit(camera, background, to_sun))
        return FieldFrame(scene.render(camera, background))


def render_function(scene: Drawable, backend: Backend, *, lenses: bool = False) -> Callable[..., Any]:
    """The function that draws a scene: (scene, camera, **options) -> Frame.

    Args:
        scene: on the device that draws it.
        backend: rasterizer backend of primitives; fields and meshes are rendered by luxel.
        lenses: whether primitives were trained behind lenses, see `by_sigma_points`.

    Raises:
        LuxelError: the backend cannot be used on this device, or cannot draw this primitive.
    """
    rasterizer(backend, scene.device)
    if isinstance(scene, Parameters):
        require_drawable(backend, scene)
        return rasterizer_of_views(backend, lenses=lenses)
    return render_mesh if isinstance(scene, MeshScene) else render_field


def render_mesh(
    scene: MeshScene, camera: Camera, *, background: Tensor | None = None, **options: bool
) -> Any:
    """Renders a mesh; called like luxel.render.raster.rasterize."""
    layers = (
        "colour",
        "alpha",
        *(name for name, on in options.items() if on and name in ("depth", "normals")),
    )
    layers = tuple("normal" if name == "normals" else name for name in layers)
    drawn = scene.draw(
        camera, Draw(layers, background=background, options={"shaded": options.get("shaded", False)})
    )
    images = drawn.images
    return SimpleNamespace(
        rgb=images["colour"],
        alpha=images["alpha"],
        depth=images.get("depth"),
        median_depth=images.get("depth"),
        normals=images.get("normal"),
    )


def load_shown(path: Any, *, keep_non_finite: bool = False, axes: str | None = None) -> Drawable:
    """What a path holds, see `luxel.scenes.loaders.open_scene`."""
    return part_of(open_scene(path, LoadOptions(keep_non_finite, axes)))


def part_of(scene: Scene) -> Drawable:
    """The part of a scene that pages draw."""
    kinds: tuple[type, ...] = (Parameters, Application, MeshScene)
    return next(scene.parts[kind] for kind in kinds if kind in scene.parts)


def rasterizer_of_views(backend: Backend, *, lenses: bool) -> Callable[..., Any]:
    """The rasterizer that shows primitives, see `render_function`."""
    render = rasterizer(backend)
    return by_sigma_points(render) if lenses and backend == "luxel" else render


def field_orientation(
    scene: Application,
    up: np.ndarray | None = None,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> dict[str, Any]:
    """Up, front and background of a field, as `luxel.viewer.web.session.Session` has them.

    Args:
        up: upward direction of its data, [3]; None: the field's own.
        background: colour in [0, 1] that a page starts with.
    """
    front = None if scene.front is None else np.array(scene.front)
    return {"up": np.array(scene.up) if up is None else up, "front": front, "background": background}


def mesh_orientation(scene: MeshScene) -> dict[str, Any]:
    """Front of a mesh, as `luxel.viewer.web.session.Session` has it: the side that it faces, a little from above."""
    if scene.front is None:
        return {}
    up = np.array((0.0, -1.0, 0.0) if scene.up is None else scene.up)
    level = np.array(scene.front) - float(np.dot(scene.front, up)) * up
    length = float(np.linalg.norm(level))
    return {"front": 1.5 * level / length + 0.3 * up} if length > 0.2 else {}


def orientation(scene: Drawable) -> dict[str, Any]:
    """Up, front and background where a scene says them, as `luxel.viewer.web.session.Session` has them."""
    if isinstance(scene, Application):
        return field_orientation(scene)
    return mesh_orientation(scene) if isinstance(scene, MeshScene) else {}
