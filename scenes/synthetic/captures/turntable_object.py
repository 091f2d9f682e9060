"""Objects for a turntable, painted so that their sides look alike, and their rendering before an image of the rest.

Paint is a strip around the vertical axis of each solid, of several equal sides with a few details that are there once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.rays.ray_caster import RayGrid, Triple
from luxel.scenes.synthetic.rays.ray_shapes import (
    BOX,
    CYLINDER,
    ELLIPSOID,
    divisors,
    first_hit,
    half_extents,
    surface,
)

KINDS_OF_OBJECT = ("box", "jar", "toy")
TEXELS = 800  # of a strip, per world unit
LEVELS = 5  # of its mipmap
SHAPES = 26  # drawn on a side, per square world unit and unit of density
AMBIENT, LAMP, SHINE = 0.44, 0.56, 30.0
SHADOW = 0.45  # light that a shadow on the table takes away
LAMP_RADIUS = 0.06  # of directions: shadows on the table are soft
SOFT = 5  # pixels over which they are averaged
LIFT = 2e-3  # of the origins of rays towards the light, world units


@dataclass(frozen=True)
class PaintedSolid:
    """One solid.

    Args:
        shape: BOX, ELLIPSOID or CYLINDER of `ray_shapes`. size: see there. centre: in the frame of the object.
        strip: paint of its sides, by angle and from top to bottom, float32 [H, W, 3] in [0, 1].
        end: colour of top and bottom of boxes and cylinders.
        gloss: height of the highlight, 0..1.
    """

    shape: int
    size: Triple
    centre: Triple
    strip: np.ndarray
    end: Triple
    gloss: float = 0.08

    @property
    def corners(self) -> np.ndarray:
        """Corners of its bounding box, [8, 3]."""
        signs = np.stack(np.meshgrid(*[(-1, 1)] * 3), axis=-1).reshape(8, 3)
        return signs * half_extents(self.shape, self.size) + self.centre


def made_object(kind: str, seed: int = 0) -> tuple[PaintedSolid, ...]:
    """An object on the plane z = 0 around the z axis, about 1 high.

    Args:
        kind: one of KINDS_OF_OBJECT.
        seed: of colours and paint.
    """
    random = np.random.default_rng([seed, 65])
    return {"box": _box, "jar": _jar, "toy": _toy}[kind](random)


def _box(random: np.random.Generator) -> tuple[PaintedSolid, ...]:
    """A package with two pairs of equal sides, or four equal ones, and a knob."""
    half = (0.31, 0.31, 0.42)
    paper, strip = _painted(random, 8 * half[0], 2 * half[2], fold=int(random.choice([2, 4])), density=1.0)
    _, knob = _painted(random, 0.6, 0.2, fold=1, density=1.0)
    return (
        PaintedSolid(BOX, half, (0, 0, half[2]), strip, paper),
        PaintedSolid(ELLIPSOID, (0.1, 0.1, 0.08), (0.1, -0.06, 0.9), knob, paper),
    )


def _jar(random: np.random.Generator) -> tuple[PaintedSolid, ...]:
    """A body of revolution with few decals."""
    clay, body = _painted(random, 2 * math.pi * 0.33, 0.56, fold=int(random.choice([3, 4, 6])), density=0.8)
    _, shoulder = _painted(random, 2 * math.pi * 0.33, 0.4, fold=6, density=0.5, colour=clay)
    lid, rim = _painted(random, 2 * math.pi * 0.2, 0.12, fold=8, density=0.6)
    return (
        PaintedSolid(CYLINDER, (0.33, 0.33, 0.28), (0, 0, 0.28), body, clay, 0.14),
        PaintedSolid(ELLIPSOID, (0.33, 0.33, 0.2), (0, 0, 0.56), shoulder, clay, 0.14),
        PaintedSolid(CYLINDER, (0.2, 0.2, 0.06), (0, 0, 0.8), rim, lid, 0.05),
    )


def _toy(random: np.random.Generator) -> tuple[PaintedSolid, ...]:
    """A figure on a pedestal, its back much like its front."""
    wood, base = _painted(random, 8 * 0.3, 0.2, fold=4, density=0.8)
    fur, body = _painted(random, 2 * math.pi * 0.25, 0.56, fold=2, density=0.9)
    _, head = _painted(random, 2 * math.pi * 0.19, 0.36, fold=2, density=0.7, colour=fur)
    _, arm = _painted(random, 2 * math.pi * 0.09, 0.28, fold=2, density=0.5, colour=fur)
    return (
        PaintedSolid(BOX, (0.3, 0.3, 0.1), (0, 0, 0.1), base, wood),
        PaintedSolid(ELLIPSOID, (0.25, 0.22, 0.28), (0, 0, 0.46), body, fur, 0.03),
        PaintedSolid(ELLIPSOID, (0.19, 0.18, 0.18), (0, -0.02, 0.85), head, fur, 0.03),
        PaintedSolid(ELLIPSOID, (0.08, 0.1, 0.16), (0.27, -0.06, 0.5), arm, fur, 0.03),
        PaintedSolid(ELLIPSOID, (0.08, 0.1, 0.16), (-0.27, -0.03, 0.52), arm, fur, 0.03),
    )


def _painted(
    random: np.random.Generator,
    around: float,
    high: float,
    *,
    fold: int,
    density: float,
    colour: Triple | None = None,
) -> tuple[Triple, np.ndarray]:
    """The ground colour, and a strip of equal sides with details that are there once.

    Args:
        around, high: its extents, world units.
        fold: number of equal sides.
        density: of what is drawn.
        colour: of the ground; None: by chance.
    """
    ground = colour or tuple(random.uniform(0.35, 0.85, 3).tolist())
    rows, columns = max(8, round(high * TEXELS)), max(8, round(around / fold * TEXELS))
    side = np.full((rows, columns, 3), np.array(ground) * 255, np.float32)
    count = max(2, round(SHAPES * density * high * around / fold * 4))
    side = np.ascontiguousarray(side.clip(0, 255).astype(np.uint8))
    for _ in range(count):
        _draw(random, side, 0.05 * high * TEXELS, 0.2 * high * TEXELS)
    strip = np.tile(side, (1, fold, 1))
    for _ in range(max(2, round(density * high * around * 14))):
        _draw(random, strip, 0.05 * high * TEXELS, 0.16 * high * TEXELS)
    grain = cv2.GaussianBlur(random.standard_normal(strip.shape[:2]).astype(np.float32), (0, 0), 2.5)
    rough = 1 + 0.02 * grain[..., None] / max(float(grain.std()), 1e-6)
    return ground, (strip.astype(np.float32) / 255 * rough).clip(0, 1).astype(np.float32)


def _draw(random: np.random.Generator, image: np.ndarray, least: float, most: float) -> None:
    """Draws a disc, a polygon, a stroke or a letter of a random colour, in place."""
    rows, columns = image.shape[:2]
    centre = np.array([random.uniform(0, columns), random.uniform(0, rows)])
    size = random.uniform(least, most)
    colour = random.uniform(20, 235, 3).tolist()
    what = int(random.integers(4))
    if what == 0:
        axes = (max(1, int(size * 0.5)), max(1, int(size * random.uniform(0.15, 0.5))))
        cv2.ellipse(
            image, centre.astype(int).tolist(), axes, random.uniform(0, 180), 0, 360, colour, -1, cv2.LINE_AA
        )
    elif what == 1:
        angles = np.sort(random.uniform(0, 2 * math.pi, int(random.integers(3, 7))))
        spokes = size * random.uniform(0.35, 0.7, len(angles))
        corners = centre + spokes[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        cv2.fillPoly(image, [corners.astype(np.int32)], colour, cv2.LINE_AA)
    elif what == 2:
        ends = centre + size * random.uniform(-0.7, 0.7, (2, 2))
        thick = max(2, int(0.12 * size))
        cv2.line(
            image, ends[0].astype(int).tolist(), ends[1].astype(int).tolist(), colour, thick, cv2.LINE_AA
        )
    else:
        letter = chr(int(random.integers(ord("A"), ord("Z") + 1)))
        at = (centre - [0.4 * size, -0.4 * size]).astype(int).tolist()
        cv2.putText(
            image,
            letter,
            at,
            cv2.FONT_HERSHEY_DUPLEX,
            size / 24,
            colour,
            max(2, int(0.1 * size)),
            cv2.LINE_AA,
        )


class ObjectRenderer:
    """Casts rays at an object.

    Args:
        solids: of the object.
    """

    def __init__(self, solids: Sequence[PaintedSolid]) -> None:
        self.solids = solids
        self._paint = [_mipmap(solid.strip) for solid in solids]

    def render(
        self, camera: Camera, to_light: Tensor, surroundings: Tensor, *, samples: int = 2
    ) -> tuple[Tensor, Tensor]:
        """The object before an image of everything else, with its shadow on the plane z = 0.

        Args:
            camera: in the frame of the object.
            to_light: unit vector in that frame, [3].
            surroundings: image without the object, [H, W, 3].
            samples: square root of the rays per pixel.

        Returns:
            Colours [H, W, 3] and coverage by the object [H, W].
        """
        out, alpha = surroundings.clone(), torch.zeros(camera.height, camera.width)
        self._darken(out, camera, to_light)
        corners = np.concatenate([solid.corners for solid in self.solids])
        window = RayGrid.of_camera(camera, 1).window(corners)
        if window is None:
            return out, alpha
        eye, direction, spread = _rays(camera, window, samples)
        t, index = self._first(eye, direction)
        colour = torch.zeros_like(direction)
        for number in range(len(self.solids)):
            hit = index == number
            if hit.any():
                points = eye.view(3, 1) + t[hit] * direction[:, hit]
                colour[:, hit] = self._shade(number, points, direction[:, hit], t[hit], spread, to_light)
        high, wide = (piece.stop - piece.start for piece in window)
        covered = (index >= 0).float().view(high, samples, wide, samples).mean((1, 3))
        mean = colour.view(3, high, samples, wide, samples).mean((2, 4)).permute(1, 2, 0)
        alpha[window] = covered
        out[window] = mean + (1 - covered[..., None]) * out[window]
        return out, alpha

    def _first(self, eye: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Ray parameter of the first hit, inf: none, and the index of its solid, -1: none, [R] each."""
        t = torch.full_like(direction[0], math.inf)
        index = torch.full(t.shape, -1, dtype=torch.int64)
        for number, solid in enumerate(self.solids):
            own = _hit(solid, eye.view(3, -1), direction)
            index.masked_fill_(own < t, number)
            t = torch.minimum(t, own)
        return t, index

    def _shade(
        self, number: int, points: Tensor, direction: Tensor, t: Tensor, spread: float, to_light: Tensor
    ) -> Tensor:
        """Colours of points of a solid, [3, R]."""
        solid = self.solids[number]
        local = points - points.new_tensor(solid.centre)[:, None]
        size = points.new_tensor(solid.size)[:, None].expand_as(local)
        shape = torch.full(local.shape[1:], solid.shape)
        normal, _, _ = surface(shape, size, local)
        length = direction.norm(dim=0)
        to_eye = -direction / length
        slant = (normal * to_eye).sum(0).abs().clamp_min(0.1)
        footprint = t * length * spread * TEXELS / slant.sqrt()
        albedo = self._albedo(number, local, normal, footprint)
        toward = to_light[:, None]
        facing = (normal * toward).sum(0).clamp_min(0)
        lit = self._reached(points + LIFT * normal, to_light)
        halfway = F.normalize(to_eye + toward, dim=0)
        shine = solid.gloss * (halfway * normal).sum(0).clamp_min(0) ** SHINE * (facing > 0)
        level = AMBIENT + 0.12 * normal[2] + LAMP * facing * lit
        return (albedo * level + shine * lit).clamp(0, 1)

    def _albedo(self, number: int, local: Tensor, normal: Tensor, footprint: Tensor) -> Tensor:
        """Paint at points in the frame of their solid, [3, R]."""
        solid = self.solids[number]
        x, y, z = local
        if solid.shape == BOX:
            across = torch.where(
                normal[0].abs() > 0.5, normal[0] * y / solid.size[1], -normal[1] * x / solid.size[0]
            )
            side = torch.where(normal[0].abs() > 0.5, 1 - normal[0], 2 - normal[1])
            turn = (side + 0.5 + 0.5 * across) / 4
        else:
            turn = torch.atan2(y / solid.size[1], x / solid.size[0]) / (2 * math.pi) + 0.5
        down = 0.5 - 0.5 * z / solid.size[2]
        level = torch.log2(footprint.clamp_min(1)).clamp(0, LEVELS - 1) / (LEVELS - 1)
        grid = torch.stack([2 * turn - 1, 2 * down - 1, 2 * level - 1], dim=-1)[None, None, None]
        paint = F.grid_sample(self._paint[number], grid, padding_mode="border", align_corners=False)[
            0, :, 0, 0
        ]
        if solid.shape == ELLIPSOID:
            return paint
        end = local.new_tensor(solid.end)[:, None]
        return torch.where(normal[2].abs() > 0.5, end, paint)

    def _reached(self, points: Tensor, to_light: Tensor) -> Tensor:
        """1 where nothing is between points [3, R] and the light, else 0, [R]."""
        direction = to_light[:, None].expand_as(points)
        blocked = torch.zeros_like(points[0], dtype=torch.bool)
        for solid in self.solids:
            blocked |= torch.isfinite(_hit(solid, points, direction))
        return (~blocked).float()

    def _darken(self, image: Tensor, camera: Camera, to_light: Tensor) -> None:
        """The shadow on the plane z = 0, in place."""
        corners = np.concatenate([solid.corners for solid in self.solids])
        light = to_light.double().numpy()
        fallen = corners - corners[:, 2:] / light[2] * light
        window = RayGrid.of_camera(camera, 1).window(np.concatenate([corners * (1, 1, 0), fallen]))
        if window is None:
            return
        eye, direction, _ = _rays(camera, window, 1)
        t = -eye[2] / direction[2]
        below = (t > 0).nonzero()[:, 0]
        points = eye[:, None] + t[below] * direction[:, below]
        points[2] = LIFT
        offsets = LAMP_RADIUS * torch.tensor(
            [[0.5, 0.5], [-0.5, 0.5], [0.5, -0.5], [-0.5, -0.5], [1, 0], [-1, 0]]
        )
        lit = torch.zeros_like(points[0])
        for x, y in offsets:
            lit += self._reached(points, F.normalize(to_light + torch.stack([x, y, x * 0]), dim=0)) / len(
                offsets
            )
        level = torch.ones_like(t)
        level[below] = 1 - SHADOW * (1 - lit)
        soft = cv2.blur(level.view(image[window].shape[:2]).numpy(), (SOFT, SOFT))
        image[window] *= torch.from_numpy(soft)[..., None]


def _mipmap(strip: np.ndarray) -> Tensor:
    """A strip at LEVELS resolutions, all at the size of the finest, [1, 3, LEVELS, H, W]."""
    rows, columns = strip.shape[:2]
    levels = [strip]
    for level in range(1, LEVELS):
        small = cv2.resize(
            strip, (max(1, columns >> level), max(1, rows >> level)), interpolation=cv2.INTER_AREA
        )
        levels.append(cv2.resize(small, (columns, rows), interpolation=cv2.INTER_LINEAR))
    return torch.from_numpy(np.stack(levels)).permute(3, 0, 1, 2)[None].contiguous()


def _rays(camera: Camera, window: tuple[slice, slice], samples: int) -> tuple[Tensor, Tensor, float]:
    """Origin [3] and directions [3, R] of the rays of a window of pixels, row by row, and their distance at depth 1."""
    rays = RayGrid.of_camera(camera, samples)
    rows, columns = (slice(piece.start * samples, piece.stop * samples) for piece in window)
    x, y = np.meshgrid(rays.x[columns], rays.y[rows])
    direction = rays.direction @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    spread = float(rays.x[1] - rays.x[0])
    return torch.from_numpy(rays.origin[:, 2]).float(), torch.from_numpy(direction).float(), spread


def _hit(solid: PaintedSolid, origin: Tensor, direction: Tensor) -> Tensor:
    """The least ray parameter at which rays meet a solid, inf: none, [R]."""
    scale = origin.new_tensor(divisors(solid.shape, solid.size))[:, None]
    return first_hit(
        solid.shape,
        solid.size,
        (origin - origin.new_tensor(solid.centre)[:, None]) / scale,
        direction / scale,
    )
