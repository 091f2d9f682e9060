"""`luxel bench fields`: what it measures, how a frame is taken apart, and whom it compares with."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tinycudann_stand_in import StandIn

from luxel.render.fields.application import make_application
from luxel.render.fields.build import field_of
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.geometry.camera import Camera
from luxel.viewer.bench import timing
from luxel.viewer.bench.fields import datasets as field_datasets
from luxel.viewer.bench.fields import peers as field_peers
from luxel.viewer.bench.fields import report as fields_report
from luxel.viewer.bench.fields import stages as field_stages
from luxel.viewer.cli import main

WORK = field_peers.WORK
SMALL = ["--sizes", "64x36", "--seconds", "0.05", "--quick", "--batch", "256", "--log2-entries", "10"]


@pytest.fixture(scope="module")
def measured_fields(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a measurement of two combinations."""
    folder = tmp_path_factory.mktemp("fields")
    options = ["--only", "image", "sdf", "--encodings", "hash", "--device", "cpu", "--out", str(folder)]
    assert main(["bench", "fields", *SMALL, *options]) == 0
    return folder


@pytest.mark.slow
def test_every_combination_is_trained_drawn_and_taken_apart(strict: Any, measured_fields: Path) -> None:
    report = strict(measured_fields / "fields.json")
    assert report["kind"] == "fields" and report["ceilings"]["half_flops_per_s"] > 0
    assert [(row["field"], row["encoding"]) for row in report["rows"]] == [("image", "hash"), ("sdf", "hash")]
    for row in report["rows"]:
        assert not row["failures"] and row["parameters"] > row["entries"] > 0
        training, steps = row["training"], row["steps"]
        assert training["steps"] >= 1 and training["seconds"] >= 0.05 and training["batch"] == 256
        assert steps["samples_per_s"] == pytest.approx(256e3 / steps["mean"]) and steps["captures"] == 0
        (frame,) = row["frames"]
        times = frame["times"]
        assert (frame["width"], frame["height"]) == (64, 36) and 0 < times["p10"] <= times["p90"]
        assert frame["fps"] == pytest.approx(1000 / times["median"])
        assert frame["reaches_goal"] == (times["median"] <= 1000 / 60)
        assert set(frame["shares"]) == set(field_stages.PARTS)
        assert sum(frame["shares"].values()) == pytest.approx(1, abs=0.05)
        assert frame["shares"]["encoding"] > 0 and frame["shares"]["network"] > 0
        assert [line["stage"] for line in row["rooflines"]] == list(field_stages.STAGES)
        assert all(line["floor_ms"] > 0 and line["ms"] > 0 for line in row["rooflines"])
        # torch rounds a position times the scale, up to 2048, to float before it takes the fraction
        assert row["peers"]["torch"]["difference"] < 1e-4
        assert "GPU" in row["peers"]["tiny-cuda-nn"]["absent"]
        assert all(row["peers"][name][work]["rows_per_s"] > 0 for name in ("luxel", "torch") for work in WORK)
    image, sdf = report["rows"]
    assert image["frames"][0]["field_rows"] == 64 * 36 and image["training"]["scores"]["psnr"] > 0
    assert sdf["frames"][0]["views"] == 2 and sdf["training"]["scores"]["mean_error"] > 0


@pytest.mark.slow
def test_the_report_says_it_all(read_page: Any, measured_fields: Path) -> None:
    tags = read_page(measured_fields / "fields.html")
    assert tags.count["svg"] == 1 and tags.count["table"] == 6 and tags.count["rect"] >= 4
    text = (measured_fields / "fields.md").read_text()
    assert "| image | hash | 64x36 |" in text and "tiny-cuda-nn is not measured" in text
    assert text.count("| sdf | hash |") == 1 + 1 + 2 + 3


@pytest.mark.slow
def test_reports_are_compared(measured_fields: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(measured_fields / "fields.json")
    assert main(["bench", "compare", path, path]) == 0
    out = capsys.readouterr().out
    assert "| hash | image at 64x36 |" in out and out.count("1.000x") == 2 * 2 and "!" not in out


def test_records_of_a_profile_are_summed() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            torch.rand(20, 20) @ torch.ones(20, 20)
    by_kernel = {row["kernel"]: row for row in timing.record_times(profiler, "CPU", 3)}
    assert by_kernel["aten::mm"]["launches"] == 1 and by_kernel["aten::mm"]["ms"] > 0
    assert not timing.record_times(profiler, "CUDA", 3)


def test_a_failure_is_recorded_and_the_rest_goes_on(
    strict: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any, **__: Any) -> None:
        raise RuntimeError("no peer today")

    monkeypatch.setattr("luxel.viewer.bench.fields.measure.rates", break_down)
    options = ["--only", "image", "--encodings", "lowres", "--device", "cpu", "--out", str(tmp_path)]
    assert main(["bench", "fields", *SMALL, *options]) == 1
    (row,) = strict(tmp_path / "fields.json")["rows"]
    assert list(row["failures"]) == ["peers"] and row["frames"][0]["shares"] and row["steps"]
    assert "no peer today" in (tmp_path / "fields.md").read_text()


def test_a_frame_on_a_gpu_is_split_by_kernels() -> None:
    """The fused kernel by the stages alone, tables rounded by anyone's kernel, and gaps beyond all kernels."""
    kernels = [
        {"kernel": "luxel::field_kernel<3, true>", "ms": 4.0},
        {"kernel": "luxel::mlp_chain_kernel<32, 64, 2>", "ms": 0.75},
        {"kernel": "luxel::field_kernel<0, 64, luxel::DirectedRows>", "ms": 0.25},
        {"kernel": "luxel::field_levels_kernel<3, 8, __half>", "ms": 0.5},
        {"kernel": "luxel::colour_inputs_kernel", "ms": 0.25},
        {"kernel": "luxel::composite_wave_kernel", "ms": 0.5},
        {"kernel": "at::native::vectorized_elementwise_kernel<4>", "ms": 0.75},
    ]
    alone = {"times": {"encoding": {"median": 3.0}, "network": {"median": 1.0}}}
    share = field_stages.encoding_share(alone)
    parts = field_stages.frame_parts(kernels, 10.0, share, 0.25, on_gpu=True)
    assert parts == {"encoding": 4.0, "network": 2.0, "rest": 1.0, "gaps": 3.0}
    assert field_stages.shares(parts)["encoding"] == pytest.approx(0.4)
    slower = field_stages.frame_parts(kernels, 5.0, share, 9.0, on_gpu=True)
    assert slower == {"encoding": 5.0, "network": 2.0, "rest": 0.0, "gaps": 0.0}
    on_cpu = field_stages.frame_parts([{"kernel": "field", "ms": 4.0}], 6.0, 0.5, 0.0, on_gpu=False)
    assert on_cpu == {"encoding": 2.0, "network": 2.0, "rest": 2.0, "gaps": 0.0}


@pytest.mark.parametrize("encoding", ["hash", "blocks", "dense", "lowres"])
@pytest.mark.parametrize("kind", ["image", "sdf", "volume", "radiance"])
def test_torch_has_the_same_field(kind: Any, encoding: Any) -> None:
    values = {"field": kind, "encoding": encoding, "log2_entries": 8, "width": 16}
    if encoding == "blocks":
        values |= {"encoding": "hash", "hashing": "blocks", "log2_entries": 13}
    whole = field_stages.encoded_field(make_application(FieldConfig.from_dict(values))).double()
    torch.nn.init.normal_(whole.encoding.table)
    plain = field_peers.TorchField(whole)
    x = torch.rand(300, whole.encoding.grid.dimensions, dtype=torch.float64)
    assert torch.allclose(plain(x), whole(x), rtol=1e-12, atol=1e-12)


def test_encodings_without_tables_are_measured() -> None:
    """They are of torch's operations themselves; tiny-cuda-nn has none of them."""
    cpu = torch.device("cpu")
    config = replace(defaults("sdf"), encoding="frequency", frequencies=3, width=16)
    whole = field_stages.encoded_field(make_application(config))
    x = torch.rand(50, 3)
    assert torch.allclose(field_peers.TorchField(whole)(x), whole(x), atol=1e-6)
    alone = field_stages.stages_alone(whole, x, cpu, warmup=0, iterations=1)
    assert alone["rounding_ms"] == 0 and list(alone["times"]) == list(field_stages.STAGES)
    floor = field_stages.floors(50, whole)["encoding"]
    assert floor == {"bytes": 4 * 50 * (3 + 18), "gathered": 0, "flops": 50 * 18, "half_flops": 0}
    rates = field_peers.rates(whole, 20, cpu, warmup=0, iterations=1)
    assert rates["tiny-cuda-nn"] == {"absent": "it has no such encoding"}


def test_floors_are_counted_from_the_sizes() -> None:
    whole = field_stages.encoded_field(make_application(defaults("sdf")))
    grid, rows = whole.encoding.grid, 1000
    floors = field_stages.floors(rows, whole)
    entries = sum(min(b - a, 8 * rows) for a, b in zip(grid.offsets, grid.offsets[1:], strict=False))
    assert floors["encoding"]["bytes"] == 4 * rows * (3 + 32) + 8 * entries
    assert floors["encoding"]["gathered"] == rows * 16 * 8 * 8
    assert floors["network"]["flops"] == 2 * rows * (32 * 64 + 64 * 64 + 64)
    both = floors["encoding + network"]
    assert both["flops"] == floors["encoding"]["flops"] + floors["network"]["flops"]


def test_tiny_cuda_nn_is_never_required() -> None:
    whole = field_stages.encoded_field(make_application(defaults("image")))
    with pytest.raises(RuntimeError, match="NVIDIA"):
        field_peers.tiny_cuda_nn(whole)
    if importlib.util.find_spec("tinycudann") is None:
        row = {"field": "image", "encoding": "hash", "frames": [], "training": {}, "rooflines": []}
        row |= {"peers": {"luxel": {}, "torch": {}, "tiny-cuda-nn": {"absent": "it is not installed"}}}
        report = {"rows": [{**row, "failures": {}}], "settings": {"rows": 5}, "machine": {"gpu": "H200"}}
        report["ceilings"] = {"half_flops_per_s": 1e15, "half_how": "measured", "how": "measured"}
        texts = [section.text for section in fields_report.sections(report)]
        assert any("not measured: it is not installed" in text for text in texts)


def test_tiny_cuda_nn_is_measured_with_parameters_of_its_own(stand_in_tinycudann: StandIn) -> None:
    whole = field_stages.encoded_field(make_application(replace(defaults("image"), hashing="spatial")))
    peer = field_peers.tiny_cuda_nn(whole)
    assert stand_in_tinycudann.made == [peer]
    (own,) = peer.parameters()
    padding = (16 - whole.network.network.outputs) * whole.network.network.width
    assert own.numel() == padding + sum(parameter.numel() for parameter in whole.parameters())
    assert peer(torch.rand(5, 2)).shape == (5, 3)


def test_cameras_keep_what_they_see() -> None:
    camera = Camera.look_at((3, 0, 1), (0, 0, 0), width=40, height=30)
    larger = field_datasets.resized(camera, 160, 60)
    assert larger.intrinsics[0] == 2 * camera.intrinsics[0]
    assert larger.intrinsics[2:].tolist() == [80, 30] and (larger.width, larger.height) == (160, 60)
    corners = torch.cartesian_prod(*[torch.tensor([1.0, 3.0])] * 3)
    for view in field_datasets.ring(corners, 32, 18, 3):
        local = (corners - view.position) @ view.world_to_cam[:3, :3].T
        assert (local[:, 2] > 0).all()


def test_made_up_photographs_are_cut_out() -> None:
    dataset = field_datasets.make_dataset("radiance", small=True)
    pixels = dataset.data.views[0].read()
    assert pixels.rgb.shape == (40, 40, 3) and 0 < (pixels.alpha > 0).mean() < 1
    assert len(dataset.data.views) == 8 and len(dataset.cameras) == 2


def test_queries_of_frozen_fields_count_too() -> None:
    made = field_of(replace(defaults("volume"), log2_entries=8, width=16), 3, 4)
    x = torch.rand(5, 3)
    with field_stages.counting(made) as queries:
        evaluate = made.snapshot()
        expected = torch.cat([evaluate(x), evaluate(x[:2])])
        assert torch.equal(torch.cat([made(x), made(x[:2])]), expected)
    assert (queries.calls, queries.rows, queries.tables) == (4, 14, 3)
    assert queries.largest is not None and torch.equal(queries.largest, x)
    made.snapshot()(x)
    assert queries.calls == 4
