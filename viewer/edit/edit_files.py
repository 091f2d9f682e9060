"""Edits as bytes: a safetensors file with what each change is in its metadata, and its arrays as tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
from torch import Tensor

from luxel.viewer.edit.changes import Change, Edit, MaskChange, RowChange, SetChange, State
from luxel.viewer.edit.masks import PackedMask
from luxel.viewer.edit.object_changes import ObjectsChange


def pack_edit(edit: Edit) -> bytes:
    """An edit without its title."""
    from safetensors.torch import save

    kinds, tensors = [], {}
    for i, change in enumerate(edit.changes):
        kind, arrays = _as_tensors(change)
        kinds.append(kind)
        tensors |= {f"{i}.{name}": tensor.detach().cpu().contiguous() for name, tensor in arrays.items()}
    return save(tensors, {"changes": json.dumps(kinds)})


def unpack_edit(content: bytes, title: str, state: State) -> Edit:
    """The reverse of `pack_edit`.

    Args:
        content: as written.
        title: of the edit.
        state: of a scene of as many primitives, with the same parameters.

    Raises:
        ValueError: the content is damaged or is not of this scene.
    """
    from safetensors.torch import load

    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        kinds = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["changes"])
        changes = [_as_change(kind, _part(tensors, i), state) for i, kind in enumerate(kinds)]
    except Exception as error:  # damaged content makes parsers raise exceptions of any type
        raise ValueError(f"content is no edit of this scene: {type(error).__name__}: {error}") from error
    return Edit(title, tuple(changes))


def _part(tensors: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    """The tensors of one change."""
    prefix = f"{number}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _as_tensors(change: Change) -> tuple[list[str], dict[str, Tensor]]:
    """What a change is, and its tensors."""
    if isinstance(change, RowChange):
        return ["rows"], {"": change.rows, **change.values}
    if isinstance(change, ObjectsChange):
        return ["objects", change.text()], change.tensors()
    assert isinstance(change, MaskChange | SetChange)
    packed = change.flips if isinstance(change, MaskChange) else change.mask
    arrays = {} if packed is None else packed.arrays()
    kind = "mask" if isinstance(change, MaskChange) else "set"
    return [kind, change.name], {name: torch.from_numpy(array) for name, array in arrays.items()}


def _as_change(kind: list[str], tensors: dict[str, Tensor], state: State) -> Change:
    """The reverse of `_as_tensors`, checked against the state."""
    count = state.scene.count
    if kind[0] == "rows":
        rows, scene = tensors.pop(""), state.scene.tensors()
        low, high = (int(rows.min()), int(rows.max())) if len(rows) else (0, -1)
        if rows.dtype != torch.int64 or not (low >= 0 and high < count):
            raise ValueError(f"rows must be int64 from 0 to {count - 1}, got {rows.dtype} {low} to {high}")
        for name, values in tensors.items():
            shape, dtype = [len(rows), *scene[name].shape[1:]], scene[name].dtype
            if list(values.shape) != shape or values.dtype != dtype:
                raise ValueError(f"{name} must be {dtype} {shape}, got {values.dtype} {list(values.shape)}")
        device = state.scene.device
        return RowChange(rows.to(device), {name: values.to(device) for name, values in tensors.items()})
    if kind[0] == "objects":
        return ObjectsChange.load(kind[1], tensors, count)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    if kind[0] == "set":
        return SetChange(kind[1], PackedMask.load(arrays, count) if arrays else None)
    if kind[0] != "mask" or kind[1] not in state.masks:
        raise ValueError(f"changes must be rows, set, mask or objects, got {kind}")
    return MaskChange(kind[1], PackedMask.load(arrays, count))
