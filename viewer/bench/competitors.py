"""The rasterizers that a benchmark compares, each as a function of a camera over tensors that are ready."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from luxel.render.backends import Backend, gsplat
from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import MAX_ALPHA, rasterize
from luxel.render.renderer import Renderer

CAPS: dict[Backend, float] = {"luxel": MAX_ALPHA, "gsplat": gsplat.MAX_ALPHA}
PASSES = ("inference", "forward", "forward + backward")


@dataclass
class Competitor:
    """One way of drawing a scene.

    Args:
        name: what tables call it.
        backend: whose kernels.
        draw: camera -> image [H, W, 3], differentiable by ``leaves``.
        leaves: the tensors that get gradients.
        ranked: whether its time counts as that of its backend.
    """

    name: str
    backend: Backend
    draw: Callable[[Camera], Tensor]
    leaves: list[Tensor]
    ranked: bool = True

    def passes(self, cameras: Sequence[Camera], g_image: Tensor) -> dict[str, Callable[[int], object]]:
        """What is timed, by name: call i draws camera i of a ring; ``g_image`` [H, W, 3] is the loss' gradient."""

        def inference(i: int) -> None:
            with torch.no_grad():
                self.draw(cameras[i % len(cameras)])

        def forward(i: int) -> None:
            self.draw(cameras[i % len(cameras)])

        def both(i: int) -> None:
            for leaf in self.leaves:
                leaf.grad = None
            self.draw(cameras[i % len(cameras)]).backward(g_image)

        return dict(zip(PASSES, (inference, forward, both), strict=True))

    def forget_gradients(self) -> None:
        """Frees the gradients of the leaves."""
        for leaf in self.leaves:
            leaf.grad = None


@dataclass
class Replayed(Competitor):
    """luxel as its trainer and whoever draws one scene for long use it: a captured CUDA graph.

    Args:
        drawer: holds the captured work, with gradients too.
    """

    drawer: Renderer | None = None

    def passes(self, cameras: Sequence[Camera], g_image: Tensor) -> dict[str, Callable[[int], object]]:
        """As of any competitor; nothing is recorded for a later backward, so both forward passes are one."""
        drawer = self.drawer
        assert drawer is not None

        def forward(i: int) -> None:
            drawer.draw(cameras[i % len(cameras)])

        def both(i: int) -> None:
            drawer.draw_with_gradients(cameras[i % len(cameras)], g_image)

        return dict(zip(PASSES, (forward, forward, both), strict=True))


def draw_with(backend: Backend, gaussians: Gaussians, camera: Camera, max_alpha: float) -> Tensor:
    """The image of a backend from raw parameters, [H, W, 3]; gsplat has its own cap of alpha."""
    if backend == "luxel":
        return rasterize(gaussians, camera, max_alpha=max_alpha).rgb
    return gsplat.rasterize(gaussians, camera).rgb


def competitors(
    backends: Sequence[Backend], gaussians: Gaussians, cameras: Sequence[Camera]
) -> list[Competitor]:
    """Those of each backend.

    luxel works from raw parameters, called through autograd and as a captured graph, and the better of both counts:
    the peer cannot be captured, since it reads counts back to the host. gsplat gets activated parameters and matrices
    outside of the timed part, packed and unpacked, and the better of both counts; "gsplat, raw" also activates.
    """
    out: list[Competitor] = []
    raw = gaussians.detach().requires_grad_()
    leaves = list(raw.tensors().values())
    if "luxel" in backends:
        out.append(Competitor("luxel", "luxel", lambda camera: rasterize(raw, camera).rgb, leaves))
        if gaussians.device.type == "cuda":
            drawer = Renderer(gaussians)
            out.append(
                Replayed(
                    "luxel, replayed", "luxel", lambda camera: drawer.draw(camera).rgb, leaves, True, drawer
                )
            )
    if "gsplat" in backends:
        inputs = gsplat.Activated(*(t.detach().clone().requires_grad_() for t in gsplat.activate(gaussians)))
        matrices = {id(camera): gsplat.pinhole_matrices(camera) for camera in cameras}

        def draw(camera: Camera, packed: bool) -> Tensor:
            return gsplat.rasterize_activated(
                inputs,
                camera,
                sh_degree=gaussians.sh_degree,
                packed=packed,
                matrices=matrices[id(camera)],
            ).rgb

        for packed in (False, True):
            name = "gsplat, packed" if packed else "gsplat"
            drawn = functools.partial(draw, packed=packed)
            out.append(Competitor(name, "gsplat", drawn, list(inputs)))
        out.append(
            Competitor(
                "gsplat, raw",
                "gsplat",
                lambda camera: gsplat.rasterize(raw, camera).rgb,
                leaves,
                ranked=False,
            )
        )
    return out
