"""A tool for the web viewer: click the image to count the Gaussians around the point under the cursor.

python examples/viewer_tool.py            opens a viewer on a synthetic scene; Ctrl-C ends it
python examples/viewer_tool.py --check    clicks once without a browser, prints the result and exits
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from luxel.render.raster.primitive_scene import primitive_scene
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot
from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.page import Click
from luxel.viewer.web.panels import PANELS, Panel
from luxel.viewer.web.session import StaticSession


class NeighbourCount(Panel):
    """Counts the primitives within a radius of a clicked point."""

    title = "Neighbours"

    def build(self, gui: Any, order: float) -> None:
        """Adds a switch, a radius and the result."""
        switch = gui.add_checkbox("Count on click", False)
        switch.on_update(lambda _: self.listen(switch.value))
        self.radius = gui.add_slider("Radius", 0.05, 2.0, 0.05, 0.5)
        self.result = gui.add_text("Result", "click the image", disabled=True)

    def on_click(self, click: Click) -> None:
        """Shows how many primitives there are around the point."""
        if click.point is None:
            self.result.value = "nothing there"
            return
        point = torch.tensor(click.point, dtype=torch.float32)
        with self.page.session.borrow() as scene:
            distances = (scene.centres() - point.to(scene.device)).norm(dim=-1)
            near = int((distances < self.radius.value).sum())
        self.result.value = f"{near} of {scene.count} {scene.about.noun}"


def check(app: ViewerApp) -> str:
    """Opens a page without a browser, clicks on the scene, and returns what the tool shows."""
    opened = open_offline_page(app, Pose.of_camera(ring_cameras()[0]))
    tool = next(panel for panel in opened.panels if isinstance(panel, NeighbourCount))
    tool.listen(True)
    for row in range(1, 10):  # the middle of a knot is a hole: click downwards until something is hit
        opened.page.click(0.5, row / 10)
        if tool.result.value[0].isdigit():
            break
    return tool.result.value


def main() -> None:
    """Serves the scene, or checks the tool."""
    parser = argparse.ArgumentParser(description="A viewer tool that counts Gaussians around a point.")
    parser.add_argument("--check", action="store_true", help="click once without a browser, print and exit")
    arguments = parser.parse_args()
    session = StaticSession(primitive_scene(torus_knot()), name="torus knot")
    with ViewerApp(session, port=0 if arguments.check else 8080, panels=[*PANELS, NeighbourCount]) as app:
        if arguments.check:
            print(check(app))
            return
        print(f"viewer: {app.url}", flush=True)
        try:
            app.wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
