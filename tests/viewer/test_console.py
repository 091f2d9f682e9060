"""The beginning and the end of a command's process: what is not waited for, and that nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from luxel.viewer.commands import warm_start
from luxel.viewer.process.streams import LOST


def ended(
    code: str, *, stdout: int = subprocess.PIPE, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A process that runs code and then the script, whose command the code may have replaced."""
    words = [sys.executable, "-c", f"import sys; sys.argv = ['luxel', '--version']\n{code}\nconsole.run()"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        words, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, cwd=cwd, env=buffered
    )


def test_threads_and_functions_at_exit_end_and_objects_are_not_freed(tmp_path: Path) -> None:
    result = ended(
        """
import atexit, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from luxel.viewer import console

class Kept:
    def __del__(self):
        print("freed")

def write(name):
    time.sleep(0.3)
    Path(name).write_text("whole")

kept = Kept()
atexit.register(print, "at exit")
threading.Thread(target=write, args=("thread",)).start()
ThreadPoolExecutor(1).submit(write, "pool")
""",
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("luxel ") and result.stdout.endswith("at exit\n")
    assert [(tmp_path / name).read_text() for name in ("thread", "pool")] == ["whole", "whole"]


@pytest.mark.parametrize("status", [0, 2, 130])
def test_the_exit_status_is_the_commands(status: int) -> None:
    result = ended(f"from luxel.viewer import console; console.main = lambda: {status}")
    assert result.returncode == status and not result.stderr


def test_errors_keep_their_traceback() -> None:
    result = ended("from luxel.viewer import console; console.main = lambda: 1 / 0")
    assert result.returncode == 1 and "ZeroDivisionError" in result.stderr


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = ended("from luxel.viewer import console", stdout=writer)
    finally:
        os.close(writer)
    assert result.returncode == 0 and not result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_is_lost_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        result = ended("from luxel.viewer import console", stdout=full.fileno())
    assert result.returncode == LOST


def test_torch_comes_without_searches_for_garbage() -> None:
    code = """
import gc
from luxel.viewer.cli import main
searches = []
gc.callbacks.append(lambda phase, info: searches.append(phase))
assert main(["view", "missing"]) == 2
print(gc.isenabled(), gc.get_freeze_count() > 100_000, searches.count("start"))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    enabled, frozen, searches = result.stdout.split()
    assert (enabled, frozen) == ("True", "True"), result.stderr
    assert int(searches) < 200, "torch's import makes twice as many"


class Driver:
    """Stands for libcuda.so.1: notes what is called; without a GPU the first call fails."""

    def __init__(self, status: int) -> None:
        self.status, self.called = status, []

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *arguments: self.called.append(name) or self.status


@pytest.mark.parametrize(
    ("status", "called"),
    [(0, ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]), (100, ["cuInit"])],
)
def test_the_gpu_is_opened_while_options_are_read(
    monkeypatch: pytest.MonkeyPatch, status: int, called: list[str]
) -> None:
    driver = Driver(status)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(warm_start.ctypes, "CDLL", lambda name: driver)
    thread = warm_start.begin(["capture", "--device", "auto"])
    assert thread is not None
    thread.join(20)
    assert driver.called == called


@pytest.mark.parametrize("words", [["--help"], ["capture", "--device", "cpu"], ["capture", "--device=cpu"]])
def test_no_gpu_is_opened_where_none_is_needed(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert warm_start.begin(words) is None


def test_no_gpu_is_opened_where_torch_is_there_already() -> None:
    assert warm_start.begin(["capture"]) is None


def test_a_machine_without_a_driver_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(warm_start.ctypes, "CDLL", missing)
    warm_start.open_gpu()


@pytest.mark.gpu
def test_torch_works_in_the_context_that_was_opened(gpu: torch.device) -> None:
    code = """
import ctypes
from luxel.viewer.commands import warm_start
warm_start.begin(["capture"]).join()
driver, device, flags, active = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
driver.cuDeviceGet(ctypes.byref(device), 0)
driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
import torch
print(active.value, float(torch.ones(3, device="cuda").sum()), torch.cuda.current_device())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout == "1 3.0 0\n", result.stderr
