"""Installs a wheel as people do and uses it: no compiler on PATH, nothing of the checkout, one log of what happened.

Makes a virtual environment, installs torch and the wheel into it, then runs `luxel doctor`, `luxel demo` in exit mode,
`luxel train` on the photographs of the packaged capture and `luxel view`, of which it loads the page. PATH holds the
environment alone. The log is a row of a table per step: what, seconds, what it gave.

    python tests/packaging/try_wheel.py dist/luxel-*.whl --python python3.12 --torch torch==2.14.1
    python tests/packaging/try_wheel.py dist/cpu/luxel-*.whl --borrow .venv/lib/python3.11/site-packages

--borrow takes torch and all other packages from an environment that has them, without a download; the wheel alone is
installed. Exit status 1 where a step failed; its output is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "nvcc", "cmake", "ninja", "make")
STEPS = ("doctor", "demo", "train", "view")


class Failure(Exception):
    """A step that did not do what it should; the text is what it printed."""


class Trial:
    """One installation in a folder of its own.

    Args:
        folder: holds the environment and the runs.
        python: the interpreter that the environment is made from.
    """

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self.bin = folder / "venv" / "bin"
        kept = {
            k: v for k, v in os.environ.items() if k in ("LANG", "LC_ALL", "OMP_NUM_THREADS", "SSL_CERT_FILE")
        }
        pip = {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
        self.environment = {
            **kept,
            **pip,
            "PATH": str(self.bin),
            "HOME": str(folder),
            "CUDA_VISIBLE_DEVICES": "",
        }
        self.rows: list[tuple[str, float, str]] = []

    def step(self, name: str, action: Callable[[], str]) -> None:
        """Runs a step and notes its seconds and what it gave."""
        started = time.monotonic()
        outcome = action()
        self.rows.append((name, time.monotonic() - started, outcome))
        print(f"| {name} | {self.rows[-1][1]:.1f} | {outcome} |", flush=True)

    def call(self, *command: str, **environment: str) -> str:
        """Runs a command of the environment; returns what it printed."""
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            env={**self.environment, **environment},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise Failure(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def make(self, *options: str) -> str:
        """Makes the environment; no compiler can be found in it."""
        subprocess.run([self.python, "-m", "venv", *options, str(self.folder / "venv")], check=True)
        compilers = [name for name in COMPILERS if shutil.which(name, path=self.environment["PATH"])]
        if compilers:
            raise Failure(f"PATH still has {', '.join(compilers)}")
        return self.call("python", "--version").strip()

    def borrow(self, site: Path) -> str:
        """Adds the packages of another environment behind those of this one."""
        own = self.call("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (Path(own) / "borrowed.pth").write_text(f"{site.resolve()}\n")
        return f"torch {self.version('torch')}, borrowed"

    def install(self, *what: str) -> str:
        """Installs without building anything."""
        self.call("python", "-m", "pip", "install", "--quiet", "--only-binary=:all:", *what)
        return f"{self.megabytes():,.0f} MB in all"

    def version(self, package: str) -> str:
        return self.call(
            "python", "-c", f"from importlib.metadata import version; print(version('{package}'))"
        ).strip()

    def megabytes(self) -> float:
        """Bytes of the environment on disk."""
        files = (Path(top) / name for top, _, names in os.walk(self.folder / "venv") for name in names)
        return sum(file.lstat().st_size for file in files) / 1e6

    def in_the_wheel(self) -> str:
        """The package and its libraries are those of the wheel, not of a checkout or of the borrowed environment."""
        code = "import luxel.render.native as n; print(n.__file__); print(n.cpu_library().path)"
        for place in self.call("python", "-c", code).split():
            if not Path(place).resolve().is_relative_to((self.folder / "venv").resolve()):
                raise Failure(f"{place} is not the wheel's")
        return self.call("luxel", "--version").strip()

    def doctor(self) -> str:
        """Every finding that is not a note is fine."""
        report = json.loads(self.call("luxel", "doctor", "--json"))
        if not report["works"]:
            raise Failure(f"luxel doctor: {json.dumps(report, indent=2)}")
        by_name = {finding["name"]: finding for finding in report["findings"]}
        return f"works; {by_name['cpu library']['detail']}; {by_name['cuda library']['detail']}"

    def demo(self, minutes: float) -> str:
        """The packaged capture, trained and evaluated."""
        text = self.call("luxel", "demo", "--minutes", str(minutes), LUXEL_DEMO_EXIT="1")
        return self._match(r"held-out PSNR: [\d.]+ dB", text)[0]

    def train(self, steps: int) -> str:
        """Photographs with poses, as a folder of the person's own."""
        code = "import shutil; from luxel.scenes.captures.demo import demo_path; shutil.copytree(demo_path(), 'photos')"
        self.call("python", "-c", code)
        text = self.call("luxel", "train", "photos", "--run", "run", "--steps", str(steps), "--device", "cpu")
        scene = self.folder / "run" / "scene.ply"
        if not scene.is_file():
            raise Failure(f"no {scene}:\n{text}")
        return f"{steps} steps; scene.ply of {scene.stat().st_size / 1e6:.1f} MB"

    def view(self) -> str:
        """The page of the trained run, loaded over HTTP; Ctrl-C ends the command."""
        log = self.folder / "view.log"
        with log.open("w") as out:
            command = [str(self.bin / "luxel"), "view", "run", "--port", "0", "--device", "cpu"]
            process = subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=out, stderr=out)
        try:
            url = self._wait_for(r"viewer: (\S+)", log, process)[1]
            self._wait_for("Ctrl-C ends the viewer", log, process)
            with urllib.request.urlopen(url, timeout=30) as answer:
                page, kind = answer.read().decode(), answer.headers["Content-Type"]
            if "<html" not in page.lower() or "html" not in kind:
                raise Failure(f"{url} is no page ({kind}): {page[:200]}")
            process.send_signal(signal.SIGINT)
            if process.wait(60) or "Traceback" in log.read_text():
                raise Failure(f"luxel view ended with {process.returncode}:\n{log.read_text()}")
        finally:
            process.kill()
            process.wait()
        return f"page of {len(page.encode()) / 1e3:.0f} kB"

    def _wait_for(
        self, pattern: str, log: Path, process: subprocess.Popen[bytes], seconds: float = 120
    ) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            if match := re.search(pattern, log.read_text()):
                return match
            time.sleep(0.1)
        return self._match(pattern, log.read_text())

    @staticmethod
    def _match(pattern: str, text: str) -> re.Match[str]:
        match = re.search(pattern, text)
        if match is None:
            raise Failure(f"{pattern!r} was not printed:\n{text}")
        return match


def try_wheel(trial: Trial, options: argparse.Namespace) -> None:
    """All steps; the first that fails ends them."""
    wheel = str(options.wheel.resolve())
    print("| step | seconds | outcome |\n|---|---|---|")
    if options.borrow:
        trial.step("environment", lambda: trial.make("--without-pip"))
        trial.step("packages", lambda: trial.borrow(options.borrow))
        trial.step("install", lambda: trial.install("--no-deps", "--ignore-installed", wheel))
    else:
        trial.step("environment", trial.make)
        if options.torch:
            trial.step(f"install {options.torch}", lambda: trial.install(options.torch))
        trial.step("install the wheel", lambda: trial.install(wheel))
        trial.step("versions", lambda: f"torch {trial.version('torch')}, numpy {trial.version('numpy')}")
    trial.step("luxel --version", trial.in_the_wheel)
    actions: dict[str, Callable[[], str]] = {
        "doctor": trial.doctor,
        "demo": lambda: trial.demo(options.minutes),
        "train": lambda: trial.train(options.steps),
        "view": trial.view,
    }
    for name in options.only or STEPS:
        trial.step(f"luxel {name}", actions[name])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment")
    parser.add_argument(
        "--torch", default="", help="the torch to install first, such as torch==2.13.0 or a wheel"
    )
    parser.add_argument(
        "--borrow", type=Path, help="site-packages to take all packages from, without a download"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="minutes that the demo trains")
    parser.add_argument("--steps", type=int, default=30, help="steps that `luxel train` takes")
    parser.add_argument("--only", nargs="+", choices=STEPS, help="these commands (view needs train)")
    parser.add_argument(
        "--folder", type=Path, help="where to work, kept afterwards; a temporary folder by default"
    )
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="luxel-wheel-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        try_wheel(Trial(folder.resolve(), options.python), options)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
