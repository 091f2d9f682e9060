"""Stage: replaces dead Gaussians by copies of others without changing the image (3DGS-MCMC)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.raster.project_gaussians import PARAMETERS
from luxel.render.ops.registry import define, register_implementation, require

_KINDS = ("", "m_", "v_")  # prefixes of parameters, first and second moments
_NAMES = [prefix + name for prefix in _KINDS for name in PARAMETERS]
_ROWS = ", ".join(f"Tensor({chr(ord('a') + i)}!) {name}" for i, name in enumerate(_NAMES))
define(
    f"relocate_({_ROWS}, int count, int added, float min_opacity, int seed, int step)"
    " -> (Tensor, Tensor, Tensor)"
)


def relocate_(
    parameters: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    count: int,
    *,
    min_opacity: float,
    seed: int,
    step: int,
    added: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Replaces dead Gaussians by copies of others, drawn by opacity, in place; or fills new rows with such copies.

    Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", eq. 9: sources and copies share
    opacity and scale so that the image stays the same. The draw is a function of seed, step and row. Nothing waits
    for the device.

    Args:
        parameters: of `Gaussians` or `Surfels` in their order, float32, contiguous, R >= count + added rows.
        exp_avgs, exp_avg_sqs: Adam's moments, likewise; those of sources and copies become 0.
        count: N, rows that are there.
        min_opacity: with ``added`` 0 the rows at most this opaque move, and those that are not finite. None of the
            sources gets fainter than this.
        seed: 64 bits. step: 32 bits.
        added: rows N to N + added are filled instead.

    Returns:
        source int32 [N + added] (the row that each is a copy of, or itself), copies int32 [N] (how many rows are
        copies of each), moved int32 [1] (how many there are in all; 0 where no row can be a source).

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    rows = (*parameters, *exp_avgs, *exp_avg_sqs)
    return torch.ops.luxel.relocate_(*rows, count, added, min_opacity, seed, step)


def _run(*args: object) -> tuple[Tensor, Tensor, Tensor]:
    rows: tuple[Tensor, ...] = args[: len(_NAMES)]  # pyright: ignore[reportAssignmentType]
    count, added, min_opacity, seed, step = args[len(_NAMES) :]
    assert isinstance(count, int) and isinstance(added, int)
    named = dict(zip(_NAMES, rows, strict=True))
    device, stride = rows[0].device, named["sh_rest"].shape[1]
    present = rows[0].shape[0]
    flat = named["log_scales"].dim() == 2 and named["log_scales"].shape[1] == 2
    widths = dict(zip(PARAMETERS, ((3,), (4,), (2 if flat else 3,), (), (3,), (stride, 3)), strict=True))
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        prefix + name: (named[prefix + name], torch.float32, (present, *widths[name]))
        for prefix in _KINDS
        for name in PARAMETERS
    }
    require("relocate", device, expected)
    if not (count >= 0 and added >= 0 and count + added <= present):
        raise ValueError(
            f"relocate: count and added must be at least 0 and together at most {present}, got {count} and {added}"
        )
    for name, tensor in named.items():
        if not tensor.is_contiguous():
            raise ValueError(f"relocate: {name} is changed in place and must be contiguous")
    source, copies, moved = _fake(*args)
    copies.zero_()
    moved.zero_()
    if count == 0:
        return torch.arange(added, dtype=torch.int32, device=device), copies, moved
    library, sizes = library_for(device), {"count": count, "added": added}
    needed = library.call("relocate_workspace", device, torch.float32, **sizes)
    library.call(
        "relocate",
        device,
        torch.float32,
        **named,
        **sizes,
        source=source,
        copies=copies,
        moved=moved,
        sh_stride=stride,
        flat=int(flat),
        step=step,
        seed=seed,
        min_opacity=min_opacity,
        workspace=torch.empty(needed, dtype=torch.uint8, device=device),
        workspace_bytes=needed,
    )
    return source, copies, moved


def _fake(*args: object) -> tuple[Tensor, Tensor, Tensor]:
    first, (count, added, *_rest) = args[0], args[len(_NAMES) :]
    assert isinstance(first, Tensor) and isinstance(count, int) and isinstance(added, int)
    return (
        first.new_empty(count + added, dtype=torch.int32),
        first.new_empty(count, dtype=torch.int32),
        first.new_empty(1, dtype=torch.int32),
    )


register_implementation("relocate_", _run, _fake)
