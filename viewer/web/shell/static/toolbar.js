// The tools on the image: their icons at its edge, one line for the active tool, and what can be done with a selection.
// What there is and what is active comes from the server, see viewer/web/toolbar.py.

import { openFolder } from "./folders.js";
import { iconButton } from "./icons.js";
import { element } from "./status.js";

const ICONS = { Undo: "undo", Redo: "redo", "Show all": "show" }; // of actions that stand at the tools
const KEYS = /\b(Shift|Ctrl|Alt)\b|\[/;

export class Toolbar {
  #send;
  #tools = element("div", "luxel-toolbar");
  #line = element("div", "luxel-toolline");
  #message = element("span", "luxel-toolmessage", this.#line);
  #offers = element("span", "luxel-actions", this.#line); // actions for the active tool
  #count = element("span", "luxel-count", this.#line);
  #actions = element("span", "luxel-actions", this.#line);
  #described = { tools: [], actions: [] };
  #buttons = new Map(); // by name, of tools and actions
  #state = { active: [], enabled: [] };

  // parent: the layer over the image; send: sends a message to the server.
  constructor(parent, send) {
    this.#send = send;
    this.#tools.setAttribute("role", "toolbar");
    this.#tools.setAttribute("aria-label", "Tools");
    this.#message.setAttribute("role", "status");
    this.#tools.hidden = this.#line.hidden = true;
    parent.append(this.#tools, this.#line);
    const measure = () => {
      parent.style.setProperty("--luxel-tools", `${this.#tools.offsetLeft + this.#tools.offsetWidth}px`);
      parent.style.setProperty("--luxel-tools-height", `${this.#tools.offsetHeight}px`);
    };
    new ResizeObserver(measure).observe(this.#tools); // a second column where the window is low, rows where it is narrow
  }

  // Takes the tools and actions of the server's greeting.
  fit({ toolbar }) {
    const described = toolbar ?? { tools: [], actions: [] };
    if (JSON.stringify(described) === JSON.stringify(this.#described)) return; // connected again
    this.#described = described;
    this.#buttons.clear();
    this.#tools.replaceChildren();
    this.#actions.replaceChildren();
    this.#offers.replaceChildren();
    let group = null;
    for (const tool of described.tools) {
      if (group !== null && group !== tool.group) element("hr", "", this.#tools);
      group = tool.group;
      const title = tool.key ? `${tool.label} (${tool.key.toUpperCase()})` : tool.label;
      const button = iconButton(tool.icon, title, () => this.choose(tool.name), this.#tools);
      button.setAttribute("aria-pressed", "false");
      this.#buttons.set(tool.name, button);
    }
    const bar = described.actions.filter((action) => action.place === "tools");
    if (bar.length && described.tools.length) element("hr", "", this.#tools);
    for (const action of bar) {
      const button = iconButton(ICONS[action.name], titleOf(action), () => this.press(action.name), this.#tools);
      this.#buttons.set(action.name, button);
    }
    for (const action of described.actions.filter((action) => action.place !== "tools")) {
      const button = element("button", "", action.place === "line" ? this.#offers : this.#actions);
      button.type = "button";
      button.title = titleOf(action);
      button.textContent = action.label;
      if (action.name === "Delete") button.classList.add("luxel-danger");
      button.addEventListener("click", () => this.press(action.name));
      this.#buttons.set(action.name, button);
    }
    this.#tools.hidden = described.tools.length === 0;
    this.show(this.#state);
  }

  // Takes a `toolbar` message of the server.
  show(state) {
    this.#state = state;
    for (const { name } of this.#described.tools)
      this.#buttons.get(name)?.setAttribute("aria-pressed", String(state.active.includes(name)));
    for (const action of this.#described.actions) {
      const button = this.#buttons.get(action.name);
      if (button === undefined) continue;
      button.disabled = !state.enabled.includes(action.name);
      const done = { Undo: state.undo, Redo: state.redo }[action.name];
      if (done !== undefined) button.title = done ? `${action.label}: ${done} (${action.key})` : titleOf(action);
      if (action.place === "tools") button.setAttribute("aria-label", button.title);
      if (action.name === "Show all" || action.place === "line") button.hidden = button.disabled;
    }
    const tool = this.#described.tools.find(({ name }) => name === state.active.at(-1));
    this.#message.textContent = state.message || hintOf(tool);
    this.#message.className = `luxel-toolmessage ${state.kind ? `luxel-${state.kind}-text` : ""}`;
    this.#message.hidden = !this.#message.textContent;
    const selected = state.selected ?? 0;
    this.#count.textContent = selected ? `${selected.toLocaleString("en")} ${nounOf(selected, state.noun)} selected${state.beside ? " by another page" : ""}` : "";
    this.#count.hidden = this.#actions.hidden = !selected;
    this.#line.hidden = this.#message.hidden && !selected;
  }

  // Chooses a tool, or leaves it; an empty name leaves the newest.
  choose(name) {
    const tool = this.#described.tools.find((tool) => tool.name === name);
    if (tool?.folder && !this.#state.active.includes(name)) openFolder(tool.folder);
    this.#send({ type: "tool", name });
  }

  press(name) {
    if (!this.#state.enabled.includes(name)) return false;
    this.#send({ type: "press", name });
  }

  // Leaves what is being drawn, else the active tool; false: there was neither.
  escape() {
    if (window.luxel?.cancelDrawing?.()) return true;
    if (!this.#state.active.length) return false;
    this.choose("");
    return true;
  }

  // What a key does, or undefined: `key` as in `KeyboardEvent.key`, in lower case, with "shift+" and "ctrl+" before it.
  shortcut(key) {
    const tool = this.#described.tools.find((tool) => tool.key && tool.key === key);
    if (tool) return () => this.choose(tool.name);
    const action = this.#described.actions.find((action) => action.key.toLowerCase() === key);
    return action && key.startsWith("shift+") ? () => this.press(action.name) : undefined;
  }
}

const titleOf = ({ label, key }) => (key ? `${label} (${key})` : label);

// What to do with a tool; on a touch screen without what needs keys.
function hintOf(tool) {
  const parts = (tool?.hint ?? "").split("; ");
  const shown = matchMedia("(pointer: coarse)").matches ? parts.filter((part) => !KEYS.test(part)) : parts;
  return shown.join("; ");
}

// "1 Gaussian", "2 Gaussians".
function nounOf(count, noun = "") {
  return count === 1 ? noun.replace(/s$/, "") : noun;
}
