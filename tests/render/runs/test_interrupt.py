"""Ctrl-C asks a run to end in order, and a second one ends it at once; a background job does not notice either."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from luxel.render.runs.interrupt import Interrupt


@pytest.fixture
def sigint_before() -> Iterator[None]:
    """Puts the handler of SIGINT back after a test that replaces it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_asks_and_the_second_ends(sigint_before: None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    messages: list[str] = []
    with pytest.raises(KeyboardInterrupt), Interrupt(messages.append) as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested and len(messages) == 1
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_was_ignored_stays_ignored(sigint_before: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages: list[str] = []
    with Interrupt(messages.append) as interrupt:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert not interrupt.requested and not messages
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_children_of_tests_can_be_interrupted() -> None:
    """Also where the tests run in the background: `let_children_be_interrupted` in conftest.py."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stdout.strip() == "True"
