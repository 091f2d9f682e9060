"""How long MobileSAM takes to encode an image and to decode prompts."""

from __future__ import annotations

from typing import Any

import torch

from luxel.render.nets.mobile_sam import load_mobile_sam
from luxel.viewer.bench.timing import compare_ms

PROMPTS = 10
GOALS = {
    "cuda": {"encoder": 10.0, f"decoder, {PROMPTS} prompts": 5.0},
    "cpu": {"encoder": 2500.0, "decoder": 100.0},
}


@torch.no_grad()
def measure(width: int, height: int, device: torch.device, *, warmup: int, iterations: int) -> dict[str, Any]:
    """Milliseconds of the encoder, of the decoder with one prompt and with ten, and of a mask at the image's size.

    Args:
        width, height: of the image, pixels; its content does not change the time.
        device: where the network computes.
        warmup, iterations: untimed, then timed calls.

    Raises:
        WeightsError: the weights are missing or of another hash.
    """
    network = load_mobile_sam(device=device)
    image = torch.randint(0, 256, (height, width, 3), generator=torch.Generator().manual_seed(0)).to(
        torch.uint8
    )
    embedding = network.encode(image)
    points = torch.rand(PROMPTS, 1, 2, generator=torch.Generator().manual_seed(1)) * torch.tensor(
        [width, height]
    )
    logits = network.predict(embedding, points[:1]).logits[0]
    times = compare_ms(
        {
            "encoder": lambda _: network.encode(image),
            "decoder": lambda _: network.predict(embedding, points[:1]),
            f"decoder, {PROMPTS} prompts": lambda _: network.predict(embedding, points),
            "masks at the image's size": lambda _: network.resize(logits, embedding),
        },
        device,
        warmup=warmup,
        iterations=iterations,
    )
    goals = GOALS["cuda" if device.type == "cuda" else "cpu"]
    for name, result in times.items():
        result["goal"] = goals.get(name)
    return {"times": times, "threads": torch.get_num_threads()}
