"""What a training step costs through a fisheye, at as many (tile, Gaussian) pairs as through a pinhole.

What it measures
    Gaussians are trained on a capture for --after steps. The scene then is trained on, count fixed and one view a step:
    through the pinhole cameras of the capture; through the same cameras with a fisheye of the same focal length
    (sigma points in place of the Jacobian), sizes chosen so that a view has as many pairs; and, as a control, through
    them with a radial lens that bends nothing. Median milliseconds of 40 steps, and with --kernels what they consist
    of. Exit status 1 where the fisheye costs more than --most percent.

How to run
    python tests/bench/train/fisheye_step.py CAPTURE [--after 6000] [--most 15] [--kernels]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from step_of_primitives import print_kernels
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.geometry.lens import fisheye_lens, limit_of_image, radial_lens
from luxel.render.replay import release_memory
from luxel.scenes import Capture
from luxel.scenes import open as open_capture
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.train.step_times import instances, scaled_to, step_times, trained, trainer_for

WINDOW, WINDOWS = 40, 9  # steps that are timed together, and how often


def with_lens(views: Sequence[View], lens: Tensor | None) -> list[View]:
    """The views through a lens, limited to what their images show; the images stay as they are."""
    out = []
    for view in views:
        fx, fy, cx, cy = view.camera.intrinsics.tolist()
        row = lens
        if row is not None:
            corner = np.hypot(max(cx, view.camera.width - cx) / fx, max(cy, view.camera.height - cy) / fy)
            row = row.clone()
            row[-1] = limit_of_image(row, float(corner))
        out.append(replace(view, camera=replace(view.camera, lens=row)))
    return out


def main() -> int:
    """Trains, measures, compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", type=Path)
    parser.add_argument("--after", type=int, default=6000)
    parser.add_argument("--most", type=float, default=15.0, help="percent")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda")
    print(machine_facts(device))
    capture = open_capture(options.capture)
    lenses = {"pinhole": None, "fisheye": fisheye_lens(), "straight lens": radial_lens()}
    milliseconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        scene = trained(trainer_for(capture, f"{folder}/first", device), options.after)
        pairs = instances(scene, capture.train[::8], device)
        for name, lens in lenses.items():
            bent: Capture = replace(
                capture, train=with_lens(capture.train, lens), test=with_lens(capture.test, lens)
            )
            views = bent.train[::8]
            equal = scene if lens is None else scaled_to(pairs, scene, views, device)
            runner = trainer_for(bent, f"{folder}/{name}", device)
            row = step_times(runner, equal, views, window=WINDOW, windows=WINDOWS)
            milliseconds[name] = row["step_ms"]
            print(
                f"{name}: {row['step_ms']:.3f} ms a step ({row['low']:.3f} to {row['high']:.3f}), "
                f"{row['step_ms'] / milliseconds['pinhole']:.3f} of a pinhole, {row['count']:,} Gaussians with "
                f"{row['instances']:,} pairs a view"
            )
            if options.kernels:
                print_kernels(runner)
            release_memory()
    more = 100 * (milliseconds["fisheye"] / milliseconds["pinhole"] - 1)
    print(f"a fisheye costs {more:.1f} % more, at most {options.most:g} % is asked for")
    return int(more > options.most)


if __name__ == "__main__":
    raise SystemExit(main())
