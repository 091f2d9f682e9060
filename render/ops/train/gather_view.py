"""Stages: the view, the schedule and the count of a training step, by a cursor that lives on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.lens import NUMBERS as LENS_NUMBERS
from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

ROW = 28  # 32-bit numbers of a table row, see cuda/abi/train.h
# Their indices in a row; of ADAM as many as `adam_schedule` gives.
SLOT, VIEW, ADAM, BACKGROUND, STEP, TIME = 0, 1, slice(2, 12), slice(12, 15), 15, 16
# Those of `luxel.render.train.views`: for the exposure, the pose, what is left out as transient, and the camera.
OF_VIEW, VISIT_EXPOSURE, VISIT_POSE, THRESHOLD = slice(17, 24), slice(17, 19), slice(19, 21), slice(21, 22)
VISIT_CAMERA = slice(22, 24)
DEPTH = slice(24, 25)  # weight of the depth in the loss

define(
    "gather_view(Tensor images, Tensor? alphas, Tensor? weights, Tensor poses, Tensor intrinsics, Tensor table, "
    "int views) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
define("count_step_(Tensor overflow, Tensor totals, Tensor(a!) table, Tensor(b!) status, int views) -> ()")


def gather_view(
    images: Tensor,
    alphas: Tensor | None,
    weights: Tensor | None,
    poses: Tensor,
    intrinsics: Tensor,
    table: Tensor,
    views: int | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor, Tensor, Tensor]:
    """The image and camera of the current row of a table; nothing waits for the device.

    Args:
        images: straight colours, uint8 [P, H, W, 3]. alphas, weights: uint8 [P, H, W] or None.
        poses: world_to_cam of all views, float32 [V, 4, 4]. intrinsics: float32 [V, 4], pixels; with
            lenses [V, 12], see `luxel.render.geometry.camera.Camera.calibration`.
        table: int32 [1 + R, 28]; the first number is the cursor, row 1 + cursor is read: image, view, ten floats
            (as their bits), the background (three floats), the step, the time of the view (a float), eleven more.
        views: B, the number of rows from that one on; all outputs then have a leading B.

    Returns:
        rgb [H, W, 3] in [0, 1], composited onto the background where there is alpha; alpha [H, W] or None;
        weight [H, W] or None; world_to_cam [4, 4]; intrinsics [4] or [12]; the row, float32 [28].

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    stacked = torch.ops.luxel.gather_view(images, alphas, weights, poses, intrinsics, table, views or 1)
    rgb, alpha, weight, world_to_cam, camera, row = stacked if views else (t[0] for t in stacked)
    return (
        rgb,
        None if alphas is None else alpha,
        None if weights is None else weight,
        world_to_cam,
        camera,
        row,
    )


def view_numbers(rows: Tensor) -> Tensor:
    """The numbers of the views of rows [B, 28], int64 [B]."""
    return rows[:, VIEW].view(torch.int32).long()


def count_step_(overflow: Tensor, totals: Tensor, table: Tensor, status: Tensor, views: int = 1) -> None:
    """Advances the cursor and counts the step, or records that its lists overflowed, so that it changes nothing.

    Args:
        overflow: int32 [1] of `bin_splats`. totals: int64 [2] of `project_gaussians` or the like.
        table: as in `gather_view`.
        status: int32 [4]: steps that count, whether a step overflowed since this was last cleared, the
            largest number of tile instances per view (mean over the views of a step), and one unused.
        views: B, rows of the table that the step has used.
    """
    torch.ops.luxel.count_step_(overflow, totals, table, status, views)


def _check(
    images: Tensor,
    alphas: Tensor | None,
    weights: Tensor | None,
    poses: Tensor,
    intrinsics: Tensor,
    table: Tensor,
    views: int,
) -> None:
    p, h, w = images.shape[:3]
    expected = {
        "images": (images, torch.uint8, (p, h, w, 3)),
        "alphas": (alphas, torch.uint8, (p, h, w)),
        "weights": (weights, torch.uint8, (p, h, w)),
        "poses": (poses, torch.float32, (poses.shape[0], 4, 4)),
        "intrinsics": (intrinsics, torch.float32, (poses.shape[0], 4 + _lens_numbers(intrinsics))),
        "table": (table, torch.int32, (table.shape[0], ROW)),
    }
    require("gather_view", images.device, expected)
    if table.shape[0] < 2:
        raise ValueError(
            f"gather_view: table must be a header and at least one row, got {table.shape[0]} rows"
        )
    if views < 1:
        raise ValueError(f"gather_view: views must be at least 1, got {views}")


def _lens_numbers(intrinsics: Tensor) -> int:
    """How many numbers follow the intrinsics of each camera."""
    return LENS_NUMBERS if intrinsics.shape[-1] == 4 + LENS_NUMBERS else 0


def _fake(
    images: Tensor,
    alphas: Tensor | None,
    weights: Tensor | None,
    poses: Tensor,
    intrinsics: Tensor,
    table: Tensor,
    views: int,
) -> tuple[Tensor, ...]:
    image = views, *images.shape[1:3]
    nothing = views, 0
    return (
        poses.new_empty(*image, 3),
        poses.new_empty(nothing if alphas is None else image),
        poses.new_empty(nothing if weights is None else image),
        poses.new_empty(views, 4, 4),
        poses.new_empty(views, 4 + _lens_numbers(intrinsics)),
        poses.new_empty(views, ROW),
    )


def _gather(*inputs: Any) -> tuple[Tensor, ...]:
    _check(*inputs)
    images, alphas, weights, poses, intrinsics, table, views = inputs
    outputs = _fake(*inputs)
    rgb, alpha, weight, world_to_cam, camera, row = outputs
    library_for(images.device).call(
        "gather_view",
        images.device,
        torch.float32,
        images=images,
        alphas=alphas,
        weights=weights,
        poses=poses,
        intrinsics=intrinsics,
        lens=_lens_numbers(intrinsics),
        table=table,
        table_rows=table.shape[0] - 1,
        views=views,
        width=images.shape[2],
        height=images.shape[1],
        rgb=rgb,
        alpha=None if alphas is None else alpha,
        weight=None if weights is None else weight,
        world_to_cam=world_to_cam,
        camera=camera,
        row=row,
    )
    return outputs


def _count(overflow: Tensor, totals: Tensor, table: Tensor, status: Tensor, views: int) -> None:
    library_for(table.device).call(
        "count_step",
        table.device,
        torch.float32,
        overflow=overflow,
        totals=totals,
        views=views,
        table=table,
        status=status,
    )


register_implementation("gather_view", _gather, _fake)
register_implementation("count_step_", _count, lambda *_: None)
