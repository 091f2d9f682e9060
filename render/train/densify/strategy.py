"""The interface of a densification strategy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from luxel.render.bounds import Options
from luxel.render.train.step.schedules import Window

if TYPE_CHECKING:
    from luxel.render.train.densify.situation import Refinement, Situation
    from luxel.render.train.store.protocol import ParameterStore


class Strategy(Options, ABC):
    """Base of the dataclasses of strategies: it decides when primitives are added, split, moved and removed, and how.

    ``clock`` is everywhere the step that the schedules are at; it differs from ``step`` in runs paced by time.

    Attributes:
        about: what it does, a clause for help texts.
        first_opacity: opacity of the first primitives where the options give none.
        noise: strength of random moves of Gaussians, times the learning rate of the centres; 0: none.
        follows_images: whether it needs `ImageContent` of the training images.
        absolute: whether statistics hold per-pixel absolute gradients too (AbsGS, Ye et al. 2024).
        sums_views: of the views of a step, statistics add up; else the largest of each number counts once, as in Duan
            et al. 2024.
    """

    about: ClassVar[str] = ""
    first_opacity: ClassVar[float] = 0.1
    noise = 0.0
    follows_images: ClassVar[bool] = False
    absolute = False
    sums_views: ClassVar[bool] = False

    def penalties(self, coverage: float) -> tuple[float, float]:
        """Weights of mean opacity and mean scale (as a share of the scene extent) in the loss.

        Args:
            coverage: share of the pixels of the training images that show the scene, see `ImageContent`.
        """
        return 0.0, 0.0

    def check(self) -> None:
        """Raises LuxelError for invalid options."""
        return

    @abstractmethod
    def window(self, steps: int) -> Window:
        """The steps at which the set of primitives changes, in a run of ``steps`` steps."""
        ...

    def needs_statistics(self, clock: float, steps: int) -> bool:
        """Whether a step gathers `DensifyStatistics`; never by default."""
        return False

    def due(self, step: int, clock: float, steps: int) -> bool:
        """Whether `after_step` has something to do after ``step`` steps; by default within the window."""
        return self.window(steps).acts(step, clock)

    def limit(self, now: Situation) -> int | None:
        """Most primitives that the strategy and ``now.cap`` allow; None: it sets no limit of its own."""
        return now.cap

    @abstractmethod
    def after_step(self, store: ParameterStore, now: Situation) -> Refinement | None:
        """Changes the set of primitives where it is due; the caller then starts new statistics.

        Returns:
            What was done; None: nothing.
        """
        ...
