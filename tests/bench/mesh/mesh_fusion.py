"""Time of `luxel export --mesh` by stage: rendering, fusing depth, the finish; of a made-up scene.

``python tests/bench/mesh/mesh_fusion.py --views 100 --resolution 512`` from the root of the repository.
"""

from __future__ import annotations

import argparse
import math
import time

import torch

from luxel.render.geometry.camera import Camera
from luxel.render.native import best_device
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.surfaces.scene_surface import Finish, finished_surface

BOX = 2.0  # radius of the ball


def ball(count: int, device: torch.device) -> Gaussians:
    """Flat Gaussians on a sphere with waves, coloured by their place."""
    k = torch.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, k * math.pi * (3 - math.sqrt(5))
    flat = (1 - z * z).sqrt()
    normals = torch.stack([flat * angle.cos(), flat * angle.sin(), z], -1)
    quats = torch.stack([1 + normals[:, 2], -normals[:, 1], normals[:, 0], torch.zeros(count)], -1)
    size = BOX * math.sqrt(4 * math.pi / count)
    means = normals * (BOX + 0.1 * torch.sin(9 * normals).sum(-1, keepdim=True))
    scene = Gaussians(
        means,
        quats,
        torch.tensor([size, size, 0.1 * size]).log().repeat(count, 1),
        torch.full((count,), 4.0),
        torch.sin(20 * normals),
        torch.zeros(count, 0, 3),
    )
    return scene.map(lambda tensor: tensor.to(device))


def around(count: int, width: int, height: int) -> list[Camera]:
    """Cameras on a sphere that look at the ball."""
    cameras = []
    for k in range(count):
        z, angle = 1 - (2 * k + 1) / count, k * math.pi * (3 - math.sqrt(5))
        flat = math.sqrt(1 - z * z)
        eye = (7 * flat * math.cos(angle), 7 * flat * math.sin(angle), 7 * z)
        cameras.append(Camera.look_at(eye, (0, 0, 0), fov_y=math.radians(42), width=width, height=height))
    return cameras


class Stages:
    """Seconds of each stage; synchronises the device where one ends."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.stage, self.start = device, "", time.perf_counter()
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: str, share: float) -> None:
        if stage != self.stage:
            if self.stage:
                self.end()
            self.stage = stage

    def end(self) -> None:
        """Ends the stage, at the first view of the next."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self.start
        self.start = now


def main() -> None:
    """Runs twice, as the first run includes starting up, and prints the second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--resolution", type=int, default=512)
    parser.add_argument("--size", type=int, nargs=2, default=(1600, 1200), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--gaussians", type=int, default=300_000)
    parser.add_argument("--triangles", type=int)
    parser.add_argument("--texture", type=int)
    options = parser.parse_args()
    device = torch.device(best_device())
    scene, cameras = ball(options.gaussians, device), around(options.views, *options.size)
    finish = Finish(triangles=options.triangles, texture=options.texture)
    for run in range(2):
        stages, begin = Stages(device), time.perf_counter()
        say = print if run else lambda text: None
        made = finished_surface(
            scene, cameras, options.resolution, finish, on_progress=stages, say=say, antialiased=False
        )
        stages.end()
        total = time.perf_counter() - begin
    print(f"{len(made.mesh.faces):,} triangles on {device} in {total:.2f} s")
    for stage, seconds in stages.seconds.items():
        print(f"  {stage}: {seconds:.2f} s")
    if device.type == "cuda":
        print(f"  most memory: {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
