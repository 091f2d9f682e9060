"""A synthetic landscape of Gaussians with the structure of a trained scene, for benchmarks that need no download."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import SH_C0, Gaussians

SEED = 42
GROUND = 12.0  # radius of the ground, world units; z points up
SHARES = {"ground": 0.45, "boulders": 0.3, "columns": 0.1, "tufts": 0.1, "backdrop": 0.05}
# Trained scenes hold many small Gaussians and a few large ones: sizes are Pareto distributed, cut off at the far end.
EXPONENT, LARGEST = 2.2, 12.0


def terrain(count: int, seed: int = SEED) -> Gaussians:
    """``count`` Gaussians of a landscape, SH degree 3, on the CPU.

    Each surface gets a share of the Gaussians, flat and turned to its normal, of a median size that covers it about
    once; so the work per pixel stays nearly the same while the count grows, as it does when a scene is densified.

    Args:
        count: N, at least 100.
        seed: of all random numbers; the same ones on every machine, but for rounding.
    """
    draw = _Draw(seed)
    counts = {name: int(share * count) for name, share in SHARES.items()}
    counts["ground"] += count - sum(counts.values())
    parts = [
        _ground(draw, counts["ground"]),
        _boulders(draw, counts["boulders"]),
        _columns(draw, counts["columns"]),
        _tufts(draw, counts["tufts"]),
        _backdrop(draw, counts["backdrop"]),
    ]
    gaussians = parts[0]
    for part in parts[1:]:
        gaussians = Gaussians.cat(gaussians, part)
    # As training leaves them: not in the order of the surfaces.
    return gaussians.select(torch.randperm(count, generator=draw.generator))


def terrain_cameras(count: int, width: int, height: int) -> list[Camera]:
    """Cameras on a ring inside of the landscape that look across its middle."""
    cameras = []
    for k in range(count):
        angle = 2 * math.pi * k / count
        eye = (6.5 * math.cos(angle), 6.5 * math.sin(angle), 2.6)
        cameras.append(
            Camera.look_at(eye, (0.0, 0.0, 0.6), fov_y=math.radians(50), width=width, height=height)
        )
    return cameras


class _Draw:
    """Random numbers in one fixed order."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def directions(self, n: int) -> Tensor:
        return torch.nn.functional.normalize(self.normal(n, 3), dim=-1)


def _height(x: Tensor, y: Tensor) -> Tensor:
    """Hills that flatten towards the middle."""
    hills = 0.5 * (0.7 * x).sin() * (0.6 * y + 1).cos() + 0.15 * (2.1 * x + 0.8).sin() * (1.7 * y).sin()
    return hills * (torch.hypot(x, y) / GROUND).clamp(0.15, 1)


def _ground(draw: _Draw, n: int) -> Gaussians:
    # The square of the radius has an exponent under 1: denser in the middle, where images overlap.
    radius, angle = GROUND * draw.uniform(n) ** 0.7, 2 * math.pi * draw.uniform(n)
    x, y = radius * angle.cos(), radius * angle.sin()
    step = 1e-2
    slope = [(_height(x + dx, y + dy) - _height(x, y)) / step for dx, dy in ((step, 0), (0, step))]
    normals = torch.nn.functional.normalize(torch.stack([-slope[0], -slope[1], torch.ones(n)], -1), dim=-1)
    positions = torch.stack([x, y, _height(x, y)], -1)
    size = math.sqrt(math.pi * GROUND**2 / max(n, 1)) * (0.35 + 0.65 * radius / GROUND)
    return _surface(draw, positions, normals, size, (0.42, 0.38, 0.25), (0.25, 0.45, 0.2))


def _boulders(draw: _Draw, n: int) -> Gaussians:
    which = torch.arange(n) % 40
    where, radius = _spots(draw, 40), 0.15 + 0.6 * draw.uniform(40) ** 3
    normals = draw.directions(n)
    bumps = 1 + 0.12 * (5 * normals[:, 0] + which).sin() * (4 * normals[:, 1]).cos()
    positions = where[which] + (radius[which] * bumps)[:, None] * normals
    size = radius[which] * math.sqrt(4 * math.pi * 40 / max(n, 1))
    return _surface(draw, positions, normals, size, (0.55, 0.52, 0.5), (0.3, 0.24, 0.2))


def _columns(draw: _Draw, n: int) -> Gaussians:
    which = torch.arange(n) % 12
    where, tall = _spots(draw, 12), 1.0 + 1.5 * draw.uniform(12)
    angle, up = 2 * math.pi * draw.uniform(n), draw.uniform(n)
    normals = torch.stack([angle.cos(), angle.sin(), torch.zeros(n)], -1)
    positions = where[which] + 0.22 * normals
    positions[:, 2] += tall[which] * up
    size = torch.full((n,), math.sqrt(2 * math.pi * 0.22 * 1.75 * 12 / max(n, 1)))
    return _surface(draw, positions, normals, size, (0.75, 0.7, 0.6), (0.45, 0.2, 0.15))


def _tufts(draw: _Draw, n: int) -> Gaussians:
    """Thin upright Gaussians, half transparent, in clumps."""
    spots = _spots(draw, 300)
    positions = spots[torch.arange(n) % 300] + torch.tensor([0.12, 0.12, 0.0]) * draw.normal(n, 3)
    positions[:, 2] += 0.25 * draw.uniform(n)
    tuft = _surface(
        draw,
        positions,
        draw.directions(n),
        torch.full((n,), 0.06 * (2e4 / max(n, 2e4)) ** 0.5),
        (0.2, 0.5, 0.15),
        (0.5, 0.55, 0.2),
    )
    tuft.log_scales += torch.tensor([-1.0, 1.0, 0.0])
    tuft.opacity_logits -= 2.0
    return tuft


def _backdrop(draw: _Draw, n: int) -> Gaussians:
    """Large Gaussians on a distant half sphere, instead of the sky."""
    outward = draw.directions(n)
    outward[:, 2] = outward[:, 2].abs() - 0.08
    distance = 30 + 20 * draw.uniform(n)
    size = distance * math.sqrt(2 * math.pi / max(n, 1))
    return _surface(draw, distance[:, None] * outward, -outward, size, (0.55, 0.65, 0.8), (0.85, 0.85, 0.8))


def _spots(draw: _Draw, n: int) -> Tensor:
    """Places on the ground, [n, 3]."""
    radius, angle = 0.8 * GROUND * draw.uniform(n).sqrt(), 2 * math.pi * draw.uniform(n)
    x, y = radius * angle.cos(), radius * angle.sin()
    return torch.stack([x, y, _height(x, y)], -1)


def _surface(
    draw: _Draw,
    positions: Tensor,
    normals: Tensor,
    size: Tensor,
    light: tuple[float, float, float],
    dark: tuple[float, float, float],
) -> Gaussians:
    """Flat Gaussians at ``positions`` [n, 3] across ``normals`` [n, 3], of power-law sizes around ``size`` [n]."""
    n = positions.shape[0]
    pareto = draw.uniform(n).clamp_min(1e-6) ** (-1 / EXPONENT)
    spread = size * 0.5 * pareto.clamp_max(LARGEST)
    scales = spread[:, None] * (0.35 * draw.normal(n, 3)).exp() * torch.tensor([1.0, 1.0, 0.12])
    spin = math.pi * draw.uniform(n)
    turn = torch.stack(
        [1 + normals[:, 2], -normals[:, 1], normals[:, 0], torch.zeros(n)], -1
    )  # z to the normal
    a, b, c, d = turn.unbind(-1)
    cos, sin = spin.cos(), spin.sin()
    quats = torch.stack([a * cos - d * sin, b * cos + c * sin, c * cos - b * sin, d * cos + a * sin], -1)
    x, y, z = positions.unbind(-1)
    pattern = (
        0.5 + 0.25 * (9 * x + 3 * (2 * y).sin()).sin() + 0.25 * (11 * y + 7 * z + 2 * (3 * x).cos()).sin()
    )
    base = torch.lerp(torch.tensor(dark), torch.tensor(light), pattern[:, None])
    colour = (base + 0.06 * draw.normal(n, 3)).clamp(0.02, 0.98)
    solid = draw.uniform(n) < 0.6  # most of a trained scene is either nearly opaque or faint
    logits = torch.where(solid, 3.0 + draw.normal(n), -1.5 + 1.2 * draw.normal(n))
    return Gaussians(
        means=positions,
        quats=torch.nn.functional.normalize(quats + 1e-6 * draw.normal(n, 4), dim=-1),
        log_scales=scales.clamp_min(1e-5).log(),
        opacity_logits=logits,
        sh_dc=(colour - 0.5) / SH_C0,
        sh_rest=0.05 * draw.normal(n, 15, 3),
    )
