"""Writes a capture of a static scene of solids: images/, transforms.json and points3D.ply, all exact but for noise."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.render.native import best_device
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.files.ply import save_points
from luxel.scenes.geometry import OPENGL_TO_OPENCV
from luxel.scenes.synthetic.rays.ray_caster import CastView, StaticScene, StaticSolid
from luxel.scenes.synthetic.rays.ray_textures import CLOUDS
from luxel.scenes.synthetic.toy import as_bytes

SAMPLES = 2  # square root of the rays per pixel
SKY_POINTS = (
    0.1  # fraction of the points on the sky that are retained, as structure from motion finds few there
)
QUALITY = 95  # of the JPEG files
MAX_SHADOWS = 4096  # resolution of the shadows' depth map


def shadowed_scene(
    solids: Sequence[StaticSolid],
    seed: int,
    device: torch.device | str | None,
    *,
    shadow_radius: float,
    longer_side: int,
) -> StaticScene:
    """Solids with shadows as sharp as images of a size show them.

    Args:
        solids: what the scene consists of.
        seed: of the textures.
        device: to render on; None: a GPU where there is one.
        shadow_radius: around the origin, within which there are shadows, units.
        longer_side: of the images, pixels.
    """
    chosen = torch.device(device or best_device())
    side = min(MAX_SHADOWS, 4 * longer_side)
    return StaticScene(solids, seed, chosen, shadow_radius=shadow_radius, shadow_side=side)


def write_static_capture(
    out: str | Path,
    scene: StaticScene,
    cameras: Sequence[Camera],
    *,
    points: int,
    noise: float,
    seed: int,
    unit: float = 1.0,
) -> Path:
    """Writes a capture that `luxel.scenes.open` reads: images/, transforms.json and points3D.ply.

    Poses are exact; the points are first hits of random rays of the cameras with noise, in the colours seen there.

    Args:
        out: folder, created if it does not exist.
        scene: what is rendered, on its device.
        cameras: of the images.
        points: number of points.
        noise: standard deviation of the points' noise, units of the scene.
        seed: of the points.
        unit: by which poses and points are scaled; the images do not depend on it.

    Returns:
        The folder.
    """
    folder = Path(out)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    images, xyz, rgb = _rendered(scene, cameras, points, seed)
    names = [f"images/{index:04d}.jpg" for index in range(len(cameras))]

    def save(index: int) -> None:
        Image.fromarray(images[index]).save(folder / names[index], quality=QUALITY, subsampling=0)

    for_each(save, len(cameras))
    xyz += noise * np.random.default_rng([seed, 14]).standard_normal(xyz.shape)
    save_points(folder / "points3D.ply", Points((xyz * unit).astype(np.float32), rgb))
    frames = [frame_entry(name, camera, unit) for name, camera in zip(names, cameras, strict=True)]
    document = {"camera_model": "PINHOLE", "ply_file_path": "points3D.ply", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(document, indent=1))
    return folder


def frame_entry(name: str, camera: Camera, unit: float = 1.0) -> dict[str, object]:
    """What transforms.json says of an image.

    Args:
        name: path of the image.
        camera: that took it, without a lens.
        unit: by which the pose is scaled.
    """
    fx, fy, cx, cy = camera.intrinsics.tolist()
    pose = camera.cam_to_world.double().numpy() @ OPENGL_TO_OPENCV
    pose[:3, 3] *= unit
    lens = {"w": camera.width, "h": camera.height, "fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy}
    return {"file_path": name, **lens, "transform_matrix": pose.tolist()}


def link_or_copy(source: Path, target: Path) -> None:
    """The same file at a second place, which it replaces; copied where the file system has no hard links."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _rendered(
    scene: StaticScene, cameras: Sequence[Camera], points: int, seed: int
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Images uint8 [H, W, 3] of all cameras, and points on their surfaces: float64 [P, 3] with colours uint8 [P, 3]."""
    random = np.random.default_rng([seed, 13])
    shares = np.diff(np.linspace(0, points, len(cameras) + 1).round().astype(int))
    images, clouds = [], []
    for camera, share in zip(cameras, shares, strict=True):
        view = scene.render(camera, samples=SAMPLES)
        image = as_bytes(view.rgb.cpu().numpy())
        clouds.append(_hits(scene, camera, view, image, int(share), random))
        images.append(image)
    xyz, rgb = (np.concatenate(parts) for parts in zip(*clouds, strict=True))
    return images, xyz, rgb


def _hits(
    scene: StaticScene,
    camera: Camera,
    view: CastView,
    image: np.ndarray,
    count: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """First hits of random rays of a view, few of them on the sky: world points [count, 3] and colours [count, 3]."""
    h, w = view.ids.shape
    several = random.integers(0, h * w, 16 * count)
    picked = torch.from_numpy(several).to(view.ids.device)
    ids, depth = view.ids.flatten()[picked].cpu().numpy(), view.depth.flatten()[picked].cpu().numpy()
    sky = np.array([solid.surface.pattern == CLOUDS for solid in scene.solids])[ids]
    dropped = sky & (random.uniform(size=len(ids)) > SKY_POINTS)
    first = np.argsort(dropped, kind="stable")[:count]
    row, column = np.divmod(several[first], w)
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    pixel = (np.stack([column, row]) + 0.5) / SAMPLES
    ray = np.stack([(pixel[0] - cx) / fx, (pixel[1] - cy) / fy, np.ones(len(first))])
    pose = camera.cam_to_world.double().numpy()
    xyz = (pose[:3, :3] @ (ray * depth[first])).T + pose[:3, 3]
    return xyz, image[row // SAMPLES, column // SAMPLES]
