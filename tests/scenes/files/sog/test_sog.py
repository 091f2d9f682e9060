"""SOG scenes: a file of another tool, losses of our own, folders, facts, version 1, and the quantisers."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from knot_scene import knot
from sog_samples import KNOT, bundle, changed, entries, losses, webp

from luxel.render.primitives import Gaussians
from luxel.render.storage.batch import Batch
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.scenes import load_primitives, save_scene
from luxel.scenes.files import ply
from luxel.scenes.files.registry import format_of
from luxel.scenes.files.scene_files import load_facts, lost_by
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.files.sog import codebooks
from luxel.scenes.files.sog.codebooks import indices, make_codebook, make_palette, nearest


def some(count: int, degree: int = 3) -> Gaussians:
    generator = torch.Generator().manual_seed(count)
    shapes = ((3,), (4,), (3,), (), (3,), ((degree + 1) ** 2 - 1, 3))
    return Gaussians(*(torch.randn(count, *shape, generator=generator) for shape in shapes))


def load(path: Path) -> Gaussians:
    scene = load_primitives(path)
    assert isinstance(scene, Gaussians)
    return scene


def test_a_file_of_another_tool_is_read() -> None:
    loss = losses(knot(), load(KNOT))
    most = {"position": 6e-5, "log scale": 5e-3, "rotation": 1.5, "alpha": 4e-3, "dc": 9.5e-3}
    assert {name: loss[name][1] for name in most if loss[name][1] > most[name]} == {}
    assert loss["rest"][0] < 1.2e-3


def test_no_more_is_lost_than_by_the_other_tool(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.sog", knot())
    ours, theirs = losses(knot(), load(tmp_path / "a.sog")), losses(knot(), load(KNOT))
    assert {name: (ours[name], theirs[name]) for name in ours if ours[name][0] > theirs[name][0]} == {}
    assert ours["rotation"][1] < 0.85 and ours["alpha"][1] < 2.1e-3 and ours["position"][1] < 2.5e-5
    assert (tmp_path / "a.sog").stat().st_size < 1.1 * KNOT.stat().st_size


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [1, 15, 300])
def test_round_trip_of_every_degree(tmp_path: Path, degree: int, count: int) -> None:
    source = some(count, degree)
    save_scene(tmp_path / "a.sog", source)
    actual = load(tmp_path / "a.sog")
    assert (actual.count, actual.sh_degree) == (count, degree)
    loss = losses(source, actual)
    most = {"position": 1e-3, "log scale": 0.02, "rotation": 0.8, "alpha": 2.1e-3, "dc": 0.02, "rest": 0.15}
    assert {name: loss[name][1] for name in most if loss[name][1] > most[name]} == {}


def test_an_empty_scene(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.sog", some(0))
    assert load(tmp_path / "a.sog").count == 0


def test_writing_twice_gives_equal_files(tmp_path: Path) -> None:
    for name in "ab":
        save_scene(tmp_path / f"{name}.sog", knot())
    assert (tmp_path / "a.sog").read_bytes() == (tmp_path / "b.sog").read_bytes()


def test_what_cannot_be_stored_is_left_out_or_made_finite(tmp_path: Path) -> None:
    source = some(6, 0)
    source.means[0, 1] = torch.nan
    source.opacity_logits[1:3] = torch.tensor([torch.inf, -torch.inf])
    source.quats[3] = 0
    source.means[4] = torch.tensor([300.0, -1e6, 1e-6])
    save_scene(tmp_path / "a.sog", source)
    actual = load(tmp_path / "a.sog")
    assert actual.count == 5
    rows = (actual.means[:, None] - source.means[None, 1:]).norm(dim=-1).argmin(0)
    alpha = actual.opacity_logits.sigmoid()[rows]
    assert alpha[0] > 0.997 and alpha[1] < 0.003
    # The largest component is not stored, the others are within half a byte of 0.
    assert actual.quats[rows[2]].abs().argmax() == 0 and actual.quats[rows[2], 1:].abs().max() < 0.003
    torch.testing.assert_close(actual.means[rows[3]], source.means[4], rtol=2e-4, atol=1e-3)


def test_colours_under_no_opacity_are_kept(tmp_path: Path) -> None:
    source = replace(some(40, 0), opacity_logits=torch.full((40,), -20.0))
    save_scene(tmp_path / "a.sog", source)
    assert losses(source, load(tmp_path / "a.sog"))["dc"][1] < 1e-6


@pytest.mark.parametrize("antialiased", [True, False, None])
def test_antialiasing_is_stored(tmp_path: Path, antialiased: bool | None) -> None:
    facts = SceneFacts(antialiased=antialiased, up=(0, -1, 0))
    for name in ("a.sog", "folder/meta.json"):
        save_scene(tmp_path / name, some(3), facts=facts)
        assert load_facts(tmp_path / name) == SceneFacts(antialiased=antialiased)
    assert load_facts(tmp_path / "folder").antialiased is antialiased
    assert lost_by(tmp_path / "a.sog", some(3), facts) == ["the up direction"]


def test_a_folder_holds_the_same_as_a_bundle(tmp_path: Path) -> None:
    save_scene(tmp_path / "a.sog", knot())
    save_scene(tmp_path / "folder/meta.json", knot())
    names = sorted(path.name for path in (tmp_path / "folder").iterdir())
    files = entries((tmp_path / "a.sog").read_bytes())
    assert names == [MANIFEST, *sorted(files)]
    assert all((tmp_path / "folder" / name).read_bytes() == data for name, data in files.items())
    for path in (tmp_path / "folder", tmp_path / "folder/meta.json"):
        assert format_of(path) is format_of(tmp_path / "a.sog")
        assert losses(load(path), load(tmp_path / "a.sog"))["position"][1] == 0


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meta.json"
    (tmp_path / "note.webp").write_bytes(b"another file")
    for degree in (3, 0, 2, 1):
        save_scene(file, some(20, degree))
        assert load(file).sh_degree == degree
        assert len(list(tmp_path.glob("*.webp"))) == (8 if degree else 6)
    before = load(file)
    write = Batch.write

    def full(batch: Batch, name: str, content: bytes) -> None:
        if name.startswith("sh0"):
            raise OSError(errno.ENOSPC, "the disk is full")
        write(batch, name, content)

    monkeypatch.setattr(Batch, "write", full)
    with pytest.raises(ply.CaptureError):
        save_scene(file, some(30))
    assert losses(before, load(file))["position"][1] == 0


def test_other_folders_and_files_are_no_scenes(tmp_path: Path) -> None:
    assert format_of(tmp_path) is None
    for text in ("{}", "[1]", "no JSON", '{"means": 1, "scales": 2}'):
        (tmp_path / "meta.json").write_text(text)
        assert format_of(tmp_path) is None
    (tmp_path / "meta.json").write_bytes(b" " * (5 << 20))
    assert format_of(tmp_path) is None


def test_version_1_is_read(tmp_path: Path) -> None:
    """Ranges in place of codebooks, and the degree by the width of the palette's image."""
    rng = np.random.default_rng(0)
    images = {
        name: rng.integers(0, 256, (2, 4, 4)).astype(np.uint8) for name in ("l", "u", "s", "q", "c", "n")
    }
    images["q"][..., 3] = 252 + np.arange(8).reshape(2, 4) % 4
    images["n"][..., :2] = np.arange(16).reshape(2, 4, 2) % 2  # labels 0, 256 and so on are too large
    images["n"][..., 0] = np.arange(8).reshape(2, 4) % 5
    images["n"][..., 1] = 0
    palette = rng.integers(0, 256, (1, 64 * 8, 3)).astype(np.uint8)
    files = {f"{name}.webp": webp(image) for name, image in images.items()}
    files["p.webp"] = webp(palette)
    meta = {
        "means": {"shape": [7, 3], "mins": [-2, -1, 0], "maxs": [1, 1.5, 3], "files": ["l.webp", "u.webp"]},
        "scales": {"shape": [7, 3], "mins": [-9, -8, -7], "maxs": [-1, 0, 1], "files": ["s.webp"]},
        "quats": {"shape": [7, 4], "encoding": "quaternion_packed", "files": ["q.webp"]},
        "sh0": {"shape": [7, 1, 4], "mins": [-1, -2, -3, -9], "maxs": [1, 2, 3, 11], "files": ["c.webp"]},
        "shN": {
            "shape": [7, 8, 3],
            "mins": -0.5,
            "maxs": 0.25,
            "quantization": 8,
            "files": ["p.webp", "n.webp"],
        },
    }
    files["meta.json"] = json.dumps(meta).encode()
    (tmp_path / "old.sog").write_bytes(bundle(files))
    actual = load(tmp_path / "old.sog")
    rows = {name: image.reshape(8, 4)[:7].astype(float) for name, image in images.items()}
    logs = np.array([-2, -1, 0]) + np.array([3, 2.5, 3]) * (rows["l"] + 256 * rows["u"])[:, :3] / 65535
    np.testing.assert_allclose(actual.means, np.sign(logs) * (np.exp(np.abs(logs)) - 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        actual.log_scales, np.array([-9, -8, -7]) + 8 * rows["s"][:, :3] / 255, atol=1e-5
    )
    np.testing.assert_allclose(actual.opacity_logits, -9 + 20 * rows["c"][:, 3] / 255, atol=1e-5)
    dc = np.array([-1, -2, -3]) + np.array([2, 4, 6]) * rows["c"][:, :3] / 255
    np.testing.assert_allclose(actual.sh_dc, dc, atol=1e-5)
    labels = np.arange(7) % 5
    rest = -0.5 + 0.75 * palette[0].reshape(64, 8, 3)[labels] / 255.0
    np.testing.assert_allclose(actual.sh_rest, rest, atol=1e-6)
    stored = (rows["q"][:, :3] / 255 * 2 - 1) / np.sqrt(2)
    for row in range(7):
        others = [axis for axis in range(4) if axis != row % 4]
        np.testing.assert_allclose(actual.quats[row, others], stored[row], atol=1e-6)
        expected = np.sqrt(max(0, 1 - np.square(stored[row]).sum()))
        np.testing.assert_allclose(actual.quats[row, row % 4], expected, atol=1e-4)


def test_slips_of_other_tools_are_read(tmp_path: Path) -> None:
    """A codebook without its first number, and quaternions whose alpha is none of the four."""
    data = KNOT.read_bytes()
    files = entries(data)
    scales = json.loads(files["meta.json"])["scales"]
    scales["codebook"][0] = None
    step = (scales["codebook"][255] - scales["codebook"][1]) / 255
    path = tmp_path / "a.sog"
    path.write_bytes(changed(data, scales=scales))
    first = scales["codebook"][1] - step
    expected = load(KNOT).log_scales
    expected = torch.where(expected == expected.min(), torch.tensor(first), expected)
    torch.testing.assert_close(load(path).log_scales, expected, rtol=0, atol=1e-6)
    files["quats.webp"] = webp(np.full((48, 48, 4), 7, np.uint8))
    path.write_bytes(bundle(files))
    assert torch.equal(load(path).quats, torch.tensor([1.0, 0, 0, 0]).expand(2000, 4))


def test_codebooks_have_the_least_error() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=300), np.full(50, 3.0), [9.0, 40.0]])
    book = make_codebook(values, 4)
    error = np.square(book[indices(values, book)] - values).sum()
    unique = np.sort(values)
    best = np.inf  # over all divisions of the sorted values into 4 cells
    n = len(unique)
    sums, squares = (np.concatenate([[0], np.cumsum(unique**power)]) for power in (1, 2))

    def cost(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return squares[b] - squares[a] - (sums[b] - sums[a]) ** 2 / np.maximum(b - a, 1)

    ends = np.arange(1, n + 1)
    table = cost(np.zeros(n, int), ends)
    for _ in range(3):
        table = np.array(
            [min(table[: b - 1] + cost(ends[: b - 1], np.full(b - 1, b)), default=0) for b in ends]
        )
    best = table[-1]
    assert error <= 1.02 * best
    assert np.all(np.diff(book) > 0) and book.dtype == np.float32


@pytest.mark.parametrize(
    "values", [[], [2.5], [1.0, -1.0, 1.0], np.linspace(0, 1, 256).tolist(), [0.0] * 900 + [1e-30, 1.0]]
)
def test_few_values_are_kept(values: list[float]) -> None:
    book = make_codebook(np.array(values))
    assert book.shape == (256,) and np.all(np.diff(book) >= 0)
    np.testing.assert_array_equal(book[indices(np.array(values), book)], np.array(values, np.float32))


def test_values_far_outside_keep_the_others_fine() -> None:
    values = np.concatenate([np.random.default_rng(2).normal(size=5000), [1e6, -1e6]])
    book = make_codebook(values)
    errors = np.abs(book[indices(values, book)] - values)
    assert errors[-2:].max() < 1 and np.sqrt(np.mean(errors[:-2] ** 2)) < 0.02


@pytest.mark.parametrize("power", [1, 3, 5])
def test_no_value_moves_far(power: int) -> None:
    """With long tails, of which a least squared error alone would spend few numbers on the ends."""
    values = np.random.default_rng(3).normal(size=20_000) ** power
    book = make_codebook(values)
    equal_steps = (values.max() - values.min()) / 512
    errors = np.abs(book[indices(values, book)] - values)
    rounding = np.abs(values).max() * 2**-24  # of the book to float32
    assert errors.max() <= codebooks.LARGEST_ERROR * equal_steps + rounding
    assert np.sqrt(np.mean(errors**2)) < 0.7 * equal_steps / np.sqrt(3)


def test_the_nearest_entry_of_a_large_palette(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(5)
    vectors = torch.randn(4000, 3, generator=generator) @ torch.randn(3, 24, generator=generator)
    entries = vectors[:2000] + 0.01 * torch.randn(2000, 24, generator=generator)
    monkeypatch.setattr(codebooks, "CELL", 64)
    labels, errors = nearest(vectors, entries)
    exact = torch.cdist(vectors.double(), entries.double()).square()
    torch.testing.assert_close(errors.double(), exact.gather(1, labels[:, None])[:, 0], rtol=1e-3, atol=1e-3)
    assert (labels == exact.argmin(1)).double().mean() > 0.97
    assert errors.mean() < 1.05 * exact.min(1).values.mean()


def test_palettes_use_every_entry_and_are_the_same_again() -> None:
    vectors = torch.cat(
        [torch.zeros(500, 9), torch.randn(300, 9, generator=torch.Generator().manual_seed(1))]
    )
    entries, labels = make_palette(vectors, 128)
    assert entries.shape == (128, 9) and labels.shape == (800,)
    again = make_palette(vectors, 128)
    assert torch.equal(entries, again[0]) and torch.equal(labels, again[1])
    error = (entries[labels] - vectors).square().sum(1)
    assert error[:500].max() < 1e-3
    assert error[500:].mean() < 0.5 * vectors[500:].square().sum(1).mean()
    assert labels.unique().numel() > 100
