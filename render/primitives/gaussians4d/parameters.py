"""4D Gaussians with rotors (Duan et al. 2024, "4D-Rotor Gaussian Splatting", arXiv 2402.03307)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Points
from luxel.render.ops.raster.project_gaussians4d import project_gaussians4d
from luxel.render.ops.raster.slice_gaussians4d import Slice, slice_gaussians4d
from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.gaussians4d.similarity4d import scale_space, turn_rotors
from luxel.render.primitives.parameters import Parameters, Projected, Viewing
from luxel.render.primitives.similarity import Similarity


@dataclass
class Gaussians4d(Parameters):
    """N Gaussians in space and time by the raw parameters that an optimiser moves.

    The covariance of (x, y, z, t) is R S S^T R^T with S = diag(exp(log_scales), exp(log_scale_t)) and R the rotation
    of the rotor, see `luxel.render.ops.raster.slice_gaussians4d.rotor_to_matrix`.

    Args:
        means: centres in world coordinates, [N, 3].
        times: centres in time (in the capture's unit, usually seconds), [N].
        log_scales: natural logarithm of the standard deviations along the first three rotated axes, [N, 3].
        log_scale_t: the same of the fourth axis, which the identity rotor leaves along time, [N].
        rotors: scalar s, bivectors xy, xz, yz, xt, yt, zt, pseudoscalar p; normalised when used, [N, 8].
        opacity_logits: opacity at the centre in time, before the sigmoid, [N].
        sh_dc: spherical-harmonics coefficient of degree 0, RGB, [N, 3].
        sh_rest: coefficients of degrees 1..D, [N, K - 1, 3] with K = (D + 1)^2, D in 0..3.
    """

    means: Tensor
    times: Tensor
    log_scales: Tensor
    log_scale_t: Tensor
    rotors: Tensor
    opacity_logits: Tensor
    sh_dc: Tensor
    sh_rest: Tensor

    primitive, noun, moves = "gaussians4d", "4D Gaussians", True

    def __post_init__(self) -> None:
        n = self.means.shape[0]
        self.check(
            {
                "means": (n, 3),
                "times": (n,),
                "log_scales": (n, 3),
                "log_scale_t": (n,),
                "rotors": (n, 8),
                "opacity_logits": (n,),
                "sh_dc": (n, 3),
            }
        )

    @property
    def scales(self) -> Tensor:
        """Standard deviations along the rotated axes, x, y, z, t, [N, 4]."""
        return torch.cat([self.log_scales, self.log_scale_t[:, None]], -1).exp()

    @property
    def centres(self) -> Tensor:
        """The means."""
        return self.means

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """See `luxel.render.ops.raster.project_gaussians4d.project_gaussians4d`."""
        options = view._asdict()
        options["timestamps"] = options.pop("times")
        return Projected(
            *project_gaussians4d(tuple(self.tensors().values()), statistics=statistics, **options)
        )

    def scaled(self, factor: float) -> Gaussians4d:
        """With ``factor`` times the standard deviations in space."""
        return replace(self, log_scales=self.log_scales + log(factor))

    def transformed(self, similarity: Similarity) -> Gaussians4d:
        """See `Parameters.transformed`; times stay."""
        log_scales, log_scale_t, rotors = scale_space(
            self.log_scales, self.log_scale_t, self.rotors, similarity.scale
        )
        return replace(
            self,
            means=similarity.apply(self.means),
            log_scales=log_scales,
            log_scale_t=log_scale_t,
            rotors=turn_rotors(rotors, similarity),
            sh_rest=similarity.turn_sh(self.sh_rest),
        )

    @torch.no_grad()
    def centres_at(self, time: float) -> Tensor:
        """See `Parameters.centres_at`."""
        cut = self.slice(time)
        return cut.means.where(cut.visible[:, None], cut.means.new_tensor(float("nan")))

    @property
    def sizes(self) -> Tensor:
        """The largest standard deviation of each along its first three axes, [N]."""
        return self.log_scales.amax(-1).exp()

    def slice(self, time: float | Tensor) -> Slice:
        """The Gaussians at ``time`` (a number, or a tensor without dimensions); differentiable.

        See `luxel.render.ops.raster.slice_gaussians4d.slice_gaussians4d`.
        """
        return slice_gaussians4d(self.means, self.times, self.scales, self.rotors, self.opacities, time)

    @torch.no_grad()
    def at(self, time: float | Tensor) -> Gaussians:
        """What is visible at ``time`` as ordinary Gaussians, which draw the same image; no gradient.

        Scales and rotations come from the eigendecomposition of the sliced covariance, in float64. Standard
        deviations are at least 1e-12, opacities at most 1 - 1e-7.
        """
        doubles = self.detach().to(torch.float64)
        cut = doubles.slice(time)
        finite = (
            torch.cat([cut.means, cut.covariance.flatten(1), cut.opacity[:, None]], -1).isfinite().all(-1)
        )
        retained = cut.visible & finite
        values, axes = torch.linalg.eigh(cut.covariance[retained])
        axes[:, :, 2] *= torch.linalg.det(axes)[:, None]  # a rotation, not a reflection
        opacity = cut.opacity[retained].clamp(1e-30, 1 - 1e-7)
        return Gaussians(
            means=cut.means[retained],
            quats=matrix_to_quat(axes),
            log_scales=values.clamp_min(1e-24).log() / 2,
            opacity_logits=opacity.log() - (-opacity).log1p(),
            sh_dc=doubles.sh_dc[retained],
            sh_rest=doubles.sh_rest[retained],
        ).to(self.means.dtype)

    @staticmethod
    def from_gaussians(gaussians: Gaussians, *, time: float = 0.0, time_scale: float = 1e6) -> Gaussians4d:
        """Gaussians that stand still: no rotation between space and time, and a time scale beyond all times.

        Args:
            gaussians: N of them; quaternions wxyz of any length.
            time: their centre in time.
            time_scale: standard deviation in time. At ``time_scale`` / 1e3 from ``time`` opacity has lost 5e-7.
        """
        w, x, y, z = gaussians.quats.unbind(-1)
        zero = torch.zeros_like(w)
        shared = gaussians.tensors()
        del shared["quats"]
        return Gaussians4d(
            times=torch.full_like(w, time),
            log_scale_t=torch.full_like(w, log(time_scale)),
            rotors=torch.stack([w, -z, y, -x, zero, zero, zero, zero], -1),
            **shared,
        )

    @staticmethod
    def from_points(
        points: Points,
        *,
        times: tuple[float, float] = (0.0, 1.0),
        time_scale: float | None = None,
        sh_degree: int = 3,
        opacity: float = 0.1,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Gaussians4d:
        """One Gaussian at each point, at a random time, of the size that `Gaussians.from_points` gives.

        Args:
            points: P coloured points.
            times: centres in time are uniform between these.
            time_scale: starting standard deviation in time; None: as wide as in space. The authors take
                sqrt(2) s with times -1 to 11 s for videos of 10 s.
            sh_degree: 0..3, how many coefficients to hold (those above degree 0 start at 0).
            opacity: starting opacity in (0, 1).
            seed: of the random times.
            device: where the parameters go.
        """
        start = Gaussians.from_points(points, sh_degree=sh_degree, opacity=opacity)
        generator = torch.Generator().manual_seed(seed)
        identity = torch.zeros(start.count, 8)
        identity[:, 0] = 1
        span = start.log_scales[:, 0].clone()
        return Gaussians4d(
            means=start.means,
            times=times[0] + (times[1] - times[0]) * torch.rand(start.count, generator=generator),
            log_scales=start.log_scales,
            log_scale_t=span if time_scale is None else torch.full_like(span, log(time_scale)),
            rotors=identity,
            opacity_logits=start.opacity_logits,
            sh_dc=start.sh_dc,
            sh_rest=start.sh_rest,
        ).to(device)

    @staticmethod
    def uniform(
        count: int = 100_000,
        *,
        half_side: float = 1.5,
        times: tuple[float, float] = (0.0, 1.0),
        sh_degree: int = 3,
        opacity: float = 0.1,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> Gaussians4d:
        """Grey Gaussians at random positions in a cube and at random times, as the authors start from for D-NeRF.

        Args:
            count: N.
            half_side: the cube is [-half_side, half_side]^3.
            times: centres in time are uniform between these.
            sh_degree: 0..3, how many coefficients to hold; all start at 0.
            opacity: starting opacity in (0, 1).
            seed: of the random numbers.
            device: where the parameters go.
        """
        xyz = np.random.default_rng(seed).uniform(-half_side, half_side, (count, 3)).astype(np.float32)
        grey = Points(xyz, np.zeros((count, 3), np.uint8))
        start = Gaussians4d.from_points(grey, times=times, sh_degree=sh_degree, opacity=opacity, seed=seed)
        start.sh_dc.zero_()
        return start.to(device)

    @staticmethod
    def empty(sh_degree: int = 3, device: torch.device | str = "cpu") -> Gaussians4d:
        """No Gaussians at all."""
        return Gaussians4d.from_gaussians(Gaussians.empty(sh_degree, device))


def matrix_to_quat(matrices: Tensor) -> Tensor:
    """Unit quaternions wxyz of rotation matrices, [N, 3, 3] to [N, 4]; w and -w mean the same.

    The largest of the four components is computed first and the others are divided by it (Shepperd 1978).
    """
    m = matrices
    xx, yy, zz = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    wx, wy, wz = m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]
    xy, xz, yz = m[:, 1, 0] + m[:, 0, 1], m[:, 2, 0] + m[:, 0, 2], m[:, 2, 1] + m[:, 1, 2]
    # Row i is 4 q_i q: any row gives q, the one of the largest component the most precisely.
    rows = [
        torch.stack([1 + xx + yy + zz, wx, wy, wz], -1),
        torch.stack([wx, 1 + xx - yy - zz, xy, xz], -1),
        torch.stack([wy, xy, 1 - xx + yy - zz, yz], -1),
        torch.stack([wz, xz, yz, 1 - xx - yy + zz], -1),
    ]
    outer = torch.stack(rows, 1)
    largest = outer.diagonal(dim1=1, dim2=2).argmax(-1)
    row = outer.gather(1, largest[:, None, None].expand(-1, 1, 4))[:, 0]
    return row / row.norm(dim=-1, keepdim=True)
