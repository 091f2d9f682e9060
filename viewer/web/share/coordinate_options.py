"""The options "upright" and "in metres" of what the Share menu writes."""

from __future__ import annotations

from luxel.scenes.files.scene_format import SceneFacts
from luxel.viewer.exports.coordinates import Coordinates
from luxel.viewer.measure.shared_measurements import known_facts, measurements_of
from luxel.viewer.web.session import Session
from luxel.viewer.web.share.plan import Chosen, Option


def facts_now(session: Session) -> SceneFacts:
    """What is known of a scene now."""
    return known_facts(session, measurements_of(session))


def coordinate_options(session: Session) -> list[Option]:
    """The switches, where the up direction and the length of a unit are known."""
    facts = facts_now(session)
    upright = [Option("upright", "Upright", False)] if facts.up is not None else []
    return [*upright, *([Option("metric", "In metres", False)] if facts.metres is not None else [])]


def chosen_coordinates(session: Session, values: Chosen) -> Coordinates:
    """The coordinates of a file with these choices."""
    return Coordinates.chosen(facts_now(session), bool(values.get("upright")), bool(values.get("metric")))


def coordinate_words(values: Chosen) -> tuple[str, ...]:
    """The options of `luxel export` for these choices."""
    return tuple(f"--{name}" for name in ("upright", "metric") if values.get(name))
