"""How good 4D Gaussians of synchronised cameras are at pairs of camera and time that they were not trained on.

What it measures
    A generated capture (scenes/synthetic/captures/camera_rig.py) of moving solids by fixed cameras is trained with each
    variant;
    PSNR and SSIM are means over the held-out pairs. With --hold-out pairs one camera of each time is held out, from
    time to time another; with camera it is one camera at all times.

How to run
    python tests/bench/captures/camera_rig.py [--cameras 8] [--times 60] [--width 640] [--height 480] [--hold-out pairs]
        [--pace 1] [--keep FOLDER] [VARIANT ...]
    Variants are those of `luxel bench train`; default: luxel:primitive=gaussians4d,preset=video.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from luxel.render.train.presets import preset
from luxel.scenes import open as open_capture
from luxel.scenes.synthetic.captures.camera_rig import HELD_OUT, write_rig_capture
from luxel.viewer.bench.train.variants import parse_variant

SHOWN = ("psnr", "ssim", "count", "seconds")


def main() -> int:
    """Generates, trains, prints one line of JSON a variant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variants", nargs="*", default=["luxel:primitive=gaussians4d,preset=video"])
    parser.add_argument("--cameras", type=int, default=8)
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--seconds", type=float, default=2.0, help="from the first time to the last (2)")
    parser.add_argument("--hold-out", choices=HELD_OUT, default="pairs")
    parser.add_argument("--pace", type=float, default=1.0, help="of the motion, in (0, 1] (1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder of the capture, used again where it is there")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        begin = time.perf_counter()
        if not (folder / "transforms.json").is_file():
            names = ("cameras", "times", "width", "height", "seconds", "hold_out", "pace", "seed")
            write_rig_capture(folder, **{name: getattr(options, name) for name in names})
        capture = open_capture(folder)
        views = {"training": len(capture.train), "held_out": len(capture.test)}
        print(json.dumps({"views": views, "generated_in": round(time.perf_counter() - begin, 1)}), flush=True)
        for text in options.variants:
            first = replace(preset("default", "gaussians"), lpips=False, save_renders=0)
            variant = parse_variant(text, first, 1).with_seed(options.seed)
            result = variant.train(capture, torch.device(options.device), None, None)
            scores = {name: round(result[name], 4) for name in SHOWN}
            print(json.dumps({"variant": text, **scores}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
