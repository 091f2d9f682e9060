"""The Share menu of a page without a browser: what is offered, what pages may ask for, and who gets the file."""

from __future__ import annotations

import http.client
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from page_driver import FakeTrainerRunning, ball, ring, until
from shown import StaticSession, TrainingSession, ViewerApp, side_of

from luxel.render.errors import LuxelError
from luxel.render.fields.config import defaults
from luxel.render.fields.image import ImageField
from luxel.render.fields.sdf import SdfField
from luxel.render.geometry.camera import Camera, Points
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.scenes import load_primitives, save_scene
from luxel.scenes.files.meshes.mesh_files import read_mesh
from luxel.scenes.measuring import operations
from luxel.scenes.measuring.measurements import UPRIGHT
from luxel.viewer.cli import main
from luxel.viewer.edit import operations as edits
from luxel.viewer.films.view_link import decode_view, encode_view
from luxel.viewer.measure.shared_measurements import SharedMeasurements
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.editing import SceneEditor
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.panels.show import ShowPanel
from luxel.viewer.web.share.jobs import Job, ShareJobs
from luxel.viewer.web.share.shared_files import SCRIPTED
from luxel.viewer.web.shell.messages import parse_shell
from luxel.viewer.web.shell.page_shell import PageShell

POSE = Pose.of_camera(Camera.look_at((4.0, 0.5, 1.0), (0, 0, 0), fov_y=0.8))


class Menu:
    """The menu of an offline page, and what it has sent."""

    def __init__(self, opened: OpenPage) -> None:
        self.opened, self.page = opened, opened.page
        self.shell = PageShell(opened.page, opened.panels)
        self.sent: list[dict[str, Any]] = []
        self.shell.connect(self.sent.append)

    def do(self, do: str, **fields: Any) -> None:
        """A message of the page."""
        self.shell.receive(parse_shell(json.dumps({"type": "share", "do": do, **fields})))

    def newest(self, kind: str) -> dict[str, Any]:
        return next(message for message in reversed(self.sent) if message["type"] == kind)

    def offers(self, entry: str = "image", **options: Any) -> dict[str, Any]:
        """What each entry offers, while the menu shows one of them."""
        self.do("look", entry=entry, options=options)
        return {each["name"]: each for each in self.newest("share")["entries"]}

    def command(self, entry: str, **options: Any) -> dict[str, Any]:
        self.do("look", entry=entry, options=options)
        return self.newest("share-command")

    def made(self, entry: str, **options: Any) -> Job:
        self.do("start", entry=entry, options=options)
        job = ShareJobs.of(self.page.session).jobs[-1]
        until(lambda: job.ended, "the job does not end")
        assert job.state == "done", job.message
        return job


@pytest.fixture
def menu_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Menu]]:
    """Opens a page of a session, and its menu."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    apps: list[ViewerApp] = []

    def menu_of(session: Any = None) -> Menu:
        apps.append(ViewerApp(session or StaticSession(ball(), ring()), port=0, panels=(ShowPanel,)))
        apps[-1].start()
        return Menu(open_offline_page(apps[-1], POSE, 40, 30))

    yield menu_of
    for app in apps:
        app.stop()


def values_of(offer: dict[str, Any], option: str) -> list[str]:
    return next([name for name, _ in each["values"]] for each in offer["options"] if each["name"] == option)


def test_each_entry_offers_what_the_scene_has(menu_of: Callable[..., Menu]) -> None:
    offers = menu_of().offers()
    assert list(offers) == ["image", "page", "scene", "mesh", "film", "link", "report"]
    assert [name for name, offer in offers.items() if offer["problem"]] == ["film", "report"]
    assert values_of(offers["image"], "size") == ["window", "2x", "4K", "8K"]
    assert values_of(offers["scene"], "format") == [
        ".ply",
        ".compressed.ply",
        ".splat",
        ".spz",
        ".sog",
        ".glb",
        ".safetensors",
    ]
    assert "Only runs have a report." in offers["report"]["problem"]
    names = {option["name"] for option in offers["scene"]["options"]}
    assert not names & {"part", "upright", "metric"}, "nothing is edited or measured"


def test_an_image_has_its_size_and_stays_at_most_8k(menu_of: Callable[..., Menu]) -> None:
    menu = menu_of()
    job = menu.made("image", size="2x")
    assert job.plan.title == "Image, 80 × 60"
    menu.do("download", job=job.id)
    name, content = menu.page.client.downloads[-1]
    assert name == "view.png" and content.startswith(b"\x89PNG")
    menu.page.client.camera.image_width = 6000
    assert "2x" not in values_of(menu.offers()["image"], "size")


def test_measured_scenes_are_written_upright_and_in_metres(menu_of: Callable[..., Menu]) -> None:
    session = StaticSession(ball(), ring())
    menu = menu_of(session)
    measured = SharedMeasurements.of(session)
    measured.apply("Level", lambda m: operations.set_up(m, np.array([1.0, 0.0, 0.0])))
    measured.apply("Scale", lambda m: replace(m, metres=0.5))
    names = {option["name"] for option in menu.offers("scene")["scene"]["options"]}
    assert {"upright", "metric"} <= names
    job = menu.made("scene", upright=True, metric=True)
    assert job.plan.units == 250 * (3 + 4 + 3 + 1 + 3)
    written, own = load_primitives(str(job.file)), ball()
    assert isinstance(written, Gaussians)
    assert torch.allclose(written.means.norm(dim=1), 0.5 * own.means.norm(dim=1), atol=1e-5)
    upward = written.means @ torch.tensor(UPRIGHT, dtype=torch.float32)
    assert torch.allclose(upward, 0.5 * own.means[:, 0], atol=1e-5)


def test_an_edited_scene_is_written_as_it_is_shown(menu_of: Callable[..., Menu], tmp_path: Path) -> None:
    save_scene(tmp_path / "ball.ply", ball())
    session = StaticSession(ball(), ring(), source=tmp_path / "ball.ply")
    menu, editor = menu_of(session), SceneEditor.of(session)
    assert menu.command("scene")["note"] == ""
    for edit, rows in ((edits.delete, 20), (edits.hide, 50)):
        editor.run(lambda d, rows=rows: d.select(torch.arange(250) < rows))
        editor.run(lambda d, edit=edit: d.apply(edit(d.state)))
    editor.run(lambda d: d.select(torch.arange(250) < 60))
    assert values_of(menu.offers("scene")["scene"], "part") == ["scene", "shown", "selection"]
    files = {part: str(menu.made("scene", part=part).file) for part in ("scene", "shown", "selection")}
    counts = {part: load_primitives(file).count for part, file in files.items()}
    assert counts == {"scene": 230, "shown": 200, "selection": 10}
    answer = menu.command("scene")
    assert answer["command"].startswith("luxel export ") and "without the edits" in answer["note"]
    editor.run(lambda d: d.select_none())
    menu.do("start", entry="scene", options={"part": "selection"})
    assert ShareJobs.of(session).jobs[-1].plan.title == "Scene file, .ply", (
        "what is not offered is as at first"
    )


def test_what_pages_may_not_ask_for_changes_nothing(menu_of: Callable[..., Menu]) -> None:
    menu = menu_of()
    jobs = ShareJobs.of(menu.page.session)
    for entry in ("film", "report", "link", "nothing", ""):
        menu.do("start", entry=entry)
    assert jobs.jobs == []
    assert menu.newest("share-problem")["problem"].startswith("A link is no file.")
    menu.do("start", entry="image", options={"name": "../../etc/passwd"})
    assert jobs.jobs == [] and "is not a name of a file" in menu.newest("share-problem")["problem"]
    for do in ("cancel", "download", "dismiss"):
        menu.do(do, job="guessed")
    assert menu.page.client.downloads == []
    job = menu.made("image", size=True, format=".exe", unknown="x")
    assert job.plan.name + job.plan.suffix == "view.png" and job.plan.title == "Image, 40 × 30"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"do": "delete"},
        {"do": ["start"]},
        {"do": "start", "entry": 3},
        {"do": "start", "entry": "x" * 101},
        {"do": "start", "entry": "image", "options": []},
        {"do": "start", "entry": "image", "options": {"size": 3}},
        {"do": "start", "entry": "image", "options": {"size": "x" * 101}},
        {"do": "start", "entry": "image", "options": {"x" * 101: "y"}},
        {"do": "start", "entry": "image", "options": {str(i): True for i in range(17)}},
        {"do": "cancel", "job": {"id": 1}},
        {"do": "cancel", "job": "x" * 101},
    ],
)
def test_other_messages_end_the_connection(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Share menu|option"):
        parse_shell(json.dumps({"type": "share", **fields}))


def test_jobs_go_on_without_their_page_and_are_offered_to_the_next(menu_of: Callable[..., Menu]) -> None:
    menu = menu_of()
    menu.do("start", entry="image", options={"size": "4K"})
    menu.shell.disconnect(menu.sent.append)
    menu.opened.close()
    job = ShareJobs.of(menu.page.session).jobs[-1]
    until(lambda: job.ended, "the job does not end")
    assert job.state == "done", job.message
    other = menu_of(menu.page.session)
    (shown,) = other.newest("share-jobs")["jobs"]
    assert shown["file"] == "view.png" and shown["size"] > 1000
    other.do("download", job=shown["id"])
    assert other.page.client.downloads[-1][0] == "view.png"
    assert job.file is not None
    job.file.unlink()
    other.do("download", job=shown["id"])
    assert "not there any more" in other.newest("share-problem")["problem"]


def test_the_menu_opens_for_others_and_follows_what_changes(
    menu_of: Callable[..., Menu], tmp_path: Path
) -> None:
    menu = menu_of(StaticSession(ball(), source=tmp_path / "ball.ply"))
    menu.page.share.open("scene")
    menu.page.share.open()
    assert [m["entry"] for m in menu.sent if m["type"] == "share-open"] == ["scene", ""]
    before = menu.command("image")["command"]
    count = len(menu.sent)
    assert menu.command("image")["command"] == before and len(menu.sent) == count, "nothing has changed"
    menu.page.place(Pose.of_camera(Camera.look_at((0.0, 5.0, 0.0), (0, 0, 0))))
    after = menu.command("image")["command"]
    assert "--view" in after and after != before and len(menu.sent) == count + 1


def test_a_scene_that_trains_is_written_as_it_is_now(menu_of: Callable[..., Menu], tmp_path: Path) -> None:
    with FakeTrainerRunning() as trainer:
        menu = menu_of(TrainingSession(trainer, ring(), folder=tmp_path))
        offers = menu.offers()
        assert not any(offers[name]["problem"] for name in ("image", "page", "scene", "mesh"))
        assert "This run has no report yet. `luxel eval " in offers["report"]["problem"]
        job = menu.made("scene", format=".safetensors")
        assert job.file == tmp_path / "scene.safetensors" and load_primitives(str(job.file)).count == 250
        assert "the training goes on" in menu.command("scene")["note"]
        assert menu.made("image").file == tmp_path / "view.png"


def test_two_scenes_have_images_alone(menu_of: Callable[..., Menu]) -> None:
    left, right = (side_of(name, StaticSession(ball(), ring(), name)) for name in ("a", "b"))
    menu = menu_of(PairSession(left, right))
    offers = menu.offers()
    assert [name for name, offer in offers.items() if not offer["problem"]] == ["image", "link"]
    assert "transparent" not in {option["name"] for option in offers["image"]["options"]}
    assert "no command" in menu.command("image")["note"]
    assert menu.made("image").describe()["size"] > 100


def test_outputs_without_a_command_say_so(menu_of: Callable[..., Menu], tmp_path: Path) -> None:
    menu = menu_of(StaticSession(ball(), source=tmp_path / "ball.ply"))
    menu.page.stream.change(output="depth")
    answer = menu.command("image")
    assert answer["command"] == "" and "the page shows depth" in answer["note"]
    menu.page.stream.change(output="colour", background=(0.2, 0.3, 0.4), splat_scale=0.5)
    answer = menu.command("image")
    assert "black or white" in answer["note"] and "Splat size" in answer["note"]
    assert "A mesh needs the cameras" in menu.offers()["mesh"]["problem"]


def test_a_link_is_the_view_that_it_was_made_of() -> None:
    camera = Camera.look_at(
        (1e4, 2.0, -3.0), (1e4 + 1, 2.5, -2.0), (0.1, 0.2, 1.0), fov_y=1.234, width=64, height=48
    )
    pose = Pose.of_camera(camera)
    link = encode_view(pose.position, pose.rotation, pose.fov_y, 0.25)
    view = decode_view(f"http://127.0.0.1:8080/#{link}&output=depth")
    assert view.time == 0.25
    assert decode_view(encode_view(pose.position, pose.rotation, pose.fov_y)).time is None
    again = view.camera(64, 48)
    assert torch.allclose(again.world_to_cam[:3, :3], camera.world_to_cam[:3, :3], atol=1e-4)
    assert torch.allclose(again.intrinsics, camera.intrinsics, rtol=1e-6)


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("", "position needs three numbers"),
        ("position=1,2&target=0,0,0&up=0,0,1&fov=1", "position needs three numbers"),
        ("position=1,2,x&target=0,0,0&up=0,0,1&fov=1", "position must be from"),
        ("position=1,2,nan&target=0,0,0&up=0,0,1&fov=1", "position must be from"),
        ("position=1,2,3&target=0,0,0&up=0,0,1&fov=9", "fov must be from"),
        ("position=1,2,3&target=1,2,3&up=0,0,1&fov=1", "are the same, or up points along"),
        ("position=0,0,3&target=0,0,0&up=0,0,1&fov=1", "are the same, or up points along"),
        ("x" * 2001, "it is too long"),
    ],
)
def test_what_is_no_link_is_refused(link: str, problem: str) -> None:
    with pytest.raises(LuxelError, match="--view: this is no link of a view: .*" + problem):
        decode_view(link)


def test_shared_files_need_the_token_of_the_viewer(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>secret")
    session = StaticSession(ball())
    with ViewerApp(session, port=0, token="a-long-secret", panels=()) as app:
        link = ShareJobs.of(session).files.offer({"page.html": tmp_path / "page.html"}, "page.html", SCRIPTED)
        address = urlsplit(app.url)

        def get(path: str, cookie: str = "") -> Any:
            connection = http.client.HTTPConnection(address.netloc, timeout=10)
            connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
            answer = connection.getresponse()
            return answer, answer.read()

        answer, body = get(link)
        assert answer.status == 403 and b"secret" not in body
        cookie = get("/?token=a-long-secret")[0].getheader("Set-Cookie").partition(";")[0]
        answer, body = get(link, cookie)
        assert answer.status == 200 and body == b"<p>secret"
        assert answer.getheader("Content-Security-Policy") == SCRIPTED
        assert get(link.replace("page.html", "other.html"), cookie)[0].status == 404
        assert get("/luxel/shared/guess/page.html", cookie)[0].status == 404


def test_a_dynamic_scene_is_written_as_a_whole_or_at_a_time(
    menu_of: Callable[..., Menu],
    carousel: Callable[..., Gaussians4d],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_scene(tmp_path / "carousel.safetensors", carousel())
    menu = menu_of(StaticSession(carousel(), source=tmp_path / "carousel.safetensors"))
    menu.page.seek(0.4)
    offer = menu.offers()["scene"]
    assert values_of(offer, "format") == [".ply", ".safetensors"] and ".splat" in values_of(
        offer, "still_format"
    )
    monkeypatch.chdir(tmp_path)
    for entry, options in (
        ("scene", {"times": "all", "format": ".ply"}),
        ("scene", {"times": "this", "still_format": ".splat", "name": "still"}),
        ("page", {}),
    ):
        job = menu.made(entry, **options)
        assert main(shlex.split(job.describe()["command"])[1:]) == 0
        assert (tmp_path / str(job.describe()["file"])).read_bytes() == job.file.read_bytes()  # pyright: ignore[reportOptionalMemberAccess]
    assert "--time 0.4" in job.describe()["command"]
    assert "time=0.4" in menu.command("image")["command"]


def test_meshes_of_convexes_and_of_fields(
    menu_of: Callable[..., Menu], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(2)
    rgb = generator.integers(0, 255, (12, 3), np.uint8)
    scene = Convexes.from_points(Points(generator.normal(size=(12, 3)).astype(np.float32), rgb), opacity=0.9)
    save_scene(tmp_path / "hulls.ply", scene)
    menu = menu_of(StaticSession(scene, source=tmp_path / "hulls.ply"))
    offers = menu.offers()
    assert "shows Gaussians" in offers["page"]["problem"] and not offers["mesh"]["problem"]
    job = menu.made("mesh", format=".ply")
    assert "12 convexes as" in job.message
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(job.describe()["command"])[1:]) == 0
    assert (tmp_path / "mesh.ply").read_bytes() == job.file.read_bytes()  # pyright: ignore[reportOptionalMemberAccess]

    field = SdfField(replace(defaults("sdf"), log2_entries=8))
    field.field = Ball()  # pyright: ignore[reportAttributeAccessIssue]
    black = lambda _, camera, background: torch.zeros(camera.height, camera.width, 3)  # noqa: E731
    monkeypatch.setattr(SdfField, "render", black)  # which needs the network
    menu = menu_of(StaticSession(field))
    offers = menu.offers()
    assert "no primitives" in offers["scene"]["problem"] and not offers["mesh"]["problem"]
    assert len(read_mesh(str(menu.made("mesh", cells="128", format=".ply").file)).faces) > 1000
    flat = menu_of(
        StaticSession(ImageField(replace(defaults("image"), log2_entries=8)), source=tmp_path / "run")
    )
    assert "neither" in flat.offers()["mesh"]["problem"]
    assert "in its own size" in flat.command("image")["note"]


class Ball(torch.nn.Module):
    """An exact distance in place of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.radius = torch.nn.Parameter(torch.tensor(0.4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - 0.5).norm(dim=-1, keepdim=True) - self.radius


def test_jobs_go_on_while_another_viewer_serves_the_scene() -> None:
    session = StaticSession(ball())
    with ViewerApp(session, port=0, panels=()):
        jobs = ShareJobs.of(session)
        with ViewerApp(session, port=0, panels=()) as other:
            assert ShareJobs.of(session) is jobs
        other.stop()
        assert ShareJobs.of(session) is jobs
    assert ShareJobs.of(session) is not jobs
