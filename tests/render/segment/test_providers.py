"""Mask providers: true ids, given maps, segmenters that are prompted, MobileSAM and SAM 2 as segmenters."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.segment.providers import MaskProvider
from luxel.render.segment.providers.given_maps import GivenMaps
from luxel.render.segment.providers.mobile_sam import MobileSamSegmenter
from luxel.render.segment.providers.prompted import PromptedMaps
from luxel.render.segment.providers.sam2 import MODULE, load_sam2
from luxel.render.segment.providers.true_ids import TrueIds
from luxel.render.segment.segmenter import MaskChoice, Prompt

HEIGHT, WIDTH = 12, 16
IMAGES = {name: np.zeros((HEIGHT, WIDTH, 3), np.uint8) for name in ("a", "b")}


@pytest.fixture
def cameras(toy_camera) -> dict[str, Camera]:
    return {name: toy_camera(WIDTH, HEIGHT) for name in IMAGES}


def two_solids() -> np.ndarray:
    ids = np.zeros((HEIGHT, WIDTH), np.uint8)
    ids[2:8, 1:6], ids[4:10, 9:15] = 3, 7
    return ids


class Discs:
    """A segmenter whose logits fall from the first point, or from the middle of the box, outwards."""

    def embed(self, image: np.ndarray) -> tuple[int, int]:
        return image.shape[:2]

    def masks(self, embedding: Any, points, box=None) -> MaskChoice:
        x, y = points[0][:2] if points else ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        rows, columns = torch.meshgrid(*(torch.arange(n) + 0.5 for n in embedding), indexing="ij")
        far = ((rows - y) ** 2 + (columns - x) ** 2).sqrt()
        logits = torch.stack([1 - far, 4 - far, 9 - far])
        return MaskChoice(logits > 0, logits, torch.tensor([0.1, 0.9, 0.2]))


def test_true_ids_are_labels(cameras) -> None:
    provider: MaskProvider = TrueIds({"a": two_solids()})
    maps = provider(IMAGES, cameras)
    assert list(maps) == ["a"] and np.array_equal(maps["a"].numpy(), two_solids())


def test_prompts_choose_among_true_ids(cameras) -> None:
    ids = two_solids()
    provider = TrueIds({"a": ids, "b": ids[:, ::-1].copy()})
    prompts = [Prompt(1, "a", ((10.5, 5.5, True),)), Prompt(9, "a", box=(0, 0, 8, 8))]
    maps = provider(IMAGES, cameras, prompts)
    assert np.array_equal(maps["a"].numpy(), np.select([ids == 7, ids == 3], [1, 9]))
    assert np.array_equal(maps["b"].numpy(), maps["a"].numpy()[:, ::-1])
    for prompt in (Prompt(1, "a", ((0.5, 0.5, True),)), Prompt(1, "a", box=(0, 10, 4, 12))):
        with pytest.raises(LuxelError, match="a: the prompt of label 1 is on no solid"):
            provider(IMAGES, cameras, [prompt])


def test_too_many_solids() -> None:
    with pytest.raises(LuxelError, match="more than 254 solids"):
        TrueIds({"a": np.full((2, 2), 255, np.uint8)})


def test_given_maps_are_those_of_the_views(cameras) -> None:
    maps = GivenMaps({"b": two_solids(), "other": two_solids()})(IMAGES, cameras)
    assert list(maps) == ["b"] and maps["b"].dtype == torch.uint8


def test_given_maps_of_another_size(cameras) -> None:
    with pytest.raises(LuxelError, match="a: the label map is 8 x 6 pixels, the view 16 x 12") as caught:
        GivenMaps({"a": two_solids()[::2, ::2]})(IMAGES, cameras)
    assert "without interpolation" in caught.value.remedy
    assert GivenMaps({"a": two_solids()})(IMAGES, cameras)


def test_prompted_maps_take_the_surest_mask_and_the_higher_logit(cameras) -> None:
    prompts = [Prompt(5, "a", ((4.5, 6.5, True),)), Prompt(2, "a", box=(6, 4, 11, 9))]
    maps = PromptedMaps(Discs())(IMAGES, cameras, prompts)
    assert list(maps) == ["a"]
    labels = maps["a"]
    assert labels[6, 4] == 5 and labels[6, 8] == 2 and labels[0, 15] == 0
    assert labels[6, 5] == 5 and labels[6, 7] == 2  # both discs reach here
    assert (labels == 5).sum() < 3.15 * 16 + 8  # of radius 4, not 9


def test_prompted_maps_without_a_mask_or_a_view(cameras) -> None:
    provider = PromptedMaps(Discs())
    with pytest.raises(LuxelError, match="a: the segmenter finds no mask for the prompt of label 4"):
        provider(IMAGES, cameras, [Prompt(4, "a", ((-50.0, -50.0, True),))])
    with pytest.raises(LuxelError, match="c: none of the 2 views has that name") as caught:
        provider(IMAGES, cameras, [Prompt(4, "c", ((5.0, 5.0, True),))])
    assert caught.value.remedy.endswith("such as a.")


class Network:
    """Records what it is asked; its logits are those of `Discs` around the first point."""

    def __init__(self) -> None:
        self.encoded, self.given = 0, {}

    def encode(self, image: torch.Tensor) -> tuple[int, int]:
        assert image.dtype == torch.uint8
        self.encoded += 1
        return tuple(image.shape[:2])

    def predict(self, embedding, **given):
        self.given = given
        made = Discs().masks(embedding, [(8.0, 6.0, True)])
        return types.SimpleNamespace(logits=made.logits[None], predicted_iou=made.predicted_iou[None])

    def resize(self, logits, embedding):
        return logits


class Encoded(dict):
    def get(self, key, compute):
        if key not in self:
            self[key] = compute()
        return self[key]


def test_mobile_sam_is_a_segmenter(cameras) -> None:
    network = Network()
    segmenter = MobileSamSegmenter(network)
    prompt = Prompt(1, "a", ((8.0, 6.0, True), (1.5, 2.5, False)), (1.0, 2.0, 9.0, 10.0))
    assert PromptedMaps(segmenter)(IMAGES, cameras, [prompt])["a"][6, 8] == 1
    assert network.given["points"].tolist() == [
        [[7.5, 5.5], [1.0, 2.0]]
    ]  # centres of pixels are whole numbers
    assert network.given["signs"].tolist() == [[1, 0]]
    assert network.given["boxes"].tolist() == [[0.5, 1.5, 8.5, 9.5]]
    assert segmenter.masks((HEIGHT, WIDTH), [], (1, 2, 9, 10)).single
    assert network.given.pop("multimask") is None and set(network.given) == {"boxes"}
    assert segmenter.masks((HEIGHT, WIDTH), [(8.0, 6.0, True), (7.0, 6.0, True)]).single
    assert not segmenter.masks((HEIGHT, WIDTH), [(8.0, 6.0, True)]).single and network.given["multimask"]


def test_images_are_encoded_once() -> None:
    network = Network()
    segmenter = MobileSamSegmenter(network, Encoded())
    for _ in range(2):
        segmenter.embed(IMAGES["a"])
        segmenter.embed(IMAGES["a"] + np.uint8(1))
    assert network.encoded == 2
    segmenter.embed(IMAGES["a"], ("a", 1))
    segmenter.embed(IMAGES["b"] + np.uint8(9), ("a", 1))
    segmenter.embed(IMAGES["a"], ("a", 2))
    assert network.encoded == 4


class StandInPredictor:
    """The interface of SAM 2's predictor of images."""

    def __init__(self) -> None:
        self.images: list[np.ndarray] = []

    @classmethod
    def from_pretrained(cls, model: str, device: str):
        if "none" in model:
            raise OSError("no such weights")
        return cls()

    def set_image(self, image: np.ndarray) -> None:
        self.images.append(image)

    def predict(self, point_coords, point_labels, box, multimask_output, return_logits):
        assert multimask_output and return_logits
        points = (
            [] if point_coords is None else [(*p, s) for p, s in zip(point_coords, point_labels, strict=True)]
        )
        made = Discs().masks(self.images[-1].shape[:2], points, box)
        return made.logits.numpy(), made.predicted_iou.numpy(), None


def test_sam2_where_it_is_installed(cameras, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(MODULE)
    module.SAM2ImagePredictor = StandInPredictor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE.split(".")[0], types.ModuleType("sam2"))
    monkeypatch.setitem(sys.modules, MODULE, module)
    segmenter = load_sam2()
    prompts = [Prompt(5, "a", ((4.5, 6.5, True),)), Prompt(2, "b", box=(6, 4, 11, 9))]
    maps = PromptedMaps(segmenter)(IMAGES, cameras, prompts)
    assert maps["a"][6, 4] == 5 and maps["b"][6, 8] == 2
    first, second = segmenter.embed(IMAGES["a"]), segmenter.embed(IMAGES["b"])
    segmenter.masks(second, [(4.0, 4.0, True)])
    encoded = len(segmenter.predictor.images)
    segmenter.masks(first, [(4.0, 4.0, True)])  # another image than the last one
    assert len(segmenter.predictor.images) == encoded + 1
    with pytest.raises(LuxelError, match=r"weights none of SAM 2 cannot be loaded \(no such weights\)"):
        load_sam2("none")


def test_sam2_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(LuxelError, match="SAM 2 is not installed") as caught:
        load_sam2()
    assert "MobileSAM" in caught.value.remedy
