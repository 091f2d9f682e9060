"""The depth loss against its reference, in both precisions and on both devices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from luxel.render.ops.train.depth_loss import depth_loss
from luxel.render.reference.train.depth_loss import depth_loss_reference

D = torch.float64
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, D], ids=["float", "double"])


def scene(size: tuple[int, int, int], seed: int = 0) -> dict[str, Tensor]:
    """Covers of all sizes, rendered and known depths that differ by up to a factor of 3, a third of them not known."""
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> Tensor:
        return torch.rand(size, generator=generator, dtype=D)

    transmittance, depth = drawn() ** 2, 2 + 8 * drawn()
    transmittance[drawn() < 0.1] = 1.0
    # Kept away from the kink, where both depths are equal.
    ratio = torch.where(drawn() < 0.5, 0.3 + 0.6 * drawn(), 1.1 + 2 * drawn())
    known = torch.where(drawn() < 0.3, 0.0, depth * ratio)
    weight = torch.where(drawn() < 0.2, 0.0, drawn())
    return {
        "accumulated": (1 - transmittance) * depth,
        "transmittance": transmittance,
        "known": known,
        "weight": weight,
        "strength": torch.tensor([0.7], dtype=D),
    }


def inputs_of(data: dict[str, Tensor], device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    return [t.to(device, dtype) for t in data.values()]


@DTYPES
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 5, 7), (1, 97, 131), (3, 64, 96)])
@pytest.mark.parametrize("fits", [False, True], ids=["metric", "fitted"])
@pytest.mark.parametrize("weighted", [False, True], ids=["all pixels", "weighted"])
def test_loss_is_its_reference(device, dtype, size, fits, weighted) -> None:
    if dtype == D and device.type == "cuda":
        pytest.skip("the GPU has float32 only")
    of_value, of_gradient = (1e-12, 1e-10) if dtype == D else (1e-5, 1e-4)
    data = scene(size)
    if not weighted:
        data.pop("weight")
    true = {
        name: t.clone().requires_grad_(name in ("accumulated", "transmittance")) for name, t in data.items()
    }
    true.setdefault("weight", None)
    expected = depth_loss_reference(**true, fits=fits)
    ours = {
        name: t.detach().to(device, dtype).requires_grad_(t.requires_grad)
        for name, t in true.items()
        if t is not None
    }
    ours.setdefault("weight", None)
    actual = depth_loss(**ours, fits=fits)
    torch.testing.assert_close(actual.loss.cpu().double(), expected, rtol=of_value, atol=of_value)
    if not expected.requires_grad:  # no pixel has a part
        assert not actual.g_accumulated.any() and not actual.g_transmittance.any()
        return
    (3 * expected).backward()
    (3 * actual.loss).backward()
    for name in ("accumulated", "transmittance"):
        size_of = float(true[name].grad.abs().max())
        torch.testing.assert_close(
            ours[name].grad.cpu().double(), true[name].grad, rtol=0, atol=of_gradient * size_of
        )


def test_gradients_are_those_of_differences() -> None:
    data = scene((2, 5, 7))
    thinnest = data["transmittance"].clamp(max=0.9)  # away from the least cover, at the same depth
    depth = (data["accumulated"] / (1 - data["transmittance"]).clamp_min(1e-12)).clamp_min(2)
    leaves = [((1 - thinnest) * depth).requires_grad_(), thinnest.requires_grad_()]
    rest = data["known"], data["weight"], data["strength"]
    assert torch.autograd.gradcheck(lambda z, t: depth_loss(z, t, *rest).loss, leaves, eps=1e-6, atol=1e-7)


def test_a_channel_of_an_image_needs_no_copy(device) -> None:
    data = {name: t.to(device, torch.float32) for name, t in scene((2, 6, 9)).items()}
    image = torch.randn(2, 6, 9, 4, device=device)
    image[..., 3] = data["accumulated"]
    plain = depth_loss(**data, fits=True)
    strided = depth_loss(**{**data, "accumulated": image[..., 3]}, fits=True)
    turned = depth_loss(**{**data, "accumulated": data["accumulated"].mT.contiguous().mT}, fits=True)
    for one in (strided, turned):
        assert all(torch.equal(a, b) for a, b in zip(plain, one, strict=True))


@pytest.mark.parametrize("fits", [False, True], ids=["metric", "fitted"])
def test_the_unit_has_no_part_in_the_loss(fits) -> None:
    data = scene((1, 40, 50))
    larger = {**data, "accumulated": 1000 * data["accumulated"], "known": 1000 * data["known"]}
    one, other = depth_loss(**data, fits=fits), depth_loss(**larger, fits=fits)
    torch.testing.assert_close(one.loss, other.loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(one.g_transmittance, other.g_transmittance, rtol=1e-9, atol=1e-12)


def test_scale_and_shift_are_found() -> None:
    data = scene((2, 30, 40))
    depth = data["accumulated"] / (1 - data["transmittance"]).clamp_min(1e-9)
    hidden = torch.tensor([[0.25, 0.03], [4.0, -0.05]], dtype=D)
    inverse = (1 / depth.clamp_min(1e-9) - hidden[:, 1, None, None]) / hidden[:, 0, None, None]
    data["known"] = torch.where((data["known"] > 0) & (inverse > 0), 1 / inverse, 0.0)
    fitted = depth_loss(**data, fits=True)
    torch.testing.assert_close(fitted.fit, hidden, rtol=1e-9, atol=1e-9)
    assert float(fitted.loss) < 1e-12
    assert float(depth_loss(**data).loss) > 0.01


def test_an_unknown_scale_moves_nothing_as_a_whole() -> None:
    """The fitted loss does not change where all inverse depths are scaled and shifted, so no such move is a descent."""
    data = scene((1, 30, 40))
    cover = 1 - data["transmittance"]
    depth = (data["accumulated"] / cover.clamp_min(1e-9)).clamp_min(1)
    data["accumulated"] = cover * depth
    before = depth_loss(**data, fits=True)
    for scale, shift in ((3.0, 0.0), (1.0, 0.2), (0.1, 2.0)):
        moved = cover / (scale / depth + shift)
        after = depth_loss(**{**data, "accumulated": moved}, fits=True)
        torch.testing.assert_close(after.loss, before.loss, rtol=1e-9, atol=1e-12)
    inverse_gradient = -before.g_accumulated * cover * depth.square()  # by 1 / d
    here = cover > 1e-3
    for direction in (torch.ones_like(depth), 1 / depth):
        along = (inverse_gradient * direction)[here].sum()
        assert abs(float(along)) < 1e-9 * float((inverse_gradient * direction)[here].abs().sum())


def test_what_has_no_part() -> None:
    data = scene((1, 8, 8))
    nothing_known = depth_loss(**{**data, "known": torch.zeros(1, 8, 8, dtype=D)}, fits=True)
    flat = depth_loss(**{**data, "known": torch.ones(1, 8, 8, dtype=D)}, fits=True)
    not_numbers = depth_loss(**{**data, "known": torch.full((1, 8, 8), torch.nan, dtype=D)})
    for one in (nothing_known, flat, not_numbers):
        assert float(one.loss) == 0 and not one.g_accumulated.any() and not one.g_transmittance.any()
        assert not one.fit.any()


def test_a_few_points_do_not_outweigh_the_image() -> None:
    data = scene((1, 50, 50)) | {"weight": torch.ones(1, 50, 50, dtype=D)}
    points = torch.zeros_like(data["known"])
    points[0, ::10, ::10] = data["known"][0, ::10, ::10]  # at most 25 of 2500
    dense, sparse = depth_loss(**data), depth_loss(**{**data, "known": points})
    share = (data["known"] > 0).sum() / 25
    where = points > 0
    torch.testing.assert_close(sparse.g_accumulated[where], dense.g_accumulated[where] * share)
    few = torch.where(torch.arange(2500).view(1, 50, 50) == points.flatten().nonzero()[0], points, 0.0)
    ratio = depth_loss(**{**data, "known": few}).g_accumulated.abs().max() / sparse.g_accumulated.abs().max()
    assert float(ratio) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"accumulated": torch.zeros(4, 4, dtype=D)}, r"accumulated must be \[B, H, W\]"),
        ({"known": torch.zeros(1, 4, 3, dtype=D)}, "known must be"),
        ({"weight": torch.zeros(1, 4, 4)}, "weight must be"),
        ({"strength": torch.zeros((), dtype=D)}, "strength must be"),
    ],
)
def test_inputs_that_do_not_fit(change, problem) -> None:
    with pytest.raises(ValueError, match=problem):
        depth_loss(**{**scene((1, 4, 4)), **change})


def test_nothing_to_compare() -> None:
    empty = {name: t[:, :0] if t.dim() == 3 else t for name, t in scene((1, 4, 4)).items()}
    assert float(depth_loss(**empty).loss) == 0


@pytest.mark.gpu
def test_gpu_can_be_captured_and_repeats_its_bits(gpu) -> None:
    data = {name: t.to(gpu, torch.float32) for name, t in scene((2, 300, 400)).items()}
    first = depth_loss(**data, fits=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = depth_loss(**data, fits=True)
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(first, captured, strict=True))
