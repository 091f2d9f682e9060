"""What pages may send: every message is checked before viser reads it.

viser applies what a page sends without looking at it: a GuiUpdateMessage may replace the callbacks of a control that
all pages share, a slider takes values outside of its range, a camera may claim any size, and one malformed message
ends the connection with a traceback. Therefore:

* only the types in SHAPES are accepted, each with its fields and no others, each field with its type and finite;
* a GuiUpdateMessage may set the ``value`` of a control that is this page's or shared, enabled and visible, and the
  value must fit the control; numbers are clamped to its range;
* uploads need an upload control, and cannot become larger than they declare;
* cameras are clamped to what a page can show (see `navigate.clamped_size`);
* each connection has a budget of messages; above it, reading is delayed.

What is refused is counted in `MessageFilter.dropped` and logged once per reason.

viser has no option for this, so the handler that it gives to websockets' ``serve`` gets a connection whose ``recv``
returns only what was accepted. `MessageFilter.attach` fails if the installed viser has not what the checks rest on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import viser
from viser import _messages
from viser.infra import _infra

from luxel.render.errors import LuxelError
from luxel.viewer.web.access.control_values import Refused, checked_value
from luxel.viewer.web.access.limits import Limits, TokenBucket
from luxel.viewer.web.access.message_fields import SHAPES, Field, camera_fields, vector

log = logging.getLogger("luxel.viewer")

PROTOCOL = f"viser-v{viser.__version__}"  # subprotocol of the pages of the installed version
BYTES_PER_MESSAGE = 16 * 1024  # a longer message counts as several


@dataclasses.dataclass
class Sender:
    """The page that sent a message.

    Args:
        client_id: viser's number of the connection.
        server: the server of the page.
        connection: viser's state of the connection; None before its first camera.
        scopes: objects with ``gui`` and ``scene`` that the page may use: the server and, once viser has it, its client.
    """

    client_id: int
    server: Any
    connection: Any
    scopes: tuple[Any, ...]

    def control(self, uuid: str) -> Any:
        """The control with this id that the page may use."""
        for scope in self.scopes:
            handle = scope.gui._gui_input_handle_from_uuid.get(uuid)
            if handle is not None and not handle._impl.removed:
                return handle
        raise Refused("a control that is not on this page")

    def registered(self, registry: Callable[[Any], dict[str, Any]], name: str) -> Any:
        """The entry ``name`` of a registry of viser, in one of the scopes."""
        for scope in self.scopes:
            if (entry := registry(scope).get(name)) is not None:
                return entry
        raise Refused("something that is not on this page")

    def awaited(self, message_type: type) -> None:
        """Checks that the server waits for an answer of this type."""
        if self.connection is None or not self.connection._incoming_handlers.get(message_type):
            raise Refused("an answer without a question")


def check(kind: str, fields: dict[str, Any], sender: Sender) -> dict[str, Any]:
    """The fields of a message that viser may read.

    Args:
        kind: type of the message.
        fields: as received, without the type.
        sender: the page.

    Raises:
        Refused: the message is not one that a page may send.
    """
    shape = SHAPES.get(kind)
    if shape is None:
        raise Refused("a type that pages do not send")
    out = {name: field(fields.get(name)) for name, field in shape.items()}
    _CHECKS.get(kind, _nothing)(out, sender)
    return out


def _nothing(out: dict[str, Any], sender: Sender) -> None:
    pass


def _camera(out: dict[str, Any], sender: Sender) -> None:
    out.update(camera_fields(out))


def _update(out: dict[str, Any], sender: Sender) -> None:
    handle = sender.control(out["uuid"])
    out["updates"] = {"value": checked_value(handle, out["updates"]["value"])}


def _hold(out: dict[str, Any], sender: Sender) -> None:
    state = sender.control(out["uuid"])._impl
    if out["frequency"] not in getattr(state, "hold_cbs_from_freq", {}):
        raise Refused("a button that is not pressed")
    if state.props.disabled or not state.props.visible:
        raise Refused("a disabled control")


def _form(out: dict[str, Any], sender: Sender) -> None:
    form = sender.registered(lambda scope: scope.gui._container_handle_from_uuid, out["uuid"])
    if not isinstance(form, viser.GuiFormHandle):
        raise Refused("something that is not a form")


def _command(out: dict[str, Any], sender: Sender) -> None:
    sender.registered(lambda scope: scope.gui._command_handle_from_uuid, out["uuid"])


def _pointer(out: dict[str, Any], sender: Sender) -> None:
    positions, clicked = out["screen_pos"], out["event_type"] == "click"
    if not isinstance(positions, list | tuple) or len(positions) != (1 if clicked else 2):
        raise Refused("a position that is none")
    out["screen_pos"] = [vector(2)(position) for position in positions]
    if clicked and (out["ray_origin"] is None or out["ray_direction"] is None):
        raise Refused("a click without a ray")


def _scene_node(out: dict[str, Any], sender: Sender) -> None:
    sender.registered(lambda scope: scope.scene._handle_from_node_name, out["name"])


def _render(out: dict[str, Any], sender: Sender) -> None:
    sender.awaited(_messages.GetRenderResponseMessage)
    if not isinstance(out["payload"], bytes):
        raise Refused("an image that is none")


def _upload_control(out: dict[str, Any], sender: Sender) -> None:
    handle = sender.control(out["source_component_uuid"])
    if not isinstance(handle, viser.GuiUploadButtonHandle) or handle.disabled or not handle.visible:
        raise Refused("an upload without a control for it")


def _upload(out: dict[str, Any], sender: Sender) -> None:
    _upload_control(out, sender)
    states = (scope.gui._current_file_upload_states for scope in sender.scopes)
    if any(upload["client_id"] == sender.client_id for state in states for upload in list(state.values())):
        raise Refused("an upload during another one")


def _upload_part(out: dict[str, Any], sender: Sender) -> None:
    _upload_control(out, sender)  # viser gives the file to the control that the last part names
    content = out["content"]
    state = sender.registered(lambda scope: scope.gui._current_file_upload_states, out["transfer_uuid"])
    if state["client_id"] != sender.client_id or not isinstance(content, bytes):
        raise Refused("an upload that is not this page's")
    if state["transferred_bytes"] + len(content) > state["total_bytes"]:
        raise Refused("an upload that is longer than declared")


_CHECKS: dict[str, Callable[[dict[str, Any], Sender], None]] = {
    "ViewerCameraMessage": _camera,
    "GuiUpdateMessage": _update,
    "GuiButtonHoldMessage": _hold,
    "GuiFormSubmitMessage": _form,
    "GuiFormDirtyMessage": _form,
    "CommandTriggerMessage": _command,
    "ScenePointerMessage": _pointer,
    "SceneNodeClickMessage": _scene_node,
    "SceneNodeDragMessage": _scene_node,
    "TransformControlsUpdateMessage": _scene_node,
    "TransformControlsDragStartMessage": _scene_node,
    "TransformControlsDragEndMessage": _scene_node,
    "GetRenderResponseMessage": _render,
    "FileTransferStartUpload": _upload,
    "FileTransferPart": _upload_part,
}


class MessageFilter:
    """Lets through what pages may send.

    Args:
        limits: on the number of messages.

    Attributes:
        dropped: number of refused messages by type and reason.
        open: connections of pages that are open now.
        stopping: set when the viewer stops; what fails from then on is not logged.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.dropped: Counter[str] = Counter()
        self.open: set[CheckedConnection] = set()
        self.stopping = False
        self._server: Any = None
        self._wrapped = False
        self._decoder = msgspec.msgpack.Decoder(dict[str, Any])

    def wrap(self, handler: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
        """A handler for websockets' server that gives ``handler`` checked connections."""
        self._wrapped = True

        async def checked(connection: Any) -> None:
            if len(self.open) >= self.limits.max_pages:
                await connection.close(1013, "Too many pages are open.")
                return
            if connection.subprotocol != PROTOCOL:  # viser would print a line for each
                await connection.close(1002, "Version mismatch: reload the page.")
                return
            page = CheckedConnection(connection, self)
            self.open.add(page)
            try:
                await handler(page)
            except RuntimeError:  # viser has ended its threads before its connections
                if not self.stopping:
                    raise
            finally:
                self.open.discard(page)

        return checked

    def attach(self, server: Any) -> None:
        """Starts to accept messages for a server.

        Raises:
            LuxelError: viser's messages or its state are not those that the checks were written for.
        """
        fits = (
            self._wrapped
            and "recv" in _infra._message_consumer.__code__.co_names
            and hasattr(server._websock_server, "_live_connections")
            and hasattr(server, "_connected_clients")
            and all(hasattr(server.gui, name) for name in _GUI_STATE)
            and hasattr(server.scene, "_handle_from_node_name")
            and all(_fits(kind, shape) for kind, shape in SHAPES.items())
        )
        if not fits:
            raise LuxelError(
                "luxel cannot check the messages of pages with this version of viser.",
                "Install the version that luxel is tested with: pip install 'viser==1.1.1'.",
            )
        self._server = server

    def filtered(self, raw: Any, page: CheckedConnection) -> bytes | None:
        """A message as viser may read it, or None if it is refused."""
        kind = "malformed"
        try:
            fields = self._decoder.decode(raw) if isinstance(raw, bytes) else {}
            kind = fields.pop("type", None)
            if not isinstance(kind, str) or kind not in SHAPES:
                kind = "unknown"
                raise Refused("a type that pages do not send")
            return msgspec.msgpack.encode({"type": kind, **check(kind, fields, self._sender(page))})
        except Refused as refused:
            self._drop(kind, str(refused))
        except Exception as error:  # whatever a page sends, it ends no connection and fills no log
            self._drop(kind, type(error).__name__)
        return None

    def _sender(self, page: CheckedConnection) -> Sender:
        server = self._server
        if server is None:
            raise Refused("a message before the viewer has started")
        client_id = page.client_id(server)
        client = server._connected_clients.get(client_id)
        scopes = (server,) if client is None else (client, server)
        return Sender(client_id, server, getattr(client, "_websock_connection", None), scopes)

    def _drop(self, kind: str, reason: str) -> None:
        key = f"{kind}: {reason}"
        self.dropped[key] += 1
        if self.dropped[key] == 1:
            log.warning("A message of a page was ignored (%s). More of these are not logged.", key)


_GUI_STATE = (
    "_gui_input_handle_from_uuid",
    "_container_handle_from_uuid",
    "_command_handle_from_uuid",
    "_current_file_upload_states",
)


def _fits(kind: str, shape: dict[str, Field]) -> bool:
    """Whether viser's message of this name has exactly the fields of the shape."""
    message = getattr(_messages, kind, None)
    if message is None:
        return False
    return {field.name for field in dataclasses.fields(message) if field.init} == set(shape)


class CheckedConnection:
    """A connection whose ``recv`` returns accepted messages only; all else is that of websockets.

    There is no iteration over it: whatever reads messages by another method fails.
    """

    def __init__(self, connection: Any, messages: MessageFilter) -> None:
        self._connection, self._filter = connection, messages
        limits = messages.limits
        self._budget = TokenBucket(limits.message_rate, limits.message_burst, time.monotonic)
        self._client_id: int | None = None

    async def recv(self) -> bytes:
        """The next accepted message."""
        while True:
            raw = await self._connection.recv()
            wait = self._budget.take(1 + len(raw) // BYTES_PER_MESSAGE)
            await asyncio.sleep(wait)  # also for 0: what the message before changed is looked at below
            if (accepted := self._filter.filtered(raw, self)) is not None:
                return accepted

    async def send(self, message: bytes) -> None:
        """Sends a message."""
        await self._connection.send(message)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes the connection."""
        await self._connection.close(code, reason)

    @property
    def subprotocol(self) -> Any:
        """Of the connection."""
        return self._connection.subprotocol

    def client_id(self, server: Any) -> int:
        """viser's number of this connection."""
        if (known := self._client_id) is None:
            live = server._websock_server._live_connections.items()
            self._client_id = known = next(number for number, connection in live if connection is self)
        return known
