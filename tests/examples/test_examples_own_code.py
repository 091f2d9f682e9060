"""The examples of code that is compiled at run time: a loss, and a policy of the rasterizer."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from luxel.render.errors import NativeError
from luxel.render.jit.kernel import complete_source, gpu_code
from luxel.render.jit.signature import parameters_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None, reason="examples are compiled with g++, which is missing"
)
# In a process of its own, because a policy stays registered.
AFTER_THE_POLICY = """
import runpy, sys, torch
from luxel.render.errors import NativeError
from luxel.render.native import cpu_library
from luxel.render.ops.raster import own_policies, policies
from luxel.render.ops.raster.probe import probe
device = torch.device(sys.argv[2])
example = runpy.run_path(sys.argv[1])
if device.type == "cpu":
    example["main"].__globals__["best_device"] = lambda: device
psnr = example["main"](60)
assert psnr > 28, psnr  # 60 steps: 30 dB
drawn = policies.policy("discs", "test")
assert drawn == ("discs", 3, 8, 256, False, False, False), drawn
row = torch.tensor([[5.0, 5.0, 0.5, 1.0, 4.0, 0.0, 0.0, 0.0]], device=device)
assert abs(float(probe(row, 6.0, 5.0, primitive="discs")) - 0.5 * (1 - 1 / 16)) < 1e-6
# Gradients of the image by the rows, in double, against differences: only the CPU computes in double.
if device.type == "cpu":
    draw = torch.Generator().manual_seed(3)
    rows = torch.zeros(9, 8, dtype=torch.float64)
    rows[:, :2] = torch.rand(9, 2, generator=draw, dtype=torch.float64) * torch.tensor([30.0, 20.0])
    rows[:, 2], rows[:, 3], rows[:, 4] = 0.6, torch.arange(9), 7.0
    colours = torch.rand(9, 3, generator=draw, dtype=torch.float64)
    weights = torch.randn(20, 30, 3, generator=draw, dtype=torch.float64)
    number = lambda rows: (example["draw"](rows, colours, 30, 20) * weights).sum()
    leaf = rows.clone().requires_grad_()
    number(leaf).backward()
    for row, column in ((0, 2), (4, 2), (8, 2)):  # opacity moves no outline
        step = torch.zeros_like(rows)
        step[row, column] = 1e-6
        slope = float(number(rows + step) - number(rows - step)) / 2e-6
        assert abs(slope - float(leaf.grad[row, column])) < 1e-5 * max(1, abs(slope)), (row, slope)
again = own_policies.register_policy("discs", example["POLICY"], "luxel::DiscPolicy", ["cpu"])
assert again == drawn and len(policies.policies(cpu_library())) == 4
for what, source, expected in (
    ("gaussians", example["POLICY"], "there is a policy of the name gaussians already"),
    ("broken", example["POLICY"].replace("kRow = 8", "kRow = 6"), "kRow: a row starts with x, y, opacity, depth"),
):
    try:
        own_policies.register_policy(what, source, "luxel::DiscPolicy", ["cpu"])
    except NativeError as error:
        assert expected in str(error), error
    else:
        raise AssertionError(what)
print("proved")
"""
OLD_HEADERS = """
import sys
from luxel.render.errors import NativeError
from luxel.render.jit.shared_object import cpu_object
from luxel.render.ops.raster.own_policies import load_policy, policy_object
stub = (
    '#include "kernels/raster/policy_stages.h"\\n'
    'static luxel::PolicyStages stages = {"old", "0123", 8, 256, 0,\\n'
    "                                     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};\\n"
    'extern "C" LUXEL_API const void* luxel_policy_object(void (*)(const char*), int64_t* bytes)'
    " { *bytes = sizeof stages; return &stages; }"
)
for content, expected in (
    (cpu_object(stub, "old"), "compiled with the headers of another version"),
    (cpu_object("int x;", "other"), "The shared object has no policy for libluxel_cpu"),
    (b"nothing", "does not load"),
):
    try:
        load_policy(content)
    except NativeError as error:
        assert expected in str(error), error
    else:
        raise AssertionError(expected)
try:
    policy_object("a b", "", "x")
except ValueError as error:
    assert "name must be an identifier, got 'a b'" in str(error)
else:
    raise AssertionError("a name that is no identifier is taken")
print("refused")
"""


def run(code: str, *arguments: object) -> str:
    words = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_loss_is_compiled_and_lowered() -> None:
    before, after = runpy.run_path(str(EXAMPLES / "own_loss.py"))["main"](40)
    assert after < 0.15 * before


def test_the_gradient_of_the_loss(device: torch.device) -> None:
    loss = runpy.run_path(str(EXAMPLES / "own_loss.py"))["linear_charbonnier"]
    generator = torch.Generator().manual_seed(5)
    image, target = torch.rand(2, 4, 5, 3, generator=generator, dtype=torch.float64).to(device)
    leaf = image.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, target), leaf)

    def linear(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)

    expected = ((linear(image) - linear(target)).square() + 1e-6).sqrt().mean()
    torch.testing.assert_close(loss(image, target), expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(loss(image.float(), target.float()), expected.float(), rtol=1e-4, atol=1e-6)


def test_a_policy_of_ones_own_is_registered_and_fitted() -> None:
    assert run(AFTER_THE_POLICY, EXAMPLES / "own_policy.py", "cpu").endswith("proved\n")


@pytest.mark.gpu
@pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="policies are compiled for GPUs with nvcc, which is missing"
)
def test_a_policy_of_ones_own_on_the_gpu(gpu: torch.device) -> None:
    assert run(AFTER_THE_POLICY, EXAMPLES / "own_policy.py", gpu).endswith("proved\n")


def test_objects_that_are_no_policy_are_refused() -> None:
    assert run(OLD_HEADERS).endswith("refused\n")


def test_a_policy_that_a_library_lacks() -> None:
    from luxel.render.native import cpu_library
    from luxel.render.ops.raster.policies import policy_number

    with pytest.raises(NativeError, match=r"probe: libluxel_cpu\w*\.so has no policy discs\. Register it"):
        policy_number("discs", cpu_library(), "probe")


@pytest.mark.parametrize(
    ("example", "entry"), [("own_loss.py", "linear_charbonnier"), ("own_policy.py", "count_tiles")]
)
def test_the_same_sources_compile_for_gpus(example: str, entry: str) -> None:
    names = runpy.run_path(str(EXAMPLES / example))
    source = names["SOURCE"] if "SOURCE" in names else names["POLICY"] + names["COUNT_TILES"]
    parameters = parameters_of(source, entry, torch.float32)
    whole = complete_source(source, entry, parameters, torch.float32, gpu=True)
    try:
        code = gpu_code(whole, entry, (9, 0))
    except NativeError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip(f"kernels are not compiled by NVRTC: {error}")
    assert code.startswith(b"\x7fELF")
