"""tiny-cuda-nn behind luxel's fields: by a stand-in with its layout everywhere, by itself where it is installed."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from mesh_shapes import shape_mesh
from tinycudann_stand_in import HashGrid, Network, StandIn
from torch import Tensor
from toy_run import drop_checkpoints

from luxel.render.backends import require_field_backend
from luxel.render.backends import tinycudann as backend
from luxel.render.errors import LuxelError
from luxel.render.fields.application import make_application
from luxel.render.fields.build import field_of, mlp_of
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.fields.encodings.grid import Grid
from luxel.render.fields.encodings.grid_encoding import grid_of
from luxel.render.fields.encodings.tinycudann_grid import PeerGrid, matching_grid
from luxel.render.fields.files import FIELD_FILE, load_field
from luxel.render.fields.image import ImageField
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.fields.peers.tinycudann_field import PeerField, PeerMlp, evaluate_by_luxel
from luxel.render.fields.radiance import RadianceField
from luxel.render.fields.sdf import SdfField
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.fields.volume import VolumeField
from luxel.render.geometry.camera import Camera, Pixels, View

NAME = "tiny-cuda-nn"
SMALL: dict[str, Any] = {"log2_entries": 10, "batch": 256, "width": 16, "steps": 40, "report_every": 10}


def small(kind: Any = "image", **changes: Any) -> FieldConfig:
    """A short training with the backend."""
    return replace(defaults(kind), **{**SMALL, "backend": NAME, **changes})


def image(side: int = 24) -> np.ndarray:
    """Smooth colours."""
    y, x = np.mgrid[:side, :side] / side
    return (255 * np.stack([x, y, 0.5 + 0.4 * np.sin(5 * x)], -1)).astype(np.uint8)


def trainer(folder: Path, **changes: Any) -> FieldTrainer:
    return FieldTrainer.new(small(**changes), image(), folder, say=lambda _: None)


def off(actual: Tensor, expected: Tensor) -> float:
    """Norm of the error over the norm of what is expected."""
    return float(((actual - expected).norm() / expected.norm().clamp_min(1e-30)).detach())


def lively(config: FieldConfig, dimensions: int, outputs: int) -> PeerField:
    """A field with a table that shows in the result."""
    whole = field_of(config, dimensions, outputs)
    assert isinstance(whole, PeerField)
    whole.encoding.table.data.mul_(5e3)
    return whole


# What is missing


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    require_field_backend("luxel", "cpu")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LuxelError, match=r"not installed, and needs an NVIDIA GPU.*With nvcc: pip install"):
        require_field_backend(NAME)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LuxelError, match="needs an NVIDIA GPU that torch can use"):
        require_field_backend(NAME)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(LuxelError, match="not on cpu"):
        require_field_backend(NAME, "cpu")

    def broken(name: str) -> None:
        raise OSError("Unknown compute capability")

    monkeypatch.setattr(backend.importlib, "import_module", broken)
    with pytest.raises(LuxelError, match=r"cannot be imported.*compute capability"):
        require_field_backend(NAME, "cuda")
    with pytest.raises(ValueError, match="backend of fields must be"):
        require_field_backend("tiny")  # type: ignore[arg-type]


def test_a_run_without_it_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LuxelError, match="not installed"):
        trainer(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_it_cannot_compute_is_refused(
    stand_in_tinycudann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="activations must be one of"):
        PeerMlp(32, 3, activation="softplus")(torch.rand(4, 32))
    mlp = Mlp(32, 3, width=16)
    deeper = Network(32, 3, {**backend.network_options(mlp), "n_hidden_layers": 3})
    with pytest.raises(LuxelError, match=r"1,280 parameters for a field of 816"):
        backend.Peer(deeper, mlp)

    def no_kernel(*_: Any) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(stand_in_tinycudann, "Network", no_kernel)
    with pytest.raises(LuxelError, match=r"cannot make this field.*no kernel"):
        PeerMlp(32, 3)(torch.rand(4, 32))


# The same function


@pytest.mark.parametrize("kind", ["image", "sdf", "volume", "radiance"])
@pytest.mark.parametrize("encoding", ["hash", "dense", "lowres"])
@pytest.mark.parametrize("finest", [None, 16, 17, 500, 512, 1000, 1024, 2048, 8192])
def test_levels_have_the_sizes_that_it_gives_them(kind: Any, encoding: Any, finest: int | None) -> None:
    config = replace(defaults(kind), encoding=encoding, finest=finest)
    dimensions = 2 if kind == "image" else 3
    own = grid_of(config, dimensions)
    grid = matching_grid(own)
    theirs = HashGrid(dimensions, backend.encoding_options(grid))
    sizes = [b - a for a, b in zip(grid.offsets, grid.offsets[1:], strict=False)]
    assert sizes == theirs.sizes and list(grid.resolutions) == theirs.points
    np.testing.assert_allclose(grid.scales, theirs.scales, rtol=3e-7)
    np.testing.assert_allclose(
        grid.scales, own.scales, rtol=2e-4
    )  # a millionth or so of the growth, 15 times
    assert grid.hashed and matching_grid(grid) == grid
    if encoding == "hash" and finest:
        assert grid.resolutions[-1] in (finest, finest + 1), "as configured, but for what rounding did to it"


def test_a_scale_that_rounding_could_tip_over_is_lowered() -> None:
    """Levels 3, 6, 9 .. of an image's growth are a hair from 31, 63, 127 .. cells."""
    own = Grid.multi_resolution_hash(2, 1.2599210498948732, 19)
    grid = matching_grid(own)
    assert not PeerGrid(2, 16, 2, 16, own.growth, 19, hashed=True).stable and grid.stable
    assert grid.resolutions[-1] == 512 and 0 < own.growth - grid.growth < 1e-5


@pytest.mark.parametrize(
    ("encoding", "dimensions", "width", "hidden", "outputs"),
    [
        ("hash", 2, 64, 2, 3),
        ("hash", 3, 32, 1, 16),
        ("dense", 3, 16, 2, 1),
        ("lowres", 3, 128, 1, 4),
        ("lowres", 2, 64, 0, 17),
    ],
)
def test_a_field_is_luxels(
    stand_in_tinycudann: StandIn, encoding: Any, dimensions: int, width: int, hidden: int, outputs: int
) -> None:
    config = small("volume", encoding=encoding, width=width, hidden=hidden, log2_entries=12)
    whole = lively(config, dimensions, outputs)
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(300, dimensions, generator=generator)
    x[0], x[1], x[2], x[3] = 0.0, 1.0, -0.5, 7.0
    g_out = torch.randn(300, outputs, generator=generator)
    results = []
    for by_luxel in (False, True):
        whole.by_luxel = by_luxel
        out = whole(x)
        results.append([out, *torch.autograd.grad((out * g_out).sum(), list(whole.parameters()))])
        assert out.dtype == torch.float32 and whole.snapshot()(x).equal(out)
        assert whole(x.view(3, 100, dimensions)).shape == (3, 100, outputs)
        assert whole(x[:0]).shape == (0, outputs) == whole.snapshot()(x[:0]).shape
    assert stand_in_tinycudann.calls == 3 and len(stand_in_tinycudann.made) == 1
    for name, actual, expected in zip(("out", "table", "weights"), *results, strict=True):
        assert expected.norm() > 0 and off(actual, expected) < (2e-5 if name == "out" else 1e-4), name
    whole.by_luxel = False
    x[5, 0] = math.nan
    assert whole(x).isfinite().all()
    native = stand_in_tinycudann.made[0]
    assert native.params.numel() == 0 and native.loss_scale == 1
    assert {name for name, _ in whole.named_parameters()} == {"encoding.table", "network.weights"}


def by_both(network: PeerMlp, x: torch.Tensor, over: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Output, and gradients of its squares by x and weights, by tiny-cuda-nn and by luxel."""
    results = []
    for by_luxel in (False, True):
        network.by_luxel = by_luxel
        out = network(x)
        results.append([out, *torch.autograd.grad(over(out.square()), [x, network.weights])])
    return list(zip(*results, strict=True))


@pytest.mark.parametrize(("inputs", "outputs", "hidden"), [(32, 3, 2), (19, 5, 1), (40, 16, 0)])
def test_a_network_is_luxels(stand_in_tinycudann: StandIn, inputs: int, outputs: int, hidden: int) -> None:
    network = PeerMlp(inputs, outputs, width=32, hidden_layers=hidden, seed=4)
    x = torch.randn(70, inputs, generator=torch.Generator().manual_seed(1), requires_grad=True)
    for actual, expected in by_both(network, x, torch.sum):
        assert off(actual, expected) < 1e-5
    assert stand_in_tinycudann.calls == 1 and network(x[:0]).shape == (0, outputs)


def test_gradients_by_positions_are_luxels(stand_in_tinycudann: StandIn) -> None:
    whole = lively(small("sdf"), 3, 1)
    x = torch.rand(20, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(whole(x).sum(), x, create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), whole.network.weights)[0].norm() > 0
    assert stand_in_tinycudann.calls == 0
    with torch.no_grad():
        whole(x)
    assert stand_in_tinycudann.calls == 1


# Training


def test_the_backend_follows_from_the_configuration() -> None:
    own = make_application(replace(small("radiance"), backend="luxel"))
    peer = make_application(small("radiance"))
    assert isinstance(peer, RadianceField) and isinstance(own, RadianceField)
    assert type(peer.density) is PeerField and type(peer.colour) is PeerMlp
    assert type(own.colour) is Mlp and not isinstance(own.density, PeerField)
    assert peer.state_dict().keys() == own.state_dict().keys()
    for name, expected in own.named_parameters():
        assert torch.equal(dict(peer.named_parameters())[name], expected), (
            f"{name}: the same first parameters"
        )
    assert [p.shape for p in peer.weight_parameters()] == [p.shape for p in own.weight_parameters()]
    assert peer.table_parameters()[0].ndim == 2 and all(p.ndim == 1 for p in peer.weight_parameters())
    assert type(mlp_of(small("radiance"), 32, 3)) is PeerMlp


def test_configurations_keep_it() -> None:
    config = small()
    assert config.to_dict()["hashing"] == "spatial" and replace(config, backend="luxel").hashes_blocks
    assert FieldConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == replace(
        config, hashing="spatial"
    )
    before = config.to_dict()
    del before["backend"]
    assert FieldConfig.from_dict(before).backend == "luxel"


def test_an_image_is_trained_by_it_as_by_luxel(tmp_path: Path, stand_in_tinycudann: StandIn) -> None:
    """One after another both train the same field; only weights decay."""
    results = []
    for name in ("peer", "luxel"):
        run = trainer(tmp_path / name, weight_decay=1e-3, ema=0.0)
        decays = [run.optimizer._names[i] for i in run.optimizer._decays]
        assert decays == ["field.network.weights"]
        if name == "luxel":
            evaluate_by_luxel(run.application)
        run.optimizer._replay.run = None  # type: ignore[assignment, method-assign]  # nothing is captured
        called = stand_in_tinycudann.calls
        losses = [float(run.optimizer.step(step)) for step in range(50)]
        assert stand_in_tinycudann.calls - called == (50 if name == "peer" else 0)
        results.append((losses, run.application.state_dict()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-3)
    assert results[0][0][-1] < 0.5 * results[0][0][0]
    for name in ("field.network.weights", "field.encoding.table"):
        assert off(results[0][1][name], results[1][1][name]) < 1e-2, name


def test_a_step_that_overflows_in_half_changes_nothing(tmp_path: Path, stand_in_tinycudann: StandIn) -> None:
    run = trainer(tmp_path / "run", loss_scale=1e12, ema=0.0)
    application = run.application
    assert isinstance(application, ImageField) and isinstance(application.field, PeerField)

    def moves() -> bool:
        kept = {name: t.clone() for name, t in application.state_dict().items()}
        run.step()
        return any(not torch.equal(t, kept[name]) for name, t in application.state_dict().items())

    assert moves(), "floats do not overflow"
    peer = application.field._peer(torch.device("cpu"))
    assert peer is not None
    peer.dtype = torch.float16
    assert not moves() and not moves()
    application.config.loss_scale = 1024.0
    assert moves()


def test_a_run_ends_goes_on_and_is_loaded_without_it(
    tmp_path: Path, stand_in_tinycudann: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trainer(tmp_path / "whole", checkpoint_every=20, steps=100)
    expected = whole.run(progress=False)
    assert expected.scores["psnr"] > 15
    assert json.loads((tmp_path / "whole/config.json").read_text())["config"]["backend"] == NAME
    drop_checkpoints(tmp_path / "whole", after=80)
    called = stand_in_tinycudann.calls
    again = FieldTrainer.resume(tmp_path / "whole", image(), say=lambda _: None)
    assert again.steps_done == 80 and again.run(progress=False).scores == expected.scores
    assert stand_in_tinycudann.calls >= called + 20
    with pytest.raises(LuxelError, match="was trained with tiny-cuda-nn"):
        FieldTrainer.resume(tmp_path / "whole", image(), overrides={"backend": "luxel"})

    def absent(device: Any = None) -> None:
        raise LuxelError("not installed")

    results = []
    for usable in (True, False):
        if not usable:
            monkeypatch.setattr(backend, "require", absent)
        called = stand_in_tinycudann.calls
        field = load_field(tmp_path / "whole" / FIELD_FILE)
        assert isinstance(field, ImageField) and field.config.backend == NAME
        results.append(field.render_size(30, 20))
        assert (stand_in_tinycudann.calls > called) == usable
        field.begin(image(), torch.device("cpu"))
        assert field.evaluate()["psnr"] == pytest.approx(expected.scores["psnr"], abs=0.01)
    assert off(*results) < 1e-5
    with pytest.raises(LuxelError, match="not installed"):
        FieldTrainer.resume(tmp_path / "whole", image(), say=lambda _: None)
    evaluate_by_luxel(field)
    assert off(field.render_size(30, 20), results[0]) < 1e-5


@pytest.mark.parametrize("eikonal", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_distances_are_trained_by_it(stand_in_tinycudann: StandIn, eikonal: float) -> None:
    field = SdfField(small("sdf", width=32, log2_entries=12, batch=1024, finest=64), eikonal=eikonal)
    field.begin(shape_mesh("ball", 16), torch.device("cpu"))
    optimiser = torch.optim.Adam(field.parameters(), lr=1e-2, betas=(0.9, 0.99), eps=1e-15)
    generator = torch.Generator().manual_seed(0)
    for step in range(60):
        loss = field.loss(field.draw_batch(generator))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        field.after_step(step)
    assert stand_in_tinycudann.calls == 60
    assert field.evaluate()["iou"] > 0.8
    camera = Camera.look_at((0.0, -2.5, 0.3), (0, 0, 0), width=24, height=24)
    drawn = field.render(camera)
    evaluate_by_luxel(field)
    field.after_step(0)
    assert (drawn - field.render(camera)).abs().median() < 1e-5 and drawn.std() > 0.05


def test_volumes_are_trained_and_drawn_by_it(tmp_path: Path, stand_in_tinycudann: StandIn) -> None:
    grid = np.zeros((8, 8, 8), np.float32)
    grid[2:6, 2:6, 2:6] = 1
    config = small("volume", encoding="dense", steps=60)
    run = FieldTrainer.new(config, grid, tmp_path / "run", say=lambda _: None)
    run.run(progress=False)
    field = run.application
    assert isinstance(field, VolumeField)
    called = stand_in_tinycudann.calls
    drawn = field.render(field.views(24)[0])
    assert stand_in_tinycudann.calls > called and drawn.max() > 0.1
    evaluate_by_luxel(field)
    assert (drawn - field.render(field.views(24)[0])).abs().max() < 1e-3


class SmallRadianceField(RadianceField):
    cells: ClassVar[int] = 32
    diagonal_samples: ClassVar[int] = 192


def discs(count: int, size: int = 24) -> list[View]:
    """A red ball of radius 0.8 seen from around, cut out."""
    views = []
    for k in range(count):
        eye = (3.8 * math.cos(k), 3.8 * math.sin(k), 0.4 * (k % 3))
        camera = Camera.look_at(eye, (0, 0, 0), width=size, height=size, fov_y=math.radians(34))
        v, u = np.mgrid[:size, :size] + 0.5
        image = np.zeros((size, size, 4), np.uint8)
        image[np.hypot(u - size / 2, v - size / 2) < 0.34 * size] = (220, 40, 60, 255)
        views.append(View(f"{k}", camera, lambda i=image: Pixels(i[..., :3].copy(), i[..., 3].copy())))
    return views


@pytest.mark.slow
def test_photographs_are_learnt_by_it(tmp_path: Path, stand_in_tinycudann: StandIn) -> None:
    config = small("radiance", width=32, log2_entries=12, finest=64, batch=1 << 11, steps=160)
    run = FieldTrainer(SmallRadianceField(config), discs(8), tmp_path / "run", say=lambda _: None)
    scores = run.run(progress=False).scores
    assert scores["psnr"] > 18
    assert [type(module).__name__ for module in stand_in_tinycudann.made] == [
        "NetworkWithInputEncoding",
        "Network",
    ]
    assert stand_in_tinycudann.made[1].calls >= 80 < stand_in_tinycudann.made[0].calls
    evaluate_by_luxel(run.application)
    assert run.application.evaluate()["psnr"] == pytest.approx(scores["psnr"], abs=0.02)


# The real one


@pytest.fixture
def real(gpu: torch.device) -> torch.device:
    """The GPU, where tiny-cuda-nn can be used beside luxel's own kernels."""
    try:
        backend.require(gpu)
    except LuxelError as error:
        pytest.skip(f"GPU test not run: {error}")
    return gpu


MARGIN = 8e-3  # standard deviations that hidden units keep from 0


def clear_rows(x: Tensor, mlp: Mlp) -> Tensor:
    """Rows of inputs [N, I] whose hidden units all stay away from 0, [N].

    Both sides compute in half, so a ReLU near 0 falls to either side of it, and its whole gradient is the difference:
    at one unit in a thousand, 3e-2 of the norm. tests/bench/fields/tinycudann_agreement.py measures it against float64.
    """
    keep, x = torch.ones(len(x), dtype=torch.bool, device=x.device), x.detach().double()
    for matrix in mlp.matrices()[:-1]:
        x = x @ matrix.detach().double().T
        keep &= (x.abs() > MARGIN * x.std()).all(1)
        x = x.relu()
    assert keep.double().mean() > 0.2
    return keep


@pytest.mark.gpu
@pytest.mark.parametrize("encoding", ["hash", "dense", "lowres"])
@pytest.mark.parametrize(
    ("dimensions", "width", "hidden", "outputs"), [(2, 64, 2, 3), (3, 64, 1, 16), (3, 16, 2, 1)]
)
def test_the_real_one_agrees(
    real: torch.device, encoding: Any, dimensions: int, width: int, hidden: int, outputs: int
) -> None:
    """Both in half: 2^-11 of each of some roundings."""
    config = small("volume", encoding=encoding, width=width, hidden=hidden, log2_entries=19, finest=512)
    whole = lively(config, dimensions, outputs).to(real)
    generator = torch.Generator(real).manual_seed(3)
    x = torch.rand(10_000, dimensions, generator=generator, device=real)
    g_out = torch.randn(10_000, outputs, generator=generator, device=real)
    g_out *= clear_rows(whole.encoding(x), whole.network)[:, None]
    results = []
    for by_luxel in (False, True):
        whole.by_luxel = by_luxel
        out = whole(x)
        results.append([out, *torch.autograd.grad((out * g_out).sum(), list(whole.parameters()))])
        assert off(whole.snapshot()(x), out) < 1e-3
    assert whole._made is not None and whole._made[1] is not None
    for name, actual, expected in zip(("out", "table", "weights"), *results, strict=True):
        assert off(actual, expected) < (2e-2 if name == "table" else 1e-2), name


@pytest.mark.gpu
@pytest.mark.parametrize("hidden", [0, 1, 3])
def test_the_real_network_agrees(real: torch.device, hidden: int) -> None:
    """The loss is scaled as in training: the gradients of a mean are below the normal range of half."""
    network = PeerMlp(32, 3, width=64, hidden_layers=hidden, seed=4).to(real)
    x = torch.randn(5_000, 32, device=real, requires_grad=True)
    keep = clear_rows(x, network)[:, None]
    for actual, expected in by_both(network, x, lambda squares: 1024 * (squares * keep).mean()):
        assert off(actual, expected) < 1e-2


@pytest.mark.gpu
def test_the_real_one_trains(real: torch.device, tmp_path: Path) -> None:
    config = replace(defaults("image"), backend=NAME, batch=1 << 14, steps=500)
    run = FieldTrainer.new(config, image(256), tmp_path / "run", real, say=lambda _: None)
    scores = run.run(progress=False).scores
    assert scores["psnr"] > 30
    evaluate_by_luxel(run.application)
    assert run.application.evaluate()["psnr"] == pytest.approx(scores["psnr"], abs=0.3)
    radiance = replace(defaults("radiance"), backend=NAME, batch=1 << 14, steps=300)
    views = FieldTrainer.new(radiance, discs(12, 48), tmp_path / "views", real, say=lambda _: None)
    assert views.run(progress=False).scores["psnr"] > 18
