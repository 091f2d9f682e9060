"""The configuration of radiance fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from luxel.render.bounds import Bounds, Positive, ShareBelow1, Weight
from luxel.render.fields.config import FieldConfig
from luxel.render.ops.field.cascade_count import MOST_CASCADES

ExtentName = Literal["auto", "box", "contracted", "cascades"]


@dataclass
class RadianceConfig(FieldConfig):
    """A radiance field and its training."""

    marched: Annotated[int, Bounds(0, 64)] | None = None
    """Batches of samples that are marched and evaluated for density alone, to fill one batch with visible samples;
    0: a step takes all samples. None: 4, in a whole place 2."""
    least_alpha: ShareBelow1 = 0.0
    """With `marched`: leave out samples whose alpha is below this."""
    huber: Positive = 0.1
    """Error of a colour, in [0, 1], above which the loss grows linearly."""
    extent: ExtentName = "auto"
    """What the field represents. box: what is in a box. contracted: the whole place, by coordinates that are contracted
    outside of an inner box (Barron et al. 2022, Mip-NeRF 360). cascades: the whole place, by even coordinates of the
    outermost of several boxes. auto: a box where images have alpha, otherwise cascades."""
    cascades: Annotated[int, Bounds(1, MOST_CASCADES)] | None = None
    """Boxes of a whole place, each twice as large as the one before, with an occupancy grid each, 1 to 16;
    None: as many as hold the cameras and nearly all points."""
    growth: Annotated[float, Bounds(0, 0.5)] | None = None
    """In a whole place, steps along rays are at least this fraction of the distance; None: 1/256."""
    distortion: Weight | None = None
    """Weight of the distortion loss, which draws the weights along a ray together (Barron et al. 2022, equation 15);
    None: 0.01 in a whole place, otherwise 0."""
    sky: bool | None = None
    """Learn the colour behind a whole place by direction; images must have no alpha. None: in a whole place
    whose images have none."""

    @property
    def rooms(self) -> int:
        """`marched`, resolved."""
        return self.marched if self.marched is not None else 2 if self.whole else 4

    @property
    def whole(self) -> bool:
        """Whether the field is of a whole place; not before "auto" is resolved."""
        return self.extent in ("contracted", "cascades")

    def problems(self) -> list[tuple[bool, str]]:
        """As of all fields; a box has no surroundings."""
        surroundings = (self.cascades or 1) > 1 or bool(self.growth) or bool(self.sky)
        return [
            *super().problems(),
            (
                self.extent == "box" and surroundings,
                "cascades, growth and sky need extent contracted or cascades: a box has no surroundings",
            ),
        ]
