"""safetensors files of scenes: raw parameters by name, in their own float type or in half precision."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from luxel.render.primitives import PRIMITIVES, Parameters, PrimitiveSpec
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import EXPORT_AGAIN, write_atomically
from luxel.scenes.files.reading import check_file, read_bytes, reading
from luxel.scenes.files.scene_facts import facts_from, in_words
from luxel.scenes.files.scene_format import FACTS, LABEL, SceneFacts, SceneFormat
from luxel.scenes.files.scenes.ply_columns import unused_columns
from luxel.scenes.unused import Unused, things_are

SINGLE_OR_LESS = {torch.float16, torch.bfloat16, torch.float32}  # read as float32, also mixed


def save_safetensors(
    path: str | Path,
    scene: Parameters,
    half: bool = False,
    labels: Tensor | None = None,
    facts: SceneFacts | None = None,
) -> None:
    """Writes the raw parameters through a temporary file; the metadata have the name of the primitive.

    Args:
        path: the file.
        scene: any primitive.
        half: write float16, about half the size. Parameters that the primitive lists as ``exact``, and tensors with
            values beyond 65504, stay float32.
        labels: uint8 [N], written as the tensor label; None: no such tensor.
        facts: written into the metadata, see `luxel.scenes.files.scene_facts`; None: none.

    Raises:
        CaptureError: the file cannot be written.
    """
    from safetensors.numpy import save

    tensors = {name: tensor.detach().cpu() for name, tensor in scene.tensors().items()}
    if half:
        exact = PRIMITIVES[scene.primitive].exact
        tensors = {
            name: tensor.float() if name in exact else halved(tensor) for name, tensor in tensors.items()
        }
    if labels is not None:
        tensors[LABEL] = labels.detach().cpu()
    arrays = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in tensors.items()}
    metadata = {"format": "pt", "primitive": scene.noun, **in_words(facts or SceneFacts())}
    write_atomically(Path(path), _with_sorted_metadata(save(arrays, metadata)))


def _with_sorted_metadata(content: bytes) -> list[bytes | memoryview]:
    """The file with its metadata in alphabetical order, in two parts: safetensors writes them in the order of a hash
    table, which is another one in each process."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, memoryview(content)[end:]]


def halved(tensor: Tensor) -> Tensor:
    """The tensor in float16, or in float32 where a finite value would overflow."""
    single, small = tensor.float(), tensor.half()
    return small if torch.equal(small.isfinite(), single.isfinite()) else single


def load_safetensors(path: str | Path) -> Parameters:
    """The primitives of a file; its tensors must be those of a primitive, others are not read.

    Float16, bfloat16 and mixtures of these with float32 become float32; float64 stays.

    Raises:
        CaptureError: the file cannot be read, or its tensors are of no primitive.
    """
    from safetensors.torch import load

    path = Path(path)
    with reading(path, "a safetensors file", EXPORT_AGAIN):
        return _parameters(path, load(read_bytes(path)))


def read_safetensors_facts(path: str | Path) -> SceneFacts:
    """What the metadata of a file say.

    Raises:
        CaptureError: the file cannot be read.
    """
    from safetensors import safe_open

    path = Path(path)
    check_file(path)
    with reading(path, "a safetensors file", EXPORT_AGAIN), safe_open(str(path), framework="numpy") as file:
        return facts_from(file.metadata() or {})


def read_safetensors_unused(path: str | Path) -> list[Unused]:
    """Tensors and metadata of a file that are not read.

    Raises:
        CaptureError: the file cannot be read.
    """
    from safetensors import safe_open

    path = Path(path)
    check_file(path)
    with reading(path, "a safetensors file", EXPORT_AGAIN), safe_open(str(path), framework="numpy") as file:
        names, metadata = list(file.keys()), file.metadata() or {}
    own = max(
        (spec.engine.parameters.names for spec in PRIMITIVES.values()),
        key=lambda known: len(known) if set(known) <= set(names) else 0,
    )
    left = [key for key in metadata if key not in ("format", "primitive", *FACTS)]
    out = unused_columns((name for name in names if name not in own), "tensor")
    if left:
        said = f"{things_are(left, 'entry', 'entries', ' of its metadata')} not read."
        out.append(Unused("metadata", len(left), left[0], said))
    return out


def _parameters(path: Path, tensors: dict[str, Tensor]) -> Parameters:
    """The primitives of the tensors of a file."""
    known = [spec.engine.parameters for spec in PRIMITIVES.values()]
    tensors = {name: tensor for name, tensor in tensors.items() if name != LABEL}
    named = [spec for spec in PRIMITIVES.values() if set(spec.engine.parameters.names) <= set(tensors)]
    size = max((len(spec.engine.parameters.names) for spec in named), default=0)
    named = [spec for spec in named if len(spec.engine.parameters.names) == size]
    parameters = next(
        (spec.engine.parameters for spec in [s for s in named if _fits(s, tensors)] or named), None
    )
    if parameters is not None:  # others are named by `read_safetensors_unused`
        tensors = {name: tensors[name] for name in parameters.names}
    if parameters is None:
        expected = "; ".join(f"{cls.noun} have {', '.join(cls.names)}" for cls in known)
        raise CaptureError(
            f"{path}: the tensors {', '.join(sorted(tensors)) or '(none)'} are of no primitive ({expected}).",
            EXPORT_AGAIN,
        )
    types = {tensor.dtype for tensor in tensors.values()}
    if types <= SINGLE_OR_LESS:
        tensors = {name: tensor.float() for name, tensor in tensors.items()}
    elif types != {torch.float64}:
        names = ", ".join(sorted(str(t).removeprefix("torch.") for t in types))
        raise CaptureError(
            f"{path}: tensors must be float32, float16 or bfloat16, or all float64, not {names}.",
            EXPORT_AGAIN,
        )
    return parameters(**tensors)


def _fits(spec: PrimitiveSpec, tensors: dict[str, Tensor]) -> bool:
    """Whether rows of the tensors have as many numbers as those of the primitive, where they are fixed."""
    widths = {part.parameter: len(part.names) for part in spec.columns if part.parameter and not part.repeats}
    return all(tensors[name].shape[1:].numel() == width for name, width in widths.items())


SAFETENSORS = SceneFormat(
    ".safetensors",
    "any primitives, raw parameters",
    load_safetensors,
    save_safetensors,
    options=("half", "labels"),
    holds=FACTS,
    read_facts=read_safetensors_facts,
    read_unused=read_safetensors_unused,
)
