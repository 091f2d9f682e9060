"""A step of Adam within the projection's backward, its witness of two parts, and the scenes of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.ops.adam import adam_schedule, fused_adam_
from luxel.render.ops.project_gaussians import project_gaussians
from luxel.render.ops.project_gaussians_adam import project_gaussians_adam_

RATES = (1e-3, 5e-3, 2e-3, 2e-2, 1e-2, 5e-4)
SIZE = {"width": 50, "height": 37}
VIEW = {**SIZE, "sh_degree": 3, "near": 0.0625, "far": 64.0, "dilation": 0.3125}
PENALTIES = {"opacity_penalty": 0.125, "scale_penalty": 0.25}


@dataclass
class State:
    """Parameters with their moments."""

    parameters: list[Tensor]
    exp_avgs: list[Tensor] = field(default_factory=list)
    exp_avg_sqs: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters = [t.detach().clone() for t in self.parameters]
        self.exp_avgs = self.exp_avgs or [torch.zeros_like(t) for t in self.parameters]
        self.exp_avg_sqs = self.exp_avg_sqs or [torch.zeros_like(t) for t in self.parameters]

    def copy(self) -> State:
        return State(*([t.clone() for t in part] for part in vars(self).values()))

    def tensors(self) -> list[Tensor]:
        return [*self.parameters, *self.exp_avgs, *self.exp_avg_sqs]


def scene(
    random_gaussians,
    toy_camera,
    precision: dict[str, Any],
    count: int = 75,
    cameras: int = 1,
    degree: int = 3,
) -> tuple[State, Camera]:
    """Gaussians of which some are off the image, with moments as after some steps, and cameras."""
    gaussians = random_gaussians(count, seed=40, spread=1.5, sh_degree=degree, **precision)
    eyes = ({}, {"eye": (2.5, 2, 1)}, {"eye": (0, 3, 1)})
    views = [toy_camera(**SIZE, **eye, dtype=precision["dtype"]) for eye in eyes[:cameras]]
    state = State(list(gaussians.tensors().values()))
    generator = torch.Generator().manual_seed(9)
    for mean, square in zip(state.exp_avgs, state.exp_avg_sqs, strict=True):
        mean += 1e-3 * torch.randn(mean.shape, generator=generator).to(mean)
        square += 1e-4 * torch.rand(square.shape, generator=generator).to(square) + 1e-6
    return state, Camera.stack(views).to(precision["device"])


def project(state: State, camera: Camera, **options: Any) -> tuple[Tensor, ...]:
    return project_gaussians(
        tuple(state.parameters),  # pyright: ignore[reportArgumentType]
        camera.world_to_cam,
        camera.intrinsics,
        **{**VIEW, **options},
    )


def gradients_of(splats: Tensor, values: Tensor, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "g_splats": torch.randn(splats.shape, generator=generator).to(splats),
        "g_values": torch.randn(values.shape, generator=generator).to(values),
    }


def fused(state: State, camera: Camera, step: int, **more: Any) -> None:
    if "schedule" not in more:
        more["schedule"] = torch.tensor(adam_schedule(RATES, step), dtype=torch.float64).to(
            state.parameters[0]
        )
    project_gaussians_adam_(
        tuple(state.parameters),  # pyright: ignore[reportArgumentType]
        state.exp_avgs,
        state.exp_avg_sqs,
        camera.world_to_cam,
        camera.intrinsics,
        **{**VIEW, **more},
    )


def apart(
    state: State,
    camera: Camera,
    step: int,
    tile_counts: Tensor,
    g_splats: Tensor,
    g_values: Tensor,
    **more: Any,
) -> Tensor:
    """The backward, then Adam; returns the gradient of the cameras."""
    options = {**VIEW, "antialiased": False, "with_depth": False, "with_normals": False, **more}
    statistics, visible_only = options.pop("statistics", None), options.pop("visible_only", False)
    penalties = {name: options.pop(name, 0.0) for name in PENALTIES}
    *grads, g_world_to_cam = torch.ops.luxel.project_gaussians_bwd(
        *state.parameters,
        camera.world_to_cam,
        camera.intrinsics,
        statistics,
        *options.values(),
        tile_counts,
        g_splats,
        g_values,
        True,
        **penalties,
    )
    visible = (tile_counts > 0).any(0) if visible_only else None
    fused_adam_(state.parameters, grads, state.exp_avgs, state.exp_avg_sqs, RATES, step, visible=visible)
    return g_world_to_cam


def assert_moved_alike(found: State, wanted: State, start: State) -> None:
    """To rounding; on a GPU to 1e-4 of the distance moved, since two kernels may round a small gradient apart."""
    for a, b, before in zip(found.tensors(), wanted.tensors(), start.tensors(), strict=True):
        if a.is_cuda:
            assert (a - b).norm() <= 1e-4 * (b - before).norm() + 1e-7 * b.norm()
        else:
            tolerance = 1e-12 if a.dtype == torch.float64 else 1e-6
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
