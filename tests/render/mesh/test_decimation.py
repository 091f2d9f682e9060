"""Meshes with fewer triangles."""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from test_holes import coloured, globe, without

from luxel.render.errors import LuxelError
from luxel.render.mesh.decimation import AGGRESSIVENESS, decimated, mended
from luxel.render.mesh.triangles import TriangleMesh

needed = pytest.mark.skipif(
    find_spec("fast_simplification") is None,
    reason="fast-simplification is not installed: decimation was not tested",
)


@needed
@pytest.mark.parametrize("count", [800, 200])
def test_a_sphere_keeps_its_shape_and_colours(count: int) -> None:
    whole = globe(40, 60)
    fewer = decimated(coloured(whole), count)
    assert 0.9 * count < len(fewer.mesh.faces) <= count and fewer.mesh.is_closed()
    assert fewer.mesh.faces.dtype == whole.faces.dtype and fewer.mesh.vertices.dtype == whole.vertices.dtype
    assert float(fewer.mesh.volume()) == pytest.approx(4 / 3 * math.pi, rel=0.05)
    expected = 0.5 + 0.5 * fewer.mesh.vertices
    assert (fewer.colours - expected).abs().max() < 0.05


@needed
def test_few_triangles_stay_as_they_are_and_open_meshes_stay_open() -> None:
    whole = globe()
    surface = coloured(whole)
    assert decimated(surface, len(whole.faces)) is surface
    half = without(whole, whole.corners().mean(1)[:, 2] > 0)
    fewer = decimated(coloured(half), 100).mesh
    assert 10 < len(fewer.faces) <= 100 and not fewer.is_closed()


@needed
@pytest.mark.parametrize("count", [4, 60, 150, 220])
def test_a_closed_mesh_stays_closed_whatever_is_asked_for(count: int) -> None:
    from luxel.scenes.synthetic.knot_mesh import ridged_knot

    knot = ridged_knot(300, 16)
    mesh = TriangleMesh(torch.from_numpy(knot.xyz), torch.from_numpy(knot.faces))
    fewer = decimated(coloured(mesh), count).mesh
    assert len(fewer.faces) and fewer.is_closed()


def test_flaws_are_mended() -> None:
    tetrahedron = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    places = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, -1], [2, 1, 0]]).double()
    # Two that share the side 0 1: four triangles are at it.
    other = torch.tensor([0, 1, 4, 5])[tetrahedron]
    shared = TriangleMesh(places, torch.cat([tetrahedron, other]))
    assert not shared.is_closed()
    whole = mended(shared)
    assert whole.is_closed() and len(whole.faces) == 8 and len(whole.vertices) == 8
    assert float(whole.volume()) == pytest.approx(float(shared.volume()))
    # A pair of triangles back to back at a corner, and one triangle twice.
    fin = torch.tensor([[3, 4, 5], [3, 5, 4]])
    finned = TriangleMesh(places, torch.cat([tetrahedron, fin]))
    assert mended(finned).is_closed() and len(mended(finned).faces) == 4
    twice = TriangleMesh(places, torch.cat([tetrahedron, tetrahedron[:1].roll(1, 1)]))
    assert mended(twice).is_closed() and len(mended(twice).faces) == 4
    assert not len(mended(TriangleMesh(places, fin)).faces)


@pytest.mark.parametrize(
    ("module", "package"),
    [("fast_simplification", "fast-simplification"), ("xatlas", "xatlas"), ("scipy", "scipy")],
)
def test_a_missing_package_is_named(module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from luxel.render.mesh.texture_atlas import unwrap
    from luxel.render.primitives.convexes import Convexes
    from luxel.render.primitives.convexes.hulls import to_mesh

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LuxelError, match=rf"need the package {package}.*luxel\[mesh\]"):
        if module == "xatlas":
            unwrap(globe(), 64)
        elif module == "scipy":
            to_mesh(Convexes.empty())
        else:
            decimated(coloured(globe()), 10)


def test_a_closed_mesh_that_could_only_be_opened_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def simplify(points, faces, target_count: int, agg: float):
        asked.append(agg)
        return points, faces[:target_count]

    monkeypatch.setitem(sys.modules, "fast_simplification", SimpleNamespace(simplify=simplify))
    surface = coloured(globe())
    assert decimated(surface, 50) is surface and asked == list(AGGRESSIVENESS)
    half = coloured(without(surface.mesh, surface.mesh.corners().mean(1)[:, 2] > 0))
    assert len(decimated(half, 50).mesh.faces) == 50
