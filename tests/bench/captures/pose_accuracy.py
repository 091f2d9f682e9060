"""Accuracy of structure from motion on captures with known poses.

``python tests/bench/captures/pose_accuracy.py CAPTURE ... --generated ring turntable forward room film spot blank``
``python tests/bench/captures/pose_accuracy.py --repeated box jar toy``

The photographs and masks of a capture are linked into an empty folder, poses are estimated there, and centres and
directions of the cameras are compared with the known ones after the similarity that aligns the centres best. A line a
capture; ``--json`` writes all figures. ``--repeated`` makes turntables of objects whose sides look alike, which are
placed without masks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np

from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.captures.poses.pose_refinement import similarity
from luxel.scenes.captures.poses.sfm import estimate_poses
from luxel.scenes.errors import CaptureError
from luxel.scenes.geometry import estimate_centre, invert_rigid
from luxel.scenes.synthetic.captures.pose_captures import POSE_CAPTURES, write_pose_capture
from luxel.scenes.synthetic.captures.turntable import write_turntable
from luxel.scenes.synthetic.captures.turntable_object import KINDS_OF_OBJECT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", nargs="*", type=Path, metavar="CAPTURE")
    parser.add_argument(
        "--generated", nargs="*", default=[], choices=[*POSE_CAPTURES], help="captures to generate"
    )
    parser.add_argument(
        "--repeated",
        nargs="*",
        default=[],
        choices=KINDS_OF_OBJECT,
        help="objects on a turntable to generate",
    )
    parser.add_argument("--views", type=int, help="photographs of each generated capture; default: its SIZES")
    parser.add_argument(
        "--keep", type=Path, help="where generated captures are written; default: a temporary folder"
    )
    parser.add_argument(
        "--object", action="store_true", help="mask the object in the middle; always of a turntable"
    )
    parser.add_argument("--no-masks", action="store_true", help="leave the masks out")
    parser.add_argument("--cache", type=Path, help="keep results in this folder; default: a temporary one")
    parser.add_argument("--features", type=int, help="most features of a photograph; default: as luxel train")
    parser.add_argument(
        "--seeds", type=int, nargs="*", default=[0], help="of estimation, a run each; default: 0"
    )
    parser.add_argument("--json", type=Path, help="write all figures into this file")
    options = parser.parse_args()
    if options.features:
        features.FEATURES = options.features
    rows = []
    with tempfile.TemporaryDirectory(prefix="pose-captures-") as temporary:
        made = [(options.keep or Path(temporary)) / kind for kind in options.generated]
        for path in made:
            if not (path / "transforms.json").is_file():
                write_pose_capture(path, path.name, views=options.views)
        objects = [
            write_turntable(
                (options.keep or Path(temporary)) / f"turntable-{kind}",
                seed=number,
                kind=kind,
                views=options.views or 84,
            ).posed
            for number, kind in enumerate(options.repeated)
        ]
        for path, seed in product([*options.captures, *made, *objects], options.seeds):
            features.SEED = seed
            cache = options.cache / str(seed) if options.cache else None
            cut = options.object or path.name == "turntable"
            row = measure(
                path, use_masks=not options.no_masks and path not in objects, cut_object=cut, cache=cache
            )
            rows.append({"seed": seed, **row})
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def measure(
    path: Path, *, use_masks: bool = True, cut_object: bool = False, cache: Path | None = None
) -> dict[str, object]:
    """Registered photographs, centre errors in percent of the extent, and seconds."""
    known = read_contents(path, ReadOptions())
    with tempfile.TemporaryDirectory(prefix="pose-accuracy-") as folder:
        root = Path(folder) / path.name
        (root / "images").mkdir(parents=True)
        for source in known.images:
            (root / "images" / source.path.name).symlink_to(source.path.resolve())
        if use_masks and (path / "masks").is_dir():
            (root / "masks").symlink_to((path / "masks").resolve())
        start = time.monotonic()
        row: dict[str, object] = {"capture": path.name, "photographs": len(known.images)}
        try:
            estimated = estimate_poses(
                root,
                root / "images",
                cache_dir=cache / path.name if cache else None,
                use_masks=use_masks,
                cut_object=cut_object,
                on_progress=lambda stage, share: None,
            )
        except CaptureError as error:
            return {**row, "registered": 0, "refused": str(error)}
        seconds = time.monotonic() - start
    errors, turned = pose_errors(estimated, known)
    return {
        **row,
        "registered": len(estimated.images),
        "median_percent": round(float(np.median(errors)), 3),
        "max_percent": round(float(errors.max()), 3),
        "within_1_percent": int((errors <= 1).sum()),
        "max_degrees": round(float(turned.max()), 3),
        "off": int(((errors > 2) | (turned > 2)).sum()),
        "poses": estimated.pose_report,
        "lens": repr(estimated.images[0].lens),
        "seconds": round(seconds, 1),
        "warnings": estimated.warnings,
    }


def pose_errors(estimated: CaptureContents, known: CaptureContents) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the poses after alignment, [V] each: of camera centres in percent of the known extent, of rotations in
    degrees.

    Half of the cameras, those that fit best, align the models again, so that a few wrong ones do not.
    """
    truth = {source.path.name: invert_rigid(source.world_to_cam) for source in known.images}
    inverse = np.stack([invert_rigid(source.world_to_cam) for source in estimated.images])
    ours = inverse[:, :3, 3]
    poses = np.stack([truth[source.path.name] for source in estimated.images])
    every = np.stack(list(truth.values()))
    centre = estimate_centre(every, np.zeros((0, 3)))
    extent = float(np.median(np.linalg.norm(every[:, :3, 3] - centre, axis=1)))
    fitting, errors, turn = np.ones(len(ours), bool), np.zeros(len(ours)), np.eye(3)
    for _ in range(5):
        scale, turn, shift = similarity(ours[fitting], poses[fitting, :3, 3])
        errors = 100 * np.linalg.norm(scale * ours @ turn.T + shift - poses[:, :3, 3], axis=1) / extent
        fitting = errors <= max(float(np.median(errors)), 1.0)
    between = np.einsum("vji,jk,vkl->vil", poses[:, :3, :3], turn, inverse[:, :3, :3])
    cosine = (np.trace(between, axis1=1, axis2=2) - 1) / 2
    return errors, np.degrees(np.arccos(np.clip(cosine, -1, 1)))


if __name__ == "__main__":
    main()
