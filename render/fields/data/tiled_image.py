"""Images that stay on disk while fields are trained on them, and the tiles that a step draws its samples from."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

AHEAD = 6  # steps whose tiles are read in advance
PROBES = 256  # positions in an image that its digest covers


class TiledImage(ABC):
    """An image of which any part can be read without the rest.

    Attributes:
        name: of its file, for messages.
        width, height: pixels.
    """

    name: str
    width: int
    height: int

    @abstractmethod
    def read(self, top: int, left: int, height: int, width: int) -> np.ndarray:
        """The pixels of a part that lies within the image: sRGB, uint8 [height, width, 3]. Threads may call it.

        Raises:
            LuxelError: they cannot be read, or have values that are no colours.
        """

    def bands(self, pixels: int) -> Iterator[np.ndarray]:
        """The full image a few rows at a time, [R, width, 3] of about this many pixels."""
        rows = max(1, pixels // self.width)
        for top in range(0, self.height, rows):
            yield self.read(top, 0, min(rows, self.height - top), self.width)

    def content_digest(self) -> str:
        """SHA-256 of the size and of `PROBES` positions spread over the image, in hexadecimal."""
        digest = hashlib.sha256(f"{self.width} {self.height};".encode())
        side = max(1, math.isqrt(PROBES))
        height, width = min(8, self.height), min(64, self.width)
        for y in np.linspace(0, self.height - height, side).astype(int).tolist():
            for x in np.linspace(0, self.width - width, side).astype(int).tolist():
                digest.update(self.read(y, x, height, width).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TileOptions:
    """How much of an image is on the device at a time.

    Args:
        side: of a tile at most, pixels.
        count: tiles on the device.
        fresh: of them, replaced before each step.
    """

    side: int = 256
    count: int = 1024
    fresh: int = 8


class TileSamples(NamedTuple):
    """Samples of an image.

    Args:
        positions: in the unit square, [S, 2].
        targets: colours there in [0, 1], linear between the centres of pixels, [S, 3].
    """

    positions: Tensor
    targets: Tensor


class _Staging(NamedTuple):
    """Tiles on their way to the device; page-locked for a GPU."""

    pixels: Tensor
    cells: Tensor
    copied: list[torch.cuda.Event]  # after its copies


class TilePool:
    """Some tiles of an image on the device, a few of which are replaced before each step.

    The image is divided into ny x nx cells of exactly equal size, in the unit square. The tile of a cell has the
    pixels that interpolation at any position in it needs. All cells are visited in a random order, and in another one
    when all have been; a step draws cells of the pool and positions in them uniformly. In expectation over the orders,
    its positions are therefore uniform over the image. The tiles of a step depend on the seed and its number alone.

    Tiles are read by a thread, some steps in advance; the device waits for the disk where that is slower. Threads
    and memory are freed with the pool.

    Args:
        image: to read from.
        options: sizes.
        seed: of the orders.
        device: of the tiles.
    """

    def __init__(self, image: TiledImage, options: TileOptions, seed: int, device: torch.device) -> None:
        self.image, self.seed, self.device = image, seed, device
        self.rows, self.columns = (-(-n // options.side) for n in (image.height, image.width))
        self.total = self.rows * self.columns
        complete = self.total <= options.count
        self.fresh = 0 if complete else max(1, min(options.fresh, options.count))
        self.count = self.total if complete else options.count // self.fresh * self.fresh
        self.tile_shape = (
            math.ceil(image.height / self.rows) + 2,
            math.ceil(image.width / self.columns) + 2,
        )
        self.pixels = torch.zeros(self.count, *self.tile_shape, 3, dtype=torch.uint8, device=device)
        self.cells = torch.zeros(self.count, 4, dtype=torch.float32, device=device)
        self.step = -1  # whose tiles are present
        self._grid = torch.tensor([self.columns, self.rows], dtype=torch.float32, device=device)
        self._cell = torch.tensor(
            [image.width / self.columns, image.height / self.rows], dtype=torch.float32, device=device
        )
        self._orders: dict[int, np.ndarray] = {}
        self._reader = ThreadPoolExecutor(1, "luxel-tiles")
        self._ring = [self._staging(self.fresh) for _ in range(AHEAD + 1)] if self.fresh else []
        self._pending: dict[int, Future[_Staging]] = {}

    def advance(self, step: int) -> None:
        """Brings the tiles of a step into place; nothing waits for the device.

        Raises:
            LuxelError: the image cannot be read any more.
        """
        if step == self.step:
            return
        if self.step < 0 or step != self.step + 1:
            self._fill(step)
        elif self.fresh:
            staging = self._pending.pop(step).result()
            self._send(staging, (step - 1) * self.fresh % self.count, self.fresh)
        self.step = step
        for following in range(step + 1, step + 1 + AHEAD) if self.fresh else ():
            if following not in self._pending:
                self._pending[following] = self._reader.submit(self._read_step, following)

    def draw(self, count: int, generator: torch.Generator) -> TileSamples:
        """Samples from the present tiles, on the device; can be captured in a CUDA graph."""
        random = torch.rand(count, 3, generator=generator, device=self.device)
        number = (random[:, 0] * self.count).long().clamp_(max=self.count - 1)
        return self.samples_at(number, random[:, 1:])

    def samples_at(self, number: Tensor, position: Tensor) -> TileSamples:
        """The samples at positions in cells.

        Args:
            number: of a tile of the pool, int64 [S].
            position: in its cell, x and y in [0, 1], [S, 2].
        """
        cell = self.cells.index_select(0, number)
        at = cell[:, 2:] + position * self._cell
        low = at.floor()
        height, width = self.tile_shape
        x, y = (low[:, i].long().clamp(0, n - 2) for i, n in enumerate((width, height)))
        part = at - low
        first = (number * height + y) * width + x
        flat = self.pixels.view(-1, 3)
        top = torch.lerp(_at(flat, first), _at(flat, first + 1), part[:, :1])
        bottom = torch.lerp(_at(flat, first + width), _at(flat, first + width + 1), part[:, :1])
        return TileSamples((cell[:, :2] + position) / self._grid, torch.lerp(top, bottom, part[:, 1:]) / 255)

    def tile_at(self, visit: int) -> int:
        """The number of the tile that is visited after ``visit`` others."""
        turn, position = divmod(visit, self.total)
        if turn not in self._orders:
            self._orders = {k: order for k, order in self._orders.items() if k == turn - 1}
            self._orders[turn] = np.random.default_rng([self.seed, turn]).permutation(self.total)
        return int(self._orders[turn][position])

    def _fill(self, step: int) -> None:
        """Reads all tiles of a step."""
        for future in self._pending.values():
            if not future.cancel():
                future.exception()
        self._pending.clear()
        end = self.count + step * self.fresh
        part = max(self.fresh, min(64, self.count))
        staging = self._staging(part)
        for first in range(0, self.count, part):
            size = min(part, self.count - first)
            # Slot j has the last visit before `end` that is j modulo the number of slots.
            visits = [end - 1 - (end - 1 - slot) % self.count for slot in range(first, first + size)]
            self._read(visits, staging)
            self._send(staging, first, size)
            for event in staging.copied:
                event.synchronize()

    def _read_step(self, step: int) -> _Staging:
        staging = self._ring[step % len(self._ring)]
        while staging.copied:
            staging.copied.pop().synchronize()
        first = self.count + (step - 1) * self.fresh
        self._read(range(first, first + self.fresh), staging)
        return staging

    def _read(self, visits: Sequence[int], staging: _Staging) -> None:
        image = self.image
        height, width = self.tile_shape
        for k, visit in enumerate(visits):
            row, column = divmod(self.tile_at(visit), self.columns)
            x, y = column * image.width / self.columns - 0.5, row * image.height / self.rows - 0.5
            left, top = math.floor(x), math.floor(y)
            first_x, first_y = max(left, 0), max(top, 0)
            end_x, end_y = min(left + width, image.width), min(top + height, image.height)
            tile = image.read(first_y, first_x, end_y - first_y, end_x - first_x)
            missing = ((first_y - top, top + height - end_y), (first_x - left, left + width - end_x), (0, 0))
            staging.pixels[k].numpy()[...] = np.pad(tile, missing, "edge") if np.any(missing) else tile
            staging.cells[k] = torch.tensor([column, row, x - left, y - top])

    def _send(self, staging: _Staging, first: int, size: int) -> None:
        self.pixels[first : first + size].copy_(staging.pixels[:size], non_blocking=True)
        self.cells[first : first + size].copy_(staging.cells[:size], non_blocking=True)
        if self.device.type == "cuda":
            staging.copied.append(torch.cuda.Event())
            staging.copied[-1].record(torch.cuda.current_stream(self.device))

    def _staging(self, size: int) -> _Staging:
        pinned = self.device.type == "cuda"
        return _Staging(
            torch.zeros(size, *self.tile_shape, 3, dtype=torch.uint8, pin_memory=pinned),
            torch.zeros(size, 4, pin_memory=pinned),
            [],
        )


def _at(flat: Tensor, index: Tensor) -> Tensor:
    return flat.index_select(0, index).float()
