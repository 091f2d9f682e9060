"""A new neural field in one file: the height of a landscape over the unit square, from a hash grid and a small network.

One entry of `APPLICATIONS` registers it: it is then trained, resumed, evaluated, viewed and rendered like the others,
with the same options.

    python examples/field.py [options of `luxel train --field`]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor

from luxel.render.fields.application import Application
from luxel.render.fields.applications import APPLICATIONS
from luxel.render.fields.build import field_of
from luxel.render.fields.config import FieldConfig
from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.landscape import landscape


class HeightField(Application):
    """Fits the mean of an image's channels as a height in [0, 1] over the unit square."""

    kind = "height"
    data_type = "image"
    training_defaults: ClassVar[dict[str, Any]] = {"ema": 0.99}
    hash_growth = 1.26

    def __init__(self, config: FieldConfig) -> None:
        super().__init__(config)
        self.field = field_of(config, dimensions=2, outputs=1)  # encoding, then network

    def begin(self, data: Any, device: torch.device) -> None:
        """Takes the image, [H, W, 3] uint8."""
        self._heights = torch.as_tensor(data).float().mean(-1).div(255).to(device)

    def _truth(self, positions: Tensor) -> Tensor:
        """Heights at positions in the unit square, [N, 2] to [N, 1], bilinear."""
        grid = (2 * positions - 1)[None, None]
        heights = torch.nn.functional.grid_sample(self._heights[None, None], grid, align_corners=False)
        return heights.reshape(-1, 1)

    def draw_batch(self, generator: torch.Generator) -> Tensor:
        """Random positions, [S, 2]."""
        return torch.rand(self.config.batch, 2, generator=generator, device=self.device)

    def loss(self, batch: Tensor) -> Tensor:
        """The squared error."""
        return (self.field(batch) - self._truth(batch)).square().mean()

    def evaluate(self) -> dict[str, float]:
        """PSNR in dB at a grid of positions."""
        axis = (torch.arange(128, device=self.device) + 0.5) / 128
        positions = torch.cartesian_prod(axis, axis)
        error = (self.field(positions) - self._truth(positions)).square().mean()
        return {"psnr": float(-10 * error.log10())}

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The heights seen from above as grey levels, [H, W, 3], whatever the camera's pose."""
        v, u = ((torch.arange(n, device=self.device) + 0.5) / n for n in (camera.height, camera.width))
        positions = torch.stack(torch.meshgrid(u, v, indexing="xy"), -1).reshape(-1, 2)
        heights = self.field(positions).float().clamp(0, 1)
        return heights.reshape(camera.height, camera.width, 1).expand(-1, -1, 3)


def register() -> None:
    """The one line; a field of the package has its module there instead of this file."""
    APPLICATIONS["height"] = f"{HeightField.__module__}:HeightField"


if __name__ == "__main__":
    sys.modules["field"] = sys.modules["__main__"]
    HeightField.__module__ = "field"
    register()
    from luxel.viewer.cli import main

    with tempfile.TemporaryDirectory() as folder:
        Image.fromarray(landscape(256, 256)).save(Path(folder) / "land.png")
        sys.exit(main(["train", f"{folder}/land.png", "--field", "height", *sys.argv[1:]]))
