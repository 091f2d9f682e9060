"""Photographs on their way to the device: uploaded once, or sent step by step; at full size or halved."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Camera, Pixels, View
from luxel.render.errors import LuxelError
from luxel.render.ops.train.gather_view import BACKGROUND, PHOTO, ROW, TIME, VIEW, gather_view

AHEAD = 4  # photographs that are read and sent before their step


class Photo(NamedTuple):
    """One photograph as bytes: rgb uint8 [H, W, 3] (straight), alpha and weight uint8 [H, W] or None.

    Or P of them, each tensor with a leading P.
    """

    rgb: Tensor
    alpha: Tensor | None
    weight: Tensor | None

    def to(self, device: torch.device) -> Photo:
        """On another device; from pinned memory without waiting."""
        return self.map(lambda t: t.to(device, non_blocking=True))

    def pinned(self) -> Photo:
        """In page-locked host memory."""
        return self.map(lambda t: t.pin_memory())

    def map(self, function: Callable[[Tensor], Tensor]) -> Photo:
        """With ``function`` applied to each tensor that is there."""
        optional = (None if t is None else function(t) for t in (self.alpha, self.weight))
        return Photo(function(self.rgb), *optional)

    @staticmethod
    def stack(photos: Sequence[Photo]) -> Photo:
        """Photographs of one kind as one, with a leading dimension."""
        alphas = [photo.alpha for photo in photos if photo.alpha is not None]
        weights = [photo.weight for photo in photos if photo.weight is not None]
        rest = (torch.stack(part) if part else None for part in (alphas, weights))
        return Photo(torch.stack([photo.rgb for photo in photos]), *rest)

    def unstack(self) -> list[Photo]:
        """The reverse of `stack`."""
        return [self.map(lambda t, i=i: t[i]) for i in range(self.rgb.shape[0])]


class Kind(NamedTuple):
    """What photographs must have in common to lie on one shelf."""

    width: int
    height: int
    alpha: bool
    weight: bool
    near: float
    far: float

    @staticmethod
    def of(photo: Photo, camera: Camera) -> Kind:
        """The kind of a photograph."""
        size = camera.width, camera.height
        return Kind(*size, photo.alpha is not None, photo.weight is not None, camera.near, camera.far)


class Target(NamedTuple):
    """What a render of ``camera`` is compared with, floats on the device; of several views with a leading B."""

    camera: Camera
    rgb: Tensor  # [H, W, 3], composited onto the background
    alpha: Tensor | None  # [H, W]
    weight: Tensor | None  # [H, W]
    time: Tensor | None = None  # scalar

    def view(self, k: int) -> Target:
        """One of several views."""
        camera = self.camera
        posed = replace(camera, world_to_cam=camera.world_to_cam[k], intrinsics=camera.intrinsics[k])
        alpha, weight, time = (None if t is None else t[k] for t in (self.alpha, self.weight, self.time))
        return Target(posed, self.rgb[k], alpha, weight, time)


class Shelf(NamedTuple):
    """Photographs of one size on the device, and all cameras of the data set as they are for that size.

    The same object is handed out for as long as its tensors stay where they are.
    """

    photos: Photo  # [P, H, W, ...]
    poses: Tensor  # world_to_cam of every view, [V, 4, 4]
    intrinsics: Tensor  # [V, 4]
    near: float
    far: float

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.photos.rgb.shape[2], self.photos.rgb.shape[1]

    def gather(self, table: Tensor, views: int | None = None) -> tuple[Target, Tensor]:
        """The target that the present row of ``table`` names, and that row; see `gather_view`.

        Args:
            table: of the steps.
            views: so many rows at once; all tensors then have a leading dimension.
        """
        rgb, alpha, weight, world_to_cam, intrinsics, row = gather_view(
            *self.photos, self.poses, self.intrinsics, table, views
        )
        camera = Camera(world_to_cam, intrinsics, *self.size, self.near, self.far)
        return Target(camera, rgb, alpha, weight, row[..., TIME]), row


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
    """Holds the photographs, as bytes, and puts those of each step where the device can gather them.

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
        self._kinds: list[Kind] = []  # of each view; empty while streaming
        self._slots: list[int] = []  # of each view, on the shelf of its kind
        self._shelves: dict[tuple[Kind, int], Shelf] = {}  # by kind and halvings; one level at a time
        self._cameras: dict[int, tuple[Tensor, Tensor]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._coming: deque[tuple[int, Future[Photo]]] = deque()
        if stream:
            self.has_alpha = _read(self.views[0]).alpha is not None
            self.start_streaming()
        else:
            self._fill(on_read)

    @property
    def streaming(self) -> bool:
        """Whether photographs are sent step by step."""
        return not self._kinds

    def start_streaming(self) -> None:
        """Frees what is on the device and sends photographs step by step from now on."""
        self._kinds, self._slots = [], []
        self._shelves.clear()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(2, "luxel-photos")

    def close(self) -> None:
        """Ends the background threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        self._coming.clear()

    def place(self, step: int) -> tuple[int, int, float]:
        """Where step number ``step`` finds its photograph on its shelf, the index of its view, and its time."""
        index = self.order.view_at(step)
        return (self._slots[index] if self._slots else 0), index, self.views[index].time

    def shelf(self, step: int, halvings: int) -> Shelf:
        """The shelf that holds the photograph of step number ``step``, halved; a streamed one is sent now."""
        if not self.streaming:
            return self._level(self._kinds[self.order.view_at(step)], halvings)
        photo = halved(self._streamed(step), halvings)
        kind = Kind.of(photo, self.views[self.order.view_at(step)].camera)
        shelf = self._shelves.get((kind, halvings))
        if shelf is None:
            shelf = self._new_shelf(photo.map(lambda t: t[None].clone()), kind, halvings)
            self._shelves[kind, halvings] = shelf
        else:
            for held, sent in zip(shelf.photos, photo, strict=True):
                if held is not None and sent is not None:
                    held[0].copy_(sent, non_blocking=True)
        return shelf

    def targets(
        self, indices: Sequence[int], halvings: int, background: tuple[float, float, float]
    ) -> Iterator[Target]:
        """Photographs by the index of their view, outside of the order of steps; streamed ones are read now."""
        rows = np.zeros((len(indices), 2, ROW), np.float32)  # a table of one row each
        for table, index in zip(rows, indices, strict=True):
            table[1].view(np.int32)[[PHOTO, VIEW]] = (self._slots[index] if self._slots else 0), index
            table[1, BACKGROUND], table[1, TIME] = background, self.views[index].time
        for table, index in zip(torch.from_numpy(rows.view(np.int32)).to(self.device), indices, strict=True):
            yield self._shelf_of(index, halvings).gather(table)[0]

    def _shelf_of(self, index: int, halvings: int) -> Shelf:
        if not self.streaming:
            return self._level(self._kinds[index], halvings)
        photo = halved(_read(self.views[index]).to(self.device), halvings)
        kind = Kind.of(photo, self.views[index].camera)
        return self._new_shelf(photo.map(lambda t: t[None].contiguous()), kind, halvings)

    def _fill(self, on_read: Callable[[int, int], None] | None) -> None:
        """Reads every photograph and puts those of one kind side by side on the device."""
        sizes = Counter((view.camera.width, view.camera.height) for view in self.views)
        stacks: dict[Kind, Photo] = {}
        filled: Counter[Kind] = Counter()
        for done, view in enumerate(self.views):
            photo = _read(view).to(self.device)
            self.has_alpha |= photo.alpha is not None
            kind = Kind.of(photo, view.camera)
            if kind not in stacks:
                room = sizes[kind.width, kind.height]
                stacks[kind] = photo.map(lambda t, room=room: t.new_empty(room, *t.shape))
            for held, tensor in zip(stacks[kind], photo, strict=True):
                if held is not None and tensor is not None:
                    held[filled[kind]] = tensor
            self._kinds.append(kind)
            self._slots.append(filled[kind])
            filled[kind] += 1
            if on_read:
                on_read(done + 1, len(self.views))
        for kind, photos in stacks.items():
            used = photos.map(lambda t, count=filled[kind]: t[:count])
            self._shelves[kind, 0] = self._new_shelf(used, kind, 0)

    def _level(self, kind: Kind, halvings: int) -> Shelf:
        """The shelf of a kind of photographs at a size; coarser ones are made when they are first asked for."""
        if (kind, halvings) not in self._shelves:
            full = self._shelves[kind, 0]
            for known, level in list(self._shelves):
                if level not in (0, halvings):
                    del self._shelves[known, level]
            coarse = Photo.stack([halved(photo, halvings) for photo in full.photos.unstack()])
            self._shelves[kind, halvings] = self._new_shelf(coarse, kind, halvings)
        elif halvings == 0 and len(self._shelves) > len(set(self._kinds)):
            self._shelves = {key: shelf for key, shelf in self._shelves.items() if key[1] == 0}
        return self._shelves[kind, halvings]

    def _new_shelf(self, photos: Photo, kind: Kind, halvings: int) -> Shelf:
        if halvings not in self._cameras:
            cameras = [halved_camera(view.camera, halvings) for view in self.views]
            stacked = ([c.world_to_cam for c in cameras], [c.intrinsics for c in cameras])
            poses, intrinsics = (torch.stack(part).float().to(self.device) for part in stacked)
            self._cameras[halvings] = poses, intrinsics
        return Shelf(photos, *self._cameras[halvings], kind.near, kind.far)

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
    return (values + 0.5).clamp(0, 255).to(torch.uint8).contiguous()
