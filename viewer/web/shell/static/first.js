// The view at which pages begin, shown while viser's page and the connection are made, which takes a browser a second or
// more. A tab that has another view to show, from a link or from before a reload, does not ask for it.

import { isNarrow } from "./page.js";

const PANEL = 324; // width of viser's panel and its edge, CSS pixels
const WAITS = [50, 100, 200, 400]; // ms until the server is asked again, while it renders

export class FirstImage {
  #parent;
  #image = null;
  #removed = false;

  // parent: what is shown while the page loads.
  constructor(parent) {
    this.#parent = parent;
    if (!otherView()) this.#fetch().catch(() => {}); // the page loads without it
  }

  remove() {
    this.#removed = true;
    if (this.#image === null) return;
    URL.revokeObjectURL(this.#image.src);
    this.#image.remove();
  }

  async #fetch() {
    const width = innerWidth - (isNarrow() ? 0 : PANEL);
    const address = `/luxel/first.jpg?width=${Math.max(1, width)}&height=${innerHeight}`;
    let answer = await fetch(address, { cache: "no-store" });
    for (let i = 0; answer.status === 202 && !this.#removed; i++) {
      await new Promise((resolve) => setTimeout(resolve, WAITS[Math.min(i, WAITS.length - 1)]));
      answer = await fetch(address, { cache: "no-store" });
    }
    if (answer.status !== 200 || this.#removed) return;
    const image = new Image();
    image.className = "luxel-first";
    image.alt = "";
    image.src = URL.createObjectURL(await answer.blob());
    await image.decode();
    this.#image = image;
    if (this.#removed) return this.remove();
    image.style.width = `${width}px`;
    this.#parent.prepend(image);
    this.#parent.classList.add("luxel-has-image");
    requestAnimationFrame(() => performance.mark("luxel-first-image")); // of tests/bench/viewer_first_frame.py
  }
}

function otherView() {
  if (window.luxelShell.fragment) return true;
  try {
    return Object.keys(sessionStorage).some((key) => key.startsWith("luxel-"));
  } catch {
    return false;
  }
}
