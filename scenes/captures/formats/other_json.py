"""JSON files of other programs that are no transforms.json: what they are, and how their poses come to luxel.

Sources: the documentation of the programs. A file is recognised by its content; its name may be any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luxel.scenes.errors import CaptureError

IMAGES_ALONE = "or give luxel the folder of the images alone, whose poses it then estimates"
OWN = "write transforms.json from it (docs/conventions.md has the axes)"


@dataclass(frozen=True)
class OtherJson:
    """A kind of file of another program.

    Args:
        what: what it is, a phrase.
        remedy: how to get a capture from it, a sentence.
        matches: whether a document is of this kind.
    """

    what: str
    remedy: str
    matches: Callable[[Any], bool]


def _has(*keys: str) -> Callable[[Any], bool]:
    """Whether a document is an object with all of the keys."""
    return lambda document: isinstance(document, Mapping) and set(keys) <= set(document.keys())


def _each(matches: Callable[[Any], bool], document: Any) -> bool:
    """Whether the first entries of a list, or values of an object, match, and there are any."""
    entries = list(document.values()) if isinstance(document, Mapping) else document
    return isinstance(entries, list) and bool(entries) and all(map(matches, entries[:3]))


def _is_sdfstudio(document: Any) -> bool:
    return _has("frames")(document) and _each(_has("rgb_path", "camtoworld"), dict.get(document, "frames"))


# In this order: the first that matches counts.
OTHERS = (
    OtherJson(
        "a reconstruction of OpenSfM or OpenDroneMap (reconstruction.json)",
        f"Convert it with OpenSfM (opensfm export_colmap) or nerfstudio (ns-process-data odm), {IMAGES_ALONE}.",
        lambda document: _each(_has("cameras", "points"), document),
    ),
    OtherJson(
        "a scene of openMVG (sfm_data.json)",
        f"Convert it to a COLMAP model with openMVG_main_openMVG2Colmap, {IMAGES_ALONE}.",
        _has("sfm_data_version", "views"),
    ),
    OtherJson(
        "a scene of AliceVision or Meshroom (.sfm, sfm.json)",
        f"Convert it to a COLMAP model with aliceVision_exportColmap, {IMAGES_ALONE}.",
        _has("views", "intrinsics", "version"),
    ),
    OtherJson(
        "the list of images of a Nerfies or HyperNeRF capture (dataset.json)",
        f"Its poses are in the folder camera, a file for each image: {OWN}, {IMAGES_ALONE} (rgb/1x).",
        _has("ids", "train_ids"),
    ),
    OtherJson(
        "a camera of a Nerfies or HyperNeRF capture (camera/*.json)",
        f"Write the cameras of all images into one transforms.json (docs/conventions.md has the axes), {IMAGES_ALONE}.",
        _has("orientation", "position", "focal_length"),
    ),
    OtherJson(
        "the poses of an SDFStudio capture (meta_data.json)",
        "Write transforms.json from it: file_path is rgb_path, transform_matrix is camtoworld with its second and "
        "third column negated, and fl_x, fl_y, cx, cy are those of intrinsics.",
        _is_sdfstudio,
    ),
    OtherJson(
        "the metadata of a Record3D recording (metadata.json)",
        f"Convert the recording with nerfstudio (ns-process-data record3d), {IMAGES_ALONE}.",
        _has("poses", "K"),
    ),
    OtherJson(
        "the description of a mesh of Polycam (mesh_info.json), which has no poses",
        f"Export the raw data from Polycam and give luxel the folder of that export, {IMAGES_ALONE}.",
        _has("alignmentTransform"),
    ),
    OtherJson(
        "a camera of a raw export of Polycam (keyframes/cameras/*.json)",
        f"Give luxel the folder of the export, in which keyframes/ is, {IMAGES_ALONE}.",
        _has("t_00", "t_11", "fx"),
    ),
    OtherJson(
        "the cameras of a trained scene of 3D Gaussian splatting (cameras.json)",
        "Give the capture that the scene was trained on, the folder with images and sparse; the scene itself is opened "
        "with luxel view.",
        lambda document: (
            isinstance(document, list) and _each(_has("img_name", "rotation", "position"), document)
        ),
    ),
    OtherJson(
        "the lenses of OpenSfM or OpenDroneMap (cameras.json), which has no poses",
        f"Convert the project with nerfstudio (ns-process-data odm), {IMAGES_ALONE}.",
        lambda document: _each(_has("projection_type"), document),
    ),
    OtherJson(
        "a calibration of the CMU Panoptic Studio",
        f"Its cameras have K, R, t, world to camera: {OWN}, {IMAGES_ALONE}.",
        lambda document: (
            _has("cameras")(document) and _each(_has("K", "R", "t"), dict.get(document, "cameras"))
        ),
    ),
    OtherJson(
        "a camera path, not a capture",
        "Give it to luxel render --path, with a scene.",
        _has("camera_path"),
    ),
    OtherJson(
        "the transform between a capture and a training of nerfstudio (dataparser_transforms.json)",
        "Give the capture itself, the folder with transforms.json.",
        _has("transform", "scale"),
    ),
)


def describe_other_json(document: Any) -> OtherJson | None:
    """The kind of file of another program that a JSON document is; None: of no known one."""
    if isinstance(document, Mapping) and "frames" in document and not _is_sdfstudio(document):
        return None
    return next((other for other in OTHERS if other.matches(document)), None)


def refuse_other_json(file: Path, document: Any) -> None:
    """Refuses a JSON document that is no transforms.json.

    Args:
        file: for the message.
        document: what the file holds.

    Raises:
        CaptureError: it is that of another program, or has no frames.
    """
    other = describe_other_json(document)
    if other is not None:
        raise CaptureError(f"{file}: this is no transforms.json but {other.what}.", other.remedy)
    if isinstance(document, Mapping) and "frames" in document:
        return
    if isinstance(document, Mapping):
        content = f"an object without frames; its keys are {', '.join(list(document.keys())[:6]) or 'none'}"
    else:
        content = f"a {'list' if isinstance(document, list) else 'value'} instead of an object with frames"
    raise CaptureError(
        f"{file}: this is no transforms.json: it holds {content[:300]}.",
        "Give the folder of the capture, a transforms.json, or images alone, whose poses luxel then estimates.",
    )
