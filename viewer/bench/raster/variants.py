"""The variants that the rasterizer's benchmark compares: backends, and modes of calling them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.backends import gsplat
from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.raster import Backend
from luxel.render.raster.rasterize import MAX_ALPHA, rasterize
from luxel.render.raster.renderer import Renderer


class CameraSample(NamedTuple):
    """A pose with a time to be rendered."""

    camera: Camera
    time: float | None  # None: the scene is static


CAPS: dict[Backend, float] = {"luxel": MAX_ALPHA, "gsplat": gsplat.MAX_ALPHA}
PASSES = ("inference", "forward", "forward + backward")


@dataclass
class RasterVariant:
    """A backend in one mode of calling it.

    Args:
        name: in tables.
        backend: that draws.
        draw: sample -> image [H, W, 3], differentiable by ``leaves``.
        leaves: tensors that receive gradients.
        ranked: whether its time counts as that of its backend.
    """

    name: str
    backend: Backend
    draw: Callable[[CameraSample], Tensor]
    leaves: list[Tensor]
    ranked: bool = True

    def passes(self, samples: Sequence[CameraSample], g_image: Tensor) -> dict[str, Callable[[int], object]]:
        """The timed passes by name; call i draws sample i, in a cycle; ``g_image`` [H, W, 3] is its gradient."""

        def inference(i: int) -> None:
            with torch.no_grad():
                self.draw(samples[i % len(samples)])

        def forward(i: int) -> None:
            self.draw(samples[i % len(samples)])

        def both(i: int) -> None:
            for leaf in self.leaves:
                leaf.grad = None
            self.draw(samples[i % len(samples)]).backward(g_image)

        return dict(zip(PASSES, (inference, forward, both), strict=True))

    def drop_gradients(self) -> None:
        """Frees the gradients of the leaves."""
        for leaf in self.leaves:
            leaf.grad = None


@dataclass
class Replayed(RasterVariant):
    """luxel replayed from a captured CUDA graph (`luxel.render.raster.renderer.Renderer`), as training steps are.

    Args:
        drawer: holds the captured work, with gradients too.
    """

    drawer: Renderer | None = None

    def passes(self, samples: Sequence[CameraSample], g_image: Tensor) -> dict[str, Callable[[int], object]]:
        """See `RasterVariant.passes`; nothing is recorded for a backward pass, so inference is forward."""
        drawer = self.drawer
        assert drawer is not None

        def forward(i: int) -> None:
            drawer.draw(*samples[i % len(samples)])

        def both(i: int) -> None:
            camera, time = samples[i % len(samples)]
            drawer.draw_with_gradients(camera, g_image, time)

        return dict(zip(PASSES, (forward, forward, both), strict=True))


def draw_with(backend: Backend, scene: Parameters, sample: CameraSample, max_alpha: float) -> Tensor:
    """The image of a backend from raw parameters, [H, W, 3]; gsplat has a fixed cap instead of ``max_alpha``."""
    if backend == "luxel":
        return rasterize(scene, sample.camera, time=sample.time, max_alpha=max_alpha).rgb
    return gsplat.rasterize(_as_gaussians(scene), sample.camera).rgb


def _as_gaussians(scene: Parameters) -> Gaussians:
    if not isinstance(scene, Gaussians):
        raise LuxelError(f"gsplat draws no {scene.noun}.", "Leave --against out.")
    return scene


def variants(
    backends: Sequence[Backend], scene: Parameters, samples: Sequence[CameraSample]
) -> list[RasterVariant]:
    """The variants of each backend.

    luxel works from raw parameters, called through autograd and as a captured graph, and the better of both counts:
    gsplat cannot be captured, since it reads counts back to the host. gsplat gets activated parameters and matrices
    outside of the timed part, packed and unpacked, and the better of both counts; "gsplat, raw" also activates.
    """
    out: list[RasterVariant] = []
    raw = scene.detach().requires_grad_()
    leaves = list(raw.tensors().values())
    if "luxel" in backends:
        out.append(
            RasterVariant(
                "luxel", "luxel", lambda sample: rasterize(raw, sample.camera, time=sample.time).rgb, leaves
            )
        )
        if scene.device.type == "cuda":
            drawer = Renderer(scene)
            out.append(
                Replayed(
                    "luxel, replayed", "luxel", lambda sample: drawer.draw(*sample).rgb, leaves, True, drawer
                )
            )
    if "gsplat" in backends:
        gaussians = _as_gaussians(scene)
        inputs = gsplat.Activated(*(t.detach().clone().requires_grad_() for t in gsplat.activate(gaussians)))
        matrices = {id(sample.camera): gsplat.pinhole_matrices(sample.camera) for sample in samples}

        def draw(sample: CameraSample, packed: bool) -> Tensor:
            return gsplat.rasterize_activated(
                inputs,
                sample.camera,
                sh_degree=gaussians.sh_degree,
                packed=packed,
                matrices=matrices[id(sample.camera)],
            ).rgb

        for packed in (False, True):
            name = "gsplat, packed" if packed else "gsplat"
            variant = functools.partial(draw, packed=packed)
            out.append(RasterVariant(name, "gsplat", variant, list(inputs)))
        out.append(
            RasterVariant(
                "gsplat, raw",
                "gsplat",
                lambda sample: gsplat.rasterize(_as_gaussians(raw), sample.camera).rgb,
                leaves,
                ranked=False,
            )
        )
    return out
