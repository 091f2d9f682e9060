"""The rasterizers that a benchmark compares, each as a function of a shot over tensors that are ready."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.backends import Backend, gsplat
from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.rasterize import MAX_ALPHA, rasterize
from luxel.render.renderer import Renderer


class Shot(NamedTuple):
    """One picture of a benchmark."""

    camera: Camera
    time: float | None  # of scenes that move


CAPS: dict[Backend, float] = {"luxel": MAX_ALPHA, "gsplat": gsplat.MAX_ALPHA}
PASSES = ("inference", "forward", "forward + backward")


@dataclass
class Competitor:
    """One way of drawing a scene.

    Args:
        name: what tables call it.
        backend: whose kernels.
        draw: shot -> image [H, W, 3], differentiable by ``leaves``.
        leaves: the tensors that get gradients.
        ranked: whether its time counts as that of its backend.
    """

    name: str
    backend: Backend
    draw: Callable[[Shot], Tensor]
    leaves: list[Tensor]
    ranked: bool = True

    def passes(self, shots: Sequence[Shot], g_image: Tensor) -> dict[str, Callable[[int], object]]:
        """What is timed, by name: call i draws shot i, one after another; ``g_image`` [H, W, 3] is its gradient."""

        def inference(i: int) -> None:
            with torch.no_grad():
                self.draw(shots[i % len(shots)])

        def forward(i: int) -> None:
            self.draw(shots[i % len(shots)])

        def both(i: int) -> None:
            for leaf in self.leaves:
                leaf.grad = None
            self.draw(shots[i % len(shots)]).backward(g_image)

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

    def passes(self, shots: Sequence[Shot], g_image: Tensor) -> dict[str, Callable[[int], object]]:
        """As of any competitor; nothing is recorded for a later backward, so both forward passes are one."""
        drawer = self.drawer
        assert drawer is not None

        def forward(i: int) -> None:
            drawer.draw(*shots[i % len(shots)])

        def both(i: int) -> None:
            camera, time = shots[i % len(shots)]
            drawer.draw_with_gradients(camera, g_image, time)

        return dict(zip(PASSES, (forward, forward, both), strict=True))


def draw_with(backend: Backend, scene: Parameters, shot: Shot, max_alpha: float) -> Tensor:
    """The image of a backend from raw parameters, [H, W, 3]; gsplat has its own cap of alpha."""
    if backend == "luxel":
        return rasterize(scene, shot.camera, time=shot.time, max_alpha=max_alpha).rgb
    return gsplat.rasterize(_as_gaussians(scene), shot.camera).rgb


def _as_gaussians(scene: Parameters) -> Gaussians:
    if not isinstance(scene, Gaussians):
        raise LuxelError(f"gsplat draws no {scene.noun}.", "Leave --against out.")
    return scene


def competitors(backends: Sequence[Backend], scene: Parameters, shots: Sequence[Shot]) -> list[Competitor]:
    """Those of each backend.

    luxel works from raw parameters, called through autograd and as a captured graph, and the better of both counts:
    the peer cannot be captured, since it reads counts back to the host. gsplat gets activated parameters and matrices
    outside of the timed part, packed and unpacked, and the better of both counts; "gsplat, raw" also activates.
    """
    out: list[Competitor] = []
    raw = scene.detach().requires_grad_()
    leaves = list(raw.tensors().values())
    if "luxel" in backends:
        out.append(
            Competitor("luxel", "luxel", lambda shot: rasterize(raw, shot.camera, time=shot.time).rgb, leaves)
        )
        if scene.device.type == "cuda":
            drawer = Renderer(scene)
            out.append(
                Replayed(
                    "luxel, replayed", "luxel", lambda shot: drawer.draw(*shot).rgb, leaves, True, drawer
                )
            )
    if "gsplat" in backends:
        gaussians = _as_gaussians(scene)
        inputs = gsplat.Activated(*(t.detach().clone().requires_grad_() for t in gsplat.activate(gaussians)))
        matrices = {id(shot.camera): gsplat.pinhole_matrices(shot.camera) for shot in shots}

        def draw(shot: Shot, packed: bool) -> Tensor:
            return gsplat.rasterize_activated(
                inputs,
                shot.camera,
                sh_degree=gaussians.sh_degree,
                packed=packed,
                matrices=matrices[id(shot.camera)],
            ).rgb

        for packed in (False, True):
            name = "gsplat, packed" if packed else "gsplat"
            drawn = functools.partial(draw, packed=packed)
            out.append(Competitor(name, "gsplat", drawn, list(inputs)))
        out.append(
            Competitor(
                "gsplat, raw",
                "gsplat",
                lambda shot: gsplat.rasterize(_as_gaussians(raw), shot.camera).rgb,
                leaves,
                ranked=False,
            )
        )
    return out
