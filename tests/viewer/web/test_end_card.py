"""How a training ended, and the card that says so, without a browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_driver import FakeTrainerRunning, ring
from shown import TrainingSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.end_card import EndCard, rows_of, suggested_steps
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.training import progress_of, status_rows
from luxel.viewer.web.run_end import RunEnd, end_in_words, time_in_words
from luxel.viewer.web.shell.messages import EndMessage, parse_shell
from luxel.viewer.web.shell.report_files import REPORT_PATH, answer_report
from luxel.viewer.web.toolbar import Toolbar

END = RunEnd("target_minutes", 1792, 10_000, 60.2, 12_345, "Gaussians", 26.93, 0.9123, 13)
POSE = Pose.of_camera(Camera.look_at((3.5, 0, 0), (0, 0, 0), fov_y=0.9))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("steps", "Finished all 10,000 steps in 60 s"),
        ("target_minutes", "Stopped after 60 s, at step 1,792"),
        ("seconds", "Stopped after 60 s, at step 1,792"),
        ("target_psnr", "Stopped at step 1,792: the PSNR that was asked for is reached"),
        ("max_gaussians", "Stopped at step 1,792: the largest number of Gaussians is reached"),
        ("stopped", "Ended by hand at step 1,792 of 10,000, after 60 s"),
    ],
)
def test_the_reason_is_said_in_words(reason: str, words: str) -> None:
    assert end_in_words(reason, 1792, 10_000, 60.2) == words


def test_times_are_read_aloud() -> None:
    assert [time_in_words(s) for s in (0.4, 119, 600, 3900, 7200)] == [
        *("0 s", "119 s", "10 min", "1 h 5 min", "2 h"),
    ]


def test_a_training_by_time_shows_its_time() -> None:
    status: dict[str, Any] = {"step": 1792, "steps": 10_000, "elapsed": 30.0, "time_limit": 60.0}
    status |= {"progress": 0.18, "reason": "", "done": False}
    rows = dict(status_rows(status))
    assert rows["Step"] == "1,792 of at most 10,000" and rows["Elapsed"] == "0:30 of 1:00"
    assert progress_of(status) == 0.5
    over = status | {"elapsed": 60.2, "done": True, "reason": "target_minutes"}
    rows = dict(status_rows(over))
    assert rows["Training"] == "Stopped after 60 s, at step 1,792" and "Step" not in rows
    assert progress_of(over) == 1.0
    by_hand = status | {"time_limit": None, "done": True, "reason": "stopped"}
    assert progress_of(by_hand) == 0.18, "a bar that is full says that all is done"
    assert progress_of({}) == 0.0 and progress_of({"progress": float("nan")}) in (0.0, 1.0)


def test_the_card_shows_what_was_reached() -> None:
    assert rows_of(END) == [
        ("PSNR of 13 held-out views", "26.93 dB"),
        ("SSIM of 13 held-out views", "0.912"),
        ("Training time", "60 s"),
        ("Gaussians", "12,345"),
    ]
    unmeasured = replace(END, psnr=None, ssim=None, views=0, noun="parameters")
    assert rows_of(unmeasured) == [("Training time", "60 s"), ("Parameters", "12,345")]
    assert rows_of(replace(END, views=1))[0][0] == "PSNR of 1 held-out view"
    assert [suggested_steps(replace(END, step=step)) for step in (10, 1792, 30_000)] == [100, 890, 15_000]


def test_a_card_without_tools_and_trainer_offers_what_is_left() -> None:
    class Ended:
        run_end = None

    session, sent = Ended(), list[dict[str, Any]]()
    card = EndCard(session, Toolbar())
    card.on_change(lambda: sent.append(card.state()))
    assert card.state() == {"shown": False}
    card.press("clean")
    session.run_end = END
    assert card.state()["buttons"] == ["share"] and json.dumps(card.state())
    card.press("extend", 100)
    card.press("no such button")
    assert sent == []


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[tuple[ViewerApp, OpenPage]]:
    session = TrainingSession(trainer := FakeTrainerRunning(), ring(), "run", folder=tmp_path)
    with trainer, ViewerApp(session, port=0) as app:
        trainer.done = True
        opened = open_offline_page(app, POSE)
        (tmp_path / "eval" / "images").mkdir(parents=True)
        (tmp_path / "eval" / "index.html").write_text("<p>report</p>")
        (tmp_path / "eval" / "images" / "000-a-render.jpg").write_bytes(b"jpeg")
        (tmp_path / "eval" / "secret.txt").write_text("secret")
        session.end(replace(END, report=tmp_path / "eval" / "index.html"))
        yield app, opened


def test_buttons_choose_tools_and_train_longer(ended: tuple[ViewerApp, OpenPage]) -> None:
    app, opened = ended
    shell, bar, sent = opened.shell, opened.page.toolbar, list[dict[str, Any]]()
    shell.connect(sent.append)
    card = next(m for m in sent if m["type"] == "end")
    assert card["title"] == "Stopped after 60 s, at step 1,792"
    assert card["buttons"] == ["clean", "compare", "measure", "share", "report"]
    for _ in range(2):  # a second press leaves no tool
        shell.receive(EndMessage("measure", 0))
        assert bar.active == ("Ruler",)
    shell.receive(EndMessage("clean", 0))
    assert bar.active == ("Lasso",), "it has not begun to edit"
    shell.receive(EndMessage("compare", 0))
    assert "Compare" in bar.active

    asked: list[int] = []
    app.session.extend = asked.append
    shell.receive(EndMessage("extend", 2000))
    shell.receive(EndMessage("extend", 0))
    assert asked == [2000]

    def refuse(steps: int) -> None:
        raise LuxelError("the disk is full.", "Free some space.")

    app.session.extend = refuse
    shell.receive(EndMessage("extend", 5))
    assert [m for m in sent if m["type"] == "end"][-1]["problem"] == "the disk is full. Free some space."


def test_the_report_is_served_and_nothing_beside_it(ended: tuple[ViewerApp, OpenPage]) -> None:
    app, opened = ended
    address = app.url.rstrip("/") + opened.page.end_card.state()["report"]
    assert urllib.request.urlopen(address, timeout=20).read() == b"<p>report</p>"
    image = address.replace("index.html", "images/000-a-render.jpg")
    with urllib.request.urlopen(image, timeout=20) as answer:
        assert answer.headers["Content-Type"] == "image/jpeg" and answer.read() == b"jpeg"
    for other in ("secret.txt", "images/../secret.txt", "images/001-b-render.jpg", "%2e%2e/config.json", ""):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.replace("index.html", other), timeout=20)
    for end in (None, END):
        assert answer_report(end, f"{REPORT_PATH}index.html").status_code == 404


def test_messages_of_the_card_are_checked() -> None:
    assert parse_shell('{"type": "end", "name": "extend", "value": 2000}') == EndMessage("extend", 2000)
    assert parse_shell('{"type": "end", "name": "clean"}') == EndMessage("clean", 0)
    for value in (-1, 1e12, '"5"', "null", "NaN"):
        with pytest.raises(ValueError):
            parse_shell(f'{{"type": "end", "name": "extend", "value": {value}}}')
