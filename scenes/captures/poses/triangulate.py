"""Points triangulated from known poses by COLMAP, and the images and pairs that its tasks on posed images need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from luxel.render.geometry.camera import Camera, Pixels, Points
from luxel.render.storage.journal import scratch_folder
from luxel.scenes.captures.caching.capture_cache import user_cache
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.launch import run_task
from luxel.scenes.captures.colmap_process.pairs import pairs_by_pose
from luxel.scenes.captures.images.images import ImageReader, for_each

PosedImage = tuple[Camera, ImageReader]


def triangulate(posed: Sequence[PosedImage], on_progress: Progress) -> Points:
    """Points triangulated by COLMAP from matched features, with fixed poses.

    Args:
        posed: cameras and readers; features outside the masks are dropped.
        on_progress: called with (stage, fraction done in [0, 1]).

    Raises:
        CaptureError: pycolmap is missing or fails.
    """
    poses = np.stack([camera.world_to_cam.double().numpy() for camera, _ in posed])
    with prepared(posed) as (work, inputs):
        result = run_task("triangulate", work, on_progress, **inputs, world_to_cam=poses)
    keep = np.isfinite(result["xyz"]).all(axis=1)
    return Points(result["xyz"][keep], result["rgb"][keep])


@contextmanager
def prepared(posed: Sequence[PosedImage]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder with images and masks that is removed on exit, and the arguments of
    `luxel.scenes.captures.colmap_process.triangulation.matched`: pairs are neighbours by pose.

    Args:
        posed: cameras and readers.

    Raises:
        CaptureError: pycolmap is missing, or an image cannot be read.
    """
    features.require_pycolmap()
    names = [f"{index:05d}.png" for index in range(len(posed))]
    lenses: dict[tuple, list[str]] = {}
    for name, (camera, _) in zip(names, posed, strict=True):
        lenses.setdefault((camera.width, camera.height, *camera.intrinsics.tolist()), []).append(name)
    poses = np.stack([camera.cam_to_world.numpy().astype(np.float64) for camera, _ in posed])
    with scratch_folder(user_cache()) as work:
        images, masks = work / "images", work / "masks"
        images.mkdir()
        masks.mkdir()
        for_each(lambda i: _write_image(posed[i][1](), names[i], images, masks), len(posed))
        yield (
            work,
            {
                "names": names,
                "lenses": [(lens[2:], group) for lens, group in lenses.items()],
                "pairs": pairs_by_pose(names, poses),
            },
        )


def _write_image(pixels: Pixels, name: str, images: Path, masks: Path) -> None:
    rgb = pixels.rgb
    if pixels.alpha is not None:
        share = pixels.alpha[..., None].astype(np.float32) / 255
        rgb = (rgb * share + 255 * (1 - share) + 0.5).astype(np.uint8)
    Image.fromarray(rgb).save(images / name, compress_level=1)
    keep = pixels.alpha if pixels.alpha is not None else pixels.weight
    if keep is not None:
        Image.fromarray(keep).save(masks / f"{name}.png", compress_level=1)
