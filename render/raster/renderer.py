"""Renders one scene repeatedly: on a GPU as a captured graph, which costs the host microseconds per frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import NUMBERS as LENS_NUMBERS
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster.rasterize import Frame, rasterize
from luxel.render.replay import Replay

MARGIN = 1.3  # capacity for visible splats and for (tile, splat) pairs, relative to the need
SPARE = 1 << 14


class Renderer:
    """`rasterize` for many cameras of one size.

    On a GPU the work is captured as a CUDA graph at the second call and replayed from then on. A frame that needs more
    capacity than was captured is rendered again with more, so frames are always complete. On the CPU it is `rasterize`.

    Args:
        scene: what is rendered; values changed in place show in the next frame. If tensors are replaced, make
            another Renderer.
        options: keywords of `rasterize`, the same for every frame (not ``max_instances``).
    """

    def __init__(self, scene: Parameters, **options: Any) -> None:
        self.scene, self._options = scene.detach(), options
        self._replay: Replay[tuple[Frame, tuple[Tensor, ...]]] = Replay(scene.device)
        self._capacity: tuple[int, int] | None = None  # visible splats, (tile, splat) pairs
        self._camera: Camera | None = None
        self._loaded: _View | None = None  # what `_camera` was last filled from
        self._g_rgb: Tensor | None = None
        self._needed = _Needed(scene.device) if scene.device.type == "cuda" else None
        self._time = torch.zeros((), dtype=scene.opacity_logits.dtype, device=scene.device)
        self._loaded_time: float | None = None  # what `_time` was last filled with

    def draw(self, camera: Camera, time: float | None = None) -> Frame:
        """The frame of a camera; on a GPU its tensors are overwritten by the next call.

        Args:
            time: of a moving scene.

        Raises:
            ValueError: a batch of cameras, or a moving scene and no time.
        """
        return self._run(camera, time, None)[0]

    def draw_with_gradients(
        self, camera: Camera, g_rgb: Tensor, time: float | None = None
    ) -> tuple[Frame, Parameters]:
        """The frame of a camera, and the gradients of a loss by the parameters; overwritten by the next call.

        Args:
            g_rgb: gradient of the loss by the colours, [H, W, 3].
            time: of a scene that moves.

        Raises:
            ValueError: a batch of cameras, a gradient of another shape, or a scene that moves and no time.
        """
        if tuple(g_rgb.shape) != (camera.height, camera.width, 3):
            raise ValueError(f"g_rgb must be {[camera.height, camera.width, 3]}, got {list(g_rgb.shape)}")
        frame, gradients = self._run(camera, time, g_rgb)
        return frame, type(self.scene)(*gradients)

    def _run(
        self, camera: Camera, time: float | None, g_rgb: Tensor | None
    ) -> tuple[Frame, tuple[Tensor, ...]]:
        if camera.shutter is not None:
            raise ValueError("camera must have a global shutter; luxel.render.raster.rasterize draws others")
        if camera.batched:
            raise ValueError(f"camera must be a single one, got a batch of {camera.world_to_cam.shape[0]}")
        if self.scene.moves and time is None:
            raise ValueError(f"time must be given: {self.scene.noun} move")
        if time is not None and time != self._loaded_time:
            self._time.fill_(time)
            self._loaded_time = time
        if self._needed is None:
            return self._draw(camera, g_rgb, None)
        loaded = self._load(camera, g_rgb)
        if self._capacity is None:
            with torch.no_grad():
                totals = rasterize(self.scene, loaded, time=self._time, max_instances=1).totals
            assert totals is not None
            self._capacity = _with_margin(*totals.tolist())
        while True:
            epoch = (loaded.width, loaded.height, loaded.near, loaded.far, self._capacity)
            self._needed.clear()
            g_loaded = None if g_rgb is None else self._g_rgb
            outputs = self._replay.run(
                epoch, g_rgb is not None, lambda g=g_loaded: self._draw(loaded, g, self._capacity)
            )
            needed = self._needed.wait()
            if all(n <= capacity for n, capacity in zip(needed, self._capacity, strict=True)):
                return outputs
            self._capacity = _with_margin(*needed)

    def _load(self, camera: Camera, g_rgb: Tensor | None) -> Camera:
        """Copies camera and gradient to where the captured work reads them."""
        device = self.scene.device
        present = self._camera
        shape = (camera.width, camera.height, camera.near, camera.far, camera.lens is None)
        if present is None or shape != (
            present.width,
            present.height,
            present.near,
            present.far,
            present.lens is None,
        ):
            present = replace(
                camera,
                world_to_cam=torch.empty(4, 4, device=device),
                intrinsics=torch.empty(4, device=device),
                lens=None if camera.lens is None else torch.empty(LENS_NUMBERS, device=device),
            )
            self._camera, self._loaded, self._g_rgb, self._capacity = present, None, None, None
            self._replay.forget()
        if self._loaded is None or not self._loaded.same(camera):
            present.world_to_cam.copy_(camera.world_to_cam, non_blocking=True)
            present.intrinsics.copy_(camera.intrinsics, non_blocking=True)
            if present.lens is not None and camera.lens is not None:
                present.lens.copy_(camera.lens, non_blocking=True)
            self._loaded = _View.of(camera)
        if g_rgb is not None:
            if self._g_rgb is None:
                self._g_rgb = torch.empty_like(g_rgb, device=device, memory_format=torch.contiguous_format)
            if self._g_rgb.data_ptr() != g_rgb.data_ptr():
                self._g_rgb.copy_(g_rgb, non_blocking=True)
        return present

    def _draw(
        self, camera: Camera, g_rgb: Tensor | None, capacity: tuple[int, int] | None
    ) -> tuple[Frame, tuple[Tensor, ...]]:
        options = dict(self._options)
        if capacity is not None:
            options |= {"max_visible": capacity[0], "max_instances": capacity[1]}
        if self._needed is not None:
            options["on_totals"] = self._needed.send
        leaves = self.scene.detach().requires_grad_(g_rgb is not None)
        with torch.set_grad_enabled(g_rgb is not None):
            frame = rasterize(leaves, camera, time=self._time, **options)
        if self._needed is not None:
            self._needed.join()
        if g_rgb is None:
            return frame, ()
        gradients = torch.autograd.grad(frame.rgb, tuple(leaves.tensors().values()), g_rgb)
        for name, value in vars(frame).items():
            if isinstance(value, Tensor):
                setattr(frame, name, value.detach())
        return frame, gradients


class _View(NamedTuple):
    """The tensors of a camera, and how often they have been written to in place."""

    tensors: tuple[Tensor, ...]
    versions: tuple[int, ...]

    @staticmethod
    def of(camera: Camera) -> _View | None:
        """None where in-place writes are not counted: on the host, where numpy can write, and in inference mode."""
        parts = camera.world_to_cam, camera.intrinsics, camera.lens
        tensors = tuple(t for t in parts if t is not None)
        if any(not t.is_cuda or t.is_inference() for t in tensors):
            return None
        return _View(tensors, tuple(t._version for t in tensors))

    def same(self, camera: Camera) -> bool:
        """Whether the camera is made of these tensors, with the same contents."""
        other = _View.of(camera)
        return (
            other is not None
            and len(self.tensors) == len(other.tensors)
            and all(a is b for a, b in zip(self.tensors, other.tensors, strict=True))
            and self.versions == other.versions
        )


class _Needed:
    """The capacity that a frame needs, copied to the host while the frame is still being rendered.

    Args:
        device: a GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._numbers = torch.empty(2, dtype=torch.int64, pin_memory=True)
        self._stream = torch.cuda.Stream(device)
        self._arrived = torch.cuda.Event(external=True)

    def clear(self) -> None:
        """Clears the numbers of the previous frame."""
        self._numbers.fill_(-1)

    def send(self, totals: Tensor) -> None:
        """Copies the numbers on a parallel stream; `join` afterwards. Can be captured."""
        self._stream.wait_stream(torch.cuda.current_stream(totals.device))
        with torch.cuda.stream(self._stream):
            self._numbers.copy_(totals, non_blocking=True)
            self._arrived.record(self._stream)

    def join(self) -> None:
        """Waits for the stream of `send`."""
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)

    def wait(self) -> list[int]:
        """Visible splats and (tile, splat) pairs, once they have arrived."""
        while min(needed := self._numbers.tolist()) < 0:
            self._arrived.synchronize()
        return needed


def _with_margin(visible: int, pairs: int) -> tuple[int, int]:
    return int(MARGIN * visible) + SPARE, int(MARGIN * pairs) + SPARE
