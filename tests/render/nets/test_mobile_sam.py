"""MobileSAM with small random weights: shapes, prompts, folding, embeddings that are kept, and missing weights."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from luxel.render.errors import LuxelError
from luxel.render.nets.mobile_sam import EmbeddingCache, MobileSam, load_mobile_sam, weights
from luxel.render.nets.mobile_sam.image_encoder import AttentionBlock, EncoderSize, WindowAttention
from luxel.render.nets.mobile_sam.mask_decoder import DecoderSize

SMALL = EncoderSize(
    widths=(8, 16, 16, 24), depths=(1, 1, 1, 1), heads=(1, 2, 2, 3), windows=(7, 7, 14, 7), out=32
)
SIDE = 128


@pytest.fixture(scope="module")
def network() -> MobileSam:
    torch.manual_seed(0)
    return MobileSam(SIDE, SMALL, DecoderSize(32, 4, 64, 2))


@pytest.fixture(scope="module")
def embedding(network: MobileSam):
    return network.encode(torch.rand(30, 40, 3, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("size", [(30, 40), (300, 100), (1, 7)])
def test_shapes(network: MobileSam, size: tuple[int, int]) -> None:
    embedding = network.encode(torch.rand(*size, 3))
    assert embedding.features.shape == (1, 32, SIDE // 16, SIDE // 16)
    points = torch.zeros(2, 3, 2)
    for multimask, masks in ((True, 3), (False, 1), (None, 4)):
        made = network.predict(embedding, points, torch.tensor([[1, 0, 1]] * 2), multimask=multimask)
        assert made.masks.shape == (2, masks, *size) and made.masks.dtype == torch.bool
        assert made.logits.shape == (2, masks, SIDE // 4, SIDE // 4)
        assert made.predicted_iou.shape == (2, masks)


def test_one_mask_and_three_at_once(network: MobileSam, embedding) -> None:
    points = torch.tensor([[[3.0, 4], [20, 9]]])
    one, three, four = (network.predict(embedding, points, multimask=how) for how in (False, True, None))
    torch.testing.assert_close(four.logits, torch.cat([one.logits, three.logits], 1))
    torch.testing.assert_close(four.predicted_iou, torch.cat([one.predicted_iou, three.predicted_iou], 1))


def test_images_of_bytes_and_of_fractions_are_the_same(network: MobileSam) -> None:
    levels = torch.arange(20 * 24 * 3).remainder(256).to(torch.uint8).view(20, 24, 3)
    torch.testing.assert_close(network.encode(levels).features, network.encode(levels / 255).features)


@pytest.mark.parametrize("form", ["points", "boxes", "both"])
def test_a_batch_equals_its_single_prompts(network: MobileSam, embedding, form: str) -> None:
    points = torch.tensor([[[3.0, 4], [20, 9]], [[30, 20], [5, 5]], [[0, 0], [39, 29]]])
    signs = torch.tensor([[1, 0], [1, 1], [0, 1]])
    boxes = torch.tensor([[1.0, 2, 20, 25], [0, 0, 39, 29], [10, 10, 12, 12]])
    given = {"points": points, "signs": signs} if form != "boxes" else {}
    given |= {"boxes": boxes} if form != "points" else {}
    batch = network.predict(embedding, **given)
    for index in range(3):
        single = network.predict(embedding, **{name: value[index, None] for name, value in given.items()})
        torch.testing.assert_close(single.logits[0], batch.logits[index], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(single.predicted_iou[0], batch.predicted_iou[index], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(batch.logits[0], batch.logits[1], atol=1e-3)


def test_signs_and_places_of_points_count(network: MobileSam, embedding) -> None:
    point = torch.tensor([[[3.0, 4.0]]])
    inside = network.predict(embedding, point).logits
    assert not torch.allclose(
        inside, network.predict(embedding, point, torch.tensor([[0]])).logits, atol=1e-4
    )
    assert not torch.allclose(inside, network.predict(embedding, point + 9).logits, atol=1e-4)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "points or boxes"),
        ({"points": torch.zeros(3, 2)}, r"points must be \[P, K, 2\]"),
        ({"points": torch.zeros(1, 2, 2), "signs": torch.tensor([[1, 2]])}, "signs must be 0 or 1"),
        ({"boxes": torch.zeros(1, 4), "signs": torch.ones(1, 1)}, "signs must be None where"),
        ({"points": torch.zeros(2, 1, 2), "boxes": torch.zeros(1, 4)}, r"boxes must be \[2, 4\]"),
    ],
)
def test_prompts_that_do_not_fit(network: MobileSam, embedding, given, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        network.predict(embedding, **given)


def test_images_that_do_not_fit(network: MobileSam) -> None:
    with pytest.raises(ValueError, match=r"image must be \[H, W, 3\]"):
        network.encode(torch.zeros(3, 8, 8))


def test_attention_knows_offsets_of_tokens() -> None:
    """The bias of two tokens depends on their absolute offsets alone, counted row by row of the window."""
    attention = WindowAttention(8, 2, 3)
    for first in range(9):
        for second in range(9):
            rows, columns = abs(first // 3 - second // 3), abs(first % 3 - second % 3)
            assert attention.offset[first, second] == 3 * rows + columns


def test_windows_do_not_see_each_other() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(8, 2, 4, 2).requires_grad_(False)
    x = torch.randn(1, 10, 12, 8)  # three windows below each other, the last one half outside
    changed = x.clone()
    changed[:, 9, 11] += torch.randn(8)  # not a constant, which normalisation removes
    different = (block._attend(x) != block._attend(changed)).any(-1)[0]
    assert different[8:, 8:].all() and not different[:8].any() and not different[:, :8].any()


def test_folded_normalisation_is_that_of_the_layers() -> None:
    torch.manual_seed(0)
    conv, norm = torch.nn.Conv2d(3, 5, 3, bias=False), torch.nn.BatchNorm2d(5).eval()
    stats = {"weight": torch.rand(5), "bias": torch.randn(5), "running_mean": torch.randn(5)}
    norm.load_state_dict({**norm.state_dict(), **stats, "running_var": torch.rand(5) + 0.1})
    stored = {"a.c.weight": conv.weight.detach(), "b.weight": torch.ones(2).half()}
    stored |= {f"a.bn.{name}": value for name, value in norm.state_dict().items()}
    folded = weights.fold({**stored, "image_encoder.head.weight": torch.ones(1)})
    assert set(folded) == {"a.weight", "a.bias", "b.weight"} and folded["b.weight"].dtype == torch.float32
    x = torch.randn(1, 3, 6, 6)
    torch.testing.assert_close(F.conv2d(x, folded["a.weight"], folded["a.bias"]), norm(conv(x)))


def test_embeddings_are_kept_within_a_bound() -> None:
    cache, computed = EmbeddingCache[str](2), []

    def get(view: str, version: int) -> str:
        def compute() -> str:
            computed.append((view, version))
            return view * version

        return cache.get((view, version), compute)

    assert [get("a", 1), get("a", 1), get("a", 2), get("a", 1)] == ["a", "a", "aa", "a"]
    assert computed == [("a", 1), ("a", 2)]
    get("b", 1)  # the least recently used one goes
    assert len(cache) == 2 and ("a", 1) in cache and ("a", 2) not in cache
    cache.clear()
    assert len(cache) == 0
    with pytest.raises(ValueError, match="at least 1"):
        EmbeddingCache(0)


def test_embeddings_are_computed_outside_of_the_lock() -> None:
    """A view that is encoded in one thread does not make another thread wait for a view that is kept."""
    cache, started, done = EmbeddingCache[int](4), threading.Event(), threading.Event()
    cache.get("kept", lambda: 1)

    def slow() -> int:
        started.set()
        return 2 if done.wait(10) else 0

    thread = threading.Thread(target=lambda: cache.get("slow", slow))
    thread.start()
    assert started.wait(10)
    assert cache.get("kept", lambda: 3) == 1
    done.set()
    thread.join()
    assert cache.get("slow", lambda: 5) == 2


def test_missing_weights_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following the remedy leads on: to the file, or the folder, that the variable names."""
    packaged = weights.PACKAGED
    monkeypatch.setattr(weights, "PACKAGED", tmp_path / "nothing")
    monkeypatch.delenv(weights.VARIABLE, raising=False)
    with pytest.raises(LuxelError, match="weights of MobileSAM are missing") as caught:
        load_mobile_sam()
    assert weights.VARIABLE in caught.value.remedy and "--force-reinstall luxel" in caught.value.remedy
    place = tmp_path / weights.FILE
    place.write_bytes(b"other")
    monkeypatch.setenv(weights.VARIABLE, str(tmp_path))
    with pytest.raises(LuxelError, match=r"known weights of MobileSAM \(SHA-256"):
        load_mobile_sam()
    monkeypatch.setenv(weights.VARIABLE, str(packaged))
    assert next(load_mobile_sam().parameters()).dtype == torch.float32


def test_weights_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LuxelError, match="weights of MobileSAM"):
        weights.read_weights(tmp_path)


@pytest.mark.gpu
def test_graphs_give_what_calls_give(gpu: torch.device) -> None:
    torch.manual_seed(0)
    network = MobileSam(SIDE, SMALL, DecoderSize(32, 4, 64, 2)).to(gpu)
    random = torch.Generator().manual_seed(0)
    images = [torch.rand(30, 40, 3, generator=random) for _ in range(4)]
    prompts = [torch.rand(count, 1, 2, generator=random) * 30 for count in (1, 10, 10, 20)]

    def outputs() -> list[torch.Tensor]:
        made = [
            network.predict(network.encode(image), points, multimask=how)
            for image, points in zip(images, prompts, strict=True)
            for how in (True, False)
        ]
        return [part for one in made for part in (one.logits, one.predicted_iou)]

    called = outputs()
    for _ in range(2):
        torch.testing.assert_close(outputs(), called, atol=0, rtol=0)
    replay = network._decode._replay
    assert replay is not None and replay.captures == 4, "1 and 10 prompts, each with one mask and with three"
    results: dict[int, list[torch.Tensor]] = {}

    def in_a_thread(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream(gpu)):
            results[number] = [part.clone() for part in outputs()]
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=in_a_thread, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        torch.testing.assert_close(results[number], called, atol=0, rtol=0)
