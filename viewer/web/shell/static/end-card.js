// The card about a training that has ended: what it reached, and what can be done next. Messages: viewer/web/end_card.py

import { openFolder } from "./folders.js";
import { element } from "./status.js";

const FOLDERS = { clean: "Edit", compare: "Compare", measure: "Ruler" }; // with the controls of the tool that is chosen
const LABELS = {
  clean: ["Clean up", "Select and delete what does not belong to the scene"],
  compare: ["Compare", "Photograph and render side by side"],
  measure: ["Measure", "Measure lengths in the scene"],
  share: ["Share", "Export or send the scene"],
  extend: ["Train longer", "Continue the training"],
  report: ["Report", "Scores and images of the held-out views"],
};

export class EndCard {
  #send;
  #card = element("section", "luxel-end");
  #title = element("h2", "", this.#card);
  #close = element("button", "luxel-end-close", this.#card);
  #rows = element("dl", "", this.#card);
  #problem = element("p", "luxel-error-text", this.#card);
  #buttons = element("div", "luxel-actions", this.#card);
  #form = element("form", "luxel-end-steps", this.#card);
  #steps = null; // the field
  #key = null; // in the browser's storage, of what was closed
  #state = { shown: false };

  // parent: the layer over the image; send: sends a message to the server.
  constructor(parent, send) {
    this.#send = send;
    this.#card.tabIndex = -1;
    this.#card.setAttribute("role", "region");
    this.#card.setAttribute("aria-labelledby", (this.#title.id = "luxel-end-title"));
    this.#problem.setAttribute("role", "alert");
    this.#close.type = "button";
    this.#close.textContent = "×";
    this.#close.title = "Close (Escape)";
    this.#close.setAttribute("aria-label", "Close");
    this.#close.addEventListener("click", () => this.close());
    this.#card.addEventListener("keydown", (event) => event.key === "Escape" && this.#escape(event));
    this.#makeForm();
    this.#card.hidden = true;
    parent.append(this.#card);
  }

  // Takes the key of the scene of the server's greeting.
  fit({ scene }) {
    this.#key = `luxel-end-${scene}`;
  }

  // Takes an `end` message of the server.
  show(state) {
    this.#state = state;
    this.#card.hidden = !state.shown || this.#closed() === state.id;
    if (!state.shown) return;
    this.#title.textContent = state.title;
    this.#problem.textContent = state.problem;
    this.#problem.hidden = !state.problem;
    this.#rows.replaceChildren();
    for (const [label, value] of state.rows) {
      element("dt", "", this.#rows).textContent = label;
      element("dd", "", this.#rows).textContent = value;
    }
    if (state.buttons.join() !== [...this.#buttons.children].map(({ name }) => name).join()) this.#makeButtons(state.buttons);
    this.#steps.value ||= state.steps;
  }

  get open() {
    return !this.#card.hidden;
  }

  close() {
    this.#card.hidden = this.#form.hidden = true;
    try {
      localStorage.setItem(this.#key, this.#state.id);
    } catch {} // storage is blocked: the card comes back on reload
  }

  #closed() {
    try {
      return localStorage.getItem(this.#key);
    } catch {
      return null;
    }
  }

  #escape(event) {
    event.stopPropagation();
    if (this.#form.hidden) return this.close();
    this.#form.hidden = true;
    this.#buttons.children.extend?.focus();
  }

  #makeButtons(names) {
    this.#buttons.replaceChildren();
    for (const name of names) {
      const button = element("button", "", this.#buttons);
      button.type = "button";
      button.name = name;
      [button.textContent, button.title] = LABELS[name];
      button.addEventListener("click", () => this.#press(name));
    }
  }

  #makeForm() {
    const label = element("label", "", this.#form);
    label.append("Further steps");
    this.#steps = element("input", "", label);
    Object.assign(this.#steps, { type: "number", min: 1, max: 1e9, step: 1, required: true });
    const start = element("button", "luxel-end-start", this.#form);
    start.textContent = "Train";
    this.#form.hidden = true;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#form.hidden = true;
      this.#send({ type: "end", name: "extend", value: Number(this.#steps.value) });
    });
  }

  #press(name) {
    if (name === "report") return void window.open(this.#state.report, "_blank", "noopener");
    if (name === "extend") {
      this.#form.hidden = !this.#form.hidden;
      if (!this.#form.hidden) this.#steps.select();
      return;
    }
    if (name === "share") {
      // The menu, where the page has one, else the files of the panel Edit.
      if (window.luxelShell.openShare) window.luxelShell.openShare();
      else openFolder("Edit").then(() => openFolder("Files"));
    } else {
      openFolder(FOLDERS[name]);
      this.#send({ type: "end", name });
    }
    this.close();
  }
}
