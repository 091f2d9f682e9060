"""gsplat behind luxel's call: what it is asked (against a stand-in on the CPU), and what it answers (on a GPU)."""

from __future__ import annotations

import gc
import importlib.util
import math
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.backends import gsplat as backend
from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster import rasterizer
from luxel.render.raster.rasterize import DensifyStatistics, rasterize
from luxel.render.reference.raster import rasterize as reference_module
from luxel.render.reference.raster.bin_splats import bin_splats_reference
from luxel.render.reference.raster.project_gaussians import project_gaussians_reference
from luxel.render.reference.raster.rasterize import rasterize_reference

WIDTH, HEIGHT = 40, 28
ABSOLUTE = 3.0  # the stand-in's absolute gradients are this many times the plain ones


class Absolute(torch.autograd.Function):
    """Passes on, and leaves an absolute gradient on the tensor itself, as gsplat does."""

    @staticmethod
    def forward(ctx: Any, means2d: Tensor) -> Tensor:
        ctx.save_for_backward(means2d)
        return means2d.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        ctx.saved_tensors[0].absgrad = ABSOLUTE * grads[0].abs()
        return grads[0]


class StandIn(types.ModuleType):
    """A module `gsplat` that checks its arguments as gsplat 1.5.3 does and draws with luxel's reference."""

    def __init__(self) -> None:
        super().__init__("gsplat")
        self.calls: list[dict[str, Any]] = []

    def rasterization(
        self,
        means: Tensor,
        quats: Tensor,
        scales: Tensor,
        opacities: Tensor,
        colors: Tensor,
        viewmats: Tensor,
        Ks: Tensor,
        width: int,
        height: int,
        **options: Any,
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        n, c, degree = means.shape[0], viewmats.shape[0], options["sh_degree"]
        assert quats.shape == (n, 4) and scales.shape == (n, 3) and opacities.shape == (n,)
        assert colors.dim() == 3 and colors.shape[::2] == (n, 3) and (degree + 1) ** 2 <= colors.shape[1]
        assert viewmats.shape == (c, 4, 4) and Ks.shape == (c, 3, 3)
        behind = options["backgrounds"]
        assert behind is None or behind.shape == (c, 3)
        self.calls.append({"Ks": Ks, "width": width, "height": height, **options})

        gaussians = Gaussians(means, quats, scales.log(), opacities.logit(), colors[:, 0], colors[:, 1:])
        lens = torch.stack([Ks[:, 0, 0], Ks[:, 1, 1], Ks[:, 0, 2], Ks[:, 1, 2]], -1)
        near, far = options["near_plane"], options["far_plane"]
        cameras = [Camera(viewmats[i], lens[i], width, height, near, far) for i in range(c)]
        shared = {
            "sh_degree": degree,
            "antialiased": options["rasterize_mode"] == "antialiased",
            "dilation": options["eps2d"],
        }
        projected = [project_gaussians_reference(gaussians, camera, **shared) for camera in cameras]

        def spread(parts: list[Tensor]) -> Tensor:
            return torch.stack(
                [
                    part.new_zeros(n, *part.shape[1:]).index_copy(0, p.index, part)
                    for p, part in zip(projected, parts, strict=True)
                ]
            )

        means2d = spread([p.mean2d for p in projected])
        routed = Absolute.apply(means2d) if options["absgrad"] else means2d
        frames = []
        for i, (camera, p) in enumerate(zip(cameras, projected, strict=True)):
            own = p._replace(mean2d=routed[i][p.index])
            reference_module.project_gaussians_reference = lambda *_, own=own, **__: own
            colour = None if behind is None else behind[i]
            frames.append(
                rasterize_reference(
                    gaussians, camera, background=colour, depth=True, max_alpha=backend.MAX_ALPHA, **shared
                )
            )
        reference_module.project_gaussians_reference = project_gaussians_reference
        image = torch.stack([f.rgb for f in frames])
        if options["render_mode"] == "RGB+ED":
            image = torch.cat([image, torch.stack([f.depth for f in frames])[..., None]], -1)
        instances = [bin_splats_reference(p, width, height)[0] for p in projected]
        tiles = spread(
            [
                torch.bincount(i, minlength=len(p.index)).int()
                for i, p in zip(instances, projected, strict=True)
            ]
        )
        meta = {
            "means2d": means2d,
            "conics": spread([p.conic for p in projected]),
            "opacities": spread([p.opacity for p in projected]),
            "radii": spread([p.half_extent.ceil().int() for p in projected]),
            "tiles_per_gauss": tiles,
            "flatten_ids": torch.cat(instances),
        }
        return image, torch.stack([f.alpha for f in frames])[..., None], meta


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The stand-in in the place of gsplat, on a machine that needs no GPU for it."""
    module = StandIn()
    monkeypatch.setitem(sys.modules, "gsplat", module)
    monkeypatch.setattr(backend, "require", lambda device=None: None)
    yield module
    reference_module.project_gaussians_reference = project_gaussians_reference


@pytest.fixture
def real() -> torch.device:
    """The GPU, where gsplat is installed beside luxel's own kernels."""
    if importlib.util.find_spec("gsplat") is None:
        pytest.skip("GPU test not run: gsplat is not installed")
    try:
        backend.require()
    except LuxelError as error:
        pytest.skip(f"GPU test not run: {error}")
    return torch.device("cuda")


def two_cameras(toy_camera: Callable[..., Camera], device: torch.device | str = "cpu") -> Camera:
    cameras = [
        toy_camera(WIDTH, HEIGHT, off_centre=True, device=device),
        toy_camera(WIDTH, HEIGHT, eye=(3, 1, 1), device=device),
    ]
    return Camera.stack(cameras)


def along_motions(gradient: Tensor, pose: Tensor) -> Tensor:
    """Of a gradient by [R | t], what rigid motions exp(w) [R | t] + v feel: by w, then by v, [C, 6].

    Only this is the same for both: gsplat's camera centre is that of a general inverse, luxel's is -R^T t, and off the
    rigid motions the two differ.
    """
    turning = gradient[..., :3, :] @ pose[..., :3, :].mT
    twice = turning - turning.mT
    return torch.stack(
        [twice[..., 2, 1], twice[..., 0, 2], twice[..., 1, 0], *gradient[..., :3, 3].unbind(-1)], -1
    )


def assert_same(gaussians: Gaussians, camera: Camera, tolerance: float, **options: Any) -> None:
    """Image, alpha, depth, gradients and statistics of the backend are luxel's with the same cap."""
    results, device = [], gaussians.device
    for draw in (backend.rasterize, rasterize):
        leaves = gaussians.detach().map(torch.clone).requires_grad_()
        pose = camera.world_to_cam.clone().requires_grad_()
        background = torch.tensor([0.2, 0.5, 0.9], device=device, requires_grad=True)
        statistics = DensifyStatistics.zeros(gaussians.count, device)
        frame = draw(
            leaves,
            replace(camera, world_to_cam=pose),
            background=background,
            depth=True,
            statistics=statistics,
            max_alpha=backend.MAX_ALPHA,
            **options,
        )
        generator = torch.Generator().manual_seed(5)
        weights = [torch.randn(t.shape, generator=generator).to(device) for t in (frame.rgb, frame.alpha)]
        loss = (frame.rgb * weights[0]).sum() + (frame.alpha * weights[1]).sum() + frame.depth.sum()
        loss.backward()
        values = {"rgb": frame.rgb, "alpha": frame.alpha, "depth": frame.depth}
        inputs = {**leaves.tensors(), "background": background}
        values |= {f"gradient of {name}": t.grad for name, t in inputs.items()}
        assert pose.grad is not None
        values["gradient along rigid motions"] = along_motions(pose.grad, pose)
        values |= {"grad_norm": statistics.grad_norm, "max_radius": statistics.max_radius}
        results.append({**{k: v.detach() for k, v in values.items()}, "visible": statistics.visible})
    for name, theirs in results[1].items():
        ours = results[0][name]
        assert ours.shape == theirs.shape, name
        if (
            name == "visible"
        ):  # boxes there, ellipses here: of splats at the border of so small an image 2.7 % differ
            assert (ours != theirs).float().mean() <= 0.03, name
            continue
        if name == "max_radius":  # of those that both see
            alike = results[0]["visible"] == results[1]["visible"]
            ours, theirs = ours[alike], theirs[alike]
        off = (ours - theirs).norm() / theirs.norm().clamp_min(1e-12)
        assert off <= tolerance, f"{name}: off by {off:.2e}"


def test_camera_centres_agree_along_rigid_motions(toy_camera):
    """-R^T t and the general inverse: other gradients by the matrix, the same by what moves a camera rigidly."""
    pose = two_cameras(toy_camera).world_to_cam.double()
    pose[:, :3, :3] = torch.linalg.qr(pose[:, :3, :3]).Q  # float32 is not orthogonal enough
    matrices = [pose.clone().requires_grad_() for _ in range(2)]
    centres = [
        -(matrices[0][:, :3, :3].mT @ matrices[0][:, :3, 3:])[..., 0],
        torch.inverse(matrices[1])[:, :3, 3],
    ]
    gradients = []
    for matrix, centre in zip(matrices, centres, strict=True):
        (centre.sin() * centre.new_tensor([1, 2, 3])).sum().backward()
        assert matrix.grad is not None
        gradients.append(matrix.grad)
    torch.testing.assert_close(centres[0], centres[1])
    assert (gradients[0] - gradients[1])[:, :3].norm() > 0.1 * gradients[0].norm()
    along = [along_motions(gradient, pose) for gradient in gradients]
    torch.testing.assert_close(along[0], along[1], rtol=1e-12, atol=1e-12)
    twist = torch.tensor([[0.3, -0.5, 0.2, 0.7, 0.1, -0.4]], dtype=torch.float64)
    generator = torch.zeros(4, 4, dtype=torch.float64)
    generator[[2, 0, 1], [1, 2, 0]], generator[:3, 3] = twist[0, :3], twist[0, 3:]
    generator[:3, :3] -= generator[:3, :3].mT.clone()
    moved = (gradients[0] * (generator @ pose)).sum((1, 2))  # the derivative along exp(s generator) pose
    torch.testing.assert_close(along[0] @ twist[0], moved, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("antialiased", [False, True])
def test_the_arguments_give_luxels_frame(stand_in, random_gaussians, toy_camera, batched, antialiased):
    cameras = two_cameras(toy_camera)
    camera = cameras if batched else Camera(cameras.world_to_cam[0], cameras.intrinsics[0], WIDTH, HEIGHT)
    camera = replace(camera, near=0.5, far=4.5)
    assert_same(
        random_gaussians(60, seed=3), camera, 2e-4, antialiased=antialiased, sh_degree=2, dilation=0.5
    )
    (call,) = stand_in.calls
    assert call["near_plane"] == 0.5 and call["far_plane"] == 4.5 and call["eps2d"] == 0.5
    assert call["sh_degree"] == 2 and call["packed"] is False and call["tile_size"] == 16
    assert call["render_mode"] == "RGB+ED" and call["absgrad"] is False
    assert torch.equal(call["Ks"][0], torch.tensor(matrix(cameras.intrinsics[0])))


def matrix(intrinsics: Tensor) -> list[list[float]]:
    fx, fy, cx, cy = intrinsics.tolist()
    return [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]


def test_the_statistics_are_autograds(stand_in, random_gaussians, toy_camera):
    """Sums over two passes and two cameras, with absolute gradients where asked for."""
    gaussians, camera = random_gaussians(40, seed=8).requires_grad_(), two_cameras(toy_camera)
    statistics = DensifyStatistics.zeros(40)
    for _ in range(2):
        frame = backend.rasterize(gaussians, camera, statistics=statistics, absolute_gradients=True)
        frame.rgb.square().sum().backward()
    luxels = DensifyStatistics.zeros(40)
    for _ in range(2):
        own = rasterize(gaussians, camera, statistics=luxels, max_alpha=backend.MAX_ALPHA)
        own.rgb.square().sum().backward()
    assert luxels.visible.max() == 4 and (luxels.grad_norm > 0).any()
    close = {"rtol": 1e-3, "atol": 1e-4 * luxels.grad_norm.max().item()}
    torch.testing.assert_close(statistics.grad_norm, luxels.grad_norm, **close)
    assert (statistics.abs_grad_norm >= ABSOLUTE * statistics.grad_norm * 0.999).all()  # one pass: equal
    torch.testing.assert_close(statistics.abs_grad_norm, ABSOLUTE * statistics.grad_norm, rtol=1e-4, atol=0)
    torch.testing.assert_close(statistics.max_radius, luxels.max_radius, rtol=1e-4, atol=1e-6)
    assert torch.equal(statistics.visible, luxels.visible)


def test_nothing_is_counted_without_backward(stand_in, random_gaussians, toy_camera):
    statistics = DensifyStatistics.zeros(20)
    with torch.no_grad():
        backend.rasterize(random_gaussians(20), toy_camera(WIDTH, HEIGHT), statistics=statistics)
    assert not statistics.data.any()


def test_the_frame_says_what_it_lacks(stand_in, random_gaussians, toy_camera):
    camera = toy_camera(WIDTH, HEIGHT)
    frame = backend.rasterize(random_gaussians(20), camera, max_instances=7)
    assert frame.rgb.shape == (HEIGHT, WIDTH, 3) and frame.alpha.shape == (HEIGHT, WIDTH)
    lacking = (frame.depth, frame.median_depth, frame.normals, frame.features, frame.count, frame.splats)
    assert all(value is None for value in lacking)
    assert frame.tile_counts.sum() > 7 and frame.totals is None and frame.overflow is None
    for wrong in (
        {"normals": True},
        {"count": True},
        {"deterministic": True},
        {"features": torch.zeros(20, 4)},
    ):
        with pytest.raises(ValueError, match=f"no {next(iter(wrong))}"):
            backend.rasterize(random_gaussians(20), camera, **wrong)
    with pytest.raises(ValueError, match="background must be"):
        backend.rasterize(random_gaussians(20), camera, background=torch.zeros(4))
    with pytest.raises(ValueError, match="float32"):
        backend.rasterize(random_gaussians(20, dtype=torch.float64), camera)
    given, statistics = backend.activate(random_gaussians(20)), torch.zeros(20, 3)
    with pytest.raises(ValueError, match="statistics must be None where packed is True"):
        backend.rasterize_activated(given, camera, sh_degree=3, statistics=statistics, packed=True)


def test_no_gaussians_are_the_background(stand_in, toy_camera):
    background = torch.tensor([0.1, 0.2, 0.3])
    frame = backend.rasterize(Gaussians.empty(), toy_camera(5, 4), background=background, depth=True)
    assert torch.equal(frame.rgb, background.expand(4, 5, 3)) and not frame.alpha.any()
    assert not stand_in.calls


def test_the_graph_does_not_outlive_its_frame(stand_in, random_gaussians, toy_camera):
    """No cycle keeps the screen positions: on a GPU that would be memory until Python's collector comes."""
    gaussians, statistics = random_gaussians(20).requires_grad_(), DensifyStatistics.zeros(20)
    gc.collect()
    gc.disable()
    try:
        frame = backend.rasterize(
            gaussians, toy_camera(WIDTH, HEIGHT), statistics=statistics, absolute_gradients=True
        )
        node = weakref.ref(frame.tile_counts)
        frame.rgb.sum().backward()
        del frame
        assert node() is None
    finally:
        gc.enable()


def test_a_broken_installation_is_named(stand_in, random_gaussians, toy_camera, monkeypatch):
    def no_kernels(**_: Any) -> None:
        return None.projection_ewa_3dgs_fused_fwd  # type: ignore[attr-defined]

    stand_in.rasterization = no_kernels
    with pytest.raises(LuxelError, match=r"no CUDA toolkit.*CUDA_HOME"):
        backend.rasterize(random_gaussians(5), toy_camera(8, 8))
    monkeypatch.setitem(sys.modules, "gsplat", None)
    with pytest.raises(LuxelError, match="cannot be imported"):
        backend.rasterize(random_gaussians(5), toy_camera(8, 8))


def test_backends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rasterizer("luxel") is rasterize
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LuxelError, match=r"not installed.*pip install 'luxel\[gsplat\]'"):
        rasterizer("gsplat")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LuxelError, match="needs an NVIDIA GPU"):
        rasterizer("gsplat")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(LuxelError, match="not on cpu"):
        rasterizer("gsplat", "cpu")
    assert rasterizer("gsplat", "cuda") is backend.rasterize
    with pytest.raises(ValueError, match="backend must be luxel or gsplat"):
        rasterizer("splatter")  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("antialiased", [False, True])
def test_the_real_gsplat_agrees(real, random_gaussians, toy_camera, antialiased):
    gaussians = random_gaussians(300, seed=3, scale=0.06, opacity_logit=-1.0, device=real)
    assert_same(gaussians, two_cameras(toy_camera, real), 1e-3, antialiased=antialiased)


@pytest.mark.gpu
def test_the_real_gsplat_leaves_absolute_gradients(real, random_gaussians, toy_camera):
    gaussians = random_gaussians(300, seed=4, scale=0.06, opacity_logit=-1.0, device=real).requires_grad_()
    camera = toy_camera(WIDTH, HEIGHT, device=real)
    weight = torch.randn(HEIGHT, WIDTH, 3, generator=torch.Generator().manual_seed(1)).to(real)
    norms = []
    for draw in (backend.rasterize, rasterize):
        statistics = DensifyStatistics.zeros(300, real)
        options = {"absolute_gradients": True, "max_alpha": backend.MAX_ALPHA, "statistics": statistics}
        (draw(gaussians, camera, **options).rgb * weight).sum().backward()
        norms.append(statistics.abs_grad_norm)
        assert (statistics.abs_grad_norm >= 0.999 * statistics.grad_norm).all()
    assert (norms[0] - norms[1]).norm() / norms[1].norm() <= 1e-3 and math.isfinite(norms[0].sum().item())


def test_other_primitives_are_drawn_by_luxel(toy_camera):
    with pytest.raises(LuxelError, match=r"gsplat backend draws no convexes\. Draw with luxel's own backend"):
        backend.rasterize(Convexes.empty(), toy_camera())
    assert rasterize(Convexes.empty(), toy_camera()).rgb.shape == (48, 64, 3), "the remedy works"
