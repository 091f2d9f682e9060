"""The objects of a run: objects.json in its folder, and alongside it objects/ with the label maps and the labels.

objects.json names the files of objects/ with their digests, and the scene that the labels are of. Files of objects/
are named by their content and never changed, and objects.json is replaced last: an interrupted write leaves the old
objects.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives.parameters import Parameters
from luxel.render.runs.folder.owner import own
from luxel.render.runs.strict_json import (
    LARGEST,
    JsonError,
    read_object,
    require_seal,
    sealed,
    validated,
)
from luxel.render.segment.segmenter import Prompt
from luxel.render.storage.batch import Batch
from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import content_of

FORMAT = 1
FILE, FOLDER = "objects.json", "objects"
MAX_OBJECTS = 254
_OBJECT = re.compile(rf"{FOLDER}/[0-9a-f]{{64}}\.(png|labels|hand)")

Label = Annotated[int, msgspec.Meta(ge=1, le=MAX_OBJECTS)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class SceneObject(msgspec.Struct):
    """An object.

    Args:
        label: 1 to 254.
        name: unique.
        colour: for display, 0 to 255.
    """

    label: Label
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    colour: tuple[int, int, int]


class _Prompt(msgspec.Struct):
    label: Label
    view: str
    points: list[tuple[float, float, bool]]
    box: tuple[float, float, float, float] | None


class _Map(msgspec.Struct):
    view: str
    digest: Digest


class _Body(msgspec.Struct):
    format: Annotated[int, msgspec.Meta(ge=1)]
    scene: Digest
    primitives: Annotated[int, msgspec.Meta(ge=0)]
    objects: list[SceneObject]
    prompts: list[_Prompt]
    maps: list[_Map]
    labels: Digest
    by_hand: Digest | None = None


@dataclass
class Objects:
    """Objects of a scene of N primitives.

    Args:
        scene: see `scene_digest`.
        labels: uint8 [N], on the CPU.
        objects: in the order of their labels.
        prompts: what they were segmented from; empty for given masks.
        maps: the label maps that voted, by name of the view, uint8 [H, W].
        by_hand: primitives whose labels were set by hand, not by votes, bool [N] on the CPU; None: none.
    """

    scene: str
    labels: Tensor
    objects: list[SceneObject] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    maps: dict[str, Tensor] = field(default_factory=dict)
    by_hand: Tensor | None = None

    def voted(self, labels: Tensor) -> Tensor:
        """New labels from votes, uint8 [N] on the CPU, in which those that were set by hand stay.

        Raises:
            ValueError: labels of another number of primitives.
        """
        if labels.shape != self.labels.shape:
            raise ValueError(f"labels must be {list(self.labels.shape)} as before, got {list(labels.shape)}")
        return labels if self.by_hand is None else torch.where(self.by_hand, self.labels, labels)

    def named(self, name: str) -> SceneObject | None:
        """The object of a name, or None."""
        return next((entry for entry in self.objects if entry.name == name), None)

    def add(self, name: str) -> SceneObject:
        """Adds an object with the next free label and a colour of its own.

        Raises:
            LuxelError: there are 254 already.
        """
        used = {entry.label for entry in self.objects}
        label = next((label for label in range(1, MAX_OBJECTS + 1) if label not in used), None)
        if label is None:
            raise LuxelError(
                f"There are {MAX_OBJECTS} objects already, which is the most that a scene can have.",
                "Begin anew with --replace.",
            )
        self.objects.append(SceneObject(label, name, colour_of(label)))
        return self.objects[-1]

    def fits(self, scene: Parameters) -> bool:
        """Whether the labels are of this scene."""
        return scene.count == len(self.labels) and scene_digest(scene) == self.scene

    def require_scene(self, folder: Path, scene: Parameters) -> None:
        """Raises LuxelError unless the labels are of this scene."""
        if not self.fits(scene):
            raise LuxelError(
                f"{folder / FILE}: the labels are of another scene: {len(self.labels):,} primitives, and this one has "
                f"{scene.count:,}, or they have changed since.",
                f"Vote again from the retained masks: `luxel segment {folder} --kept`.",
            )


def colour_of(label: int) -> tuple[int, int, int]:
    """A colour for a label, distinct from those of labels near it: hues a golden ratio apart."""
    hue = (label * 0.6180339887498949) % 1.0
    wheel = [abs((hue * 6 + shift) % 6 - 3) - 1 for shift in (0, 4, 2)]
    red, green, blue = (round(255 * (0.15 + 0.8 * min(max(part, 0.0), 1.0))) for part in wheel)
    return red, green, blue


def scene_digest(scene: Parameters) -> str:
    """SHA-256 over the class of the primitives, their centres and opacities."""
    digest = hashlib.sha256(f"{scene.primitive} {scene.count};".encode())
    for tensor in (scene.centres, scene.opacity_logits):
        plain = np.ascontiguousarray(tensor.detach().cpu().float().numpy())
        digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def save_objects(folder: Path, objects: Objects, *, keep_maps: bool = False) -> Path:
    """Writes the objects of a run; this process owns the folder meanwhile.

    Args:
        folder: of the run.
        objects: to be written.
        keep_maps: leave the label maps that the folder has, whatever those of the objects are.

    Returns:
        The path of objects.json.

    Raises:
        LuxelError: another process writes into the folder, a file cannot be written, or what is there is damaged.
    """
    with own(folder):
        entries: list[dict[str, str]] | None = None
        if keep_maps and has_objects(folder):
            with _reading(folder / FILE):
                entries = [msgspec.to_builtins(entry) for entry in _read_body(folder / FILE).maps]
        try:
            return _written(folder, objects, entries)
        except OSError as error:
            raise LuxelError(
                f"{folder / FILE}: cannot be written ({error.strerror or error}).",
                "Free some disk space, or check the permissions of the folder.",
            ) from error


def _written(folder: Path, objects: Objects, entries: list[dict[str, str]] | None) -> Path:
    output = OutputFolder(folder)
    _adopt_earlier(output)
    if os.path.lexists(folder / FILE) and not output.is_own(FILE):
        output.set_aside(FILE)  # damaged or changed: what is written does not build upon it
    with output.batch() as batch:
        maps = entries
        if maps is None:
            maps = [
                {"view": view, "digest": _keep(batch, _png(labels), ".png")}
                for view, labels in objects.maps.items()
            ]
        labels = _keep(batch, objects.labels.cpu().contiguous().numpy().tobytes(), ".labels")
        by_hand = None
        if objects.by_hand is not None and bool(objects.by_hand.any()):
            by_hand = _keep(batch, np.packbits(objects.by_hand.numpy()).tobytes(), ".hand")
        body = {
            "format": FORMAT,
            "scene": objects.scene,
            "primitives": len(objects.labels),
            "objects": msgspec.to_builtins(objects.objects),
            "prompts": [
                {
                    "label": p.label,
                    "view": p.view,
                    "points": [list(q) for q in p.points],
                    "box": p.box and list(p.box),
                }
                for p in objects.prompts
            ],
            "maps": maps,
            "labels": labels,
            **({} if by_hand is None else {"by_hand": by_hand}),
        }
        batch.write(FILE, json.dumps(sealed(body), indent=1).encode())
        used = {f"{entry['digest']}.png" for entry in maps} | {f"{labels}.labels", f"{by_hand}.hand"}
        batch.delete(name for name in output.names(_OBJECT) if Path(name).name not in used)
    return folder / FILE


def _adopt_earlier(output: OutputFolder) -> None:
    """Adds objects that luxel 0.2.0 or earlier wrote to the manifest: their files are named by their content."""
    if not has_objects(output.path) or output.contents(FILE):
        return
    with contextlib.suppress(OSError, JsonError):
        _read_body(output.path / FILE)
        position = output.path / FOLDER
        names = [f"{FOLDER}/{name}" for name in os.listdir(position) if _OBJECT.fullmatch(f"{FOLDER}/{name}")]
        output.adopt([FILE, *(name for name in names if _is_named_by_content(output.path / name))])


def _is_named_by_content(path: Path) -> bool:
    try:
        with open_regular(path, follow=False) as file:
            return content_of(file).sha256 == path.stem
    except OSError:
        return False


def has_objects(folder: Path) -> bool:
    """Whether a run has objects."""
    return (folder / FILE).is_file()


def load_objects(folder: Path, *, maps: bool = True) -> Objects:
    """The objects of a run.

    Args:
        folder: of the run.
        maps: read the label maps too.

    Raises:
        LuxelError: there are none, or a file of theirs is missing, damaged or of a newer version.
    """
    path = folder / FILE
    if not path.is_file():
        raise LuxelError(f"{folder}: this run has no objects yet.", "Segment it; see `luxel segment --help`.")
    with _reading(path):
        body = _read_body(path)
        stored = _read(folder, body.labels, ".labels", body.primitives)
        labels = torch.from_numpy(np.frombuffer(stored, np.uint8).copy())
        if len(labels) != body.primitives:
            raise JsonError(f"it has {body.primitives} primitives, its labels {len(labels)}")
        by_hand = None
        if body.by_hand is not None:
            by_hand = _bits(_read(folder, body.by_hand, ".hand", body.primitives), len(labels))
        read = {entry.view: _map(_read(folder, entry.digest, ".png")) for entry in body.maps} if maps else {}
    prompts = [Prompt(p.label, p.view, tuple(p.points), p.box) for p in body.prompts]
    return Objects(body.scene, labels, body.objects, prompts, read, by_hand)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what is wrong with the files of the objects into LuxelError."""
    try:
        yield
    except OSError as error:
        raise LuxelError(
            f"{path}: a file of the objects cannot be read ({error.strerror or error}).",
            "Restore it from a copy, or segment the run anew with --replace.",
        ) from error
    except JsonError as error:
        raise LuxelError(
            f"{path}: is damaged ({error}).",
            "Restore it from a copy, or segment the run anew with --replace.",
        ) from error


def _read_body(path: Path) -> _Body:
    """The content of objects.json.

    Raises:
        JsonError: it is damaged or of a newer version.
        OSError: it cannot be read.
    """
    raw = read_object(path)
    body = validated(raw, _Body)
    if body.format > FORMAT:
        raise JsonError(f"format {body.format} is of a newer version of luxel")
    require_seal(raw)
    if len({entry.label for entry in body.objects}) < len(body.objects):
        raise JsonError("a label occurs twice")
    return body


def _keep(batch: Batch, content: bytes, suffix: str) -> str:
    """Writes a file named by its digest; returns the digest."""
    digest = hashlib.sha256(content).hexdigest()
    batch.write(f"{FOLDER}/{digest}{suffix}", content)
    return digest


def _read(folder: Path, digest: str, suffix: str, largest: int = LARGEST) -> bytes:
    with open_regular(folder / FOLDER / f"{digest}{suffix}") as file:
        content = file.read(largest + 1)
    if hashlib.sha256(content).hexdigest() != digest:
        raise JsonError(f"{FOLDER}/{digest[:12]}...{suffix} does not match its checksum")
    return content


def _png(labels: Tensor) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(labels.cpu().numpy()).save(buffer, "PNG")
    return buffer.getvalue()


def _map(content: bytes) -> Tensor:
    with Image.open(io.BytesIO(content)) as image:
        return torch.from_numpy(np.array(image, dtype=np.uint8))


def _bits(content: bytes, count: int) -> Tensor:
    packed = np.frombuffer(content, np.uint8)
    if len(packed) != (count + 7) // 8:
        raise JsonError(f"it has {count} primitives, and marks of {8 * len(packed)}")
    return torch.from_numpy(np.unpackbits(packed, count=count).astype(bool))


def as_plain(objects: Objects) -> list[dict[str, Any]]:
    """The objects with their numbers of primitives, for messages and JSON."""
    pixels = torch.bincount(objects.labels.long(), minlength=256)
    return [{**msgspec.to_builtins(o), "primitives": int(pixels[o.label])} for o in objects.objects]
