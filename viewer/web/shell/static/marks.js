// What a tool draws over the image: an outline of what a click would take, and a spinner where it was clicked.
// Messages: viewer/web/image_marks.py. A place of the cursor is sent when the one before was answered.

import { element } from "./status.js";

const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 3000; // ms for an answer, which a tool that is busy may not give
const GAP = 60; // ms, at least, between two places
const PRESSED = 2000; // ms for which a click is marked until the server says what it does

export class Marks {
  #send;
  #svg = document.createElementNS(SVG, "svg");
  #path = document.createElementNS(SVG, "path");
  #spinner = element("div", "luxel-working");
  #follows = false;
  #cursor = null; // not yet sent
  #sentAt = -Infinity;
  #waiting = false;
  #timer = 0;
  #pressed = 0; // timer of a click that the server has not answered

  // parent: the layer over the image; send: sends a message to the server.
  constructor(parent, send) {
    this.#send = send;
    this.#svg.classList.add("luxel-outline");
    for (const [name, value] of Object.entries({ viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }))
      this.#svg.setAttribute(name, value);
    this.#svg.append(this.#path);
    this.#spinner.hidden = true;
    parent.append(this.#svg, this.#spinner);
  }

  // Takes a `marks` message of the server.
  show({ follows, outline, busy }) {
    this.#follows = follows;
    this.#waiting = false;
    this.#draw(outline);
    if (busy !== null) this.#spin(busy);
    else if (!this.#pressed) this.#spinner.hidden = true;
    this.#flush();
  }

  // The image was clicked at a place: that is marked until `answered`.
  press(place) {
    if (!this.#follows || place === null) return;
    this.#spin(place);
    this.#pressed = setTimeout(() => this.answered(), PRESSED);
  }

  // The server has said what a click does.
  answered() {
    if (!this.#pressed) return;
    clearTimeout(this.#pressed);
    this.#pressed = 0;
    this.#spinner.hidden = true;
  }

  #spin(place) {
    clearTimeout(this.#pressed);
    this.#pressed = 0;
    [this.#spinner.style.left, this.#spinner.style.top] = place.map((x) => `${100 * x}%`);
    this.#spinner.hidden = false;
  }

  // The cursor is at a place on the image, or null: elsewhere; pressed: with a button.
  move(place, pressed) {
    if (!this.#follows) return;
    if (place === null || pressed) return this.clear();
    this.#cursor = place;
    this.#flush();
  }

  // Takes the outline away, as the image changes.
  clear() {
    this.#cursor = null;
    this.#draw([]);
  }

  #flush() {
    if (this.#cursor === null || !this.#follows) return;
    const now = performance.now();
    const wait = (this.#waiting ? PATIENCE : GAP) - (now - this.#sentAt);
    clearTimeout(this.#timer);
    if (wait > 0) {
      this.#timer = setTimeout(() => this.#flush(), wait);
      return;
    }
    const [u, v] = this.#cursor;
    this.#send({ type: "hover", u, v });
    this.#cursor = null;
    this.#sentAt = now;
    this.#waiting = true;
  }

  #draw(outline) {
    const parts = outline.map((corners) => {
      const pairs = [];
      for (let i = 0; i < corners.length; i += 2) pairs.push(`${corners[i]} ${corners[i + 1]}`);
      return `M${pairs.join("L")}Z`;
    });
    this.#path.setAttribute("d", parts.join(""));
  }
}
