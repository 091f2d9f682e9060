// What is said over the image: loading, connection lost, errors, reduced resolution, and short notices.

const PATIENCE = 700; // ms without a connection before it is called lost
const SILENT = 1; // s for which the page loads without a word
const ASKED = 4; // s after which a page that still loads looks whether the browser can draw
const STALLED = 10; // s after which the page that still loads says why that may be
const NOT_DRAWN = "The scene cannot be rendered";
const NO_WEBGL =
  "This browser gives the page no WebGL 2, which it needs to draw. Turn on hardware acceleration in its settings, or open the page in another browser.";

export class Status {
  #root = element("div", "luxel-shell");
  #loading = element("div", "luxel-loading", this.#root);
  #bar = element("div", "luxel-bar", this.#root);
  #error = element("div", "luxel-bar luxel-error", this.#root);
  #moving = element("div", "luxel-moving", this.#root);
  #notice = element("div", "luxel-notice", this.#root);
  #lostAt = null;
  #began = performance.now();
  #failure = ""; // message of a failed render
  #draws = true; // whether the browser has what viser's page needs
  #asked = false;
  #cause = null; // answer of the server while it refuses
  #noticeTimer = 0;
  #box = ""; // of the canvas in the window

  constructor() {
    for (const node of [this.#bar, this.#error, this.#notice]) node.setAttribute("role", "status");
    this.#bar.hidden = this.#error.hidden = this.#moving.hidden = this.#notice.hidden = true;
    this.#loading.innerHTML = "<p></p><p></p>"; // nothing that moves: without a GPU that takes longer than the page
    document.body.append(this.#root);
    setInterval(() => this.#tick(), 200);
  }

  get root() {
    return this.#root;
  }

  // The page has a connection, or has lost it.
  connected(is) {
    if (is) this.#lostAt = this.#cause = null;
    else this.#lostAt ??= performance.now();
    this.#tick();
  }

  // Takes a `state` message of the server.
  show({ error, moving, full }) {
    this.#failure = error;
    this.#error.hidden = !error || !this.#bar.hidden;
    this.#error.textContent = error ? `Rendering failed, trying again: ${error}` : "";
    this.#moving.hidden = !moving;
    if (moving) this.#moving.textContent = `moving: ${moving.join(" × ")}, ${full.join(" × ")} when still`;
  }

  // Shows the image of the stream instead of what covers it while the page loads.
  uncover() {
    this.#loading.hidden = true;
    window.luxelShell.removeFirst();
  }

  // Shows a line for some seconds.
  notify(text, seconds = 5) {
    this.#notice.textContent = text;
    this.#notice.hidden = false;
    clearTimeout(this.#noticeTimer);
    this.#noticeTimer = setTimeout(() => (this.#notice.hidden = true), seconds * 1e3);
  }

  #tick() {
    const box = (window.__viserMutable?.canvas ?? document.documentElement).getBoundingClientRect();
    const bounds = [box.left, box.top, box.width, box.height].join("px ");
    if (bounds !== this.#box) {
      this.#box = bounds;
      document.documentElement.style.setProperty("--luxel-right", `${innerWidth - box.right}px`);
      ["left", "top", "width", "height"].forEach((name) => (this.#root.style[name] = `${box[name]}px`));
    }
    if (!this.#loading.hidden) this.#load();
    const lost = this.#lostAt === null ? 0 : performance.now() - this.#lostAt;
    this.#bar.hidden = lost < PATIENCE || !this.#loading.hidden;
    this.#error.hidden = !this.#failure || !this.#bar.hidden;
    this.#root.classList.toggle("luxel-lost", !this.#bar.hidden);
    if (!this.#bar.hidden) this.#explain(Math.floor(lost / 1e3));
  }

  #load() {
    const seconds = (performance.now() - this.#began) / 1e3;
    if (seconds > ASKED && !this.#asked) {
      this.#asked = true; // not at once: a browser that draws has better to do
      this.#draws = document.createElement("canvas").getContext("webgl2") !== null;
    }
    if (seconds > SILENT) this.#loading.firstElementChild.textContent = this.#draws ? "Loading the scene …" : NOT_DRAWN;
    const why =
      this.#lostAt !== null && window.luxelShell.key
        ? "The connection was lost, trying again. Has luxel view ended?"
        : "This takes longer than usual: as many pages as allowed may be open, or the machine is busy.";
    this.#loading.lastElementChild.textContent = this.#draws ? (seconds > STALLED ? why : "") : NO_WEBGL;
  }

  #explain(seconds) {
    const advice = {
      token: "The viewer was started again and needs its token: open the address that it printed.",
      up: "The viewer answers; the page connects again.",
    };
    const usual = seconds < 5 ? "" : "If luxel view has ended, start it again with the same --port.";
    const text = `<b>Connection lost, retrying</b><span>${seconds} s</span><small>The last image is shown. ${advice[this.#cause] ?? usual}</small>`;
    if (this.#bar.innerHTML !== text) this.#bar.innerHTML = text;
    if (seconds % 3 === 2) this.#ask();
  }

  // Asks the server why it does not take the page back: 403 means that its cookie is of an earlier start.
  #ask() {
    if (this.#asking) return;
    this.#asking = true;
    fetch("/luxel/shell.css", { cache: "no-store" })
      .then((answer) => (this.#cause = answer.status === 403 ? "token" : "up"))
      .catch(() => (this.#cause = null))
      .finally(() => setTimeout(() => (this.#asking = false), 1000));
  }
  #asking = false;
}

export function element(tag, className, parent) {
  const node = document.createElement(tag);
  node.className = className;
  parent?.append(node);
  return node;
}
