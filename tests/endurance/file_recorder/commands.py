"""Commands of luxel under the recorder: processes forked from one that has imported everything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent


def compiler() -> str | None:
    """The C compiler of this machine; None: there is none, and nothing can be recorded."""
    return next((path for name in ("cc", "gcc", "g++", "clang") if (path := shutil.which(name))), None)


@dataclass
class Result:
    """How a command ended.

    Args:
        status: exit status; negative: a signal.
        text: what it printed, standard output and errors in order.
    """

    status: int
    text: str

    @property
    def crashed(self) -> bool:
        """Whether an exception was not handled, or the process died."""
        return "Traceback (most recent call last)" in self.text or self.status < 0


class Commands:
    """A process that runs commands, one after another, each in a fork of its own.

    Args:
        folder: for the compiled recorder, outputs and records; made if it is missing.
        python: interpreter whose luxel is run.
    """

    def __init__(self, folder: Path, python: str | Path = sys.executable) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "recorder.so"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        if (cc := compiler()) is not None:
            source = ["-x", "c", str(HERE / "interposer.c"), "-ldl", "-lpthread"]
            subprocess.run([cc, "-shared", "-fPIC", "-O1", "-o", str(library), *source], check=True)
            environment["LD_PRELOAD"] = str(library)
        for variable in ("STATE", "CACHE"):
            environment[f"XDG_{variable}_HOME"] = str(folder / variable.lower())
        self._process = subprocess.Popen(
            [str(python), str(HERE / "server.py"), str(library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )
        self._number = 0

    def run(
        self,
        arguments: Sequence[str],
        *,
        record: Path | None = None,
        roots: Sequence[Path] = (),
        environment: dict[str, str] | None = None,
        interrupt: Path | None = None,
        seconds: float = 120,
    ) -> Result:
        """Runs a command to its end.

        Args:
            arguments: as after `luxel`; or "python", a file and its arguments.
            record: folder for the record; None: nothing is recorded.
            roots: folders whose changes are recorded.
            environment: variables for it.
            interrupt: file at whose coming it gets SIGINT.
            seconds: after which it is killed.
        """
        self._number += 1
        output = self.folder / f"output-{self._number}.txt"
        if record is not None:
            record.mkdir(parents=True, exist_ok=True)
        request = {
            "arguments": [*map(str, arguments)],
            "output": str(output),
            "record": str(record.resolve()) if record else None,
            "roots": [str(root.resolve()) for root in roots],
            "environment": environment or {},
            "interrupt": str(interrupt) if interrupt else None,
            "seconds": seconds,
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that runs commands ended with {self._process.wait()}")
        return Result(json.loads(answer)["status"], output.read_text(errors="replace"))

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
