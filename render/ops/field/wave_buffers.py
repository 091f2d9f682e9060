"""Buffers of an image that is rendered in waves: its rays, and the samples of a wave."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

STATE = 8  # numbers of a ray between waves, see cuda/abi/rays.h


class WaveRays(NamedTuple):
    """Rays of a part of an image, between waves.

    Attributes:
        state: what each ray carries, [N, 8].
        lists: numbers of the rays that go on, of this wave and the next in turns, int32 [2, N].
        listed: how many go on at the start and after each wave, int32 [waves + 1].
        rgb, transmittance, depth: the image, [N, 3], [N], [N]; of rays that are finished.
    """

    state: Tensor
    lists: Tensor
    listed: Tensor
    rgb: Tensor
    transmittance: Tensor
    depth: Tensor

    @staticmethod
    def allocate(rays: int, waves: int, like: Tensor) -> WaveRays:
        """Buffers for N rays and ``waves`` waves, of the type and on the device of ``like``."""
        return WaveRays(
            like.new_empty(rays, STATE),
            like.new_empty(2, rays, dtype=torch.int32),
            like.new_zeros(waves + 1, dtype=torch.int32),
            like.new_empty(rays, 3),
            like.new_empty(rays),
            like.new_empty(rays),
        )

    @property
    def waves(self) -> int:
        """How many waves fit."""
        return self.listed.shape[0] - 1


class WaveSamples(NamedTuple):
    """Buffers for the samples of a wave; positions that are not written stay as they were.

    Attributes:
        requested: how many there are, of each wave, int32 [waves].
        positions, directions, t: [S, 3], [S, 3] or None, [S].
        ranges: first sample and number of them of each position in the list, int32 [N, 2].
    """

    requested: Tensor
    positions: Tensor
    directions: Tensor | None
    t: Tensor
    ranges: Tensor

    @staticmethod
    def allocate(capacity: int, rays: WaveRays) -> WaveSamples:
        """Buffers for S samples of those rays in a wave."""
        return WaveSamples(
            rays.listed.new_zeros(rays.waves),
            rays.rgb.new_zeros(capacity, 3),
            rays.rgb.new_zeros(capacity, 3),
            rays.rgb.new_zeros(capacity),
            rays.listed.new_empty(rays.rgb.shape[0], 2),
        )
