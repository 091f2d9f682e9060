"""Share, Link: an address that shows the view of the page; the page itself copies it."""

from __future__ import annotations

from luxel.render.errors import LuxelError
from luxel.viewer.web.page import Page
from luxel.viewer.web.share.plan import Chosen, Offer, Plan


class LinkEntry:
    """Copies the link of key U."""

    name, label = "link", "Link"

    def offer(self, page: Page) -> Offer:
        """The link, which the scripts of the page make."""
        about = (
            "An address of this view, for browsers that reach this viewer. It has no token: whoever opens it "
            "needs one, where the viewer asks for it."
        )
        return Offer(start="Copy link", about=about)

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """Nothing is made on the server.

        Raises:
            LuxelError: always.
        """
        raise LuxelError("A link is no file.", "Press Copy link.")
