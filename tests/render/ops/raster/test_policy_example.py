"""The example policy (cuda/examples) against autograd, and the compiler's messages about incomplete policies."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from luxel.render.ops.raster.own_policies import policy_object

CUDA = Path(__file__).parents[4] / "cuda"
WIDTH, HEIGHT, COUNT = 37, 21, 40
MAX_ALPHA = 0.9375  # exact in float

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None, reason="the example policy is compiled with g++, which is missing"
)


def compiled(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["g++", "-std=c++17", "-I", str(CUDA), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("disc") / "libdisc.so"
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-shared", "-fPIC")
    done = compiled(*flags, str(CUDA / "examples/disc.cpp"), "-o", str(out))
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(out))


def discs() -> tuple[Tensor, Tensor]:
    """Rows [N, 8] and values [N, 3]; some opacities are above the cap, some discs are off the image."""
    generator = torch.Generator().manual_seed(3)

    def draw(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)

    x, y, radius = draw(-6, WIDTH + 6, COUNT), draw(-6, HEIGHT + 6, COUNT), draw(2, 12, COUNT)
    opacity, depth = draw(0.1, 1.0, COUNT), torch.arange(COUNT, dtype=torch.float64)
    zero = torch.zeros(COUNT, dtype=torch.float64)
    return torch.stack([x, y, opacity, depth, radius, zero, zero, zero], 1), draw(0, 1, COUNT, 3)


def blended(rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Image [H, W, 3] and transmittance [H, W] in torch."""
    rows_y, columns_x = (torch.arange(size, dtype=torch.float64) + 0.5 for size in (HEIGHT, WIDTH))
    y, x = torch.meshgrid(rows_y, columns_x, indexing="ij")
    transmittance = torch.ones(HEIGHT, WIDTH, dtype=torch.float64)
    alive = torch.ones(HEIGHT, WIDTH, dtype=torch.bool)
    image = torch.zeros(HEIGHT, WIDTH, 3, dtype=torch.float64)
    for row, value in zip(rows, values, strict=True):
        squared = (x - row[0]) ** 2 + (y - row[1]) ** 2
        alpha = (row[2] * (1 - squared / row[4] ** 2)).clamp(max=MAX_ALPHA)
        counts = alive & (alpha.detach() >= 1 / 255)
        after = transmittance * (1 - alpha)
        ends = counts & (after.detach() <= 1e-4)
        alive = alive & ~ends
        weight = torch.where(counts & ~ends, alpha * transmittance, 0)
        image = image + weight[..., None] * value
        transmittance = torch.where(counts & ~ends, after, transmittance)
    return image, transmittance


@pytest.mark.parametrize("function", ["disc_walk", "disc_tiles"])
def test_disc_agrees_with_autograd(library, function):
    rows, values = (t.requires_grad_() for t in discs())
    image, transmittance = blended(rows, values)
    g_image = torch.randn(image.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    image.backward(g_image)
    out = [torch.empty_like(image), torch.empty_like(transmittance)]
    grads = [torch.zeros_like(rows), torch.zeros_like(values)]
    call = getattr(library, function)
    call.restype = None
    pointer = ctypes.c_void_p
    call(
        pointer(rows.data_ptr()),
        pointer(values.data_ptr()),
        COUNT,
        WIDTH,
        HEIGHT,
        ctypes.c_double(MAX_ALPHA),
        *(pointer(t.data_ptr()) for t in (*out, g_image, *grads)),
    )
    assert (transmittance < 0.01).any() and (transmittance == 1).any(), "crowded and empty pixels"
    for actual, expected in zip([*out, *grads], [image, transmittance, rows.grad, values.grad], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)
    assert (grads[0][:, [0, 1, 2, 4]].abs().sum(0) > 0.1).all()


def test_sums_of_the_gpu_are_the_gradient(library):
    """The part of the policy that the GPU runs, evaluated on the host."""
    row = torch.tensor([10.0, 8.0, 0.5, 1.0, 6.0, 0, 0, 0], requires_grad=True)
    px, py, g_alpha = 12.5, 5.5, 0.75
    loss = sum(
        g_alpha * row[2] * (1 - ((px - row[0]) ** 2 + (y - row[1]) ** 2) / row[4] ** 2) for y in (py, py + 4)
    )
    assert isinstance(loss, Tensor)
    loss.backward()
    actual = torch.zeros(8)
    call = library.disc_column_gradient
    call.restype = None
    numbers = (ctypes.c_float(v) for v in (px, py, g_alpha))
    call(ctypes.c_void_p(row.data_ptr()), *numbers, ctypes.c_void_p(actual.data_ptr()))
    torch.testing.assert_close(actual, row.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("static constexpr int kRow = 6;", "kRow: a row starts with x, y, opacity, depth"),
        ("static constexpr int kPiece = 100;", "kPiece: a warp takes 32 instances"),
        ("struct Bounds : DiscBounds<float> { void band(); };", "Bounds needs `static Bounds of"),
        ("static int pack(const float*);", "a policy needs `static Packed pack"),
        ("static constexpr bool kMultiEdge = true;", "Packed of a multi-edge policy"),
    ],
)
def test_a_broken_policy_is_named_by_the_compiler(tmp_path, member, message):
    source = tmp_path / "broken.cpp"
    source.write_text(
        '#include "examples/disc_policy.h"\n'
        f"namespace luxel {{ struct Broken : DiscPolicy<float> {{ {member} }}; }}\n"
        "static_assert(luxel::check_gpu_policy<luxel::Broken>());\n"
    )
    done = compiled("-fsyntax-only", str(source))
    assert done.returncode != 0 and message in done.stderr, done.stderr


def test_the_name_of_a_policy_is_an_identifier() -> None:
    with pytest.raises(ValueError, match="name must be an identifier, got 'a b'"):
        policy_object("a b", "", "x")
