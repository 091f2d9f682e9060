"""Growing and shrinking of selections by nearest neighbours, with a graph that is retained while it fits."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from luxel.render.ops.train.neighbours import neighbours
from luxel.render.primitives import Parameters

NEIGHBOURS = 6  # nearest others that count as the surroundings of a primitive
APPEARANCE = ("opacity_logits", "sh_dc", "sh_rest")  # parameters without influence on places
MIN_SHOWN = 0.5  # fraction of a graph's primitives that must still be shown


class Neighbourhood:
    """The nearest neighbours of the primitives that can be selected.

    Args:
        centres: [N, 3], float32.
        alive: bool [N], primitives that count.
    """

    def __init__(self, centres: Tensor, alive: Tensor) -> None:
        self.basis = alive
        self.count = int(alive.sum())
        nearest = neighbours(centres.float(), NEIGHBOURS, alive)  # own index where there are no more
        self._nearest = nearest.T.contiguous()

    def fits(self, alive: Tensor) -> bool:
        """Whether the graph serves for the primitives ``alive``: at least half of its own, and no others."""
        return not bool((alive & ~self.basis).any()) and int(alive.sum()) >= MIN_SHOWN * self.count

    def grow(self, mask: Tensor, alive: Tensor) -> Tensor:
        """The mask, and every primitive that has a neighbour in it or is a neighbour of one in it, bool [N].

        Args:
            mask: bool [N].
            alive: primitives that count; others pass nothing on.
        """
        mask = mask & alive
        grown = mask.clone()
        rows = mask.nonzero()[:, 0]
        for nearest in self._nearest:
            grown |= mask.index_select(0, nearest)
            grown[nearest.index_select(0, rows).long()] = True
        return grown & alive

    def shrink(self, mask: Tensor, alive: Tensor) -> Tensor:
        """The mask without what `grow` would add to the other primitives ``alive``, bool [N]."""
        return mask & alive & ~self.grow(~mask, alive)


class NeighbourGraphs:
    """The graph of all primitives of a scene, and one of those that are shown where that is less than half.

    A graph is built again when primitives have moved. Its methods may be called from any thread; while one builds, the
    others wait for the result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._positions: tuple[Tensor, ...] = ()
        self._of_all: Neighbourhood | None = None
        self._part: Neighbourhood | None = None

    def of(self, scene: Parameters, alive: Tensor) -> Neighbourhood:
        """A graph that serves for the primitives ``alive``, bool [N]."""
        with self._lock:
            if not self.built_for(scene):
                self._of_all, self._part = Neighbourhood(scene.centres, torch.ones_like(alive)), None
                self._positions = _positions(scene)
            assert self._of_all is not None
            if self._of_all.fits(alive):
                return self._of_all
            if self._part is None or not self._part.fits(alive):
                self._part = Neighbourhood(scene.centres, alive)
            return self._part

    @property
    def built(self) -> bool:
        """Whether there is a graph, of whatever places."""
        return self._of_all is not None

    def built_for(self, scene: Parameters) -> bool:
        """Whether the graph of all primitives is one of the places that they have now."""
        now = _positions(scene)
        return len(now) == len(self._positions) and all(
            a is b for a, b in zip(now, self._positions, strict=True)
        )


def _positions(scene: Parameters) -> tuple[Tensor, ...]:
    """The parameters that places depend on; they are replaced when they change."""
    return tuple(tensor for name, tensor in scene.tensors().items() if name not in APPEARANCE)
