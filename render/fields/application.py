"""An application: a field together with how it is trained, rendered, scored and exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from luxel.render.errors import LuxelError
from luxel.render.fields.applications import application_type, application_types
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.encodings.encoding import Encoding
from luxel.render.fields.encodings.grid import HASH_GROWTH
from luxel.render.geometry.camera import Camera
from luxel.render.mesh.marching_cubes import field_surface
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.ops.field.march_rays import Region

TO_SUN = (0.4, -0.5, 0.77)  # direction towards the sun where none is chosen
DataType = Literal["image", "mesh", "volume", "capture"]


class Application(nn.Module, ABC):
    """Base of all applications; see `luxel.render.fields.applications` for how one is registered.

    A subclass is made from its configuration alone, on the CPU: ``ImageField(config)``. ``state_dict()`` holds
    everything else that drawing needs: tables, weights, and what `begin` derives from the data (a box, an occupancy
    grid) as registered buffers of a size that the configuration fixes.

    Attributes of the class:
        kind: its name in the registry.
        config_type: `FieldConfig`, or a subclass with options of its own.
        training_defaults: values of the configuration that differ from those of ``config_type``.
        hash_growth: growth from level to level of its hash encoding where the configuration names no finest level.
        data_type: what it is trained on: an image [H, W, 3], a triangle mesh, a volume [Z, Y, X] or [Z, Y, X, 4], or a
            capture as `luxel.render.fields.capture.posed_images.PosedImages`.
        noun: what `count` counts.
        capturable: whether `draw_batch` and `loss` can be captured in a CUDA graph and replayed: all shapes are the
            same in every step, and nothing is read back from the device. Another backend is never captured.
        outputs: what `render` can show, of the viewer's outputs.
        up, front: directions in its world: upwards in an image, and from its middle to a good first camera; None where
            that does not matter.
        surface_level: density of its exported surface unless another one is given, which needs `densities` and
            `region`; None: it has no density.
        moves, antialiases, resizable: as of `luxel.render.primitives.parameters.Parameters`, which the viewer reads of
            both; all False.
        flat: whether it is rendered as a plane visible from +z, which a viewer moves and scales instead of turning it.

    Attributes:
        config: of this field.
        exposure: of an image of linear colours (`FieldConfig.linear`), as a power of two.
        loss_scalars: `FieldConfig.loss_scalars_at` of the present step, on the device, for `loss`; None outside of the
            steps of a `FieldOptimizer`.
    """

    kind: ClassVar[str]
    config_type: ClassVar[type[FieldConfig]] = FieldConfig
    training_defaults: ClassVar[Mapping[str, Any]] = {}
    hash_growth: ClassVar[float] = HASH_GROWTH
    data_type: ClassVar[DataType]
    noun: ClassVar[str] = "parameters"
    capturable: ClassVar[bool] = True
    outputs: ClassVar[tuple[str, ...]] = ("colour",)
    up: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 1.0)
    front: ClassVar[tuple[float, float, float] | None] = None
    surface_level: ClassVar[float | None] = None
    moves: ClassVar[bool] = False
    antialiases: ClassVar[bool] = False
    resizable: ClassVar[bool] = False
    flat: ClassVar[bool] = False

    def __init__(self, config: FieldConfig) -> None:
        super().__init__()
        self.config, self.exposure = config, 0.0
        self.loss_scalars: Tensor | None = None

    def table_parameters(self) -> list[nn.Parameter]:
        """Trainable tables of encodings."""
        return [table for m in self.modules() if isinstance(m, Encoding) for table in m.tables]

    def weight_parameters(self) -> list[nn.Parameter]:
        """All other parameters: weights of networks, which have the L2 penalty."""
        tables = {id(table) for table in self.table_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in tables]

    @classmethod
    def adapt_config(cls, config: FieldConfig, data: Any) -> FieldConfig:
        """The configuration with the values that depend on the data, before the field is made; by default unchanged.

        Args:
            config: as given by the user.
            data: as `begin` takes them.
        """
        return config

    @abstractmethod
    def begin(self, data: Any, device: torch.device) -> None:
        """Takes the data that the field is trained and scored on; called before training, not needed for drawing.

        Args:
            data: of its `data_type`.
            device: where it is trained; the parameters are there already.

        Raises:
            LuxelError: the data cannot be used.
        """

    @abstractmethod
    def draw_batch(self, generator: torch.Generator) -> Any:
        """Samples of one step, on the device; nothing is read back.

        Args:
            generator: the only source of randomness, on the device.
        """

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The loss of a batch, a scalar, with its gradients by the parameters."""

    def before_step(self, step: int) -> None:
        """Called before step number ``step`` (from 0); not part of a captured step. Nothing may wait for the device."""

    def after_step(self, step: int) -> None:
        """Called after step number ``step`` (from 0) with the updated parameters; not part of a captured step."""

    def stored_samples(self) -> dict[str, Tensor]:
        """Samples, by name, that later batches are drawn from; empty unless an application stores some.

        A checkpoint holds them, and a resumed run restores them in place after `begin`.
        """
        return {}

    def auxiliary_parameters(self) -> dict[str, Tensor]:
        """What is learnt of the training data alongside the field, by name: leaves of autograd on the device.

        Known after `begin`; part of checkpoints, but not of the field's file, since drawing does not need them.
        """
        return {}

    def capture_key(self) -> Hashable:
        """What a captured step depends on besides the contents of tensors; a change causes a new capture."""
        return ()

    @abstractmethod
    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The image of a camera, [H, W, 3] in [0, 1], sRGB.

        Args:
            camera: one, on the field's device.
            background: colour behind the field, [3]; None: black.
        """

    def render_sunlit(
        self, camera: Camera, background: Tensor | None = None, to_sun: tuple[float, float, float] = TO_SUN
    ) -> Tensor:
        """The image of a camera in the light of a sun, with shadows, of an application with the output "shadows".

        Args:
            camera, background: as of `render`.
            to_sun: direction towards the sun, world coordinates, of any length above 0.
        """
        raise NotImplementedError(f"A field of {self.kind!r} has no shadows")

    @abstractmethod
    def evaluate(self) -> dict[str, float]:
        """Scores on the data of `begin`, for example {"psnr": 41.2} (dB); may wait for the device."""

    def image_size(self) -> tuple[int, int] | None:
        """Width and height in pixels of an application that is an image itself; None for all others."""
        return None

    def bands(
        self, width: int, height: int, window: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    ) -> Iterator[Tensor]:
        """A part of an application that has an `image_size`, a few rows at a time, [R, width, 3] in [0, 1] each.

        Args:
            width, height: of the result, pixels.
            window: left, top, right and bottom of the part, as shares of the full image.
        """
        raise NotImplementedError(f"A field of {self.kind!r} is rendered by a camera")

    def render_size(self, width: int, height: int) -> Tensor:
        """The full image at a resolution, [H, W, 3] in [0, 1], of an application that has an `image_size`."""
        return torch.cat(list(self.bands(width, height)))

    def surface(self, resolution: int, level: float | None = None) -> TriangleMesh:
        """Its surface as triangles in the coordinates of its data, by marching cubes.

        Args:
            resolution: cells along its box.
            level: density of the surface, per longest side of the box; None: `surface_level`.

        Raises:
            LuxelError: it has no surface, or a level and no density.
        """
        if self.surface_level is None:
            names = ", ".join(name for name, cls in application_types() if cls.exports_surface())
            raise LuxelError(f"A field of {self.kind!r} has no surface.", f"Give one of {names}.")
        chosen = self.surface_level if level is None else level
        mesh = field_surface(
            lambda x: chosen - self.densities(self.region.to_field(x)), resolution, device=self.device
        )
        box = mesh.vertices.new_tensor(self.region.box)
        return TriangleMesh(box[:3] + mesh.vertices * (box[3:] - box[:3]), mesh.faces)

    @classmethod
    def exports_surface(cls) -> bool:
        """Whether `surface` gives a mesh."""
        return cls.surface_level is not None or cls.surface is not Application.surface

    def densities(self, positions: Tensor) -> Tensor:
        """Density at positions in its box as [0, 1]^3, [N, 3] to [N], per longest side of the box."""
        raise NotImplementedError(f"A field of {self.kind!r} has no density")

    @property
    def region(self) -> Region:
        """Its box, and how rays are sampled in it; of applications that have a density."""
        raise NotImplementedError(f"A field of {self.kind!r} has no density")

    def numbers(self) -> dict[str, int]:
        """The number of trained parameters, under the key that a trainer's ``status`` uses."""
        return {"count": self.count}

    def detach(self) -> Self:
        """Itself: drawing stores no gradients."""
        return self

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    @property
    def count(self) -> int:
        """The number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def centres(self) -> Tensor:
        """Points that outline what is rendered, [P, 3]: corners of the unit cube unless overridden."""
        corners = torch.tensor([0.0, 1.0], device=self.device)
        return torch.cartesian_prod(corners, corners, corners)


def make_application(config: FieldConfig) -> Application:
    """The application that a configuration describes, with its first parameters, on the CPU.

    Raises:
        LuxelError: the configuration is invalid.
    """
    config.check()
    return application_type(config.field)(config)
