"""The scenes behind the files of other programs in data/, and what a format loses of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy.spatial import KDTree

from luxel.render.primitives.gaussians import SH_C0, Gaussians

DATA = Path(__file__).with_name("data")


def knot() -> Gaussians:
    """2,000 Gaussians of a torus knot over a disc with a chequered floor, SH degree 3; the numbers follow the seed."""
    random = np.random.default_rng(20261122)
    along = random.uniform(0, 2 * np.pi, 1600)
    radius = 0.62 + 0.22 * np.cos(3 * along)
    curve = np.stack(
        [radius * np.cos(2 * along), -0.22 * np.sin(3 * along) - 0.15, radius * np.sin(2 * along)], 1
    )
    around = random.normal(size=(1600, 3))
    curve += 0.06 * around / np.linalg.norm(around, axis=1, keepdims=True)
    angle = random.uniform(0, 2 * np.pi, 400)
    distance = np.sqrt(random.uniform(0, 1, 400))
    disc = np.stack([distance * np.cos(angle), np.full(400, 0.22), distance * np.sin(angle)], 1)
    means = np.concatenate([curve, disc])
    hues = 0.5 + 0.45 * np.stack([np.sin(along), np.sin(along + 2.1), np.sin(along + 4.2)], 1)
    light = (np.floor(disc[:, :1] * 5) + np.floor(disc[:, 2:] * 5)) % 2 > 0
    rgb = np.concatenate([hues, np.where(light, 0.85, 0.25) * np.ones((1, 3))])
    quats = random.normal(size=(2000, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    log_scales = np.log(random.uniform(0.008, 0.035, (2000, 3)))
    logits = random.uniform(-3, 6, 2000)
    quats[1600:], log_scales[1600:], logits[1600:] = [1, 0, 0, 0], np.log([0.045, 0.006, 0.045]), 4
    weights = 0.12 * random.normal(size=(45, 6))
    rest = 0.35 * np.tanh(np.concatenate([means, means**2], 1) @ weights.T)
    return gaussians(means, quats, log_scales, logits, (rgb - 0.5) / SH_C0, rest)


def edge() -> Gaussians:
    """16 Gaussians with extreme opacities, scales, quaternions, coefficients, and one far away."""
    means, quats = np.zeros((16, 3)), np.zeros((16, 4))
    means[:, 0], means[15, 1] = np.linspace(-1, 1, 16), 300
    quats[:, 0], quats[8, 0], quats[9:11, 0] = 1, -1, (3, 0.01)
    quats[10, 1], quats[11] = 0.01, (0, 0, 0, -2)
    log_scales, logits = np.full((16, 3), -4.0), np.full(16, 2.0)
    log_scales[4:8, 0], logits[:4] = (-15, -10.5, 2, 7), (-20, 20, 400, -5.6)
    dc, rest = np.zeros((16, 3)), np.zeros((16, 45))
    dc[12:14, 0], rest[14, 0], rest[14, 44] = (6, -6), 1.5, -1.5
    return gaussians(means, quats, log_scales, logits, dc, rest)


def gaussians(
    means: np.ndarray,
    quats: np.ndarray,
    log_scales: np.ndarray,
    logits: np.ndarray,
    dc: np.ndarray,
    rest: np.ndarray,
) -> Gaussians:
    """From arrays as in a PLY file: ``rest`` is [N, 45], channel by channel."""
    coefficients = rest.reshape(-1, 3, 15).transpose(0, 2, 1)
    arrays = (means, quats, log_scales, logits, dc, coefficients)
    return Gaussians(*(torch.from_numpy(np.ascontiguousarray(array, np.float32)) for array in arrays))


def losses(source: Gaussians, read: Gaussians) -> dict[str, float]:
    """Differences of a scene that was written and read, each Gaussian with the nearest of the source.

    Returns:
        The largest of positions, logarithms of scales, rotations in degrees, opacities, coefficients of degree 0, and
        the root mean square of those above, of the degrees that both have.
    """
    _, index = KDTree(source.means.numpy()).query(read.means.numpy())
    assert len(set(index.tolist())) == read.count
    match = source.select(torch.from_numpy(index)).map(lambda t: t.double())
    read = read.map(lambda t: t.double())
    kept = min(source.sh_rest.shape[1], read.sh_rest.shape[1])
    rest = read.sh_rest[:, :kept] - match.sh_rest[:, :kept]
    return {
        "position": float((read.means - match.means).norm(dim=1).max()),
        "log scale": float((read.log_scales - match.log_scales).abs().max()),
        "rotation": float(turns(match.quats, read.quats).max()),
        "alpha": float((read.opacity_logits.sigmoid() - match.opacity_logits.sigmoid()).abs().max()),
        "dc": float((read.sh_dc - match.sh_dc).abs().max()),
        "rest": float(rest.square().mean().sqrt()) if kept else 0.0,
    }


def turns(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Angles between rotations, quaternions [N, 4] of any length, in degrees [N]."""
    a, b = (torch.nn.functional.normalize(q.double(), dim=1) for q in (a, b))
    apart = torch.minimum((a - b).norm(dim=1), (a + b).norm(dim=1))
    return torch.rad2deg(4 * torch.asin((apart / 2).clamp(max=1)))


def assert_within(actual: dict[str, float], limits: dict[str, float]) -> None:
    over = {name: (value, limits[name]) for name, value in actual.items() if not value <= limits[name]}
    assert not over, f"(actual, limit) {over}"
