// Mends viser's controls from outside, as they come and change: headings of folders become buttons, everything that can be
// used gets a name, and classes for shell.css. What stays is listed in docs/viewer.md.

import { followFolders, headings, isOpen } from "./folders.js";

const PRIMARY = /^(Pause training|Continue training|Back to the scene|Restore edits)$/;
const DANGER = /^Delete( object)?$/;
const FIGURES = /^(At rest|No image yet|\d+ images)/; // see panels/frame.py
const USED = "input:not([type=hidden]), textarea, [role=slider], button";
const AXES = ["x", "y", "z"];
let due = false;

// Begins to mend the page.
export function mend() {
  new MutationObserver(later).observe(document.body, {
    ...{ childList: true, subtree: true, characterData: true },
    ...{ attributes: true, attributeFilter: ["class"] },
  });
  document.addEventListener("keydown", openByKey, true);
  later();
}

function later() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    headings().forEach(mendHeading);
    followFolders();
    document.querySelectorAll("#root label[for]").forEach(mendRow);
    document.querySelectorAll("#root .mantine-Button-root").forEach(mendButton);
    mendOthers();
  });
}

function mendHeading(node) {
  set(node, "role", "button");
  set(node, "tabindex", "0");
  set(node, "aria-expanded", String(isOpen(node)));
  mark(node, "luxel-heading");
  mark(node.parentElement, "luxel-folder");
  if (FIGURES.test(node.textContent)) mark(node, "luxel-figures");
}

function openByKey(event) {
  const heading = event.target.closest?.(".luxel-heading");
  if (!heading || (event.key !== "Enter" && event.key !== " ") || event.repeat) return;
  event.preventDefault();
  event.stopPropagation();
  heading.click();
}

// Names what has none in the row of a label: viser labels the first part alone, and of sliders the frame.
function mendRow(label) {
  const row = label.parentElement?.parentElement?.parentElement;
  const name = label.textContent;
  const parts = [...(row?.querySelectorAll(USED) ?? [])].filter((node) => node.getAttribute("aria-hidden") !== "true");
  const fields = parts.filter((node) => node.matches("input:not([type=checkbox])"));
  const vector = fields.length > 1 && fields.length <= AXES.length && !parts.some((node) => node.matches("[role=slider]"));
  for (const node of parts) {
    if (node.id === label.htmlFor && node.matches("input, textarea") && !vector) continue;
    if (node.matches("button")) {
      if (node.textContent.trim() === "") set(node, "aria-label", `${name}: pick from the screen`);
    } else if (vector) set(node, "aria-label", `${name}, ${AXES[fields.indexOf(node)] ?? ""}`);
    else set(node, "aria-label", node.matches("[role=slider]") ? name : `${name}, value`);
  }
}

function mendButton(node) {
  const primary = PRIMARY.test(node.textContent) && !node.disabled;
  if (node.classList.contains("luxel-primary") !== primary) node.classList.toggle("luxel-primary", primary);
  if (DANGER.test(node.textContent)) mark(node, "luxel-danger");
}

function mendOthers() {
  const palette = document.querySelector("#root button:has(> .mantine-ActionIcon-icon svg.tabler-icon-list-search)");
  if (palette) set(palette, "aria-label", "All commands (Ctrl+K)");
  for (const dialog of document.querySelectorAll(".mantine-Spotlight-content")) set(dialog, "aria-label", "All commands");
  for (const field of document.querySelectorAll(".mantine-Spotlight-search")) set(field, "aria-label", "Search commands");
  for (const bar of document.querySelectorAll("#root [role=progressbar]")) set(bar, "aria-label", "Progress");
  for (const button of document.querySelectorAll(".mantine-Notification-closeButton")) set(button, "aria-label", "Close");
}

// An attribute that is set anew is a change, too, and would be mended without an end.
function mark(node, name) {
  if (!node.classList.contains(name)) node.classList.add(name);
}

function set(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}
