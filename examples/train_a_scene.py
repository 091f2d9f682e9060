"""Makes a synthetic capture, trains Gaussians on it, evaluates held-out views, and resumes the run.

python examples/train_a_scene.py [FOLDER] [STEPS]      a quarter of a minute on two CPU cores
"""

from __future__ import annotations

import sys
from pathlib import Path

import luxel.scenes
from luxel.render.native import best_device
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import TrainConfig, Trainer
from luxel.scenes.synthetic.toy import ring_cameras, write_toy_capture


def main(folder: Path, steps: int = 300) -> float:
    # A capture on disk, as a person would have it: images, transforms.json, points3D.ply.
    cameras = ring_cameras(24, width=96, height=72)
    write_toy_capture(folder / "capture", lambda s, c: rasterize(s, c).rgb.detach().numpy(), cameras=cameras)
    capture = luxel.scenes.open(folder / "capture")
    print(f"{len(capture.train)} training views, {len(capture.test)} held out")

    config = TrainConfig(steps=steps, lpips=False)
    views = {"train_views": capture.train, "test_views": capture.test}
    device = best_device()  # CUDA where luxel can use it, else the CPU
    trainer = Trainer(config, points=capture.points, run_dir=folder / "run", device=device, **views)
    result = trainer.run(progress=False)
    assert result.evaluation is not None
    print(result.evaluation.table())

    # The run folder holds everything: a finished run continues with more steps.
    longer = {"steps": steps + steps // 3}
    resumed = Trainer.resume(folder / "run", device=device, overrides=longer, **views)
    result = resumed.run(progress=False)
    assert result.test_psnr is not None
    print(f"after {result.step} steps: {result.test_psnr:.2f} dB on held-out views")
    return result.test_psnr


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"), *map(int, sys.argv[2:3]))
