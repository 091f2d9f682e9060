"""What an encoding of positions is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from luxel.render.fields.nets.mlp import Mlp
    from luxel.render.fields.nets.point_function import PointFunction


class Encoding(nn.Module, ABC):
    """Numbers that a network is given in place of a position.

    An encoding of torch's operations defines `forward` and the two sizes; the rest is for encodings with trained
    tables, levels or kernels. Parameters that are not in `tables` are trained as the weights of networks are.

    Attributes:
        dimensions: D, of a position.
        width: E, how many numbers encode a position.
        twice: whether the derivative by positions can be differentiated again, by positions and parameters.
    """

    dimensions: int
    width: int
    twice: ClassVar[bool] = True

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Encodes positions.

        Args:
            x: [..., D], of the parameters' type and device.

        Returns:
            [..., E].

        Raises:
            ValueError: shape, type or device of x does not fit.
        """

    @property
    def tables(self) -> tuple[nn.Parameter, ...]:
        """Trained tables, of which a step reads few entries: they have no L2 penalty, and may be updated sparsely."""
        return ()

    def exact(self, x: Tensor) -> Tensor:
        """As `forward` for gradients by x alone, with tables in their own type where `forward` reads them in half."""
        return self(x)

    def prepared(self) -> Callable[[Tensor], Tensor]:
        """The encoding with its present parameters, for many calls: [N, D] to [N, E]; no gradients by parameters."""
        return self

    def stage(self, network: Mlp) -> PointFunction | None:
        """Encoding and network as one operation, with their present and later parameters; None where there is none.

        Args:
            network: it takes `width` numbers.
        """
        return None

    def fine(self, cells: int) -> slice:
        """Columns of the result that belong to levels of more cells than this along an axis; none without levels."""
        return slice(0, 0)
