"""A new capture format: a folder of images with a poses.csv, which `luxel.scenes.open` then opens.

A format is a `CaptureFormat` with two functions: one recognises it, the other reads it. Run:

    python examples/capture_format.py
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from luxel import scenes
from luxel.scenes.synthetic.toy import as_bytes, ring_cameras

MATRIX = [f"m{row}{column}" for row in range(3) for column in range(4)]  # world to camera, OpenCV axes
COLUMNS = ["image", "width", "height", "fx", "fy", "cx", "cy", *MATRIX]


def mismatch(path: Path) -> str | None:
    """None: the path is a capture of this format; otherwise the reason why it is not."""
    return None if (path / "poses.csv").is_file() else "there is no poses.csv"


def read(path: Path, options: scenes.ReadOptions) -> scenes.CaptureContents:
    """One image with intrinsics and pose per row, and points from points.ply."""
    images = []
    with (path / "poses.csv").open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            where = f"{path / 'poses.csv'}: line {number}"
            try:
                lens = [float(row[name]) for name in ("fx", "fy", "cx", "cy")]
                size = int(row["width"]), int(row["height"])
                world_to_cam = np.eye(4)
                world_to_cam[:3] = np.array([float(row[name]) for name in MATRIX]).reshape(3, 4)
            except (KeyError, TypeError, ValueError) as error:
                raise scenes.CaptureError(f"{where}: invalid row ({error}).", f"Write {COLUMNS}.") from None
            checked = scenes.Lens.create(*size, (lens[0], lens[1]), (lens[2], lens[3]), {}, where=where)
            images.append(scenes.SourceImage(row["image"], path / row["image"], checked, world_to_cam))
    return scenes.CaptureContents("poses.csv", images, points=scenes.load_points(path / "points.ply"))


def write_example(folder: Path) -> None:
    """A capture of this format: 12 views of a synthetic scene."""
    scene, rows = scenes.static_scene(), []
    for index, camera in enumerate(ring_cameras(12)):
        name = f"{index:02d}.png"
        Image.fromarray(as_bytes(scene.render(camera).rgb)).save(folder / name)
        pose = camera.world_to_cam[:3].flatten().tolist()
        rows.append([name, camera.width, camera.height, *camera.intrinsics.tolist(), *pose])
    with (folder / "poses.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    scenes.save_points(folder / "points.ply", scene.sample_points(300)[0])


def main() -> None:
    scenes.register_capture_format(scenes.CaptureFormat("poses.csv", mismatch, read))  # the one line
    with tempfile.TemporaryDirectory() as folder:
        write_example(Path(folder))
        capture = scenes.open(folder)
        print(f"{capture.format}: {len(capture.train)} training views, {len(capture.test)} held out")
        print(f"{len(capture.points.xyz)} points, first image {capture.train[0].read().rgb.shape}")


if __name__ == "__main__":
    main()
