// The line between what is compared: it is dragged on the image, or moved by the arrow keys while it has the focus.
// Messages: viewer/web/divider.py. A position is sent when the one before was answered, so that nothing queues.

import { element } from "./status.js";

const STEP = 0.01; // of the arrow keys

export class Divider {
  #send;
  #line = element("div", "luxel-divider");
  #left = element("span", "luxel-side luxel-side-left");
  #right = element("span", "luxel-side luxel-side-right");
  #span = [0, 1];
  #value = 0.5;
  #dragging = false;
  #waiting = false; // for an answer
  #unsent = null;

  // parent: the layer over the image; send: sends a message to the server.
  constructor(parent, send) {
    this.#send = send;
    element("i", "", this.#line);
    this.#line.tabIndex = 0;
    for (const [name, value] of Object.entries({
      role: "slider",
      "aria-label": "Line between left and right",
      "aria-valuemin": "0",
      "aria-valuemax": "100",
    }))
      this.#line.setAttribute(name, value);
    this.#line.addEventListener("pointerdown", (event) => this.#down(event));
    this.#line.addEventListener("pointermove", (event) => this.#dragging && this.#moveTo(this.#valueAt(event)));
    for (const type of ["pointerup", "pointercancel"]) this.#line.addEventListener(type, () => (this.#dragging = false));
    this.#line.addEventListener("keydown", (event) => this.#key(event));
    this.#hide(true);
    parent.append(this.#left, this.#right, this.#line);
  }

  // Takes a `divider` message of the server.
  show({ shown, value, left, right, span }) {
    this.#waiting = false;
    this.#hide(!shown);
    if (!shown) {
      this.#dragging = false;
      this.#unsent = null;
      return;
    }
    this.#left.textContent = left;
    this.#right.textContent = right;
    this.#span = span;
    if (this.#unsent !== null) this.#flush();
    else if (!this.#dragging) this.#value = value;
    this.#place();
  }

  #hide(hidden) {
    for (const node of [this.#line, this.#left, this.#right]) node.hidden = hidden;
  }

  #down(event) {
    if (event.button !== 0) return;
    event.preventDefault(); // the camera stays, and no text is selected
    this.#line.setPointerCapture(event.pointerId);
    this.#dragging = true;
  }

  #valueAt(event) {
    const { left, width } = this.#line.parentElement.getBoundingClientRect();
    const [first, last] = this.#span;
    return ((event.clientX - left) / width - first) / (last - first);
  }

  #key(event) {
    const by = { ArrowLeft: -STEP, ArrowRight: STEP, Home: -1, End: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.#moveTo(this.#value + (event.shiftKey ? 10 : 1) * by);
  }

  #moveTo(value) {
    this.#value = Math.min(1, Math.max(0, value));
    this.#place();
    this.#unsent = this.#value;
    if (!this.#waiting) this.#flush();
  }

  #flush() {
    this.#send({ type: "divide", value: this.#unsent });
    this.#unsent = null;
    this.#waiting = true;
  }

  #place() {
    const [first, last] = this.#span;
    const at = 100 * (first + this.#value * (last - first));
    this.#line.style.left = `${at}%`;
    this.#left.style.right = `${100 - at}%`;
    this.#right.style.left = `${at}%`;
    this.#line.setAttribute("aria-valuenow", String(Math.round(100 * this.#value)));
  }
}
