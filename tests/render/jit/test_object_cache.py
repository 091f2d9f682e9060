"""Compiled objects of the user: stored and found again, and never taken from where others can write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from luxel.render import jit
from luxel.render.errors import NativeError
from luxel.render.jit import compilers, headers, kernel, object_cache, shared_object

SOURCE = "void fill(int64_t i, float* out) { out[i] = float(i); }"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="kernels are compiled with g++")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of compiled objects, empty and not yet made; the process remembers no kernel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernel._compiled.cache_clear()
    yield tmp_path / "cache" / "luxel" / "jit"
    kernel._compiled.cache_clear()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the sources that the compiler was run for."""
    names: list[str] = []

    def counted(compiler: compilers.Compiler, source: str, name: str, options: list[str]) -> bytes:
        names.append(name)
        return compilers.run_compiler(compiler, source, name, options)

    monkeypatch.setattr(shared_object, "run_compiler", counted)
    return names


def run(**options: object) -> list[float]:
    """Compiles as another process would, and calls the kernel."""
    kernel._compiled.cache_clear()
    out = torch.zeros(3)
    jit.compile(SOURCE, "fill", **options)(3, out)  # type: ignore[arg-type]
    return out.tolist()


def test_an_object_is_compiled_once(folder: Path, compilations: list[str]) -> None:
    assert run() == run() == [0, 1, 2]
    (file,) = folder.iterdir()
    assert compilations == ["fill"] and len(file.name) == 64
    assert folder.stat().st_mode & 0o777 == 0o700 and file.stat().st_mode & 0o777 == 0o600


def test_all_that_it_depends_on_is_in_the_key(
    folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    run(options=("-DOTHER",))
    monkeypatch.setattr(compilers, "_version", lambda path: "another version")
    run()
    monkeypatch.setattr(shared_object, "digest_of", lambda folder: "other headers")
    run()
    monkeypatch.setattr(shared_object.platform, "machine", lambda: "another machine")
    run()
    assert len(compilations) == len(list(folder.iterdir())) == 5


def test_headers_are_told_apart(tmp_path: Path) -> None:
    digests = set()
    for name, text in (("a.h", "1"), ("b.h", "1"), ("a.h", "2")):
        place = tmp_path / f"{len(digests)}"
        place.mkdir()
        (place / name).write_text(text)
        digests.add(headers.digest_of(place))
    assert len(digests) == 3


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "link", "open to others", "folder"])
def test_a_file_that_is_not_what_was_written(
    damage: str, folder: Path, tmp_path: Path, compilations: list[str]
) -> None:
    run()
    (file,) = folder.iterdir()
    content = file.read_bytes()
    if damage == "cut":
        file.write_bytes(content[:-1])
    elif damage == "changed":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "open to others":
        file.chmod(0o666)
    elif damage == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        file.unlink()
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.unlink()
        file.mkdir()
    assert run() == [0, 1, 2] and len(compilations) == 2
    assert run() == [0, 1, 2] and len(compilations) == (3 if damage == "folder" else 2)
    if damage == "link":
        assert not file.is_symlink() and (tmp_path / "elsewhere").read_bytes() == content


@pytest.mark.parametrize("state", ["open to others", "link", "file", "none"])
def test_without_a_private_folder_nothing_is_stored(
    state: str, folder: Path, tmp_path: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.mkdir(parents=True, mode=0o700)
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    if state == "open to others":
        folder.mkdir()
        folder.chmod(0o755)
    elif state == "link":
        folder.symlink_to(other)
    elif state == "file":
        folder.write_text("")
    else:
        monkeypatch.setattr(object_cache, "cache_folder", lambda: None)
    assert object_cache.folder() is None
    assert run() == run() == [0, 1, 2]
    assert len(compilations) == 2 and not list(other.iterdir())
    assert state != "open to others" or not list(folder.iterdir())


@pytest.mark.skipif(os.geteuid() == 0 and not hasattr(os, "memfd_create"), reason="there is no memory file")
def test_objects_load_where_memory_holds_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems forbid it; then a temporary file is loaded, and removed."""

    def forbidden(content: bytes, name: str) -> None:
        raise PermissionError("memfd")

    monkeypatch.setattr(shared_object, "_from_memory", forbidden)
    assert run() == [0, 1, 2]
    with pytest.raises(NativeError, match=r"The shared object of x does not load .* Compile it again"):
        shared_object.load_object(b"no object", "x")


def test_two_objects_in_memory_stay_apart() -> None:
    sources = [SOURCE.replace("float(i)", f"float(i + {k})") for k in (10, 20)]
    kernels = [jit.compile(source, "fill") for source in sources]
    out = torch.zeros(1)
    values = []
    for compiled in kernels:
        compiled(1, out)
        values.append(float(out))
    assert values == [10, 20]
