"""Images on their way to the device: uploaded once, or streamed step by step; at full size or halved."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, View, calibrations
from luxel.render.ops.train.gather_view import ROW, SLOT, TIME, gather_view
from luxel.render.train.views.depth_targets import halved_depth, stored_depth
from luxel.render.train.views.hidden_pixels import filled

AHEAD = 4  # images that are read and uploaded before their step


class ByteImage(NamedTuple):
    """One image as bytes: rgb uint8 [H, W, 3] (straight), alpha and weight uint8 [H, W] or None.

    Or P of them, each tensor with a leading P. The depth is float16 [H, W] in the unit of the `Dataset`, 0 where it is
    not known; None: none is trained with.
    """

    rgb: Tensor
    alpha: Tensor | None
    weight: Tensor | None
    depth: Tensor | None = None

    def to(self, device: torch.device) -> ByteImage:
        """On another device; asynchronous from pinned memory."""
        return self.map(lambda t: t.to(device, non_blocking=True))

    def pinned(self) -> ByteImage:
        """In page-locked host memory."""
        return self.map(lambda t: t.pin_memory())

    def map(self, function: Callable[[Tensor], Tensor]) -> ByteImage:
        """With ``function`` applied to each tensor present."""
        return ByteImage(*(None if t is None else function(t) for t in self))  # type: ignore[arg-type]

    @staticmethod
    def stack(images: Sequence[ByteImage]) -> ByteImage:
        """Images of one format as one, with a leading dimension."""
        parts = ([t for t in part if t is not None] for part in zip(*images, strict=True))
        return ByteImage(*(torch.stack(part) if part else None for part in parts))  # type: ignore[arg-type]

    def unstack(self) -> list[ByteImage]:
        """The reverse of `stack`."""
        return [self.map(lambda t, i=i: t[i]) for i in range(self.rgb.shape[0])]


class ImageFormat(NamedTuple):
    """What images must have in common to share an `ImageStack`: size, channels and depth range."""

    width: int
    height: int
    alpha: bool
    weight: bool
    near: float
    far: float

    @staticmethod
    def of(image: ByteImage, camera: Camera) -> ImageFormat:
        """The format of an image."""
        size = camera.width, camera.height
        return ImageFormat(*size, image.alpha is not None, image.weight is not None, camera.near, camera.far)


class Target(NamedTuple):
    """The ground truth of a render of ``camera``, floats on the device; of several views with a leading B."""

    camera: Camera
    rgb: Tensor  # [H, W, 3], composited onto the background
    alpha: Tensor | None  # [H, W]
    weight: Tensor | None  # [H, W]
    time: Tensor | None = None  # scalar
    depth: Tensor | None = None  # [H, W], along z in capture units; 0: not known

    def view(self, k: int) -> Target:
        """Target of view ``k`` of several."""
        rest = self.alpha, self.weight, self.time, self.depth
        return Target(self.camera.one(k), self.rgb[k], *(None if t is None else t[k] for t in rest))


class ImageStack(NamedTuple):
    """Images of one size on the device, and all cameras of the data set for that size.

    `Dataset.image_stack` returns the same object as long as its tensors stay in place.
    """

    images: ByteImage  # [P, H, W, ...]
    poses: Tensor  # world_to_cam of every view, [V, 4, 4]
    intrinsics: Tensor  # [V, 4], or with lenses [V, 12], see `Camera.calibration`
    near: float
    far: float
    depth_unit: float = 1.0  # capture units of a value of the depth

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.images.rgb.shape[2], self.images.rgb.shape[1]

    def gather(self, table: Tensor, views: int | None = None) -> tuple[Target, Tensor]:
        """The target of the current row of ``table``, and that row; see `gather_view`.

        Args:
            table: schedule of the steps, see `luxel.render.train.step.timeline.StepTable`.
            views: number of rows to gather; None: one, without a leading dimension.
        """
        rgb, alpha, weight, world_to_cam, intrinsics, row = gather_view(
            *self.images[:3], self.poses, self.intrinsics, table, views
        )
        camera = Camera.from_calibration(world_to_cam, intrinsics, *self.size, self.near, self.far)
        depth = None
        if self.images.depth is not None:
            slots = row.view(-1, ROW)[:, SLOT].view(torch.int32)
            stored = self.images.depth.index_select(0, slots).float() * self.depth_unit
            depth = stored if views else stored[0]
        return Target(camera, rgb, alpha, weight, row[..., TIME], depth), row


def halved(image: ByteImage, times: int) -> ByteImage:
    """Halves an image by averaging areas of 2^times x 2^times pixels; a remainder at the right or bottom is
    dropped.

    Colour is averaged by alpha times weight, so that neither what lies outside of a mask nor ignored pixels
    bleed in, and where all are ignored, without; alpha is averaged by weight, and the weight becomes the share of the
    area that counts. Depth is never averaged, see `halved_depth`.
    """
    if times == 0:
        return image
    size = 2**times
    rgb = image.rgb.float()
    weight = torch.ones_like(rgb[..., 0]) if image.weight is None else (image.weight > 0).float()
    cover = weight if image.alpha is None else weight * image.alpha.float() / 255

    def mean(values: Tensor) -> Tensor:  # [H, W, F] -> [h, w, F]
        pooled = torch.nn.functional.avg_pool2d(values.permute(2, 0, 1)[None], size)
        return pooled[0].permute(1, 2, 0)

    sums = mean(torch.cat([rgb * cover[..., None], cover[..., None], weight[..., None]], -1))
    colour, covered, counted = sums[..., :3], sums[..., 3], sums[..., 4]
    shown = colour / covered.clamp_min(1e-6)[..., None]
    if image.weight is not None:
        shown = torch.where(counted[..., None] > 0, shown, mean(rgb))
    alpha = None if image.alpha is None else _bytes(255 * covered / counted.clamp_min(1e-6))
    weight = None if image.weight is None else _bytes(255 * counted)
    depth = None if image.depth is None else halved_depth(image.depth, times)
    return ByteImage(_bytes(shown), alpha, weight, depth)


def halved_camera(camera: Camera, times: int) -> Camera:
    """The camera of an image that was `halved`: exactly 2^-times the intrinsics, sizes rounded down."""
    if times == 0:
        return camera
    return replace(
        camera,
        intrinsics=camera.intrinsics / 2**times,
        width=camera.width >> times,
        height=camera.height >> times,
    )


def halvings_possible(views: Sequence[View], halvings: int, smallest: int) -> int:
    """How often the smallest image can be halved without its shorter side falling below ``smallest``."""
    side = min(min(view.camera.width, view.camera.height) for view in views)
    while halvings > 0 and side >> halvings < max(1, smallest):
        halvings -= 1
    return halvings


class ViewOrder:
    """A new permutation of the views each epoch; a pure function of seed and step, so that resuming needs no
    state."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self._epoch, self._permutation = -1, np.zeros(0, np.int64)

    def view_at(self, step: int) -> int:
        """Index of the view that step number ``step`` (from 0) trains on."""
        epoch, position = divmod(step, self.count)
        if epoch != self._epoch:
            self._epoch = epoch
            self._permutation = np.random.default_rng([self.seed, epoch]).permutation(self.count)
        return int(self._permutation[position])


class Dataset:
    """The training images as bytes on the device, for `gather_view`: all of them, or only those of the present step.

    Args:
        views: training views.
        order: which view each step uses.
        device: where targets are gathered.
        stream: read and upload each image for its step (in background threads, some steps ahead) instead
            of storing all on the device.
        on_read: called with (done, total) while images are uploaded.
        depth_unit: capture units of a value of the depth maps, which are then read too; None: they are not.

    Raises:
        LuxelError: an image or depth map cannot be read or has another size than its camera; no view has depth, and a
            unit of it is given.
    """

    def __init__(
        self,
        views: Sequence[View],
        order: ViewOrder,
        device: torch.device,
        *,
        stream: bool,
        on_read: Callable[[int, int], None] | None = None,
        depth_unit: float | None = None,
    ) -> None:
        self.views, self.order, self.device = list(views), order, device
        self.depth_unit = depth_unit
        if depth_unit is not None and not any(view.depth for view in self.views):
            raise LuxelError(
                "No training view has depth, and the configuration asks for it.",
                "Train without (depth none), or give the views their depth: luxel.scenes.supervise.",
            )
        self.has_alpha = False
        self._format_of_view: list[ImageFormat] = []  # of each view; empty while streaming
        self._slots: list[int] = []  # of each view, in the stack of its format
        self._stacks: dict[
            tuple[ImageFormat, int], ImageStack
        ] = {}  # by format and halvings; one level at a time
        self._cameras: dict[int, tuple[Tensor, Tensor]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._coming: deque[tuple[int, Future[ByteImage]]] = deque()
        if stream:
            self.has_alpha = _read(self.views[0]).alpha is not None
            self.start_streaming()
        else:
            self._fill(on_read)

    @property
    def streaming(self) -> bool:
        """Whether images are uploaded step by step."""
        return not self._format_of_view

    def start_streaming(self) -> None:
        """Frees the images on the device; from now on they are uploaded step by step."""
        self._format_of_view, self._slots = [], []
        self._stacks.clear()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(2, "luxel-images")

    def close(self) -> None:
        """Ends the background threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        self._coming.clear()

    def sample(self, step: int) -> tuple[int, int, float]:
        """Slot of the image of step number ``step`` in its stack, index of its view, and its time."""
        index = self.order.view_at(step)
        return (self._slots[index] if self._slots else 0), index, self.views[index].time

    def image_stack(self, step: int, halvings: int) -> ImageStack:
        """The stack that holds the image of step number ``step``, halved; a streamed image is uploaded by this call."""
        if not self.streaming:
            return self._level(self._format_of_view[self.order.view_at(step)], halvings)
        image = halved(self._streamed(step), halvings)
        format = ImageFormat.of(image, self.views[self.order.view_at(step)].camera)
        stack = self._stacks.get((format, halvings))
        if stack is None:
            stack = self._new_stack(image.map(lambda t: t[None].clone()), format, halvings)
            self._stacks[format, halvings] = stack
        else:
            for buffer, sent in zip(stack.images, image, strict=True):
                if buffer is not None and sent is not None:
                    buffer[0].copy_(sent, non_blocking=True)
        return stack

    def _fill(self, on_read: Callable[[int, int], None] | None) -> None:
        """Reads every image and stacks those of one format on the device."""
        sizes = Counter((view.camera.width, view.camera.height) for view in self.views)
        stacks: dict[ImageFormat, ByteImage] = {}
        filled: Counter[ImageFormat] = Counter()
        for done, view in enumerate(self.views):
            image = _read(view, self.depth_unit).to(self.device)
            self.has_alpha |= image.alpha is not None
            format = ImageFormat.of(image, view.camera)
            if format not in stacks:
                count = sizes[format.width, format.height]
                stacks[format] = image.map(lambda t, count=count: t.new_empty(count, *t.shape))
            for buffer, tensor in zip(stacks[format], image, strict=True):
                if buffer is not None and tensor is not None:
                    buffer[filled[format]] = tensor
            self._format_of_view.append(format)
            self._slots.append(filled[format])
            filled[format] += 1
            if on_read:
                on_read(done + 1, len(self.views))
        for format, images in stacks.items():
            used = images.map(lambda t, count=filled[format]: t[:count])
            self._stacks[format, 0] = self._new_stack(used, format, 0)

    def _level(self, format: ImageFormat, halvings: int) -> ImageStack:
        """The stack of a format at a level of halving; coarser levels are computed on first use."""
        if (format, halvings) not in self._stacks:
            full = self._stacks[format, 0]
            for known, level in list(self._stacks):
                if level not in (0, halvings):
                    del self._stacks[known, level]
            coarse = ByteImage.stack([halved(image, halvings) for image in full.images.unstack()])
            self._stacks[format, halvings] = self._new_stack(coarse, format, halvings)
        elif halvings == 0 and len(self._stacks) > len(set(self._format_of_view)):
            self._stacks = {key: stack for key, stack in self._stacks.items() if key[1] == 0}
        return self._stacks[format, halvings]

    def _new_stack(self, images: ByteImage, format: ImageFormat, halvings: int) -> ImageStack:
        if halvings not in self._cameras:
            cameras = [halved_camera(view.camera, halvings) for view in self.views]
            poses = torch.stack([c.world_to_cam for c in cameras]).float().to(self.device)
            intrinsics = calibrations(cameras).float().to(self.device)
            self._cameras[halvings] = poses, intrinsics
        return ImageStack(images, *self._cameras[halvings], format.near, format.far, self.depth_unit or 1.0)

    def _streamed(self, step: int) -> ByteImage:
        assert self._pool is not None, "the dataset is closed"
        while self._coming and self._coming[0][0] < step:
            self._coming.popleft()
        if self._coming and self._coming[0][0] > step:  # a step back: a resumed or repeated step
            self._coming.clear()
        pin, following = self.device.type == "cuda", self._coming[-1][0] + 1 if self._coming else step
        for number in range(following, step + AHEAD + 1):
            view = self.views[self.order.view_at(number)]
            self._coming.append((number, self._pool.submit(_read, view, self.depth_unit, pin)))
        self.order.view_at(step)
        return self._coming.popleft()[1].result().to(self.device)


def _read(view: View, depth_unit: float | None = None, pin: bool = False) -> ByteImage:
    """The pixels of a view as tensors, which share its memory, checked against its camera; its depth with a unit."""
    pixels: Pixels = view.read()
    height, width = view.camera.height, view.camera.width
    expected = {"rgb": (height, width, 3), "alpha": (height, width), "weight": (height, width)}
    tensors = []
    for name, shape in expected.items():
        array = getattr(pixels, name)
        if array is not None and (array.shape != shape or array.dtype != np.uint8):
            raise LuxelError(
                f"{view.path or view.name}: {name} is {array.dtype} {list(array.shape)}, "
                f"its camera says uint8 {list(shape)}.",
                "All images must have the size that the capture states for them.",
            )
        if array is not None and not (array.flags.writeable and array.flags.c_contiguous):
            array = np.array(array, order="C")
        tensors.append(None if array is None else torch.from_numpy(array))
    image = ByteImage(*tensors)
    if image.weight is not None:  # SSIM's windows would carry ignored colours to their neighbours
        image = image._replace(rgb=filled(image.rgb, image.weight > 0))
    if depth_unit is not None:
        image = image._replace(depth=stored_depth(view, image.alpha, image.weight, depth_unit))
    return image.pinned() if pin else image


def _bytes(values: Tensor) -> Tensor:
    return (values + 0.5).clamp(0, 255).to(torch.uint8).contiguous()
