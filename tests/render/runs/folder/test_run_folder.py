"""What the folder of a run says where its files cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from luxel.render.errors import LuxelError
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.train.config import TrainConfig


def test_a_configuration_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "run", print)
    (tmp_path / "run" / "config.json").mkdir()  # no file replaces a folder
    with pytest.raises(LuxelError, match=r"config\.json: this is a folder") as refused:
        folder.write_config(TrainConfig(), {})
    assert refused.value.remedy
    (tmp_path / "run" / "config.json").rmdir()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk, pytest.raises(LuxelError, match=r"cannot be written \(No space"):
        disk.setattr(os, "fsync", full)
        folder.write_config(TrainConfig(), {})
    folder.write_config(TrainConfig(), {})
    assert (tmp_path / "run" / "config.json").is_file()
