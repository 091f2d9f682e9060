"""The base class of all primitives: a set of parameter tensors with one row per primitive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.ops.raster.projection import REST
from luxel.render.primitives.similarity import Similarity

SH_C0 = 0.28209479177387814  # Y_0^0: a colour from all sides is 0.5 + SH_C0 sh_dc


class Viewing(NamedTuple):
    """The cameras and options of a projection."""

    world_to_cam: Tensor  # [C, 4, 4]
    intrinsics: Tensor  # [C, 4] fx, fy, cx, cy, px; with a lens [C, 12], see `Camera.calibration`
    times: Tensor | None  # [C], of primitives that move
    width: int
    height: int
    near: float
    far: float
    sh_degree: int
    dilation: float  # px^2 on the diagonal of screen covariances
    antialiased: bool
    with_depth: bool
    with_normals: bool
    shutters: Tensor | None = None  # [C, 8], see `luxel.render.geometry.shutter`


class Projected(NamedTuple):
    """Primitives on the screens of C cameras, for the stages that bin and blend them."""

    splats: Tensor  # [C, N, W], a row as the policy has it: x, y, opacity and depth first
    values: (
        Tensor  # [C, N, D]: rgb, then depth (1), its square (if `Parameters.depth_moments` is 2), normal (3)
    )
    tile_counts: Tensor  # int32 [C, N], 0 where culled
    totals: Tensor  # int64 [2]: splats that touch a tile, (tile, splat) pairs


class Parameters(ABC):
    """Base of dataclasses whose fields are all tensors with one row per primitive.

    Attributes:
        names: the fields, in order.
        primitive: name on the command line and in files of runs.
        noun: plural noun for messages.
        moves: whether an image of them depends on the time; they then have ``times`` [N], and `at`.
        outputs: images that the rasterizer can render of them.
        antialiases: whether Mip-Splatting's opacity compensation applies to them.
        resizable: whether the viewer can draw them larger or smaller about their centres, see `scaled`.
        planar: whether `luxel.render.primitives.planes` gives them a depth that varies over their pixels.
        policy: the splat that the tile rasterizer blends, see `luxel.render.ops.raster.policies`.
    """

    names: ClassVar[tuple[str, ...]]
    primitive: ClassVar[str]
    noun: ClassVar[str]
    moves: ClassVar[bool] = False
    outputs: ClassVar[tuple[str, ...]] = ("colour", "alpha", "depth", "normals", "count")
    antialiases: ClassVar[bool] = True
    resizable: ClassVar[bool] = True
    planar: ClassVar[bool] = False
    policy: ClassVar[str] = "gaussians"
    opacity_logits: Tensor
    sh_rest: Tensor

    def __init_subclass__(cls) -> None:
        """Takes the names from the annotations of the class; without any, its names are those of its base."""
        super().__init_subclass__()
        if own := tuple(cls.__annotations__):
            cls.names = own

    if TYPE_CHECKING:

        def __init__(self, *tensors: Any, **named: Any) -> None:
            """Given by the dataclass."""

    @property
    def count(self) -> int:
        """The number of primitives, N."""
        return self.opacity_logits.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.opacity_logits.device

    @classmethod
    def depth_moments(cls, depth: bool, normals: bool) -> int:
        """How many values, from channel 3 on, are powers of a depth that varies over the pixels of a primitive.

        Args:
            depth, normals: what is requested in addition to colours.
        """
        return 0

    @property
    def sh_degree(self) -> int:
        """The highest degree that the stored coefficients allow, 0..3; 0 where there are none."""
        return REST.index(self.sh_rest.shape[1]) if "sh_rest" in self.names else 0

    @property
    def opacities(self) -> Tensor:
        """Opacities in (0, 1), [N]."""
        return self.opacity_logits.sigmoid()

    def numbers(self) -> dict[str, int]:
        """N and the highest SH degree, under the keys that a trainer's ``status`` uses."""
        return {"count": self.count, "sh_degree": self.sh_degree}

    @property
    @abstractmethod
    def centres(self) -> Tensor:
        """Centres in world coordinates, [N, 3]; of moving primitives, at their centres in time."""
        ...

    @abstractmethod
    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """Projects to the screens of C cameras, differentiable.

        Args:
            view: cameras and options.
            statistics: [N, 4], added to by the backward pass, see `luxel.render.raster.rasterize.DensifyStatistics`.

        Raises:
            ValueError: the primitive does not support an option.
        """
        ...

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same primitives, ``factor`` times as large about their centres."""
        ...

    def transformed(self, similarity: Similarity) -> Self:
        """The same primitives rotated, scaled and moved together: a camera that moves along sees the same image.

        Raises:
            LuxelError: the primitive does not support it.
        """
        raise LuxelError(f"{self.noun} cannot be moved, rotated or scaled.", "Select, hide or delete them.")

    def centres_at(self, time: float) -> Tensor:
        """Centres at ``time``, [N, 3]; not a number where a moving primitive is not visible then."""
        return self.centres

    @property
    def sizes(self) -> Tensor:
        """How far each reaches: a standard deviation along its longest axis, capture units, [N].

        Raises:
            LuxelError: the primitive does not support it.
        """
        raise LuxelError(
            f"{self.noun} have no size to select by.", "Select them by position, opacity or colour."
        )

    @property
    def base_colours(self) -> Tensor:
        """Colours averaged over all directions, not clamped, [N, 3]."""
        return 0.5 + SH_C0 * self.tensors()["sh_dc"]

    def with_base_colours(self, colours: Tensor) -> Self:
        """The same primitives with other `base_colours` [N, 3]; their change with the direction stays."""
        return type(self)(**(self.tensors() | {"sh_dc": (colours - 0.5) / SH_C0}))

    def at(self, time: float) -> Parameters:
        """What is visible at ``time`` as static primitives, without gradients; primitives that do not move return
        themselves."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name, in the order of ``names``."""
        return {name: getattr(self, name) for name in self.names}

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """A new set with ``function`` applied to each parameter tensor."""
        return type(self)(**{name: function(tensor) for name, tensor in self.tensors().items()})

    def to(self, target: torch.device | torch.dtype | str) -> Self:
        """The same primitives on another device or in another float type."""
        return self.map(lambda t: t.to(target))

    def detach(self) -> Self:
        """The same storage without gradients."""
        return self.map(lambda t: t.detach())

    def requires_grad_(self, on: bool = True) -> Self:
        """Switches gradients of every parameter, in place."""
        for tensor in self.tensors().values():
            tensor.requires_grad_(on)
        return self

    def select(self, index: Tensor) -> Self:
        """The primitives at ``index`` (integer positions or a boolean mask), copied."""
        return self.map(lambda t: t[index])

    @classmethod
    def cat(cls, a: Self, b: Self) -> Self:
        """Both sets one after the other."""
        pairs = zip(a.tensors().items(), b.tensors().values(), strict=True)
        return cls(**{name: torch.cat([x, y]) for (name, x), y in pairs})

    def check(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Compares the tensors with the shapes that they must have, and ``sh_rest`` with those of a degree.

        Raises:
            ValueError: one differs; the message names it.
        """
        for name, shape in expected.items():
            actual = tuple(getattr(self, name).shape)
            if actual != shape:
                raise ValueError(f"{name} must be {list(shape)}, got {list(actual)}")
        if "sh_rest" not in self.names:
            return
        n, rest = self.opacity_logits.shape[0], tuple(self.sh_rest.shape)
        if len(rest) != 3 or rest[0] != n or rest[1] not in REST or rest[2] != 3:
            raise ValueError(f"sh_rest must be [{n}, {' | '.join(map(str, REST))}, 3], got {list(rest)}")
