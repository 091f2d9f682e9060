"""Results of a capture that take long to compute and can be made again: poses, points, frames of videos, masks, views.

They are in ``.luxel`` of a capture that can be written, else in the cache of the user. What is in a capture may have
come with it. So it is a claim: an entry is used where its files are regular, have the sizes and hashes of its manifest,
and can be read; otherwise the result is computed again. Entries of luxel 0.2 have no manifest, and are used where
luxel's readers accept them. A file that luxel did not write is neither replaced nor followed: the result is then stored
in the cache of the user.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from luxel.render.storage import places
from luxel.render.storage.descriptors import ForeignFileError, foreign, open_regular, opened_folder
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.journal import TEMPORARY, scratch_folder
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.storage.manifest import Content, Manifest, content_of
from luxel.scenes.errors import CaptureError

IN_CAPTURE = ".luxel"  # folder of the results in a capture
CAPTURES = "captures"  # folder of the results of captures in the cache of the user
T = TypeVar("T")


def content_key(parts: Iterable[object]) -> str:
    """A short hash of the inputs of a cached result."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def user_cache() -> Path:
    """The cache of the user; a folder that is removed when the process ends where none can be written.

    Raises:
        CaptureError: no folder can be written.
    """
    return places.cache_folder() or _temporary_folder()


@cache
def _temporary_folder() -> Path:
    stack = ExitStack()
    try:
        folder = stack.enter_context(scratch_folder(Path(tempfile.gettempdir())))
    except OSError as error:
        raise CaptureError(
            f"Intermediate results cannot be written: neither a cache folder nor the one for temporary files can be "
            f"used ({error.strerror or error}).",
            "Set XDG_CACHE_HOME to a folder that can be written, or free some disk space.",
        ) from error
    atexit.register(stack.close)
    return folder


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that np.savez wrote: without compression, so that they are no larger than the file.

    Raises:
        ValueError: it is another file.
        OSError: it cannot be read.
    """
    with open_regular(path, follow=False) as file:
        with zipfile.ZipFile(file) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError(f"{path} is compressed")
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


@dataclass(frozen=True)
class CacheLocation:
    """A folder in which results may be.

    Args:
        root: a folder that exists or can be made; links on the way to it are followed.
        parts: folders from there on, among which no link is followed.
        private: only luxel writes there: its regular files may be replaced whatever they hold.
        read_only: results of earlier versions are read, none are written.
    """

    root: Path
    parts: tuple[str, ...] = ()
    private: bool = False
    read_only: bool = False

    def output(self, inside: str) -> OutputFolder:
        """A folder of this place that results are written into."""
        names = [*self.parts, inside] if inside else self.parts
        return OutputFolder(self.root, "/".join(names), force=self.private)


class CaptureCache:
    """Finished results of a capture; see the module.

    Nothing is written into a capture whose permissions forbid writing, even by the superuser.

    Args:
        capture: its folder or file.
        cache_dir: a folder that is used instead of ``.luxel`` in the capture; None: none.
    """

    def __init__(self, capture: Path, cache_dir: str | Path | None = None) -> None:
        self.capture = capture
        self.cache_dir = Path(cache_dir) if cache_dir else None

    def places(self) -> Iterator[CacheLocation]:
        """Where results may be, in the order in which they are looked for and written."""
        if self.cache_dir is not None:
            yield CacheLocation(self.cache_dir)
        elif self.capture.is_dir():
            writable = bool(self.capture.stat().st_mode & 0o222)
            yield CacheLocation(self.capture, (IN_CAPTURE,), read_only=not writable)
        folder = places.cache_folder()
        if folder is not None:
            name = content_key([str(self.capture.resolve())])
            yield CacheLocation(folder, (CAPTURES, name), private=True)
            if self.cache_dir is None:
                yield CacheLocation(folder, read_only=True)

    def result(
        self,
        inside: str,
        read: Callable[[Path], T],
        make: Callable[[Path], None],
        *,
        names: Sequence[str] = (),
        check: Callable[[Path], object] = lambda _: None,
    ) -> T:
        """A result that is read where it is there, complete and unaltered, else made and stored.

        Args:
            inside: name of the folder that holds the result and nothing else; empty: ``names`` are files that stand
                next to other results.
            read: reads the result from the folder that holds it; raises where it is damaged or of other inputs.
            make: writes the files of the result into an empty folder.
            names: of the files, where ``inside`` is empty.
            check: raises where files of a result without a manifest are damaged; beyond what ``read`` reads.

        Raises:
            CaptureError: the result cannot be computed, or cannot be written anywhere.
        """
        for position in self.places():
            try:
                return _read(position.output(inside), inside, names, read, check)
            except Exception:  # whatever is wrong with an entry, it is computed again
                continue
        with scratch_folder(user_cache()) as made:
            make(made)
            for position in self.places():
                if not position.read_only:
                    try:
                        return read(_store(made, position.output(inside), inside))
                    except (
                        ForeignFileError,
                        OSError,
                    ):  # something else stands there, or it cannot be written
                        continue
            return read(_store(made, OutputFolder(_temporary_folder(), inside, force=True), inside))


def _read(
    output: OutputFolder,
    inside: str,
    names: Sequence[str],
    read: Callable[[Path], T],
    check: Callable[[Path], object],
) -> T:
    """The result in a folder.

    Raises:
        Exception: it is not there, or damaged.
    """
    with opened_folder(output.root, output.parts):  # raises where it is a link
        present = regular_files(output.path) if inside else list(names)
    newest = {name: contents[-1] for name, contents in Manifest(output.root, output.parts).read().items()}
    if not inside:
        newest = {name: newest[name] for name in names if name in newest}
    if newest and set(newest) != set(present):
        raise ValueError(f"{output.path} does not hold what its manifest names")
    for name in present:
        content = _content(output, name, hashed=name in newest)
        if name in newest and content != newest[name]:
            raise ValueError(f"{output.path / name} has changed")
    if not newest:
        check(output.path)
    return read(output.path)


def _content(output: OutputFolder, name: str, *, hashed: bool) -> Content | None:
    """Size and hash of a regular file, None unless ``hashed``; raises OSError for anything else."""
    *folders, last = Path(name).parts
    with (
        output.opened(tuple(folders)) as handle,
        open_regular(last, folder=handle, follow=False) as file,
    ):
        return content_of(file) if hashed else None


def regular_files(folder: Path) -> list[str]:
    """Names of all files below a folder, relative to it, without manifests, temporary files and results of its own.

    Raises:
        ForeignFileError: there is a link, a device, a pipe or a socket.
        OSError: it cannot be read.
    """
    names = []
    for entry in os.scandir(folder):
        mode = entry.stat(follow_symlinks=False).st_mode
        if entry.name in (MANIFEST, IN_CAPTURE) or TEMPORARY.fullmatch(entry.name):
            continue
        if stat.S_ISDIR(mode):
            names += [f"{entry.name}/{name}" for name in regular_files(Path(entry.path))]
        elif stat.S_ISREG(mode):
            names.append(entry.name)
        else:
            raise foreign(Path(entry.path))
    return sorted(names)


def _store(made: Path, output: OutputFolder, inside: str) -> Path:
    """Copies the files of a result to where it stays; returns the folder.

    Raises:
        ForeignFileError: something that luxel did not make is in the way.
        OSError: it cannot be written.
    """
    names = regular_files(made)
    if inside and os.path.lexists(output.path):
        with opened_folder(output.root, output.parts):
            others = [name for name in regular_files(output.path) if name not in names]
        for name in others:
            if not output.is_own(name):  # it would be taken for a part of the result
                raise foreign(output.path / name)
    output.require(names)
    with output.batch() as batch:
        for name in names:
            with batch.writing(name) as draft, open(made / name, "rb") as source:
                shutil.copyfileobj(source, draft.file, 1 << 20)
        if inside:
            batch.delete(name for name in output.names() if name not in names)
    return output.path
