"""Fits a neural field (a hash grid and a small network) to an image and evaluates it at another resolution.

python examples/fit_an_image.py [FOLDER] [STEPS]      writes field.png into FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from PIL import Image

from luxel.render.fields.config import FieldConfig
from luxel.render.fields.files import load_field
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.native import best_device
from luxel.scenes.synthetic.landscape import landscape
from luxel.scenes.synthetic.toy import as_bytes


def main(folder: Path, steps: int = 200) -> float:
    image = landscape(256, 256)  # [H, W, 3] uint8, a synthetic photograph
    config = FieldConfig(field="image", steps=steps, batch=1 << 13)
    trainer = FieldTrainer.new(config, image, folder / "run", best_device())
    result = trainer.run(progress=False)
    print(f"PSNR {result.scores['psnr']:.2f} dB after {result.step} steps")

    # The file is a function of the position: it renders at any size.
    field = load_field(folder / "run" / "field.safetensors")
    with torch.no_grad():
        Image.fromarray(as_bytes(field.render_size(512, 512).numpy())).save(folder / "field.png")
    return result.scores["psnr"]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"), *map(int, sys.argv[2:3]))
