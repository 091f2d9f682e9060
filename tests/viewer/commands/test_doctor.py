"""The diagnosis: complete, truthful where it can be checked, with a remedy for whatever is missing."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from luxel.render.native import best_device
from luxel.viewer import doctor
from luxel.viewer.cli import main

# Distributions that luxel requires and this machine lacks, each by its module.
ABSENT = {
    name
    for name, module in {"pycolmap": "pycolmap", "opencv-python-headless": "cv2", "viser": "viser"}.items()
    if importlib.util.find_spec(module) is None
}


def test_everything_has_a_state_and_what_is_missing_a_remedy() -> None:
    findings = doctor.diagnose()
    names = [finding.name for finding in findings]
    expected = {
        "luxel",
        "torch",
        "cpu library",
        "driver",
        "gpu",
        "cuda library",
        "backend",
        "render",
        "pycolmap",
        "video",
    }
    assert expected <= set(names) and len(set(names)) == len(names)
    for finding in findings:
        assert finding.state in ("ok", "note", "missing") and finding.detail
        assert finding.remedy or finding.state == "ok" or "but" in finding.detail, finding


def test_it_names_what_runs() -> None:
    findings = {finding.name: finding for finding in doctor.diagnose()}
    assert torch.__version__ in findings["torch"].detail
    assert findings["backend"].detail.startswith(best_device().type)
    assert findings["render"].state == "ok"
    assert {name for name, finding in findings.items() if finding.state == "missing"} == ABSENT
    assert doctor.works(list(findings.values())) is (not ABSENT)
    assert "libluxel_cpu" in findings["cpu library"].detail


def test_torch_without_byte_code_is_a_note(tmp_path: Path) -> None:
    code = "from luxel.viewer import doctor; print(doctor._byte_code().as_dict())"
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    without = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    results = [
        ast.literal_eval(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env={**kept, **more}, check=True
            ).stdout
        )
        for more in ({}, without)
    ]
    assert results[0]["state"] == "ok"
    assert results[1]["state"] == "note" and "PYTHONDONTWRITEBYTECODE is set" in results[1]["detail"]
    assert f"-m compileall -q {Path(torch.__file__).parent}" in results[1]["remedy"]


def test_tiny_cuda_nn_is_a_note_where_it_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from luxel.render.backends import tinycudann

    finding = doctor._tiny_cuda_nn()
    if not torch.cuda.is_available():
        assert finding.state == "note" and "fields are luxel's own" in finding.detail and finding.remedy
    monkeypatch.setattr(tinycudann, "require", lambda device=None: object())
    finding = doctor._tiny_cuda_nn()
    assert finding.state == "ok" and "luxel train --backend tiny-cuda-nn" in finding.detail


def test_formats_of_optional_libraries_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"heic", "exr"} <= {finding.name for finding in doctor.diagnose()}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    finding = doctor._extra("exr", ("OpenEXR",), "OpenEXR images")
    assert (finding.state, finding.remedy) == ("note", "pip install 'luxel[exr]'")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert doctor._extra("exr", ("OpenEXR",), "OpenEXR images").state == "ok"


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == (1 if ABSENT else 0)
    record = json.loads(capsys.readouterr().out)
    assert record["works"] is (not ABSENT)
    assert {"name", "state", "detail", "remedy"} == set(record["findings"][0])


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == (1 if ABSENT else 0)
    text = capsys.readouterr().out
    assert ("luxel works here." in text) is (not ABSENT) and "pycolmap" in text


def test_a_missing_library_is_found_and_ends_with_status_1(tmp_path: Path) -> None:
    """In a process of its own: libraries are loaded once."""
    run = subprocess.run(
        [sys.executable, "-m", "luxel.viewer.console", "doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LUXEL_NATIVE_DIR": str(tmp_path)},
    )
    assert run.returncode == 1 and "Traceback" not in run.stderr
    findings = {f["name"]: f for f in json.loads(run.stdout)["findings"]}
    assert (
        findings["cpu library"]["state"] == "missing"
        and "LUXEL_NATIVE_DIR" in findings["cpu library"]["detail"]
    )
    assert findings["cpu library"]["remedy"]
    assert findings["pycolmap"]["state"] == ("missing" if "pycolmap" in ABSENT else "ok")


def test_a_look_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doctor.Finding:
        raise ImportError("torn apart")

    monkeypatch.setattr(doctor, "_torch", broken)
    findings = {finding.name: finding for finding in doctor.diagnose()}
    assert (
        findings["torch"].state == "missing"
        and "torn apart" in findings["torch"].detail
        and findings["torch"].remedy
    )


def test_an_old_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a torch for CUDA 99 and a driver that runs 12.4, in place of the real ones."""

    class Driver:
        def cuDriverGetVersion(self, out: object) -> int:
            out._obj.value = 12040  # type: ignore[attr-defined]
            return 0

    monkeypatch.setattr(doctor.ctypes, "CDLL", lambda name: Driver())
    monkeypatch.setattr(torch.version, "cuda", "99.0")
    finding = doctor._driver()
    assert finding.state == "note" and "CUDA 12.4" in finding.detail and "99.0" in finding.detail
    assert "driver" in finding.remedy


def test_a_checkout_without_a_distribution_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the packages on PYTHONPATH: luxel runs, and the version alone is unknown."""

    def absent(distribution: str) -> str:
        raise importlib.metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    finding = doctor._luxel()
    assert finding.state == "note" and "not installed" in finding.detail and "pip install" in finding.remedy
    assert doctor.works([finding])


@pytest.mark.parametrize("place", ["nothing", "temporary", "chosen"])
def test_the_cache_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """A user id without an account: nothing has to be reinstalled, and the remedy helps."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if place == "nothing":
        (tmp_path / f"luxel-{os.getuid()}").write_text("of somebody else")
    elif place == "chosen":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (finding,) = (finding for finding in doctor.diagnose() if finding.name == "cache")
    if place == "chosen":
        assert (finding.state, finding.remedy) == ("ok", "")
    else:
        assert finding.state == "note" and "Set XDG_CACHE_HOME" in finding.remedy
