"""PSNR, SSIM and LPIPS against known values and plain torch."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.metrics import image_metrics as metrics
from luxel.render.metrics.image_metrics import WEIGHTS, Lpips, MetricError, affine_fit, lpips, psnr, ssim
from luxel.render.reference.train.loss import ssim_map
from luxel.render.train.monitor import held_out


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_psnr_of_a_known_difference(device: torch.device) -> None:
    a = 0.5 * noise(9, 7, 3).to(device)
    assert psnr(a, a + 0.1) == pytest.approx(20, abs=1e-4)
    assert psnr(a, a) == math.inf


def test_psnr_counts_by_weight(device: torch.device) -> None:
    a = 0.5 * noise(9, 7, 3).to(device)
    b = a + 0.1
    b[:4] = float("nan")
    weight = torch.ones(9, 7, device=device)
    weight[:4] = 0
    assert psnr(a, b, weight) == pytest.approx(20, abs=1e-4)
    assert math.isnan(psnr(a, b, torch.zeros_like(weight)))


def test_an_affine_change_of_colours_is_fitted_away(device: torch.device) -> None:
    a = noise(30, 20, 3).to(device)
    matrix = torch.tensor([[0.6, 0.1, 0.0], [0.05, 0.7, 0.0], [0.0, -0.1, 0.5]], device=device)
    b = a @ matrix + torch.tensor([0.1, 0.1, 0.2], device=device)
    assert psnr(a, b) < 20 and psnr(affine_fit(a, b), b) > 100
    weight = torch.ones(30, 20, device=device)
    weight[:7] = 0
    b[:7] = float("nan")
    assert psnr(affine_fit(a, b, weight), b, weight) > 100
    assert torch.equal(affine_fit(a, b, torch.zeros_like(weight)), a), "nothing to fit to"
    grey = torch.full((30, 20, 3), 0.5, device=device)
    assert psnr(affine_fit(grey, 0.6 * grey), 0.6 * grey) > 60, "colours that are not independent"


def test_the_fit_leaves_the_background_behind_a_cut_out_image(device: torch.device) -> None:
    scene, through = noise(30, 20, 3).to(device), noise(30, 20, 3).to(device)[..., 0]
    background = torch.tensor([1.0, 0.9, 0.8], device=device)
    behind = through[..., None] * background
    a = (1 - through[..., None]) * scene + behind
    b = (1 - through[..., None]) * (0.5 * scene + 0.1) + behind
    assert psnr(affine_fit(a, b, None, (through, background)), b) > 100
    assert psnr(affine_fit(a, b), b) < 40, "no transform of all pixels does the same"


@pytest.mark.parametrize("padding", ["zero", "valid"])
def test_ssim_equals_the_map_of_plain_torch(device: torch.device, padding: str) -> None:
    a, b = noise(40, 31, 3), 0.6 * noise(40, 31, 3) + 0.4 * noise(40, 31, 3, seed=1)
    expected = ssim_map(a[None].double(), b[None].double())[0]
    if padding == "valid":
        expected = expected[5:-5, 5:-5]
    assert ssim(a.to(device), b.to(device), padding=padding) == pytest.approx(
        expected.mean().item(), abs=1e-5
    )


def test_ssim_at_the_edges(device: torch.device) -> None:
    a = noise(12, 12, 3).to(device)
    assert ssim(a, a) == pytest.approx(1, abs=1e-6)
    assert ssim(noise(1, 1, 3).to(device), noise(1, 1, 3).to(device)) == pytest.approx(1, abs=1e-5)
    assert math.isnan(ssim(a[:10], a[:10], padding="valid"))
    assert math.isnan(ssim(a, a, torch.zeros(12, 12, device=device)))


def test_ssim_ignores_what_has_no_weight(device: torch.device) -> None:
    a, b = noise(20, 20, 3).to(device), noise(20, 20, 3, seed=1).to(device)
    weight = torch.ones(20, 20, device=device)
    weight[5:12, 3:9] = 0
    changed = a.clone()
    changed[5:12, 3:9] = 40.0
    assert ssim(changed, b, weight) == ssim(a, b, weight) != pytest.approx(ssim(a, b), abs=1e-6)


def test_lpips_orders_pictures(device: torch.device) -> None:
    a = noise(64, 48, 3).to(device)
    near, far = (a + 0.02).clamp(0, 1), noise(64, 48, 3, seed=1).to(device)
    assert lpips(a, a) == 0
    assert 0 < lpips(a, near) < lpips(a, far)


@pytest.mark.parametrize(("name", "expected"), [("ex_p0", 0.7219), ("ex_p1", 0.1376)])
def test_lpips_of_its_authors_examples(
    device: torch.device, shared: Path, name: str, expected: float
) -> None:
    from PIL import Image

    folder = shared / "models" / "lpips" / "example"

    def read(stem: str) -> torch.Tensor:
        pixels = np.array(Image.open(folder / f"{stem}.png").convert("RGB"))
        return torch.from_numpy(pixels).to(device).float() / 255

    assert lpips(read("ex_ref"), read(name)) == pytest.approx(expected, abs=1e-3)


def test_lpips_needs_room() -> None:
    assert lpips(noise(31, 31, 3), noise(31, 31, 3, seed=1)) > 0
    with pytest.raises(MetricError, match="at least 31 pixels a side, got 40x30"):
        lpips(noise(30, 40, 3), noise(30, 40, 3))


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped"])
def test_damaged_weights_are_refused(tmp_path: Path, damage: str) -> None:
    path, data = tmp_path / "weights.npz", bytearray(WEIGHTS.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "empty":
        data = bytearray()
    data[1000:1001] = bytes([data[1000] ^ 1]) if damage == "flipped" else data[1000:1001]
    if damage != "missing":
        path.write_bytes(data)
    with pytest.raises(LuxelError) as error:
        Lpips(path)
    assert str(path) in str(error.value) and error.value.remedy
    assert ("cannot be read" if damage == "missing" else "damaged") in str(error.value)


def test_damaged_weights_are_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    first = metrics.loaded_lpips(cpu)
    assert metrics.loaded_lpips(cpu) is first
    weights = tmp_path / "weights.npz"
    monkeypatch.setattr(metrics, "WEIGHTS", weights)
    with pytest.raises(MetricError):
        metrics.loaded_lpips(cpu)
    weights.write_bytes(WEIGHTS.read_bytes())
    assert metrics.loaded_lpips(cpu) is not first


@pytest.mark.parametrize(
    ("kind", "asked", "views"), [("cpu", True, 3), ("cuda", False, 3), ("cuda", True, 0)]
)
def test_lpips_is_not_loaded_before_it_is_certain(
    kind: str, asked: bool, views: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[torch.device] = []
    monkeypatch.setattr(held_out, "load_lpips_meanwhile", begun.append)

    def prepare(kind: str, asked: bool, views: int) -> None:
        config = SimpleNamespace(lpips=asked)
        held_out.prepare(SimpleNamespace(device=torch.device(kind), config=config, test_views=[0] * views))

    prepare(kind, asked, views)
    assert not begun
    prepare("cuda", True, 1)
    assert begun == [torch.device("cuda")]


@pytest.mark.gpu
def test_lpips_that_a_thread_has_loaded_is_the_one_that_measures(
    gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics._model.cache_clear()
    monkeypatch.setattr(metrics, "_begun", set())
    a, b = (noise(64, 96, 3, seed=seed).to(gpu) for seed in (0, 1))
    for _ in range(2):
        metrics.load_lpips_meanwhile(torch.device("cuda"))
    threads = [thread for thread in threading.enumerate() if thread.name == "luxel-lpips"]
    distance = lpips(a, b)
    for thread in threads:
        thread.join()
    assert len(threads) <= 1 and metrics._model.cache_info().misses == 1
    assert distance == pytest.approx(lpips(a.cpu(), b.cpu()), abs=1e-5)


def test_the_licence_lies_beside_the_weights() -> None:
    text = (WEIGHTS.parent / "lpips_LICENSE.txt").read_text()
    assert "Richard Zhang" in text and "Redistribution" in text


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"differ in shape, \[4, 5, 3\] and \[5, 4, 3\]"):
        psnr(noise(4, 5, 3), noise(5, 4, 3))
    with pytest.raises(ValueError, match=r"weight must be \[4, 5\]"):
        ssim(noise(4, 5, 3), noise(4, 5, 3), torch.ones(5, 4))
    with pytest.raises(ValueError, match=r"images must be \[H, W, 3\]"):
        psnr(noise(4, 5), noise(4, 5))
