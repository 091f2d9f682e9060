"""Changes files by many calls, threads and processes, for the test of the recorder. ``python file_calls.py FOLDER``"""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np


def change(root: Path) -> None:
    """Makes every kind of change below a folder."""
    (root / "a" / "b").mkdir(parents=True)
    (root / "plain").write_bytes(b"0123456789" * 1000)
    file = os.open(root / "plain", os.O_RDWR)
    os.pwrite(file, b"pwrite", 5)
    os.writev(file, [b"write", b"v"])
    os.pwritev(file, [b"pwrite", b"v"], 5000)
    os.ftruncate(file, 9000)
    other = os.dup(file)
    os.close(file)
    os.write(other, b"through a duplicate")
    os.close(other)
    os.truncate(root / "plain", 8000)
    for number in range(3):
        with open(root / "log", "ab") as log:
            log.write(b"line %d\n" % number)
    shutil.copyfile(root / "plain", root / "copied")  # sendfile or copy_file_range
    with open(root / "copied") as source, open(root / "ranged", "wb") as target:
        os.copy_file_range(source.fileno(), target.fileno(), 4000)
    with open(root / "mapped", "w+b") as mapped:
        mapped.truncate(5000)
        with mmap.mmap(mapped.fileno(), 5000) as view:
            view[100:104] = b"mmap"
    with open(root / "array", "wb") as file_object:
        file_object.write(b"head")
        file_object.flush()
        np.arange(5000).tofile(file_object)  # by a stream of C
    folder = os.open(root / "a", os.O_RDONLY)
    os.mkdir("at", dir_fd=folder)
    os.close(os.open("at/file", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=folder))
    os.rename("at/file", "moved", src_dir_fd=folder, dst_dir_fd=folder)
    os.link("moved", "hard", src_dir_fd=folder, dst_dir_fd=folder)
    os.symlink("moved", "soft", dir_fd=folder)
    os.rmdir("at", dir_fd=folder)
    os.close(folder)
    (root / "a" / "soft").write_text("through the link")
    (root / "a").rename(root / "renamed")
    os.replace(root / "log", root / "renamed" / "b" / "log")
    descriptor, name = tempfile.mkstemp(dir=root)
    os.close(descriptor)
    os.unlink(name)
    threads = [threading.Thread(target=several, args=(root, f"thread-{n}")) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if (pid := os.fork()) == 0:
        several(root, "fork")
        os._exit(0)
    os.waitpid(pid, 0)
    subprocess.run(
        ["/bin/sh", "-c", "echo shell > shell; cp shell copy; mv copy renamed/"], cwd=root, check=True
    )
    shutil.rmtree(root / "renamed" / "b")
    print(f"saved {root / 'plain'}", flush=True)


def several(root: Path, name: str) -> None:
    """Files that come, change their name, and go."""
    for number in range(20):
        path = root / f"{name}-{number}"
        path.write_text(name * number)
        if number % 2:
            path.replace(root / f"{name}-last")


if __name__ == "__main__":
    change(Path(sys.argv[1]))
