"""An application: a field together with how it is trained, drawn and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from luxel.render.camera import Camera
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.encodings import GridEncoding


class Application(nn.Module, ABC):
    """Base of image, sdf, volume and radiance fields.

    A subclass is made from its configuration alone, on the CPU: ``ImageField(config)``. ``state_dict()`` holds
    everything that drawing needs beside it: tables, weights, and what the data told `begin` (a box, an occupancy grid)
    as registered buffers of a size that the configuration fixes.

    Attributes:
        kind: by which the command line and files know it.
        noun: what `count` counts.
        capturable: whether `draw_batch` and `loss` can be captured in a CUDA graph and replayed: all shapes are the
            same in every step, and nothing asks the device. Those of another backend are not.
        outputs: what `render` can show, of the viewer's outputs.
        up, front: directions in its world: upwards in a picture, and from its middle to a good first camera; None
            where that does not matter.
        config: of this field.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "parameters"
    capturable: ClassVar[bool] = True
    outputs: ClassVar[tuple[str, ...]] = ("colour",)
    up: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 1.0)
    front: ClassVar[tuple[float, float, float] | None] = None
    moves: ClassVar[bool] = False
    antialiases: ClassVar[bool] = False
    resizable: ClassVar[bool] = False

    def __init__(self, config: FieldConfig) -> None:
        super().__init__()
        self.config = config

    def table_parameters(self) -> list[nn.Parameter]:
        """Trainable tables of grid encodings."""
        return [m.table for m in self.modules() if isinstance(m, GridEncoding)]

    def weight_parameters(self) -> list[nn.Parameter]:
        """All other parameters: weights of networks, on which the L2 penalty is."""
        tables = {id(table) for table in self.table_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in tables]

    @classmethod
    def suited(cls, config: FieldConfig, data: Any) -> FieldConfig:
        """The configuration completed by what the data say, before the field is made; as it is, unless a kind needs it.

        Args:
            data: as `begin` takes them.
        """
        return config

    @abstractmethod
    def begin(self, data: Any, device: torch.device) -> None:
        """Takes what it is trained on and judged by; before training, and not needed for drawing.

        Args:
            data: as the kind has it.
            device: where it is trained; the parameters are there already.

        Raises:
            LuxelError: the data cannot be used.
        """

    @abstractmethod
    def draw_batch(self, generator: torch.Generator) -> Any:
        """Samples of one step, on the device; nothing is read back.

        Args:
            generator: the only source of chance, on the device.
        """

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The loss of a batch, a scalar, with its gradients by the parameters."""

    def after_step(self, step: int) -> None:
        """Called after step number ``step`` (0 is the first), with the parameters that it has left; not captured."""

    def kept_samples(self) -> dict[str, Tensor]:
        """Samples, by name, that later batches are drawn from: a checkpoint has them, and a resumed run fills them in
        place after `begin`. None, unless a kind keeps any.
        """
        return {}

    def capture_key(self) -> Hashable:
        """What a captured step depends on beside the contents of tensors; where it changes, a step is captured anew."""
        return ()

    @abstractmethod
    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """What a camera sees, [H, W, 3] in [0, 1], in the colour space of photographs.

        Args:
            camera: one, on the field's device.
            background: colour behind the field, [3]; None: black.
        """

    @abstractmethod
    def evaluate(self) -> dict[str, float]:
        """How good the field is by the data of `begin`, for example {"psnr": 41.2}; may wait for the device."""

    def numbers(self) -> dict[str, int]:
        """How many numbers are trained, by the name of a trainer's status."""
        return {"count": self.count}

    def detach(self) -> Self:
        """The same: drawing keeps no gradients."""
        return self

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @property
    def count(self) -> int:
        """How many numbers are trained."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def centres(self) -> Tensor:
        """Points that outline what is drawn, [P, 3]: the corners of the unit cube, unless a subclass knows better."""
        corners = torch.tensor([0.0, 1.0], device=self.device)
        return torch.cartesian_prod(corners, corners, corners)
