// Stores the camera, the choices, the active tools and the open folders of this tab over reload and reconnect, and puts
// them back.
//
// Storage is the tab's own (sessionStorage), under a key of the scene.

import { decodeView, encodeView } from "./link.js";
import { applyView, readView, sameView } from "./view.js";

const SAVE_EVERY = 400; // ms
const SETTLE = [0, 60, 150, 300, 600, 1000]; // ms after which the camera is put back: viser may set its own meanwhile

let started = null; // the scene whose own view was shown: a page that connects again keeps what it shows

export class Keeper {
  #storage = null; // key of the scene; null while nothing is stored
  #state = {}; // view (as a fragment), time, values, tools, folders
  #hello = null;
  #send;
  #settled = false;
  #wanted = null; // view that the page is to show, until it is there or the user has turned it
  #touched = false; // whether the user has moved the camera since the page connected
  #opening = false; // whether folders are opened here, and not by the user
  #timers = [];

  // send: sends a message to the server.
  constructor(send) {
    this.#send = send;
    for (const kind of ["pointerdown", "wheel", "keydown", "touchstart"])
      window.addEventListener(kind, () => (this.#touched = true), { capture: true, passive: true });
    document.addEventListener("click", (event) => this.#folderClicked(event), true);
    setInterval(() => this.save(), SAVE_EVERY);
    window.addEventListener("pagehide", () => this.save());
  }

  // Puts back what was stored for this scene; `link` is a view from a link, which goes first, or null.
  restore(hello, link) {
    this.#hello = hello;
    this.#storage = `luxel-${hello.scene}`;
    this.#settled = this.#touched = false;
    this.#state = read(this.#storage);
    const view = (this.#wanted = link ?? viewOf(this.#state.view) ?? startOf(hello));
    const values = { ...this.#state.values };
    if (link?.output && hello.outputs.includes(link.output)) values["Show/Output"] = link.output;
    for (const [name, value] of Object.entries(values))
      if (name in hello.values && JSON.stringify(value) !== JSON.stringify(hello.values[name]))
        this.#send({ type: "set", name, value });
    for (const name of this.#state.tools ?? []) this.#send({ type: "tool", name, on: true });
    const time = link?.time ?? this.#state.time;
    if (hello.times && Number.isFinite(time)) this.#send({ type: "seek", time });
    this.#timers.forEach(clearTimeout);
    this.#timers = SETTLE.map((delay, i) =>
      setTimeout(() => {
        if (view && !this.#touched && !sameView(view, readView())) applyView(view);
        this.#openFolders();
        if (i === SETTLE.length - 1) this.#settled = true;
      }, delay),
    );
  }

  // Opens the folders that have come, as they were when they were there before.
  reopen() {
    for (const delay of SETTLE) setTimeout(() => this.#openFolders(), delay);
  }

  // Whether the page shows the view that it is to show, or what the user made of it.
  isThere() {
    return this.#storage !== null && (this.#touched || this.#wanted === null || sameView(this.#wanted, readView()));
  }

  // The values of the stored controls have changed.
  take(values) {
    if (this.#storage === null || (!this.#settled && !this.#touched)) return;
    this.#state.values = values;
    this.save();
  }

  // The active tools have changed.
  takeTools(names) {
    if (this.#storage === null || (!this.#settled && !this.#touched)) return;
    this.#state.tools = names;
    this.save();
  }

  // The time of a dynamic scene has changed.
  takeTime(time) {
    if (this.#settled && Number.isFinite(time)) this.#state.time = time;
  }

  save() {
    if (this.#storage === null || !(this.#settled || this.#touched)) return;
    const view = readView();
    if (view !== null) this.#state.view = encodeView(view);
    try {
      sessionStorage.setItem(this.#storage, JSON.stringify(this.#state));
    } catch {
      this.#storage = null; // storage is blocked or full
    }
  }

  // The connection is lost: what viser does to the camera from now on is not the user's doing.
  pause() {
    this.save();
    this.#storage = null;
  }

  // The address that shows this view: without any query, so that a token cannot be in it.
  link(time, output) {
    const view = readView();
    return view && `${location.origin}${location.pathname}#${encodeView({ ...view, time, output })}`;
  }

  #folderClicked(event) {
    const header = event.target.closest?.("*:has(> svg.tabler-icon-chevron-up), *:has(> svg.tabler-icon-chevron-down)");
    if (!header || this.#storage === null || this.#opening) return;
    const open = header.querySelector("svg.tabler-icon-chevron-down") !== null; // it was closed
    this.#state.folders = { ...this.#state.folders, [header.textContent.trim()]: open };
  }

  #openFolders() {
    this.#opening = true;
    for (const [name, open] of Object.entries(this.#state.folders ?? {})) {
      const icon = `svg.tabler-icon-chevron-${open ? "down" : "up"}`; // of a folder in the other state
      for (const svg of document.querySelectorAll(icon))
        if (svg.parentElement.textContent.trim() === name) svg.parentElement.click();
    }
    this.#opening = false;
  }
}

function read(key) {
  try {
    const state = JSON.parse(sessionStorage.getItem(key) ?? "{}");
    return state !== null && typeof state === "object" ? state : {};
  } catch {
    return {};
  }
}

// Where the page began, if that was in this scene.
function startOf(hello) {
  const { canvas } = window.__viserMutable ?? {};
  if (!canvas || window.luxelStart?.scene !== hello.scene || hello.scene === started) return null;
  started = hello.scene;
  return window.luxelShell.startView(canvas.clientWidth, canvas.clientHeight);
}

function viewOf(fragment) {
  try {
    return fragment ? decodeView(fragment) : null;
  } catch {
    return null; // what an earlier version stored
  }
}
