"""The Share menu in a real browser: by keys, with downloads of each kind, over a reload, and an opened page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import pytest
import torch
from page_driver import at_rest, ball, newest_client, ring, until
from shown import StaticSession, ViewerApp

from luxel.scenes import load_primitives
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.share.jobs import ShareJobs


def downloaded(page: Any, name: str, start: str, to: Path) -> Path:
    """The file that a button of the menu makes, by its button Download."""
    menu = page.get_by_role("dialog", name="Share")
    menu.get_by_role("button", name=start).click()
    with page.expect_download(timeout=60_000) as download:
        menu.get_by_role("button", name=f"Download: {name}").click(timeout=60_000)
    assert download.value.suggested_filename == name
    download.value.save_as(to / name)
    return to / name


@pytest.mark.slow
def test_what_the_page_shows_is_downloaded_and_opened(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    (tmp_path / "run").mkdir()
    session = StaticSession(ball(), ring(), "ball", folder=tmp_path / "run")
    with ViewerApp(session, port=0) as app:
        page = open_page(app, width=1100, height=700)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        client, menu = newest_client(app), page.get_by_role("dialog", name="Share")
        at_rest(app, client)
        before = Pose.of_client(client.camera)
        page.get_by_role("button", name="Share (Y)").focus()
        page.keyboard.press("y")
        menu.get_by_role("tab", name="Image", selected=True).wait_for()
        page.wait_for_function("document.activeElement.dataset.name === 'image'")
        page.keyboard.press("ArrowDown")
        page.wait_for_function("document.activeElement.dataset.name === 'page'")
        page.keyboard.press("Home")
        page.wait_for_function("document.activeElement.dataset.name === 'image'")
        page.keyboard.press("w")

        menu.get_by_label("Transparent background").check()
        menu.get_by_text("--transparent").wait_for()
        image = imageio.imread(downloaded(page, "view.png", "Save image", tmp_path))
        camera = client.camera
        assert image.shape == (camera.image_height, camera.image_width, 4)
        assert image[0, 0, 3] == 0 and image[..., 3].max() == 255
        assert (tmp_path / "run" / "view.png").read_bytes() == (tmp_path / "view.png").read_bytes()

        menu.get_by_role("tab", name="Scene file").click()
        menu.get_by_label("Format").select_option(".splat")
        assert load_primitives(downloaded(page, "scene.splat", "Save scene", tmp_path)).count == 250

        menu.get_by_role("tab", name="Web page").click()
        content = downloaded(page, "page.html", "Make web page", tmp_path).read_text()
        assert "SuperSplatViewer.createViewer" in content
        with page.context.expect_page() as popup:
            menu.get_by_role("link", name="Open").first.click()
        opened = popup.value
        opened.wait_for_function("window.luxelViewer !== undefined", timeout=60_000)
        assert opened.evaluate("origin") == "null", "it cannot reach the viewer"
        opened.close()

        page.bring_to_front()
        menu.get_by_role("tab", name="Film").click()
        menu.get_by_text("Add keyframe").wait_for()
        assert not menu.get_by_role("button", name="Make film").is_visible()
        page.keyboard.press("Escape")
        menu.wait_for(state="hidden")
        assert page.evaluate("document.activeElement.title") == "Share (Y)"
        assert Pose.of_client(client.camera).position == pytest.approx(before.position), (
            "the menu's keys moved it"
        )
        assert not errors


@pytest.mark.slow
def test_a_file_is_offered_again_after_a_reload(open_page: Callable[..., Any], tmp_path: Path) -> None:
    torch.set_num_threads(1)
    session = StaticSession(ball(), ring(), "ball")
    with ViewerApp(session, port=0) as app:
        page = open_page(app, width=390, height=844)
        menu = page.get_by_role("dialog", name="Share")
        page.get_by_role("button", name="Share (Y)").click()
        menu.get_by_label("Size").select_option("8K")
        menu.get_by_role("button", name="Save image").click()
        until(lambda: ShareJobs.of(session).jobs, "nothing was begun")
        page.reload()
        page.get_by_role("button", name="Share (Y)").click(timeout=60_000)
        with page.expect_download(timeout=60_000) as download:
            menu.get_by_role("button", name="Download: view.png").click(timeout=60_000)
        download.value.save_as(tmp_path / "view.png")
        assert max(imageio.immeta(tmp_path / "view.png")["shape"][:2]) == 7680
        menu.get_by_role("button", name="Remove from list").click()
        until(lambda: not ShareJobs.of(session).jobs, "it stays on the list")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Escape")
        menu.wait_for(state="hidden")
