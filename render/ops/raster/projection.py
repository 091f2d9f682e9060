"""How a stage that projects primitives becomes an operation: the same for all, but for its tensors and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.lens import NUMBERS as LENS_NUMBERS
from luxel.render.geometry.shutter import NUMBERS as SHUTTER_NUMBERS
from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

REST = (0, 3, 8, 15)  # coefficients above degree 0, by SH degree
TYPES = {
    "width": "int",
    "height": "int",
    "sh_degree": "int",
    "near": "float",
    "far": "float",
    "dilation": "float",
    "antialiased": "bool",
    "with_depth": "bool",
    "with_normals": "bool",
}
GAUSSIAN_OPTIONS = tuple(TYPES)
SWITCHES = ("raw_moments",)  # of the backward, in addition to its penalties
OFF = {"bool": False, "float": 0.0}  # what penalties and switches are where they are left out
POLYGON_OPTIONS = tuple(name for name in TYPES if name not in ("dilation", "antialiased", "with_normals"))
SURFEL_OPTIONS = tuple(name for name in TYPES if name not in ("dilation", "antialiased"))
_FIELDS = {"near": "near_plane", "far": "far_plane"}  # where a field of cuda/abi/raster.h has another name

Shapes = Mapping[str, tuple[int | None, ...]]  # of a row; None: any size

_DEFINED: dict[str, Projection] = {}  # by primitive


def projection_of(primitive: str) -> Projection:
    """The stage ``project_<primitive>``, which is defined as soon as its module is imported.

    Raises:
        ValueError: none of that name has been defined.
    """
    if primitive not in _DEFINED:
        raise ValueError(f"primitive must be one of {', '.join(sorted(_DEFINED))}, got {primitive}")
    return _DEFINED[primitive]


def type_of(name: str) -> str:
    """The type of an option, a switch or a penalty in a schema."""
    return "bool" if name in SWITCHES else TYPES.get(name, "float")


@dataclass(frozen=True)
class Projection:
    """A stage that turns N primitives into rows on the screens of C cameras, and its gradient.

    The operation takes the parameters, the cameras, statistics (optional, [N, 4], only handed on to the backward,
    which fills them) and the options; it gives splats [C, N, row], values [C, N, D], tile_counts [C, N], totals [2].
    Its backward, STAGE_bwd, takes the same, then tile_counts, the gradients of splats and values, and for each of
    ``moving`` whether its gradient is needed; it returns those of the parameters and of ``moving``. With ``shutters``
    both take rolling shutters too ([C, 8], optional), and the backward returns their gradient last, which is 0 unless
    ``of_shutters``.

    Args:
        stage: name of the operation and of the kernels.
        parameters: by name, the shape of a row of each; the first gives N, type and device.
        row: numbers of a splat, see cuda/abi/raster.h.
        options: names out of `TYPES`, in order.
        cameras: by name, the shape of each camera's part.
        moving: which of the cameras' tensors have gradients.
        more: fields that follow from the parameters.
        lenses: whether cameras may have a lens, whose numbers then follow the intrinsics, [C, 12].
        shutters: whether cameras may have a rolling shutter.
        penalties: weights of terms that the backward adds to the loss itself, and its switches, see cuda/abi/raster.h.
        squares: whether the values have the square of the depth after the depth, if normals are requested too.
    """

    stage: str
    parameters: Shapes
    row: int
    options: tuple[str, ...]
    cameras: Shapes = field(default_factory=lambda: {"world_to_cam": (4, 4), "intrinsics": (4,)})
    moving: tuple[str, ...] = ("world_to_cam",)
    more: Callable[[Mapping[str, Tensor]], dict[str, Any]] = lambda _: {}
    penalties: tuple[str, ...] = ()
    lenses: bool = False
    squares: bool = False
    shutters: bool = False

    def __post_init__(self) -> None:
        tensors = ", ".join(f"Tensor {name}" for name in self.names)
        options = ", ".join(f"{TYPES[name]} {name}" for name in self.options)
        needs_grad = ", ".join(f"bool of_{name}" for name in self.moving)
        penalties = (f"{type_of(name)} {name}={OFF[type_of(name)]}" for name in self.penalties)
        more = ", ".join(["Tensor? skip=None", *penalties])
        shutters, of_shutters = "", ""
        if self.shutters:
            shutters, of_shutters = ", Tensor? shutters", "=None, bool of_shutters=False"
        outputs = ", ".join(["Tensor"] * (len(self.parameters) + len(self.moving) + int(self.shutters)))
        define(
            f"{self.stage}({tensors}, Tensor? statistics, {options}{shutters}) -> (Tensor, Tensor, Tensor, Tensor)"
        )
        define(
            f"{self.stage}_bwd({tensors}, Tensor(a!)? statistics, {options}, Tensor tile_counts, Tensor g_splats, "
            f"Tensor g_values, {needs_grad}{shutters}{of_shutters}, *, {more}) -> ({outputs})"
        )
        register_implementation(self.stage, self._forward, self._fake, self._autograd, self._setup_context)
        register_implementation(f"{self.stage}_bwd", self._backward, self._backward_fake)
        _DEFINED[self.stage.removeprefix("project_")] = self

    @property
    def names(self) -> tuple[str, ...]:
        """Of all tensors, in order."""
        return (*self.parameters, *self.cameras)

    def __call__(
        self,
        tensors: tuple[Tensor, ...],
        statistics: Tensor | None,
        shutters: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Runs the operation.

        Raises:
            ValueError: shapes, types or devices do not fit, near is not positive, or the stage has no rolling shutters.
        """
        if not options["near"] > 0:
            raise ValueError(f"{self.stage}: near must be above 0, got {options['near']}")
        if shutters is not None and not self.shutters:
            raise ValueError(f"{self.stage}: cameras must not have a rolling shutter")
        given = [options[name] for name in self.options]
        if self.shutters:
            given.append(shutters)
        return getattr(torch.ops.luxel, self.stage)(*tensors, statistics, *given)

    def check(self, tensors: tuple[Tensor, ...], shutters: Tensor | None = None) -> None:
        """Raises ValueError where shapes, types or devices do not fit."""
        named = dict(zip(self.names, tensors, strict=True))
        first = tensors[0]
        if first.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"{self.stage}: {self.names[0]} must be float32 or float64, got {first.dtype}")
        expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {}
        for shapes, lead in ((self.parameters, first), (self.cameras, named["world_to_cam"])):
            for name, shape in shapes.items():
                full = (lead.shape[0], *shape)
                actual = named[name].shape
                sizes = actual if len(actual) == len(full) else full
                free = tuple(f if w is None else w for w, f in zip(full, sizes, strict=True))
                expected[name] = (
                    named[name],
                    first.dtype,
                    tuple(-1 if size is None else size for size in free),
                )
        calibration = named["intrinsics"]
        if self.lenses and calibration.dim() == 2 and calibration.shape[1] == 4 + LENS_NUMBERS:
            lead = named["world_to_cam"].shape[0]
            expected["intrinsics"] = calibration, first.dtype, (lead, 4 + LENS_NUMBERS)
        cameras = named["world_to_cam"].shape[0]
        expected["shutters"] = shutters, first.dtype, (cameras, SHUTTER_NUMBERS)
        require(self.stage, first.device, expected)

    def channels(self, options: tuple[Any, ...]) -> int:
        """D."""
        chosen = dict(zip(self.options, options, strict=True))
        depth, normals = int(chosen["with_depth"]), int(chosen.get("with_normals", False))
        return 3 + depth + 3 * normals + (depth * normals if self.squares else 0)

    def arguments(
        self, tensors: tuple[Tensor, ...], options: tuple[Any, ...], shutters: Tensor | None = None
    ) -> dict[str, Any]:
        """The fields of the argument struct that forward and backward share."""
        named = dict(zip(self.names, (t.contiguous() for t in tensors), strict=True))
        chosen = dict(zip(self.options, options, strict=True))
        stride = named["sh_rest"].shape[1]
        chosen["sh_degree"] = min(chosen["sh_degree"], REST.index(stride))
        fields = {_FIELDS.get(k, k): int(v) if isinstance(v, bool) else v for k, v in chosen.items()}
        counts = {
            "count": tensors[0].shape[0],
            "cameras": named["world_to_cam"].shape[0],
            "sh_stride": stride,
        }
        if self.lenses:
            counts["lens"] = int(named["intrinsics"].shape[1] > 4)
        if shutters is not None:
            named["shutters"] = shutters.contiguous()
        return {**named, **counts, **fields, **self.more(named)}

    def split(self, args: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
        """The arguments of an operation as tensors, statistics, options, and what follows."""
        n = len(self.names)
        return args[:n], args[n], args[n + 1 : n + 1 + len(self.options)], args[n + 1 + len(self.options) :]

    def _forward(self, *args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        tensors, _, options, rest = self.split(args)
        shutters = rest[0] if rest else None
        self.check(tensors, shutters)
        splats, values, tile_counts, totals = outputs = self._fake(*args)
        totals.zero_()
        if tile_counts.numel():
            library_for(splats.device).call(
                f"{self.stage}_fwd",
                splats.device,
                splats.dtype,
                **self.arguments(tensors, options, shutters),
                splats=splats,
                values=values,
                tile_counts=tile_counts,
                totals=totals,
            )
        return outputs

    def _fake(self, *args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        tensors, _, options, _ = self.split(args)
        first = tensors[0]
        n, c = first.shape[0], tensors[self.names.index("world_to_cam")].shape[0]
        return (
            first.new_empty(c, n, self.row),
            first.new_empty(c, n, self.channels(options)),
            first.new_empty(c, n, dtype=torch.int32),
            first.new_empty(2, dtype=torch.int64),
        )

    def _backward(self, *args: Any, **more: Any) -> tuple[Tensor, ...]:
        tensors, statistics, options, (tile_counts, g_splats, g_values, *rest) = self.split(args)
        needs_grad, shutters, of_shutters = self._needs(rest)
        grads = self._backward_fake(*args)
        of_parameters, of_cameras = grads[: len(self.parameters)], grads[len(self.parameters) :]
        for grad in of_cameras:
            grad.zero_()
        first = tensors[0]
        if first.shape[0]:
            pairs = list(zip(self.moving, of_cameras, needs_grad, strict=False))
            if shutters is not None:
                self.check(tensors, shutters)
                pairs.append(("shutters", of_cameras[-1], of_shutters))
            library_for(first.device).call(
                f"{self.stage}_bwd",
                first.device,
                first.dtype,
                **self.arguments(tensors, options, shutters),
                tile_counts=tile_counts,
                g_splats=g_splats.contiguous(),
                g_values=g_values.contiguous(),
                **{f"g_{name}": grad for name, grad in zip(self.parameters, of_parameters, strict=True)},
                **{f"g_{name}": grad if needed else None for name, grad, needed in pairs},
                statistics=statistics,
                **more,
            )
        return grads

    def _needs(self, rest: list[Any]) -> tuple[list[bool], Tensor | None, bool]:
        """What follows the gradients in the arguments of the backward: of ``moving``, the shutters, of the shutters."""
        needs_grad, more = rest[: len(self.moving)], [*rest[len(self.moving) :], None, False]
        return needs_grad, more[0], bool(more[1])

    def _backward_fake(self, *args: Any, **_: Any) -> tuple[Tensor, ...]:
        named = dict(zip(self.names, args, strict=False))
        like = [named[name] for name in (*self.parameters, *self.moving)]
        if self.shutters:
            shutters = self._needs(list(self.split(args)[3][3:]))[1]
            like.append(args[0].new_empty(0) if shutters is None else shutters)
        return tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in like)

    def _setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        tensors, statistics, ctx.options, rest = self.split(inputs)
        shutters = rest[0] if rest else None
        ctx.save_for_backward(*tensors, statistics, output[2], shutters)
        ctx.of_shutters = shutters is not None and shutters.requires_grad
        ctx.needs_grad = tuple(tensors[self.names.index(name)].requires_grad for name in self.moving)
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    def _autograd(
        self, ctx: Any, g_splats: Tensor | None, g_values: Tensor | None, *_: Any
    ) -> tuple[Any, ...]:
        *tensors, statistics, tile_counts, shutters = ctx.saved_tensors
        first, shape = tensors[0], tile_counts.shape
        if g_splats is None:
            g_splats = first.new_zeros(*shape, self.row)
        if g_values is None:
            g_values = first.new_zeros(*shape, self.channels(ctx.options))
        more = (shutters, ctx.of_shutters) if self.shutters else ()
        grads = getattr(torch.ops.luxel, f"{self.stage}_bwd")(
            *tensors, statistics, *ctx.options, tile_counts, g_splats, g_values, *ctx.needs_grad, *more
        )
        of_cameras = dict(zip(self.moving, grads[len(self.parameters) :], strict=False))
        needed = dict(zip(self.moving, ctx.needs_grad, strict=True))
        cameras = (of_cameras[name] if needed.get(name) else None for name in self.cameras)
        last = ((grads[-1] if ctx.of_shutters else None),) if self.shutters else ()
        return *grads[: len(self.parameters)], *cameras, *(None,) * (1 + len(self.options)), *last
