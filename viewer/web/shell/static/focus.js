// Where the focus is: fields give it back to the page after a choice and on Escape, buttons after a click of a pointer,
// so that the keys of the page work again. Keyboard users keep their place: what they press keeps the focus.

import { element } from "./status.js";

const TYPED = "input:not([type=checkbox], [type=radio], [type=range], [type=button], [type=file]), textarea, select";
const PRESSED = "button, [role=button], [role=option], [role=tab], input[type=checkbox], input[type=radio], a[href]";
const COMBOBOX = "input[aria-haspopup=listbox]"; // viser's dropdown: a text field that filters its list
const OWN_FOCUS = "[role=dialog]"; // palettes and dialogs look after their own

const CLOSING = 200; // ms after which is looked again whether a palette has closed

let byPointer = false; // whether the last thing that the user did was done with a pointer
let note = null; // "No match", under a filtered list without any entry

// Whether keys that go to an element are text.
export function typing(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches(TYPED));
}

// Whether an element does something by the space bar.
export function isPressed(target) {
  return target instanceof Element && target.closest(PRESSED) !== null;
}

export function watchFocus() {
  window.addEventListener("pointerdown", () => (byPointer = true), { capture: true, passive: true });
  window.addEventListener("keydown", keyDown, true);
  window.addEventListener("pointerup", () => setTimeout(release), { capture: true, passive: true });
  window.addEventListener("click", clicked, true);
  document.addEventListener("focusin", ({ target }) => isCombobox(target) && setTimeout(() => target.select()));
  document.addEventListener("focusout", () => note?.remove());
  for (const kind of ["input", "keyup", "click"]) document.addEventListener(kind, () => setTimeout(sayNoMatch));
}

function keyDown(event) {
  byPointer = false;
  const field = event.target;
  if (!event.isTrusted || !typing(field)) return;
  if (field.closest(OWN_FOCUS) && event.key !== "Escape") return void setTimeout(leaveClosed, CLOSING);
  const chosen = event.key === "Enter" && !field.matches("textarea") && (!isCombobox(field) || isOpen(field));
  if (event.key !== "Escape" && !chosen) return;
  setTimeout(() => field.blur());
}

// A palette that has closed keeps the focus in its field, which nobody sees; it takes a moment to fade.
function leaveClosed(tries = 10) {
  const active = document.activeElement;
  if (!active?.closest(OWN_FOCUS) || tries === 0) return;
  if (!active.checkVisibility({ opacityProperty: true, visibilityProperty: true })) active.blur();
  else setTimeout(leaveClosed, CLOSING, tries - 1);
}

// A choice in a list ends in the field of the list.
function clicked({ target }) {
  setTimeout(leaveClosed, CLOSING);
  if (target.closest?.("[role=option]")) setTimeout(() => isCombobox(document.activeElement) && document.activeElement.blur());
  else setTimeout(release);
}

function release() {
  const active = document.activeElement;
  if (byPointer && active?.matches(PRESSED) && !active.closest(OWN_FOCUS)) active.blur();
}

const isCombobox = (node) => node instanceof HTMLElement && node.matches(COMBOBOX);
const listOf = (field) => document.getElementById(field.getAttribute("aria-controls") ?? "");
const isOpen = (field) => listOf(field)?.querySelector("[role=option]")?.checkVisibility() ?? false;

// viser shows nothing at all where the text of a dropdown fits no entry.
function sayNoMatch() {
  const field = document.activeElement;
  const empty = isCombobox(field) && field.value !== "" && !isOpen(field) && field.matches("[aria-expanded=true]");
  if (!empty) return note?.remove();
  note ??= element("div", "luxel-no-match");
  note.setAttribute("role", "status");
  note.textContent = "No match";
  const box = field.getBoundingClientRect();
  Object.assign(note.style, { left: `${box.left}px`, top: `${box.bottom + 2}px`, width: `${box.width}px` });
  document.body.append(note);
}
