"""Every command and option that a remedy advises is followed: it runs, and ends with status 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import error_advice
import error_sites
import pytest
from PIL import Image

from luxel.viewer.cli import main

CPU = ["--device", "cpu"]
SHORT = ["--steps", "7", *CPU]
NEW = ["--run", "NEW", *SHORT, "--no-lpips"]
TABLE = ["--log2-entries", "8"]
FRAMES = ["--frames", "2", "--width", "32", "--height", "24"]
MASKS = "tests/viewer/commands/test_segment.py::test_masks_and_clicks_are_not_mixed"
FILMS = "tests/viewer/commands/outputs/test_render_outputs.py::test_films_with_alpha_and_their_options"
# In capitals what `places` holds.
CALLS: dict[str, list[str] | str] = {
    "luxel train CAPTURE": ["train", "CAPTURE", *NEW],
    "luxel train CAPTURE --holdout-every N": ["train", "CAPTURE", "--holdout-every", "16", *NEW],
    "luxel train CAPTURE --resume RUN": ["train", "CAPTURE", "--resume", "RUN", *SHORT],
    "luxel train --resume RUN": ["train", "--resume", "RUN", *SHORT],
    "luxel train DATA --field KIND": ["train", "DATA", "--field", "image", "--run", "NEW", *SHORT, *TABLE],
    "luxel train DATA --resume RUN": ["train", "DATA", "--resume", "FIELD", *SHORT],
    "luxel eval RUN --capture CAPTURE": ["eval", "RUN", "--capture", "CAPTURE", "--no-lpips", *CPU],
    "luxel render SCENE --out PATH": ["render", "SCENE", "--out", "NEW", *FRAMES, *CPU],
    "luxel export --help": ["export", "--help"],
    "luxel segment --help": ["segment", "--help"],
    "luxel segment RUN --masks DIR": MASKS,
    "luxel segment RUN --masks DIR --replace": MASKS,
    "luxel segment RUN --kept": "tests/viewer/commands/test_segment.py::test_labels_of_another_scene_are_voted_again",
    "luxel view RUN": ["view", "RUN", "--port", "0", *CPU],
    "luxel view A B": ["view", "RUN", "SCENE", "--port", "0", *CPU],
    "luxel bench train CAPTURE": ["bench", "train", "CAPTURE", "--out", "NEW", "--steps", "4", *CPU],
}
# Of options that are advised alone: a command, or the test that gives the option.
OPTIONS: dict[str, list[str] | str] = {
    "--allow-mixed": "tests/viewer/bench/test_bench_record.py::test_figures_of_two_commits_are_refused_and_said_aloud",
    "--auto": "tests/viewer/commands/test_segment.py::test_a_grid_of_points_finds_objects",
    "--batch": ["train", "CAPTURE", "--batch", "1", *NEW],
    "--box": "tests/viewer/commands/test_segment.py::test_boxes_of_nothing",
    "--browser": "tests/viewer/bench/test_bench_view.py::test_both_are_measured_in_a_browser",
    "--capture": ["eval", "SCENE", "--capture", "CAPTURE", "--no-lpips", *CPU],
    "--click": "tests/viewer/commands/test_segment.py::test_clicks_add_objects_and_points_to_objects",
    "--client": "tests/viewer/bench/test_bench_view_clients.py::test_several_clients_are_measured_without_a_browser",
    "--clients": "tests/viewer/bench/test_bench_view_clients.py::test_several_clients_are_measured_without_a_browser",
    "--commit": "tests/viewer/bench/test_bench_record.py::test_the_commit_must_be_known",
    "--data": "tests/viewer/bench/test_bench_raster.py::test_published_scenes_keep_their_goals",
    "--depth-channel": "tests/scenes/files/exr/test_exr.py::test_captures_name_the_channel_of_depth",
    "--depth-points": "tests/viewer/commands/captures/test_train_depth.py::test_a_run_is_resumed_with_its_depth",
    "--device": ["render", "SCENE", "--out", "NEW", *FRAMES, "--device", "auto"],
    "--field": ["train", "DATA", "--field", "image", "--run", "NEW", *SHORT, *TABLE],
    "--force": "tests/viewer/bench/test_bench_report.py::test_comparing_reports",
    "--fps": FILMS,
    "--keep": "tests/viewer/bench/test_bench_strangers.py::test_the_command_prints_its_seed_and_what_did_not_run",
    "--keep-non-finite": ["view", "SCENE", "--keep-non-finite", "--port", "0", *CPU],
    "--height": ["render", "SCENE", "--out", "NEW", "--frames", "2", "--width", "16", "--height", "12", *CPU],
    "--holdout-every": ["eval", "RUN", "--holdout-every", "4", "--no-lpips", *CPU],
    "--kept": "tests/viewer/commands/test_segment.py::test_labels_of_another_scene_are_voted_again",
    "--labels": "tests/viewer/commands/test_segment.py::test_labels_are_a_column_of_scene_files",
    "--lens": "tests/viewer/commands/captures/test_lens_option.py::test_the_choice_is_kept_in_the_run",
    "--loop": FILMS,
    "--masks": ["train", "CAPTURE", "--masks", "none", *NEW],
    "--max-gaussians": ["train", "CAPTURE", "--max-gaussians", "50", *NEW],
    "--max-megapixels": ["train", "CAPTURE", "--max-megapixels", "9", *NEW],
    "--max-size": ["train", "CAPTURE", "--max-size", "32", *NEW],
    "--merge": "tests/viewer/bench/test_bench_record.py::test_results_of_several_calls_are_merged",
    "--mesh": "tests/viewer/commands/fields/test_field_commands.py::test_surfaces_are_exported",
    "--no-lpips": ["eval", "RUN", "--no-lpips", *CPU],
    "--name": "tests/viewer/commands/test_segment.py::test_clicks_add_objects_and_points_to_objects",
    "--out": ["export", "SCENE", "--out", "NEW.ply"],
    "--panorama.projection": ["train", "CAPTURE", "--panorama.projection", "perspective", *NEW],
    "--port": ["view", "SCENE", "--port", "0", *CPU],
    "--precise": ["train", "DATA", "--field", "image", "--precise", "--run", "NEW", *SHORT, *TABLE],
    "--quality": FILMS,
    "--rate": ["train", "--resume", "FIELD", "--rate", "0.001", *SHORT],
    "--replace": MASKS,
    "--restart": "tests/viewer/bench/test_bench_record.py::test_figures_of_two_commits_are_refused_and_said_aloud",
    "--resume": ["train", "--resume", "RUN", *SHORT],
    "--run": ["train", "CAPTURE", *NEW],
    "--scene-axes": ["render", "SCENE", "--out", "NEW", "--scene-axes", "RDF", *FRAMES, *CPU],
    "--seconds": "tests/viewer/bench/test_bench_view_clients.py::test_several_clients_are_measured_without_a_browser",
    "--segmenter": "tests/viewer/commands/test_segment.py::test_clicks_add_objects_and_points_to_objects",
    "--split": ["eval", "RUN", "--split", "train", "--no-lpips", *CPU],
    "--strategy": ["train", "CAPTURE", "--strategy", "mcmc", *NEW],
    "--time": "tests/viewer/commands/test_option_messages.py::test_places_of_export",
    "--width": ["render", "SCENE", "--out", "NEW", "--frames", "2", "--width", "16", "--height", "12", *CPU],
}


@pytest.fixture
def places(sound: Path, run: Path, tmp_path: Path) -> dict[str, str]:
    """What the words in capitals stand for."""
    image, field = tmp_path / "image.png", tmp_path / "field"
    Image.new("RGB", (24, 16), "red").save(image)
    words = ["train", str(image), "--field", "image", "--run", str(field), "--steps", "2"]
    assert main([*words, *TABLE, *CPU]) == 0
    new = str(tmp_path / "new")
    named = {"CAPTURE": sound, "RUN": run, "SCENE": run / "scene.ply", "DATA": image, "FIELD": field}
    return {**{name: str(path) for name, path in named.items()}, "NEW": new, "NEW.ply": f"{new}.ply"}


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers that are ended as soon as they serve."""

    def end(app: Any) -> int:
        app.stop()
        return 0

    monkeypatch.setattr("luxel.viewer.web.serving.serve_until_interrupted", end)


def test_every_command_and_option_of_a_remedy_is_followed() -> None:
    assert error_advice.calls_advised() <= CALLS.keys()
    assert error_advice.options_advised() <= OPTIONS.keys()
    tests = [test for test in [*CALLS.values(), *OPTIONS.values()] if isinstance(test, str)]
    assert all(error_sites.test_exists(test) for test in tests), tests


LISTS = [words for words in [*CALLS.values(), *OPTIONS.values()] if isinstance(words, list)]


@pytest.mark.parametrize("line", dict.fromkeys(" ".join(words) for words in LISTS))
@pytest.mark.usefixtures("brief")
def test_what_a_remedy_advises_works(line: str, places: dict[str, str]) -> None:
    assert main([places.get(word, word) for word in line.split()]) == 0
