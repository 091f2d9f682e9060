"""Primitives as a scene that is shown: rendered by the tile rasterizer, or by another backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens_views import without_distortion
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.render.primitives.time_range import time_range
from luxel.render.raster import Backend, rasterizer
from luxel.render.scene import About, Draw, Extent, Layers, Scene, check_request

# By the outputs of primitives: the layers that belong to them.
LAYERS = {
    "colour": ("colour",),
    "alpha": ("alpha",),
    "depth": ("depth", "median_depth"),
    "normals": ("normal",),
    "count": ("count",),
}
ROWS = ("splats", "tile_counts")  # layers that the rasterizer has besides


class Remake(NamedTuple):
    """The part of a scene of primitives that makes the same scene of other primitives of their class."""

    scene: Callable[[Parameters], Scene]


def primitive_scene(
    parameters: Parameters,
    *,
    antialiased: bool | None = None,
    up: tuple[float, float, float] | None = None,
    metres: float | None = None,
    shift: tuple[float, float, float] | None = None,
    backend: Backend = "luxel",
    lenses: bool = False,
    about: About | None = None,
    render: Callable[..., Any] | None = None,
) -> Scene:
    """Primitives as a scene.

    Args:
        parameters: on the device that draws them.
        antialiased, up, metres, shift: see `About`.
        backend: rasterizer backend.
        lenses: whether the primitives were trained behind lenses: luxel's rasterizer then projects to pinhole cameras
            by sigma points too. EWA shows large Gaussians of such a scene at wide angles as haze.
        about: of the same primitives before, where they are still being trained; None: it is made.
        render: rasterizer instead of the backend's, called like `luxel.render.raster.rasterize.rasterize`.

    Raises:
        LuxelError: the backend cannot be used on this device, or cannot draw this primitive.
    """
    rasterize = render
    if rasterize is None:
        rasterize = rasterizer(backend, parameters.device)
        require_drawable(backend, parameters)
        if lenses and backend == "luxel":
            rasterize = by_sigma_points(rasterize)
    known = about or about_primitives(parameters, antialiased, up, metres, shift)

    def draw(camera: Camera, request: Draw) -> Layers:
        return draw_primitives(parameters, known, rasterize, camera, request)

    def made(other: Parameters) -> Scene:
        return primitive_scene(other, backend=backend, lenses=lenses, about=known, render=render)

    return Scene(
        known,
        parameters.device,
        parameters.numbers,
        lambda: parameters.centres,
        draw,
        lambda device: made(parameters.to(device)),
        {
            Parameters: parameters,
            Remake: Remake(made),
            Extent: Extent(lambda time: _at(parameters, time), lambda: _finite(parameters)),
        },
    )


def about_primitives(
    parameters: Parameters,
    antialiased: bool | None = None,
    up: tuple[float, float, float] | None = None,
    metres: float | None = None,
    shift: tuple[float, float, float] | None = None,
) -> About:
    """What is known of primitives; the arguments are those of `primitive_scene`."""
    options = (("antialiased",) if parameters.antialiases else ()) + (
        ("scale",) if parameters.resizable else ()
    )
    return About(
        parameters.noun,
        tuple(layer for name in parameters.outputs for layer in LAYERS[name]) + ROWS,
        options,
        up,
        metres=metres,
        times=time_range(parameters),
        antialiased=antialiased if parameters.antialiases else None,
        shift=shift,
    )


def draw_primitives(
    parameters: Parameters, about: About, render: Callable[..., Any], camera: Camera, request: Draw
) -> Layers:
    """The layers of primitives, by a rasterizer called like `luxel.render.raster.rasterize.rasterize`."""
    check_request(about, request)
    scale = request.options.get("scale", 1)
    shown = parameters if scale == 1 else parameters.scaled(scale)
    options: dict[str, Any] = {
        name: request.options[name] for name in ("antialiased",) if name in request.options
    }
    options |= {"time": request.time} if parameters.moves else {}
    for option, layers in (("depth", LAYERS["depth"]), ("normals", ("normal",)), ("count", ("count",))):
        options |= {option: True} if set(layers) & set(request.layers) else {}
    frame = render(shown, camera, background=request.background, **options)
    return layers_of(frame, request.layers)


def layers_of(frame: Any, names: tuple[str, ...]) -> Layers:
    """Some layers of a `luxel.render.raster.rasterize.Frame`; those that its backend does not give are left out."""
    attributes = {"colour": "rgb", "normal": "normals"}
    images = {name: getattr(frame, attributes.get(name, name), None) for name in names}
    return Layers({name: image for name, image in images.items() if image is not None})


def by_sigma_points(render: Callable[..., Any]) -> Callable[..., Any]:
    """A rasterizer that projects to pinhole cameras by sigma points too.

    Args:
        render: called like `luxel.render.raster.rasterize.rasterize`.
    """

    def draw(scene: Any, camera: Camera, **options: Any) -> Any:
        return render(scene, without_distortion(camera), **options)

    return draw


def require_drawable(backend: Backend, scene: Parameters) -> None:
    """Refuses a scene that a backend has no kernels for.

    Raises:
        LuxelError: the primitive is not rendered by that backend.
    """
    if backend not in PRIMITIVES[scene.primitive].backends:
        nouns = " and ".join(spec.noun for spec in PRIMITIVES.values() if backend in spec.backends)
        raise LuxelError(
            f"--backend {backend}: it renders {nouns} only, and this scene is of {scene.noun}.",
            "Leave --backend out: luxel's own kernels draw it.",
        )


def _at(parameters: Parameters, time: float) -> tuple[Tensor, Tensor]:
    still = parameters.at(time) if parameters.moves else parameters
    return still.centres, still.opacities


def _finite(parameters: Parameters) -> Tensor:
    sound = torch.ones(parameters.count, dtype=torch.bool, device=parameters.device)
    for tensor in parameters.tensors().values():
        sound &= torch.isfinite(tensor.reshape(parameters.count, -1)).all(-1)
    return sound
