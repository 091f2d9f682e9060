"""Checkpoints of the trainer in gsplat's examples (Apache-2.0): .pt files with raw parameters under "splats".

The file is what ``torch.save`` writes: a ZIP archive, not compressed, of a pickle and the numbers of tensors. It is
read with ``weights_only``, which makes tensors and plain containers and nothing else. A training on several GPUs writes
a file for each (ckpt_29999_rank0.pt, ckpt_29999_rank1.pt); the scene is all of them.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives import Gaussians
from luxel.render.storage.reading import available_memory
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import check_file, open_file, reading
from luxel.scenes.files.scene_format import SceneFacts, SceneFormat
from luxel.scenes.files.scenes.ply_columns import unused_columns
from luxel.scenes.unused import LOST, OTHER, WRONG, Unused, things_are

PARAMETERS = {
    "means": "means",
    "quats": "quats",
    "log_scales": "scales",
    "opacity_logits": "opacities",
    "sh_dc": "sh0",
    "sh_rest": "shN",
}  # by ours, the key of the file
RANK = re.compile(r"(.*_rank)\d+(\.pt)")
SLACK = 1 << 16  # bytes of the names of an archive
LARGEST_SETTINGS = 1 << 18  # bytes of cfg.yml
SETTING = re.compile(r"^antialiased:\s*(true|false)\s*$", re.MULTILINE)
AGAIN = "Give the checkpoint that gsplat's simple_trainer.py writes, or export the scene as .ply."


def load_gsplat(path: str | Path) -> Gaussians:
    """Gaussians of a checkpoint, and of those of the other processes of its training.

    Raises:
        CaptureError: a file cannot be read, or has no Gaussians.
    """
    parts = [_gaussians(file, _splats(file)) for file in _files(Path(path))]
    if len({part.sh_rest.shape[1] for part in parts}) > 1:
        raise CaptureError(f"{path}: its parts have different degrees of spherical harmonics.", AGAIN)
    return Gaussians(**{n: torch.cat([part.tensors()[n] for part in parts]) for n in Gaussians.names})


def _files(path: Path) -> list[Path]:
    """The files of all processes of a training."""
    match = RANK.fullmatch(path.name)
    if match is None:
        return [path]
    pattern = re.compile(re.escape(match[1]) + r"(\d+)" + re.escape(match[2]))
    ranks = {file: each for file in path.parent.iterdir() if (each := pattern.fullmatch(file.name))}
    return sorted(ranks, key=lambda file: int(ranks[file][1])) or [path]


def _content(path: Path) -> dict[str, Any]:
    """What a file holds.

    Raises:
        CaptureError: it cannot be read, or unpacks to more than it has bytes.
    """
    size = check_file(path)
    with reading(path, "a checkpoint of gsplat", AGAIN), open_file(path) as file:
        if not zipfile.is_zipfile(file):
            raise CaptureError(f"{path}: this is not a file of torch.save.", AGAIN)
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
        if any(e.compress_type for e in entries) or sum(e.file_size for e in entries) > size + SLACK:
            raise CaptureError(f"{path}: the file is packed, which torch.save never does.", AGAIN)
        if 2 * size > available_memory():
            raise MemoryError
        file.seek(0)
        content = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(content, dict):
        raise CaptureError(f"{path}: this checkpoint is of another program than gsplat.", AGAIN)
    return content


def _splats(path: Path) -> dict[str, Tensor]:
    """The tensors of a file.

    Raises:
        CaptureError: it has none of Gaussians.
    """
    splats = _content(path).get("splats")
    if not isinstance(splats, dict):
        raise CaptureError(
            f"{path}: this checkpoint is of another program than gsplat: it has no splats.", AGAIN
        )
    if "features" in splats and "sh0" not in splats:
        raise CaptureError(
            f"{path}: the colours of these Gaussians come from a network (app_opt), which luxel does not have.",
            "Train without the option app_opt, or export the scene as .ply.",
        )
    missing = [key for key in PARAMETERS.values() if key not in splats and key != "shN"]
    if missing:
        raise CaptureError(f"{path}: the splats of this checkpoint lack {', '.join(missing)}.", AGAIN)
    return splats


def _gaussians(path: Path, splats: dict[str, Any]) -> Gaussians:
    """The Gaussians of the tensors of a file."""
    with reading(path, "a checkpoint of gsplat", AGAIN):
        tensors = {name: splats[key] for name, key in PARAMETERS.items() if key in splats}
        for name, tensor in tensors.items():
            # A tensor may repeat the numbers that it has, as often as a file likes.
            if (
                not isinstance(tensor, Tensor)
                or tensor.layout != torch.strided
                or not tensor.is_floating_point()
            ):
                raise CaptureError(f"{path}: {PARAMETERS[name]} are no tensor of floats.", AGAIN)
            if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
                raise CaptureError(f"{path}: {PARAMETERS[name]} have more numbers than the file.", AGAIN)
        tensors = {name: tensor.detach().float().contiguous() for name, tensor in tensors.items()}
        if tensors["sh_dc"].ndim == 3:
            tensors["sh_dc"] = tensors["sh_dc"].flatten(1)
        tensors["opacity_logits"] = tensors["opacity_logits"].flatten()
        tensors.setdefault("sh_rest", torch.zeros(len(tensors["means"]), 0, 3))
        return Gaussians(**tensors)


def read_gsplat_facts(path: str | Path) -> SceneFacts:
    """Whether the scene was trained with antialiasing, as cfg.yml in the folder of the training says.

    Raises:
        CaptureError: cfg.yml cannot be read.
    """
    for folder in (Path(path).parent, Path(path).parent.parent):
        settings = folder / "cfg.yml"
        if settings.is_file():
            with reading(settings, "the settings of gsplat", AGAIN), open_file(settings) as file:
                match = SETTING.search(file.read(LARGEST_SETTINGS).decode("utf-8", "replace"))
            return SceneFacts(antialiased=None if match is None else match[1] == "true")
    return SceneFacts()


def read_gsplat_unused(path: str | Path) -> list[Unused]:
    """Parts of a checkpoint that are not read.

    Raises:
        CaptureError: the file cannot be read.
    """
    content = _content(Path(path))
    splats = content.get("splats")
    out = (
        unused_columns([str(key) for key in splats if key not in PARAMETERS.values()], "tensor")
        if splats
        else []
    )
    if "pose_adjust" in content:
        said = "Corrections of the poses (pose_adjust) are not read: they are of the cameras."
        out.append(Unused("poses", 1, "pose_adjust", said, harm=OTHER))
    if "app_module" in content:
        said = "A network of the colours of each image (app_module) is not read."
        out.append(Unused("appearance", 1, "app_module", said, "Train without the option app_opt.", WRONG))
    left = [str(key) for key in content if key not in ("step", "splats", "pose_adjust", "app_module")]
    if left:
        said = f"{things_are(left, 'entry', 'entries', ' of the checkpoint')} not read."
        out.append(Unused("entries of the checkpoint", len(left), left[0], said, harm=LOST))
    return out


GSPLAT = SceneFormat(
    ".pt",
    "checkpoints of gsplat's trainer",
    load_gsplat,
    primitives=(Gaussians,),
    read_facts=read_gsplat_facts,
    read_unused=read_gsplat_unused,
)
