"""The lens of a frame of transforms.json.

Sources: the documentation and the Apache-2.0 source of nerfstudio (``distortion_params``, k4, FISHEYE624), the
Fisheye624 model of Project Aria. Coefficients count for every camera model, as in nerfstudio: PINHOLE says no more than
that the image is no fisheye.
"""

from __future__ import annotations

import math
from typing import Any

from luxel.scenes.captures.images.images import ImageHeader
from luxel.scenes.captures.lenses.lens import PLANAR_ORDER, Lens, check_pixels, fit_to_file
from luxel.scenes.captures.lenses.lens_models import EQUIRECTANGULAR, OPENCV_K4, PARAMETERS
from luxel.scenes.errors import CaptureError

Document = dict[str, Any]
PLANAR_MODELS = (
    "OPENCV", "FULL_OPENCV", "SIMPLE_RADIAL", "RADIAL", "PINHOLE", "SIMPLE_PINHOLE", "PERSPECTIVE",
)  # fmt: skip
FISHEYE_MODELS = (
    "OPENCV_FISHEYE", "FISHEYE", "SIMPLE_FISHEYE", "RADIAL_FISHEYE", "SIMPLE_RADIAL_FISHEYE",
    "THIN_PRISM_FISHEYE",
)  # fmt: skip
PROJECT_ARIA = ("FISHEYE624", "RAD_TAN_THIN_PRISM_FISHEYE")  # with their parameters in a list
LIST = "distortion_params"
LISTED = PARAMETERS[OPENCV_K4]  # its numbers: k1 k2 k3 k4 p1 p2
NAMED = (*PLANAR_ORDER, "sx1", "sy1")
INTRINSICS = ("fl_x", "fl_y", "cx", "cy", "w", "h", "camera_angle_x", "camera_angle_y", "is_fisheye", LIST)
LENS_KEYS = ("camera_model", *INTRINSICS, *NAMED)  # all that `lens_of` reads
PANORAMA_FLAGS = ("latlong", "equirectangular")  # of instant-ngp
UNDISTORT = "undistort the images beforehand"


def number_of(frame: Document, document: Document, key: str, where: str) -> float | None:
    """The number of a frame, or else of the document; None: there is none.

    Raises:
        CaptureError: it is no finite number.
    """
    value = frame.get(key, document.get(key))
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise CaptureError(f"{where}: {key} must be a finite number, got {value!r}.", f"Correct {key}.")
    return number


def lens_of(document: Document, frame: Document, header: ImageHeader, where: str) -> tuple[Lens, bool]:
    """Intrinsics of a frame, in pixels of its stored image, and whether its EXIF orientation is applied.

    Raises:
        CaptureError: intrinsics are missing or invalid, or those of a lens that luxel does not have.
    """

    def number(key: str) -> float | None:
        return number_of(frame, document, key, where)

    model = str(frame.get("camera_model", document.get("camera_model", "OPENCV"))).upper()
    _refuse_other_lenses(document, frame, where)
    if model == EQUIRECTANGULAR:
        for key in (*INTRINSICS, *NAMED):  # which other programs write along with it
            frame.get(key, document.get(key))
        return Lens.equirectangular(*header.size(False), where), False
    fisheye = model in FISHEYE_MODELS or bool(frame.get("is_fisheye", document.get("is_fisheye")))
    if not fisheye and model not in (*PLANAR_MODELS, *PROJECT_ARIA):
        raise CaptureError(
            f"{where}: the camera model {model} is not supported.",
            "Export with PINHOLE, OPENCV, OPENCV_FISHEYE or EQUIRECTANGULAR, or undistort the images beforehand.",
        )
    w, h = number("w"), number("h")
    stated = (round(w), round(h)) if w and h else None
    oriented = stated is not None and header.size(False) != stated and header.size(True) == stated
    width, height = stated or header.size(False)
    focal = _focal(width, height, document, frame, where)
    cx, cy = number("cx"), number("cy")
    centre = (0.5 * width if cx is None else cx, 0.5 * height if cy is None else cy)
    if model in PROJECT_ARIA:
        values = _listed(document, frame, PARAMETERS[PROJECT_ARIA[1]], where)
        if values is None:
            raise CaptureError(
                f"{where}: {model} needs {LIST}.", "Give its 12 numbers k0 to k5, p0, p1, s0 to s3."
            )
        fisheye, other = False, PROJECT_ARIA[1]
    else:
        values = _coefficients(document, frame, where)
        fisheye, other = _shape(values, model, fisheye, where)
    lens = Lens.create(width, height, focal, centre, values, fisheye=fisheye, model=other, where=where)
    check_pixels(lens, where)
    return fit_to_file(lens, header.size(oriented), where), oriented


def _refuse_other_lenses(document: Document, frame: Document, where: str) -> None:
    """Refuses the lenses of instant-ngp that are none of luxel's."""
    for key in PANORAMA_FLAGS:
        if frame.get(key, document.get(key)):
            raise CaptureError(
                f"{where}: {key} marks the images as panoramas in a way that luxel does not read.",
                'Of panoramas of 360 by 180 degrees, write "camera_model": "EQUIRECTANGULAR" in its place: the middle '
                "of the image is then the axis of the camera.",
            )
    given = next((key for key in (*frame.keys(), *document.keys()) if key.startswith("ftheta_")), None)
    if given is not None:
        raise CaptureError(
            f"{where}: {given} describes an f-theta lens, which luxel does not have.",
            f"Export with OPENCV_FISHEYE (k1 to k4), or {UNDISTORT}.",
        )


def _focal(width: int, height: int, document: Document, frame: Document, where: str) -> tuple[float, float]:
    """The focal lengths in pixels, as they are given or of the angles of the camera."""
    fx, fy, *angles = (
        number_of(frame, document, key, where) for key in ("fl_x", "fl_y", "camera_angle_x", "camera_angle_y")
    )
    for angle in angles:
        if angle is not None and not 0 < angle < math.pi:
            raise CaptureError(f"{where}: camera_angle must be between 0 and pi, got {angle}.", "Correct it.")
    given = fx
    if fx is None and angles[0] is not None:
        fx = 0.5 * width / math.tan(0.5 * angles[0])
    if fy is None and angles[1] is not None and given is None:
        fy = 0.5 * height / math.tan(0.5 * angles[1])
    if fx is None and fy is None:
        raise CaptureError(
            f"{where}: there are no intrinsics (neither fl_x nor camera_angle_x).",
            "Add fl_x, fl_y, cx, cy, w and h, or delete the file to estimate poses from the images.",
        )
    return (fx if fx is not None else fy or 0.0, fy if fy is not None else fx or 0.0)


def _coefficients(document: Document, frame: Document, where: str) -> dict[str, float]:
    """Distortion coefficients by name: of the frame where it has any, otherwise of the document."""
    named = {key: number_of(frame, document, key, where) or 0.0 for key in NAMED}
    listed = _listed(document, frame, LISTED, where)
    if listed is None or (frame.get(LIST) is None and any(frame.get(key) is not None for key in NAMED)):
        return named
    level = frame if frame.get(LIST) is not None else document
    contrary = [k for k in NAMED if level.get(k) is not None and named[k] not in (0.0, listed.get(k, 0.0))]
    if contrary:
        raise CaptureError(
            f"{where}: {contrary[0]} is {named[contrary[0]]:g}, but {LIST} has {listed.get(contrary[0], 0.0):g}.",
            f"Leave out {LIST}, or the coefficients by name.",
        )
    return listed


def _listed(
    document: Document, frame: Document, names: tuple[str, ...], where: str
) -> dict[str, float] | None:
    """The numbers of distortion_params by name; None: it is not given."""
    given = frame.get(LIST)
    given = document.get(LIST) if given is None else given
    if given is None or given == []:
        return None
    values = [number_of({LIST: value}, {}, LIST, where) for value in given] if isinstance(given, list) else []
    if len(values) != len(names) and (any(values) or not values):
        raise CaptureError(
            f"{where}: {LIST} must be a list of {len(names)} numbers, got {str(given)[:80]}.",
            f"Give {' '.join(names)}, or the coefficients by name.",
        )
    return dict(zip(names, (value or 0.0 for value in values), strict=False))


def _shape(values: dict[str, float], model: str, fisheye: bool, where: str) -> tuple[bool, str]:
    """``fisheye`` and ``model`` of the simplest `Lens` that has all of the coefficients."""
    rational = [key for key in ("k5", "k6") if values.get(key)]
    prism = [key for key in ("sx1", "sy1") if values.get(key)]
    if (rational and (fisheye or model != "FULL_OPENCV")) or (prism and not fisheye):
        raise CaptureError(
            f"{where}: {(*rational, *prism)[0]} is no coefficient of the camera model {model}.",
            "Name the camera model that the coefficients are of (FULL_OPENCV has k1 to k6, THIN_PRISM_FISHEYE sx1 and "
            f"sy1), or {UNDISTORT}.",
        )
    if fisheye:
        other = bool(prism or values.get("p1") or values.get("p2"))
        return not other, "THIN_PRISM_FISHEYE" if other else ""
    return False, OPENCV_K4 if values.get("k4") and model != "FULL_OPENCV" else ""
