"""Editing in the page: the editor that the pages of a session share, and the tools that make selections and moves.

A new tool is a subclass of `Tool` and one line in TOOLS.
"""

from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.editing.freehand_tools import BrushTool, LassoTool, PolygonTool
from luxel.viewer.web.editing.object_tool import ObjectTool
from luxel.viewer.web.editing.range_tool import RangeTool
from luxel.viewer.web.editing.screen_tools import ClickTool, RectangleTool
from luxel.viewer.web.editing.space_tools import BoxTool, PlaneTool, SphereTool
from luxel.viewer.web.editing.tool import Tool, Workspace
from luxel.viewer.web.editing.transform_tool import TransformTool

TOOLS: list[type[Tool]] = [
    ClickTool,
    ObjectTool,
    RectangleTool,
    LassoTool,
    PolygonTool,
    BrushTool,
    SphereTool,
    BoxTool,
    PlaneTool,
    RangeTool,
    TransformTool,
]

__all__ = ["TOOLS", "SceneEditor", "Tool", "Workspace"]
