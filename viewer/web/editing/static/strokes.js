// The freehand tools: draws strokes over the image and sends them. The messages are described in
// viewer/web/editing/stroke_messages.py. The server calls start, change and stop through viser.

import { Overlay } from "./overlay.js";
import { simplify } from "./polyline.js";

const POLICY_VIOLATION = 1008; // close code: the server does not want this connection again
const MAX_POINTS = 500; // of one message
const TOLERANCE = 0.5; // CSS pixels by which a line may change when points are left out
const STEP = 1; // CSS pixels between points that are noted
const CLOSE = 10; // CSS pixels from its first corner within which a click closes a polygon
const DOUBLE = [350, 6]; // ms and CSS pixels between the clicks of a double click
const RESIZE = 1.15; // factor of the keys [ and ]

let tool = null;

// Gives up what is being drawn; false: nothing is. For the Escape key, which leaves the tool otherwise.
window.luxel.cancelDrawing = () => tool?.cancel() ?? false;

export function start(options) {
  tool?.end();
  tool = new FreehandTool(options);
}

export function change({ key, ...options }) {
  if (tool?.key === key) tool.change(options);
}

export function stop({ key }) {
  if (tool?.key !== key) return;
  tool.end();
  tool = null;
}

class FreehandTool {
  #overlay;
  #socket = null;
  #attempts = 0;
  #ended = new AbortController();
  #options;
  #strokes = []; // not yet acknowledged to the end, oldest first; the last one may still be drawn
  #drawing = null; // the stroke under the pointer
  #number = 0;
  #waiting = false; // for the acknowledgement of a part
  #pointer = null; // where the pointer is over the image
  #keys = { add: false, subtract: false };

  constructor({ key, ...options }) {
    this.key = key;
    this.#options = { radius: 0, ...options };
    this.#overlay = new Overlay(options.shape);
    this.#listen();
    this.#connect();
  }

  change(options) {
    Object.assign(this.#options, options);
    this.#draw();
  }

  end() {
    this.#ended.abort();
    this.#socket?.close();
    this.#overlay.remove();
  }

  #connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/luxel/strokes?key=${encodeURIComponent(this.key)}`);
    this.#socket = socket;
    socket.onopen = () => {
      this.#attempts = 0;
    };
    socket.onmessage = ({ data }) => this.#acknowledged(JSON.parse(data).done);
    socket.onclose = ({ code }) => {
      this.#strokes = [];
      this.#drawing = null;
      this.#waiting = false;
      if (this.#ended.signal.aborted) return;
      if (code === POLICY_VIOLATION) stop(this);
      else setTimeout(() => this.#ended.signal.aborted || this.#connect(), 500 * 2 ** Math.min(this.#attempts++, 4));
    };
  }

  #listen() {
    const canvas = this.#overlay.canvas;
    const on = (target, type, act, options) =>
      target.addEventListener(type, act, { signal: this.#ended.signal, ...options });
    const handlers = {
      pointerdown: (event) => this.#down(event),
      pointermove: (event) => this.#move(event),
      pointerup: (event) => this.#up(event),
      pointercancel: () => this.#drawing?.corners || this.cancel(),
      pointerenter: () => leaveList(),
      pointerleave: () => this.#hover(null),
      wheel: (event) => event.preventDefault(),
      contextmenu: (event) => event.preventDefault(),
    };
    for (const [type, act] of Object.entries(handlers)) {
      const handle = (event) => {
        event.stopPropagation(); // viser must not move the camera
        act(event);
      };
      on(canvas, type, handle, { passive: false });
    }
    on(window, "keydown", (event) => this.#key(event, true));
    on(window, "keyup", (event) => this.#key(event, false));
    on(window, "blur", () => (this.#overlay.open = false));
  }

  #down(event) {
    if (event.button !== 0 || !event.isPrimary || this.#socket?.readyState !== WebSocket.OPEN) return;
    document.activeElement?.blur?.(); // so that keys are for the image
    if (this.#options.shape === "polygon") return this.#corner(event);
    this.#overlay.canvas.setPointerCapture(event.pointerId);
    this.#begin(this.#position(event), modeOf(event));
    this.#hover(event);
    this.#send();
  }

  #begin(point, mode) {
    this.#number += 1;
    this.#drawing = {
      number: this.#number,
      radius: this.#options.shape === "brush" ? this.#options.radius : 0,
      corners: this.#options.shape === "polygon",
      mode,
      points: [point], // all, to be drawn
      unsent: [point],
      last: false,
    };
    this.#strokes.push(this.#drawing);
  }

  // A click of the polygon: its next corner, or its end.
  #corner(event) {
    const point = this.#position(event);
    const polygon = this.#drawing;
    const [since, nearby] = DOUBLE;
    if (polygon === null) this.#begin(point, null);
    else if (polygon.points.length > 2 && apart(point, polygon.points[0]) <= CLOSE) return this.#close(event);
    else if (event.timeStamp - polygon.at < since && apart(point, polygon.points.at(-1)) <= nearby) return this.#close(event);
    else if (polygon.points.length < MAX_POINTS) polygon.points.push(point);
    this.#drawing.at = event.timeStamp;
    this.#hover(event);
  }

  // Ends the polygon; with fewer than three corners it goes on.
  #close(event) {
    const polygon = this.#drawing;
    if (!polygon?.corners || polygon.points.length < 3) return;
    this.#drawing = null;
    polygon.unsent = [...polygon.points];
    polygon.mode = modeOf(event);
    polygon.last = true;
    this.#draw();
    this.#send();
  }

  #move(event) {
    const stroke = this.#drawing;
    if (stroke !== null && !stroke.corners)
      for (const part of event.getCoalescedEvents?.() ?? [event]) {
        const point = this.#position(part);
        const [x, y] = stroke.points[stroke.points.length - 1];
        if (Math.hypot(point[0] - x, point[1] - y) < STEP) continue;
        stroke.points.push(point);
        stroke.unsent.push(point);
      }
    this.#hover(event);
    this.#send();
  }

  #up(event) {
    if (event.button !== 0 || this.#drawing === null || this.#drawing.corners) return;
    const stroke = this.#drawing;
    this.#drawing = null;
    if (stroke.radius === 0 && stroke.points.length < 3) this.#drop(stroke);
    stroke.last = true;
    this.#hover(event);
    this.#send();
  }

  cancel() {
    const stroke = this.#drawing;
    if (stroke === null) return false;
    this.#drawing = null;
    this.#drop(stroke);
    if (this.#socket?.readyState === WebSocket.OPEN)
      this.#socket.send(JSON.stringify({ type: "cancel", number: stroke.number }));
    this.#draw();
    return true;
  }

  #drop(stroke) {
    this.#strokes = this.#strokes.filter((other) => other !== stroke);
  }

  #hover(event) {
    if (event === null) this.#pointer = null;
    else {
      const [x, y] = this.#position(event);
      this.#pointer = { x, y };
      this.#keys = { add: event.shiftKey, subtract: event.altKey || event.ctrlKey || event.metaKey };
    }
    this.#draw();
  }

  #draw() {
    const { shape, radius } = this.#options;
    const mode = this.#drawing?.mode ?? (this.#keys.subtract ? "subtract" : this.#keys.add ? "add" : null);
    const pointer = this.#pointer && { ...this.#pointer, radius: shape === "brush" ? radius : 0, mode };
    this.#overlay.draw(this.#strokes, pointer, this.#drawing);
  }

  // Sends the next part of the oldest stroke, if none is being sent.
  #send() {
    const stroke = this.#strokes[0];
    if (this.#waiting || stroke === undefined || this.#socket?.readyState !== WebSocket.OPEN) return;
    const news = stroke.unsent.length > (stroke.sent ? 1 : 0); // a part begins with the last point of the one before
    if (!stroke.last && (stroke.radius === 0 || !news)) return;
    const points = simplify(stroke.unsent, TOLERANCE, MAX_POINTS);
    stroke.unsent = points.slice(-1);
    stroke.sent = true;
    const { width, height } = this.#overlay.canvas.getBoundingClientRect();
    const clamp = (value) => Math.min(2, Math.max(-1, value));
    this.#socket.send(
      JSON.stringify({
        type: "stroke",
        number: stroke.number,
        points: points.flatMap(([x, y]) => [clamp(x / width), clamp(y / height)]),
        radius: Math.min(2, stroke.radius / height),
        mode: stroke.mode,
        last: stroke.last,
      }),
    );
    this.#waiting = true;
    if (stroke.last) stroke.ending = true;
  }

  #acknowledged(number) {
    this.#waiting = false;
    const stroke = this.#strokes[0];
    if (stroke?.number === number && stroke.ending) this.#strokes.shift();
    this.#draw();
    this.#send();
  }

  // Keys: [ and ] change the radius, Enter closes a polygon, Backspace takes its last corner back, drags move the camera
  // while Space is held and nothing is being drawn.
  #key(event, down) {
    if (event.target.closest?.("input, textarea, select, button, [role=combobox], [contenteditable]")) return;
    this.#keys = { add: event.shiftKey, subtract: event.altKey || event.ctrlKey || event.metaKey };
    if (event.key === " ") {
      event.preventDefault();
      if (this.#drawing === null) this.#overlay.open = down;
    } else if (event.key === "Enter" && down) this.#close(event);
    else if (event.key === "Backspace" && down) this.#takeBack();
    else if ((event.key === "[" || event.key === "]") && down) this.#resize(event.key === "]");
    this.#draw();
  }

  #takeBack() {
    const polygon = this.#drawing;
    if (!polygon?.corners) return;
    if (polygon.points.length > 1) polygon.points.pop();
    else this.cancel();
  }

  #resize(larger) {
    const { shape, radius, least, most } = this.#options;
    if (shape !== "brush") return;
    const next = larger ? Math.ceil(radius * RESIZE) : Math.floor(radius / RESIZE);
    this.#options.radius = Math.min(most, Math.max(least, next));
    if (this.#socket?.readyState === WebSocket.OPEN)
      this.#socket.send(JSON.stringify({ type: "radius", pixels: this.#options.radius }));
  }

  // Where a pointer is on the image, CSS pixels.
  #position(event) {
    const { left, top } = this.#overlay.canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }
}

// Takes the focus from a list of choices, such as that of the tools: keys are for the image now.
function leaveList() {
  const focused = document.activeElement;
  if (focused?.matches("[role=combobox], [aria-haspopup=listbox]")) focused.blur();
}

const apart = ([x0, y0], [x1, y1]) => Math.hypot(x1 - x0, y1 - y0);

function modeOf(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return "subtract";
  return event.shiftKey ? "add" : null;
}
