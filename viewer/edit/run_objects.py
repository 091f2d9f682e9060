"""Objects of an edited scene and objects.json of its run, which other programs may write too."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.render.runs.folder.owner import OwnedError, own
from luxel.render.segment.objects import (
    FILE,
    Objects,
    has_objects,
    load_objects,
    save_objects,
    scene_digest,
)
from luxel.viewer.edit.changes import no_objects


class RunObjects:
    """Reads and writes the objects of one scene. Not safe for threads.

    Args:
        folder: of the run; None: there is none, and nothing is written.
        scene: N primitives as they were opened, not as they are edited.

    Attributes:
        problem: why the run's objects are not those of this scene, and cannot be changed; None: they are, or there
            are none.
    """

    def __init__(self, folder: Path | None, scene: Parameters) -> None:
        self._folder, self._count = folder, scene.count
        self.problem: LuxelError | None = None
        self._content: bytes | None = None  # of objects.json, as last read or written
        self._stat: tuple[int, ...] | None = None
        self._digest: Future[str] = Future()
        if folder is not None:
            pool = ThreadPoolExecutor(
                1, thread_name_prefix="luxel-digest"
            )  # it takes a while for a large scene
            self._digest = pool.submit(scene_digest, scene)
            pool.shutdown(wait=False)

    def read(self) -> Objects:
        """The objects of the run, without their label maps; none where there are none, or there is a `problem`."""
        self.problem, self._stat, self._content = None, self._stat_now(), self._content_now()
        folder = self._folder
        if folder is None or not has_objects(folder):
            return no_objects(self._count)
        try:
            objects = load_objects(folder, maps=False)
            if len(objects.labels) != self._count or objects.scene != self._digest.result():
                raise LuxelError(
                    "the objects of this run are of another state of its scene.",
                    f"Vote again from the retained masks: `luxel segment {folder} --kept`.",
                )
        except LuxelError as error:
            self.problem = error
            return no_objects(self._count)
        return objects

    def keep(self, objects: Objects) -> None:
        """Writes objects instead of those that were last read or written.

        Raises:
            LuxelError: the run has other objects, another process writes into its folder, or the file cannot be
                written.
        """
        if self._folder is None:
            return
        if self.problem is not None:
            raise self.problem
        try:
            with own(self._folder):
                if self._content_now() != self._content:
                    raise LuxelError(
                        f"{self._folder / FILE}: another program has changed it.",
                        "Make the change again when the list shows the present objects.",
                    )
                path = save_objects(
                    self._folder, replace(objects, scene=self._digest.result()), keep_maps=True
                )
                self._content, self._stat = path.read_bytes(), self._stat_now()
        except OwnedError as error:
            raise LuxelError(
                f"the objects stay as they were: {error.problem}",
                "Wait until that process has ended, then make the change again.",
            ) from error

    @property
    def outdated(self) -> bool:
        """Whether objects.json may have been changed by another program, or by `keep` in another thread just now."""
        now = self._stat_now()
        if now == self._stat:
            return False
        self._stat = now
        return self.differs

    @property
    def differs(self) -> bool:
        """Whether objects.json is not as it was last read or written; to be asked while no thread is in `keep`."""
        return self._content_now() != self._content

    def voted(self, label: int) -> bool:
        """Whether prompts or label maps of the run have a label.

        Raises:
            LuxelError: its files cannot be read.
        """
        if self._folder is None or not has_objects(self._folder):
            return False
        objects = load_objects(self._folder)
        prompted = any(prompt.label == label for prompt in objects.prompts)
        return prompted or any(bool((labels == label).any()) for labels in objects.maps.values())

    def _content_now(self) -> bytes | None:
        try:
            return None if self._folder is None else (self._folder / FILE).read_bytes()
        except OSError:
            return None

    def _stat_now(self) -> tuple[int, ...] | None:
        try:
            if self._folder is None:
                return None
            stat = (self._folder / FILE).stat()
            return stat.st_mtime_ns, stat.st_size, stat.st_ino
        except OSError:
            return None
