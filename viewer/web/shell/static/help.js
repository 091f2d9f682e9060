// The overlay that lists what mouse, touch and keys do.

import { element } from "./status.js";

const SOLID = {
  Mouse: [
    ["Drag", "turn about the centre"],
    ["Right drag", "move sideways and up"],
    ["Wheel", "nearer, farther"],
    ["Double click", "fly to the point, turn about it from then on"],
  ],
  Touch: [
    ["One finger", "turn"],
    ["Two fingers", "move, nearer and farther"],
  ],
  "Keys that move": [
    ["W A S D", "forward, left, back, right"],
    ["Q E", "down, up"],
    ["Arrows", "turn"],
    ["Shift", "four times as fast"],
  ],
};
const FLAT = {
  Mouse: [
    ["Drag", "move"],
    ["Wheel", "scale about the cursor"],
  ],
  Touch: [
    ["One finger", "move"],
    ["Two fingers", "move and scale"],
  ],
  "Keys that move": [
    ["Arrows, A D", "move"],
    ["W S", "nearer, farther"],
    ["Shift", "four times as fast"],
  ],
};

export class Help {
  #root = element("div", "luxel-help");
  #hello = null;
  #before = null; // what had the focus

  constructor() {
    this.#root.hidden = true;
    this.#root.setAttribute("role", "dialog");
    this.#root.setAttribute("aria-label", "Controls");
    this.#root.tabIndex = 0; // it scrolls where it is higher than the window
    this.#root.addEventListener("click", () => this.close());
    document.body.append(this.#root);
  }

  fit(hello) {
    this.#hello = hello;
  }

  get open() {
    return !this.#root.hidden;
  }

  toggle() {
    if (this.open) return this.close();
    this.#fill();
    this.#before = document.activeElement;
    this.#root.hidden = false;
    this.#root.focus();
  }

  close() {
    this.#root.hidden = true;
    this.#before?.focus?.();
  }

  #fill() {
    const hello = this.#hello ?? { outputs: [] };
    const shortcuts = [
      ["Home", "reset the view"],
      ...(hello.flat ? [] : [["F", "fly to the point under the cursor"]]),
      ...(hello.outputs.length > 1 ? [[`1 … ${hello.outputs.length > 9 ? 0 : hello.outputs.length}`, hello.outputs.slice(0, 10).join(", ")]] : []),
      ...(hello.trains ? [["Space", "pause or continue the training"]] : []),
      ...(hello.times && !hello.trains ? [["Space", "play or pause"]] : []),
      ["U", "copy a link to this view"],
      ["Y", "share: image, web page, scene file, mesh, film, link, report"],
      ["H", "hide or show the panel"],
      ["Escape", "leave a field, then a card, then a tool"],
      ["?", "this list"],
    ];
    const { tools = [], actions = [] } = hello.toolbar ?? {};
    const keys = tools.filter(({ key }) => key).map(({ key, label }) => [key.toUpperCase(), label]);
    const edits = actions.filter(({ key }) => key).map(({ key, label }) => [key.replaceAll("+", " "), label]);
    const known = edits.map(([key]) => key);
    for (const [key, text] of hello.commands ?? []) if (!known.includes(key)) edits.push([key, text]);
    if (hello.commands?.length > 0) edits.push(["Ctrl K", "all commands, to search"]);
    const { Touch, ...others } = hello.flat ? FLAT : SOLID;
    const moves = matchMedia("(pointer: coarse)").matches ? { Touch, ...others } : { ...others, Touch };
    const parts = { ...moves, Shortcuts: shortcuts, Tools: keys, Editing: edits };
    const card = element("div", "luxel-card");
    element("h2", "", card).textContent = "Controls";
    const columns = element("div", "luxel-columns", card);
    for (const [title, rows] of Object.entries(parts)) {
      if (rows.length === 0) continue;
      const part = element("section", "", columns);
      element("h3", "", part).textContent = title;
      const list = element("dl", "", part);
      for (const [keys, text] of rows) {
        element("dt", "", list).textContent = keys;
        element("dd", "", list).textContent = text;
      }
    }
    element("p", "", card).textContent = "In a field, keys are text: Enter or Escape leaves it. Escape or a click closes this.";
    this.#root.replaceChildren(card);
  }
}
