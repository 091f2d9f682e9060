"""Diagnosis of an installation: findings, each with a remedy if something is missing."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

State = Literal["ok", "note", "missing"]


@dataclass
class Finding:
    """One line of the diagnosis.

    Args:
        name: what was checked, a stable key.
        state: "ok"; "note": luxel works without it; "missing": luxel needs it.
        detail: what was found.
        remedy: the command or step that fixes it; empty if nothing is to be done.
    """

    name: str
    state: State
    detail: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """Plain values for JSON."""
        return asdict(self)


def diagnose() -> list[Finding]:
    """Checks everything that luxel uses; never raises: a check that fails becomes a finding."""
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("luxel", _luxel),
        ("python", _python),
        ("torch", _torch),
        ("byte code", _byte_code),
        ("cpu library", _cpu_library),
        ("driver", _driver),
        ("gpu", _gpu),
        ("cuda library", _cuda_library),
        ("nvcc", _nvcc),
        ("backend", _backend),
        ("render", _render),
        ("pycolmap", lambda: _package("pycolmap", "captures without poses cannot be opened")),
        ("opencv", lambda: _package("cv2", "lens distortion cannot be removed", "opencv-python-headless")),
        ("viser", lambda: _package("viser", "the viewer cannot start")),
        ("heic", lambda: _extra("heic", ("pi_heif", "pillow_heif"), "HEIC images")),
        ("exr", lambda: _extra("exr", ("OpenEXR",), "OpenEXR images and depth maps")),
        ("tiny-cuda-nn", _tiny_cuda_nn),
        ("video", _video),
        ("cache", _cache),
        ("disk", _disk),
    ]
    findings = []
    for name, check in checks:
        try:
            findings.append(check())
        except Exception as error:  # broken installations are what is diagnosed here
            remedy = getattr(error, "remedy", "") or "Reinstall luxel: pip install --force-reinstall luxel."
            problem = getattr(error, "problem", "") or f"{type(error).__name__}: {error}"
            findings.append(Finding(name, "missing", problem, remedy))
    return findings


def works(findings: list[Finding]) -> bool:
    """Whether luxel can train and show scenes here."""
    return all(finding.state != "missing" for finding in findings)


def facts() -> dict[str, Any]:
    """Short facts about versions and device for reports."""
    import torch

    from luxel.render.native import best_device

    device = best_device()
    return {
        "luxel": _version("luxel"),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
    }


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _luxel() -> Finding:
    version = _version("luxel")
    where = Path(__file__).resolve().parent.parent
    if version == "not installed":
        return Finding("luxel", "note", f"runs from {where}, not installed", f"pip install {where}")
    return Finding("luxel", "ok", f"{version} in {where}")


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()}, {sys.executable}")


def _torch() -> Finding:
    import torch

    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    state: State = "ok" if version >= (2, 9) else "missing"
    return Finding(
        "torch", state, f"{torch.__version__} ({built})", "" if state == "ok" else "pip install 'torch>=2.9'"
    )


def _byte_code() -> Finding:
    """Whether Python keeps the byte code of torch, whose modules it otherwise compiles for each command."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return Finding("byte code", "note", "torch is not installed", "pip install 'torch>=2.9'")
    folder, modules = Path(spec.origin).parent, ("nn/functional.py", "_refs/__init__.py")
    if all(Path(importlib.util.cache_from_source(str(folder / name))).is_file() for name in modules):
        return Finding("byte code", "ok", "torch's is retained")
    cause = " (PYTHONDONTWRITEBYTECODE is set)" if sys.dont_write_bytecode else ""
    return Finding(
        "byte code",
        "note",
        f"torch's is not retained{cause}: each command takes one to two seconds longer",
        f"{sys.executable} -m compileall -q {folder}",
    )


def _cpu_library() -> Finding:
    import torch

    from luxel.render.native import cpu_library

    library = cpu_library()
    level = "x86-64-v3 (AVX2)" if library.path.stem.endswith("v3") else "baseline"
    return Finding("cpu library", "ok", f"{library.path.name}, {level}, {torch.get_num_threads()} threads")


def _driver() -> Finding:
    """The NVIDIA driver and the CUDA version that it runs."""
    try:
        runs = ctypes.c_int(0)
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(runs)) != 0:
            raise OSError
    except OSError:
        return Finding("driver", "note", "no NVIDIA driver", _GPU_REMEDY)
    release = ""
    report = Path("/proc/driver/nvidia/version")
    if report.is_file():
        numbers = [word for word in report.read_text().split() if word.count(".") >= 1 and word[0].isdigit()]
        release = f"{numbers[0]}, " if numbers else ""
    cuda = f"CUDA {runs.value // 1000}.{runs.value % 1000 // 10}"
    import torch

    needed = torch.version.cuda
    if needed and int(needed.split(".")[0]) > runs.value // 1000:
        return Finding(
            "driver",
            "note",
            f"{release}runs up to {cuda}, but this torch needs CUDA {needed}",
            f"Install a newer NVIDIA driver, or a torch built for {cuda} or older.",
        )
    return Finding("driver", "ok", f"{release}runs up to {cuda}")


_GPU_REMEDY = "luxel runs on the CPU; for a GPU install the NVIDIA driver from your system's packages."


def _gpu() -> Finding:
    import torch

    if not torch.cuda.is_available():
        remedy = (
            "Install a torch with CUDA: pip install --force-reinstall torch."
            if torch.version.cuda is None and Path("/proc/driver/nvidia/version").exists()
            else "luxel runs on the CPU."
        )
        return Finding("gpu", "note", "none that torch can use", remedy)
    lines = []
    for index in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(index)
        lines.append(f"{p.name}, compute capability {p.major}.{p.minor}, {p.total_memory / 2**30:.0f} GiB")
    return Finding("gpu", "ok", "; ".join(lines))


def _cuda_library() -> Finding:
    from luxel.render.native import cuda_library, cuda_problem, native_folder

    path = native_folder() / "libluxel_cuda.so"
    if not path.is_file():
        return Finding(
            "cuda library",
            "note",
            "luxel was built without CUDA kernels",
            "Install the wheel that has them; or, in a checkout: pip install '.[nvcc]' brings a compiler, then build: "
            "pip install --force-reinstall --no-deps ., or make build.",
        )
    problem = cuda_problem()
    if problem:
        return Finding(
            "cuda library", "note", f"{path.name} is installed, but {problem}", "See driver, gpu and torch."
        )
    cuda_library()
    return Finding("cuda library", "ok", f"{path.name} loads")


def _nvcc() -> Finding:
    places = [shutil.which("nvcc"), *(Path(p) / "nvidia" for p in sys.path)]
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    for home in [*homes, "/usr/local/cuda"]:
        places.append(str(Path(home) / "bin" / "nvcc"))
    for position in places:
        if isinstance(position, Path):
            position = next((str(p) for p in sorted(position.glob("cu[0-9]*/bin/nvcc"))), None)
        if position and Path(position).is_file():
            return Finding("nvcc", "ok", position)
    return Finding(
        "nvcc", "note", "no CUDA compiler (needed only to build the kernels)", "pip install 'luxel[nvcc]'"
    )


def _backend() -> Finding:
    from luxel.render.native import best_device, cuda_problem

    device = best_device()
    if device.type == "cuda":
        return Finding("backend", "ok", "cuda")
    return Finding("backend", "ok", f"cpu, because {cuda_problem()}")


def _render() -> Finding:
    """Renders one Gaussian, which runs the library that was found."""
    import torch

    from luxel.render.geometry.camera import Camera
    from luxel.render.native import best_device
    from luxel.render.primitives.gaussians import Gaussians
    from luxel.render.raster.rasterize import rasterize

    device = best_device()
    one = Gaussians(
        means=torch.zeros(1, 3),
        quats=torch.tensor([[1.0, 0, 0, 0]]),
        log_scales=torch.full((1, 3), -1.0),
        opacity_logits=torch.full((1,), 4.0),
        sh_dc=torch.full((1, 3), 1.0),
        sh_rest=torch.zeros(1, 0, 3),
    ).to(device)
    frame = rasterize(one, Camera.look_at((0, -3, 0), (0, 0, 0), width=32, height=32).to(device))
    middle = float(frame.alpha[16, 16])
    if not 0.9 < middle <= 1:
        return Finding("render", "missing", f"a test image on {device} is wrong", "Reinstall luxel.")
    return Finding("render", "ok", f"a test image on {device} is right")


def _package(module: str, without: str, distribution: str = "") -> Finding:
    name = distribution or module
    if importlib.util.find_spec(module) is None:
        return Finding(name, "missing", f"not installed: {without}", f"pip install {name}")
    return Finding(name, "ok", _version(name))


def _extra(extra: str, modules: tuple[str, ...], what: str) -> Finding:
    """A format that is read where one of several libraries is installed."""
    for module in modules:
        if importlib.util.find_spec(module) is not None:
            return Finding(extra, "ok", f"{module} {_version(module.replace('_', '-'))}: {what}")
    return Finding(extra, "note", f"{what} are not read", f"pip install 'luxel[{extra}]'")


def _tiny_cuda_nn() -> Finding:
    """The optional second backend of neural fields."""
    from luxel.render.backends import tinycudann
    from luxel.render.errors import LuxelError

    try:
        tinycudann.require()
    except LuxelError as error:
        return Finding("tiny-cuda-nn", "note", f"fields are luxel's own: {error.problem}", error.remedy)
    return Finding("tiny-cuda-nn", "ok", f"{_version('tinycudann')}: luxel train --backend tiny-cuda-nn")


def _video() -> Finding:
    try:
        import av

        return Finding("video", "ok", f"PyAV {av.__version__}, FFmpeg {av.ffmpeg_version_info}")
    except ImportError as error:
        return Finding(
            "video", "note", f"no PyAV ({error}): luxel render writes PNG files only", "pip install av"
        )


def _cache() -> Finding:
    """Where structure from motion works, and where results of captures are that cannot be written to."""
    from luxel.render.storage import places

    folder = places.cache_folder()
    if folder is None:
        return Finding(
            "cache",
            "note",
            "no cache folder can be written: what is computed of captures is lost when luxel ends",
            "Set XDG_CACHE_HOME to a folder that you can write to.",
        )
    if folder.name != places.APPLICATION:
        return Finding(
            "cache",
            "note",
            f"{folder}, as there is no home folder that can be written: it may be emptied at any time",
            "Set XDG_CACHE_HOME or HOME to a folder that you can write to.",
        )
    return Finding("cache", "ok", f"{folder} can be written")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free < 2:
        return Finding(
            "disk",
            "note",
            f"{free:.1f} GiB free in {Path.cwd()}",
            "Free some space, or train with --run elsewhere.",
        )
    return Finding("disk", "ok", f"{free:.0f} GiB free in {Path.cwd()}")


def processor() -> str:
    """The name of the processor and how many threads torch uses."""
    import torch

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {torch.get_num_threads()} threads"
