"""Fields of signed distances: they learn a mesh, find its surface again, are drawn, and name bad meshes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from mesh_shapes import SHAPES, shape_mesh
from torch import Tensor
from toy_run import drop_checkpoints

from luxel.render.errors import LuxelError
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.fields.drawing.surface_shading import SurfaceLook, backdrop
from luxel.render.fields.files import FIELD_FILE, load_field
from luxel.render.fields.sdf import MARGIN, POOL, SdfField
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.geometry.camera import Camera
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.ops.field.sphere_trace import Rays
from luxel.render.reference.field.sphere_trace import camera_rays_reference

SCALE, MOVE = 4.0, torch.tensor([1.0, -2.0, 3.0])  # of the meshes against the unit box
SIZE = {"ball": 0.7, "ring": 0.8}  # longest side of the shapes


def small(**changes: Any) -> FieldConfig:
    """A configuration that a CPU trains in seconds."""
    given = {"batch": 2048, "log2_entries": 13, "finest": 96, "width": 32, "precise": True, **changes}
    return dataclasses.replace(defaults("sdf"), **given)


def moved(name: str, resolution: int = 32) -> TriangleMesh:
    mesh = shape_mesh(name, resolution)
    return TriangleMesh(mesh.vertices * SCALE + MOVE, mesh.faces)


def train(field: SdfField, steps: int, rate: float = 1e-2) -> float:
    """Adam whose rate falls to a tenth; gives the last loss."""
    generator = torch.Generator(field.device).manual_seed(0)
    optimiser = torch.optim.Adam(field.parameters(), lr=rate, betas=(0.9, 0.99), eps=1e-15)
    loss = torch.zeros(())
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * 0.1 ** (step / steps)
        loss = field.loss(field.draw_batch(generator))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        field.after_step(step)
    return loss.item()


class TrainedFields(dict[str, SdfField]):
    """Fields that have learnt a shape, on the CPU; each is trained when it is first taken."""

    def __missing__(self, name: str) -> SdfField:
        field = SdfField(small())
        field.begin(moved(name), torch.device("cpu"))
        train(field, 200)
        self[name] = field
        return field


@pytest.fixture(scope="module")
def learned() -> dict[str, SdfField]:
    """A trained field of each shape of `SHAPES`."""
    return TrainedFields()


QUICK_SHAPES = [name if name == "ball" else pytest.param(name, marks=pytest.mark.slow) for name in SHAPES]


@pytest.mark.parametrize("name", QUICK_SHAPES)
def test_it_learns_a_shape(learned, name):
    scores = learned[name].evaluate()
    assert set(scores) == {"mean_error", "mean_error_uniform", "mean_error_near", "iou"}
    assert scores["mean_error"] < 5e-3 and scores["mean_error_near"] < 3e-3
    assert scores["iou"] > 0.97


@pytest.mark.parametrize("name", QUICK_SHAPES)
def test_distances_are_in_the_units_of_the_mesh(learned, name):
    field = learned[name]
    assert field.side.item() == pytest.approx(SCALE * SIZE[name] / (1 - 2 * MARGIN), rel=1e-2)
    x = 0.1 + 0.8 * torch.rand(500, 3, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        actual = field.distances(x * SCALE + MOVE)
    assert (actual - SCALE * SHAPES[name](x)).abs().mean() < 0.02 * SCALE
    centres = field.centres
    assert centres.shape == (8, 3)
    torch.testing.assert_close(centres.mean(0), 0.5 * SCALE + MOVE, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", QUICK_SHAPES)
def test_the_surface_comes_back(learned, name):
    actual = learned[name].surface(40)
    assert actual.is_closed() or name == "ring"
    local = (actual.vertices - MOVE) / SCALE
    assert SHAPES[name](local).abs().mean() < 4e-3
    assert actual.volume().item() == pytest.approx(moved(name).volume().item(), rel=0.05)


def test_it_is_drawn(learned, monkeypatch: pytest.MonkeyPatch) -> None:
    field = learned["ball"]
    middle = 0.5 * SCALE + MOVE
    eye = (middle + torch.tensor([0.0, -2.5 * SCALE, 0.0])).tolist()
    camera = Camera.look_at(eye, middle.tolist(), width=48, height=40, fov_y=math.radians(30))
    blue = torch.tensor([0.0, 0.0, 1.0])
    image = field.render(camera, blue)
    assert image.shape == (40, 48, 3) and image.min() >= 0 and image.max() <= 1
    covered = (image != blue).any(-1)
    # A sphere of radius 0.35 seen from 2.5 away.
    radius = 40 / 2 / math.tan(math.radians(15)) * 0.35 / math.sqrt(2.5**2 - 0.35**2)
    assert covered.sum().item() == pytest.approx(math.pi * radius**2, rel=0.06)
    assert covered[20, 24] and not covered[0, 0]
    sky = field.render(camera)
    assert torch.equal(sky[covered], image[covered])
    assert sky[0, 0, 2] > sky[0, 0, 0]
    # Brightest where it faces the lamp and the sky, darker at its lower rim.
    assert image[17, 24].mean() > image[20 + int(radius) - 1, 24].mean()
    monkeypatch.setattr(field, "look", dataclasses.replace(field.look, sun=0.5, shadows=True))
    lit = field.render(camera, blue)
    assert torch.equal((lit != blue).any(-1), covered) and lit.mean() > image.mean()


def test_the_sky_is_that_of_the_directions(device):
    camera = Camera.look_at((2.0, -3, 1.5), (0.2, 0.1, 1.4), width=33, height=21, fov_y=math.radians(70))
    pose = (camera.cam_to_world[:3] * torch.tensor([0.3, 0.3, 0.3, 1.0])).contiguous().to(device)
    lens = (camera.intrinsics * torch.tensor([1.1, 0.9, 0.8, 1.2])).to(device)
    look = SurfaceLook()
    actual = backdrop(Rays(33 * 21, cam_to_unit=pose, intrinsics=lens, width=33), look)
    up = camera_rays_reference(pose.double(), lens.double(), 33, 21)[:, 5:]
    assert up.min() < -0.1 and up.max() > 0.1
    ends = torch.tensor([look.horizon, look.zenith], device=device).double()
    expected = torch.lerp(ends[:1], ends[1:], up.clamp(0, 1).sqrt())
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=2e-4)  # by the root of what is near 0
    black = torch.zeros(3)
    assert not backdrop(Rays(6, cam_to_unit=pose, intrinsics=lens, width=3), look, black).any()


def test_normals(learned):
    field = learned["ball"]
    x = field.surface(24).vertices
    unit = field.to_unit(x)
    normals = torch.nn.functional.normalize(unit - 0.5, dim=-1)
    slopes = torch.nn.functional.normalize(field.slopes(unit), dim=-1)
    assert (slopes * normals).sum(-1).mean() > 0.95
    wide = SdfField(small()).double()
    wide.load_state_dict(field.state_dict())
    unit, step = unit.double() + 1e-4, 1e-6 * torch.eye(3).double()  # away from the points of the grid
    with torch.no_grad():
        differences = torch.stack(
            [(wide.field(unit + s) - wide.field(unit - s))[:, 0] / 2e-6 for s in step], -1
        )
    off = (differences - wide.slopes(unit)).norm(dim=-1)
    assert (off < 1e-6).double().mean() > 0.98  # but where a ReLU turns
    torch.testing.assert_close(field.slopes(unit.float()).double(), wide.slopes(unit), rtol=0, atol=0.3)
    coarse = torch.nn.functional.normalize(field.slopes(unit.float(), 16), dim=-1)
    assert (coarse * normals).sum(-1).mean() > 0.9


def test_state_holds_what_drawing_needs(learned):
    field = learned["ring"]
    again = SdfField(small())
    again.load_state_dict({name: t.clone() for name, t in field.state_dict().items()})
    x = torch.rand(100, 3) * SCALE + MOVE
    assert torch.equal(again.distances(x), field.distances(x))
    camera = Camera.look_at((2, -9, 5), (3, 0, 5), width=24, height=20)
    assert torch.equal(again.render(camera), field.render(camera))
    before = again.coarse_grid()
    assert again.coarse_grid() is before
    again.after_step(0)
    assert again.coarse_grid() is not before


def test_batches(device):
    field = SdfField(small(batch=1001)).to(device)
    field.begin(moved("ball"), device)
    for pool in (0, 4):
        field.pool_batches = pool
        field.begin(moved("ball"), device)
        batches = [field.draw_batch(torch.Generator(device).manual_seed(seed)) for seed in (0, 0, 1)]
        size = 1001 if pool == 0 else 1000
        assert all(b.positions.shape == (size, 3) and b.distances.shape == (size,) for b in batches)
        assert torch.equal(batches[0].positions, batches[1].positions) == (pool == 0)
        assert not torch.equal(batches[0].positions, batches[2].positions)
        for batch in batches:
            assert batch.positions.min() >= 0 and batch.positions.max() <= 1
            radius = 0.35 / 0.7 * (1 - 2 * MARGIN)
            true = (batch.positions - 0.5).norm(dim=1) - radius
            assert (true - batch.distances).abs().max() < 5e-3
            near = batch.distances[size // 2 :]
            assert near.abs().median() < 0.01 < batch.distances[: size // 2].abs().median()


def test_the_pool_is_renewed(device):
    field = SdfField(small(batch=320)).to(device)
    field.pool_batches = 2
    field.begin(moved("ball"), device)
    pool = field.pool
    assert pool is not None and pool.rows.shape == (2, 320, 4)
    before = pool.rows.clone()
    generator = torch.Generator(device).manual_seed(0)
    for _ in range(3):
        field.draw_batch(generator)
    changed = (pool.rows != before).any(-1)
    assert changed[:, :30].all() and not changed[:, 30:].any() and pool.next.item() == 30
    for _ in range(32):
        field.draw_batch(generator)
    assert (pool.rows != before).any(-1).all() and pool.next.item() == 30


def test_a_run_with_a_pool_resumes_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POOL, "cpu", 3)
    config = small(batch=256, log2_entries=10, width=16, steps=60, checkpoint_every=20, keep=9)
    mesh = shape_mesh("ring", 12)
    whole = FieldTrainer.new(config, mesh, tmp_path, say=lambda _: None)
    result = whole.run(progress=False)
    for cut in (40, 20):
        drop_checkpoints(tmp_path, after=cut)
        again = FieldTrainer.resume(tmp_path, mesh, say=lambda _: None)
        assert again.steps_done == cut and again.run(progress=False).scores == result.scores
        left, right = whole.optimizer.tensors(), again.optimizer.tensors()
        assert "samples.pool" in left and left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left)
    monkeypatch.setitem(POOL, "cpu", 5)
    said: list[str] = []
    FieldTrainer.resume(tmp_path, mesh, say=said.append)
    assert any("random state was reset" in line for line in said)
    held = load_field(tmp_path / FIELD_FILE).state_dict()
    assert not any("pool" in name for name in held), "the field's file has no samples"


def test_the_eikonal_loss_has_gradients_of_slopes():
    """By finite differences of the loss along a random direction, in double."""
    field = SdfField(small(batch=64, width=16, log2_entries=10, finest=32), eikonal=0.3).double()
    field.begin(moved("ring", 16), torch.device("cpu"))
    with torch.no_grad():
        field.field.encoding.table.mul_(3e3)  # pyright: ignore
    batch = field.draw_batch(torch.Generator().manual_seed(0))
    parameters = list(field.parameters())
    gradients = torch.autograd.grad(field.loss(batch), parameters)
    generator = torch.Generator().manual_seed(1)
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    expected = torch.stack([(g * d).sum() for g, d in zip(gradients, directions, strict=True)]).sum()
    values = []
    for step in (-1e-7, 1e-7):
        with torch.no_grad():
            for p, d in zip(parameters, directions, strict=True):
                p.add_(d, alpha=step)
        values.append(field.loss(batch).detach())
        with torch.no_grad():
            for p, d in zip(parameters, directions, strict=True):
                p.sub_(d, alpha=step)
    assert ((values[1] - values[0]) / 2e-7).item() == pytest.approx(expected.item(), rel=1e-4)
    plain = SdfField(small(batch=64, width=16, log2_entries=10, finest=32)).double()
    plain.load_state_dict(field.state_dict())
    assert plain.loss(batch) < field.loss(batch)


def test_which_way_triangles_face_and_holes():
    points = torch.rand(300, 3, generator=torch.Generator().manual_seed(2))
    mesh = shape_mesh("ball", 16)
    holed = TriangleMesh(mesh.vertices, mesh.faces[mesh.corners().mean(1)[:, 2] < 0.83])
    corners = mesh.corners().view(-1, 3)
    soup = TriangleMesh(corners, torch.arange(len(corners)).view(-1, 3))  # no vertex is shared
    for given, share in ((mesh, 1.0), (mesh.flipped(), 1.0), (soup, 1.0), (holed, 0.97)):
        field = SdfField(small())
        field.begin(given, torch.device("cpu"))
        samples = field.samples
        assert samples is not None and samples.sign == ("parity" if given is holed else "pseudonormal")
        actual = samples.labelled(field.to_unit(points)).distances * field.side
        true = (points - 0.5).norm(dim=1) - 0.35
        clear = true.abs() > 0.02
        assert ((actual < 0) == (true < 0))[clear].double().mean() >= share


@pytest.mark.parametrize("encoding", ["hash", "dense", "lowres"])
def test_every_encoding(device, encoding):
    field = SdfField(small(encoding=encoding, finest=None, batch=256, log2_entries=12)).to(device)
    field.begin(shape_mesh("ball", 12), device)
    train(field, 2)
    camera = Camera.look_at((2, -2, 1), (0.5, 0.5, 0.5), width=16, height=12)
    assert field.render(camera).isfinite().all()


class _Plain:
    """A mesh of arrays, as files give it."""

    def __init__(self, xyz: Tensor, faces: Tensor) -> None:
        self.xyz, self.faces = xyz.numpy(), faces.numpy()


def test_meshes_of_arrays_and_bad_ones():
    field, cpu = SdfField(small()), torch.device("cpu")
    mesh = shape_mesh("ball", 8)
    field.begin(_Plain(*mesh), cpu)
    flat = TriangleMesh(torch.tensor([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), torch.tensor([[0, 1, 2]]))
    nan = TriangleMesh(mesh.vertices * math.nan, mesh.faces)
    bad = [
        (torch.zeros(3), "is of a mesh, got Tensor"),
        (TriangleMesh(mesh.vertices[:, :2], mesh.faces), r"got \[\d+, 2\]"),
        (TriangleMesh(mesh.vertices, mesh.faces.float()), "faces"),
        (TriangleMesh(mesh.vertices[:5], mesh.faces), "vertices that are not there"),
        (TriangleMesh(mesh.vertices, mesh.faces[:0]), "no triangles"),
        (nan, "no triangles that could be used"),
        (flat, "no area"),
    ]
    for given, message in bad:
        with pytest.raises(LuxelError, match=message):
            field.begin(given, cpu)
    with pytest.raises(LuxelError, match="no mesh to learn from"):
        SdfField(small()).draw_batch(torch.Generator())
