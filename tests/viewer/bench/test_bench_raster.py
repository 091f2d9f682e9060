"""`luxel bench raster`: what it measures, on what, and whom it ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.raster.rasterize import rasterize
from luxel.scenes import save_primitive_ply
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.bench.raster import report as raster_report
from luxel.viewer.bench.raster import roofline
from luxel.viewer.bench.raster.scenes import BONSAI, GARDEN, data_scenes, ring
from luxel.viewer.bench.raster.terrain import terrain, terrain_cameras
from luxel.viewer.cli import main


def test_every_pass_of_every_scene_is_measured(strict: Any, measured: Path) -> None:
    report = strict(measured / "raster.json")
    rows = [(row["scene"], row["width"], row["gaussians"]) for row in report["rows"]]
    assert rows == [
        ("terrain-300", 48, 300),
        ("terrain-300", 64, 300),
        ("terrain-600", 48, 600),
        ("terrain-600", 64, 600),
    ]
    for row in report["rows"]:
        assert not row["failures"]
        times = row["results"]["luxel"]["times"]
        assert list(times) == ["inference", "forward", "forward + backward"]
        assert all(0 < t["p10"] <= t["median"] <= t["p90"] for t in times.values())
        assert row["quality"]["luxel"]["psnr"] > 80
        assert max(row["quality"]["luxel"]["gradients"].values()) < 1e-3
    machine = report["machine"]
    public = torch.__version__.split("+")[
        0
    ]  # a distribution's version may lack the local part, such as +cu130
    assert machine["torch"].split("+")[0] == public and machine["processor"] and machine["command"]


def test_stages_and_rooflines_come_from_the_scene(strict: Any, measured: Path) -> None:
    """The counts behind them are those of the very frames."""
    report = strict(measured / "raster.json")
    row = report["rows"][0]
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
            1e3 * 1e9 * line["gb"] / report["ceilings"]["bytes_per_s"],
            1e3 * 1e9 * line["gflop"] / report["ceilings"]["flops_per_s"],
        ]
        assert line["floor_ms"] == pytest.approx(max(rates)) and line["share"] == pytest.approx(
            max(rates) / line["ms"]
        )


@pytest.mark.parametrize(
    ("kernel", "stage"),
    [
        ("luxel::project_fwd_kernel<luxel::GaussianStage, luxel::Pinhole<float>>", "project"),
        ("project_gaussians_bwd", "project, backward"),
        ("luxel::blend_fwd_kernel<GaussianPolicy, 4>", "blend"),
        ("luxel::blend_bwd_kernel<GaussianPolicy, 4>", "blend, backward"),
        ("bin_splats", "bin and sort"),
        ("cub::DeviceRadixSortOnesweepKernel<...>", "bin and sort"),
        ("luxel::gather_seen_kernel<8>(...)", "bin and sort"),
        ("luxel::instance_ends_kernel(...)", "bin and sort"),
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


def test_the_peer_is_ranked_beside_luxel(
    strict: Any,
    read_page: Any,
    peer: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
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
    strict: Any, peer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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


def test_scenes_of_ones_own(strict: Any, tmp_path: Path) -> None:
    save_primitive_ply(tmp_path / "knot.ply", torus_knot(200, sh_degree=1))
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
    report = {"backends": ["luxel"], "rows": [row], "machine": {}, "ceilings": {"how": ""}}

    def last_cells(**more: Any) -> list[str]:
        table = raster_report.sections({**report, "rows": [{**row, **more}]})[0].tables[0]
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
    # Sizes shrink as the count grows: much the same image, not ten times the work per pixel.
    work = [frame.count.float().mean().item() for frame in frames]
    assert min(f.alpha.mean().item() for f in frames) > 0.7 and 0.2 < work[1] / work[0] < 5
