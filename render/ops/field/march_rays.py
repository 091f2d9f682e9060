"""Stage: samples along rays through the occupied cells of a box (kernels of the same name)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.march_limits import MAX_CASCADES
from luxel.render.ops.registry import aligned, define, register_implementation, require

MAX_RAY_SAMPLES = 16384  # along a ray
COUNTERS = 5
SAMPLES, ASKED, RAYS, LEFT_OUT = range(4)  # positions in the counters

define(
    "march_rays(Tensor? origins, Tensor? directions, Tensor? pixels, Tensor? views, Tensor? world_to_cam, "
    "Tensor? intrinsics, Tensor? occupancy, Tensor? seed, Tensor(a!)? live, int resolution, int capacity, int target, "
    "float[] box, float step, float near, float far, int cascades, bool contracted, float growth)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


class Region(NamedTuple):
    """Where rays are sampled, and how finely.

    Attributes:
        box: low x, y, z, high x, y, z, in the units of the capture.
        step: between samples along a ray, likewise.
        near, far: distances along a ray outside of which it has no samples.
        resolution: G, cells of the occupancy grid along each axis of a box, a multiple of 4, of 16 with cascades.
        cascades: K boxes around the same centre, each twice as large as the one before, with an occupancy grid each
            (Müller et al. 2022, appendix E.2); ``box`` is the innermost.
        contracted: positions in the field are contracted (`to_field`) instead of relative to the outermost box.
        growth: above 0, a step at the distance t is max(step, growth t) long.
    """

    box: tuple[float, ...]
    step: float
    near: float = 0.0
    far: float = math.inf
    resolution: int = 128
    cascades: int = 1
    contracted: bool = False
    growth: float = 0.0

    @staticmethod
    def of_box(
        box: Sequence[float], *, diagonal_samples: int = 1024, near: float = 0.0, resolution: int = 128
    ) -> Region:
        """The region of a box whose diagonal has a given number of steps."""
        return Region(tuple(box), math.dist(box[:3], box[3:]) / diagonal_samples, near, math.inf, resolution)

    @property
    def size(self) -> float:
        """The longest side of the box."""
        return max(high - low for low, high in zip(self.box[:3], self.box[3:], strict=True))

    @property
    def outermost(self) -> float:
        """The sides of the outermost box, of those of ``box``."""
        return float(2 ** (self.cascades - 1))

    def to_field(self, p: Tensor) -> Tensor:
        """Where the field has points, [..., 3] in [0, 1].

        Contracted positions are (2 + c(2 p - 1)) / 4 with c(x) = x where the largest coordinate n of x is at
        most 1, else
        (2 - 1 / n) x / n: Barron et al. 2022, "Mip-NeRF 360", equation 10, in the maximum norm, for which the
        cells of a grid retain their sides.

        Args:
            p: relative to ``box``, which is [0, 1]^3, [..., 3].
        """
        if not self.contracted:
            return ((p - 0.5) / self.outermost + 0.5).clamp(0, 1) if self.cascades > 1 else p.clamp(0, 1)
        x = 2 * p - 1
        reach = x.abs().amax(-1, keepdim=True).clamp_min(1)
        return (0.5 + 0.25 * (2 - 1 / reach) / reach * x).clamp(0, 1)

    def from_field(self, y: Tensor) -> Tensor:
        """The reverse of `to_field` inside of the outermost box."""
        if not self.contracted:
            return (y - 0.5) * self.outermost + 0.5
        c = 4 * y - 2
        reach = c.abs().amax(-1, keepdim=True).clamp_min(1).clamp_max(2 - 1 / (2 * self.outermost))
        return 0.5 + 0.5 * c / (reach * (2 - reach))

    def arguments(self, stage: str) -> dict[str, Any]:
        """As fields of the argument structs.

        Raises:
            ValueError: the box is empty, the step is not above 0, or the resolution is invalid.
        """
        if len(self.box) != 6 or not all(
            low < high for low, high in zip(self.box[:3], self.box[3:], strict=True)
        ):
            raise ValueError(f"{stage}: box must be low x y z, high x y z, got {list(self.box)}")
        if not self.step > 0 or not math.isfinite(self.step):
            raise ValueError(f"{stage}: step must be above 0, got {self.step}")
        if not 4 <= self.resolution <= 1024 or self.resolution % 4:
            raise ValueError(f"{stage}: resolution must be a multiple of 4, 4 to 1024, got {self.resolution}")
        if not 1 <= self.cascades <= MAX_CASCADES or (self.cascades > 1 and self.resolution % 16):
            raise ValueError(
                f"{stage}: cascades must be 1 to {MAX_CASCADES}, with a resolution that is a multiple of 16 above 1, "
                f"got {self.cascades} of {self.resolution}"
            )
        if not 0 <= self.growth < 1:
            raise ValueError(f"{stage}: growth must be at least 0 and below 1, got {self.growth}")
        names = ("low_x", "low_y", "low_z", "high_x", "high_y", "high_z")
        arguments: dict[str, Any] = dict(zip(names, self.box, strict=True))
        return arguments | {
            "step": self.step,
            "near_t": self.near,
            "far_t": self.far,
            "resolution": self.resolution,
            "cascades": self.cascades,
            "contracted": int(self.contracted),
            "growth": self.growth,
        }

    def occupancy_bytes(self) -> int:
        """How many bytes hold a bit of each cell."""
        return self.cascades * self.resolution**3 // 8

    def scalars(self) -> tuple[Any, ...]:
        """What the operations take after the resolution."""
        return list(self.box), self.step, self.near, self.far

    def extension(self) -> tuple[int, bool, float]:
        """What the operations take last: cascades, contracted, growth."""
        return self.cascades, self.contracted, self.growth


def pack_cells(occupied: Tensor) -> Tensor:
    """Which cells are occupied, a bit for each: eight bytes for a block of 4 x 4 x 4 cells, uint8 [G^3 / 8].

    In a block, and among blocks, x runs fastest, then y; the lowest bit comes first.

    Args:
        occupied: bool [G, G, G], indexed [z, y, x], G a multiple of 4.
    """
    along = occupied.shape[0] // 4
    blocks = occupied.view(along, 4, along, 4, along, 4).permute(0, 2, 4, 1, 3, 5)
    powers = 2 ** torch.arange(8, dtype=torch.uint8, device=occupied.device)
    return (blocks.reshape(-1, 8) * powers).sum(-1, dtype=torch.uint8)


def unpack_cells(bits: Tensor) -> Tensor:
    """The reverse of `pack_cells`, bool [G, G, G]."""
    along = round((bits.shape[0] // 8) ** (1 / 3))
    shifts = torch.arange(8, dtype=torch.uint8, device=bits.device)
    blocks = ((bits[:, None] >> shifts) & 1).bool().view(along, along, along, 4, 4, 4)
    return blocks.permute(0, 3, 1, 4, 2, 5).reshape(4 * along, 4 * along, 4 * along)


class Samples(NamedTuple):
    """Samples of rays, and which are whose."""

    positions: Tensor  # in the box as [0, 1]^3, [S, 3]
    directions: Tensor  # of their rays, [S, 3]
    t: Tensor  # along the ray, [S]
    dt: Tensor  # [S]
    ranges: Tensor  # first sample and number of them, int32 [R, 2]
    counters: (
        Tensor  # samples, samples requested, rays that count, rays without capacity, one not used; int64 [5]
    )


def march_rays(
    origins: Tensor,
    directions: Tensor,
    region: Region,
    occupancy: Tensor | None,
    *,
    capacity: int,
    seed: Tensor | None = None,
    live: Tensor | None = None,
    target: int = 0,
) -> Samples:
    """Samples along rays wherever a cell is occupied; nothing waits for the device.

    Müller et al. 2022, "Instant Neural Graphics Primitives", appendix E.1. A ray is cut to the box and to [near, far],
    and has samples at begin + (k + jitter) step, k < 16384, where the cell is occupied; with cascades or growth as
    `Region` says. See
    `luxel.render.reference.field.march_rays.march_rays_reference`. Not differentiable.

    Args:
        origins, directions: rays, the directions of unit length, [R, 3], float32 or (CPU only) float64.
        region: box, step, near and far, and resolution of the occupancy.
        occupancy: a bit per cell as `pack_cells` has them, uint8 [K G^3 / 8], one cascade after another; None: all
            cells.
        capacity: S, capacity for samples. Rays for which there is none left have no samples.
        seed: of the jitter in (0, 1) of each ray, int64 [1]; None: the jitter is 0.5.
        live: number of rays in use, int32 [1]; None: all.
        target: above 0: samples per call to aim for. ``live`` becomes the number of rays that would have had so
            many, changed by at most a factor of 2.

    Returns:
        Samples; those of a ray are adjacent, rays in their order on the CPU and in any on a GPU. Rows beyond the last
        sample are 0.

    Raises:
        ValueError: shapes, types or devices do not fit, or the region is empty.
    """
    rays = origins, directions, None, None, None, None
    rest = region.resolution, capacity, target, *region.scalars(), *region.extension()
    return Samples(*torch.ops.luxel.march_rays(*rays, occupancy, seed, live, *rest))


def march_pixels(
    pixels: Tensor,
    views: Tensor,
    world_to_cam: Tensor,
    intrinsics: Tensor,
    region: Region,
    occupancy: Tensor | None,
    *,
    capacity: int,
    seed: Tensor | None = None,
    live: Tensor | None = None,
    target: int = 0,
) -> Samples:
    """`march_rays` of the rays through the centres of pixels.

    Args:
        pixels: numbers of pixels, counted over the images of all views one after another, row by row, int64 [R]; a
            negative one is no ray.
        views: number of the first pixel and width of each, int64 [V, 2].
        world_to_cam, intrinsics: of the views, [V, 4, 4], [V, 4], float32 or (CPU only) float64.
        region, occupancy, capacity, seed, live, target: as in `march_rays`.
    """
    rays = None, None, pixels, views, world_to_cam, intrinsics
    rest = region.resolution, capacity, target, *region.scalars(), *region.extension()
    return Samples(*torch.ops.luxel.march_rays(*rays, occupancy, seed, live, *rest))


def _check(tensors: Sequence[Tensor | None], region: Region, capacity: int) -> tuple[Tensor, dict[str, Any]]:
    """A tensor of the rays' type, and fields of the argument struct."""
    origins, directions, pixels, views, world_to_cam, intrinsics, occupancy, seed, live = tensors
    given = origins if origins is not None else world_to_cam
    rows = origins if origins is not None else pixels
    if given is None or rows is None or given.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            "march_rays: origins or world_to_cam must be given, with directions or pixels, float32 or float64"
        )
    count, views_count = rows.shape[0], 0 if views is None else views.shape[0]
    if not 0 < capacity < 2**31 - 1 or count >= 2**31:
        raise ValueError(
            f"march_rays: capacity must be 1 to 2^31 - 2 and rays below 2^31, got {capacity} and {count}"
        )
    if origins is None and views_count == 0:
        raise ValueError("march_rays: views must be given with pixels, and at least one, got none")
    arguments = region.arguments("march_rays")
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "origins": (origins, given.dtype, (count, 3)),
        "directions": (directions, given.dtype, (count, 3)),
        "pixels": (pixels, torch.int64, (count,)),
        "views": (views, torch.int64, (views_count, 2)),
        "world_to_cam": (world_to_cam, given.dtype, (views_count, 4, 4)),
        "intrinsics": (intrinsics, given.dtype, (views_count, 4)),
        "occupancy": (
            None if occupancy is None else aligned(occupancy),
            torch.uint8,
            (region.occupancy_bytes(),),
        ),
        "seed": (seed, torch.int64, (1,)),
        "live": (live, torch.int32, (1,)),
    }
    require("march_rays", given.device, expected)
    arguments |= {name: None if t is None else t.contiguous() for name, (t, *_) in expected.items()}
    return given, arguments | {"count": count, "view_count": views_count, "capacity": capacity}


def _run(*inputs: Any) -> tuple[Tensor, ...]:
    *tensors, resolution, capacity, target, box, step, near, far, cascades, contracted, growth = inputs
    region = Region(tuple(box), step, near, far, resolution, cascades, contracted, growth)
    given, arguments = _check(tensors, region, capacity)
    outputs = _fake(*inputs)
    names = ("positions", "sample_directions", "t", "dt", "ranges", "counters")
    arguments |= dict(zip(names, outputs, strict=True))
    library_for(given.device).call("march_rays", given.device, given.dtype, **arguments, target=target)
    return outputs


def _fake(*inputs: Any) -> tuple[Tensor, ...]:
    origins, _, pixels, _, world_to_cam = inputs[:5]
    capacity = inputs[10]
    given, rows = (origins, origins) if origins is not None else (world_to_cam, pixels)
    positions = given.new_empty(capacity, 3)
    return (
        positions,
        torch.empty_like(positions),
        given.new_empty(capacity),
        given.new_empty(capacity),
        given.new_empty(rows.shape[0], 2, dtype=torch.int32),
        given.new_empty(COUNTERS, dtype=torch.int64),
    )


register_implementation("march_rays", _run, _fake)
