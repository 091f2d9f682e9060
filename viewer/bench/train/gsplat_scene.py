"""The scene and its images as gsplat trains them: moved and scaled, so that cameras are about one unit from its centre.

Its examples normalise every capture (examples/datasets/normalize.py of gsplat 1.5.3), and its settings are for such
scenes: the noise of MCMC, the weight of the mean scale and the near plane depend on the unit. They also rotate the
scene, on which none of the settings depends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from luxel.render.backends.gsplat import pinhole_matrices
from luxel.render.geometry.camera import Camera, Points, View
from luxel.render.ops.train.gather_view import BACKGROUND, ROW, SLOT, TIME, VIEW
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.train import TrainConfig
from luxel.render.train.memory import plan as memory_plan
from luxel.render.train.views.dataset import Dataset, ImageStack, Target, ViewOrder

NEAR, FAR = 0.01, 1e10  # of its cameras, normalised units


@dataclass(frozen=True)
class Normalisation:
    """World points x become scale * (x - centre).

    Args:
        centre: median over cameras of the point of the optical axis that is nearest to the origin, [3].
        scale: 1 / median distance of the cameras from the centre.
    """

    centre: Tensor
    scale: float

    @staticmethod
    def of(cameras: Sequence[Camera]) -> Normalisation:
        """The normalisation by all cameras of a capture; scale 1 where they all are at the centre."""
        positions = torch.stack([camera.position.double() for camera in cameras]).numpy()
        forward = torch.stack([camera.world_to_cam[2, :3].double() for camera in cameras]).numpy()
        nearest = positions - (forward * positions).sum(-1, keepdims=True) * forward
        centre = np.median(nearest, axis=0)
        distance = float(np.median(np.linalg.norm(positions - centre, axis=-1)))
        return Normalisation(torch.from_numpy(centre), 1 / distance if distance > 1e-9 else 1.0)

    def view(self, view: View) -> View:
        """The same view in the normalised scene."""
        pose = view.camera.world_to_cam.double()
        moved = pose.clone()
        moved[:3, 3] = self.scale * (pose[:3, 3] + pose[:3, :3] @ self.centre)
        camera = replace(view.camera, world_to_cam=moved.float(), near=NEAR, far=FAR)
        return replace(view, camera=camera)

    def points(self, points: Points) -> Points:
        """A point cloud in the normalised scene."""
        xyz = self.scale * (np.asarray(points.xyz, np.float64) - self.centre.numpy())
        return Points(xyz.astype(np.float32), points.rgb)


class TrainingImages:
    """The training images, gathered on the device in a random order, each once an epoch.

    Args:
        views: in the normalised scene.
        first: the first Gaussians, for the estimate of memory.
        config: gives seed, background and placement of the images.
        device: where targets are gathered.
        say: receives notes about memory.

    Attributes:
        background: "white", "black" or "random".
        dataset: the images.
    """

    def __init__(
        self,
        views: Sequence[View],
        first: Gaussians,
        config: TrainConfig,
        device: torch.device,
        say: Callable[[str], None],
    ) -> None:
        plan = memory_plan.plan(
            views,
            first.count,
            each=memory_plan.bytes_of_one(first),
            pyramid=False,
            images=config.images,
            max_gaussians=None,
            device=device,
        )
        for note in plan.notes:
            say(note)
        self.device, self.views, self.seed = device, views, config.seed
        self.order = ViewOrder(len(views), config.seed)
        self.dataset = Dataset(views, self.order, device, stream=plan.images == "stream")
        self.background = config.background
        if self.background == "auto":
            self.background = "white" if self.dataset.has_alpha else "black"
        self._matrices = torch.cat([pinhole_matrices(view.camera) for view in views]).to(device)
        self._stacks: dict[int, ImageStack] = {}  # by view, of images that stay on the device
        self._tables, self._epoch = torch.empty(0), -1

    def at(self, step: int) -> tuple[Target, Tensor, Tensor | None]:
        """Target of a step, its intrinsic matrix [1, 3, 3], and the background [1, 3] or None for black."""
        epoch, place = divmod(step, len(self.views))
        if epoch != self._epoch:
            self._tables, self._epoch = self._upload(epoch), epoch
        index = self.order.view_at(step)
        stack = self._stacks.get(index)
        if stack is None:
            stack = self.dataset.image_stack(step, 0)
            if not self.dataset.streaming:
                self._stacks[index] = stack
        target, row = stack.gather(self._tables[place])
        behind = None if self.background == "black" else row[None, BACKGROUND]
        return target, self._matrices[index : index + 1], behind

    def _upload(self, epoch: int) -> Tensor:
        """A table of one row for each step of an epoch, see `luxel.render.ops.train.gather_view`."""
        count = len(self.views)
        rows = np.zeros((count, 2, ROW), np.float32)
        for place, row in enumerate(rows[:, 1]):
            slot, index, row[TIME] = self.dataset.sample(epoch * count + place)
            row.view(np.int32)[[SLOT, VIEW]] = slot, index
        rows[:, 1, BACKGROUND] = 0.0 if self.background == "black" else 1.0
        if self.background == "random":
            rows[:, 1, BACKGROUND] = np.random.default_rng([self.seed, epoch, 1]).random((count, 3))
        return torch.from_numpy(rows.view(np.int32)).to(self.device)
