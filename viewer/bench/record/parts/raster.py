"""The rasterizer: published scenes next to gsplat, and the synthetic landscape of each primitive."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.render.raster import Backend, rasterizer
from luxel.viewer.bench.raster import measure, scenes
from luxel.viewer.bench.raster.report import best
from luxel.viewer.bench.raster.scenes import BONSAI, GARDEN, Scene, Size
from luxel.viewer.bench.raster.variants import PASSES
from luxel.viewer.bench.record.part import Headline, Part, Row, Setup

FULL, FOUR_K, TINY = (1920, 1080), (3840, 2160), (64, 48)
TILES = 16  # that the float64 reference draws, of the first image size alone
TINY_COUNT = 300


def published_rows(setup: Setup, *, name: str, sizes: Sequence[Size]) -> list[Row]:
    """Rows of a published scene, see `luxel.viewer.bench.raster.scenes`."""
    assert setup.data is not None
    if setup.quick and name.startswith("garden"):
        name = "garden-g1"
    (scene,) = scenes.chosen(scenes.data_scenes(setup.data), [name])
    return rows_of(setup, scene, sizes, backends_here(setup))


def landscape_rows(setup: Setup, *, primitive: str, counts: Sequence[int]) -> list[Row]:
    """Rows of the synthetic landscape with ``counts`` primitives; Gaussians alongside gsplat."""
    backends: list[Backend] = backends_here(setup) if primitive == "gaussians" else ["luxel"]
    counts = [TINY_COUNT] if setup.quick else counts
    return [
        row
        for count in counts
        for row in rows_of(setup, scenes.terrain_scene(count, primitive), [FULL], backends)
    ]


def backends_here(setup: Setup) -> list[Backend]:
    """luxel, and gsplat where it can draw."""
    try:
        rasterizer("gsplat", setup.device)
    except LuxelError as error:
        setup.note(f"without gsplat: {error.problem}")
        return ["luxel"]
    return ["luxel", "gsplat"]


def rows_of(setup: Setup, scene: Scene, sizes: Sequence[Size], backends: Sequence[Backend]) -> list[Row]:
    """Measures a scene at each size; quality at the first.

    Raises:
        RuntimeError: something could not be measured.
    """
    if setup.quick:
        scene = replace(scene, build=lambda device, build=scene.build: _few(build(device)))
    rows = []
    for k, size in enumerate([TINY] if setup.quick else sizes):
        tiles = 0 if k else 2 if setup.quick else TILES
        warmup, iterations = (1, 2) if setup.quick else (5, 40)
        settings = measure.Settings(warmup, iterations, tiles, profiled=False)
        (measured,) = measure.run([(scene, [size])], backends, setup.device, settings)["rows"]
        if measured["failures"]:
            part, text = next(iter(measured["failures"].items()))
            raise RuntimeError(
                f"{scene.name} at {size[0]}x{size[1]}, {part}: {text.strip().splitlines()[-1]}"
            )
        row = row_of(measured, backends)
        times = f"forward {row['luxel_forward']:.3f}, forward + backward {row['luxel_both']:.3f} ms"
        setup.note(f"{scene.name} at {row['size']}, {row['count']:,}: {times}")
        rows.append(row)
    return rows


def _few(built: Parameters) -> Parameters:
    """The first of a scene's primitives."""
    return built.map(lambda values: values[:TINY_COUNT].clone())


def row_of(measured: dict[str, Any], backends: Sequence[Backend]) -> Row:
    """The figures of the record from a row of the benchmark."""
    quality = measured.get("quality", {}).get("luxel") or {}
    row: Row = {
        "scene": measured["scene"],
        "size": f"{measured['width']}x{measured['height']}",
        "primitive": PRIMITIVES[measured["primitive"]].noun,
        "count": measured["gaussians"],
        "psnr": quality.get("psnr"),
        "gradient_error": max((quality.get("gradients") or {}).values(), default=None),
    }
    for backend in backends:
        forward, both = (best(measured, backend, name) for name in (PASSES[0], PASSES[-1]))
        row[f"{backend}_forward"] = forward["median"] if forward else None
        row[f"{backend}_both"] = both["median"] if both else None
        peak = measured["results"][backend]["peak_bytes"][PASSES[-1]]
        row["peak_gb" if backend == "luxel" else f"{backend}_peak_gb"] = peak / 1e9 if peak else None
    return row


_MILLIONS = (
    Headline(
        "2.8 M Gaussians at 1920x1080, forward", "{luxel_forward:.2f} ms", (), "{gsplat_forward:.2f} ms"
    ),
    Headline("the same, forward + backward", "{luxel_both:.2f} ms", (), "{gsplat_both:.2f} ms"),
)
_ROOM = (
    Headline(
        "a trained room of 1.2 M at 1920x1080, forward",
        "{luxel_forward:.2f} ms",
        (),
        "{gsplat_forward:.2f} ms",
    ),
    Headline("the same, forward + backward", "{luxel_both:.2f} ms", (), "{gsplat_both:.2f} ms"),
)


def _published(
    name: str, file: str, seconds: float, *sizes: Size, headlines: tuple[Headline, ...] = ()
) -> Part:
    rows = functools.partial(published_rows, name=name, sizes=sizes)
    return Part(f"raster-{name}", f"rasterizer on {name}", "raster", seconds, rows, (file,), headlines)


def _landscape(primitive: str, table: str, seconds: float, *counts: int) -> Part:
    rows = functools.partial(landscape_rows, primitive=primitive, counts=counts)
    return Part(f"raster-{primitive}", f"rasterizer on a landscape of {primitive}", table, seconds, rows)


PARTS = (
    _published("garden-g1", GARDEN, 10, FULL),
    _published("garden-g5", GARDEN, 20, FULL, FOUR_K, headlines=_MILLIONS),
    _published("garden-g9", GARDEN, 30, FULL, FOUR_K),
    _published("bonsai", BONSAI, 20, FULL, FOUR_K, headlines=_ROOM),
    _landscape("gaussians", "raster", 25, 100_000, 500_000),
    _landscape("convexes", "primitives", 25, 100_000, 500_000),
    _landscape("gaussians4d", "primitives", 10, 50_000),
)
