"""Photographs on their way to the device: uploaded once, or sent step by step; at full size or halved."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Camera, Pixels, View
from luxel.render.errors import LuxelError

AHEAD = 4  # photographs that are read and sent before their step


class Photo(NamedTuple):
    """One photograph as bytes: rgb uint8 [H, W, 3] (straight), alpha and weight uint8 [H, W] or None."""

    rgb: Tensor
    alpha: Tensor | None
    weight: Tensor | None

    def to(self, device: torch.device) -> Photo:
        """On another device; from pinned memory without waiting."""
        return self._map(lambda t: t.to(device, non_blocking=True))

    def pinned(self) -> Photo:
        """In page-locked host memory."""
        return self._map(lambda t: t.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> Photo:
        optional = (None if t is None else function(t) for t in (self.alpha, self.weight))
        return Photo(function(self.rgb), *optional)


class Target(NamedTuple):
    """What a render of ``camera`` is compared with, floats on the device."""

    camera: Camera
    rgb: Tensor  # [H, W, 3], composited onto the background
    alpha: Tensor | None  # [H, W]
    weight: Tensor | None  # [H, W]


def halved(photo: Photo, times: int) -> Photo:
    """Halves a photograph by averaging areas of 2^times x 2^times pixels; a rest at the right or bottom is
    dropped.

    Colour is averaged by alpha times weight, so that neither what lies outside of a mask nor ignored pixels
    bleed in; alpha is averaged by weight, and the weight becomes the share of the area that counts.
    """
    if times == 0:
        return photo
    size = 2**times
    rgb = photo.rgb.float()
    weight = torch.ones_like(rgb[..., 0]) if photo.weight is None else (photo.weight > 0).float()
    cover = weight if photo.alpha is None else weight * photo.alpha.float() / 255

    def mean(values: Tensor) -> Tensor:  # [H, W, F] -> [h, w, F]
        pooled = torch.nn.functional.avg_pool2d(values.permute(2, 0, 1)[None], size)
        return pooled[0].permute(1, 2, 0)

    sums = mean(torch.cat([rgb * cover[..., None], cover[..., None], weight[..., None]], -1))
    colour, covered, counted = sums[..., :3], sums[..., 3], sums[..., 4]
    rgb = colour / covered.clamp_min(1e-6)[..., None]
    alpha = None if photo.alpha is None else _bytes(255 * covered / counted.clamp_min(1e-6))
    return Photo(_bytes(rgb), alpha, None if photo.weight is None else _bytes(255 * counted))


def halved_camera(camera: Camera, times: int) -> Camera:
    """The camera of a photograph that was `halved`: exactly 2^-times the intrinsics, sizes rounded down."""
    if times == 0:
        return camera
    return replace(
        camera,
        intrinsics=camera.intrinsics / 2**times,
        width=camera.width >> times,
        height=camera.height >> times,
    )


def halvings_possible(views: Sequence[View], wanted: int, smallest: int) -> int:
    """How often the smallest photograph can be halved without its shorter side falling below ``smallest``."""
    side = min(min(view.camera.width, view.camera.height) for view in views)
    while wanted > 0 and side >> wanted < max(1, smallest):
        wanted -= 1
    return wanted


class ViewOrder:
    """A new permutation of the views each epoch; a pure function of seed and step, so that resuming needs no
    state."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self._epoch, self._permutation = -1, np.zeros(0, np.int64)

    def view_at(self, step: int) -> int:
        """Index of the view that step number ``step`` (from 0) trains on."""
        epoch, place = divmod(step, self.count)
        if epoch != self._epoch:
            self._epoch = epoch
            self._permutation = np.random.default_rng([self.seed, epoch]).permutation(self.count)
        return int(self._permutation[place])


class Dataset:
    """Hands out the target of each step on the device.

    Args:
        views: what is trained on.
        order: which view comes at which step.
        device: where targets go.
        stream: read and send each photograph for its step (in background threads, some steps ahead) instead
            of keeping all on the device.
        on_read: called with (done, total) while photographs are uploaded.

    Raises:
        LuxelError: a photograph cannot be read or has another size than its camera.
    """

    def __init__(
        self,
        views: Sequence[View],
        order: ViewOrder,
        device: torch.device,
        *,
        stream: bool,
        on_read: Callable[[int, int], None] | None = None,
    ) -> None:
        self.views, self.order, self.device = list(views), order, device
        self.has_alpha = False
        self._cameras: dict[tuple[int, int], Camera] = {}
        self._photos: list[Photo] | None = None
        self._coarse: dict[tuple[int, int], Photo] = {}
        self._level = 0
        self._pool: ThreadPoolExecutor | None = None
        self._coming: deque[tuple[int, Future[Photo]]] = deque()
        if stream:
            self.has_alpha = _read(self.views[0]).alpha is not None
            self.start_streaming()
        else:
            photos = []
            for done, view in enumerate(self.views):
                photo = _read(view)
                self.has_alpha |= photo.alpha is not None
                photos.append(photo.to(device))
                if on_read:
                    on_read(done + 1, len(self.views))
            self._photos = photos

    @property
    def streaming(self) -> bool:
        """Whether photographs are sent step by step."""
        return self._photos is None

    def start_streaming(self) -> None:
        """Frees what is on the device and sends photographs step by step from now on."""
        self._photos = None
        self._coarse.clear()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(2, "luxel-photos")

    def close(self) -> None:
        """Ends the background threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        self._coming.clear()

    def target(self, step: int, halvings: int, background: Tensor) -> Target:
        """The view of step number ``step``, halved, and composited onto ``background`` [3] by its alpha.

        Where a photograph has no alpha, the background does not show in it.
        """
        index = self.order.view_at(step)
        photo = self._photo(step, index, halvings)
        key = (index, halvings)
        if key not in self._cameras:
            self._cameras[key] = halved_camera(self.views[index].camera, halvings).to(self.device)
        rgb = photo.rgb.to(torch.float32) / 255
        alpha = None if photo.alpha is None else photo.alpha.to(torch.float32) / 255
        weight = None if photo.weight is None else photo.weight.to(torch.float32) / 255
        if alpha is not None:
            rgb = torch.lerp(background.expand_as(rgb), rgb, alpha[..., None])
        return Target(self._cameras[key], rgb, alpha, weight)

    def _photo(self, step: int, index: int, halvings: int) -> Photo:
        if self._photos is None:
            return halved(self._streamed(step), halvings)
        if halvings == 0:
            self._coarse.clear()
            return self._photos[index]
        if halvings != self._level:
            self._coarse.clear()
            self._level = halvings
        key = (index, halvings)
        if key not in self._coarse:
            self._coarse[key] = halved(self._photos[index], halvings)
        return self._coarse[key]

    def _streamed(self, step: int) -> Photo:
        assert self._pool is not None, "the dataset is closed"
        while self._coming and self._coming[0][0] < step:
            self._coming.popleft()
        if self._coming and self._coming[0][0] > step:  # a step back: a resumed or repeated step
            self._coming.clear()
        following = self._coming[-1][0] + 1 if self._coming else step
        for number in range(following, step + AHEAD + 1):
            view = self.views[self.order.view_at(number)]
            self._coming.append((number, self._pool.submit(_read, view, self.device.type == "cuda")))
        self.order.view_at(step)
        return self._coming.popleft()[1].result().to(self.device)


def _read(view: View, pin: bool = False) -> Photo:
    """The pixels of a view as tensors, checked against its camera."""
    pixels: Pixels = view.read()
    height, width = view.camera.height, view.camera.width
    wanted = {"rgb": (height, width, 3), "alpha": (height, width), "weight": (height, width)}
    tensors = []
    for name, shape in wanted.items():
        array = getattr(pixels, name)
        if array is not None and (array.shape != shape or array.dtype != np.uint8):
            raise LuxelError(
                f"{view.path or view.name}: {name} is {array.dtype} {list(array.shape)}, "
                f"its camera says uint8 {list(shape)}.",
                "All images must have the size that the capture states for them.",
            )
        tensors.append(None if array is None else torch.from_numpy(np.array(array, order="C")))
    photo = Photo(*tensors)
    if photo.weight is not None:  # SSIM's windows would carry ignored colours to their neighbours
        photo.rgb[photo.weight == 0] = 0
    return photo.pinned() if pin else photo


def _bytes(values: Tensor) -> Tensor:
    return (values + 0.5).clamp(0, 255).to(torch.uint8)
