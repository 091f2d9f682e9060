"""Renders the images of docs/gallery.md from runs of the packaged capture and of synthetic data.

python docs/site/gallery.py RUNS     trains what RUNS does not hold yet, then writes docs/images/gallery-*.jpg

On two CPU cores the trainings take half an hour. They need no download.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import luxel.scenes
from luxel.render.fields.files import load_field
from luxel.render.geometry.camera import Camera
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.segment.label_image import label_image
from luxel.render.segment.objects import load_objects
from luxel.render.surfaces.scene_surface import scene_surface
from luxel.scenes.captures.demo import demo_path
from luxel.scenes.loading.scene_files import load_any_scene
from luxel.scenes.paths import orbit, orbit_like
from luxel.scenes.synthetic.captures.dnerf import monocular_camera_samples
from luxel.viewer.cli import main as command
from luxel.viewer.web.navigate import find_extent
from luxel.viewer.web.shading.legend import false_colour

IMAGES = Path(__file__).resolve().parents[1] / "images"
SIDE = 320  # pixels of each image of a strip
WHITE = torch.ones(3)

Strip = Sequence[Tensor]


def trainings(runs: Path) -> dict[str, tuple[str, ...]]:
    """The arguments of `luxel` for each run."""
    tankard, solids, moving = str(demo_path()), str(runs / "solids-capture"), str(runs / "moving-capture")
    fixed = ("--strategy", "fixed")
    surfels = (*fixed, "--primitive", "surfels", "--preset", "surface", "--steps", "2500")
    convexes = (
        *fixed,
        "--primitive",
        "convexes",
        "--max-gaussians",
        "3000",
        "--max-size",
        "216",
        "--steps",
        "900",
    )
    return {
        "tankard": ("demo", "--minutes", "3"),
        "surfels": ("train", tankard, "--masks", "cutout", *surfels),
        "convexes": ("train", tankard, "--masks", "cutout", *convexes),
        "solids": ("train", solids, *fixed, "--steps", "1500"),
        "moving": ("train", moving, *fixed, "--primitive", "gaussians4d", "--steps", "2000"),
        "landscape": ("train", "landscape", "--field", "image", "--seconds", "60"),
        "knot": ("train", "knot", "--field", "sdf", "--steps", "600"),
        "cloud": ("train", "cloud", "--field", "volume", "--steps", "600"),
    }


def train_missing(runs: Path) -> None:
    """Makes the synthetic captures and the runs that are not there."""
    for name, scene, views in (
        ("solids-capture", luxel.scenes.static_scene(), 40),
        ("moving-capture", luxel.scenes.dynamic_scene(pace=0.35), 80),
    ):
        if not (runs / name).exists():
            times = np.linspace(0, 1, views) if name.startswith("moving") else np.zeros(views)
            samples = {
                part: monocular_camera_samples(times[::every].tolist(), seed=seed, width=320, height=320)
                for part, every, seed in (("train", 1, 0), ("test", 8, 2))
            }
            luxel.scenes.save_dnerf(scene, runs / name, samples)
    os.environ["LUXEL_DEMO_EXIT"] = "1"
    for name, arguments in trainings(runs).items():
        if not (runs / name).exists() and command([*arguments, "--run", str(runs / name), "--device", "cpu"]):
            raise RuntimeError(f"the training of {name} failed")


def scene_of(run: Path) -> Parameters:
    return load_any_scene(run)


def orbit_of(capture: Path, frames: int, side: int = SIDE) -> list[Camera]:
    """Cameras around the middle of a capture, at the distance of its images."""
    opened = luxel.scenes.open(capture)
    cameras = [view.camera for view in opened.views]
    return orbit_like(cameras, centre=opened.centre, up=opened.up, frames=frames, width=side, height=side)


def drawn(scene: Parameters, camera: Camera, *outputs: str, time: float | None = None) -> list[Tensor]:
    """Images [H, W, 3] of outputs on white: rgb, depth and count in false colours, normals as colours."""
    options = {name: True for name in ("depth", "normals", "count") if name in outputs}
    with torch.no_grad():
        frame = rasterize(scene, camera, background=WHITE, time=time, **options)
    cover = frame.alpha[..., None]
    images = []
    for output in outputs:
        if output == "rgb":
            images.append(frame.rgb)
            continue
        values = getattr(frame, output)
        assert values is not None
        if output == "normals":
            coloured = 0.5 + 0.5 * torch.nn.functional.normalize(values, dim=-1)
        else:
            inside = values[cover[..., 0] > 0.5].float()
            low, high = inside.quantile(0.01), inside.quantile(0.99)
            coloured = false_colour((values - low) / (high - low))
        images.append(coloured * cover + 1 - cover)
    return images


def drawn_mesh(mesh: TriangleMesh, camera: Camera, each: int = 60) -> Tensor:
    """A mesh lit from the camera, [H, W, 3]: the nearest of random points on each triangle, in twice the pixels."""
    size = 2 * camera.width
    corners = mesh.corners()  # [F, 3, 3]
    generator = torch.Generator().manual_seed(0)
    weights = -torch.rand(len(corners), each, 3, generator=generator).log()
    weights = weights / weights.sum(-1, keepdim=True)
    points = (weights @ corners).reshape(-1, 3)
    normals = torch.nn.functional.normalize(mesh.face_vectors(), dim=-1)
    large = camera.resized(size, size)
    in_camera = points @ large.world_to_cam[:3, :3].T + large.world_to_cam[:3, 3]
    fx, fy, cx, cy = large.intrinsics.tolist()
    column, row = (
        (in_camera[:, axis] / in_camera[:, 2] * focal + middle).floor().long()
        for axis, focal, middle in ((0, fx, cx), (1, fy, cy))
    )
    light = (normals @ large.world_to_cam[2, :3]).abs().repeat_interleave(each)
    fine = (in_camera[:, 2] > 0) & (column >= 0) & (column < size) & (row >= 0) & (row < size)
    pixel, depth, light = (row * size + column)[fine], in_camera[fine, 2], light[fine]
    order = depth.argsort(descending=True)  # of equal pixels the last that is written stays
    image = np.ones(size * size, np.float32)
    image[pixel[order].numpy()] = (0.15 + 0.75 * light[order]).numpy()
    halved = torch.from_numpy(image).view(camera.height, 2, camera.width, 2).mean((1, 3))
    return halved[..., None].expand(-1, -1, 3)


def gaussians(runs: Path) -> Strip:
    scene, cameras = scene_of(runs / "tankard"), orbit_of(demo_path(), 8)
    return [*drawn(scene, cameras[1], "rgb", "depth", "count"), *drawn(scene, cameras[4], "rgb")]


def surfels(runs: Path) -> Strip:
    scene = scene_of(runs / "surfels")
    camera = orbit_of(demo_path(), 8)[1]
    views = luxel.scenes.open(demo_path()).views
    mesh = scene_surface(scene, [view.camera for view in views], 256).mesh
    return [*drawn(scene, camera, "rgb", "depth", "normals"), drawn_mesh(mesh, camera)]


def convexes(runs: Path) -> Strip:
    scene, cameras = scene_of(runs / "convexes"), orbit_of(demo_path(), 8)
    hard = scene.map(torch.clone)
    hard.opacity_logits.fill_(8.0)  # type: ignore[attr-defined]
    hard.log_sigma.fill_(8.0)  # type: ignore[attr-defined]
    return [
        image
        for each in (1, 4)
        for image in (*drawn(scene, cameras[each], "rgb"), *drawn(hard, cameras[each], "rgb"))
    ]


def dynamic(runs: Path) -> Strip:
    scene, camera = scene_of(runs / "moving"), orbit_of(runs / "moving-capture", 8)[0]
    return [drawn(scene, camera, "rgb", time=time)[0] for time in (0.0, 0.33, 0.67, 1.0)]


def fields(runs: Path) -> Strip:
    """The image field and a part of it, the distance field with shadows, and the volume."""
    image = load_field(runs / "landscape" / "field.safetensors")
    window = (0.55, 0.35, 0.7, 0.5)
    with torch.no_grad():
        strips = [image.render_size(SIDE, SIDE), torch.cat(list(image.bands(SIDE, SIDE, window)))]
        for name in ("knot", "cloud"):
            field = load_field(runs / name / "field.safetensors")
            extent = find_extent([], field, np.asarray(field.up))
            camera = orbit(
                extent.centre, 0.5 * extent.radius, up=extent.up, frames=8, width=SIDE, height=SIDE
            )[2]
            sky = torch.tensor([0.35, 0.5, 0.75])
            strips.append(field.render_sunlit(camera) if name == "knot" else field.render(camera, sky))
    return strips


def objects(runs: Path) -> Strip:
    """Solids, their labels after one click on each, one of them alone, and the scene without it."""
    run = runs / "solids"
    if not (run / "objects.json").exists():
        ids = np.array(Image.open(runs / "solids-capture" / "train" / "r_000_ids.png"))
        clicks: list[str] = []
        for label in sorted(set(ids.ravel()) - {0, 1}):
            rows, columns = np.nonzero(ids == label)
            if len(rows) > 40:
                nearest = np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2)
                clicks += ["--click", "train/r_000", str(columns[nearest]), str(rows[nearest])]
        command(["segment", str(run), *clicks, "--device", "cpu"])
    scene, segmented = scene_of(run), load_objects(run)
    camera = orbit_of(runs / "solids-capture", 8)[0]
    colours = torch.ones(256, 3)
    for entry in segmented.objects:
        colours[entry.label] = torch.tensor(entry.colour) / 255
    rgb = drawn(scene, camera, "rgb")[0]
    with torch.no_grad():
        visible = label_image(scene, camera, segmented.labels, 255)
    labelled = colours[visible.labels.long()] * (0.35 + 0.65 * rgb.mean(-1, keepdim=True))
    chosen = (
        segmented.labels
        == max(segmented.objects, key=lambda entry: int((segmented.labels == entry.label).sum())).label
    )
    return [rgb, labelled, *(drawn(scene.select(part), camera, "rgb")[0] for part in (chosen, ~chosen))]


STRIPS: dict[str, Callable[[Path], Strip]] = {
    "gaussians": gaussians,
    "surfels": surfels,
    "convexes": convexes,
    "dynamic": dynamic,
    "fields": fields,
    "objects": objects,
}


def main(runs: Path, *names: str) -> None:
    """Trains what is missing and writes the strips of these names, or all."""
    runs.mkdir(parents=True, exist_ok=True)
    train_missing(runs)
    for name in names or STRIPS:
        strip = torch.cat([image.clamp(0, 1) for image in STRIPS[name](runs)], 1)
        out = IMAGES / f"gallery-{name}.jpg"
        Image.fromarray((strip * 255).round().byte().numpy()).save(out, quality=88, optimize=True)
        print(f"{out.name}: {strip.shape[1]}x{strip.shape[0]}, {out.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *sys.argv[2:])
