"""Exposure, pose and Adam of training views against their references, in both precisions and on both devices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from luxel.render.ops.train.view_adam import view_adam_
from luxel.render.ops.train.view_exposure import view_exposure
from luxel.render.ops.train.view_pose import view_pose
from luxel.render.reference.train.view_models import (
    exposure_reference,
    pose_reference,
    view_adam_reference,
)

D = torch.float64
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, D], ids=["float", "double"])


def tolerances(device: torch.device, dtype: torch.dtype) -> tuple[float, float]:
    """Of values and of gradients."""
    if dtype == D and device.type == "cuda":
        pytest.skip("the GPU has float32 only")
    return (1e-12, 1e-10) if dtype == D else (1e-5, 1e-4)


def compare(of, reference, inputs: list[Tensor], others: list, limits: tuple[float, float]) -> None:
    """Values and gradients of a stage against those of its reference in double, relative to the largest."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    true = [t.detach().cpu().double().requires_grad_() for t in inputs]
    exact = [t.cpu().double() if isinstance(t, Tensor) else t for t in others]
    actual, expected = of(*leaves, *others), reference(*true, *exact)
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=limits[0], atol=limits[0])
    seed = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9), dtype=D)
    actual.backward(seed.to(actual))
    expected.backward(seed)
    for ours, theirs in zip(leaves, true, strict=True):
        assert ours.grad is not None and theirs.grad is not None
        size = float(theirs.grad.abs().max())
        torch.testing.assert_close(ours.grad.cpu().double(), theirs.grad, rtol=0, atol=limits[1] * size)


@DTYPES
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 5, 7), (1, 97, 131)])
@pytest.mark.parametrize("width", [3, 9, 12], ids=["gain", "camera", "affine"])
@pytest.mark.parametrize("cutout", [False, True], ids=["opaque", "cut out"])
def test_exposure_is_its_reference(device, dtype, size, width, cutout) -> None:
    limits, generator = tolerances(device, dtype), torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=D).to(device, dtype)

    image, parameters = drawn(*size, 3), 0.4 * drawn(size[0], width) - 0.2
    if width == 9:  # below and above the point where the two pieces of the sRGB curve meet
        image = torch.where(image < 0.2, image - 0.185, 1.2 * image)
    if cutout:
        through, background = 0.95 * drawn(*size), drawn(size[0], 3)
        image = (1 - through[..., None]) * image + through[..., None] * background[:, None, None]
        compare(view_exposure, exposure_reference, [image, parameters, through], [background], limits)
    else:
        compare(view_exposure, exposure_reference, [image, parameters], [], limits)


def test_a_camera_leaves_what_the_scene_hardly_covers(device) -> None:
    image, parameters = torch.rand(1, 4, 5, 3, device=device), torch.full((1, 9), 0.3, device=device)
    through, background = torch.full((1, 4, 5), 0.99995, device=device), torch.zeros(1, 3, device=device)
    torch.testing.assert_close(view_exposure(image, parameters, through, background), image, atol=0, rtol=0)


@pytest.mark.parametrize("seed", range(4))
def test_the_response_of_a_camera_rises_everywhere(seed) -> None:
    parameters = torch.zeros(1, 9, dtype=D)
    parameters[:, 6:] = 3 * torch.randn(1, 3, generator=torch.Generator().manual_seed(seed), dtype=D)
    ramp = torch.linspace(-0.5, 1.5, 401, dtype=D)
    values = view_exposure(ramp[None, None, :, None].expand(1, 1, -1, 3), parameters)[0, 0, :, 0]
    assert (values.diff() > 0).all()
    torch.testing.assert_close(values[[100, 300]], ramp[[100, 300]], atol=1e-12, rtol=0)


@DTYPES
@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-3, 0.009, 0.011, 0.5, 3.0])
def test_pose_is_its_reference(device, dtype, size) -> None:
    limits, generator = tolerances(device, dtype), torch.Generator().manual_seed(0)
    turns, _ = torch.linalg.qr(torch.randn(5, 3, 3, generator=generator, dtype=D))
    poses = torch.eye(4, dtype=D).repeat(5, 1, 1)
    poses[:, :3, :3] = turns
    poses[:, :3, 3] = torch.randn(5, 3, generator=generator, dtype=D)
    parameters = torch.randn(5, 6, generator=generator, dtype=D)
    parameters[:, :3] *= size / parameters[:, :3].norm(dim=1, keepdim=True)
    poses, parameters = (t.to(device, dtype) for t in (poses, parameters))
    compare(
        lambda leaf: view_pose(poses, leaf, 1.7),
        lambda leaf: pose_reference(poses.cpu().double(), leaf, 1.7),
        [parameters],
        [],
        # Rodrigues' formula of the reference loses digits near 0.
        (max(limits[0], 1e-9), max(limits[1], 1e-5)) if 0 < size < 0.1 else limits,
    )


def test_gradients_of_a_pose_are_those_of_finite_differences() -> None:
    generator = torch.Generator().manual_seed(1)
    poses = torch.linalg.matrix_exp(torch.randn(3, 4, 4, generator=generator, dtype=D))
    for size in (1e-5, 0.005, 0.02, 1.0):
        leaf = (size * torch.randn(3, 6, generator=generator, dtype=D)).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: view_pose(poses, x, 2.0), leaf, eps=1e-5, atol=1e-7)


@pytest.mark.parametrize("views", [[3], [1, 4, 1], [0, 2, 2, 6]])
@pytest.mark.parametrize("directions", [None, 0, 7, 8])
@pytest.mark.parametrize("width", [6, 40])
@pytest.mark.parametrize("penalised", [False, True])
def test_adam_is_its_reference(device, views, directions, width, penalised) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=D)

    tables = [drawn(7, width), drawn(7, width), drawn(7, width).square()]
    common = None if directions is None else torch.linalg.qr(drawn(7 * width, 8))[0][:, :directions]
    numbers, gradients, schedule = torch.tensor(views), drawn(len(views), width), (0.01, 0.3)
    options = {"betas": (0.9, 0.99), "eps": 1e-15, "penalty": 0.7 * penalised}
    centre = drawn(7, width) if penalised and directions is None else None
    expected = view_adam_reference(*tables, common, numbers, gradients, schedule, **options, centre=centre)
    options["centre"] = None if centre is None else centre.float().to(device)
    ours = [t.float().to(device) for t in tables]
    given = None if common is None else common.float().to(device)
    rest = numbers.to(device), gradients.float().to(device), torch.tensor(schedule, device=device)
    untouched = [t.clone() for t in ours]
    view_adam_(*ours, given, *rest, torch.ones(1, dtype=torch.int32, device=device), **options)
    assert all(torch.equal(a, b) for a, b in zip(ours, untouched, strict=True)), "skipped"
    view_adam_(*ours, given, *rest, torch.zeros(1, dtype=torch.int32, device=device), **options)
    for actual, true in zip(ours, expected, strict=True):
        torch.testing.assert_close(actual.cpu().double(), true, rtol=1e-5, atol=1e-5)


def test_adam_of_many_views(device) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3000, 12, generator=generator).to(device)
    zeros, skip = torch.zeros_like(values), torch.zeros(1, dtype=torch.int32, device=device)
    view_adam_(
        values,
        zeros,
        zeros.clone(),
        None,
        torch.tensor([5], device=device),
        torch.ones(1, 12, device=device),
        torch.tensor([0.1, 1.0], device=device),
        skip,
        betas=(0.9, 0.99),
        eps=1e-15,
    )
    assert values.mean(0).abs().max() < 1e-6


def test_wrong_inputs() -> None:
    image, three = torch.zeros(1, 4, 5, 3), torch.zeros(1, 3)
    with pytest.raises(ValueError, match=r"image must be \[B, H, W, 3\]"):
        view_exposure(image[0], three)
    with pytest.raises(ValueError, match=r"parameters must be \[B, 3\], \[B, 9\] or \[B, 12\]"):
        view_exposure(image, torch.zeros(1, 4))
    with pytest.raises(ValueError, match="a background must be given"):
        view_exposure(image, three, torch.zeros(1, 4, 5))
    with pytest.raises(ValueError, match="transmittance must be"):
        view_exposure(image, three, torch.zeros(1, 4, 4), three)
    with pytest.raises(ValueError, match=r"world_to_cam must be \[B, 4, 4\]"):
        view_pose(torch.zeros(2, 3, 4), torch.zeros(2, 6), 1.0)
    with pytest.raises(ValueError, match="parameters must be"):
        view_pose(torch.zeros(2, 4, 4), torch.zeros(2, 5), 1.0)
    table, views, schedule = torch.zeros(4, 6), torch.tensor([0]), torch.zeros(2)
    rest = views, torch.zeros(1, 6), schedule, torch.zeros(1, dtype=torch.int32)
    options = {"betas": (0.9, 0.99), "eps": 1e-15}
    with pytest.raises(ValueError, match="contiguous"):
        view_adam_(table.T, table.T, table.T, None, *rest, **options)
    with pytest.raises(ValueError, match="at most 8 columns"):
        view_adam_(table, table.clone(), table.clone(), torch.zeros(24, 9), *rest, **options)
