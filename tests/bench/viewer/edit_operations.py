"""Editing: selections, operations, undo and redo of a large scene, in milliseconds, with what they leave unchanged.

What it measures
    The median wall time of each operation of `luxel.viewer.edit` on a scene, autosave included where ``--autosave``
    names a folder (it writes in another thread), and of `Document.drawn`, which makes what the page draws. Before any
    time is taken the untouched primitives are compared bit for bit after select, delete, undo, redo and export.
    The viewer builds the graph of nearest neighbours in another thread after the first selection; its time has a row.

How to run
    python tests/bench/viewer/edit_operations.py SCENE [--device cuda] [--threads 2] [--sh-degree 3] [--repeat 5]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import load_primitives
from luxel.viewer.edit import Autosave, Document, operations, regions
from luxel.viewer.edit.neighbourhood import NeighbourGraphs
from luxel.viewer.web.navigate import find_extent, first_pose


def milliseconds(action: Callable[[], object], device: torch.device) -> float:
    """Wall time of a call, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def lasso(camera: Camera, corners: int = 100) -> list[tuple[float, float]]:
    """A polygon with waves about the middle of the image."""
    angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    radius = camera.height * (0.3 + 0.05 * np.sin(7 * angles))
    x, y = camera.width / 2 + radius * np.cos(angles), camera.height / 2 + radius * np.sin(angles)
    return list(zip(x.tolist(), y.tolist(), strict=True))


def check(scene: Parameters, half: torch.Tensor) -> None:
    """Select, delete, undo, redo and export leave every other bit as it was."""
    document = Document(scene)

    def assert_equal(actual: Parameters, expected: Parameters, step: str) -> None:
        for name, tensor in actual.tensors().items():
            assert torch.equal(tensor, getattr(expected, name)), f"{step}: {name}"

    document.select(half)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "selection.ply"
        document.save(path, selection=True)
        assert_equal(load_primitives(path).to(scene.device), scene.select(half), "export")
    document.apply(operations.delete(document.state))
    assert_equal(document.remaining(), scene.select(~half), "delete")
    document.undo()
    assert_equal(document.remaining(), scene, "undo")
    document.redo()
    assert_equal(document.remaining(), scene.select(~half), "redo")


def measure(scene: Parameters, repeat: int, autosave: Path | None) -> dict[str, float]:
    """Median milliseconds by operation."""
    device = scene.device
    extent = find_extent((), scene)
    camera = first_pose((), extent).camera(1280, 720).to(device)
    centre, radius = tuple(extent.centre.tolist()), 0.3 * extent.radius
    document = Document(scene, None if autosave is None else Autosave(autosave, scene))
    with torch.no_grad():
        depth = rasterize(scene, camera, depth=True, time=0.0 if scene.moves else None).median_depth
    times: dict[str, list[float]] = {}
    state = document.state

    def centres() -> torch.Tensor:
        return state.scene.centres

    def take(name: str, action: Callable[[], object]) -> None:
        times.setdefault(name, []).append(milliseconds(action, device))

    for _ in range(repeat):
        document.select_none()

        take(
            "select: rectangle, through",
            lambda: document.select(regions.ScreenPoints(centres(), camera).in_rectangle(320, 180, 960, 540)),
        )
        take(
            "select: rectangle, visible",
            lambda: document.select(
                regions.ScreenPoints(centres(), camera, depth).in_rectangle(320, 180, 960, 540)
            ),
        )
        take(
            "select: lasso of 100 corners",
            lambda: document.select(regions.ScreenPoints(centres(), camera).in_polygon(lasso(camera))),
        )
        take(
            "select: brush of 100 points",
            lambda: document.select(regions.ScreenPoints(centres(), camera).near_stroke(lasso(camera), 20)),
        )
        take(
            "select: opacity",
            lambda: document.select(regions.in_range(document.state.scene.opacities, 0.5, 1)),
        )
        take(
            "select: colour",
            lambda: document.select(
                regions.near_colour(document.state.scene.base_colours, (0.5, 0.4, 0.3), 0.2)
            ),
        )
        take(
            "select: primitive at a point",
            lambda: document.select(regions.visible_at(document.state.scene, centre)),
        )
        take("select: sphere", lambda: document.select(regions.in_sphere(centres(), centre, radius)))
        document.graphs = NeighbourGraphs()
        take("(graph of neighbours)", lambda: document.graphs.of(state.scene, document.shown))
        take("grow", document.grow)
        take("shrink", document.shrink)
        take("invert", document.invert)
        take("invert, again", document.invert)
        take("draw with highlight", document.drawn)
        rows = int(document.selected.sum())
        for name, edit in (
            ("delete", lambda: operations.delete(state)),
            ("hide", lambda: operations.hide(state)),
            ("crop", lambda: operations.crop(state)),
            ("move", lambda: operations.transform(state, Similarity(translation=(1, 0, 0)))),
            (
                "rotate and scale",
                lambda: operations.transform(state, Similarity.about(centre, quat=(1, 1, 0, 0), scale=2)),
            ),
            ("recolour", lambda: operations.recolour(state, brightness=0.1)),
            ("opacity", lambda: operations.scale_opacity(state, 0.5)),
        ):
            take(name, lambda edit=edit: document.apply(edit()))
            take(f"{name}: undo", document.undo)
            take(f"{name}: redo", document.redo)
            document.undo()
        with tempfile.TemporaryDirectory() as folder:
            take("export of the selection", lambda: document.save(Path(folder) / "part.ply", selection=True))
    print(f"{rows:,} of {scene.count:,} selected in edits; history {document.history.nbytes / 2**20:.1f} MiB")
    return {name: median(values) for name, values in times.items()}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scene", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--sh-degree", type=int, default=None, help="give the scene random coefficients of this degree"
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--autosave", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    scene = load_primitives(options.scene).to(options.device)
    if options.sh_degree is not None:
        coefficients = (options.sh_degree + 1) ** 2 - 1
        scene = replace(scene, sh_rest=0.1 * torch.randn(scene.count, coefficients, 3, device=scene.device))  # pyright: ignore
    check(scene, scene.centres[:, 0] > scene.centres[:, 0].median())
    print(
        f"{scene.count:,} {scene.noun}, SH degree {scene.sh_degree}, {options.device}, {options.threads} threads"
    )
    for name, value in measure(scene, options.repeat, options.autosave).items():
        print(f"{name:32} {value:8.1f} ms")


if __name__ == "__main__":
    main()
