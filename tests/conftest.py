"""Fixtures of all tests: what the machine has, the captures beside the checkout, and small random scenes."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import torch
from tinycudann_stand_in import StandIn

sys.path.insert(0, str(Path(__file__).with_name("error_recording")))
import raises

if raises.requested(sys.argv):  # before any module of luxel is imported
    raises.install()

from luxel.render.backends import tinycudann
from luxel.render.geometry.camera import Camera
from luxel.render.native import cuda_problem
from luxel.render.primitives.gaussians import Gaussians

pytest_plugins = ["error_plugin"]

RUNS_AGAIN = 2  # times that a failing test of the viewer does
NOT_RUN = {"gpu": "GPU tests that did not run", "captures": "capture tests that did not run"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU and luxel's CUDA library")
    config.addinivalue_line("markers", "captures: needs the folder of captures (LUXEL_SHARED, or ../shared)")
    config.addinivalue_line("markers", "slow: run by `make test-all`, left out by `make test`")
    let_children_be_interrupted()


def let_children_be_interrupted() -> None:
    """In the background of a script SIGINT is ignored, and a process passes this on to its children: the tests that
    interrupt one would wait forever. Handlers are not passed on, so a handler that does nothing sets children free."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    viewer = Path(__file__).with_name("viewer")
    for item in items:
        if (
            viewer in item.path.parents
        ):  # browsers, sockets and processes in real time: the machine may be too busy
            item.add_marker(pytest.mark.flaky(reruns=RUNS_AGAIN))
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker("captures")


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Tests leave no traces in the folders of the user, and find none: neither the key nor caches."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("STATE", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture
def first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no key of the user yet: runs that a test writes by hand are older than it, as those of earlier versions
    are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "first-use"))


@pytest.fixture(autouse=True)
def usual_megapixels() -> Generator[None, None, None]:
    """The limit on images is one of the process: a test that lowers it does not lower it for others."""
    yield
    limit = sys.modules.get("luxel.scenes.files.pixel_limit")
    if limit is not None:
        limit.set_max_megapixels(limit.MAX_MEGAPIXELS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """The last lines of a run say what this machine left unproved."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.config.option.collectonly:
        return
    again = reporter.stats.get("rerun", [])
    reporter.write_line(f"tests that failed and ran again: {len({report.nodeid for report in again})}")
    for report in again:
        crash = getattr(report.longrepr, "reprcrash", None)
        first = str(crash.message if crash else report.longrepr).partition("\n")[0]
        reporter.write_line(f"RAN AGAIN {report.nodeid}: {first}")
    skipped = reporter.stats.get("skipped", [])
    for marker, words in NOT_RUN.items():
        reporter.write_line(
            f"{words}: {sum(marker in getattr(report, 'keywords', ()) for report in skipped)}"
        )


@pytest.fixture
def gpu() -> torch.device:
    """The GPU, for tests marked so; where luxel cannot use one they skip and say why."""
    if problem := cuda_problem():
        pytest.skip(f"GPU test not run: {problem}")
    return torch.device("cuda")


@pytest.fixture
def stand_in_tinycudann(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stand-in in the place of tiny-cuda-nn, on a machine that needs no GPU for it."""
    module = StandIn()
    monkeypatch.setitem(sys.modules, "tinycudann", module)
    monkeypatch.setattr(tinycudann, "require", lambda device=None: module)
    return module


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Each backend that luxel has; those that the machine lacks skip and say why."""
    return request.getfixturevalue("gpu") if request.param == "cuda" else torch.device("cpu")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder that holds captures/ and models/: LUXEL_SHARED, or ../shared beside the checkout."""
    chosen = os.environ.get("LUXEL_SHARED")
    folder = Path(chosen) if chosen else Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "captures").is_dir():
        pytest.skip(
            f"capture test not run: {folder} has no captures/ (set LUXEL_SHARED to the folder that has)"
        )
    return folder


def build_gaussians(
    n: int,
    seed: int = 0,
    *,
    sh_degree: int = 3,
    scale: float = 0.12,
    spread: float = 1.0,
    opacity_logit: float = 0.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Gaussians:
    """N random Gaussians around the origin; the same numbers (rounded to float32) in every float type.

    Args:
        scale: median standard deviation; axes differ by a factor of about 1.6.
        spread: standard deviation of the centres.
        opacity_logit: mean of the opacity logits, which spread by 1.5.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return Gaussians(
        means=spread * normal(n, 3),
        quats=normal(n, 4),
        log_scales=math.log(scale) + 0.5 * normal(n, 3),
        opacity_logits=opacity_logit + 1.5 * normal(n),
        sh_dc=0.8 * normal(n, 3),
        sh_rest=0.2 * normal(n, 15, 3)[:, : (sh_degree + 1) ** 2 - 1],
    ).map(lambda t: t.contiguous().to(device=device, dtype=dtype))


def build_camera(
    width: int = 64,
    height: int = 48,
    *,
    eye: tuple[float, float, float] = (0.5, -3.5, 0.8),
    target: tuple[float, float, float] = (0.0, 0.0, 0.0),
    off_centre: bool = False,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Camera:
    """A camera that sees the origin; ``off_centre`` moves the principal point and makes fx differ from fy."""
    camera = Camera.look_at(eye, target, width=width, height=height, fov_y=math.radians(45))
    if off_centre:
        camera.intrinsics.copy_(camera.intrinsics * torch.tensor([1.25, 0.9, 0.8, 1.3]))
    return camera.to(dtype).to(torch.device(device))


@pytest.fixture(scope="session")
def random_gaussians() -> Callable[..., Gaussians]:
    """`build_gaussians`."""
    return build_gaussians


@pytest.fixture(scope="session")
def toy_camera() -> Callable[..., Camera]:
    """`build_camera`."""
    return build_camera
