"""The operations of convexes, project -> bin -> blend, as torch sees them: schemas, graphs, what is refused."""

from __future__ import annotations

import pytest
import torch
from convex_scenes import random_convexes
from splat_stages import draw, projection_of

from luxel.render.errors import NativeError
from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.blend_splats import CHANNELS, blend_splats
from luxel.render.ops.raster.policies import policy
from luxel.render.ops.raster.project_convexes import PROJECTION
from luxel.render.primitives.convexes import Convexes

ROUNDING = {"rtol": 1e-4, "atol": 1e-4}  # sums on a GPU come out of atomic additions in any order


def scene(device: torch.device, toy_camera, count: int = 40) -> tuple[Convexes, Camera]:
    cameras = Camera.stack([toy_camera(50, 37), toy_camera(50, 37, eye=(2.5, 2, 1), off_centre=True)])
    convexes = random_convexes(count, seed=19, sh_degree=3).map(lambda t: t.to(device, torch.float32))
    return convexes.requires_grad_(), cameras.to(device)


@pytest.mark.parametrize(
    "channels", [c if c in (3, 8) else pytest.param(c, marks=pytest.mark.slow) for c in CHANNELS]
)
def test_opcheck(toy_camera, device, channels):
    # So few that no list has an interior piece, whose states nobody may compare: most of their room is never written.
    drawn = draw(*scene(device, toy_camera, count=4))
    instances, ranges, _, plan = drawn.lists
    assert len(instances) < policy("convexes", "test").piece
    splats = drawn.splats.detach().requires_grad_()
    values = torch.rand(2, 4, channels, device=device, requires_grad=True)
    background = torch.rand(2, channels, device=device, requires_grad=True)
    for behind, more in ((background, True), (None, False)):
        inputs = (splats, values, behind, instances, ranges, plan)
        arguments = (*inputs, 50, 37, 0.99, False, more, more, more, True, 0, "convexes")
        torch.library.opcheck(torch.ops.luxel.blend.default, arguments, **ROUNDING)


def test_opcheck_backward(toy_camera, device):
    drawn = draw(*scene(device, toy_camera))
    instances, ranges, _, plan = drawn.lists
    inputs = (drawn.splats.detach(), drawn.values.detach(), None, instances, ranges, plan)
    how = (50, 37, 0.99, *(False,) * 4, True, 0, "convexes")
    outputs = torch.ops.luxel.blend(*inputs, *how)
    arguments = (*inputs, *how, *outputs[:3], outputs[5], torch.ones_like(outputs[0]), None)
    operation = torch.ops.luxel.blend_bwd.default
    torch.library.opcheck(operation, arguments, test_utils=("test_schema", "test_faketensor"))


def test_the_projection_finishes_what_blending_gathered(toy_camera, device):
    """With `raw_moments` both backward passes together give what they give one by one; the CPU has no such way."""
    convexes, cameras = scene(device, toy_camera)
    drawn = draw(convexes, cameras)
    instances, ranges, _, plan = drawn.lists
    inputs = (drawn.splats.detach(), drawn.values.detach(), None, instances, ranges, plan)
    how = (50, 37, 0.99, False, True, False, False, True, 0, "convexes")
    image, transmittance, last, _, _, states = torch.ops.luxel.blend(*inputs, *how)
    slope = torch.rand(image.shape, generator=torch.Generator().manual_seed(3)).to(device)
    pose, size = projection_of(cameras)
    options = {**size, "sh_degree": 3, "with_depth": True}
    before = (*(t.detach() for t in convexes.tensors().values()), *pose, None)
    before = (*before, *(options[name] for name in PROJECTION.options), drawn.tile_counts)

    def gradients(raw_moments):
        blended = torch.ops.luxel.blend_bwd(
            *inputs, *how, image, transmittance, last, states, slope, None, False, raw_moments
        )
        return torch.ops.luxel.project_convexes_bwd(*before, *blended[:2], True, raw_moments=raw_moments)

    one_by_one = gradients(False)
    assert all(gradient.abs().max() > 0 for gradient in one_by_one)
    if device.type == "cpu":
        with pytest.raises(NativeError, match="raw moments are for the GPU only"):
            gradients(True)
        return
    for together, apart in zip(gradients(True), one_by_one, strict=True):
        torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5 * apart.abs().max().item())


def test_what_is_refused_is_named(toy_camera, device):
    drawn = draw(*scene(device, toy_camera))
    instances, ranges, _, plan = drawn.lists
    how = {"width": 50, "height": 37, "max_alpha": 0.99}

    def blend(splats=drawn.splats, values=drawn.values, background=None, **more):
        return blend_splats(
            splats, values, background, instances, ranges, plan, primitive="convexes", **how, **more
        )

    with pytest.raises(ValueError, match="absolute must be False"):
        blend(absolute=True)
    with pytest.raises(ValueError, match="channels"):
        blend(values=drawn.splats[..., :5])
    with pytest.raises(ValueError, match=r"splats of convexes must be \[2, 40, 28\]"):
        blend(splats=drawn.splats[..., :8])
    with pytest.raises(ValueError, match="background"):
        blend(background=torch.zeros(3, device=device))
