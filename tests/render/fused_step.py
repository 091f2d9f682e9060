"""A step of Adam within the projection's backward, its witness of two parts, and the scenes of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from convex_scenes import random_convexes
from gaussians4d_scenes import random_gaussians4d
from surfel_scenes import random_surfels
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.projection import TYPES, Projection, projection_of
from luxel.render.ops.train.adam import adam_schedule, fused_adam_
from luxel.render.ops.train.project_adam import project_adam_
from luxel.render.primitives import PRIMITIVES

NAMES = list(PRIMITIVES)
RATES = (1e-3, 5e-3, 2e-3, 2e-2, 1e-2, 5e-4, 4e-3, 3e-3)  # of the first parameters
SIZE = {"width": 50, "height": 37}
VIEW = {**SIZE, "sh_degree": 3, "near": 0.0625, "far": 64.0, "dilation": 0.3125}
PENALTIES = {
    "gaussians": {"opacity_penalty": 0.125, "scale_penalty": 0.25},
    "gaussians4d": {},
    "convexes": {"mask_penalty": 0.25},
    "surfels": {"opacity_penalty": 0.125, "scale_penalty": 0.25},
}
SWITCHES = ("visible_only", "active_sh_only", "keep_sh_rest", "largest_of_views")


@dataclass
class State:
    """Parameters with their moments."""

    primitive: str
    parameters: list[Tensor]
    exp_avgs: list[Tensor] = field(default_factory=list)
    exp_avg_sqs: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters = [t.detach().clone() for t in self.parameters]
        self.exp_avgs = self.exp_avgs or [torch.zeros_like(t) for t in self.parameters]
        self.exp_avg_sqs = self.exp_avg_sqs or [torch.zeros_like(t) for t in self.parameters]

    @property
    def parts(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        return self.parameters, self.exp_avgs, self.exp_avg_sqs

    @property
    def projection(self) -> Projection:
        return projection_of(self.primitive)

    @property
    def rest(self) -> int:
        """The place of sh_rest."""
        return PRIMITIVES[self.primitive].engine.parameters.names.index("sh_rest")

    @property
    def rates(self) -> tuple[float, ...]:
        return RATES[: len(self.parameters)]

    def copy(self) -> State:
        return State(self.primitive, *([t.clone() for t in part] for part in self.parts))

    def fresh(self) -> State:
        """The same parameters before the first step."""
        return State(self.primitive, self.parameters)

    def tensors(self) -> list[Tensor]:
        return [t for part in self.parts for t in part]

    def options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Those of the projection, in its order; the rest of what is given is not looked at."""
        every = {**dict.fromkeys(TYPES, False), **VIEW, **given}
        return {name: every[name] for name in self.projection.options}


def scene(
    primitive: str,
    random_gaussians,
    toy_camera,
    precision: dict[str, Any],
    count: int = 75,
    cameras: int = 1,
    degree: int = 3,
) -> tuple[State, list[Tensor]]:
    """Primitives of which some are off the image, with moments as after some steps, and what describes cameras."""
    made: Any
    if primitive == "gaussians":
        made = random_gaussians(count, seed=40, spread=1.5, sh_degree=degree, **precision)
    elif primitive == "gaussians4d":
        made = random_gaussians4d(count, 40, sh_degree=degree, **precision)
        made.means *= 1.5
    elif primitive == "surfels":
        made = random_surfels(count, 40, sh_degree=degree).to(precision["dtype"]).to(precision["device"])
        made.means *= 2
    else:
        made = random_convexes(count, 40, sh_degree=degree).to(precision["dtype"]).to(precision["device"])
        made.points += made.points.mean(1, keepdim=True)
    eyes = ({}, {"eye": (2.5, 2, 1)}, {"eye": (0, 3, 1)})
    views = Camera.stack([toy_camera(**SIZE, **eye, dtype=precision["dtype"]) for eye in eyes[:cameras]])
    views = views.to(precision["device"])
    state = State(primitive, list(made.tensors().values()))
    generator = torch.Generator().manual_seed(9)
    for mean, square in zip(state.exp_avgs, state.exp_avg_sqs, strict=True):
        mean += 1e-3 * torch.randn(mean.shape, generator=generator).to(mean)
        square += 1e-4 * torch.rand(square.shape, generator=generator).to(square) + 1e-6
    times = [torch.linspace(0.25, 0.75, cameras).to(**precision)] if primitive == "gaussians4d" else []
    return state, [views.world_to_cam, views.intrinsics, *times]


def project(state: State, cameras: list[Tensor], **options: Any) -> tuple[Tensor, ...]:
    return state.projection((*state.parameters, *cameras), None, **state.options(options))


def gradients_of(splats: Tensor, values: Tensor, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "g_splats": torch.randn(splats.shape, generator=generator).to(splats),
        "g_values": torch.randn(values.shape, generator=generator).to(values),
    }


def projected(state: State, cameras: list[Tensor], seed: int = 1, **options: Any) -> dict[str, Tensor]:
    """What the forward pass leaves for the backward, and random gradients."""
    splats, values, tile_counts, _ = project(state, cameras, **options)
    return {"tile_counts": tile_counts, **gradients_of(splats, values, seed)}


def extras_of(state: State, seed: int, *but: str) -> list[Tensor | None]:
    """Gradients that come from elsewhere, for all parameters but some."""
    generator = torch.Generator().manual_seed(seed)
    named = zip(PRIMITIVES[state.primitive].engine.parameters.names, state.parameters, strict=True)
    return [
        None if name in but else 0.1 * torch.randn(t.shape, generator=generator).to(t) for name, t in named
    ]


def fused(state: State, cameras: list[Tensor], step: int, **more: Any) -> None:
    if "schedule" not in more:
        schedule = torch.tensor(adam_schedule(state.rates, step), dtype=torch.float64)
        more["schedule"] = schedule.to(state.parameters[0])
    rest = {name: value for name, value in more.items() if name not in TYPES}
    project_adam_(state.primitive, *state.parts, cameras, **state.options(more), **rest)


def apart(
    state: State,
    cameras: list[Tensor],
    step: int,
    *,
    tile_counts: Tensor,
    g_splats: Tensor,
    g_values: Tensor,
    statistics: Tensor | None = None,
    visible_only: bool = False,
    extras: list[Tensor | None] | None = None,
    **more: Any,
) -> Tensor:
    """The backward, then Adam; returns the gradient of the cameras."""
    penalties = {name: more.get(name, 0.0) for name in state.projection.penalties}
    outputs = getattr(torch.ops.luxel, f"{state.projection.stage}_bwd")(
        *state.parameters,
        *cameras,
        statistics,
        *state.options(more).values(),
        tile_counts,
        g_splats,
        g_values,
        *(True,) * len(state.projection.moving),
        **penalties,
    )
    grads, g_world_to_cam = list(outputs[: len(state.parameters)]), outputs[len(state.parameters)]
    for grad, extra in zip(grads, extras or [], strict=False):
        if extra is not None:
            grad += extra
    visible = (tile_counts > 0).any(0) if visible_only else None
    parameters, *moments = state.parts
    fused_adam_(parameters, grads, *moments, state.rates, step, visible=visible)
    return g_world_to_cam


def assert_moved_alike(actual: State, expected: State, start: State) -> None:
    """To rounding; on a GPU to 1e-4 of the distance moved, since two kernels may round a small gradient apart."""
    for a, b, before in zip(actual.tensors(), expected.tensors(), start.tensors(), strict=True):
        if not b.numel():
            continue
        of_move, of_size = 1e-6, 1e-7
        if a.is_cuda:
            of_move = 1e-4
        elif a.dtype == torch.float64:
            of_move, of_size = 1e-12, 1e-15
        assert (b - before).norm() > 0
        assert (a - b).norm() <= of_move * (b - before).norm() + of_size * b.norm()
