"""Grid encoding and perceptron as one stage: the two stages, the references, and what is refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.fields.encodings.grid import Grid
from luxel.render.fields.encodings.grid_encoding import GridEncoding
from luxel.render.fields.nets.field import Field
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.ops.field.encode_grid import encode_grid, hashed_code
from luxel.render.ops.field.field import MIN_SORTED_TRAINING, covered, field
from luxel.render.ops.field.mlp import ACTIVATIONS, Network, mlp
from luxel.render.ops.field.order_positions import order_positions
from luxel.render.reference.field.encode_grid import encode_grid_reference
from luxel.render.reference.field.mlp import mlp_reference

D = torch.float64
HASHED = Grid(3, 16, 2, 16, 1.38191, 12, hashed=True)
# grid, then width, hidden layers, outputs, activation, output activation
FIELDS: dict[str, tuple[Grid, tuple[Any, ...]]] = {
    "hash": (HASHED, (64, 2, 16, "relu", "none")),
    "blocks": (dataclasses.replace(HASHED, hashed="blocks"), (64, 2, 16, "relu", "none")),
    "blocks 2d": (Grid(2, 16, 2, 16, 1.25992, 10, hashed="blocks"), (32, 1, 5, "softplus", "sigmoid")),
    "blocks, 4 features": (Grid(3, 8, 4, 4, 1.5, 8, hashed="blocks"), (64, 2, 7, "none", "none")),
    "hash, dense levels": (Grid.multi_resolution_hash(3, 1.275, 15), (64, 1, 16, "relu", "none")),
    "image": (Grid(2, 16, 2, 16, 1.25992, 10, hashed=True), (64, 2, 3, "relu", "sigmoid")),
    "few levels": (Grid(3, 5, 2, 5, 1.7, 9, hashed=True), (32, 2, 1, "softplus", "none")),
    "dense": (Grid.multi_resolution_dense(3, log2_entries=12), (64, 2, 4, "relu", "relu")),
    "dense 2d": (Grid.multi_resolution_dense(2, log2_entries=12), (32, 1, 5, "sigmoid", "softplus")),
    "low resolution": (Grid.low_resolution_dense(3, log2_entries=12), (64, 2, 16, "softplus", "none")),
    "narrow": (HASHED, (16, 2, 16, "relu", "none")),
    "narrow, few levels": (Grid(2, 3, 4, 4, 1.5, 8, hashed=True), (16, 1, 3, "softplus", "sigmoid")),
    "4 features": (Grid(2, 8, 4, 4, 1.5, 8, hashed=True), (32, 2, 7, "none", "sigmoid")),
}
WAYS = {
    "usual": (True, False),
    "float table": (False, False),
    "sorted": (True, True),
    "sorted, float": (False, True),
}


def drawn(name: str, n: int, seed: int = 0) -> list[Tensor]:
    """x, table, weights that keep values near 1, and a gradient of the output; exact in half but for x; in double."""
    grid, (width, hidden, outputs, *_) = FIELDS[name]
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    shapes = Network(grid.width, width, hidden, outputs).shapes()
    weights = torch.cat([(normal(*shape) * math.sqrt(2 / sum(shape))).flatten() for shape in shapes])
    x = torch.rand(n, grid.dimensions, generator=generator)
    exact = (normal(grid.entries, grid.features), weights, normal(n, outputs))
    return [x.to(D), *(t.half().to(D) for t in exact)]


def run(of: Any, name: str, given: list[Tensor], **options: Any) -> list[Tensor]:
    """Output, and gradients by table and weights."""
    grid, network = FIELDS[name]
    x, table, weights, g_out = given
    table, weights = (t.clone().requires_grad_() for t in (table, weights))
    out = of(x, table, weights, grid.offsets, grid.scales, grid.hashed, *network, **options)
    return [out.detach(), *torch.autograd.grad(out, (table, weights), g_out)]


def two_stages(
    x: Tensor, table: Tensor, weights: Tensor, offsets: Any, scales: Any, hashed: Any, *network: Any
) -> Tensor:
    """What `field` is."""
    features = encode_grid(x, table, offsets, scales, hashed)
    return mlp(features, weights, features.shape[1], *network)


def references(
    x: Tensor, table: Tensor, weights: Tensor, offsets: Any, scales: Any, hashed: Any, *network: Any
) -> Tensor:
    """The same of the references."""
    features = encode_grid_reference(x, table, offsets, scales, hashed)
    return mlp_reference(features, weights, features.shape[1], *network)


def away_from_kinks(name: str, n: int) -> list[Tensor]:
    """`drawn`, of rows for which rounding to half moves no value over a kink of a ReLU."""
    grid, (width, hidden, outputs, activation, output_activation) = FIELDS[name]
    x, table, weights, g_out = drawn(name, 3 * n + 64)
    h = encode_grid_reference(x, table, grid.offsets, grid.scales, grid.hashed)
    good = torch.ones(len(x), dtype=torch.bool)
    shapes = Network(grid.width, width, hidden, outputs).shapes()
    for k, part in enumerate(weights.split([o * i for o, i in shapes])):
        h = h @ part.view(shapes[k]).T
        if (activation if k < hidden else output_activation) == "relu":
            good &= (h.abs() > 2e-3 * h.std()).all(1)
        if k < hidden:
            eye = torch.eye(width, dtype=D).flatten()
            h = mlp_reference(h, eye, width, 16, 0, width, "none", activation)
    assert good.sum() >= n
    return [x[good][:n], table, weights, g_out[good][:n]]


def assert_near(actual: list[Tensor], expected: list[Tensor], *bounds: float) -> None:
    for name, a, b, bound in zip(("out", "g_table", "g_weights"), actual, expected, bounds, strict=True):
        assert a.shape == b.shape, name
        assert (a.cpu().to(D) - b).norm() <= bound * b.norm(), (
            name,
            ((a.cpu().to(D) - b).norm() / b.norm()).item(),
        )


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("dtype", [torch.float32, D], ids=["float", "double"])
def test_it_is_the_reference_on_the_cpu(name, dtype):
    for n in (0, 1, 129):
        given = drawn(name, n)
        expected = run(references, name, given)
        actual = run(field, name, [t.to(dtype) for t in given])
        assert actual[0].dtype == dtype
        assert_near(actual, expected, *((1e-12, 1e-10, 1e-10) if dtype == D else (1e-5, 1e-4, 1e-4)))
        both = run(two_stages, name, [t.to(dtype) for t in given])
        assert all(torch.equal(a, b) for a, b in zip(actual, both, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FIELDS)
def test_half_is_near_the_reference(gpu, name, way):
    halved, sort = WAYS[way]
    for n in (0, 1, 33, 129, 1000):
        given = away_from_kinks(name, n)
        expected = run(references, name, given)
        on_gpu = [t.float().to(gpu) for t in given]
        half = on_gpu[1].half() if halved else None
        actual = run(field, name, on_gpu, half_table=half, sort=sort)
        assert_near(actual, expected, 1e-2, 1e-2, 1e-2)
        again = run(field, name, on_gpu, half_table=half, sort=sort)
        assert torch.equal(actual[0], again[0]) and torch.equal(actual[2], again[2])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["hash", "blocks"])
def test_many_rows_on_the_gpu(gpu, name):
    """More than all blocks have at a time; along rays, so that neighbours meet in cells."""
    x, table, weights, g_out = drawn(name, 100_003)
    along = torch.linspace(0, 1, len(x), dtype=D)[:, None]
    for positions in (x, (along * torch.tensor([1.0, 0.7, 0.3]) + 0.01).clamp(0, 1).float().to(D)):
        given = [t.float().to(gpu) for t in (positions, table, weights, g_out)]
        expected = run(two_stages, name, given)
        for sort in (False, True):
            actual = run(field, name, given, half_table=given[1].half(), sort=sort)
            assert_near(actual, [t.cpu().to(D) for t in expected], 5e-3, 2e-2, 2e-2)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("grid", "network", "precise"),
    [
        (Grid(3, 4, 1, 4, 1.5, 8, hashed=True), (64, 2, 4), False),
        (Grid(4, 4, 2, 4, 1.5, 8, hashed=True), (64, 2, 4), False),
        (Grid(3, 16, 4, 4, 1.1, 8, hashed=True), (64, 2, 4), False),
        (HASHED, (128, 2, 4), False),
        (HASHED, (64, 3, 4), False),
        (HASHED, (64, 2, 17), False),
        (HASHED, (64, 2, 4), True),
    ],
)
def test_what_is_not_covered_runs_as_two_stages(gpu, grid, network, precise):
    sizes = Network(grid.width, *network, precise=precise)
    assert not covered(gpu, grid.dimensions, grid.features, sizes)
    encoding = GridEncoding(grid, device=gpu)
    last = Mlp(
        grid.width, network[2], width=network[0], hidden_layers=network[1], precise=precise, device=gpu
    )
    x = torch.rand(50, grid.dimensions, device=gpu)
    assert torch.equal(Field(encoding, last)(x), last(encoding(x)))
    if not precise:
        rest = (list(grid.offsets), list(grid.scales), int(grid.hashed), *network, 1, 0, False)
        with pytest.raises(ValueError, match="no kernel on cuda"):
            torch.ops.luxel.field(x, None, encoding.table, None, last.weights, *rest)


def test_positions_have_gradients(device):
    grid = FIELDS["few levels"][0]
    model = Field(GridEncoding(grid, device=device), Mlp(grid.width, 3, width=32, device=device))
    assert isinstance(model.encoding, GridEncoding)
    with torch.no_grad():
        model.encoding.table.mul_(1e4)
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    out = model(x)
    (actual,) = torch.autograd.grad(out.sum(), x)
    (expected,) = torch.autograd.grad(model.network(model.encoding(x)).sum(), x)
    assert torch.equal(actual, expected) and actual.any()
    tolerance = 1e-6 if device.type == "cpu" else 1e-2
    torch.testing.assert_close(model(x.detach()), out, rtol=tolerance, atol=tolerance)


def on(device: torch.device, given: list[Tensor]) -> list[Tensor]:
    return [t.float().to(device) for t in given]


@pytest.mark.parametrize("name", ["hash", "blocks", "image", "4 features", "blocks, 4 features"])
def test_the_order_does_not_matter(device, name):
    """On the GPU sums are in fixed point where positions are sorted, of weights that may be small."""
    given = on(device, drawn(name, 3000))
    given[0][1000:2000] = 0.4 + 0.02 * given[0][1000:2000]
    given[0][::100, 0] = math.nan
    expected = run(field, name, given, sort=False)
    actual = run(field, name, given, sort=True)
    assert torch.equal(actual[0], expected[0])
    for a, b in zip(actual[1:], expected[1:], strict=True):
        assert (a - b).norm() <= (1e-6 if device.type == "cpu" else 1e-5) * b.norm()


@pytest.mark.parametrize("name", ["hash", "blocks"])
def test_small_and_broken_gradients_of_sorted_positions(device, name):
    given = on(device, drawn(name, 600))
    given[3] *= 2.0**-20
    expected, actual = (run(field, name, given, sort=sort)[1] for sort in (False, True))
    assert (actual - expected).norm() <= (1e-6 if device.type == "cpu" else 1e-5) * expected.norm()
    given[3].zero_()
    assert not run(field, name, given, sort=True)[1].any()
    given[3][7] = math.inf
    expected, actual = (run(field, name, given, sort=sort)[1] for sort in (False, True))
    assert not actual.isfinite().all() and torch.equal(actual.isfinite(), expected.isfinite())


def test_a_field_sorts_what_is_not_coherent(device, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "luxel.render.ops.field.field.order_positions",
        lambda x: (asked.append(len(x)), order_positions(x))[1],
    )
    grid = FIELDS["few levels"][0]
    model = Field(GridEncoding(grid, device=device), Mlp(grid.width, 3, width=32, device=device))
    x = torch.rand(MIN_SORTED_TRAINING, 3, device=device)
    out = model(x)
    model(x[1:])
    with torch.no_grad():
        model(x)
    assert asked == ([len(x)] if device.type == "cuda" else [])
    torch.testing.assert_close(model(x, coherent=True), out, rtol=0, atol=0)
    model.coherent = True
    model(x)
    assert len(asked) == (device.type == "cuda")


def test_nan_positions_are_features_of_0(device):
    given = on(device, drawn("hash", 70))
    clean = run(field, "hash", given)
    bad = torch.arange(70, device=device) % 9 == 4
    given[0][bad, 1] = math.nan
    actual = run(field, "hash", given)
    assert not actual[0][bad].any() and torch.equal(actual[0][~bad], clean[0][~bad])
    given[3][bad] = 0
    given[0].nan_to_num_(0.5)
    expected = run(field, "hash", given)
    for a, b in zip(actual[1:], expected[1:], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_beyond_the_edge_is_the_edge(device):
    given = on(device, drawn("hash", 60))
    given[0] = (3 * given[0] - 1).contiguous()
    given[0][0, 0], given[0][1, 1] = math.inf, -math.inf
    held = [given[0].clamp(0, 1), *given[1:]]
    assert torch.equal(run(field, "hash", given)[0], run(field, "hash", held)[0])


def test_strides_do_not_matter(device):
    x, table, weights, g_out = on(device, drawn("few levels", 40))
    expected = run(field, "few levels", [x, table, weights, g_out])
    wide = torch.cat([x.flip(-1), x], -1)[:, 3:]
    strided = [wide, table.t().contiguous().t(), weights.repeat_interleave(2)[::2], g_out.T.contiguous().T]
    assert not any(t.is_contiguous() for t in strided[:3])
    for a, b in zip(run(field, "few levels", strided), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_one_gradient_alone(device):
    grid, network = FIELDS["hash"]
    given = on(device, drawn("hash", 200))
    _, *expected = run(field, "hash", given)
    for k, true in enumerate(expected, start=1):
        leaves = [t.clone().requires_grad_(i == k) for i, t in enumerate(given[:3])]
        x, table, weights = leaves
        out = field(x, table, weights, grid.offsets, grid.scales, grid.hashed, *network)
        (actual,) = torch.autograd.grad(out, leaves[k], given[3])
        torch.testing.assert_close(actual, true, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("hashed", [True, "blocks"])
def test_gradcheck(hashed):
    grid = Grid(2, 2, 2, 3, 1.5, 4, hashed)
    generator = torch.Generator().manual_seed(0)
    sizes = Network(4, 16, 1, 2)
    table, weights = (
        torch.randn(*shape, generator=generator, dtype=D).requires_grad_()
        for shape in ((grid.entries, 2), (sizes.parameter_count(),))
    )
    x = torch.rand(5, 2, generator=generator, dtype=D)

    def of(table: Tensor, weights: Tensor) -> Tensor:
        return field(x, table, weights, grid.offsets, grid.scales, hashed, 16, 1, 2, "softplus", "sigmoid")

    assert torch.autograd.gradcheck(of, (table, weights))


def arguments(name: str) -> tuple[Any, ...]:
    """The operation's after the weights."""
    grid, (width, hidden, outputs, *activations) = FIELDS[name]
    codes = [ACTIVATIONS[a] for a in activations]
    return list(grid.offsets), list(grid.scales), hashed_code(grid.hashed), width, hidden, outputs, *codes


def test_opcheck(device):
    x, table, weights, g_out = on(device, drawn("few levels", 20))
    rest = arguments("few levels")
    operation = torch.ops.luxel.field.default
    leaves = table.clone().requires_grad_(), None, weights.clone().requires_grad_()
    for order in (None, torch.randperm(20).int().to(device)):
        torch.library.opcheck(operation, (x, order, *leaves, *rest, True))
        torch.library.opcheck(operation, (x, order, table, None, weights, *rest, False))
        out, kept = torch.ops.luxel.field(x, order, table, None, weights, *rest, True)
        for expected in ((True, True), (False, True), (True, False)):
            given = (g_out, out, kept, x, order, table, None, weights, *rest, *expected)
            torch.library.opcheck(torch.ops.luxel.field_bwd.default, given)


def test_only_training_keeps_features(device):
    x, table, weights, _ = on(device, drawn("hash", 10))
    rest = arguments("hash")
    out, kept = torch.ops.luxel.field(x, None, table, None, weights.requires_grad_(), *rest, False)
    assert kept.numel() == 0
    with pytest.raises(RuntimeError, match="did not store its features"):
        out.sum().backward()
    with pytest.raises(RuntimeError, match="no gradient by x"):
        torch.ops.luxel.field(x.requires_grad_(), None, table, None, weights, *rest, True)[0].sum().backward()


def test_what_is_refused(device):
    x, table, weights, _ = on(device, drawn("hash", 10))
    grid, network = FIELDS["hash"]
    levels = grid.offsets, grid.scales, grid.hashed
    with pytest.raises(ValueError, match=r"x must be \[N, D\] and table \[E, F\], got \[3\] and"):
        field(x[0], table, weights, *levels, *network)
    with pytest.raises(ValueError, match=r"weights must be \[7168\] torch.float32 .*\[7167\]"):
        field(x, table, weights[1:], *levels, *network)
    with pytest.raises(ValueError, match="offsets must end at"):
        field(x, table[8:], weights, *levels, *network)
    with pytest.raises(ValueError, match=r"activation must be one of .* got 'tanh'"):
        field(x, table, weights, *levels, 64, 2, 16, "tanh")  # pyright: ignore[reportArgumentType]
    rest = arguments("hash")
    with pytest.raises(ValueError, match=r"order must be \[10\] torch.int32"):
        torch.ops.luxel.field(x, torch.arange(10, device=device), table, None, weights, *rest, False)
    if device.type == "cpu":
        with pytest.raises(ValueError, match="half_table must be None unless"):
            field(x, table, weights, *levels, *network, half_table=table.half())
