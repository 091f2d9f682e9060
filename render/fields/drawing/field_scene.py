"""A neural field as a scene that is shown."""

from __future__ import annotations

import torch

from luxel.render.fields.application import Application
from luxel.render.geometry.camera import Camera
from luxel.render.scene import About, Draw, FlatImage, Layers, Scene, check_request


def field_scene(
    field: Application,
    *,
    up: tuple[float, float, float] | None = None,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    about: About | None = None,
) -> Scene:
    """A field as a scene, on its device.

    Args:
        field: on the device that draws it.
        up: upward direction of its data; None: the field's own.
        background: colour in [0, 1] that a page starts with.
        about: of the same field before, where it is still being trained; None: it is made.
    """
    known = about or About(
        field.noun,
        options=(("to_sun",) if "shadows" in field.outputs else ())
        + (("exposure",) if field.config.linear else ()),
        up=field.up if up is None else up,
        front=field.front,
        background=background,
        flat=field.flat,
        linear=field.config.linear,
    )
    parts: dict[type, object] = {Application: field}
    if (size := field.image_size()) is not None:

        def bands(width: int, height: int, window: tuple[float, float, float, float], exposure: float):
            field.exposure = exposure
            yield from field.bands(width, height, window)

        parts[FlatImage] = FlatImage(*size, bands)

    def draw(camera: Camera, request: Draw) -> Layers:
        check_request(known, request)
        return draw_field(field, camera, request)

    return Scene(
        known,
        field.device,
        field.numbers,
        lambda: field.centres,
        draw,
        lambda device: field_scene(field.to(device), about=known),
        parts,
    )


@torch.no_grad()
def draw_field(field: Application, camera: Camera, request: Draw) -> Layers:
    """The colours of a field, [H, W, 3], lit by the sun of the option "to_sun" where one is given."""
    if "exposure" in request.options:
        field.exposure = request.options["exposure"]
    if (to_sun := request.options.get("to_sun")) is not None:
        return Layers({"colour": field.render_sunlit(camera, request.background, to_sun)})
    return Layers({"colour": field.render(camera, request.background)})
