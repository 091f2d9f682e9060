"""The beginning and the end of a command's process: what is not waited for, and that nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from luxel.viewer.commands.console import FLUSH_FAILED


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
from luxel.viewer.commands import console

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
    result = ended(f"from luxel.viewer.commands import console; console.main = lambda: {status}")
    assert result.returncode == status and not result.stderr


def test_errors_keep_their_traceback() -> None:
    result = ended("from luxel.viewer.commands import console; console.main = lambda: 1 / 0")
    assert result.returncode == 1 and "ZeroDivisionError" in result.stderr


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = ended("from luxel.viewer.commands import console", stdout=writer)
    finally:
        os.close(writer)
    assert result.returncode == 0 and not result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_is_lost_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        result = ended("from luxel.viewer.commands import console", stdout=full.fileno())
    assert result.returncode == FLUSH_FAILED


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


@pytest.mark.gpu
def test_a_gpu_is_opened_while_the_command_goes_on(gpu: torch.device) -> None:
    code = """
import threading, torch
from luxel.viewer.commands.options import pick_device
pick_device("auto")
for thread in threading.enumerate():
    if thread.name == "luxel-gpu":
        thread.join()
print(torch.cuda.memory_reserved() > 0)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout == "True\n", result.stderr
