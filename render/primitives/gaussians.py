"""3D Gaussians (Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Points

SH_C0 = 0.28209479177387814  # Y_0^0


@dataclass
class Gaussians:
    """N Gaussians by the raw parameters that an optimiser moves.

    Args:
        means: centres in world coordinates, [N, 3].
        quats: rotations wxyz, normalised when used, [N, 4].
        log_scales: natural logarithm of the standard deviations along the rotated axes, [N, 3].
        opacity_logits: opacity before the sigmoid, [N].
        sh_dc: spherical-harmonics coefficient of degree 0, RGB, [N, 3].
        sh_rest: coefficients of degrees 1..D, [N, K - 1, 3] with K = (D + 1)^2, D in 0..3.
    """

    means: Tensor
    quats: Tensor
    log_scales: Tensor
    opacity_logits: Tensor
    sh_dc: Tensor
    sh_rest: Tensor

    names: ClassVar[tuple[str, ...]] = (
        "means",
        "quats",
        "log_scales",
        "opacity_logits",
        "sh_dc",
        "sh_rest",
    )

    def __post_init__(self) -> None:
        n = self.means.shape[0]
        wanted = {
            "means": (n, 3),
            "quats": (n, 4),
            "log_scales": (n, 3),
            "opacity_logits": (n,),
            "sh_dc": (n, 3),
        }
        for name, shape in wanted.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"{name} must be {list(shape)}, got {list(getattr(self, name).shape)}")
        rest = tuple(self.sh_rest.shape)
        if len(rest) != 3 or rest[0] != n or rest[1] not in (0, 3, 8, 15) or rest[2] != 3:
            raise ValueError(f"sh_rest must be [{n}, 0 | 3 | 8 | 15, 3], got {list(rest)}")

    @property
    def count(self) -> int:
        """N."""
        return self.means.shape[0]

    @property
    def sh_degree(self) -> int:
        """The highest degree that the stored coefficients allow, 0..3."""
        return {0: 0, 3: 1, 8: 2, 15: 3}[self.sh_rest.shape[1]]

    @property
    def scales(self) -> Tensor:
        """Standard deviations, [N, 3], capture units."""
        return self.log_scales.exp()

    @property
    def opacities(self) -> Tensor:
        """Opacities in (0, 1), [N]."""
        return self.opacity_logits.sigmoid()

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return self.means.device

    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name, in the order of ``names``."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def map(self, function: Callable[[Tensor], Tensor]) -> Gaussians:
        """A new set with ``function`` applied to each parameter tensor."""
        return Gaussians(**{name: function(tensor) for name, tensor in self.tensors().items()})

    def to(self, target: torch.device | torch.dtype | str) -> Gaussians:
        """The same Gaussians on another device or in another float type."""
        return self.map(lambda t: t.to(target))

    def detach(self) -> Gaussians:
        """The same storage without gradients."""
        return self.map(lambda t: t.detach())

    def requires_grad_(self, on: bool = True) -> Gaussians:
        """Switches gradients of every parameter, in place."""
        for tensor in self.tensors().values():
            tensor.requires_grad_(on)
        return self

    def select(self, index: Tensor) -> Gaussians:
        """The Gaussians at ``index`` (integer positions or a boolean mask), copied."""
        return self.map(lambda t: t[index])

    @staticmethod
    def cat(a: Gaussians, b: Gaussians) -> Gaussians:
        """Both sets one after the other."""
        pairs = zip(a.tensors().items(), b.tensors().values(), strict=True)
        return Gaussians(**{name: torch.cat([x, y]) for (name, x), y in pairs})

    @staticmethod
    def from_points(
        points: Points,
        *,
        sh_degree: int = 3,
        opacity: float = 0.1,
        scale_factor: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> Gaussians:
        """Starts one isotropic Gaussian at each point, as wide as its three nearest neighbours are far.

        Args:
            points: P coloured points.
            sh_degree: 0..3, how many coefficients to hold (those above degree 0 start at 0).
            opacity: starting opacity in (0, 1).
            scale_factor: multiplies the starting standard deviation.
            device: where the parameters go.
        """
        xyz = torch.from_numpy(np.ascontiguousarray(points.xyz, dtype=np.float32))
        rgb = torch.from_numpy(np.ascontiguousarray(points.rgb)).float() / 255
        n = xyz.shape[0]
        distance = torch.from_numpy(neighbour_distance(points.xyz)) * scale_factor
        logit = float(np.log(opacity / (1 - opacity)))
        return Gaussians(
            means=xyz,
            quats=torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
            log_scales=distance.clamp_min(1e-7).log()[:, None].repeat(1, 3),
            opacity_logits=torch.full((n,), logit),
            sh_dc=(rgb - 0.5) / SH_C0,
            sh_rest=torch.zeros(n, (sh_degree + 1) ** 2 - 1, 3),
        ).to(device)

    @staticmethod
    def empty(sh_degree: int = 3, device: torch.device | str = "cpu") -> Gaussians:
        """No Gaussians at all."""
        return Gaussians(
            torch.zeros(0, 3, device=device),
            torch.zeros(0, 4, device=device),
            torch.zeros(0, 3, device=device),
            torch.zeros(0, device=device),
            torch.zeros(0, 3, device=device),
            torch.zeros(0, (sh_degree + 1) ** 2 - 1, 3, device=device),
        )


def neighbour_distance(xyz: np.ndarray, neighbours: int = 3) -> np.ndarray:
    """Root mean square distance from each point to its nearest neighbours, float32 [P].

    Duplicate points count as neighbours at distance 0; fewer points than asked for use all there are.

    Args:
        xyz: points, [P, 3].
        neighbours: how many nearest others to average.
    """
    from scipy.spatial import KDTree

    count = len(xyz)
    if count < 2:
        return np.full(count, 1.0, np.float32)
    k = min(neighbours + 1, count)
    distances, _ = KDTree(xyz).query(xyz, k=k, workers=-1)
    mean_square = (distances[:, 1:] ** 2).mean(axis=1)
    positive = mean_square[mean_square > 0]
    floor = float(np.median(positive)) * 1e-2 if positive.size else 1.0
    return np.sqrt(np.maximum(mean_square, floor)).astype(np.float32)
