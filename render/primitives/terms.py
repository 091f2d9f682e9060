"""Terms of the loss of a training step in addition to the photometric one, as primitives and training state them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

Channel = Literal["rgb", "transmittance", "depth", "square", "normals", "distance"]
OF_DEPTH = frozenset({"depth", "square", "normals", "distance"})  # for them depth is rendered
OF_NORMALS = frozenset({"square", "normals", "distance"})  # for them normals are rendered too


class LossContext(NamedTuple):
    """What the weights of the terms of a step depend on."""

    loss: Any  # options, of the type that the specification of the primitive names
    penalties: tuple[float, float]  # weights of mean opacity and of mean scale in capture units
    densifies: bool  # whether statistics for densification are gathered in this step
    progress: float = 0.0  # share of the run that is done, in [0, 1]


class StepImages(NamedTuple):
    """Images of B views of a step; z is the depth at a pixel, w = T alpha of each primitive there.

    Depth and what follows from it are None where no term of the step reads them.
    """

    depth: Tensor  # sum of w z, [B, H, W], capture units
    square: Tensor | None  # sum of w z^2, [B, H, W]; with `Parameters.depth_moments` of 2
    normals: Tensor  # sum of w times the world-space normal, [B, H, W, 3]
    transmittance: Tensor  # 1 less the sum of w, [B, H, W]
    weight: Tensor | None  # of pixels in the loss, [B, H, W]; None: all 1
    world_to_cam: Tensor  # [B, 4, 4]
    intrinsics: Tensor  # [B, 4] fx, fy, cx, cy, px; with lenses [B, 12]
    distance: Tensor | None = (
        None  # sum of w times the distance of planes, [B, H, W]; with `Parameters.planar`
    )
    targets: Tensor | None = None  # [B, H, W, 3]
    rgb: Any = None  # rendered colours, before the exposure of the views, [B, H, W, 3]
    known_alpha: Tensor | None = None  # of the targets, [B, H, W]
    known_depth: Tensor | None = None  # capture units, [B, H, W]; 0: not known

    @property
    def alpha(self) -> Tensor:
        """Sum of w, [B, H, W]."""
        return 1 - self.transmittance


class StepScene(NamedTuple):
    """The primitives of a step."""

    primitives: Any  # spare rows of opacity 0 included
    inverse_count: Tensor  # 1 / N without the spare ones, [1]
    visible: Callable[[], Tensor]  # which of them a view of the step sees, bool [N]
    auxiliary: Any = None  # state of the primitive, see `PrimitiveEngine.auxiliary`


class Weight(NamedTuple):
    """The weight of a term in a step."""

    number: float
    on_device: Tensor  # the same, a scalar


class StepTerm(NamedTuple):
    """A term of the loss. Nothing that it calls may wait for the device.

    Args:
        name: no other term of a run has it.
        apply: the value, a scalar with gradients by autograd; None: the step has nothing to compare with. Called with
            `StepImages`, of which it gives the mean over views, or with `StepScene`. With ``gradients`` it is called
            with `StepImages` and `Weight`, and the value is weighted.
        weight: in the loss; of 0 and less the term is absent from the step.
        reads: channels of the images that it needs, of `Channel`.
        on: what it is a function of.
        kernel: penalty that the backward of the projection adds, instead of ``apply``, where it has one of that name.
        columns: parameter over whose columns that penalty is a sum, while ``apply`` has their mean; empty: none.
        gradients: for steps without autograd, of the same inputs: the weighted value, and its gradients by channels.
            None: by autograd.
        fixed: the weight is an argument of a kernel, so that a captured step is captured again where it changes.
        column: of the table of `gather_view`, where the weight is; None: it is sent to the device when it changes.
    """

    name: str
    apply: Callable[..., Tensor | None]
    weight: Callable[[LossContext], float]
    reads: frozenset[str] = frozenset()
    on: Literal["images", "rows"] = "images"
    kernel: str = ""
    columns: str = ""
    gradients: Callable[[StepImages, Weight], tuple[Tensor | None, dict[str, Tensor]]] | None = None
    fixed: bool = False
    column: int | None = None
