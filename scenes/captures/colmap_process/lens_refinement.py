"""A simple lens refined to one with more parameters, where many images of it determine them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from luxel.scenes.errors import CaptureError

MIN_IMAGES = 15  # registered images of a lens, from which four distortion coefficients are well determined
MIN_GAIN = 0.01  # share by which the reprojection error must fall
MIN_CENTRE_GAIN = 0.002  # the same for a free principal point, of which little gain is noise
CENTRE_WITHIN = 0.06  # of width and height: distance of the principal point from the middle
FOCAL_WITHIN = 0.25  # share by which the focal length may change
ASPECT_WITHIN = 0.05  # share by which the two focal lengths may differ
FOLD_RADII = 64  # radii at which the distortion must grow outwards


def refine_lens(pycolmap: Any, model: Any) -> Any:
    """A model with richer lenses, if that lowers the reprojection error and they are plausible; else the model.

    First SIMPLE_RADIAL becomes OPENCV, then the principal point is free. A lens that cannot be inverted up to the
    border of its image, so that nothing can be undistorted with it, is estimated again without distortion.

    Args:
        pycolmap: the module.
        model: a pycolmap.Reconstruction after bundle adjustment.
    """
    visible = Counter(model.images[key].camera_id for key in model.reg_image_ids())
    determined = {key for key, count in visible.items() if count >= MIN_IMAGES}
    if not determined:
        return with_invertible_lenses(pycolmap, model)
    adjusted = pycolmap.Reconstruction(model)
    adjust(pycolmap, adjusted)
    adjusted = with_invertible_lenses(pycolmap, adjusted)
    trial = pycolmap.Reconstruction(adjusted)
    for key in determined:
        camera = trial.cameras[key]
        if camera.model == pycolmap.CameraModelId.SIMPLE_RADIAL:
            f, cx, cy, k = camera.params
            camera.model = pycolmap.CameraModelId.OPENCV
            camera.params = [f, f, cx, cy, k, 0.0, 0.0, 0.0]
    adjust(pycolmap, trial)
    best = trial if is_better(trial, adjusted) else adjusted
    return with_principal_point(pycolmap, best, determined)


def with_invertible_lenses(pycolmap: Any, model: Any) -> Any:
    """A model after bundle adjustment in which lenses that cannot be inverted have no distortion; the model if all can.

    Args:
        pycolmap: the module.
        model: a pycolmap.Reconstruction.
    """
    folding = [key for key, camera in model.cameras.items() if not can_be_inverted(camera)]
    if not folding:
        return model
    trial = pycolmap.Reconstruction(model)
    for key in folding:
        camera = trial.cameras[key]
        focal = 0.5 * (camera.focal_length_x + camera.focal_length_y)
        centre = camera.principal_point_x, camera.principal_point_y
        camera.model = pycolmap.CameraModelId.SIMPLE_PINHOLE
        camera.params = [focal, *centre]
    adjust(pycolmap, trial)
    return trial


def can_be_inverted(camera: Any) -> bool:
    """Whether the images of a lens can be undistorted up to their border."""
    # Imported here: tasks that refine no lens do not need OpenCV.
    from luxel.scenes.captures.lenses.lens import lens_of_colmap, pinhole_of

    values = [float(value) for value in camera.params]
    try:
        pinhole_of(lens_of_colmap(camera.model_name, camera.width, camera.height, values, "lens"))
    except CaptureError:
        return False
    return True


def with_principal_point(pycolmap: Any, model: Any, determined: set[int] | None = None) -> Any:
    """A model after bundle adjustment with free principal points of some lenses, if that is better; else the model.

    Args:
        pycolmap: the module.
        model: a pycolmap.Reconstruction.
        determined: ids of the lenses; None: all.
    """
    trial = pycolmap.Reconstruction(model)
    fixed = set() if determined is None else set(trial.cameras) - determined
    adjust(pycolmap, trial, principal_point=True, fixed=fixed)
    return trial if is_better(trial, model, min_gain=MIN_CENTRE_GAIN) else model


def adjust(
    pycolmap: Any,
    model: Any,
    *,
    principal_point: bool = False,
    distortion: bool = True,
    fixed: set[int] | None = None,
) -> None:
    """Bundle adjustment of all poses, points and lenses of a model, in place.

    Args:
        pycolmap: the module.
        model: a pycolmap.Reconstruction.
        principal_point: whether the principal points are free.
        distortion: whether the distortion is free.
        fixed: ids of lenses that stay as they are.
    """
    options = pycolmap.BundleAdjustmentOptions()
    options.refine_principal_point = principal_point
    options.refine_extra_params = distortion
    options.print_summary = False
    options.ceres.loss_function_type = pycolmap.LossFunctionType.SOFT_L1
    config = pycolmap.BundleAdjustmentConfig()
    for image in model.reg_image_ids():
        config.add_image(image)
    for key in fixed or ():
        config.set_constant_cam_intrinsics(key)
    config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    # pycolmap.bundle_adjustment logs to the terminal at every log level.
    pycolmap.create_default_bundle_adjuster(options, config, model).solve()
    model.update_point_3d_errors()


def is_better(trial: Any, before: Any, min_gain: float = MIN_GAIN) -> bool:
    """Whether lenses fit the same observations better and are still plausible.

    Args:
        trial, before: the models with these lenses and with the ones before.
        min_gain: share by which the reprojection error must fall.
    """
    errors = [model.compute_mean_reprojection_error() for model in (trial, before)]
    if not errors[0] <= (1 - min_gain) * errors[1]:  # phrased so that NaN fails
        return False
    return all(is_plausible(camera, before.cameras[key]) for key, camera in trial.cameras.items())


def is_plausible(camera: Any, before: Any) -> bool:
    """Whether a lens is one that a camera may have, and near to the lens before."""
    fx, fy = camera.focal_length_x, camera.focal_length_y
    off = (
        abs(camera.principal_point_x / camera.width - 0.5),
        abs(camera.principal_point_y / camera.height - 0.5),
    )
    near = abs(fx / before.focal_length_x - 1) < FOCAL_WITHIN and abs(fx / fy - 1) < ASPECT_WITHIN
    return near and max(off) < CENTRE_WITHIN and _grows_outwards(camera) and can_be_inverted(camera)


def _grows_outwards(camera: Any) -> bool:
    """Whether the distortion does not fold the image: radii on the sensor grow with those in front of the lens."""
    corner = np.hypot(camera.width, camera.height) / (camera.focal_length_x + camera.focal_length_y)
    radii = np.linspace(0, corner, FOLD_RADII)
    points = np.stack([radii * 0.8, radii * 0.6, np.ones_like(radii)], axis=1)
    middle = np.array([camera.principal_point_x, camera.principal_point_y])
    on_sensor = np.array([np.asarray(camera.img_from_cam(point)).reshape(2) for point in points])
    return bool((np.diff(np.linalg.norm(on_sensor - middle, axis=1)) > 0).all())
