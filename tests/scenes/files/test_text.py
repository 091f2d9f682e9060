"""Text with the byte order marks of Windows editors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from luxel.scenes.files.meshes.mesh_mtl import material_image
from luxel.scenes.files.meshes.mesh_obj import obj_polygons
from luxel.scenes.files.text import decode_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_are_no_text(encoding: str) -> None:
    assert decode_text("Größe 1\r\n".encode(encoding)) == "Größe 1\r\n"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert decode_text(b"a\xffb") == "a\ufffdb" and decode_text(b"") == ""


def test_meshes_of_windows_editors(tmp_path: Path) -> None:
    text = "v 1 2 3\nv 0 0 1\nv 0 1 0\nf 1 2 3\n"
    mesh = obj_polygons(tmp_path / "a.obj", text.encode("utf-8-sig"))
    np.testing.assert_array_equal(mesh.xyz, [[1, 2, 3], [0, 0, 1], [0, 1, 0]])
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "a.mtl").write_bytes("newmtl m\nmap_Kd a.png\n".encode(encoding))
        Image.new("RGB", (2, 2), (9, 8, 7)).save(tmp_path / "a.png")
        image = material_image(tmp_path / "a.obj", ["a.mtl"], ["m"])
        assert image is not None and image[0, 0].tolist() == [9, 8, 7]
