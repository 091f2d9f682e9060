"""Intrinsics with lens distortion, and the pinhole camera of undistorted images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from luxel.scenes.captures.lenses import lens_models
from luxel.scenes.captures.lenses.lens_models import EQUIRECTANGULAR
from luxel.scenes.errors import CaptureError

# COLMAP's models as (focal lengths, coefficients in OpenCV's order k1 k2 p1 p2 k3 k4 k5 k6, or k1..k4 of a
# fisheye). The number of parameters follows: focal lengths, two for the principal point, coefficients.
COLMAP_MODELS: dict[str, tuple[int, tuple[str, ...], bool]] = {
    "SIMPLE_PINHOLE": (1, (), False),
    "PINHOLE": (2, (), False),
    "SIMPLE_RADIAL": (1, ("k1",), False),
    "RADIAL": (1, ("k1", "k2"), False),
    "OPENCV": (2, ("k1", "k2", "p1", "p2"), False),
    "FULL_OPENCV": (2, ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"), False),
    "OPENCV_FISHEYE": (2, ("k1", "k2", "k3", "k4"), True),
    "SIMPLE_RADIAL_FISHEYE": (1, ("k1",), True),
    "RADIAL_FISHEYE": (1, ("k1", "k2"), True),
    "SIMPLE_FISHEYE": (1, (), True),
    "FISHEYE": (2, (), True),
}
# Those of COLMAP's models that OpenCV does not have: focal lengths, and the model of lens_models.
OTHER_MODELS = {name: (2, name) for name in lens_models.PARAMETERS if name != lens_models.OPENCV_K4}
OTHER_MODELS["SIMPLE_DIVISION"] = (1, "DIVISION")
MIN_FOCAL = (
    0.02  # of the width, of lenses whose focal length is in pixels: a planar image would span 175 degrees
)
WIDEST_ANGLE, NARROWEST_ANGLE = (
    np.radians(60.0),
    np.radians(30.0),
)  # of the pinhole views of wide fisheye images
PLANAR_ORDER = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
FISHEYE_ORDER = ("k1", "k2", "k3", "k4")


@dataclass(frozen=True)
class Lens:
    """Intrinsics of a stored image; the image's centre is at (width / 2, height / 2).

    Args:
        width, height: pixels.
        fx, fy, cx, cy: focal lengths and principal point in pixels.
        distortion: OpenCV's k1 k2 p1 p2 k3 k4 k5 k6, or k1 k2 k3 k4 of its fisheye model. Empty: pinhole.
        fisheye: whether the coefficients are those of OpenCV's fisheye model.
        model: a key of lens_models.PARAMETERS, whose parameters ``distortion`` then has, or EQUIRECTANGULAR; empty:
            OpenCV's models.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()
    fisheye: bool = False
    model: str = ""

    @staticmethod
    def create(
        width: int,
        height: int,
        focal: tuple[float, float],
        centre: tuple[float, float],
        coefficients: dict[str, float],
        *,
        fisheye: bool = False,
        model: str = "",
        where: str,
    ) -> Lens:
        """A checked lens from named coefficients.

        Raises:
            CaptureError: the size or a focal length is not positive, or a number is not finite; the message
                begins with ``where``.
        """
        order = lens_models.PARAMETERS.get(model, FISHEYE_ORDER if fisheye else PLANAR_ORDER)
        values = [float(coefficients.get(name, 0.0)) for name in order]
        while values and values[-1] == 0.0 and not (fisheye or model):
            values.pop()
        numbers = np.array([*focal, *centre, *values], float)
        if not (0 < width < 1 << 20 and 0 < height < 1 << 20):
            raise CaptureError(f"{where}: invalid image size {width}x{height}.", "Correct the size.")
        # The bounds keep float32 finite; NaN fails them too.
        if not (np.abs(numbers) < 1e9).all() or not min(focal) > 1e-6:
            raise CaptureError(
                f"{where}: focal lengths must be positive and all intrinsics finite, got {numbers.tolist()}.",
                "Correct the intrinsics, or delete the file to estimate poses from the images.",
            )
        return Lens(width, height, *focal, *centre, tuple(values), fisheye, model)

    @staticmethod
    def equirectangular(width: int, height: int, where: str) -> Lens:
        """The lens of a panorama of 360 by 180 degrees; its middle is the camera's z axis.

        Raises:
            CaptureError: the size is not positive; the message begins with ``where``.
        """
        focal, centre = max(width, 1) / (2 * np.pi), (0.5 * width, 0.5 * height)
        return replace(
            Lens.create(width, height, (focal, focal), centre, {}, where=where), model=EQUIRECTANGULAR
        )

    @property
    def distorted(self) -> bool:
        """Whether the image differs from that of a pinhole camera."""
        return self.fisheye or bool(self.model) or any(self.distortion)

    def resized(self, width: int, height: int) -> Lens:
        """The lens of the image resized to width x height pixels."""
        x, y = width / self.width, height / self.height
        return replace(
            self, width=width, height=height, fx=self.fx * x, fy=self.fy * y, cx=self.cx * x, cy=self.cy * y
        )

    def matrix(self) -> np.ndarray:
        """OpenCV's camera matrix, [3, 3]: its first pixel has its centre at 0, not at 0.5."""
        return np.array([[self.fx, 0, self.cx - 0.5], [0, self.fy, self.cy - 0.5], [0, 0, 1]])


def lens_of_colmap(model: str, width: int, height: int, values: Sequence[float], where: str) -> Lens:
    """The lens of a camera of COLMAP.

    Args:
        model: its name.
        width, height: pixels.
        values: focal lengths, principal point and coefficients, in COLMAP's order.
        where: the beginning of error messages.

    Raises:
        CaptureError: the model is unknown, or the values are not its parameters.
    """
    if model == EQUIRECTANGULAR:
        return Lens.equirectangular(width, height, where)
    if model not in COLMAP_MODELS and model not in OTHER_MODELS:
        raise CaptureError(
            f"{where}: the camera model {model} is not supported.",
            "Undistort the images with COLMAP's image_undistorter, or use OPENCV.",
        )
    other, fisheye = "", False
    if model in OTHER_MODELS:
        focals, other = OTHER_MODELS[model]
        names = lens_models.PARAMETERS[other]
    else:
        focals, names, fisheye = COLMAP_MODELS[model]
    if len(values) != focals + 2 + len(names):
        raise CaptureError(
            f"{where}: {model} has {focals + 2 + len(names)} parameters, not {len(values)}.",
            "Copy or export the model again.",
        )
    focal = (values[0], values[focals - 1])
    named = dict(zip(names, values[focals + 2 :], strict=True))
    if fisheye:
        named = {k: named.get(k, 0.0) for k in FISHEYE_ORDER}
    centre = (values[focals], values[focals + 1])
    lens = Lens.create(width, height, focal, centre, named, fisheye=fisheye, model=other, where=where)
    check_pixels(lens, where)
    return lens


def check_pixels(lens: Lens, where: str) -> None:
    """Refuses intrinsics that are no pixels but shares of the image's size, as some programs write them.

    Raises:
        CaptureError: the focal length is shorter than any camera's, or the principal point is the first corner.
    """
    focal = f"a focal length of {lens.fx:g}, {lens.fy:g} and a principal point of {lens.cx:g}, {lens.cy:g}"
    corner = max(abs(lens.cx), abs(lens.cy)) <= 1 and min(lens.width, lens.height) > 4
    if lens.fx < MIN_FOCAL * lens.width or corner:
        raise CaptureError(
            f"{where}: {focal} are no pixels of an image of {lens.width}x{lens.height}.",
            "Write pixels: shares of the image's size times its width (x) and height (y).",
        )


def fit_to_file(lens: Lens, size: tuple[int, int], where: str) -> Lens:
    """The lens of an image file of ``size`` (width, height), scaled where the file is a resized copy.

    Raises:
        CaptureError: the file has another aspect ratio: it was cropped, or is another image.
    """
    if size == (lens.width, lens.height):
        return lens
    if abs(size[0] * lens.height - size[1] * lens.width) > max(lens.width, lens.height, *size):
        raise CaptureError(
            f"{where}: the image file is {size[0]}x{size[1]} pixels, but its camera is for "
            f"{lens.width}x{lens.height}.",
            "Put the original images there, or correct the size and intrinsics.",
        )
    return lens.resized(*size)


def undistort_points(lens: Lens, pixels: np.ndarray) -> np.ndarray:
    """Distorted pixels (OpenCV coordinates, first centre at 0) to directions x/z, y/z; [P, 2] -> [P, 2]."""
    if lens.model:
        centred = np.asarray(pixels, np.float64) - [lens.cx - 0.5, lens.cy - 0.5]
        return lens_models.undistorted(lens.model, lens.distortion, centred / [lens.fx, lens.fy])
    source = np.ascontiguousarray(pixels, np.float64).reshape(-1, 1, 2)
    coefficients = np.array(lens.distortion or (0.0,) * 4, np.float64)
    if lens.fisheye:
        return cv2.fisheye.undistortPoints(source, lens.matrix(), coefficients).reshape(-1, 2)
    criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-10)
    padded = np.zeros(4 if len(coefficients) <= 4 else 5 if len(coefficients) == 5 else 8)
    padded[: len(coefficients)] = coefficients
    iterated = getattr(cv2, "undistortPointsIter", None)  # of OpenCV 4; 5 has made it one function again
    if iterated is not None:
        return iterated(source, lens.matrix(), padded, None, None, criteria).reshape(-1, 2)
    return cv2.undistortPoints(source, lens.matrix(), padded, criteria=criteria).reshape(-1, 2)


def distort_points(lens: Lens, directions: np.ndarray) -> np.ndarray:
    """Directions x/z, y/z to distorted pixels (OpenCV coordinates), [P, 2] -> [P, 2]."""
    x, y = np.moveaxis(np.asarray(directions, np.float64), -1, 0)
    if lens.model:
        u, v = np.moveaxis(lens_models.distorted(lens.model, lens.distortion, directions), -1, 0)
    elif lens.fisheye:
        k1, k2, k3, k4 = (*lens.distortion, 0.0, 0.0, 0.0, 0.0)[:4]
        r = np.hypot(x, y)
        theta = np.arctan(r)
        t2 = theta * theta
        distorted = theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))
        ratio = np.where(r > 1e-12, distorted / np.maximum(r, 1e-12), 1.0)
        u, v = x * ratio, y * ratio
    else:
        k1, k2, p1, p2, k3, k4, k5, k6 = (*lens.distortion, *(0.0,) * 8)[:8]
        r2 = x * x + y * y
        radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
        u = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
        v = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return np.stack([u * lens.fx + lens.cx - 0.5, v * lens.fy + lens.cy - 0.5], axis=-1)


def pinhole_of(lens: Lens, where: str = "lens") -> Lens:
    """The pinhole camera of the same image size whose view is the largest upright rectangle without undefined pixels.

    Of fisheye images with directions next to or behind the camera, it is the rectangle that the lens images on its
    axes, up to 60 degrees from the middle; what the image does not show of its corners does not count.

    Raises:
        CaptureError: the distortion cannot be inverted within the image (a field of view of 180 degrees, or
            coefficients that fold the image).
    """
    if not lens.distorted:
        return replace(lens, distortion=(), fisheye=False)
    if lens.model == EQUIRECTANGULAR:
        raise ValueError("lens must not be equirectangular: pinhole views are cut from panoramas")
    w, h = lens.width, lens.height
    x, y = np.linspace(0, w - 1, 65), np.linspace(0, h - 1, 65)
    left, right = np.stack([np.zeros(65), y], 1), np.stack([np.full(65, w - 1.0), y], 1)
    top, bottom = np.stack([x, np.zeros(65)], 1), np.stack([x, np.full(65, h - 1.0)], 1)
    border = np.concatenate([left, right, top, bottom])
    directions = undistort_points(lens, border)
    error = np.abs(distort_points(lens, directions) - border).max()
    inner = (
        directions[:65, 0].max(),
        directions[65:130, 0].min(),
        directions[130:195, 1].max(),
        directions[195:, 1].min(),
    )
    if not (error < 1.0 and np.isfinite(directions).all() and inner[0] < inner[1] and inner[2] < inner[3]):
        cropped = _widest_view(lens)
        if cropped is None:
            raise CaptureError(
                f"{where}: the lens distortion {list(lens.distortion)} cannot be inverted up to the image border.",
                "Check the coefficients and their order (k1 k2 p1 p2), or undistort the images beforehand.",
            )
        inner = cropped
    fx, fy = max(w - 1, 1) / (inner[1] - inner[0]), max(h - 1, 1) / (inner[3] - inner[2])
    return Lens(w, h, float(fx), float(fy), float(0.5 - inner[0] * fx), float(0.5 - inner[2] * fy))


def _widest_view(lens: Lens) -> tuple[float, float, float, float] | None:
    """Least and greatest x/z, then y/z, of what a fisheye lens images on its axes, up to WIDEST_ANGLE.

    None: the lens is no fisheye, or its image cannot be inverted up to NARROWEST_ANGLE.
    """
    if not (lens.fisheye or lens.model in lens_models.WIDE):
        return None
    reach = np.tan(np.linspace(0, WIDEST_ANGLE, 129))
    bounds = []
    for axis in (np.array([1.0, 0.0]), np.array([0.0, 1.0])):
        for side in (-1, 1):
            directions = side * reach[:, None] * axis
            pixels = distort_points(lens, directions)
            with np.errstate(invalid="ignore"):
                imaged = (np.abs(undistort_points(lens, pixels) - directions) < 1e-3).all(1)
                imaged &= (pixels >= 0).all(1) & (pixels <= [lens.width - 1, lens.height - 1]).all(1)
            last = len(reach) - 1 if imaged.all() else int(np.argmin(imaged)) - 1
            if last < 0 or reach[last] < np.tan(NARROWEST_ANGLE):
                return None
            bounds.append(side * float(reach[last]))
    return bounds[0], bounds[1], bounds[2], bounds[3]
