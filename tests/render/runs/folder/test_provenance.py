"""Which files outside of its folder a run may name, and the key with which that is proved."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from luxel.render.runs.folder import provenance
from luxel.render.runs.folder.provenance import ENTRY, UntrustedRunError, proof_of_origin, require_trusted
from luxel.render.runs.notices import forget_printed
from luxel.render.storage import user_key as keys
from luxel.render.storage.user_key import NoKeyError, user_key


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "luxel"


def run_with(folder: Path, path: str, **more: Any) -> dict[str, Any]:
    """A run of this user, as its config.json has it."""
    folder.mkdir(exist_ok=True)
    body: dict[str, Any] = {"identity": {"id": "1" * 32}, "capture": {"path": path, **more}}
    body[ENTRY] = proof_of_origin(folder, "1" * 32, body)
    (folder / "config.json").write_text("{}")
    os.utime(folder / "config.json", (1, 1))  # not written in place
    return body


def test_the_key_is_made_once_and_is_private(state: Path) -> None:
    before = time.time_ns()
    key = user_key()
    assert len(key.secret) == 32 and before <= key.created <= time.time_ns()
    assert user_key() == key
    assert stat.S_IMODE((state / "key").stat().st_mode) == 0o600 and os.listdir(state) != []
    assert key.secret.hex() not in repr(key) and str(key.secret) not in repr(key)


def test_a_key_that_others_can_read_or_that_is_damaged_is_not_used(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_key()
    file = state / "key"
    file.chmod(0o644)
    with pytest.raises(NoKeyError, match="other users can read"):
        user_key()
    file.chmod(0o600)
    file.write_bytes(b"short")
    with pytest.raises(NoKeyError, match="damaged"):
        user_key()
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(NoKeyError, match="cannot be used"):
        user_key()
    monkeypatch.setattr(keys, "state_folder", lambda: None)
    with pytest.raises(NoKeyError, match="no folder"):
        user_key()


def test_a_run_of_this_user_names_what_it_was_made_with_and_nothing_else(tmp_path: Path) -> None:
    user_key()
    run = tmp_path / "run"
    body = run_with(run, "/photos", depth_points="/scan.ply")
    require_trusted(run, body, "/photos", "")
    altered = [
        {**body, "capture": {"path": "/private", "depth_points": "/scan.ply"}},
        {**body, "capture": {"path": "/photos", "depth_points": "/private"}},
        {**body, "capture": {"path": "/photos"}},
        {**body, "data": {"path": "/private"}},
        {**body, "identity": {"id": "2" * 32}},
        {**body, ENTRY: ""},
        {**body, ENTRY: None},
        {**body, ENTRY: "\u00e4"},
        {name: value for name, value in body.items() if name != ENTRY},
    ]
    for other in altered:
        path = other["capture"]["path"]
        with pytest.raises(UntrustedRunError, match=f"not made by you on this machine.*capture {path}"):
            require_trusted(run, other, path, "Give it.")


def test_what_lies_in_the_run_folder_may_be_opened_and_links_out_of_it_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    body = run_with(run, str(run / "photos"))
    assert body[ENTRY] == "", "the run may be of someone else, who changes the link later"
    (run / "photos").mkdir()
    require_trusted(run, body, str(run / "photos"), "")
    (run / "link").symlink_to(tmp_path)
    (run / "loop").symlink_to(run / "loop")
    for path in (str(run / "link"), str(run / ".." / "other"), str(run / "loop" / "x") + "\0"):
        with pytest.raises(UntrustedRunError):
            require_trusted(run, body, path, "")


def test_runs_of_earlier_versions_that_were_there_before_the_key_are_trusted(
    tmp_path: Path, state: Path
) -> None:
    run, copied = tmp_path / "run", tmp_path / "copied"
    earlier = {"config": {}, "capture": {"path": "/photos"}}
    for folder in (run, copied):
        folder.mkdir()
    (run / "config.json").write_text("{}")
    time.sleep(0.02)  # times of files are coarser than the clock
    require_trusted(run, earlier, "/photos", "")
    (copied / "config.json").write_text("{}")
    os.utime(copied / "config.json", (1, 1))
    for folder in (copied, tmp_path / "state"):  # unpacked later, and without any file of a run
        with pytest.raises(UntrustedRunError):
            require_trusted(folder, earlier, "/photos", "")
    require_trusted(run, earlier, "/photos", "")


def test_runs_of_earlier_versions_that_were_written_in_place_are_trusted_and_named(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, earlier = tmp_path / "run", {"config": {}, "capture": {"path": "/photos"}}
    user_key()
    (run / "checkpoints").mkdir(parents=True)
    for name in ("config.json", "checkpoints/step-00000010.json"):
        (run / name).write_text("{}")
    forget_printed()
    require_trusted(run, earlier, "/photos", "")
    assert "earlier version" in capsys.readouterr().err
    os.utime(run / "checkpoints/step-00000010.json", (1, 1))
    with pytest.raises(UntrustedRunError):
        require_trusted(run, earlier, "/photos", "")


def test_without_a_key_runs_are_asked_for_and_the_reason_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "state_folder", lambda: None)
    run = tmp_path / "run"
    body = run_with(run, "/photos")
    assert body[ENTRY] == ""
    with pytest.raises(UntrustedRunError, match="cannot be checked: there is no folder") as refused:
        require_trusted(run, body, "/photos", "Give it.")
    assert refused.value.remedy == "Give it."


def test_every_entry_that_names_files_is_covered() -> None:
    from dataclasses import fields

    from luxel.viewer.scene_loading.capture_options import Origin

    texts = {field.name for field in fields(Origin) if field.type in ("str", "str | None")}
    no_files = {"masks", "poses", "depth_values", "lens", "depth_channel", "far_cameras", "points"}
    assert texts - no_files == set(provenance.NAMES["capture"])
