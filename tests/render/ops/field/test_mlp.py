"""The multilayer perceptron: the reference, finite differences, the same sums for any threads, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from luxel.render.fields.nets.mlp import Mlp
from luxel.render.ops.field.mlp import ACTIVATIONS, Network, mlp
from luxel.render.reference.field.mlp import mlp_reference

D = torch.float64
# inputs, width, hidden layers, outputs, activation, output activation
NETWORKS = [
    (32, 64, 2, 16, "relu", "none"),
    (1, 16, 1, 1, "softplus", "sigmoid"),
    (32, 16, 2, 16, "relu", "none"),
    (3, 32, 3, 5, "sigmoid", "softplus"),
    (128, 128, 1, 128, "none", "relu"),
    (17, 128, 3, 3, "softplus", "none"),
    (33, 64, 4, 37, "relu", "sigmoid"),
    (31, 16, 8, 127, "sigmoid", "none"),
    (19, 32, 0, 23, "relu", "softplus"),
    (128, 64, 0, 1, "none", "none"),
    (16, 32, 8, 48, "none", "softplus"),
]


def drawn(network: tuple, n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """x, weights that keep values near 1, and a gradient of the output; in double."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=D)

    matrices = [normal(o, i) * math.sqrt(2 / (o + i)) for o, i in Network(*network[:4]).shapes()]
    return normal(n, network[0]), torch.cat([m.flatten() for m in matrices]), normal(n, network[3])


def passes(network: tuple, of, x: Tensor, weights: Tensor, g_out: Tensor, **options) -> list[Tensor]:
    """Output and both gradients."""
    leaves = [x.clone().requires_grad_(), weights.clone().requires_grad_()]
    out = of(*leaves, *network, **options)
    return [out.detach(), *torch.autograd.grad(out, leaves, g_out)]


def assert_near(actual: list[Tensor], expected: list[Tensor], forward: float, backward: float) -> None:
    """Each value to a tolerance, relative to the largest of its tensor."""
    for name, a, b, of in zip(
        ("out", "g_x", "g_weights"), actual, expected, (forward, backward, backward), strict=True
    ):
        assert a.shape == b.shape, name
        scale = b.abs().max().item() if b.numel() else 1.0
        torch.testing.assert_close(
            a.cpu().to(D), b, rtol=0, atol=of * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


def away_from_kinks(network: tuple, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """`drawn`, of rows for which rounding to half moves no value over a kink of a ReLU."""
    x, weights, g_out = drawn(network, 40 * n)
    shapes = Network(*network[:4]).shapes()
    good, h = torch.ones(len(x), dtype=torch.bool), x
    for k, part in enumerate(weights.split([o * i for o, i in shapes])):
        activation = network[4] if k < network[2] else network[5]
        h = h @ part.view(shapes[k]).T
        if activation == "relu" and len(h):
            good &= (h.abs() > 4e-3 * h.std()).all(1)
        h = mlp_reference(
            h, torch.eye(h.shape[1], dtype=D).flatten(), h.shape[1], 16, 0, h.shape[1], "", activation
        )
    assert good.sum() >= n
    return x[good][:n], weights, g_out[:n]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, D], ids=["float", "double"])
def test_it_is_the_reference(device, network, dtype):
    if dtype == D and device.type == "cuda":
        pytest.skip("the GPU has float32 only")
    for n in (0, 1, 127, 129, 1000):
        given = [t.to(dtype) for t in drawn(network, n)]
        expected = passes(network, mlp_reference, *(t.to(D) for t in given))
        actual = passes(network, mlp, *(t.to(device) for t in given), precise=True)
        assert actual[0].dtype == dtype and actual[0].device.type == device.type
        assert_near(actual, expected, *((1e-12, 1e-10) if dtype == D else (1e-5, 1e-4)))


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_half_is_near_the_reference(device, network):
    """And the same from run to run. The CPU has no half, and computes in float."""
    for n in (0, 1, 129, *([9000] if device.type == "cuda" else [])):
        given = [t.float() for t in away_from_kinks(network, n)]
        expected = passes(network, mlp_reference, *(t.to(D) for t in given))
        actual = passes(network, mlp, *(t.to(device) for t in given))
        for name, a, b in zip(("out", "g_x", "g_weights"), actual, expected, strict=True):
            assert (a.cpu().to(D) - b).norm() <= 1e-2 * b.norm(), (name, n)
        if n and device.type == "cuda":
            assert not torch.equal(actual[0].cpu(), expected[0].float())  # half did take part
        again = passes(network, mlp, *(t.to(device) for t in given))
        assert all(torch.equal(a, b) for a, b in zip(actual, again, strict=True))


def test_by_hand(device):
    # One input, 16 hidden of which two are used: relu(2 x) - relu(-x)
    first, last = torch.zeros(16, 1), torch.zeros(1, 16)
    first[0], first[5], last[0, 0], last[0, 5] = 2.0, -1.0, 1.0, -1.0
    weights = torch.cat([first.flatten(), last.flatten()]).to(device).requires_grad_()
    x = torch.tensor([[3.0], [-4.0], [0.0]], device=device, requires_grad=True)
    out = mlp(x, weights, 1, 16, 1, 1)
    assert out.tolist() == [[6.0], [-4.0], [0.0]]
    out.sum().backward()
    assert x.grad is not None and weights.grad is not None
    assert x.grad.tolist() == [[2.0], [1.0], [0.0]]  # relu has no slope at 0
    expected = torch.zeros(32)
    expected[0], expected[5] = 3.0, 4.0  # of first: last * x where it passes
    expected[16], expected[21] = 6.0, 4.0  # of last: the hidden values
    assert weights.grad.tolist() == expected.tolist()


@pytest.mark.parametrize("of", [mlp, mlp_reference], ids=["stage", "reference"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_far_out(name, of):
    x = torch.tensor([-800.0, -30.0, -1e-9, 0.5, 30.0, 800.0], dtype=D)[:, None].requires_grad_()
    out = of(x, torch.ones(1, dtype=D), 1, 16, 0, 1, "none", name)
    (g_x,) = torch.autograd.grad(out.sum(), x)

    def by_hand(v: float) -> tuple[float, float]:
        s = 0.0 if v < -700 else 1 / (1 + math.exp(-v))
        soft = max(v, 0.0) + math.log1p(math.exp(-abs(v)))
        return {
            "none": (v, 1.0),
            "relu": (max(v, 0.0), float(v > 0)),
            "softplus": (soft, s),
            "sigmoid": (s, s * (1 - s)),
        }[name]

    expected = torch.tensor([by_hand(v) for v in x.flatten().tolist()], dtype=D)
    torch.testing.assert_close(torch.cat([out, g_x], 1).detach(), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("network", [(3, 16, 1, 2, "softplus", "sigmoid"), (5, 16, 0, 3, "none", "softplus")])
def test_gradcheck(network):
    x, weights, _ = drawn(network, 4)
    leaves = x.requires_grad_(), weights.requires_grad_()
    assert torch.autograd.gradcheck(lambda *given: mlp(*given, *network), leaves)


@pytest.mark.parametrize(
    "network",
    [(3, 16, 2, 2, "softplus", "sigmoid"), (5, 16, 0, 3, "none", "softplus"), (4, 16, 1, 1, "relu", "none")],
)
def test_gradients_of_gradients(network):
    """By finite differences of the first ones, and against the reference; with a ReLU away from its kinks."""
    x, weights, g_out = away_from_kinks(network, 4)
    leaves = x.requires_grad_(), weights.requires_grad_(), g_out.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda *given: mlp(*given, *network), leaves[:2], leaves[2:])

    def second(of) -> list[Tensor]:
        g_x, g_weights = torch.autograd.grad(of(*leaves[:2], *network), leaves[:2], g_out, create_graph=True)
        value = (g_x.norm(dim=1) - 1).square().sum() + (g_weights**3).sum()
        return list(torch.autograd.grad(value, leaves))

    for actual, expected in zip(second(mlp), second(mlp_reference), strict=True):
        assert (actual - expected).norm() <= 1e-10 * expected.norm()


def test_gradient_of_the_slope(device):
    """What an eikonal loss needs, in float: the gradient of a function of g_x alone, by the weights."""
    network = (16, 32, 2, 1, "softplus", "none")
    x, weights, _ = (t.float() for t in drawn(network, 300))

    def of(function, where: torch.device | str, dtype: torch.dtype, **options) -> Tensor:
        leaves = [t.to(where, dtype).requires_grad_() for t in (x, weights)]
        (g_x,) = torch.autograd.grad(
            function(*leaves, *network, **options).sum(), leaves[0], create_graph=True
        )
        return torch.autograd.grad((g_x.norm(dim=1) - 1).square().mean(), leaves[1])[0].cpu().to(D)

    actual, expected = of(mlp, device, torch.float32, precise=True), of(mlp_reference, "cpu", D)
    assert (actual - expected).norm() <= 1e-4 * expected.norm()


def test_one_gradient_alone(device):
    network = NETWORKS[0]
    x, weights, g_out = (t.float().to(device) for t in drawn(network, 200))
    _, g_x, g_weights = passes(network, mlp, x, weights, g_out)
    for k, expected in enumerate((g_x, g_weights)):
        given = [x.clone(), weights.clone()]
        given[k].requires_grad_()
        (actual,) = torch.autograd.grad(mlp(*given, *network), given[k], g_out)
        assert torch.equal(actual, expected)


def test_only_training_keeps_activations(device):
    network = NETWORKS[0]
    x, weights, _ = (t.float().to(device) for t in drawn(network, 10))
    weights.requires_grad_()

    def kept(out: Tensor) -> list[Tensor]:
        return [] if out.grad_fn is None else list(out.grad_fn.saved_tensors)  # pyright: ignore

    saved = (0,) if device.type == "cuda" else (2, 10, 64)  # a GPU computes small networks anew
    assert sum(t.shape == saved for t in kept(mlp(x, weights, *network))) == 1
    more = torch.cat([weights.detach(), weights.detach()[: 64 * 64]]).requires_grad_()
    assert sum(t.shape == (3, 10, 64) for t in kept(mlp(x, more, 32, 64, 3, 16))) == 1
    with torch.no_grad():
        assert not kept(mlp(x, weights, *network))
    codes = (1, 0, False)
    out, hidden = torch.ops.luxel.mlp(x, weights, *network[:4], *codes, False)
    assert hidden.numel() == 0
    with pytest.raises(RuntimeError, match="did not store its activations"):
        out.sum().backward()


def test_any_number_of_threads_gives_the_same_bits():
    network = (33, 64, 2, 37, "sigmoid", "none")
    given = [t.float() for t in drawn(network, 5000)]  # more blocks of rows than sums are kept of
    expected = passes(network, mlp_reference, *(t.to(D) for t in given))
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append(passes(network, mlp, *given))
    finally:
        torch.set_num_threads(threads)
    assert_near(results[0], expected, 1e-5, 1e-4)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_strided_inputs(device):
    network = NETWORKS[0]
    x, weights, g_out = (t.float().to(device) for t in drawn(network, 50))
    expected = passes(network, mlp, x, weights, g_out)
    wide = torch.cat([x, x], 1)[:, :32]
    leaf = wide.detach().requires_grad_()
    out = mlp(leaf, weights.repeat_interleave(2)[::2], *network)
    (g_x,) = torch.autograd.grad(out, leaf, g_out.T.contiguous().T)
    assert torch.equal(out, expected[0]) and torch.equal(g_x, expected[1])


def test_what_is_not_finite_stays_in_its_row(device):
    network = NETWORKS[0]
    x, weights, _ = (t.float().to(device) for t in drawn(network, 40))
    clean = mlp(x, weights, *network)
    x[13, 3] = math.nan
    out = mlp(x, weights, *network)
    rest = torch.arange(40, device=device) != 13
    assert out[13].isnan().all() and torch.equal(out[rest], clean[rest])


def test_module(device):
    net = Mlp(7, 3, width=32, hidden_layers=2, output_activation="sigmoid", seed=5, device=device)
    assert [tuple(m.shape) for m in net.matrices()] == [(32, 7), (32, 32), (3, 32)]
    assert net.weights.shape == (32 * 7 + 32 * 32 + 3 * 32,)
    for matrix in net.matrices():
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.9 * bound < matrix.abs().max() <= bound
        assert abs(matrix.mean()) < 0.2 * bound
    same, other = (Mlp(7, 3, width=32, hidden_layers=2, seed=seed, device=device) for seed in (5, 6))
    assert torch.equal(net.weights, same.weights) and not torch.equal(net.weights, other.weights)
    x = torch.randn(20, 7, generator=torch.Generator().manual_seed(0)).to(device)
    h = x
    for matrix in net.matrices()[:-1]:
        h = (h @ matrix.T).relu()
    tolerance = 1e-5 if device.type == "cpu" else 1e-2
    torch.testing.assert_close(net(x), (h @ net.matrices()[-1].T).sigmoid(), rtol=tolerance, atol=tolerance)
    net.load_state_dict(other.state_dict())
    assert torch.equal(net.weights, other.weights)


def test_it_learns(device):
    net = Mlp(3, 1, width=32, hidden_layers=2, seed=1, device=device)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = 2 * torch.rand(512, 2, generator=torch.Generator().manual_seed(0)).to(device) - 1
    expected = x[:, :1] * x[:, 1:]
    x = torch.cat([x, torch.ones_like(expected)], 1)  # what a bias would read
    scale, losses = 128.0, []
    for _ in range(200):
        loss = (net(x) - expected).square().mean()
        optimiser.zero_grad()
        (scale * loss).backward()  # Adam does not mind the scale
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 2e-3 < 0.05 < losses[0]


@pytest.mark.parametrize("precise", [False, True])
def test_opcheck(device, precise):
    network = NETWORKS[2]
    x, weights, g_out = (t.float().to(device) for t in drawn(network, 20))
    sizes = (*network[:4], 3, 2, precise)
    leaves = x.clone().requires_grad_(), weights.clone().requires_grad_()
    torch.library.opcheck(torch.ops.luxel.mlp.default, (*leaves, *sizes, True))
    torch.library.opcheck(torch.ops.luxel.mlp.default, (x, weights, *sizes, False))
    out, hidden = torch.ops.luxel.mlp(x, weights, *sizes, True)
    for expected in ((True, True), (False, True), (True, False)):
        given = (g_out, x, weights, out, hidden, *sizes, *expected)
        torch.library.opcheck(torch.ops.luxel.mlp_bwd.default, given)


def test_what_is_refused(device):
    x, weights, _ = (t.float().to(device) for t in drawn(NETWORKS[0], 20))
    with pytest.raises(ValueError, match=r"x must be \[20, 32\] torch.float32 .*\[20, 31\]"):
        mlp(x[:, 1:], weights, 32, 64, 2, 16)
    with pytest.raises(ValueError, match=r"x must be \[N, 32\], float32 or float64, got \[32\]"):
        mlp(x[0], weights, 32, 64, 2, 16)
    with pytest.raises(ValueError, match=r"x must be .* got \[20, 32\] torch.float16"):
        mlp(x.half(), weights.half(), 32, 64, 2, 16)
    with pytest.raises(ValueError, match=r"weights must be \[7168\] torch.float32 .*\[7167\]"):
        mlp(x, weights[1:], 32, 64, 2, 16)
    with pytest.raises(ValueError, match=r"weights must be .* got \[7168\] torch.float64"):
        mlp(x, weights.double(), 32, 64, 2, 16)
    sizes = {"inputs": 32, "width": 64, "hidden_layers": 2, "outputs": 16}
    for name, wrong in (("inputs", 129), ("inputs", 0), ("outputs", 0), ("outputs", 129), ("width", 48)):
        with pytest.raises(ValueError, match=f"{name} must be .* got {wrong}"):
            mlp(x, weights, **{**sizes, name: wrong})
    for wrong in (-1, 9):
        with pytest.raises(ValueError, match=f"hidden_layers must be 0 to 8, got {wrong}"):
            Mlp(32, 16, hidden_layers=wrong)
    for name in ("activation", "output_activation"):
        with pytest.raises(ValueError, match=f"mlp: {name} must be one of .*'softplus'.* got 'tanh'"):
            mlp(x, weights, **sizes, **{name: "tanh"})
        with pytest.raises(ValueError, match=f"mlp: {name} must be one of"):
            Mlp(32, 16, **{name: "tanh"})
    with pytest.raises(ValueError, match="output_activation must be 0 to 3, got 4"):
        torch.ops.luxel.mlp(x, weights, 32, 64, 2, 16, 1, 4, False, False)
    out, hidden = torch.ops.luxel.mlp(x, weights, 32, 64, 2, 16, 1, 0, True, True)
    with pytest.raises(ValueError, match=r"mlp_bwd: hidden must be \[2, 20, 64\].*\[1, 20, 64\]"):
        torch.ops.luxel.mlp_bwd(out, x, weights, out, hidden[1:], 32, 64, 2, 16, 1, 0, True, True, True)
