"""Generated photographs of an object on a turntable: it turns, the cameras and everything behind it stand still.

The object has sides that look alike and few details that tell them apart, the table has no texture, and the backdrop
has detail that contradicts the motion of the object. Cameras are at two or more heights, one turn of the table at each.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.synthetic.captures.static_capture import frame_entry, link_or_copy
from luxel.scenes.synthetic.captures.turntable_object import KINDS_OF_OBJECT, ObjectRenderer, made_object
from luxel.scenes.synthetic.rays.ray_caster import TO_LIGHT, StaticScene, StaticSolid
from luxel.scenes.synthetic.rays.ray_shapes import BOX
from luxel.scenes.synthetic.rays.ray_textures import PLAIN, PRINT, STONES, Surface
from luxel.scenes.synthetic.solids.motions import rotation
from luxel.scenes.synthetic.toy import as_bytes

FOV_X = math.radians(38)
DISTANCE, TARGET = 3.0, (0.0, 0.0, 0.42)  # of the cameras from what they look at, world units
LOWEST, HIGHEST = math.radians(14), math.radians(44)  # elevations of the cameras
UNEVEN = 0.12  # standard deviation of the angle of a turn by hand, of the step
GAIN = 0.3  # natural logarithm: largest change of exposure, of linear light
TINT = 0.04  # the same of the balance of colours
GAMMA = 2.2
NOISE = 0.004  # standard deviation in [0, 1]
BLUR = 0.9  # standard deviation, pixels of a 1000 pixels wide image: the backdrop is out of focus
QUALITY = 94  # of the JPEG files


class TurntableCapture(NamedTuple):
    """What `write_turntable` has written.

    Args:
        posed: folder with images/, masks/ and transforms.json; poses are those relative to the object.
        photographs: folder with the same images/ alone.
        gains: factors of linear light of each image by channel, [V, 3].
    """

    posed: Path
    photographs: Path
    gains: np.ndarray


@dataclass(frozen=True)
class TurntableView:
    """One image.

    Args:
        still: the camera in the frame of the table.
        camera: the same in the frame of the object.
        ring: number of its height.
        angle: by which the object is turned about z, radians.
    """

    still: Camera
    camera: Camera
    ring: int
    angle: float


def turntable_views(
    views: int, width: int, height: int, *, rings: int = 2, seed: int = 0
) -> list[TurntableView]:
    """Cameras at several heights, one after the other, each over one turn of the table by nearly equal steps.

    Args:
        views: number of images. width, height: of them, pixels.
        rings: number of heights.
        seed: of the unevenness of the steps, and of where each turn begins.
    """
    random = np.random.default_rng([seed, 61])
    counts = np.diff(np.linspace(0, views, rings + 1).round().astype(int))
    elevations = np.linspace(LOWEST, HIGHEST, rings) if rings > 1 else [0.5 * (LOWEST + HIGHEST)]
    fov_y = 2 * math.atan(math.tan(0.5 * FOV_X) * height / width)
    out, begin = [], 0.0
    for ring, (count, elevation) in enumerate(zip(counts, elevations, strict=True)):
        eye = [
            0.15 * ring,
            -DISTANCE * math.cos(elevation),
            TARGET[2] + DISTANCE * math.sin(elevation),
        ]
        still = Camera.look_at(eye, list(TARGET), (0.0, 0.0, 1.0), fov_y=fov_y, width=width, height=height)
        step = 2 * math.pi / count
        for index in range(count):
            angle = begin + step * (index + UNEVEN * random.standard_normal())
            turn = torch.eye(4)
            turn[:3, :3] = torch.from_numpy(rotation((0, 0, 1), angle))
            camera = Camera(
                (still.world_to_cam.double() @ turn.double()).float(), still.intrinsics, width, height
            )
            out.append(TurntableView(still, camera, ring, angle))
        begin += random.uniform(0, 2 * math.pi)
    return out


def write_turntable(
    folder: str | Path,
    *,
    seed: int = 0,
    views: int = 84,
    width: int = 1000,
    height: int = 750,
    rings: int = 2,
    kind: str | None = None,
    exposure: bool = True,
    masks: bool = True,
    samples: int = 2,
) -> TurntableCapture:
    """Writes a capture twice: into ``posed`` with exact poses, and into ``photographs`` without.

    Args:
        folder: of both, created if it does not exist.
        seed: of the object, the backdrop, the exposure and the steps of the table.
        views: number of images.
        width, height: of the images, pixels.
        rings: number of heights of the camera.
        kind: of the object, one of `KINDS_OF_OBJECT`; None: by the seed.
        exposure: whether brightness and balance of colours change from image to image.
        masks: whether ``posed`` has masks of the object.
        samples: square root of the rays per pixel of the object.

    Raises:
        ValueError: an unknown kind, or fewer than 3 views at each height.
    """
    chosen = kind or KINDS_OF_OBJECT[seed % len(KINDS_OF_OBJECT)]
    if chosen not in KINDS_OF_OBJECT or rings < 1 or views < 3 * rings:
        raise ValueError(
            f"kind must be one of {', '.join(KINDS_OF_OBJECT)} with views >= 3 for each of rings >= 1, "
            f"got {chosen}, {views}, {rings}"
        )
    posed, alone = Path(folder) / "posed", Path(folder) / "photographs"
    for place in (posed / "images", alone / "images", *([posed / "masks"] if masks else [])):
        place.mkdir(parents=True, exist_ok=True)
    turned = turntable_views(views, width, height, rings=rings, seed=seed)
    renderer = ObjectRenderer(made_object(chosen, seed))
    stills: dict[int, torch.Tensor] = {}

    def surround(ring: int) -> None:
        torch.set_num_threads(1)
        stills[ring] = _surroundings(next(view.still for view in turned if view.ring == ring), seed)

    for_each(surround, rings)
    gains = _gains(views, seed) if exposure else np.ones((views, 3))
    names = [f"images/IMG_{1000 + index}.jpg" for index in range(views)]

    def work(index: int) -> None:
        torch.set_num_threads(1)  # of this worker: several images are rendered at once
        view = turned[index]
        light = torch.from_numpy(rotation((0, 0, 1), -view.angle) @ TO_LIGHT).float()
        rgb, alpha = renderer.render(view.camera, light, stills[view.ring], samples=samples)
        random = np.random.default_rng([seed, 62, index])
        pixels = rgb.numpy() * gains[index] ** (1 / GAMMA)
        pixels = pixels + NOISE * random.standard_normal(pixels.shape)
        Image.fromarray(as_bytes(pixels)).save(posed / names[index], quality=QUALITY, subsampling=0)
        if masks:
            mask = as_bytes((alpha > 0.5).float().numpy())
            Image.fromarray(mask).save(posed / "masks" / f"{Path(names[index]).name}.png")
        link_or_copy(posed / names[index], alone / names[index])

    for_each(work, views)
    frames = [frame_entry(name, view.camera) for name, view in zip(names, turned, strict=True)]
    document = {"camera_model": "PINHOLE", "frames": frames}
    (posed / "transforms.json").write_text(json.dumps(document, indent=1))
    return TurntableCapture(posed, alone, gains)


def _surroundings(camera: Camera, seed: int) -> torch.Tensor:
    """The table without the object, and what is behind it, [H, W, 3]."""
    random = np.random.default_rng([seed, 63])
    grey = ((0.62, 0.61, 0.6),) * 3
    wall = tuple(tuple(random.uniform(0.25, 0.8, 3).tolist()) for _ in range(3))
    poster = tuple(tuple(random.uniform(0.1, 0.9, 3).tolist()) for _ in range(3))
    solids = (
        StaticSolid(BOX, (8.0, 0.1, 3.0), (0, 2.6, 0.5), Surface(STONES, 0.5, wall, 0.0, 0.3)),
        StaticSolid(BOX, (0.9, 0.02, 0.6), (-1.1, 2.45, 0.6), Surface(PRINT, 0.07, poster, 0.0, 0.0)),
        StaticSolid(BOX, (1.6, 1.6, 0.1), (0, 0.2, -0.1), Surface(PLAIN, 1.0, grey, 0.0, 0.0)),
    )
    cast = StaticScene(solids, seed, torch.device("cpu"), shadow_side=0).render(camera, samples=1)
    blur = BLUR * camera.width / 1000
    return torch.from_numpy(cv2.GaussianBlur(cast.rgb.numpy(), (0, 0), max(blur, 0.3)))


def _gains(views: int, seed: int) -> np.ndarray:
    """Factors of linear light, [V, 3]: a camera that meters each image anew."""
    random = np.random.default_rng([seed, 64])
    common = random.uniform(-GAIN, GAIN, (views, 1))
    return np.exp(common + random.uniform(-TINT, TINT, (views, 3)))
