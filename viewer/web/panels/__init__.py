"""The tools of the web viewer: one file each, listed here in the order in which they appear on a page.

A new tool is a subclass of `Panel` (one instance a page) or `SharedPanel` (one for all pages) and one line in PANELS.
"""

from luxel.viewer.web.panels.camera import CameraPanel
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.panels.compare import ComparePanel
from luxel.viewer.web.panels.coverage import CoveragePanel
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.edit_later import EditLaterPanel
from luxel.viewer.web.panels.frame import FramePanel
from luxel.viewer.web.panels.inspect import InspectPanel
from luxel.viewer.web.panels.notice import NoticePanel
from luxel.viewer.web.panels.objects import ObjectsPanel
from luxel.viewer.web.panels.pair import PairPanel
from luxel.viewer.web.panels.panel import AnyPanel, Panel, SharedPanel
from luxel.viewer.web.panels.plots import PlotsPanel
from luxel.viewer.web.panels.ruler import RulerPanel
from luxel.viewer.web.panels.show import ShowPanel
from luxel.viewer.web.panels.statistics import StatisticsPanel
from luxel.viewer.web.panels.steering import SteeringPanel
from luxel.viewer.web.panels.time import TimePanel
from luxel.viewer.web.panels.training import ScenePanel, TrainingPanel

PANELS: list[AnyPanel] = [
    NoticePanel,
    TimePanel,
    ScenePanel,
    TrainingPanel,
    SteeringPanel,
    PlotsPanel,
    PairPanel,
    ShowPanel,
    CameraPanel,
    ComparePanel,
    CoveragePanel,
    CameraPathPanel,
    StatisticsPanel,
    FramePanel,
    InspectPanel,
    RulerPanel,
    EditLaterPanel,
    EditPanel,
    ObjectsPanel,
]

__all__ = ["PANELS", "Panel", "SharedPanel"]
