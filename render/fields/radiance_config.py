"""The configuration of radiance fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

from luxel.render.bounds import Bounds, Positive, ShareBelow1, Weight
from luxel.render.fields.config import FieldConfig
from luxel.render.ops.field.march_limits import MAX_CASCADES, MIN_TRANSMITTANCE

ExtentName = Literal["auto", "box", "contracted", "cascades"]
ExposureName = Literal["auto", "none", "gain", "affine"]

FALL = 0.75  # share of the run in which the weight of the distortion changes
LEVELS = 48  # equal ratios by which it does
DRAWN_TRANSMITTANCE = 4e-3  # of full scenes: a level of 8 bits
DRAWN_STEPS = 1.25  # of full scenes: of the training's


class Drawing(NamedTuple):
    """How rays are marched when images are rendered.

    Attributes:
        transmittance: a ray ends where its transmittance falls below.
        threshold: least density of cells, of the training's; at most 1: the cells of the training.
        steps: length of steps, of the training's.
    """

    transmittance: float = MIN_TRANSMITTANCE
    threshold: float = 1.0
    steps: float = 1.0


@dataclass
class RadianceConfig(FieldConfig):
    """A radiance field and its training."""

    marched: Annotated[int, Bounds(0, 64)] | None = None
    """Batches of samples that are marched and evaluated for density alone, to fill one batch with visible samples;
    0: a step takes all samples. None: 4, in a full scene 2."""
    least_alpha: ShareBelow1 = 0.0
    """With `marched`: leave out samples whose alpha is below this."""
    huber: Positive | None = None
    """Error of a colour, in [0, 1], above which the loss grows linearly; None: 0.3 for an object in a box, otherwise
    0.1."""
    extent: ExtentName = "auto"
    """What the field represents. box: what is in a box. contracted: the full scene, by coordinates that are contracted
    outside of an inner box (Barron et al. 2022, Mip-NeRF 360). cascades: the full scene, by even coordinates of the
    outermost of several boxes. auto: a box where images have alpha, or where all cameras are far outside of nearly all
    points; otherwise cascades."""
    cascades: Annotated[int, Bounds(1, MAX_CASCADES)] | None = None
    """Boxes of a full scene, each twice as large as the one before, with an occupancy grid each, 1 to 16;
    None: as many as hold the cameras and nearly all points."""
    growth: Annotated[float, Bounds(0, 0.5)] | None = None
    """In a full scene, steps along rays are at least this fraction of the distance; None: 1/256."""
    distortion: Weight | None = None
    """Weight of the distortion loss, which draws the weights along a ray together (Barron et al. 2022, equation 15);
    None: 0.01 in a full scene, 0.003 for an object in a box, otherwise 0."""
    distortion_final: Weight | None = None
    """Weight of the distortion loss in the last quarter of the run, to which it changes from `distortion` by equal
    ratios; None: as `distortion`, and 3e-4 where that is not given either."""
    exposure: ExposureName = "auto"
    """Learn how the exposure and white balance of each training image differ from the others'. gain: a factor per
    channel; affine: a matrix and an offset; none: for images of one exposure; auto: affine for a box whose images
    change in brightness from view to view, otherwise none."""
    drawn_transmittance: ShareBelow1 | None = None
    """Drawing: rays end where their transmittance falls below this; None: 1e-4, in a full scene 4e-3."""
    drawn_threshold: Annotated[float, Bounds(1, 1e6)] = 1.0
    """Drawing: least density of occupied cells, as a multiple of the training's; larger values leave out thin fog."""
    drawn_steps: Annotated[float, Bounds(0.25, 16)] | None = None
    """Drawing: length of steps along rays, as a multiple of the training's; None: 1, in a full scene 1.25."""
    sky: bool | None = None
    """Learn the colour behind a full scene by direction; images must have no alpha. None: in a full scene
    whose images have none."""

    @property
    def marched_batches(self) -> int:
        """`marched`, resolved."""
        return self.marched if self.marched is not None else 2 if self.full_scene else 4

    @property
    def learns_exposure(self) -> bool:
        """Whether exposures are learnt; not before "auto" is resolved."""
        return self.exposure in ("gain", "affine")

    @property
    def full_scene(self) -> bool:
        """Whether the field is of a full scene; not before "auto" is resolved."""
        return self.extent in ("contracted", "cascades")

    @property
    def drawing(self) -> Drawing:
        """How rays are marched when images are rendered."""
        usual = Drawing(DRAWN_TRANSMITTANCE, 1.0, DRAWN_STEPS) if self.full_scene else Drawing()
        ends = usual.transmittance if self.drawn_transmittance is None else self.drawn_transmittance
        steps = usual.steps if self.drawn_steps is None else self.drawn_steps
        return Drawing(ends, self.drawn_threshold, steps)

    def distortion_at(self, step: int, elapsed: float = 0.0) -> float:
        """The weight of the distortion loss in a step, before which a share of `seconds` has elapsed.

        It is start (end / start)^(s / FALL) until the share FALL of the run, with s rounded down to one of LEVELS.
        """
        start = self.distortion or 0.0
        if self.distortion_final is None or start == 0.0:
            return start
        level = min(int(LEVELS * self.share_at(step, elapsed) / FALL), LEVELS)
        return start * (self.distortion_final / start) ** (level / LEVELS)

    def loss_scalars_at(self, step: int, elapsed: float = 0.0) -> tuple[float, ...]:
        """The factor of the distortion in the sum over rays and channels."""
        return (3 * self.distortion_at(step, elapsed),) if self.distortion else ()

    def problems(self) -> list[tuple[bool, str]]:
        """As of all fields; a box has no surroundings."""
        surroundings = (self.cascades or 1) > 1 or bool(self.growth) or bool(self.sky)
        # Open options are those of a full scene or an object, or refused once the capture has decided against both.
        constant = self.distortion == 0 or (self.distortion is None and self.extent == "box")
        return [
            *super().problems(),
            (
                self.extent == "box" and surroundings,
                "cascades, growth and sky need extent contracted or cascades: a box has no surroundings",
            ),
            (
                self.distortion_final is not None and (constant or self.distortion_final == 0),
                "distortion_final needs distortion above 0, and must be above 0 itself: it is reached by equal ratios",
            ),
            (
                self.exposure not in get_args(ExposureName),
                "exposure must be auto, none, gain or affine; other models are those of primitives",
            ),
        ]
