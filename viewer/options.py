"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import errno
import os
import typing
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from luxel.render.bounds import PORT, Bounds, Options, PositiveShare, option_types
from luxel.render.errors import LuxelError

if TYPE_CHECKING:
    import torch


DeviceName = Literal["auto", "cpu", "cuda"]
POSITIONAL = typing.get_args(tyro.conf.Positional[int])[1]  # how tyro marks an argument without a name
MaskUse = Literal["auto", "cutout", "ignore", "none"]
PoseUse = Literal["keep", "refine"]
DepthValues = Literal["z", "ray", "inverse"]
PointUse = Literal["auto", "sweep", "random", "triangulate"]
LensUse = Literal["undistort", "keep"]
SegmenterName = Literal["mobile-sam", "ids"]


@dataclass
class Serve(Options):
    """Where the web viewer listens."""

    host: str = "127.0.0.1"
    """Address to listen on; anything but a loopback address is open to other machines and needs a token."""
    port: Annotated[int, PORT] = 8080
    """Port to listen on; if it is in use, the next free one is taken and printed."""
    token: Annotated[str | None, tyro.conf.arg(metavar="SECRET", help_behavior_hint="")] = None
    """Secret of at least 12 characters that a browser must send; it is part of the printed address. Other users of this
    machine see it in the list of processes: prefer --token-file or LUXEL_TOKEN. Default: LUXEL_TOKEN, else none."""
    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """File with the token in its first line. Default: none."""
    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Certificate chain, PEM: serves HTTPS. Default: none."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Private key of the certificate, PEM. Default: none."""
    max_pages: Annotated[int, Bounds(1, 10000)] = 64
    """Pages that may be open at a time."""
    share_of_time: PositiveShare = 0.3
    """Largest fraction of time that rendering for viewers may take from training."""

    def plain(self) -> dict[str, Any]:
        """The options for another process of this machine: plain values, paths absolute, the token itself.

        Raises:
            LuxelError: the token's file cannot be read.
        """
        from luxel.viewer.web.access.credentials import read_token

        values = asdict(self) | {"token": read_token(self.token, self.token_file), "token_file": None}
        return {
            name: str(value.resolve()) if isinstance(value, Path) else value for name, value in values.items()
        }

    @classmethod
    def of_plain(cls, values: dict[str, Any]) -> Serve:
        """The reverse of `plain`.

        Raises:
            LuxelError: an unknown option.
        """
        paths = {name: Path(values[name]) for name in ("tls_cert", "tls_key") if values.get(name)}
        try:
            return cls(**{**values, **paths})
        except TypeError as error:
            raise LuxelError(
                f"the viewer has no such option: {error}.",
                "Show the run with the version of luxel that trains it.",
            ) from error


def optional(metavar: str) -> Any:
    """For an option whose default is None: its name in help texts, without "(default: None)".

    Its help text says what happens without it.
    """
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def option_name(hint: Any, name: str, prefix: str) -> str:
    """The name of a field on the command line, such as --rates.means or CAPTURE; empty for a group without a name."""
    metadata = getattr(hint, "__metadata__", ())
    arg = next((entry for entry in metadata if hasattr(entry, "metavar")), None)
    if arg is not None and arg.name == "":
        return prefix.removesuffix(".")
    if POSITIONAL in metadata:
        return (arg.metavar if arg is not None else None) or name.upper()
    return f"{prefix or '--'}{name.replace('_', '-')}"


@dataclass(frozen=True)
class PathText:
    """Metadata of a text that may be a path: ``Annotated[str, PathText()]``."""


def prepare_paths(options: Any, prefix: str = "") -> None:
    """Replaces ~ and ~user at the start of every path of a command by the home folder, and refuses links in a circle.

    Shells replace ~ only at the start of a word, and not where it is quoted: not in --out=~/scene.ply.

    Args:
        options: the dataclass of the command, which is changed; groups of options in it, too.
        prefix: of the names in errors.

    Raises:
        LuxelError: there is no such user or no home folder, or a link leads to itself; the message names the option.
    """
    hints = option_types(type(options))
    for entry in dataclasses.fields(options):
        value, hint = getattr(options, entry.name), hints[entry.name]
        name = option_name(hint, entry.name, prefix)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            prepare_paths(value, name and f"{name}.")
        elif isinstance(value, Path | tuple | list) or PathText() in getattr(hint, "__metadata__", ()):
            setattr(options, entry.name, _prepared(value, name))


def _prepared(value: Any, name: str) -> Any:
    """A path, a text that may be one, or a tuple or list of paths, with the home folder instead of ~."""
    if isinstance(value, tuple | list):
        return type(value)(_prepared(each, name) if isinstance(each, Path) else each for each in value)
    if value is None:
        return None
    if str(value).startswith("~"):
        try:
            value = type(value)(Path(value).expanduser())
        except RuntimeError:
            raise LuxelError(
                f"{name} {value}: there is no such home folder.", "Write out the path of the folder."
            ) from None
    try:
        os.stat(value)
    except (OSError, ValueError) as error:  # ValueError: a NUL character, which is reported with the option
        if getattr(error, "errno", None) == errno.ELOOP:
            raise LuxelError(
                f"{name} {value}: its symbolic links lead in a circle.",
                "Let the link point at what is meant, or give that instead.",
            ) from None
    return value


def refuse_empty(arguments: Sequence[str]) -> None:
    """Raises LuxelError for an empty word on the command line, which would name the present folder as a path."""
    for before, word in zip(("", *arguments), arguments, strict=False):
        if not word or (word.startswith("--") and word.endswith("=")):
            name = word.removesuffix("=") or (before if before.startswith("--") else "An argument")
            raise LuxelError(f"{name} is empty.", "Give it a value, or leave it out.")


def pick_device(name: DeviceName) -> torch.device:
    """The device that an option names; "auto" is CUDA where it works, else the CPU.

    Raises:
        LuxelError: that device cannot be used, with the reason and the remedy.
    """
    import torch

    from luxel.render.native import best_device, cuda_problem, library_for

    if name == "cuda" and (problem := cuda_problem()):
        raise LuxelError(
            f"--device cuda: {problem}", "Leave --device out to use what there is; see `luxel doctor`."
        )
    device = best_device() if name == "auto" else torch.device(name)
    library_for(device)
    return device


def given(arguments: Sequence[str], option: str) -> str | None:
    """The value of an option, read before the options are parsed because their defaults depend on it."""
    for position, word in enumerate(arguments):
        if word == option and position + 1 < len(arguments):
            return arguments[position + 1]
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def given_path(arguments: Sequence[str], option: str) -> Path | None:
    """As `given`, for a path, whose ~ is expanded.

    Raises:
        LuxelError: there is no such user or no home folder, or a link leads to itself.
    """
    text = given(arguments, option)
    return None if text is None else _prepared(Path(text), option)
