"""Exposure and white balance of each training image: a colour transform between the scene and the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.ops.train.gather_view import VISIT_CAMERA, VISIT_EXPOSURE
from luxel.render.ops.train.view_exposure import view_exposure
from luxel.render.train.views.table import ViewTable

if TYPE_CHECKING:
    from luxel.render.train.config import ExposureModel

WIDTHS = {"gain": 3, "affine": 12, "camera": 3}  # parameters per image
TABLES = {"gain": "exposure", "affine": "exposure", "camera": "exposure.stops"}  # names in a checkpoint
SHARED = 6  # parameters per camera: vignetting and response
RATE, FINAL = 0.012, 0.05
FASTEST = 0.06
START = 0.05  # share of the run from which on they are learnt
# Exposures that go with the direction of view can be traded for colours that do: the penalty settles which.
PENALTY = 0.005
FEWEST_VIEWS = 4  # per camera on average; see `Cameras`


class Exposure:
    """A colour transform per training image, learnt alongside the scene by the same loss.

    The render of a training view passes it before it is compared with the image; held-out views, the viewer and
    exported scenes do not. ``gain`` has a factor per channel, as an exposure time and a white balance act; ``affine`` a
    matrix and an offset (Kerbl et al. 2024, "A Hierarchical 3D Gaussian Representation", sec. 5.2). ``camera`` is a
    model of the photographic process: factors of linear light per image, and of each camera its vignetting (Goldman
    2010, "Vignette and exposure calibration and compensation") and its response curve (Debevec & Malik 1997,
    "Recovering high dynamic range radiance maps from photographs"). The mean of all images' parameters is 0, the
    identity: what is common to all belongs to the scene.

    Args:
        model: "gain", "affine" or "camera".
        views: for training.
        device: of the scene.

    Attributes:
        table: the parameters of all views: "gain" [V, 3] natural logarithms of factors; "affine" [V, 12] matrix
            less the identity, row by row, and offset; "camera" [V, 3] exposure in stops, beginning at the views'
            ``stops``, and those of red and blue more than green.
        shared: of "camera", the parameters of each camera, [G, 6]: vignetting and response; see `view_exposure`.
    """

    def __init__(self, model: ExposureModel, views: Sequence[View], device: torch.device) -> None:
        self.model = model
        # Runs of all lengths reach the same exposures.
        pace: dict[str, Any] = {"start": START, "scaling": 1.0, "fastest": FASTEST}
        self.table = ViewTable(
            TABLES[model], len(views), WIDTHS[model], RATE, FINAL, device, penalty=PENALTY, **pace
        )
        self.shared: ViewTable | None = None
        if model == "camera":
            self._cameras = Cameras(views)
            self._of_view = torch.tensor([self._cameras.number(view) for view in views], device=device)
            # Nothing is taken out of what all cameras share: it is their vignetting and response.
            nothing = torch.zeros(self._cameras.count * SHARED, 0)
            self.shared = ViewTable(
                "exposure.cameras", self._cameras.count, SHARED, RATE, FINAL, device, nothing, **pace
            )
            stops = first_stops(views).to(device)
            self.table.begin_at(torch.stack([stops, torch.zeros_like(stops), torch.zeros_like(stops)], 1))

    @property
    def tables(self) -> list[ViewTable]:
        """All that is learnt."""
        return [self.table] if self.shared is None else [self.table, self.shared]

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """What a checkpoint holds of it.

        Raises:
            LuxelError: it was learnt with another model or of other views.
        """
        for table in self.tables:
            table.require(tensors, f"exposures of model {self.model}")

    def rows(self, views: Tensor) -> Tensor:
        """The parameters of views, int64 [B], as `view_exposure` takes them and as a leaf of autograd: [B, P]."""
        if self.shared is None:
            return self.table.rows(views)
        shared = self.shared.values.index_select(0, self._of_view.index_select(0, views))
        return torch.cat([self.table.values.index_select(0, views), shared], 1).requires_grad_()

    def update_(self, views: Tensor, gradients: Tensor, row: Tensor, skip: Tensor) -> None:
        """One step of Adam.

        Args:
            views: of the step, int64 [B].
            gradients: by what `rows` gave, [B, P].
            row: of the table of `gather_view`, [28].
            skip: [1]; where it is not 0 nothing changes.
        """
        own = self.table.values.shape[1]
        self.table.update_(views, gradients[:, :own], row[VISIT_EXPOSURE], skip)
        if self.shared is not None:
            cameras = self._of_view.index_select(0, views)
            self.shared.update_(cameras, gradients[:, own:], row[VISIT_CAMERA], skip)

    def camera_response(self, view: View, image: Tensor, transmittance: Tensor, background: Tensor) -> Tensor:
        """A render with the vignetting and the response of the camera of a view, at the mean exposure.

        Args:
            view: any. If no training view is of its camera, the render stays as it is.
            image: [H, W, 3]. transmittance: [H, W]. background: [3].

        Returns:
            [H, W, 3].
        """
        number = None if self.shared is None else self._cameras.number(view)
        if self.shared is None or number is None:
            return image
        own = image.new_zeros(self.table.values.shape[1])
        parameters = torch.cat([own, self.shared.values[number].to(image)])
        inputs = (image, parameters, transmittance, background)
        return view_exposure(*(tensor[None] for tensor in inputs))[0]

    def apply(
        self,
        image: Tensor,
        parameters: Tensor,
        transmittance: Tensor | None = None,
        background: Tensor | None = None,
    ) -> Tensor:
        """Renders as the images would show them.

        Args:
            image: rendered, [B, H, W, 3].
            parameters: of their views, [B, P].
            transmittance: [B, H, W]: the background behind the scene retains its colour; None: there is none.
            background: [B, 3]; without ``transmittance`` it has no part in it.

        Returns:
            [B, H, W, 3].
        """
        return view_exposure(image, parameters, transmittance, background)

    def backward(
        self,
        g_shown: Tensor,
        image: Tensor,
        parameters: Tensor,
        transmittance: Tensor | None = None,
        background: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Gradients by image, parameters and transmittance (None without one), from that by what `apply` gave."""
        inputs = image, parameters, transmittance, background
        g_image, g_parameters, g_through = torch.ops.luxel.view_exposure_bwd(g_shown, *inputs)
        return g_image, g_parameters, None if transmittance is None else g_through


class Cameras:
    """Which views were taken by one camera: those of one image size and one set of intrinsics.

    Where that leaves fewer than FEWEST_VIEWS views to a camera, the intrinsics were estimated for each image, and
    all of one size count as one camera's.

    Args:
        views: from which the cameras are numbered.

    Attributes:
        count: number of cameras.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self._by_size = False
        self._by_size = len({self._key(view) for view in views}) * FEWEST_VIEWS > len(views)
        self._numbers = {key: i for i, key in enumerate(dict.fromkeys(self._key(view) for view in views))}
        self.count = len(self._numbers)

    def number(self, view: View) -> int | None:
        """Number of the camera of a view; None: of none."""
        return self._numbers.get(self._key(view))

    def _key(self, view: View) -> tuple[float, ...]:
        size = view.camera.width, view.camera.height
        return size if self._by_size else (*size, *(round(x, 3) for x in view.camera.intrinsics.tolist()))


def first_stops(views: Sequence[View]) -> Tensor:
    """Stops by which views are exposed more than their mean, [V]; 0 for those of unknown exposure."""
    known = [view.stops for view in views if view.stops is not None]
    mean = sum(known) / max(1, len(known))
    return torch.tensor([0.0 if view.stops is None else view.stops - mean for view in views])
