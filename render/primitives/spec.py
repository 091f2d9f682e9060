"""The specification of a primitive, read by training, files, the command line, the viewer and benchmarks.

A new primitive is a folder next to the others with a `PrimitiveSpec`, and one line in `luxel.render.primitives`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from luxel.render.primitives.terms import StepTerm
from luxel.render.primitives.training import Init, Loss, Rates

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from luxel.render.geometry.camera import Points, View
    from luxel.render.ops.raster.projection import Projection
    from luxel.render.primitives.parameters import Parameters


class Start(NamedTuple):
    """The inputs of the initial primitives besides the points."""

    init: Any  # options, of the type that the specification names
    opacity: float  # from the options, or else from the strategy
    views: Sequence[View]  # training views
    seed: int
    device: torch.device


class Rows(Protocol):
    """The rows of a store of parameters, which are added, removed and reordered."""

    inverse_count: Tensor  # 1 / N, [1]

    @property
    def version(self) -> int:
        """Increases whenever rows are added, removed or reordered."""
        ...

    @property
    def count(self) -> int:
        """The number of primitives, N."""
        ...

    @property
    def capacity(self) -> int:
        """Number of rows, spare rows included."""
        ...


class AuxiliaryState(Protocol):
    """State of a primitive that is stored between steps besides its rows, and the term of the loss that uses it.

    It is renewed on the device in the steps that `plan` selects on the host; nothing waits for the device. It must be a
    function of the steps that took effect, so that a run resumed from a checkpoint continues as if it had not stopped.
    """

    def plan(self, step: int, store: Rows) -> bool:
        """Allocates all rows; returns whether step number ``step`` renews the state. Called before every step."""
        ...

    def renew(self, scene: Any, status: Tensor) -> None:
        """Renews the state within a step, unless the steps have stalled: ``status[1]`` (see `count_step_`) is not 0."""
        ...

    def value(self, scene: Any, visible: Tensor) -> Tensor:
        """That term, a scalar, from the primitives and which of them a view of the step sees (bool [N])."""
        ...

    def tensors(self, store: Rows) -> dict[str, Tensor]:
        """Tensors for a checkpoint, by name; none if the next step renews the state anyway."""
        ...

    def restore(self, tensors: dict[str, Tensor], store: Rows) -> None:
        """The reverse of `tensors`; where tensors are missing or have another shape, the next step renews the state."""
        ...


class Preset(NamedTuple):
    """A named configuration: values of `TrainConfig` as config.json has them, where they differ from the defaults."""

    about: str  # for help texts, a clause
    values: Mapping[str, Any] = {}


class Columns(NamedTuple):
    """Properties of a PLY file that hold one parameter.

    Args:
        parameter: its name; empty: properties that are written as 0 and not read.
        names: of the properties, in order. With "{}" they repeat for the rows 0, 1, ... of a parameter [N, R, ...].
        repeats: least and most number R of such rows; None: ``names`` do not repeat.
    """

    parameter: str
    names: tuple[str, ...]
    repeats: tuple[int, int] | None = None


# Spherical harmonics as all viewers of 3DGS read them; coefficients above degree 0 channel by channel.
SH_COLUMNS = (Columns("sh_dc", ("f_dc_0", "f_dc_1", "f_dc_2")), Columns("sh_rest", ("f_rest_{}",), (0, 45)))


@dataclass(frozen=True)
class Costs:
    """Lower bounds of the costs of one primitive, for the roofline of a benchmark; evaluating SH is not included.

    Args:
        splat: bytes of its row on the screen, without its colour.
        pair: bytes that blending reads of a (tile, splat) pair: its index, the inputs of alpha, its colour.
        blend, blend_backward: floating-point operations per contribution to a pixel.
        cull: floating-point operations per primitive.
        project, project_backward: floating-point operations per visible primitive, and of its gradient.
    """

    splat: int
    pair: int
    blend: int
    blend_backward: int
    cull: int
    project: int
    project_backward: int


class PublishedSpeed(NamedTuple):
    """Frames per second of a published system as its authors report them, for the report of a benchmark."""

    system: str
    scene: str
    fps: str
    hardware: str


class PrimitiveMesh(NamedTuple):
    """Coloured triangles that primitives were turned into."""

    xyz: np.ndarray  # float32 [V, 3], world coordinates
    rgb: np.ndarray  # uint8 [V, 3]
    faces: np.ndarray  # int32 [F, 3], anticlockwise viewed from outside
    parts: int  # number of primitives that the mesh contains
    left_out: Mapping[str, int]  # numbers of primitives that it does not contain, by reason


def no_state(loss: Any) -> None:
    """No auxiliary state."""


@dataclass(frozen=True)
class PrimitiveEngine:
    """What computes with a primitive. It needs torch, so that a specification imports it on first use.

    Args:
        parameters: its tensors; a class that also has its name, its noun, and how it is displayed (``outputs``,
            ``antialiases``, ``resizable``, ``moves``) and rendered (``policy`` of the tile rasterizer, ``project``).
        initialise: makes the primitives that training starts from, of points with finite coordinates.
        from_gaussians: the same scene made of this primitive, row by row; for benchmarks.
        projection: the stage that projects it, whose backward also updates the parameters (`project_adam_`). None: it
            is projected through autograd, for example by the stages of other primitives, and steps take the general
            path.
        terms: of the loss, with weights among its options, in addition to those of `luxel.render.train.step.terms`.
            Terms that read normals need `Parameters.depth_moments` or `Parameters.planar`.
        auxiliary: makes the state of a run, from the options of the loss; None where there is none.
        on_resolution_change: changes the primitives in place when training continues with images ``factor`` times as
            wide; no gradients, but moments stay. None: nothing depends on the size of images.
        to_mesh: turns primitives into triangles, leaving out those of less than an opacity (None: its default).
    """

    parameters: type[Parameters]
    initialise: Callable[[Points, Start], Parameters]
    from_gaussians: Callable[[Any], Parameters]
    projection: Projection | None = None
    terms: tuple[StepTerm, ...] = ()
    auxiliary: Callable[[Any], AuxiliaryState | None] = no_state
    on_resolution_change: Callable[[Any, float], None] | None = None
    to_mesh: Callable[[Any, float | None], PrimitiveMesh] | None = None


@dataclass(frozen=True)
class PrimitiveSpec:
    """A primitive: what its options, its files and help texts need to know, and the engine that computes with it.

    The module of a specification imports no torch, so that `luxel train --help` does without it.

    Args:
        name: on the command line and in files of runs; ``primitive`` of its parameters.
        noun: in sentences, of many of them; ``noun`` of its parameters.
        load_engine: imports what computes with it.
        columns: properties of a PLY file, in the order in which they are written. With `SH_COLUMNS` among them.
        costs: for the roofline.
        marks: properties that only PLY files of this primitive have; none: the primitive of files without marks that
            have its properties, of several the first that is registered.
        exact: parameters that stay float32 in files of half precision.
        rates, loss, init: options of training.
        about: what it is, a clause for help texts.
        strategies: names of densification strategies in `luxel.render.train.densify.STRATEGIES`; the first is the
            default.
        presets: configurations by name; "default" must be there.
        backends: names of the rasterizer backends that draw it.
        published: speeds that the authors of other systems report.
    """

    name: str
    noun: str
    load_engine: Callable[[], PrimitiveEngine]
    columns: tuple[Columns, ...]
    costs: Costs
    marks: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    rates: type[Rates] = Rates
    loss: type[Loss] = Loss
    init: type[Init] = Init
    about: str = ""
    strategies: tuple[str, ...] = ("fixed",)
    presets: Mapping[str, Preset] = field(default_factory=lambda: {"default": Preset("the defaults")})
    backends: tuple[str, ...] = ("luxel",)
    published: tuple[PublishedSpeed, ...] = ()

    @cached_property
    def engine(self) -> PrimitiveEngine:
        """What computes with it, imported on first use.

        Raises:
            ValueError: its parameters have another name or noun.
        """
        engine = self.load_engine()
        named = engine.parameters.primitive, engine.parameters.noun
        if named != (self.name, self.noun):
            raise ValueError(
                f"spec.name and spec.noun must be those of the parameters, got {self.name}, {self.noun}"
            )
        return engine
