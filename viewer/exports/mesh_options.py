"""Options of exported meshes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from luxel.render.bounds import Bounds, Options, Share
from luxel.viewer.options import optional


@dataclass
class MeshFinish(Options):
    """What is done with a mesh before it is written."""

    fill_holes: Share = 0.0
    """With --mesh of what cameras see: close openings whose length around is at most this share of the diagonal of the
    mesh's box, 0 to 1; larger ones, such as where a floor ends, stay."""
    triangles: Annotated[Annotated[int, Bounds(4, 10**9)] | None, optional("N")] = None
    """With --mesh: most triangles; edges are collapsed where it changes the surface least. Needs luxel[mesh]. Default:
    all, or 50000 with --texture."""
    texture: Annotated[Annotated[int, Bounds(64, 16384)] | None, optional("PIXELS")] = None
    """With --mesh of what cameras see, as .glb or .obj: pixels along each side of a texture, such as 2048. Needs
    luxel[mesh]. Default: colours of vertices alone."""

    def given(self) -> list[str]:
        """The names of the options that are not at their defaults."""
        options = {"--fill-holes": self.fill_holes, "--triangles": self.triangles, "--texture": self.texture}
        return [name for name, value in options.items() if value]
