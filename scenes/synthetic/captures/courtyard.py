"""A courtyard of textured solids, thirty units wide, with hills and a sky around it, and a capture of it on foot.

Most of the place lies beyond the loops on which the cameras walk, as in captures of rooms and gardens.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.files.ply import save_points
from luxel.scenes.geometry import OPENGL_TO_OPENCV
from luxel.scenes.synthetic.captures.courtyard_solids import RADIUS, make_courtyard_solids
from luxel.scenes.synthetic.rays.ray_caster import CastView, StaticScene
from luxel.scenes.synthetic.rays.ray_textures import CLOUDS
from luxel.scenes.synthetic.toy import as_bytes

FOV_X = math.radians(65)
LOOPS = ((0.36, 1.5), (0.3, 2.5))  # radius as a fraction of `RADIUS`, height in units
SAMPLES = 2  # square root of the rays per pixel
SKY_POINTS = (
    0.1  # fraction of the points on the sky that are retained, as structure from motion finds few there
)
QUALITY = 95  # of the JPEG files


def courtyard_scene(
    seed: int = 0, *, device: torch.device | str | None = None, shadow_side: int = 4096
) -> StaticScene:
    """The courtyard: z up, its ground at z = 0, its middle at the origin, walls at a distance of `RADIUS`.

    Args:
        seed: of positions, sizes, colours and textures.
        device: to render on; None: a GPU where there is one.
        shadow_side: resolution of the shadows' depth map.
    """
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return StaticScene(make_courtyard_solids(seed), seed, chosen, shadow_side=shadow_side)


def courtyard_cameras(views: int, *, width: int, height: int, seed: int = 0) -> list[Camera]:
    """Cameras on two loops of different heights, in the order of the walk.

    Half of them look inward, past the middle, half outward or along the walk. Among every eighth
    camera, which `luxel.scenes.open` holds out, there are both kinds.

    Args:
        views: number of cameras.
        width, height: of the images, pixels.
        seed: of small deviations.
    """
    random = np.random.default_rng([seed, 12])
    fov_y = 2 * math.atan(math.tan(0.5 * FOV_X) * height / width)
    first = (views + 1) // 2
    cameras = []
    for index in range(views):
        loop, step, steps = (0, index, first) if index < first else (1, index - first, views - first)
        angle = 2 * math.pi * (step + 0.5 * loop + random.uniform(-0.2, 0.2)) / steps
        radius, rise = LOOPS[loop]
        radius *= RADIUS * (1 + 0.12 * math.sin(3 * angle + seed) + random.uniform(-0.04, 0.04))
        eye = np.array([radius * math.cos(angle), radius * math.sin(angle), rise + random.uniform(-0.2, 0.2)])
        inward = (index + index // 8) % 2 == 0
        turn = random.uniform(-0.35, 0.35) + (
            math.pi if inward else random.choice([-1, 1]) * random.uniform(0, 1)
        )
        pitch = random.uniform(-0.22, 0.08) - (0.12 * loop if inward else 0)
        toward = (math.cos(angle + turn), math.sin(angle + turn), math.tan(pitch))
        up = (*random.uniform(-0.03, 0.03, 2), 1.0)
        look = {"fov_y": fov_y, "width": width, "height": height}
        cameras.append(Camera.look_at(eye.tolist(), (eye + toward).tolist(), up, **look))
    return cameras


def write_courtyard(
    out: str | Path,
    *,
    views: int = 160,
    width: int = 1000,
    height: int = 666,
    seed: int = 0,
    unit: float = 1.0,
    points: int = 60_000,
    noise: float = 0.002,
    device: torch.device | str | None = None,
) -> Path:
    """Writes a capture of the courtyard that `luxel.scenes.open` reads: images/, transforms.json and points3D.ply.

    Poses are exact; the points are first hits of random rays of the cameras with noise, in the colours seen there.

    Args:
        out: folder, created if it does not exist.
        views: number of images.
        width, height: of the images, pixels.
        seed: of the place, the cameras and the points.
        unit: by which poses and points are scaled; the images do not depend on it.
        points: number of points.
        noise: standard deviation of the points' noise, as a fraction of `RADIUS`.
        device: to render on; None: a GPU where there is one.

    Returns:
        The folder.

    Raises:
        ValueError: views or points below 1, or a unit that is not above 0.
    """
    if views < 1 or points < 1 or not unit > 0:
        raise ValueError(
            f"views and points must be at least 1 and unit above 0, got {views}, {points} and {unit}"
        )
    folder = Path(out)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    scene = courtyard_scene(seed, device=device, shadow_side=min(4096, 4 * max(width, height)))
    cameras = courtyard_cameras(views, width=width, height=height, seed=seed)
    images, xyz, rgb = _rendered(scene, cameras, points, seed)
    names = [f"images/{index:04d}.jpg" for index in range(views)]

    def save(index: int) -> None:
        Image.fromarray(images[index]).save(folder / names[index], quality=QUALITY, subsampling=0)

    for_each(save, views)
    xyz += noise * RADIUS * np.random.default_rng([seed, 14]).standard_normal(xyz.shape)
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


def _rendered(
    scene: StaticScene, cameras: list[Camera], points: int, seed: int
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
