// Bars on the image: a sentence, up to three buttons, and a cross. Messages: viewer/web/image_bar.py.

import { element } from "./status.js";

export class ImageBars {
  #send;
  #root = element("div", "luxel-imagebars");
  #shown = new Map(); // by name: {node, content, timer} with the content as JSON

  // parent: the layer over the image; send: sends a message to the server.
  constructor(parent, send) {
    this.#send = send;
    this.#root.setAttribute("role", "region");
    this.#root.setAttribute("aria-label", "Notices on the image");
    this.#root.setAttribute("aria-live", "polite");
    this.#root.hidden = true;
    parent.append(this.#root);
  }

  // Takes a `bars` message of the server; a bar that stays as it is keeps its node, and with it the focus.
  show({ bars }) {
    const names = new Set(bars.map(({ name }) => name));
    for (const [name, { node, timer }] of this.#shown) {
      if (names.has(name)) continue;
      node.remove();
      clearTimeout(timer);
      this.#shown.delete(name);
    }
    for (const bar of bars) {
      const content = JSON.stringify(bar);
      const before = this.#shown.get(bar.name);
      if (before?.content === content) continue;
      const node = this.#build(bar);
      const hadFocus = before?.node.contains(document.activeElement);
      if (before) before.node.replaceWith(node);
      else this.#root.append(node);
      if (hadFocus) node.focus(); // and no button of another meaning, which a second Enter would press
      clearTimeout(before?.timer);
      const close = { type: "bar", name: bar.name, button: "close" };
      const timer = bar.seconds > 0 ? setTimeout(() => this.#send(close), 1e3 * bar.seconds) : 0;
      this.#shown.set(bar.name, { node, content, timer });
    }
    this.#root.hidden = bars.length === 0;
  }

  #build({ name, text, buttons }) {
    const node = element("div", "luxel-imagebar");
    node.setAttribute("role", "group");
    node.setAttribute("aria-label", text);
    node.tabIndex = -1;
    element("span", "luxel-imagebar-text", node).textContent = text;
    const row = element("span", "luxel-actions", node);
    buttons.forEach((label, button) => this.#button(row, label, { type: "bar", name, button, label }));
    const close = this.#button(node, "×", { type: "bar", name, button: "close" });
    close.className = "luxel-imagebar-close";
    close.setAttribute("aria-label", "Close this notice");
    close.title = "Close";
    return node;
  }

  #button(parent, label, message) {
    const button = element("button", "", parent);
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => this.#send(message));
    return button;
  }
}
