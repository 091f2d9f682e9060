"""MobileSAM with its published weights against the outputs that were published with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.nets.mobile_sam import load_mobile_sam


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, np.ndarray]:
    path = shared / "models" / "mobile_sam" / "mobile_sam_expected.npz"
    if not path.is_file():
        pytest.skip(f"capture test not run: there is no {path}")
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def iou(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / (a | b).sum())


def check_view(
    network, shared: Path, expected: dict[str, np.ndarray], view: int, tolerance: float = 1
) -> None:
    image = np.array(Image.open(shared / str(expected["images"][view])).convert("RGB"))
    embedding = network.encode(torch.from_numpy(image))
    made = network.predict(embedding, torch.tensor(expected["click"][view])[None, None])
    shape = tuple(expected["mask_shape"])
    stored = (
        np.unpackbits(expected["masks_packed"][view], axis=1)[:, : shape[1] * shape[2]].reshape(shape) > 0
    )
    for mask, other in zip(made.masks[0].cpu().numpy(), stored, strict=True):
        assert iou(mask, other) >= 0.99
    error = np.abs(made.predicted_iou[0].cpu().numpy() - expected["predicted_iou"][view])
    assert error.max() <= 0.005
    best = int(expected["predicted_iou"][view].argmax())
    assert (
        np.abs(made.logits[0, best].cpu().numpy() - expected["low_res_logits"][view]).max() < 0.3 * tolerance
    )
    boxed = network.predict(embedding, boxes=torch.tensor(expected["box"][view])[None], multimask=False)
    truth = np.array(Image.open(shared / str(expected["truth"][view])).convert("L")) >= 128
    assert iou(boxed.masks[0, 0].cpu().numpy(), truth) == pytest.approx(expected["box_iou"][view], abs=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("view", [0, 1, 2])
def test_outputs_are_reproduced(view: int, shared: Path, expected: dict[str, np.ndarray]) -> None:
    check_view(load_mobile_sam(), shared, expected, view)


@pytest.mark.gpu
def test_outputs_are_reproduced_on_a_gpu(gpu, shared: Path, expected) -> None:
    network = load_mobile_sam(device=gpu)
    for view in range(3):
        check_view(network, shared, expected, view, tolerance=10)
