"""MobileSAM on a capture with masks: how well a box of each mask brings the mask back, and how long that takes.

What it measures
    quality    IoU of the mask from the box prompt with the capture's own mask, per view, and its mean.
    time       encoder and decoder, median over the views: wall clock, and processor time per thread, which is what the
               wall clock would be on cores that nothing else uses.

How to run
    python tests/bench/captures/mobile_sam_masks.py CAPTURE [--weights FILE] [--device cpu] [--threads 2] [--part 0 1]
    CAPTURE has images/ and masks/; ``--part I N`` takes each Nth view from the Ith on, and ends with a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from luxel.render.nets.mobile_sam import load_mobile_sam


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    network = load_mobile_sam(options.weights, options.device)
    start, step = options.part
    results: dict[str, float] = {}
    times: dict[str, list[float]] = {"encoder": [], "decoder": [], "encoder cpu": [], "decoder cpu": []}

    def timed(stage: str, work):
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        if options.device != "cpu":
            torch.cuda.synchronize()
        times[stage].append(time.perf_counter() - wall)
        times[f"{stage} cpu"].append((time.process_time() - processor) / options.threads)
        return result

    for path in sorted((options.capture / "images").iterdir())[start::step]:
        image = torch.from_numpy(np.array(Image.open(path).convert("RGB")))
        mask = np.array(Image.open(options.capture / "masks" / f"{path.stem}.png").convert("L")) >= 128
        rows, columns = np.nonzero(mask)
        box = torch.tensor([[columns.min(), rows.min(), columns.max(), rows.max()]])
        embedding = timed("encoder", lambda image=image: network.encode(image))

        def decode(embedding=embedding, box=box):
            return network.predict(embedding, boxes=box, multimask=False).masks[0, 0].cpu()

        predicted = timed("decoder", decode).numpy()
        results[path.name] = float((predicted & mask).sum() / (predicted | mask).sum())
    values = list(results.values())
    worst = min(results, key=lambda name: results[name])
    print(
        f"{len(values)} views: mean IoU {statistics.mean(values):.4f}, worst {results[worst]:.4f} ({worst})"
    )
    print({stage: round(statistics.median(seconds), 3) for stage, seconds in times.items()})
    print(json.dumps({"iou": results, "times": times}))


if __name__ == "__main__":
    main()
