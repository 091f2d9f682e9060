"""`luxel bench view --browser firefox`: browsers that cannot be measured, and a real measurement."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from luxel.viewer.bench.view.firefox import NAMES, is_firefox
from luxel.viewer.cli import main


def fake_firefox(folder: Path, version: str) -> str:
    """Path of a program that states a version and does nothing else."""
    path = folder / "firefox"
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return str(path)


def refusal(browser: str, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The error with which a browser is refused."""
    assert main(["bench", "view", "--browser", browser, "--out", str(out)]) == 2
    return capsys.readouterr().err


def test_a_name_or_path_tells_firefox_from_chromium() -> None:
    assert all(map(is_firefox, (*NAMES, "/opt/firefox/firefox", "/usr/bin/firefox-esr")))
    assert not any(map(is_firefox, ("/usr/bin/chromium", "chrome", "/opt/firefox/chromium")))


def test_a_missing_firefox_is_an_error_that_names_its_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(str(tmp_path / "firefox"), tmp_path, capsys)
    assert f"There is no Firefox at {tmp_path / 'firefox'}" in error and "firefox-esr" in error


def test_an_old_firefox_is_an_error_that_names_both_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(fake_firefox(tmp_path, "Mozilla Firefox 115.9.1esr"), tmp_path, capsys)
    assert "Firefox 115.9.1, too old" in error and "Firefox 128 or newer" in error


def test_a_program_without_a_version_of_firefox_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "does not state a version" in refusal(fake_firefox(tmp_path, "hello"), tmp_path, capsys)


def test_firefox_without_a_display_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = fake_firefox(tmp_path, "Mozilla Firefox 140.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refusal(browser, tmp_path, capsys)
    assert "Xvfb is not installed" in error and "leave --browser out" in error


def test_a_firefox_that_ends_at_once_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("Xvfb") is None:
        pytest.skip("there is no Xvfb")
    error = refusal(fake_firefox(tmp_path, "Mozilla Firefox 140.0"), tmp_path, capsys)
    assert "did not start as a browser that WebDriver BiDi drives" in error


@pytest.mark.slow
def test_the_stream_is_measured_in_firefox(strict: Any, tmp_path: Path) -> None:
    if shutil.which("Xvfb") is None or not any(map(shutil.which, NAMES)):
        pytest.skip("there is no Firefox or no Xvfb")
    command = ["bench", "view", "--browser", "firefox", "--seconds", "3", "--size", "700x500"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    report = strict(tmp_path / "view.json")
    (row,) = report["rows"]
    assert row["path"] == "stream" and report["browser"].startswith("Firefox/")
    assert row["images"] > 0 and row["page_fps"] > 0
    assert 0 < row["latency_ms"] <= row["latency_p95_ms"] and row["decode_ms"] > 0
    text = (tmp_path / "view.md").read_text()
    assert "Firefox/" in text and "viser" not in text
