"""The shipped rasterizer against the float64 reference: every option, both float types, both backends."""

from __future__ import annotations

import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.raster.rasterize import rasterize


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_plain(agrees, random_gaussians, toy_camera, precision):
    agrees(random_gaussians(200, **precision), toy_camera(64, 48))


@pytest.mark.parametrize("sh_degree", [0, 1, 2, 3])
def test_sh_degree(agrees, random_gaussians, toy_camera, precision, sh_degree):
    gaussians = random_gaussians(100, sh_degree=sh_degree, **precision)
    agrees(gaussians, toy_camera(50, 34))


@pytest.mark.parametrize("sh_degree", [0, 1, 2])
def test_sh_degree_below_what_is_stored(agrees, random_gaussians, toy_camera, precision, sh_degree):
    agrees(random_gaussians(60, **precision), toy_camera(40, 30), sh_degree=sh_degree)


def test_sh_degree_above_what_is_stored_is_what_is_stored(random_gaussians, toy_camera, precision):
    gaussians, camera = random_gaussians(60, sh_degree=1, **precision), toy_camera(40, 30, **precision)
    assert torch.equal(rasterize(gaussians, camera, sh_degree=3).rgb, rasterize(gaussians, camera).rgb)


def test_antialiased(agrees, random_gaussians, toy_camera, precision):
    # Splats of about half a pixel, where the compensation is strong.
    agrees(
        random_gaussians(400, scale=0.02, opacity_logit=2, **precision), toy_camera(48, 48), antialiased=True
    )


def test_off_centre_and_oblong_pixels(agrees, random_gaussians, toy_camera, precision):
    agrees(random_gaussians(150, **precision), toy_camera(61, 45, off_centre=True))


def test_background(agrees, random_gaussians, toy_camera, precision):
    agrees(random_gaussians(100, **precision), toy_camera(40, 30), background=rand(3))


@pytest.mark.parametrize("outputs", [{"depth": True}, {"normals": True}, {"depth": True, "normals": True}])
def test_depth_and_normals(agrees, random_gaussians, toy_camera, precision, outputs):
    agrees(
        random_gaussians(120, opacity_logit=1, **precision), toy_camera(48, 40), background=rand(3), **outputs
    )


@pytest.mark.parametrize("channels", [1, 5, 20, 40])
def test_features(agrees, random_gaussians, toy_camera, precision, channels):
    agrees(random_gaussians(80, **precision), toy_camera(40, 30), features=rand(80, channels))


def test_everything_at_once_for_a_batch(agrees, random_gaussians, toy_camera, precision):
    cameras = [
        toy_camera(46, 37),
        toy_camera(46, 37, eye=(2.5, 2.0, -1.0), off_centre=True),
        toy_camera(46, 37, eye=(0.2, 0.1, 4.0)),
    ]
    agrees(
        random_gaussians(120, seed=2, **precision),
        Camera.stack(cameras),
        background=rand(3, 3),
        features=rand(120, 7),
        depth=True,
        normals=True,
        antialiased=True,
        sh_degree=2,
    )


def test_batch_with_one_background(agrees, random_gaussians, toy_camera, precision):
    cameras = Camera.stack([toy_camera(20, 20), toy_camera(20, 20, eye=(3, 1, 1))])
    agrees(random_gaussians(40, **precision), cameras, background=rand(3))


@pytest.mark.parametrize(("name", "value"), [("dilation", 0.0625), ("dilation", 1.5), ("max_alpha", 0.75)])
def test_dilation_and_cap(agrees, random_gaussians, toy_camera, precision, name, value):
    agrees(random_gaussians(80, opacity_logit=2, **precision), toy_camera(40, 30), **{name: value})


def test_defaults_are_those_of_the_reference(random_gaussians, toy_camera, precision):
    from luxel.render.reference.raster.rasterize import rasterize_reference

    gaussians, camera = random_gaussians(100, opacity_logit=3, **precision), toy_camera(40, 30, **precision)
    witness = rasterize_reference(gaussians.to("cpu").to(torch.float64), camera.to("cpu"))
    keep = witness.margin > 2e-4
    actual = rasterize(gaussians, camera).rgb.cpu().double()
    torch.testing.assert_close(actual[keep], witness.rgb[keep], rtol=0, atol=1e-5)


def test_near_and_far_cut(agrees, random_gaussians, toy_camera, precision):
    from dataclasses import replace

    camera = toy_camera(40, 30)
    gaussians = random_gaussians(100, **precision)
    agrees(gaussians, replace(camera, near=3.25, far=4.0), depth=True)
    whole = rasterize(gaussians, camera.to(gaussians.means.dtype).to(gaussians.device))
    part = rasterize(
        gaussians, replace(camera, near=3.25, far=4.0).to(gaussians.means.dtype).to(gaussians.device)
    )
    assert part.alpha.sum() < 0.9 * whole.alpha.sum()


def test_order_is_by_depth_and_not_by_index(random_gaussians, toy_camera, precision):
    gaussians, camera = random_gaussians(150, seed=4, **precision), toy_camera(48, 36, **precision)
    shuffled = gaussians.select(
        torch.randperm(150, generator=torch.Generator().manual_seed(1)).to(gaussians.device)
    )
    frame, other = rasterize(gaussians, camera), rasterize(shuffled, camera)
    torch.testing.assert_close(frame.rgb, other.rgb, rtol=0, atol=1e-6)


def test_same_input_same_bits(random_gaussians, toy_camera, device):
    gaussians, camera = random_gaussians(200, device=device), toy_camera(64, 48, device=device)
    assert torch.equal(rasterize(gaussians, camera).rgb, rasterize(gaussians, camera).rgb)


def test_no_gradient_is_kept_where_none_is_asked(random_gaussians, toy_camera, device):
    frame = rasterize(random_gaussians(20, device=device), toy_camera(device=device), depth=True)
    assert not frame.rgb.requires_grad and not frame.depth.requires_grad
    gaussians = random_gaussians(20, device=device)
    gaussians.sh_dc.requires_grad_()
    rasterize(gaussians, toy_camera(device=device)).rgb.sum().backward()
    assert gaussians.sh_dc.grad.abs().sum() > 0 and gaussians.means.grad is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: {"features": torch.zeros(g.count + 1, 3)}, "features"),
        (lambda g: {"background": torch.zeros(4)}, "background"),
    ],
)
def test_wrong_shapes_are_named(random_gaussians, toy_camera, change, words):
    gaussians = random_gaussians(5)
    with pytest.raises(ValueError, match=words):
        rasterize(gaussians, toy_camera(), **change(gaussians))
