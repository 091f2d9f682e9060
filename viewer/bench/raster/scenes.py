"""The scenes that the rasterizer is timed on: synthetic with a fixed seed, published, and from files.

terrain-N   Synthetic, needs no files, the same numbers on every machine: hills, boulders and columns covered by flat
            Gaussians of power-law sizes with a texture, tufts of thin ones between them, a far backdrop of large ones.
            Seen from a ring of cameras inside. Of other primitives too: one for each Gaussian.
garden-gG   The profiling scene of gsplat: 138,766 coloured points of a garden, cropped to +-2 around the origin and
            tiled G x G over the ground, so that G sets the count (g1 0.11 M, g5 2.79 M, g9 9.05 M). Scales uniform in
            [0, 0.02], rotations random, opacities uniform in [0, 1]; the first of its cameras.
bonsai      A trained room of 1.16 M Gaussians, viewed from a ring around its median point.
The last two come from a data folder (garden-points.npz, bonsai-7k.splat), get random spherical-harmonics coefficients
of degree 1-3 with a standard deviation of 0.05, and have goals in milliseconds on an NVIDIA H200.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from luxel.render.bounds import SIDE
from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters, spec_of
from luxel.render.primitives.gaussians import SH_C0, Gaussians
from luxel.scenes.files.scene_files import require_gaussians
from luxel.scenes.loading.scene_files import load_any_scene
from luxel.viewer.bench.raster.terrain import terrain, terrain_cameras

SH_STD = 0.05
RING_VIEWS = 8
Size = tuple[int, int]  # width, height in pixels
GARDEN, BONSAI = "garden-points.npz", "bonsai-7k.splat"


@dataclass(frozen=True)
class Scene:
    """One scene of the benchmark.

    Args:
        name: in tables and for `--only`.
        build: makes its primitives on a device; the same numbers every time on one kind of device.
        look: returns the cameras for primitives, width and height, on the CPU.
        sizes: its own image sizes; empty: the default ones.
        goals: milliseconds to reach on an NVIDIA H200, forward and forward + backward, by size.
        file: from which it is built; None: it is synthetic, or loaded already.
    """

    name: str
    build: Callable[[torch.device], Parameters]
    look: Callable[[Parameters, int, int], list[Camera]]
    sizes: tuple[Size, ...] = ()
    goals: dict[Size, tuple[float, float]] = field(default_factory=dict)
    file: Path | None = None


def parse_size(text: str, option: str = "--sizes") -> Size:
    """Parses an image size, WIDTHxHEIGHT, given by an option.

    Raises:
        LuxelError: invalid image size.
        OutOfBounds: a side is too short or too long.
    """
    match = re.fullmatch(r"(-?\d{1,30})x(-?\d{1,30})", text)
    if match is None:
        raise LuxelError(
            f"{option} {text[:60]}: invalid image size.", "Give WIDTHxHEIGHT, such as 1920x1080."
        )
    width, height = int(match[1]), int(match[2])
    for side, value in (("width", width), ("height", height)):
        SIDE.require(f"{option} {text}: {side}", value, whole=True)
    return width, height


def terrain_scene(count: int, primitive: str = "gaussians") -> Scene:
    """The synthetic scene of ``count`` primitives."""
    return Scene(
        f"terrain-{_short(count)}",
        lambda device: spec_of(primitive).engine.from_gaussians(terrain(count)).to(device),
        lambda _, width, height: terrain_cameras(RING_VIEWS, width, height),
    )


def file_scene(path: Path) -> Scene:
    """A scene file or run folder, viewed from a ring of cameras around its median point.

    Raises:
        LuxelError: it does not exist or cannot be read.
    """
    scene = load_any_scene(path)  # now, so that a wrong path ends the command before anything is measured
    if scene.count == 0:
        raise LuxelError(f"{path}: the scene holds no {scene.noun}.", "Give another scene.")
    return Scene(path.resolve().stem, scene.to, ring)


def data_scenes(folder: Path) -> list[Scene]:
    """The published scenes, with their goals; `chosen` checks that the folder has their files."""
    full, four_k = (1920, 1080), (3840, 2160)
    goals = {
        1: {full: (0.35, 1.0)},
        5: {full: (0.6, 2.1), four_k: (1.1, 4.2)},
        9: {full: (1.1, 3.6)},
    }

    def garden_scene(grid: int) -> Scene:
        def build(device: torch.device) -> Gaussians:
            return garden(folder / GARDEN, grid, torch.Generator(device).manual_seed(42))

        def look(_: Parameters, width: int, height: int) -> list[Camera]:
            return [garden_camera(folder / GARDEN).resized(width, height)]

        return Scene(f"garden-g{grid}", build, look, tuple(goals[grid]), goals[grid], folder / GARDEN)

    room = Scene(
        "bonsai",
        lambda device: bonsai(folder / BONSAI, torch.Generator(device).manual_seed(42)),
        ring,
        (full,),
        {full: (0.8, 2.7)},
        folder / BONSAI,
    )
    return [room, *(garden_scene(grid) for grid in goals)]


def chosen(scenes: Sequence[Scene], names: Sequence[str]) -> list[Scene]:
    """The scenes of these names (or name beginnings, "garden"), in their own order; all without names.

    Raises:
        LuxelError: a name that no scene has, or a scene whose file is not there.
    """
    for name in names:
        if not any(_is_named(scene, name) for scene in scenes):
            raise LuxelError(
                f"There is no scene {name!r} to measure.",
                f"Known here: {', '.join(scene.name for scene in scenes)}. The published ones need --data.",
            )
    selected = [scene for scene in scenes if not names or any(_is_named(scene, name) for name in names)]
    for scene in selected:
        if scene.file is not None and not scene.file.is_file():
            raise LuxelError(
                f"{scene.file}: there is no such file.",
                f"Give a folder that holds {GARDEN} and {BONSAI}, name other scenes, or leave --data out.",
            )
    return selected


def _is_named(scene: Scene, name: str) -> bool:
    return scene.name == name or scene.name.startswith(f"{name}-")


def _short(count: int) -> str:
    """1000000 as 1M, 100000 as 100k."""
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if count >= unit:
            return f"{count / unit:g}{letter}"
    return str(count)


def ring(scene: Parameters, width: int, height: int) -> list[Camera]:
    """``RING_VIEWS`` cameras around the median point at 1.5 times the median distance to it; y points down.

    The focal length is 1100 pixels at a width of 1920.
    """
    centre = scene.centres.median(dim=0).values
    radius = 1.5 * (scene.centres - centre).norm(dim=-1).median().item() or 1.0
    middle = centre.tolist()
    focal = 1100.0 * width / 1920
    fov_y = 2 * math.atan(0.5 * height / focal)
    cameras = []
    for k in range(RING_VIEWS):
        angle = 2 * math.pi * (k + 1) / RING_VIEWS
        eye = [middle[0] + radius * math.cos(angle), middle[1], middle[2] + radius * math.sin(angle)]
        cameras.append(Camera.look_at(eye, middle, (0.0, -1.0, 0.0), fov_y=fov_y, width=width, height=height))
    return cameras


def garden(path: Path, grid: int, generator: torch.Generator) -> Gaussians:
    """The tiled garden with ``grid`` (odd) copies along both ground axes."""
    device = generator.device
    with np.load(path) as file:
        arrays = {name: file[name] for name in ("means3d", "colors")}
    points = torch.from_numpy(arrays["means3d"]).float().to(device)
    inside = (points.abs() <= 2).all(dim=-1)
    points = points[inside]
    rgb = torch.from_numpy(arrays["colors"]).to(device)[inside].float() / 255
    steps = 4.0 * torch.arange(-(grid // 2), grid // 2 + 1, device=device)
    offsets = torch.cartesian_prod(steps, steps, torch.zeros(1, device=device))
    means = (points[None] + offsets[:, None]).reshape(-1, 3)
    n = means.shape[0]

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    return Gaussians(
        means=means,
        quats=torch.nn.functional.normalize(torch.randn(n, 4, generator=generator, device=device), dim=-1),
        log_scales=(0.02 * uniform(n, 3)).clamp_min(1e-8).log(),
        opacity_logits=uniform(n).logit(eps=1e-6),
        sh_dc=((rgb - 0.5) / SH_C0).repeat(offsets.shape[0], 1),
        sh_rest=SH_STD * torch.randn(n, 15, 3, generator=generator, device=device),
    )


def garden_camera(path: Path) -> Camera:
    """The first camera of the garden."""
    with np.load(path) as file:
        matrix, intrinsics = torch.from_numpy(file["viewmats"][0]), file["Ks"][0]
        size = int(file["width"]), int(file["height"])
    lens = [intrinsics[0, 0], intrinsics[1, 1], intrinsics[0, 2], intrinsics[1, 2]]
    return Camera(matrix.float(), torch.tensor(lens, dtype=torch.float32), *size)


def bonsai(path: Path, generator: torch.Generator) -> Gaussians:
    """The trained room."""
    gaussians = require_gaussians(path, load_any_scene(path)).to(generator.device)
    noise = torch.randn(gaussians.count, 15, 3, generator=generator, device=generator.device)
    gaussians.sh_rest = SH_STD * noise
    return gaussians
