// The Share menu on the image: its entries, the options of one, the command that does the same, and the files that are made.
// What there is comes from the server, see viewer/web/share/menu.py.

import { iconButton } from "./icons.js";
import { element } from "./status.js";

const TICK = 500; // ms between looks at the clock
const LOOK_EVERY = 4; // ticks between questions for what has changed
const MOVES = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
const STATES = { waiting: "waiting for the files before it", cancelled: "cancelled", failed: "failed" };

export class Share {
  #send;
  #copyLink;
  #notify;
  #root = element("div", "luxel-share");
  #tabs = element("div", "luxel-share-tabs");
  #panel = element("div", "luxel-share-panel");
  #files = element("ul", "luxel-share-files");
  #ended = element("div", "luxel-share-spoken"); // for screen readers: which job has ended
  #about = element("p", "", this.#panel);
  #form = element("form", "", this.#panel);
  #problem = element("p", "luxel-share-problem", this.#panel);
  #start = button("", () => this.#begin(), "luxel-share-start");
  #link = element("a", "luxel-share-link");
  #command = new Command();
  #entries = [];
  #chosen = ""; // name of the entry
  #shown = ""; // the options that the form was made of, as JSON
  #values = {}; // by entry and option
  #jobs = new Map(); // by id: {job, at, row}
  #before = null; // what had the focus
  #saidOfCommand = false; // whether the problem shown is that of the options
  #ticks = 0;
  #opening = false; // whether the entry gets the focus as soon as it is there
  #opener;

  // parent: the layer over the image; send: sends a message to the server; copyLink: copies the link of the view; notify:
  // shows a line.
  constructor(parent, send, copyLink, notify) {
    this.#send = send;
    this.#copyLink = copyLink;
    this.#notify = notify;
    const style = element("link", "", document.head);
    style.rel = "stylesheet";
    style.href = "/luxel/share.css";
    this.#root.hidden = true;
    this.#root.setAttribute("role", "dialog");
    this.#root.setAttribute("aria-label", "Share");
    const head = element("div", "luxel-share-head", this.#root);
    element("h2", "", head).textContent = "Share";
    iconButton("close", "Close (Escape)", () => this.close(), head);
    this.#tabs.setAttribute("role", "tablist");
    this.#tabs.setAttribute("aria-label", "What is shared");
    this.#panel.setAttribute("role", "tabpanel");
    this.#panel.id = "luxel-share-panel";
    this.#problem.setAttribute("role", "status");
    this.#link.target = "_blank";
    this.#link.rel = "noopener";
    this.#link.textContent = "Open";
    const actions = element("div", "luxel-share-actions", this.#panel);
    actions.append(this.#link, this.#start);
    this.#panel.append(this.#command.root);
    this.#files.setAttribute("aria-label", "Files");
    const body = element("div", "luxel-share-body", this.#root);
    body.append(this.#tabs, this.#panel);
    this.#ended.setAttribute("role", "status");
    this.#root.append(this.#files, this.#ended);
    parent.append(this.#root);
    this.#form.addEventListener("submit", (event) => event.preventDefault() || this.#begin());
    for (const kind of ["input", "change"]) this.#form.addEventListener(kind, () => this.#changed());
    for (const kind of ["keydown", "keyup"]) this.#root.addEventListener(kind, (event) => event.stopPropagation()); // else they turn the camera
    this.#tabs.addEventListener("keydown", (event) => this.#moveTo(event));
    setInterval(() => this.#tick(), TICK);
  }

  // The button that opens the menu.
  set opener(node) {
    this.#opener = node;
    node.setAttribute("aria-haspopup", "dialog");
    node.setAttribute("aria-expanded", "false");
  }

  get isOpen() {
    return !this.#root.hidden;
  }

  toggle() {
    if (this.isOpen) this.close();
    else this.open();
  }

  // Opens the menu at an entry; an empty name: at the one that was open last.
  open(entry = "") {
    if (!this.isOpen) this.#before = document.activeElement;
    this.#root.hidden = false;
    this.#opener?.setAttribute("aria-expanded", "true");
    this.#choose(entry || this.#chosen || "image");
    this.#opening = this.#selected() === null; // they come from the server
    this.#selected()?.focus();
  }

  close() {
    if (!this.isOpen) return;
    this.#root.hidden = true;
    this.#opener?.setAttribute("aria-expanded", "false");
    const back = this.#before?.isConnected && this.#before !== document.body ? this.#before : this.#opener;
    back?.focus();
  }

  // Takes a message of the server whose type begins with "share".
  take(message) {
    if (message.type === "share") this.#offer(message.entries);
    else if (message.type === "share-jobs") this.#list(message.jobs);
    else if (message.type === "share-open") this.open(message.entry);
    else if (message.entry === this.#chosen && message.type === "share-command") {
      this.#command.show(message.command, message.note);
      if (message.problem || this.#saidOfCommand) this.#say(message.problem);
      this.#saidOfCommand = Boolean(message.problem);
    } else if (message.entry === this.#chosen) this.#say(message.problem);
  }

  // The server knows nothing of this page after it has connected again.
  connected() {
    if (this.isOpen) this.#look();
  }

  #offer(entries) {
    this.#entries = entries;
    const names = entries.map(({ name }) => name).join();
    if (this.#tabs.dataset.names !== names) {
      this.#tabs.dataset.names = names;
      const focused = this.#opening || this.#tabs.contains(document.activeElement);
      this.#opening = false;
      this.#tabs.replaceChildren(...entries.map((entry) => this.#tab(entry)));
      this.#show();
      if (this.isOpen && focused) this.#selected()?.focus();
    } else this.#show();
  }

  #tab({ name, label }) {
    const tab = button(label, () => this.#choose(name));
    tab.dataset.name = name;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", this.#panel.id);
    return tab;
  }

  #selected() {
    return this.#tabs.querySelector("[aria-selected=true]");
  }

  #moveTo(event) {
    const tabs = [...this.#tabs.children];
    const at = tabs.indexOf(document.activeElement);
    const ends = { Home: 0, End: tabs.length - 1 };
    const to = event.key in MOVES ? (at + MOVES[event.key] + tabs.length) % tabs.length : ends[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    this.#choose(tabs[to].dataset.name);
    tabs[to].focus();
  }

  #choose(name) {
    if (name !== this.#chosen) {
      this.#command.show("", "");
      this.#say("");
    }
    this.#chosen = name;
    this.#show();
    this.#look();
  }

  #look() {
    this.#send({ type: "share", do: "look", entry: this.#chosen, options: this.#given() });
  }

  // Shows the chosen entry.
  #show() {
    const entry = this.#entries.find(({ name }) => name === this.#chosen);
    for (const tab of this.#tabs.children) {
      const chosen = tab.dataset.name === this.#chosen;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    if (!entry) return;
    this.#panel.setAttribute("aria-label", entry.label);
    this.#about.textContent = entry.problem || entry.about;
    this.#start.textContent = entry.start;
    this.#start.hidden = !entry.start || Boolean(entry.problem);
    this.#link.hidden = !entry.link;
    if (entry.link) this.#link.href = entry.link;
    const made = JSON.stringify([entry.name, entry.options]);
    if (made === this.#shown) return;
    this.#shown = made;
    const values = (this.#values[entry.name] ??= {});
    const focused = this.#form.contains(document.activeElement) ? document.activeElement.name : null;
    this.#form.replaceChildren(...entry.options.map((option) => row(option, values[option.name])));
    if (focused) this.#form.elements[focused]?.focus();
    this.#fit();
  }

  // The values of the form.
  #given() {
    const given = {};
    for (const field of this.#form.elements) given[field.name] = field.type === "checkbox" ? field.checked : field.value;
    return this.#shown.startsWith(`["${this.#chosen}"`) ? given : {};
  }

  #changed() {
    this.#values[this.#chosen] = this.#given();
    this.#fit();
    this.#look();
  }

  // Hides the options that do not belong to the values of others.
  #fit() {
    const given = this.#given();
    for (const option of this.#entries.find(({ name }) => name === this.#chosen)?.options ?? []) {
      const fits = Object.entries(option.when).every(([name, values]) => values.includes(given[name]));
      this.#form.elements[option.name].closest("label").hidden = !fits;
    }
  }

  #begin() {
    if (this.#start.hidden) return;
    this.#say("");
    if (this.#chosen === "link") this.#copyLink();
    else this.#send({ type: "share", do: "start", entry: this.#chosen, options: this.#given() });
  }

  #say(problem) {
    this.#problem.textContent = problem;
    this.#problem.hidden = !problem;
  }

  #list(jobs) {
    const ids = new Set(jobs.map(({ id }) => id));
    for (const [id, { row }] of this.#jobs)
      if (!ids.has(id)) {
        row.root.remove();
        this.#jobs.delete(id);
      }
    for (const job of jobs) {
      const known = this.#jobs.get(job.id);
      const entry = { job, at: performance.now(), row: known?.row ?? new Row((act) => this.#send({ type: "share", do: act, job: job.id })) };
      this.#jobs.set(job.id, entry);
      if (!known) this.#files.prepend(entry.row.root);
      entry.row.show(job, 0);
      if (!known && !job.share && this.isOpen) entry.row.root.scrollIntoView({ block: "nearest" });
      if (known && known.job.state !== job.state && ["done", "failed"].includes(job.state)) this.#end(job);
    }
    this.#files.hidden = jobs.length === 0;
    this.#opener?.classList.toggle("luxel-share-busy", jobs.some(({ state }) => state === "running"));
  }

  // Says that a job has ended, here or on the image.
  #end({ state, file, title }) {
    const text = state === "done" ? `${file} is ready` : `${title} failed`;
    this.#ended.textContent = text;
    if (!this.isOpen) this.#notify(`${text}: see Share (Y)`);
  }

  #tick() {
    if (!this.isOpen) return;
    if (++this.#ticks % LOOK_EVERY === 0 && document.visibilityState === "visible") this.#look();
    for (const { job, at, row } of this.#jobs.values()) row.show(job, (performance.now() - at) / 1e3);
  }
}

// The command that does the same, with a button that copies it.
class Command {
  root = element("div", "luxel-share-command");
  #label = element("p", "", this.root);
  #code = element("code", "", this.root);
  #copy = button("Copy command", () => copy(this.#code.textContent, this.#copy));
  #note = element("p", "luxel-share-note");

  constructor() {
    this.#label.textContent = "The command that does the same:";
    this.root.append(this.#copy, this.#note);
    this.show("", "");
  }

  show(command, note) {
    if (this.#code.textContent !== command) this.#code.textContent = command;
    this.#label.hidden = this.#code.hidden = this.#copy.hidden = !command;
    this.#note.textContent = note;
    this.#note.hidden = !note;
    this.root.hidden = !command && !note;
  }
}

// A file that is being made, or was made.
class Row {
  root = element("li", "");
  #title = element("strong", "", this.root);
  #text = element("span", "", this.root);
  #bar = element("div", "luxel-share-bar", this.root);
  #done = element("i", "", this.#bar);
  #message = element("p", "", this.root);
  #actions = element("div", "luxel-share-actions", this.root);
  #buttons = {};
  #open = element("a", "");
  #command = "";

  constructor(act) {
    this.#bar.setAttribute("role", "progressbar");
    this.#bar.setAttribute("aria-valuemin", "0");
    this.#bar.setAttribute("aria-valuemax", "100");
    this.#open.textContent = "Open";
    this.#open.target = "_blank";
    this.#open.rel = "noopener";
    for (const [name, label] of [
      ["download", "Download"],
      ["cancel", "Cancel"],
      ["dismiss", "Remove from list"],
    ])
      this.#buttons[name] = button(label, () => act(name));
    this.#buttons.copy = button("Copy command", () => copy(this.#command, this.#buttons.copy));
    const { download, cancel, copy: copies, dismiss } = this.#buttons;
    this.#actions.append(download, this.#open, cancel, copies, dismiss);
  }

  // seconds: since the job was described.
  show(job, seconds) {
    const runs = job.state === "running";
    const done = job.state === "done";
    this.#title.textContent = done ? job.file : job.title;
    const left = job.left === null ? null : Math.max(0, job.left - seconds);
    const share = job.share || left === null ? job.share : 0;
    set(this.#text, runs ? remaining(left) : done ? bytes(job.size) : STATES[job.state]);
    this.#bar.hidden = !runs;
    this.#bar.setAttribute("aria-label", job.title);
    this.#bar.classList.toggle("luxel-share-endless", runs && !share);
    if (share) this.#bar.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    this.#done.style.width = share ? `${100 * share}%` : "";
    set(this.#message, job.message);
    this.#message.hidden = !job.message;
    this.#command = job.command;
    this.#open.hidden = !job.link;
    if (job.link) this.#open.href = job.link;
    this.#buttons.download.hidden = !done;
    this.#buttons.cancel.hidden = !runs && job.state !== "waiting";
    this.#buttons.copy.hidden = !done || !job.command;
    this.#buttons.dismiss.hidden = runs || job.state === "waiting";
    for (const name of ["download", "cancel", "dismiss", "copy"])
      this.#buttons[name].setAttribute("aria-label", `${this.#buttons[name].textContent}: ${job.file || job.title}`);
  }
}

// A control of an option with its label.
function row(option, value) {
  const label = element("label", "");
  const field = element(option.values.length ? "select" : "input", "");
  field.name = option.name;
  if (typeof option.value === "boolean") {
    field.type = "checkbox";
    field.checked = value ?? option.value;
    label.className = "luxel-share-switch";
    label.append(field, option.label);
    return label;
  }
  element("span", "", label).textContent = option.label;
  for (const [name, text] of option.values) field.append(new Option(text, name));
  if (!option.values.length) field.maxLength = 80;
  field.value = option.values.length && !option.values.some(([name]) => name === value) ? option.value : (value ?? option.value);
  field.autocomplete = "off";
  label.append(field);
  return label;
}

function button(text, action, className = "") {
  const node = element("button", className);
  node.type = "button";
  node.textContent = text;
  node.addEventListener("click", action);
  return node;
}

async function copy(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    const before = node.textContent;
    node.textContent = "Copied";
    setTimeout(() => (node.textContent = before), 1500);
  } catch {
    prompt("Copy:", text); // no clipboard outside of https and localhost
  }
}

const set = (node, text) => node.textContent !== text && (node.textContent = text);

function remaining(seconds) {
  if (seconds === null) return "working";
  if (seconds < 1) return "nearly done";
  return seconds < 90 ? `about ${Math.ceil(seconds)} s left` : `about ${Math.ceil(seconds / 60)} min left`;
}

function bytes(size) {
  return size >= 1e6 ? `${(size / 1e6).toFixed(1)} MB` : `${(size / 1e3).toFixed(1)} kB`;
}
