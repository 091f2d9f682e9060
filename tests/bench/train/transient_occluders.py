"""What passers-by in the photographs cost, with and without `--ignore-transients`.

What it measures
    A capture is trained as it is, and with ellipses with soft edges, shaded and of random colours, painted into each of
    its training photographs until they cover a share of it: without the option, with it, and with the painted pixels
    left out by masks, which is the most that any option can reach. Held-out photographs have none. PSNR and SSIM on
    these, and the loss against the capture as it is; means over the seeds, of which each paints other ellipses.

How to run
    python tests/bench/train/transient_occluders.py [CAPTURE] [--small] [--share 0.1] [--steps 7000] [--max-size PIXELS]
        [--seeds 1] [--set NAME=VALUE,...] [--device cuda]
    Without CAPTURE the courtyard of scenes/synthetic/captures/courtyard.py is generated: 140 training views of 1000x666
    pixels, or with --small 61 of 480x320, for a CPU: --small --steps 3000 --set max_gaussians=40000.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from luxel.render.geometry.camera import Pixels, View
from luxel.render.train.presets import preset
from luxel.scenes import Capture
from luxel.scenes import open as open_capture
from luxel.scenes.synthetic.captures.courtyard import write_courtyard
from luxel.viewer.bench.train.variants import parse_variant

SIZES = 0.08, 0.22  # half axes of an ellipse, over the shorter side of its photograph
SOFT = 0.06  # width of its edge, over its half axes
VARIANTS = ("as it is", "occluders", "occluders, ignored", "occluders, masked")


def occluded(pixels: Pixels, share: float, rng: np.random.Generator) -> tuple[Pixels, np.ndarray]:
    """The photograph with ellipses over a share of its pixels, the last as small as that takes, and where they are.

    Returns:
        The photograph, and bool [H, W].
    """
    height, width = pixels.rgb.shape[:2]
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    rgb, hidden, number = (
        pixels.rgb.astype(np.float32),
        np.zeros((height, width), bool),
        round(share * height * width),
    )
    while (missing := number - int(hidden.sum())) > 0:
        axes = rng.uniform(*SIZES, 2) * min(height, width)
        turn = rng.uniform(0, np.pi)
        x, y = columns - rng.uniform(0, width), rows - rng.uniform(0, height)
        along = (x * np.cos(turn) + y * np.sin(turn)) / axes[0]
        across = (y * np.cos(turn) - x * np.sin(turn)) / axes[1]
        away = np.hypot(along, across)  # 1 at the edge
        size = min(1.0, float(np.partition(away[~hidden], missing - 1)[missing - 1]))
        cover = np.clip((size - away) / (SOFT * size), 0, 1)[..., None]
        shaded = rng.uniform(20, 235, 3) * (1 + (0.3 * along[..., None] + 0.1 * across[..., None]) / size)
        rgb = rgb * (1 - cover) + shaded * cover
        hidden |= away <= size
    return replace(pixels, rgb=rgb.clip(0, 255).astype(np.uint8)), hidden


def with_occluders(capture: Capture, share: float, seed: int, *, masked: bool) -> Capture:
    """The capture with other ellipses in each of its training photographs, which count only where ``masked`` is not."""

    def reader(view: View, index: int) -> Callable[[], Pixels]:
        def read() -> Pixels:
            pixels, hidden = occluded(view.read(), share, np.random.default_rng([seed, index]))
            if not masked:
                return pixels
            weight = np.full(hidden.shape, 255, np.uint8) if pixels.weight is None else pixels.weight
            return replace(pixels, weight=np.where(hidden, 0, weight).astype(np.uint8))

        return read

    return replace(capture, train=[replace(v, read=reader(v, i)) for i, v in enumerate(capture.train)])


def main() -> int:
    """Trains, prints one line of JSON a variant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", nargs="?", type=Path)
    parser.add_argument("--small", action="store_true", help="generate a few small views")
    parser.add_argument("--share", type=float, default=0.1, help="of each image that is covered (0.1)")
    parser.add_argument("--steps", type=int, default=7000)
    parser.add_argument("--max-size", type=int, help="of photographs, pixels on their longer side")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", default="", metavar="NAME=VALUE,...", help="of the training configuration")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if options.small and not options.capture:
            write_courtyard(Path(temporary), views=70, width=480, height=320, points=20_000)
        elif not options.capture:
            write_courtyard(Path(temporary))
        folder = options.capture or Path(temporary)
        capture = open_capture(folder, max_size=options.max_size)
        scores: dict[str, list[tuple[float, float]]] = {}
        for name in VARIANTS:
            for seed in range(options.seeds):
                seen = capture
                if name != VARIANTS[0]:
                    seen = with_occluders(capture, options.share, seed, masked=name.endswith("masked"))
                words = f"luxel:preset=default,steps={options.steps}"
                words += ",ignore_transients=true" if name.endswith("ignored") else ""
                words += f",{options.set}" if options.set else ""
                first = replace(preset("default", "gaussians"), lpips=False, save_renders=0)
                variant = parse_variant(words, first, 1).with_seed(seed)
                result = variant.train(seen, torch.device(options.device), None, None)
                scores.setdefault(name, []).append((result["psnr"], result["ssim"]))
            psnr, ssim = (fmean(column) for column in zip(*scores[name], strict=True))
            lost = fmean(row[0] for row in scores[VARIANTS[0]]) - psnr
            row = {"variant": name, "psnr": round(psnr, 3), "ssim": round(ssim, 4), "lost": round(lost, 3)}
            print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
