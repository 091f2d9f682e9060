"""L1 + SSIM: plain torch in float64 against the shipped operation on every backend."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from luxel.render.ops.train.loss import photometric_loss
from luxel.render.reference.train import loss as reference

Padding = Literal["zero", "valid"]

# One pixel, smaller than the window, odd, wider than a block of columns, taller than a strip, batches.
SHAPES = [
    (1, 1, 3),
    (3, 2, 3),
    (7, 40, 3),
    (11, 11, 3),
    (33, 27, 3),
    (5, 331, 3),
    (131, 19, 3),
    (2, 23, 57, 3),
]


def images(shape: tuple[int, ...], dtype: torch.dtype, weighted: bool, seed: int = 0) -> tuple[Any, ...]:
    """A render, a photograph near it with flat parts, and weights of which a third are 0."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(shape, generator=generator, dtype=torch.float64)
    target[..., : shape[-3] // 3, :, :] = 0.25  # flat: variances near 0
    rgb = (target + 0.2 * torch.randn(shape, generator=generator, dtype=torch.float64)).clamp(0, 1.1)
    weight = None
    if weighted:
        weight = torch.rand(shape[:-1], generator=generator, dtype=torch.float64) + 0.1
        weight = (weight * (torch.rand(shape[:-1], generator=generator) > 0.33)).to(dtype)
    return rgb.to(dtype), target.to(dtype), weight


def value_and_gradient(function: Any, rgb: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    rgb = rgb.detach().clone().requires_grad_()
    loss = function(rgb, *others)
    (3 * loss).backward()  # an upstream gradient that is not 1
    assert rgb.grad is not None
    return loss.detach(), rgb.grad


@pytest.mark.parametrize("padding", ["zero", "valid"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_the_reference(
    precision: dict[str, Any], shape: tuple[int, ...], weighted: bool, padding: Padding
) -> None:
    rgb, target, weight = images(shape, precision["dtype"], weighted)
    wide = None if weight is None else weight.double()
    expected, g_expected = value_and_gradient(
        reference.photometric_loss, rgb.double(), target.double(), wide, 0.3, padding
    )
    device = precision["device"]
    there = None if weight is None else weight.to(device)
    actual, g_found = value_and_gradient(
        photometric_loss, rgb.to(device), target.to(device), there, 0.3, padding
    )
    assert actual.dtype == precision["dtype"] and actual.device.type == device.type
    tolerance = 1e-12 if precision["dtype"] == torch.float64 else 2e-5
    assert abs(actual.item() - expected.item()) <= tolerance
    assert (g_found.cpu().double() - g_expected).norm() <= 5 * tolerance * g_expected.norm()


@pytest.mark.parametrize("padding", ["zero", "valid"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 4, 3), (13, 14, 3)], ids=str)
def test_gradcheck_through_the_shipped_path(shape: tuple[int, ...], weighted: bool, padding: Padding) -> None:
    rgb, target, weight = images(shape, torch.float64, weighted)
    rgb = torch.where((rgb - target).abs() < 1e-3, target + 1e-2, rgb)  # away from the kink of |x|
    assert torch.autograd.gradcheck(
        lambda x: photometric_loss(x, target, weight, 0.4, padding), rgb.requires_grad_()
    )


@pytest.mark.parametrize("padding", ["zero", "valid"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows, columns", [((30, 41), (200, 230)), ((0, 3), (0, 1)), ((69, 70), (399, 400))])
def test_what_is_equal_around_an_object_changes_nothing(
    precision: dict[str, Any],
    rows: tuple[int, int],
    columns: tuple[int, int],
    weighted: bool,
    padding: Padding,
) -> None:
    near, target, weight = images((70, 400, 3), precision["dtype"], weighted)
    rgb = target.clone()
    rgb[slice(*rows), slice(*columns)] = near[slice(*rows), slice(*columns)]
    wide = None if weight is None else weight.double()
    expected, g_expected = value_and_gradient(
        reference.photometric_loss, rgb.double(), target.double(), wide, 0.3, padding
    )
    there = [None if t is None else t.to(precision["device"]) for t in (target, weight)]
    actual, g_found = value_and_gradient(photometric_loss, rgb.to(precision["device"]), *there, 0.3, padding)
    single = precision["dtype"] == torch.float32
    assert abs(actual.item() - expected.item()) <= (1e-6 if single else 1e-12)
    # Windows that are all but equal leave rounding errors of up to a five-hundredth of their weight in float32, which
    # are no part of the gradient: 6e-9 was seen on a GPU, 2e-9 on a CPU.
    windows = 3 * (70 * 400 if padding == "zero" else 60 * 390)
    rounding = 2e-3 * 0.3 / windows if single else 0.0
    error = (g_found.cpu().double() - g_expected).norm()
    assert error <= (1e-4 if single else 1e-11) * g_expected.norm() + rounding


def test_a_pixel_that_is_not_a_number_is_a_difference(device: torch.device) -> None:
    target = torch.full((40, 60, 3), 0.5, device=device)
    rgb = target.clone()
    rgb[20, 30, 1] = float("nan")
    assert photometric_loss(rgb, target).isnan()


def test_known_values(device: torch.device) -> None:
    same = torch.rand(20, 20, 3, generator=torch.Generator().manual_seed(1)).to(device)
    assert photometric_loss(same, same, ssim_weight=0.5).item() == pytest.approx(0, abs=1e-6)
    assert photometric_loss(same, same + 0.25, ssim_weight=0.0).item() == pytest.approx(0.25, abs=1e-6)
    # Two constant images in the interior of a valid window: only the luminance term differs from 1.
    # Single precision leaves about 1e-7 of a variance of 0, which C2 = 9e-4 stands against.
    a, b = torch.full((11, 11, 3), 0.2, device=device), torch.full((11, 11, 3), 0.6, device=device)
    luminance = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)
    assert photometric_loss(a, b, None, 1.0, "valid").item() == pytest.approx(1 - luminance, abs=1e-4)


def test_valid_leaves_small_images_without_ssim(device: torch.device) -> None:
    rgb, target, _ = images((10, 30, 3), torch.float32, False)
    rgb, target = rgb.to(device), target.to(device)
    l1 = (rgb - target).abs().mean().item()
    assert photometric_loss(rgb, target, None, 0.2, "valid").item() == pytest.approx(0.8 * l1, rel=1e-5)


def test_ignored_pixels_neither_reward_nor_punish(device: torch.device) -> None:
    rgb, target, weight = (t.to(device) for t in images((30, 41, 3), torch.float32, True))
    ignored = weight == 0
    other = rgb.clone()
    other[ignored] = torch.tensor([9.0, -3.0, float("nan")], device=device)
    loss, gradient = value_and_gradient(photometric_loss, rgb, target, weight)
    loss_other, gradient_other = value_and_gradient(photometric_loss, other, target, weight)
    assert torch.equal(loss, loss_other) and torch.equal(gradient, gradient_other)
    assert (gradient[ignored] == 0).all() and (gradient[~ignored] != 0).any(dim=-1).all()


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_no_counting_pixel_gives_zero(device: torch.device, value: float) -> None:
    rgb, target, weight = (t.to(device) for t in images((12, 13, 3), torch.float32, True))
    loss, gradient = value_and_gradient(photometric_loss, rgb, target, torch.full_like(weight, value))
    assert loss.item() == 0 and (gradient == 0).all()


def test_weights_scale_out(device: torch.device) -> None:
    rgb, target, _ = (t if t is None else t.to(device) for t in images((19, 31, 3), torch.float32, False))
    plain, g_plain = value_and_gradient(photometric_loss, rgb, target)
    scaled, g_scaled = value_and_gradient(
        photometric_loss, rgb, target, torch.full((19, 31), 7.5, device=device)
    )
    torch.testing.assert_close(scaled, plain, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(g_scaled, g_plain, rtol=1e-4, atol=1e-8)


def test_same_input_same_bits(device: torch.device) -> None:
    rgb, target, weight = (t.to(device) for t in images((150, 170, 3), torch.float32, True))
    runs = [value_and_gradient(photometric_loss, rgb, target, weight) for _ in range(3)]
    assert all(torch.equal(loss, runs[0][0]) and torch.equal(g, runs[0][1]) for loss, g in runs)


def test_threads_do_not_change_the_bits() -> None:
    rgb, target, _ = images((150, 170, 3), torch.float32, False)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = value_and_gradient(photometric_loss, rgb, target)
        torch.set_num_threads(4)
        together = value_and_gradient(photometric_loss, rgb, target)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(alone[0], together[0]) and torch.equal(alone[1], together[1])


def test_strided_input(device: torch.device) -> None:
    rgb, target, weight = (t.to(device) for t in images((24, 31, 3), torch.float32, True))
    expected, g_expected = value_and_gradient(photometric_loss, rgb, target, weight)
    leaf = rgb.movedim(-1, 0).contiguous().requires_grad_()
    loss = photometric_loss(leaf.movedim(0, -1), target.mT.contiguous().mT, weight.mT.contiguous().mT)
    (3 * loss).backward()
    assert leaf.grad is not None and torch.equal(loss.detach(), expected)
    assert torch.equal(leaf.grad.movedim(0, -1), g_expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_opcheck(device: torch.device, weighted: bool) -> None:
    rgb, target, weight = (
        None if t is None else t.to(device) for t in images((13, 15, 3), torch.float32, weighted)
    )
    assert rgb is not None
    torch.library.opcheck(
        torch.ops.luxel.photometric_loss.default, (rgb.requires_grad_(), target, weight, 0.2, False, True)
    )
    torch.library.opcheck(
        torch.ops.luxel.photometric_loss.default, (rgb.detach(), target, weight, 0.2, True, False)
    )


def test_fake_tensors() -> None:
    with FakeTensorMode():
        rgb = torch.empty(2, 9, 8, 3, requires_grad=True)
        loss = photometric_loss(rgb, torch.empty(2, 9, 8, 3), torch.empty(2, 9, 8))
        loss.backward()
        assert loss.shape == () and rgb.grad is not None and rgb.grad.shape == rgb.shape


def test_compiles_whole(device: torch.device) -> None:
    rgb, target, weight = (t.to(device) for t in images((17, 16, 3), torch.float32, True))
    compiled = torch.compile(photometric_loss, fullgraph=True, backend="aot_eager")
    actual, g_found = value_and_gradient(compiled, rgb, target, weight)
    expected, g_expected = value_and_gradient(photometric_loss, rgb, target, weight)
    assert torch.equal(actual, expected) and torch.equal(g_found, g_expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rgb": torch.zeros(8, 9)}, r"rgb must be \[H, W, 3\].*\[8, 9\]"),
        ({"rgb": torch.zeros(0, 9, 3)}, "not empty"),
        ({"target": torch.zeros(9, 8, 3)}, r"target must be \[8, 9, 3\] like rgb, got \[9, 8, 3\]"),
        ({"target": torch.zeros(8, 9, 3, dtype=torch.uint8)}, "target must be torch.float32"),
        ({"weight": torch.zeros(8, 9, 1)}, r"weight must be \[8, 9\], got \[8, 9, 1\]"),
        ({"weight": torch.zeros(8, 9, dtype=torch.bool)}, "weight must be torch.float32"),
        (
            {"rgb": torch.zeros(8, 9, 3, dtype=torch.float16)},
            "rgb must be float32, or float64 on the CPU, got torch.float16",
        ),
        ({"padding": "reflect"}, 'padding must be "zero" or "valid"'),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], message: str) -> None:
    arguments = {"rgb": torch.zeros(8, 9, 3), "target": torch.zeros(8, 9, 3), "weight": None, **change}
    with pytest.raises(ValueError, match=message):
        photometric_loss(**arguments)


def test_the_operation_keeps_what_its_gradient_needs() -> None:
    rgb = torch.rand(8, 9, 3, requires_grad=True)
    with pytest.raises(ValueError, match="differentiable must be True where rgb requires a gradient"):
        torch.ops.luxel.photometric_loss(rgb, rgb.detach(), None, 0.2, False, False)
