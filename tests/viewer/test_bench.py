"""`luxel bench`: what it measures, whom it ranks, what it writes, and what it refuses."""

from __future__ import annotations

import functools
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.backends import gsplat
from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import Frame, rasterize
from luxel.scenes import save_gaussians
from luxel.scenes.toy import torus_knot
from luxel.viewer.bench import raster_report, report, roofline, svg, train_report
from luxel.viewer.bench.compare import compare
from luxel.viewer.bench.scenes import BONSAI, GARDEN, data_scenes, ring
from luxel.viewer.bench.terrain import terrain, terrain_cameras
from luxel.viewer.bench.train import seconds_to, step_milliseconds
from luxel.viewer.cli import main

SMALL = ["--counts", "300", "600", "--sizes", "48x32", "64x48", "--device", "cpu", "--quick"]
QUICK_TRAINING = ["--steps", "24", "--evaluations", "3", "--no-lpips", "--device", "cpu"]
QUICK_TRAINING += ["--set", "init.sh_degree=1", "strategy.kind=fixed", "report_every=4"]


def stand_in(inputs: gsplat.Activated, camera: Camera, *, sh_degree: int, error: float, **_: Any) -> Frame:
    """What gsplat is asked, answered by luxel, off by ``error`` in every pixel."""
    gaussians = Gaussians(
        inputs.means,
        inputs.quats,
        inputs.scales.log(),
        inputs.opacities.logit(),
        inputs.colors[:, 0],
        inputs.colors[:, 1:],
    )
    frame = rasterize(gaussians, camera, sh_degree=sh_degree, max_alpha=gsplat.MAX_ALPHA)
    frame.rgb = frame.rgb + error
    return frame


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets `--against gsplat` work here: drawn by luxel, with an error that a test chooses."""

    def install(error: float = 0.0) -> None:
        draw = functools.partial(stand_in, error=error)

        def from_raw(gaussians: Gaussians, camera: Camera, **options: Any) -> Frame:
            options = {**options, "max_alpha": gsplat.MAX_ALPHA}
            frame = rasterize(gaussians, camera, **options)
            frame.rgb = frame.rgb + error
            return frame

        monkeypatch.setattr(gsplat, "require", lambda device=None: None)
        monkeypatch.setattr(gsplat, "rasterize_activated", draw)
        monkeypatch.setattr(gsplat, "rasterize", from_raw)

    return install


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small measurement of the rasterizer."""
    folder = tmp_path_factory.mktemp("bench")
    assert main(["bench", "raster", *SMALL, "--out", str(folder)]) == 0
    return folder


def strict(path: Path) -> dict[str, Any]:
    """JSON without NaN or Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path} holds {name}")

    return json.loads(path.read_text(), parse_constant=refuse)


class Tags(HTMLParser):
    """Checks that tags nest, and keeps what a page would load."""

    VOID = ("meta", "circle", "line", "polyline", "br", "p", "html")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.loads += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open and self.open.pop() == tag, f"</{tag}> closes what is not open"


def read_page(path: Path) -> Tags:
    tags = Tags()
    tags.feed(path.read_text())
    assert not tags.open and not tags.loads, "the page must nest and load nothing"
    assert "url(" not in path.read_text() and "<script" not in path.read_text()
    return tags


def test_every_pass_of_every_scene_is_measured(measured: Path) -> None:
    found = strict(measured / "raster.json")
    rows = [(row["scene"], row["width"], row["gaussians"]) for row in found["rows"]]
    assert rows == [
        ("terrain-300", 48, 300),
        ("terrain-300", 64, 300),
        ("terrain-600", 48, 600),
        ("terrain-600", 64, 600),
    ]
    for row in found["rows"]:
        assert not row["failures"]
        times = row["results"]["luxel"]["times"]
        assert list(times) == ["inference", "forward", "forward + backward"]
        assert all(0 < t["p10"] <= t["median"] <= t["p90"] for t in times.values())
        assert row["quality"]["luxel"]["psnr"] > 80
        assert max(row["quality"]["luxel"]["gradients"].values()) < 1e-3
    machine = found["machine"]
    assert machine["torch"] == torch.__version__ and machine["processor"] and machine["command"]


def test_stages_and_rooflines_come_from_the_scene(measured: Path) -> None:
    """The counts behind them are those of the very frames."""
    found = strict(measured / "raster.json")
    row = found["rows"][0]
    gaussians, cameras = terrain(300), terrain_cameras(8, 48, 32)
    frames = [rasterize(gaussians, camera, count=True) for camera in cameras]
    assert row["work"]["visible"] == np.mean([(f.tile_counts > 0).sum().item() for f in frames])
    assert row["work"]["pairs"] == np.mean([f.instances.item() for f in frames])
    assert row["work"]["contributions"] == np.mean([f.count.sum().item() for f in frames])
    assert row["work"]["tiles"] == 3 * 2 and row["work"]["coefficients"] == 16
    luxel = row["results"]["luxel"]
    assert list(luxel["stages"]["forward + backward"]) == list(roofline.STAGES[:5])
    assert list(luxel["stages"]["inference"]) == list(roofline.STAGES[:3])
    assert [line["stage"] for line in luxel["rooflines"]] == list(roofline.STAGES[:5])
    for line in luxel["rooflines"]:
        rates = [
            1e3 * 1e9 * line["gb"] / found["ceilings"]["bytes_per_s"],
            1e3 * 1e9 * line["gflop"] / found["ceilings"]["flops_per_s"],
        ]
        assert line["floor_ms"] == pytest.approx(max(rates)) and line["share"] == pytest.approx(
            max(rates) / line["ms"]
        )


@pytest.mark.parametrize(
    ("kernel", "stage"),
    [
        ("luxel::(anonymous namespace)::project_gaussians_fwd_kernel", "project"),
        ("project_gaussians_bwd", "project, backward"),
        ("luxel::blend_fwd_kernel<GaussianPolicy, 4>", "blend"),
        ("luxel::blend_bwd_kernel<GaussianPolicy, 4>", "blend, backward"),
        ("bin_splats", "bin and sort"),
        ("cub::DeviceRadixSortOnesweepKernel<...>", "bin and sort"),
        ("cub::DeviceSelectSweepKernel", "project"),
        ("gsplat::intersect_tile_kernel<float>", "bin and sort"),
        ("gsplat::rasterize_to_pixels_3dgs_bwd_kernel<3>", "blend, backward"),
        ("gsplat::projection_ewa_3dgs_fused_fwd_kernel", "project"),
        ("gsplat::spherical_harmonics_bwd_kernel<float>", "project, backward"),
        ("Memset (Device)", "other"),
    ],
)
def test_kernels_find_their_stage(kernel: str, stage: str) -> None:
    assert roofline.stage_of(kernel) == stage


def test_the_page_stands_alone(measured: Path) -> None:
    tags = read_page(measured / "raster.html")
    assert tags.count["svg"] == 4 and tags.count["table"] == 7  # by count, by pixels, stages of two passes
    assert tags.count["polyline"] == 4 and tags.count["rect"] == 4 * (5 + 3)
    text = (measured / "raster.md").read_text()
    assert text.count("| terrain-300 | 48x32 | ") == 3 and "## Rooflines" in text


def test_the_peer_is_ranked_beside_luxel(
    peer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peer()
    options = ["--counts", "300", "--sizes", "48x32", "--device", "cpu", "--quick", "--out", str(tmp_path)]
    assert main(["bench", "raster", "--against", "gsplat", *options]) == 0
    row = strict(tmp_path / "raster.json")["rows"][0]
    assert list(row["results"]) == ["luxel", "gsplat", "gsplat, packed", "gsplat, raw"]
    assert row["quality"]["gsplat"]["psnr"] > 60 and row["quality"]["gsplat"]["to_luxel"] > 100
    times = {name: result["times"]["inference"]["median"] for name, result in row["results"].items()}
    fastest = min(times["gsplat"], times["gsplat, packed"])
    assert raster_report.best(row, "gsplat", "inference")["median"] == fastest
    assert f"{fastest / times['luxel']:.2f}x" in capsys.readouterr().out
    read_page(tmp_path / "raster.html")


def test_a_bad_image_is_marked_and_not_ranked(
    peer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Off by 0.002 everywhere: 54 dB."""
    peer(error=0.002)
    options = ["--counts", "300", "--sizes", "48x32", "--device", "cpu", "--quick", "--out", str(tmp_path)]
    assert main(["bench", "raster", "--against", "gsplat", *options]) == 0
    row = strict(tmp_path / "raster.json")["rows"][0]
    assert 53 < row["quality"]["gsplat"]["psnr"] < 55 and row["quality"]["luxel"]["psnr"] > 80
    out = capsys.readouterr().out
    assert out.count("not ranked: gsplat !") == 3
    assert "not ranked: gsplat !" in (tmp_path / "raster.html").read_text()


def test_scenes_of_ones_own(tmp_path: Path) -> None:
    save_gaussians(tmp_path / "knot.ply", torus_knot(200, sh_degree=1))
    options = ["--scene", str(tmp_path / "knot.ply"), "--only", "knot", "--sizes", "40x30", "--device", "cpu"]
    assert main(["bench", "raster", *options, "--quick", "--no-quality", "--out", str(tmp_path)]) == 0
    (row,) = strict(tmp_path / "raster.json")["rows"]
    assert (row["scene"], row["gaussians"], row["work"]["coefficients"]) == ("knot", 200, 4)
    assert "quality" not in row and row["work"]["contributions"] > 0
    cameras = ring(torus_knot(200), 40, 30)
    assert len({tuple(camera.position.tolist()) for camera in cameras}) == len(cameras) == 8


def test_published_scenes_keep_their_goals(tmp_path: Path) -> None:
    points = np.array([[0, 0, 0], [1, 1, 1], [3, 0, 0]], np.float32)  # the last one is cropped
    np.savez(
        tmp_path / GARDEN,
        means3d=points,
        colors=np.full((3, 3), 128, np.uint8),
        viewmats=np.eye(4, dtype=np.float32)[None],
        Ks=np.array([[[10, 0, 4], [0, 10, 3], [0, 0, 1]]], np.float32),
        width=8,
        height=6,
    )
    (tmp_path / BONSAI).touch()
    scenes = {scene.name: scene for scene in data_scenes(tmp_path)}
    assert list(scenes) == ["bonsai", "garden-g1", "garden-g5", "garden-g9"]
    five = scenes["garden-g5"]
    assert five.build(torch.device("cpu")).count == 2 * 25 and five.goals[3840, 2160] == (1.1, 4.2)
    (camera,) = five.look(torus_knot(10), 16, 12)
    assert camera.intrinsics.tolist() == [20, 20, 8, 6]


def test_goals_are_shown_and_judged_where_they_are_for() -> None:
    times = {
        name: {"median": 1.0, "p10": 1.0, "p90": 1.0}
        for name in ("inference", "forward", "forward + backward")
    }
    result = {
        "backend": "luxel",
        "ranked": True,
        "times": times,
        "peak_bytes": {},
        "kernels": {},
        "stages": {},
        "rooflines": [],
    }
    row = {
        "scene": "bonsai",
        "width": 8,
        "height": 6,
        "gaussians": 5,
        "results": {"luxel": result},
        "failures": {},
    }
    found = {"backends": ["luxel"], "rows": [row], "machine": {}, "ceilings": {"how": ""}}

    def last_cells(**more: Any) -> list[str]:
        table = raster_report.sections({**found, "rows": [{**row, **more}]})[0].tables[0]
        return [cells[-1] for cells in table.rows]

    assert last_cells() == ["1.000 [1.000, 1.000]"] * 3
    assert last_cells(goals=[2.0, 0.5]) == ["2", "–", "0.5"]
    assert last_cells(goals=[2.0, 0.5], goals_met=[True, False]) == ["2", "–", "0.5 !"]


def test_the_landscape_is_the_same_every_time() -> None:
    first, again = terrain(1000), terrain(1000)
    assert first.count == 1000 and first.sh_degree == 3
    assert all(
        torch.equal(a, b) for a, b in zip(first.tensors().values(), again.tensors().values(), strict=True)
    )
    assert all(t.isfinite().all() for t in first.tensors().values())
    camera = terrain_cameras(2, 160, 90)[0]
    frames = [rasterize(terrain(n), camera, count=True) for n in (2000, 20_000)]
    # Sizes shrink as the count grows: much the same picture, not ten times the work per pixel.
    work = [frame.count.float().mean().item() for frame in frames]
    assert min(f.alpha.mean().item() for f in frames) > 0.7 and 0.2 < work[1] / work[0] < 5


def test_training_gives_the_way_there(
    toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path)]
    assert main(["bench", "train", *options]) == 0
    (row,) = strict(tmp_path / "train.json")["rows"]
    result = row["results"]["luxel"]
    assert [point["step"] for point in result["curve"]] == [8, 16, 24]
    assert result["curve"][-1]["psnr"] == pytest.approx(result["psnr"]) and result["psnr"] > 10
    assert 0 < result["curve"][0]["seconds"] < result["curve"][-1]["seconds"] <= result["seconds"] + 1e-3
    assert result["steps"] == 24 and result["steps_per_s"] == pytest.approx(24 / result["seconds"])
    assert row["config"]["strategy"]["kind"] == "fixed" and row["held_out"] == 2
    assert result["step_ms"]["samples"] == 5
    assert read_page(tmp_path / "train.html").count["svg"] == 2
    assert f"{result['psnr']:.2f}" in capsys.readouterr().out


def test_both_train_alike(peer: Any, toy_capture: Path, tmp_path: Path) -> None:
    """The stand-in draws what luxel draws, but for the cap of alpha: so both end with the same scene."""
    peer()
    options = [str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path), "--against", "gsplat"]
    assert main(["bench", "train", *options]) == 0
    (row,) = strict(tmp_path / "train.json")["rows"]
    ours, theirs = row["results"]["luxel"], row["results"]["gsplat"]
    assert ours["psnr"] == pytest.approx(theirs["psnr"], abs=0.05) and ours["count"] == theirs["count"]
    assert train_report.ranked(row) == {"luxel": True, "gsplat": True}


def test_a_training_that_loses_quality_is_not_ranked() -> None:
    def result(psnr: float, seconds: float) -> dict[str, Any]:
        curve = [
            {"step": 1, "seconds": seconds / 2, "psnr": psnr - 2},
            {"step": 2, "seconds": seconds, "psnr": psnr},
        ]
        rest = {
            "ssim": 0.9,
            "lpips": None,
            "steps": 2,
            "steps_per_s": 1.0,
            "step_ms": None,
            "count": 5,
            "peak_bytes": None,
        }
        return {"psnr": psnr, "seconds": seconds, "curve": curve, **rest}

    row = {"scene": "a", "width": 4, "height": 3, "held_out": 1, "failures": {}}
    row["results"] = {"luxel": result(30.0, 4.0), "gsplat": result(29.8, 2.0)}
    assert train_report.ranked(row) == {"luxel": True, "gsplat": False}
    (section,) = train_report.sections({"rows": [row], "backends": ["luxel", "gsplat"]})
    assert [cells[-1] for cells in section.tables[0].rows] == ["fastest", "not ranked !"]
    row["results"]["gsplat"] = result(29.95, 2.0)
    (section,) = train_report.sections({"rows": [row], "backends": ["luxel", "gsplat"]})
    # luxel passes 29.95 dB at 3.95 s of its 4 s
    assert [cells[-1] for cells in section.tables[0].rows] == ["1.97x slower", "fastest"]


def test_seconds_to_a_psnr_are_interpolated() -> None:
    curve = [{"seconds": 1.0, "psnr": 20.0}, {"seconds": 3.0, "psnr": 24.0}, {"seconds": 5.0, "psnr": None}]
    assert seconds_to(curve, 22.0) == 2.0 and seconds_to(curve, 19.0) == 1.0
    assert np.isnan(seconds_to(curve, 25.0)) and np.isnan(seconds_to([], 1.0))


def test_milliseconds_per_step_come_from_readings() -> None:
    log = [{"step": 10, "seconds": 1.0, "loss": 1}, {"step": 15, "seconds": 1.1, "count": 3}]
    log += [{"step": 20, "seconds": 1.2, "loss": 1}, {"step": 30, "seconds": 1.6, "loss": 1}]
    found = step_milliseconds(log)
    assert found is not None and found["median"] == pytest.approx(30) and found["samples"] == 2
    assert step_milliseconds(log[:2]) is None


def test_comparing_reports(measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = strict(measured / "raster.json")
    after = strict(measured / "raster.json")
    row = after["rows"][0]["results"]["luxel"]["times"]["inference"]
    row["median"] *= 2
    (tmp_path / "after.json").write_text(json.dumps(after))
    assert main(["bench", "compare", str(measured / "raster.json"), str(tmp_path / "after.json")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "terrain" in line]
    assert len(lines) == 12 and sum("2.000x !" in line for line in lines) == 1 and "inference" in lines[0]
    assert sum("1.000x" in line for line in lines) == 11

    after["machine"]["processor"] = "another"
    with pytest.raises(LuxelError, match="different devices"):
        compare(before, after)
    assert len(compare(before, after, force=True).tables[0].rows) == 12
    after = {**before, "rows": before["rows"][1:]}
    with pytest.raises(LuxelError, match="Only one of the reports has terrain-300"):
        compare(before, after)
    assert len(compare(before, after, force=True).tables[0].rows) == 9
    with pytest.raises(LuxelError, match="one kind"):
        compare(before, {**before, "kind": "train"})


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["raster", "--only", "garden"], "'garden'"),
        (["raster", "--data", "NOWHERE"], "garden-points.npz"),
        (["raster", "--scene", "NOWHERE/scene.ply"], "scene.ply"),
        (["raster", "--sizes", "1920"], "WIDTHxHEIGHT"),
        (["raster", "--counts", "5"], "--counts"),
        (["raster", "--only", "terrain-5k", "--out", "FILE/below"], "below"),
        (["train", "NOWHERE"], "NOWHERE"),
        (["train", "CAPTURE", "--set", "rates.means"], "NAME=VALUE"),
        (["train", "CAPTURE", "--set", "no_such_field=1"], "no_such_field"),
        (["train", "CAPTURE", "--evaluations", "0"], "--evaluations"),
        (["compare", "NOWHERE", "FILE"], "NOWHERE"),
        (["compare", "FILE", "FILE"], "FILE"),
    ],
    ids=lambda value: "_".join(value[:2]) if isinstance(value, list) else None,
)
def test_bad_input_is_one_message_and_a_remedy(
    words: list[str], names: str, toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "FILE").write_text("no report")
    places = {"NOWHERE": tmp_path / "NOWHERE", "FILE": tmp_path / "FILE", "CAPTURE": toy_capture}
    pattern = re.compile("|".join(places))
    filled = [pattern.sub(lambda m: str(places[m[0]]), word) for word in words]
    if words[0] != "compare" and "--out" not in words:
        filled += ["--out", str(tmp_path / "out")]
    filled += [] if words[0] == "compare" else ["--device", "cpu"]
    assert main(["bench", *filled]) == 2
    error = capsys.readouterr().err
    assert error.count("luxel: ") == 1 and names in error and "Traceback" not in error
    assert len(error.strip().splitlines()) >= 2, "a remedy is wanted"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [["raster", *SMALL], ["train", "somewhere", "--device", "cpu"]], ids=["raster", "train"]
)
def test_against_gsplat_without_it(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    if importlib.util.find_spec("gsplat") is not None:
        pytest.skip("gsplat is installed here")
    for option in (["--against", "gsplat"], ["--backend", "gsplat"]):
        assert main(["bench", *words, *option, "--out", str(tmp_path / "out")]) == 2
        assert "pip install 'luxel[gsplat]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() and "gsplat" not in sys.modules


def test_presets_are_taken(toy_capture: Path) -> None:
    from luxel.render.train.presets import fast
    from luxel.viewer.commands.bench import TrainBench

    config = TrainBench(captures=(toy_capture,), preset="fast").configuration(torch.device("cpu"))
    assert config.steps == fast().steps and config.strategy == fast().strategy
    config = TrainBench(captures=(toy_capture,), preset="fast", steps=70).configuration(torch.device("cpu"))
    assert (config.steps, config.eval_every, config.loss) == (70, 7, fast().loss)


def test_plots_leave_out_what_cannot_be_drawn() -> None:
    nan = float("nan")
    series = svg.Series("a<b", "s0", [(0.0, 1.0), (1.0, nan), (10.0, 2.0), (100.0, 3.0)])
    text = svg.line_plot([series], "x & y", "ms", log_x=True)
    tags = Tags()
    tags.feed(text)
    assert not tags.open and tags.count["circle"] == 2 and "a&lt;b" in text and "x &amp; y" in text
    assert "nan" not in text
    assert "Nothing" in svg.line_plot([svg.Series("a", "s0", [])], "x", "y")
    assert "Nothing" in svg.stacked_bars([("row", {})], ["a"], "ms")
    assert [svg.number(v) for v in (0.01234, 1.2, 123.4, 12_300, 2.5e6, nan)] == [
        "0.0123",
        "1.2",
        "123",
        "12,300",
        "2.5 M",
        "–",
    ]


def test_reports_hold_no_number_that_json_lacks() -> None:
    assert report.plain({"a": [float("nan"), (1.5, float("inf"))], 3: None}) == {
        "a": [None, [1.5, None]],
        "3": None,
    }
