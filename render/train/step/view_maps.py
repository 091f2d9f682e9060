"""What is learnt of the views of a step, applied to their cameras and images, and updated; the same in both steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.ops.train.gather_view import BACKGROUND, view_numbers
from luxel.render.train.views.models import ViewModels


class ViewMaps:
    """Exposure, poses and shutters of the B views of a step; what is not learnt leaves everything as it is.

    Args:
        models: of all views.
        rows: of the table, [B, 28].

    Attributes:
        parameters: of the views, leaves of autograd, by model.
        gradients: by them; set by the backward functions, for the step without autograd.
    """

    def __init__(self, models: ViewModels, rows: Tensor) -> None:
        self._exposure, self._poses, self._shutter = models.exposure, models.poses, models.shutter
        known = {"exposure": models.exposure, "poses": models.poses, "shutter": models.shutter}
        self.models = {name: model for name, model in known.items() if model is not None}
        self._rows, self.views = rows, view_numbers(rows) if self.models else rows
        self.parameters = {name: model.rows(self.views) for name, model in self.models.items()}
        self.gradients: dict[str, Tensor] = {}

    def cameras(self, world_to_cam: Tensor) -> tuple[Tensor, Tensor | None]:
        """The refined poses [B, 4, 4], and the shutters [B, 8], None where they are not learnt."""
        self._given, shutters = world_to_cam, None
        if self._poses is not None:
            world_to_cam = self._poses.apply(world_to_cam, self.parameters["poses"])
        if self._shutter is not None:
            shutters = self._shutter.apply(self.views, self.parameters["shutter"])
        return world_to_cam, shutters

    def shown(self, image: Tensor, transmittance: Tensor | None) -> Tensor:
        """Images as the training images show them, [B, H, W, 3].

        Args:
            image: rendered, [B, H, W, 3].
            transmittance: [B, H, W]: the background retains its colour; None: there is none.
        """
        if self._exposure is None:
            return image
        self._inputs = image, self.parameters["exposure"], transmittance, self._rows[:, BACKGROUND]
        return self._exposure.apply(*self._inputs)

    def shown_backward(self, g_shown: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradients by the image and the transmittance (None: it has none) from that by what `shown` gave."""
        if self._exposure is None:
            return g_shown, None
        g_image, self.gradients["exposure"], g_through = self._exposure.backward(g_shown, *self._inputs)
        return g_image, g_through

    def camera_gradients(
        self, world_to_cam: Tensor, through_planes: Tensor | None, shutters: Tensor | None
    ) -> dict[str, Tensor]:
        """Tensors that the backward of the projection adds the gradients by cameras to, by its arguments.

        Args:
            world_to_cam: refined, [B, 4, 4].
            through_planes: its gradient so far; None: 0.
            shutters: [B, 8], or None.
        """
        out: dict[str, Tensor] = {}
        if self._poses is not None:
            none = through_planes is None
            out["g_world_to_cam"] = torch.zeros_like(world_to_cam) if none else through_planes.clone()
        if shutters is not None:
            out |= {"shutters": shutters, "g_shutters": torch.zeros_like(shutters)}
        return out

    def cameras_backward(self, sums: dict[str, Tensor]) -> None:
        """Sets the gradients by the parameters of cameras from what `camera_gradients` gave."""
        if self._poses is not None:
            inputs = self._given, self.parameters["poses"]
            self.gradients["poses"] = self._poses.backward(sums["g_world_to_cam"], *inputs)
        if self._shutter is not None:
            self.gradients["shutter"] = self._shutter.backward(sums["g_shutters"])


def update_models_(maps: Sequence[ViewMaps], row: Tensor, skip: Tensor) -> None:
    """One step of Adam of all that is learnt of views.

    Args:
        maps: of a step, all its views together, with gradients.
        row: of the table, [28].
        skip: [1]; where it is not 0 nothing changes.
    """
    for name, model in maps[0].models.items():
        views, gradients = (
            [each.views for each in maps],
            [each.gradients[name] for each in maps],
        )
        one = len(maps) == 1
        model.update_(
            views[0] if one else torch.cat(views), gradients[0] if one else torch.cat(gradients), row, skip
        )
