"""Distance fields: positions to the signed distance from a surface."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.application import TO_SUN, Application
from luxel.render.fields.applications import CONFIGURATIONS
from luxel.render.fields.build import field_of
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.data.sdf_samples import MeshSamples, SamplePool, SdfBatch
from luxel.render.fields.drawing.frame_mode import counts_on_device
from luxel.render.fields.drawing.sphere_tracer import LARGEST, DeviceSphereTracer
from luxel.render.fields.drawing.surface_shading import SurfaceLook, backdrop, shade_surface
from luxel.render.fields.nets.point_function import Snapshot, refreshed_snapshot
from luxel.render.geometry.camera import Camera
from luxel.render.mesh.marching_cubes import field_surface
from luxel.render.mesh.triangles import TriangleMesh, merged, without_degenerate
from luxel.render.ops.field.mlp import mlp
from luxel.render.ops.field.sphere_trace import Hits, Rays, sphere_trace

MARGIN = 0.05  # of the unit box, around the longest side of the mesh
OFFSET = 0.01  # added to the true distance in the denominator of the loss
CHUNK = 1 << 20  # positions at a time outside of training
SCORED = {"cpu": 1 << 16, "cuda": 1 << 21}  # random positions of a measurement, by device
CELLS = {"cpu": 64, "cuda": 128}  # of the coarse grid of distances, along an axis, by device
SLACK = 1e-3  # how far off the coarse grid may be, in sides of the box
STEPS, GROWTH = 32, 0.125  # most steps of a ray; growth of the tolerance with each step
TOLERANCE = 2e-4  # how near a ray must come to the surface, in sides of the box
PIXEL = 0.1  # added to the tolerance, in pixels
# Light of `SdfField.render_sunlit`, of a `SurfaceLook`.
SUNLIT: dict[str, Any] = {"sun": 0.75, "shadows": True, "lamp": 0.1, "sky": 0.3}
# Batches in the pool that samples are drawn from, a share of which is redrawn at each step; 0: no pool.
POOL = {"cpu": 0, "cuda": 16}


class SdfField(Application):
    """Fits the signed distance of a triangle mesh (Müller et al. 2022, section 5.2, "signed distance functions").

    The mesh lies in the unit box, its longest side 1 - 2 `MARGIN`; distances of the field are in sides of the box,
    those of `distances` in the mesh's own units. The loss is the mean of |d - d*| / (|d*| + 0.01), half of it at
    uniform positions, half near the surface, with exact distances d*; on a GPU samples come from a `SamplePool`.

    Args:
        config: of the field.
        eikonal: weight of the mean of (|gradient| - 1)^2 at uniform positions (Gropp et al. 2020), which needs second
            derivatives: several times the time of a step.

    Raises:
        ValueError: the eikonal loss has a weight, and the encoding no second derivatives.

    Attributes:
        centre: buffer, the middle of the unit box in the mesh's coordinates, [3].
        side: buffer, the length of its sides in the mesh's units, [].
        look: material and light.
        samples: sampler of the mesh that `begin` took, or None.
        pool: from which batches are drawn, or None.
        pool_batches: size of the pool that samples are drawn from, in batches; 0: all are drawn anew at each step.
            None: `POOL` of the device. Set it before `begin`.
    """

    kind = "sdf"
    training_defaults = CONFIGURATIONS["sdf"].defaults
    hash_growth = 1.38191
    data_type = "mesh"
    outputs = ("colour", "shadows")
    up, front = (0.0, 0.0, 1.0), (0.6, -1.0, 0.4)
    centre: Tensor
    side: Tensor

    def __init__(self, config: FieldConfig, *, eikonal: float = 0.0) -> None:
        super().__init__(config)
        self.field = field_of(config, 3, 1)
        if eikonal > 0 and not self.field.encoding.twice:
            raise ValueError(
                f"SdfField: eikonal must be 0, encoding {config.encoding} has no second derivatives"
            )
        self.eikonal = eikonal
        self.look = SurfaceLook()
        self.pool_batches: int | None = None
        self.register_buffer("centre", torch.full((3,), 0.5))
        self.register_buffer("side", torch.tensor(1.0))
        self._grid: Tensor | None = None
        self._snapshot: Snapshot | None = None
        self._renderer: DeviceSphereTracer | None = None
        self.samples: MeshSamples | None = None
        self.pool: SamplePool | None = None
        self.register_load_state_dict_post_hook(lambda *_: self._forget())

    def begin(self, data: Any, device: torch.device) -> None:
        """Takes a mesh.

        If it is closed, where necessary after vertices at the same position have been merged, inside is what the
        triangles enclose, whether they all face outwards or inwards; otherwise inside is where most of several rays
        cross it an odd number of times.

        Args:
            data: a `TriangleMesh`, or whatever has ``xyz`` [V, 3] and ``faces`` [F, 3].
            device: where it is trained.

        Raises:
            LuxelError: it is no mesh, is empty, has no extent, or has values that are not finite.
        """
        mesh = checked_mesh(data)
        low, high = mesh.vertices.amin(0), mesh.vertices.amax(0)
        self.centre.copy_(0.5 * (low + high))
        self.side.copy_((high - low).max() / (1 - 2 * MARGIN))
        local = (mesh.vertices - self.centre.double().cpu()) / self.side.double().cpu() + 0.5
        unit = TriangleMesh(local, mesh.faces).to(self.field.network.weights.dtype).to(device)
        self.samples, self.pool = MeshSamples(unit), None
        if batches := POOL[device.type] if self.pool_batches is None else self.pool_batches:
            # Steps draw with the seed itself.
            generator = torch.Generator(device).manual_seed(self.config.seed + 1)
            self.pool = SamplePool(self.samples, self.config.batch, batches, generator)
        self._forget()

    def draw_batch(self, generator: torch.Generator) -> SdfBatch:
        """Half uniform in the unit box, half near the surface, moved by Gaussians of many sizes."""
        if self.pool is not None:
            return self.pool.draw(generator)
        return self._mesh_samples().draw(self.config.batch, generator)

    def loss(self, batch: SdfBatch) -> Tensor:
        """The mean relative error of a batch, and the eikonal loss where it has a weight."""
        distances = self.field(batch.positions)[:, 0]
        truth = batch.distances
        loss = ((distances - truth).abs() / (truth.abs() + OFFSET)).mean()
        if self.eikonal > 0:
            uniform = batch.positions[: len(batch.positions) // 2].detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.field(uniform).sum(), uniform, create_graph=True)
            loss = loss + self.eikonal * (slope.norm(dim=-1) - 1).square().mean()
        return loss

    def after_step(self, step: int) -> None:
        """Discards the coarse grid, which was computed from the previous parameters."""
        self._forget()

    def stored_samples(self) -> dict[str, Tensor]:
        """The pool."""
        return {} if self.pool is None else {"pool": self.pool.rows, "pool_next": self.pool.next}

    def capture_key(self) -> Hashable:
        """Whether there are second derivatives in a step."""
        return (self.eikonal,)

    def distances(self, points: Tensor) -> Tensor:
        """Signed distances in the mesh's units at its coordinates, [..., 3] to [...].

        Beyond the unit box they are those at its edge.
        """
        return self.field(self.to_unit(points))[..., 0] * self.side

    def to_unit(self, points: Tensor) -> Tensor:
        """Coordinates of the mesh to those of the unit box, [..., 3]."""
        return (points - self.centre) / self.side + 0.5

    def slopes(self, positions: Tensor, detail: int | None = None) -> Tensor:
        """The gradient of the distance by positions in the unit box, [N, 3] to [N, 3]; not differentiable.

        Args:
            positions: [N, 3].
            detail: levels of the encoding with more cells than this along an axis are treated as constant: hash
                collisions make their features noisy, which hardly moves the surface but tilts its normals. None: all
                levels count.
        """
        encoding, network = self.field.encoding, self.field.network
        with torch.enable_grad():
            leaf = positions.detach().requires_grad_()
            features = encoding.exact(leaf)
            chosen = network.activation, network.output_activation
            sizes = network.network[:4]
            out = mlp(features, network.weights.detach(), *sizes, *chosen, precise=network.precise)
            (g_features,) = torch.autograd.grad(out, features, torch.ones_like(out), retain_graph=True)
            if detail is not None:
                g_features[:, encoding.fine(detail)] = 0
            return torch.autograd.grad(features, leaf, g_features)[0]

    def trace(self, rays: Rays, tolerance: float = TOLERANCE, widening: float = 0.0) -> Hits:
        """Intersections of rays in the unit box with the surface; not differentiable.

        Args:
            rays: M of them.
            tolerance, widening: see `luxel.render.ops.field.sphere_trace.sphere_trace`.
        """
        with torch.no_grad():
            evaluate = self._snapshot = refreshed_snapshot(self.field, self._snapshot)
            return sphere_trace(
                rays,
                self.coarse_grid(),
                evaluate,
                tolerance=tolerance,
                widening=widening,
                growth=GROWTH,
                steps=STEPS,
            )

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The surface under a lamp at the camera and a sky, [H, W, 3]; see `SurfaceLook`. No gradients.

        Args:
            camera: one, in the mesh's coordinates.
            background: [3]; None: the sky of `look`.
        """
        return self._rendered(camera, background, self.look)

    def render_sunlit(
        self, camera: Camera, background: Tensor | None = None, to_sun: tuple[float, float, float] = TO_SUN
    ) -> Tensor:
        """As `render`, with a sun whose shadows are traced and weaker light from the camera and the sky, [H, W, 3]."""
        return self._rendered(camera, background, replace(self.look, sun_direction=to_sun, **SUNLIT))

    def _rendered(self, camera: Camera, background: Tensor | None, look: SurfaceLook) -> Tensor:
        """The surface under the light of a look, [H, W, 3]."""
        camera = camera.to(self.device)
        pose = camera.cam_to_world
        cam_to_unit = torch.cat([pose[:3, :3] / self.side, self.to_unit(pose[:3, 3])[:, None]], 1)
        rays = Rays(
            camera.width * camera.height,
            cam_to_unit=cam_to_unit.contiguous(),
            intrinsics=camera.intrinsics.contiguous(),
            width=camera.width,
        )
        self._snapshot = refreshed_snapshot(self.field, self._snapshot)
        if rays.count > LARGEST or not (
            counts_on_device(self.device) and self._snapshot.supports_live_count()
        ):
            hits = self.trace(rays, widening=PIXEL / float(camera.intrinsics[:2].max()))
            image = backdrop(rays, look, background)
        else:
            hits, image = self._traced(rays, background)
        image = shade_surface(self, rays, hits, look, image)
        return image.view(camera.height, camera.width, 3)

    def _traced(self, rays: Rays, background: Tensor | None) -> tuple[Hits, Tensor]:
        """Hits of a camera's rays, and the colours behind the surface; the host waits once."""
        assert self._snapshot is not None
        if self._renderer is None:
            self._renderer = DeviceSphereTracer(self.device, STEPS, GROWTH)
        given = self._snapshot, self._snapshot.key(), rays, self.coarse_grid()
        with self._renderer.traced(*given, tolerance=TOLERANCE, pixels=PIXEL) as hits:
            image = backdrop(rays, self.look, background)  # meanwhile the device traces
            return hits(), image

    def coarse_grid(self) -> Tensor:
        """Distances at the centres of the cells of the unit box, less `SLACK`, [R, R, R]; until parameters change."""
        if self._grid is None:
            cells = CELLS[self.device.type]
            along = (torch.arange(cells, device=self.device) + 0.5).to(self.centre.dtype) / cells
            y, z = torch.meshgrid(along, along, indexing="ij")
            planes = max(1, CHUNK // cells**2)
            parts = []
            with torch.no_grad():
                for x in along.split(planes):
                    shape = (len(x), cells, cells)
                    positions = [x[:, None, None].expand(shape), y.expand(shape), z.expand(shape)]
                    parts.append(
                        self.field(torch.stack(positions, -1).view(-1, 3), coherent=True).view(shape)
                    )
            self._grid = torch.cat(parts) - SLACK
        return self._grid

    def evaluate(self) -> dict[str, float]:
        """Errors against the exact distance, in sides of the unit box.

        Returns:
            mean_error: mean |error|, half of it at uniform positions and half near the surface; mean_error_uniform and
            mean_error_near: of either; iou: of the insides, at uniform positions.
        """
        samples, generator = self._mesh_samples(), torch.Generator(self.device).manual_seed(1)
        count = SCORED[self.device.type]
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        done = 0
        with torch.no_grad():
            while done < count:
                size = min(CHUNK, count - done)
                positions, truth = samples.draw(2 * size, generator)
                distances = self.field(positions)[:, 0]
                error = (distances - truth).abs().double()
                inside, truly_inside = distances[:size] < 0, truth[:size] < 0
                both, either = (inside & truly_inside).sum(), (inside | truly_inside).sum()
                sums += torch.stack([error[:size].sum(), error[size:].sum(), both.double(), either.double()])
                done += size
        uniform, near, both, either = sums.tolist()
        return {
            "mean_error": (uniform + near) / (2 * count),
            "mean_error_uniform": uniform / count,
            "mean_error_near": near / count,
            "iou": both / either if either else 1.0,
        }

    def surface(self, resolution: int, level: float | None = None) -> TriangleMesh:
        """The surface as triangles in the mesh's coordinates, by marching cubes.

        Args:
            resolution: cells along the unit box.
            level: must be None: it has no density.

        Raises:
            LuxelError: a level is given.
            ValueError: resolution below 1.
        """
        if level is not None:
            raise LuxelError(f"A field of {self.kind!r} has no density.", "Leave --level out.")
        mesh = field_surface(self.field, resolution, device=self.device, dtype=self.centre.dtype)
        return TriangleMesh((mesh.vertices - 0.5) * self.side + self.centre, mesh.faces)

    @property
    def centres(self) -> Tensor:
        """The corners of the mesh's box, or of the cube around it, [8, 3]."""
        corners = torch.tensor([-1.0, 1.0], device=self.device)
        half = (0.5 - MARGIN) * self.side
        return self.centre + half * torch.cartesian_prod(corners, corners, corners)

    def _mesh_samples(self) -> MeshSamples:
        """Samples of the mesh that `begin` took."""
        if self.samples is None:
            raise LuxelError("The field has no mesh to learn from.", "Call `begin` with one first.")
        return self.samples

    def _forget(self) -> None:
        """Discards the coarse grid when parameters have changed."""
        self._grid = None

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Moves or converts the field; discards what was prepared on the previous device."""
        self._grid = self._snapshot = self._renderer = None
        return super()._apply(fn, recurse)


def checked_mesh(data: Any) -> TriangleMesh:
    """The mesh in float64 on the CPU, after validation.

    Raises:
        LuxelError: it is not a mesh, or has no area.
    """
    if isinstance(data, TriangleMesh):
        vertices, faces = data.vertices, data.faces
    elif hasattr(data, "xyz") and hasattr(data, "faces"):
        vertices, faces = torch.as_tensor(data.xyz), torch.as_tensor(data.faces)
    else:
        raise LuxelError(f"A distance is of a mesh, got {type(data).__name__}.", "Give vertices and faces.")
    good = vertices.dim() == 2 and vertices.shape[1] == 3 and faces.dim() == 2 and faces.shape[1] == 3
    if not good or faces.is_floating_point():
        raise LuxelError(
            f"A mesh has vertices [V, 3] and faces [F, 3], got {list(vertices.shape)} and {list(faces.shape)}.",
            "Give triangles by the numbers of their vertices.",
        )
    if len(faces) and not (int(faces.min()) >= 0 and int(faces.max()) < len(vertices)):
        raise LuxelError("The mesh has faces of vertices that are not there.", "Export it again.")
    mesh = without_degenerate(TriangleMesh(vertices.detach().cpu().double(), faces.detach().cpu()))
    if not len(mesh.faces):
        raise LuxelError("The mesh has no triangles that could be used.", "Export it again, as triangles.")
    if not mesh.is_closed():
        clean = without_degenerate(merged(mesh))
        mesh = clean if clean.is_closed() else mesh
    if not mesh.areas().sum() > 0:
        raise LuxelError("The mesh has no area: its triangles are all flat.", "Export it again.")
    return mesh
