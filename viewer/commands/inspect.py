"""`luxel inspect`."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from luxel.render.bounds import Bounds, Folder, Megapixels, Options, Pixels
from luxel.render.errors import LuxelError
from luxel.render.runs.notices import visible
from luxel.render.train.presets import preset
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.viewer.options import DepthValues, DeviceName, MaskUse, PointUse, PoseUse, optional, pick_device

if TYPE_CHECKING:
    from luxel.scenes.captures.checks import Inspection
    from luxel.viewer.training.estimate import TrainingEstimate


@dataclass
class Inspect(Options):
    """Checks a capture before it is trained on, or a scene, and says what is wrong with it.

    Finds poses that do not fit, images that are blurred, brighter or darker than the others, or show the same as
    another one, sides that no view shows, and masks or depth maps that contradict the others. --out writes a page
    with all images, cameras and points, and inspect.json. Held-out views are checked as well. Memory and time of a
    training on this machine are estimated.

    Of a scene (a file of any format that `luxel view` opens, a folder of SOG, or a run) number and kind of its
    primitives, bounds and facts are printed, and what it holds that luxel does not use.

    Examples:
        luxel inspect photos/
        luxel inspect walk.mp4 --frames 200
        luxel inspect photos/ --out report/
        luxel inspect photos/ --json
        luxel inspect scene.ply
    """

    capture: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CAPTURE")]
    """Folder or file of the capture, as for `luxel train`; or a scene, as for `luxel view`."""
    out: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Write inspect.html and inspect.json into this folder; those of an earlier inspection are replaced."""
    force: bool = False
    """With --out: replace other files named inspect.html and inspect.json too."""
    json: bool = False
    """Print JSON instead of text."""
    max_size: Annotated[Pixels | None, optional("PIXELS")] = None
    """Shrink images to at most this many pixels on their longer side; default: full size."""
    max_megapixels: Annotated[Megapixels | None, optional("N")] = None
    """Refuse images of more megapixels, which need 3 MB of memory each; default: 400."""
    frames: Annotated[Annotated[int, Bounds(3, 10**5)] | None, optional("N")] = None
    """Of a video: use at most N frames; default: 2 a second, 60 to 300."""
    masks: MaskUse = "auto"
    """Use of masks and alpha, as for `luxel train`."""
    object: bool = False
    """Mask the object in the middle before poses are estimated, as for `luxel train`."""
    poses: PoseUse = "keep"
    """Use of given poses, as for `luxel train`."""
    depth_values: DepthValues = "z"
    """What depth maps hold, as for `luxel train`."""
    depth_channel: Annotated[str | None, optional("NAME")] = None
    """Channel of depth in OpenEXR files, as for `luxel train`."""
    points: PointUse = "auto"
    """Initial points of captures without points, as for `luxel train`."""
    estimate: bool = True
    """Estimate memory and time of a training here, from some steps that are measured in a few seconds."""
    preset: str = "default"
    """Preset of the training that is estimated, as for `luxel train`."""
    device: DeviceName = "auto"
    """Device of the training that is estimated; auto: the GPU if luxel can use it, else the CPU."""
    panorama: PanoramaOptions = field(default_factory=PanoramaOptions)

    def execute(self) -> int:
        """Opens the capture and checks it, or the scene; 0 whatever is found."""
        from luxel.viewer.scene_loading.scene_inspection import is_scene

        if is_scene(self.capture):
            self._inspect_scene()
            return 0
        from luxel.render.storage.folder import OutputFolder
        from luxel.scenes.captures.checks import inspect
        from luxel.viewer.progress import describe, opening
        from luxel.viewer.reports.capture_report import PAGE, RECORD, write_report
        from luxel.viewer.reports.evaluation_report import check_writable
        from luxel.viewer.scene_loading.capture_options import Origin
        from luxel.viewer.training.estimate import estimate

        config, device = preset(self.preset), pick_device(self.device)
        origin = Origin.of(self, str(self.capture), 8)
        output = None if self.out is None else OutputFolder(self.out, force=self.force)
        if output is not None:
            check_writable(output, [PAGE, RECORD])
        with opening("opening the capture") as on_progress:
            capture = origin.open(on_progress, device)
            inspection = inspect(capture, on_progress, device)
            expected = None
            if self.estimate:
                on_progress("measuring steps of a training", 0.0)
                expected = estimate(capture, config, self.preset, device)
        facts = facts_of(inspection, expected)
        if self.json:
            print(json.dumps(as_json(inspection, facts, expected), indent=1))
        else:
            describe(capture, warnings=False)
            for name, value in facts.items():
                print(f"{name}: {value}")
            for warning in capture.warnings:
                print(f"note: {visible(warning)}")
            for finding in inspection.findings:
                print(visible(f"{finding.check}: {finding.problem}") + f"\n  {visible(finding.remedy)}")
            if not inspection.findings:
                else_ = " else" if capture.warnings else ""
                print(f"Nothing{else_} was found that training would suffer from.")
        if output is not None:
            page = write_report(output, inspection, facts, as_json(inspection, facts, expected))
            if not self.json:
                print(f"report: {page}")
        return 0

    def _inspect_scene(self) -> None:
        """Prints what is known of a scene.

        Raises:
            LuxelError: options of captures are given, or the scene cannot be read.
        """
        from luxel.viewer.scene_loading.scene_inspection import inspect_scene, sentences

        for option in fields(self):
            given = getattr(self, option.name)
            default = option.default if option.default is not MISSING else PanoramaOptions()
            if option.name not in ("capture", "json") and given != default:
                raise LuxelError(
                    f"{self.capture}: this is a scene, and --{option.name.replace('_', '-')} is for captures.",
                    "Leave it out.",
                )
        inspection = inspect_scene(self.capture)
        if self.json:
            print(json.dumps(inspection.as_json(), indent=1))
            return
        for name, value in inspection.facts.items():
            print(f"{name}: {visible(value)}")
        for line in sentences(inspection, self.capture):
            print(visible(line))


def facts_of(inspection: Inspection, expected: TrainingEstimate | None = None) -> dict[str, str]:
    """What is known of the capture, and of a training on it where that was estimated, by name, for a person."""
    import numpy as np

    from luxel.scenes.captures.checks.coverage import azimuths, widest_gap
    from luxel.viewer.progress import points_in_words

    capture, measures = inspection.capture, inspection.measures
    views = capture.views
    visible = np.isfinite(measures.samples).any(1).sum()
    facts = {
        "format": capture.format,
        "photographs": f"{len(views)}, of which {len(capture.test)} are held out ({capture.holdout})",
        "size": _sizes(inspection),
        "points": points_in_words(capture).replace(" points", "", 1)
        + (f"; {visible} of {len(views)} images see some of them" if len(capture.surface_points) else ""),
    }
    if capture.pose_report:
        facts["poses"] = capture.pose_report
    if capture.reprojection_error is not None:
        facts["reprojection error"] = f"{capture.reprojection_error:.2f} pixels"
    facts["scale"] = f"cameras {capture.extent:.3g} units from the middle"
    if capture.shift.any():
        facts["shift"] = f"{' '.join(f'{x:.10g}' for x in capture.shift)} is subtracted from the coordinates"
    angles, _ = azimuths(capture, measures)
    if len(angles) > 1:
        facts["coverage"] = (
            f"the cameras look at the middle from {360 - widest_gap(angles)[1]:.0f} of the 360 degrees around it"
        )
    if capture.exposures:
        stops = list(capture.exposures.values())
        facts["exposure"] = (
            f"over {max(stops) - min(stops):.1f} stops, by EXIF of {len(stops)} of {len(views)} images"
        )
    if capture.depths:
        facts["depth maps"] = f"of {len(capture.depths)} of {len(views)} images"
    times = {view.time for view in views}
    if len(times) > 1:
        facts["times"] = f"{len(times)}, from {min(times):g} to {max(times):g}"
    return facts if expected is None else facts | expected.facts()


def _sizes(inspection: Inspection) -> str:
    sizes = sorted({(v.camera.width, v.camera.height) for v in inspection.capture.views})
    return f"{sizes[0][0]}x{sizes[0][1]} pixels" if len(sizes) == 1 else f"{len(sizes)} sizes"


def as_json(
    inspection: Inspection, facts: dict[str, str], expected: TrainingEstimate | None = None
) -> dict[str, Any]:
    """The inspection for programs: facts, findings, what was measured of each view, and the estimate of a training."""
    import numpy as np

    measures = inspection.measures
    views = [
        {
            "name": name,
            "sharpness": float(measures.sharpness[row]),
            "luminance": float(measures.luminance[row]),
            "points": int(np.isfinite(measures.samples[row]).sum()),
            "exposure_stops": inspection.capture.exposures.get(name),
        }
        for row, name in enumerate(measures.names)
    ]
    findings = [asdict(finding) for finding in inspection.findings]
    training = None if expected is None else asdict(expected)
    unused = [entry.as_json() for entry in inspection.capture.unused]
    return {
        "facts": facts,
        "findings": findings,
        "warnings": list(inspection.capture.warnings),
        "unused": unused,
        "shift": inspection.capture.shift.tolist(),
        "views": views,
        "training": training,
    }
