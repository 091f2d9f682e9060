"""In which coordinates a scene is exported: those of the capture, or upright and in metres."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from luxel.render.primitives.similarity import Similarity
from luxel.scenes.files.meshes.mesh import Mesh
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.measuring.measurements import transformed_facts, upright_transform


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of an exported file.

    Args:
        transform: from the coordinates of the scene to those of the file.
        facts: of the scene, in the coordinates of the file.
        shift: what was subtracted from large coordinates of the capture, in the scene; None: nothing.
        upright, metric: what ``transform`` does.
    """

    transform: Similarity
    facts: SceneFacts
    shift: tuple[float, float, float] | None
    upright: bool = False
    metric: bool = False

    @staticmethod
    def chosen(facts: SceneFacts, upright: bool, metric: bool) -> Coordinates:
        """Those of the options --upright and --metric.

        Args:
            facts: of the scene.

        Raises:
            LuxelError: the up direction or the length of a unit is needed and not known.
        """
        transform = upright_transform(facts, upright=upright, metric=metric)
        after = transformed_facts(facts, upright=upright, metric=metric)
        return Coordinates(transform, after, facts.shift, upright, metric)

    @property
    def changed(self) -> bool:
        """Whether they are not those of the scene."""
        return self.upright or self.metric

    @property
    def from_capture(self) -> Similarity:
        """The transform from the coordinates of the capture, from which nothing is subtracted."""
        if self.shift is None:
            return self.transform
        x, y, z = self.shift
        return self.transform.after(Similarity(translation=(-x, -y, -z)))

    def moved(self, mesh: Mesh) -> Mesh:
        """A mesh in coordinates of the scene, in those of the file."""
        if not self.changed:
            return mesh
        xyz = self.transform.apply(torch.from_numpy(np.asarray(mesh.xyz, np.float64))).numpy()
        return replace(mesh, xyz=xyz.astype(mesh.xyz.dtype), facts=replace(self.facts, antialiased=None))

    @property
    def stated(self) -> SceneFacts:
        """The facts that a file has to hold: those that follow from its coordinates are left out."""
        return replace(
            self.facts,
            up=None if self.upright else self.facts.up,
            metres=None if self.metric else self.facts.metres,
        )

    def in_words(self, name: str) -> str:
        """The sentence about a file whose coordinates changed."""
        words = [*(["upright"] if self.upright else []), *(["in metres"] if self.metric else [])]
        origin = "" if self.shift is None else f" Its origin is {_numbers(self.shift)} of the capture."
        return f"{name} is {' and '.join(words)}.{origin}"


def _numbers(values: tuple[float, float, float]) -> str:
    return " ".join(f"{x:.10g}" for x in values)
