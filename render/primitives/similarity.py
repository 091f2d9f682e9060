"""Similarity transforms of scenes: rotation, uniform scale and translation, and of spherical harmonics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import pi, sqrt

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.spherical_harmonics import sh_basis

SH_DIRECTIONS = 64  # directions at which functions of degree 3 are compared
OPPOSITE = (
    -0.99
)  # cosine below which two directions count as opposite: the axis of the shortest rotation is rounded


@dataclass(frozen=True)
class Similarity:
    """x' = scale * R(quat) x + translation, in world coordinates.

    Args:
        quat: rotation wxyz, not zero; normalised when used.
        scale: above 0.
        translation: capture units.

    Raises:
        ValueError: the quaternion is zero, the scale is not above 0, or a number is not finite.
    """

    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    scale: float = 1.0
    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        numbers = torch.tensor([*self.quat, self.scale, *self.translation], dtype=torch.float64)
        if not bool(numbers.isfinite().all()):
            raise ValueError(f"quat, scale and translation must be finite, got {self}")
        if not self.scale > 0 or not float(numbers[:4].norm()) > 1e-12:
            raise ValueError(f"scale must be above 0 and quat not 0, got {self}")

    @staticmethod
    def about(
        pivot: tuple[float, float, float],
        *,
        quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0),
        scale: float = 1.0,
        shift: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> Similarity:
        """Rotation and scale about ``pivot`` [3], then a shift: x' = scale R (x - pivot) + pivot + shift."""
        turned = Similarity(quat, scale).apply(torch.tensor(pivot, dtype=torch.float64)).tolist()
        moved = tuple(p + s - t for p, s, t in zip(pivot, shift, turned, strict=True))
        return Similarity(quat, scale, moved)

    @staticmethod
    def between(source: Sequence[float] | np.ndarray, target: Sequence[float] | np.ndarray) -> Similarity:
        """The rotation that turns the direction ``source`` into ``target``, [3] each of any length, by the shortest
        way.

        Raises:
            ValueError: a direction has the length 0 or a number that is not finite.
        """
        a, b = _unit(source), _unit(target)
        if float(a @ b) > OPPOSITE:
            return Similarity(_shortest(a, b))
        axis = np.cross(a, b)
        if not np.linalg.norm(axis) > 1e-6:
            axis = np.cross(a, np.eye(3)[int(np.argmin(np.abs(a)))])
        for _ in range(2):  # exactly square to a, so that half a turn about it gives -a
            axis = axis - float(axis @ a) * a
            axis = axis / np.linalg.norm(axis)
        half = Similarity((0.0, *_triple(axis)))
        return Similarity(_shortest(-a, b)).after(half)

    def after(self, first: Similarity) -> Similarity:
        """One transform instead of two: ``first``, then this one."""
        like = torch.zeros(0, dtype=torch.float64)
        w, x, y, z = quat_product(self.unit_quat(like), first.unit_quat(like)).tolist()
        moved = self.apply(torch.tensor(first.translation, dtype=torch.float64)).tolist()
        return Similarity((w, x, y, z), self.scale * first.scale, _triple(moved))

    def inverse(self) -> Similarity:
        """The transform that takes this one back."""
        w, x, y, z = self.quat
        back = Similarity((w, -x, -y, -z), 1 / self.scale)
        moved = back.apply(torch.tensor(self.translation, dtype=torch.float64))
        return replace(back, translation=_triple((-moved).tolist()))

    def turned(self, directions: np.ndarray) -> np.ndarray:
        """Directions of the transformed scene, float64 [..., 3]; lengths are retained."""
        return np.asarray(directions, np.float64) @ self.matrix.numpy().T

    def pose(self, world_to_cam: np.ndarray) -> np.ndarray:
        """The camera that sees of the transformed scene what one with this pose sees of the scene.

        Depths are multiplied by the scale.

        Args:
            world_to_cam: rigid, [4, 4].

        Returns:
            float64 [4, 4].
        """
        out = np.array(world_to_cam, np.float64)
        out[:3, :3] = out[:3, :3] @ self.matrix.numpy().T
        out[:3, 3] = self.scale * out[:3, 3] - out[:3, :3] @ np.array(self.translation)
        return out

    def camera(self, camera: Camera) -> Camera:
        """A single camera that sees of the transformed scene what ``camera`` sees of the scene; see `pose`.

        A rolling shutter moves by scaled distances.
        """
        pose = torch.from_numpy(self.pose(camera.world_to_cam.detach().cpu().double().numpy()))
        shutter = camera.shutter
        if shutter is not None:
            factors = [self.scale] * 3 + [1.0] * (len(shutter) - 3)
            shutter = shutter * shutter.new_tensor(factors)
        return replace(
            camera,
            world_to_cam=pose.to(camera.world_to_cam),
            near=camera.near * self.scale,
            far=camera.far * self.scale,
            shutter=shutter,
        )

    @property
    def turns(self) -> bool:
        """Whether the rotation is not the identity."""
        return any(self.quat[1:])

    def unit_quat(self, like: Tensor) -> Tensor:
        """The rotation as a unit quaternion wxyz, [4], of the type and on the device of ``like``."""
        quat = torch.tensor(self.quat, dtype=torch.float64)
        return (quat / quat.norm()).to(like)

    @property
    def matrix(self) -> Tensor:
        """The rotation, float64 [3, 3]."""
        w, x, y, z = self.unit_quat(torch.zeros(0, dtype=torch.float64)).tolist()
        return torch.tensor(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ],
            dtype=torch.float64,
        )

    def apply(self, points: Tensor) -> Tensor:
        """The transformed points, [..., 3]; computed in float64, returned in the type of ``points``."""
        matrix = (self.scale * self.matrix).to(points.device)
        shift = torch.tensor(self.translation, dtype=torch.float64, device=points.device)
        return (points.double() @ matrix.T + shift).to(points.dtype)

    def turn_quats(self, quats: Tensor) -> Tensor:
        """Rotations followed by this one: the product q p of quaternions wxyz, [N, 4]; lengths are retained."""
        return quat_product(self.unit_quat(quats), quats) if self.turns else quats

    def turn_sh(self, sh_rest: Tensor) -> Tensor:
        """Coefficients of the functions f'(d) = f(R^T d), degrees 1 and above.

        A function of one degree stays of that degree under rotation, so the new coefficients follow exactly from the
        values at enough directions, as a least-squares solution in float64.

        Args:
            sh_rest: [N, K - 1, 3] with K = (D + 1)^2, D in 0..3, of functions of world directions.
        """
        if not self.turns or not sh_rest.shape[1]:
            return sh_rest
        degree = int(sqrt(sh_rest.shape[1] + 1)) - 1
        directions = _sphere(SH_DIRECTIONS)
        after = sh_basis(directions, degree)[:, 1:]
        before = sh_basis(directions @ self.matrix, degree)[:, 1:]  # at R^T d
        solution = torch.linalg.lstsq(after, before).solution
        matrix = torch.block_diag(
            *(
                solution[d * d - 1 : (d + 1) ** 2 - 1, d * d - 1 : (d + 1) ** 2 - 1]
                for d in range(1, degree + 1)
            )
        )
        # One product for all coefficients and channels of a row.
        channels = torch.kron(matrix.T.contiguous(), torch.eye(3, dtype=matrix.dtype)).to(sh_rest)
        return (sh_rest.flatten(1) @ channels).view_as(sh_rest)


def quat_product(a: Tensor, b: Tensor) -> Tensor:
    """Hamilton's product of quaternions wxyz, [..., 4]: the rotation ``b``, then ``a``."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        -1,
    )


def _unit(direction: Sequence[float] | np.ndarray) -> np.ndarray:
    """A direction of length 1, float64 [3]."""
    vector = np.array(direction, np.float64)
    length = float(np.linalg.norm(vector))
    if not 0 < length < np.inf:
        raise ValueError(f"a direction must have a length above 0, got {vector.tolist()}")
    return vector / length


def _shortest(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float, float]:
    """The quaternion wxyz of the rotation from one direction of length 1 to another that is not its opposite."""
    x, y, z = np.cross(a, b).tolist()
    return 1 + float(a @ b), x, y, z


def _triple(numbers: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    x, y, z = (float(number) for number in numbers)
    return x, y, z


def _sphere(count: int) -> Tensor:
    """Directions spread over the sphere (a spiral with the golden angle), float64 [count, 3]."""
    i = torch.arange(count, dtype=torch.float64)
    z = 1 - (2 * i + 1) / count
    ring, angle = (1 - z * z).sqrt(), pi * (3 - sqrt(5)) * i
    return torch.stack([ring * angle.cos(), ring * angle.sin(), z], -1)
