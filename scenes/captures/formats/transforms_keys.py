"""Keys of transforms.json that luxel does not read, most harmful first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from luxel.scenes.unused import OTHER, WRONG, ReadKeys, Unused

# Keys without which the result is what their writer meant.
HARMLESS = {
    # The space in which instant-ngp and nerfstudio train, and their options of training and display. luxel chooses its
    # own, and its scenes are in the coordinates of the poses.
    *("aabb_scale", "scale", "offset", "aabb", "render_aabb", "render_aabb_to_local", "near", "far"),
    *("orientation_override", "auto_scale_poses_override", "n_extra_learnable_dims", "fix_premult"),
    *(
        "enable_depth_loading",
        "enable_ray_loading",
        "wants_importance_sampling",
        "sharpness_discard_threshold",
    ),
    # What was done to the poses before they were written, for whoever wants the coordinates of before.
    *("applied_transform", "applied_scale"),
    # Units of depth maps that no frame names, and whether frames name masks.
    *("depth_unit_scale_factor", "integer_depth_scale", "depth_unit", "has_mask"),
    # Of frames: how sharp they are, their number in another program, by how much Blender turned the camera since the
    # last one, and what luxel's made-up scenes know of their pixels.
    *("sharpness", "blur_score", "colmap_im_id", "colmap_image_id", "image_id", "camera_id", "cam_id", "id"),
    *("rotation", "ids_path", "normals_path", "solids"),
}
# What a key is about, by its name, and what to do about it. In this order: the first that matches counts.
LENS_REMEDY = (
    "Write the lens with the keys that luxel reads (fl_x, fl_y, cx, cy, w, h, k1 to k4, p1, p2, camera_model), or "
    "undistort the images beforehand."
)
MEANINGS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "masks",
        re.compile(r"mask|transparent|matte|foreground|crop_radius", re.IGNORECASE),
        "Name masks as mask_path of frames, or put them into a folder masks.",
    ),
    (
        "the lens",
        re.compile(
            r"fov|focal|^f[xy]$|^f$|^fl|^c_?[xy]$|^[kps]_?\d$|^K$|distort|intrinsic|lens|fisheye|camera_(model|type)"
            r"|shutter|skew|^sk_|principal|projection|radial|tangential|velocity|^(width|height)$",
            re.IGNORECASE,
        ),
        LENS_REMEDY,
    ),
    (
        "time",
        re.compile(r"time|^(fps|frame_rate)$", re.IGNORECASE),
        "Write time into the frames, in seconds or from 0 to 1, where the scene moves; the capture counts as still.",
    ),
    (
        "the axes of the poses",
        re.compile(r"convention|coordinate|axes|^from_(na|mitsuba)$|handed|^(pose|c2w|w2c)", re.IGNORECASE),
        "transform_matrix is read as camera to world, with the axes of the camera x right, y up, z backward.",
    ),
)


def unread_keys(
    file: str,
    documents: Sequence[Mapping[str, Any]],
    frames: Iterable[Mapping[str, Any]],
    read_later: Iterable[str] = (),
) -> list[Unused]:
    """The keys of documents and of their frames that nothing has read and that may matter.

    Args:
        file: name of the file, for sentences.
        documents, frames: as `luxel.scenes.unused.recorded` makes them, after everything was read.
        read_later: keys that are read after this.
    """
    later = set(read_later)
    counts = Counter(key for frame in frames for key in _unread(frame) if key not in later)
    of_documents = [key for document in documents for key in _unread(document) if key not in later]
    entries = [
        _entry("keys of transforms.json", f"of {file}", dict.fromkeys(of_documents, 0)),
        _entry("keys of frames", f"of frames in {file}", counts),
    ]
    return [entry for entry in entries if entry is not None]


def _unread(level: Mapping[str, Any]) -> list[str]:
    """Keys of one level that were not read, without harmless ones and those that say nothing."""
    if not isinstance(level, ReadKeys):
        return []
    return [key for key in level.unread() if key not in HARMLESS and not _says_nothing(dict.get(level, key))]


def _says_nothing(value: Any) -> bool:
    """Whether a value is null, false, zero or empty, or a list of nothing else."""
    return all(map(_says_nothing, value)) if isinstance(value, list) else value in (None, False, 0, "", {})


def _entry(kind: str, where: str, counts: Mapping[str, int]) -> Unused | None:
    """One entry for all keys of a level; the example is the most harmful one."""
    if not counts:
        return None
    keys = list(counts)
    meant = [(key, about, remedy) for key in keys for about, name, remedy in MEANINGS if name.search(key)]
    order = [about for about, _, _ in MEANINGS]
    example, about, remedy = min(meant, key=lambda m: order.index(m[1]), default=(keys[0], "", ""))
    share = f", in {counts[example]} of them" if counts[example] else ""
    several = f"{len(keys)} keys {where} are not read" if len(keys) > 1 else f"A key {where} is not read"
    problem = f"{several}: {example}{f', which is about {about}' if about else ''}{share}"
    others = [key for key in keys if key != example][:4]
    more = f"; and {', '.join(others)}{', ...' if len(keys) > 5 else ''}" if others else ""
    return Unused(kind, len(keys), example, f"{problem}{more}.", remedy, WRONG if about else OTHER)
