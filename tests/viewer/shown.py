"""Sessions, viewers and images of primitives and fields that a test has at hand, drawn by a renderer of its own.

The names are those of the viewer; each takes the thing itself where the viewer takes a scene, and a render function
called like `luxel.render.raster.rasterize.rasterize`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from luxel.render.fields.application import Application
from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import about_primitives, primitive_scene
from luxel.render.raster.rasterize import rasterize
from luxel.render.scene import Scene
from luxel.viewer.web import app as viewer
from luxel.viewer.web import navigate, session
from luxel.viewer.web.camera_path import path_video
from luxel.viewer.web.images import first_image, stream
from luxel.viewer.web.inspection import coverage, view_scores
from luxel.viewer.web.pair import session as pair
from luxel.viewer.web.shading import shading

Render = Callable[..., Any]


def scene_of(thing: Any, render: Render | None = None) -> Scene:
    """A scene of primitives, drawn by a function; of a field; or the scene itself, redrawn by the function."""
    if isinstance(thing, Scene):
        own = thing.part(Parameters)
        if own is None or render in (None, rasterize):
            return thing
        return primitive_scene(own, about=thing.about, render=render)
    if isinstance(thing, Application):
        return field_scene(thing)
    return primitive_scene(thing.detach(), render=render)


def redrawn(shown: Any, render: Render | None) -> Any:
    """A session whose scenes are drawn by a function."""
    if render is None or render is rasterize:
        return shown
    if isinstance(shown, pair.PairSession):
        for side in shown.sides:
            redrawn(side.session, render)
    elif isinstance(shown, session.TrainingSession):
        if shown.primitives is not None:
            shown._make = partial(primitive_scene, render=render)
    else:
        shown._scene = scene_of(shown._scene, render)
    return shown


class Redrawn:
    """A session whose scenes one of its viewers draws by a function, whatever the others do."""

    def __init__(self, shown: Any, render: Render | None) -> None:
        vars(self).update(_shown=shown, _draws=render)

    @contextmanager
    def borrow(self, page: Hashable = None) -> Iterator[Scene]:
        with self._shown.borrow(page) as scene:
            yield scene_of(scene, self._draws)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._shown, name, value)


class StaticSession(session.StaticSession):
    def __init__(self, thing: Any, *arguments: Any, render: Render | None = None, **options: Any) -> None:
        super().__init__(scene_of(thing, render), *arguments, **options)

    def show(self, thing: Any, numbers: dict[str, int] | None = None) -> None:
        super().show(scene_of(thing), numbers)


class TrainingSession(session.TrainingSession):
    def __init__(self, trainer: Any, *arguments: Any, **options: Any) -> None:
        make = field_scene if isinstance(trainer.scene, Application) else primitive_scene
        super().__init__(trainer, *arguments, **{"make": make, **options})


class ViewerApp(viewer.ViewerApp):
    def __init__(self, shown: Any, *arguments: Any, render: Render | None = None, **options: Any) -> None:
        super().__init__(redrawn(shown, render), *arguments, **options)


class ClientStream(stream.ClientStream):
    def __init__(self, shown: Any, render: Render | None, *arguments: Any, **options: Any) -> None:
        super().__init__(Redrawn(shown, render), *arguments, **options)


class FirstImage(first_image.FirstImage):
    def __init__(self, shown: Any, render: Render | None, extent: navigate.SceneExtent) -> None:
        super().__init__(Redrawn(shown, render), extent)


def write_page_film(shown: Any, render: Render | None, *arguments: Any) -> int:
    return path_video.write_page_film(Redrawn(shown, render), *arguments)


class Coverage(coverage.Coverage):
    def __init__(self, shown: Any, render: Render | None) -> None:
        super().__init__(Redrawn(shown, render))


def coverage_of(shown: Any, render: Render | None = None) -> coverage.Coverage:
    return coverage.coverage_of(redrawn(shown, render))


def side_of(name: str, shown: Any, render: Render | None = None) -> pair.Side:
    return pair.Side.of(name, redrawn(shown, render))


def measure_scores(shown: Any, render: Render | None, *arguments: Any) -> None:
    view_scores.measure_scores(Redrawn(shown, render), *arguments)


def draw(
    render: Render | None, thing: Any, camera: Camera, settings: shading.DisplaySettings
) -> tuple[Tensor, str]:
    return shading.draw(scene_of(thing, render), camera, settings)


def sample(render: Render | None, thing: Any, *arguments: Any) -> shading.Sample:
    return shading.sample(scene_of(thing, render), *arguments)


def depth_map(render: Render | None, thing: Any, *arguments: Any) -> Tensor | None:
    return shading.depth_map(scene_of(thing, render), *arguments)


def find_extent(
    views: Any, thing: Any, up: np.ndarray | None = None, front: np.ndarray | None = None
) -> navigate.SceneExtent:
    return navigate.find_extent(views, scene_of(thing).centres, up, front)


def outputs_of(shown: Any, with_views: bool = False, with_objects: bool = False) -> tuple[str, ...]:
    """Of a class of primitives, a field or a scene."""
    if isinstance(shown, type):
        return shading.outputs_of(about_primitives(shown.empty()), shown, with_views, with_objects)
    scene = scene_of(shown)
    return shading.outputs_of(scene.about, session.class_of_primitives(scene), with_views, with_objects)
