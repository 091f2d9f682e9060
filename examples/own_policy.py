"""A splat of one's own: discs whose alpha falls off with the squared distance, as a policy in one header of C++ that
luxel compiles and registers when the program runs. luxel itself is not built again.

    python examples/own_policy.py [STEPS]      fits 64 discs to an image, on the CPU or the GPU
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from luxel.render import jit
from luxel.render.native import best_device
from luxel.render.ops.raster.bin_splats import bin_splats, tile_grid
from luxel.render.ops.raster.blend_splats import blend_splats
from luxel.render.ops.raster.own_policies import register_policy

# The policy: outline, alpha at a pixel, and the gradient of that by the row x, y, opacity, depth, radius, 0, 0, 0.
POLICY = (Path(__file__).resolve().parents[1] / "cuda" / "examples" / "disc_policy.h").read_text()
# How many tiles a disc touches: what the projection of a primitive leaves with each row.
COUNT_TILES = """
void count_tiles(int64_t i, const real* rows, int32_t columns, int32_t lines, int32_t* counts) {
  int32_t count = 0;
  for_tile_rows(DiscBounds<real>::of(rows + 8 * i), columns, lines, 0, lines,
                [&](int, int first, int end) { count += end - first; });
  counts[i] = count;
}
"""


def draw(rows: Tensor, colours: Tensor, width: int, height: int) -> Tensor:
    """An image [H, W, 3] of discs on black; differentiable.

    Args:
        rows: [N, 8], a larger depth is behind.
        colours: [N, 3].
    """
    n, (columns, lines) = len(rows), tile_grid(width, height)
    counts = torch.empty(1, n, dtype=torch.int32, device=rows.device)
    count_tiles = jit.compile(POLICY + COUNT_TILES, "count_tiles", rows.device, dtype=rows.dtype)
    count_tiles(n, rows.detach().contiguous(), columns, lines, counts)
    totals = torch.stack([(counts > 0).sum(), counts.sum()])
    capacity = n * columns * lines
    size = {"width": width, "height": height, "primitive": "discs"}
    instances, ranges, _, plan = bin_splats(
        rows[None], counts, totals, visible_capacity=n, capacity=capacity, **size
    )
    image, *_ = blend_splats(rows[None], colours[None], None, instances, ranges, plan, max_alpha=0.99, **size)
    return image[0]


def target_image(width: int, height: int) -> Tensor:
    """Two soft stripes, [H, W, 3]."""
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    red = torch.exp(-((x - y) * 4).square())
    return torch.stack([red, torch.exp(-((x + y - 1) * 4).square()), red * 0.5], -1)


def main(steps: int = 60) -> float:
    """Returns the PSNR of the fit in dB."""
    device, width, height, n = best_device(), 96, 64, 64
    print(register_policy("discs", POLICY, "luxel::DiscPolicy", [device]))
    target = target_image(width, height).to(device)
    generator = torch.Generator().manual_seed(0)
    centres = torch.rand(n, 2, generator=generator) * torch.tensor([width, height])
    log_radius, opacity_logits, colours = torch.full((n,), 2.6), torch.zeros(n), torch.full((n, 3), 0.3)
    leaves = [leaf.to(device).requires_grad_() for leaf in (centres, log_radius, opacity_logits, colours)]
    rates = (0.5, 0.02, 0.05, 0.02)
    optimizer = torch.optim.Adam([{"params": [p], "lr": lr} for p, lr in zip(leaves, rates, strict=True)])
    depth, unused = torch.arange(n, device=device).float(), torch.zeros(n, 3, device=device)
    psnr = 0.0
    for _ in range(steps):
        centres, log_radius, opacity_logits, colours = leaves
        columns = torch.stack([opacity_logits.sigmoid(), depth, log_radius.exp()], 1)
        rows = torch.cat([centres, columns, unused], 1)
        loss = (draw(rows, colours, width, height) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        psnr = float(-10 * loss.detach().log10())
    print(f"{n} discs, {steps} steps: {psnr:.1f} dB")
    return psnr


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
