"""A viewer in a process of its own, whose memory, threads and log are watched."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

TOKEN = "token-of-the-endurance-test"
SETTLING = 120.0  # seconds with pages, at most half of a window, before memory counts
ERROR = re.compile(r"Traceback|ERROR|Exception|Error\b|exception was never|was destroyed|never awaited")
IGNORED = "A message of a page was ignored"  # what the viewer prints once a reason


class Server:
    """The viewer in a process of its own; a context that ends it.

    Args:
        command: arguments of `luxel`.
        folder: for its log.

    Attributes:
        url: as it printed it.
        memory: seconds since the start and resident MiB, sampled each second.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command, self._log = list(command), folder / "server.log"
        self.memory: list[tuple[float, float]] = []
        self.url = ""
        self._over = threading.Event()

    def __enter__(self) -> Server:
        environment = {**os.environ, "LUXEL_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "luxel.viewer.console", *self._command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        addresses: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(addresses,), daemon=True).start()
        try:
            self.url = addresses.get(timeout=180)
        except queue.Empty:
            self.process.kill()
            raise SystemExit(f"the viewer did not start:\n{self._log.read_text()}") from None
        self._started = time.monotonic()
        threading.Thread(target=self._sample, daemon=True).start()
        return self

    def _read(self, addresses: queue.Queue[str]) -> None:
        assert self.process.stdout is not None
        with self._log.open("w") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                if match := re.match(r"viewer: (\S+)", line):
                    addresses.put(match[1])

    def _sample(self) -> None:
        while not self._over.wait(1.0):
            with suppress(OSError):
                self.memory.append((time.monotonic() - self._started, self.resident()))

    def resident(self) -> float:
        """Resident memory, MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+)", text)
        return int(match[1]) / 1024 if match else 0.0

    def threads(self) -> int:
        """How many threads the process has."""
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def held(self, start: float, end: float) -> float:
        """Median of the resident memory between two readings of `time.monotonic`, MiB."""
        between = [mib for at, mib in self.memory if start <= self._started + at <= end]
        return median(between)

    def held_within(self, opened: float, seconds: float) -> tuple[float, float]:
        """Resident memory of a window of ``seconds`` with pages: of the minute after SETTLING, and of the last, MiB."""
        minute = min(60.0, seconds / 2)
        settled = opened + min(SETTLING, seconds / 2)
        return self.held(settled, settled + minute), self.held(opened + seconds - minute, opened + seconds)

    def rested(self, over: float = 12.0) -> float:
        """Median of the resident memory in the second half of the next seconds, MiB: closed pages are trimmed by then.

        Beside a training the smallest value would only say how long ago the last trim was: steps take memory again.
        """
        time.sleep(over)
        now = time.monotonic()
        return self.held(now - over / 2, now)

    def settled(self, over: float = 5.0) -> float:
        """Smallest resident memory of the next seconds, MiB: what is left when all work is done."""
        samples = []
        for _ in range(int(over / 0.25)):
            samples.append(self.resident())
            time.sleep(0.25)
        return min(samples)

    def errors(self) -> list[str]:
        """Lines of the log that report an error of the server, not one of a page."""
        lines = self._log.read_text().splitlines()
        return [line for line in lines if ERROR.search(line) and IGNORED not in line]

    def log_bytes(self) -> int:
        """Size of what was printed."""
        return self._log.stat().st_size

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
