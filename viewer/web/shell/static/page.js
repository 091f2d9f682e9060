// What of viser's own page is mended: its colour scheme, its panel, what a drag does to an image field.

import { controls } from "./view.js";

const PANEL = "viser-control-panel"; // viser's name of its main panel
const SCHEMES = ["auto", "light", "dark"];
let scheme = "auto";
let collapses = 0;

const preferred = matchMedia("(prefers-color-scheme: light)");

// Follows the browser, or what was chosen with the switch. viser sets its own scheme when the server's arrives.
export function followScheme() {
  scheme = SCHEMES.includes(localStorageItem("luxel-scheme")) ? localStorageItem("luxel-scheme") : "auto";
  preferred.addEventListener("change", applyScheme);
  new MutationObserver(applyScheme).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["data-mantine-color-scheme"],
  });
  applyScheme();
}

// Chooses the other scheme; returns its name.
export function switchScheme() {
  const now = schemeNow() === "dark" ? "light" : "dark";
  scheme = now === (preferred.matches ? "light" : "dark") ? "auto" : now;
  try {
    localStorage.setItem("luxel-scheme", scheme);
  } catch {
    // blocked: the choice ends with the page
  }
  applyScheme();
  return now;
}

const schemeNow = () => (scheme === "auto" ? (preferred.matches ? "light" : "dark") : scheme);

function applyScheme() {
  const root = document.documentElement;
  if (root.getAttribute("data-mantine-color-scheme") !== schemeNow())
    root.setAttribute("data-mantine-color-scheme", schemeNow());
}

function localStorageItem(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

// The sheet that viser shows instead of a panel on narrow windows: its title bar, or null.
function sheetHandle() {
  const icon = document.querySelector(".tabler-icon-cloud-check");
  for (let node = icon?.parentElement; node; node = node.parentElement)
    if (node.style.height === "3.5em" && node.style.cursor === "pointer") return node;
  return null;
}

// Folds the sheet of a narrow window up, once; false: it is not there yet, or the window is wide.
export function foldSheet() {
  const handle = sheetHandle();
  if (handle === null) return false;
  let sheet = handle;
  while (sheet && getComputedStyle(sheet).position !== "fixed") sheet = sheet.parentElement;
  sheet?.classList.add("luxel-sheet");
  handle.click();
  return true;
}

export const isNarrow = () => matchMedia("(max-width: 36em)").matches; // as viser decides

// Hides or shows the panel.
export function togglePanel() {
  const handle = sheetHandle();
  if (handle !== null) return handle.click();
  const viser = window.__viserMutable;
  if (!viser) return;
  collapses += 1;
  viser.messageQueue.push({
    type: "GuiSetPanelCollapsedMessage",
    uuid: PANEL,
    collapsed: collapses % 2 === 1,
    counter: collapses,
    run_id: "luxel",
  });
  viser.requestRender();
}

// An image is moved and scaled, not turned: what the right button and three fingers do goes to the left and one.
export function flatten() {
  const control = controls();
  if (control === null) return;
  control.mouseButtons.left = control.mouseButtons.right;
  control.touches.one = control.touches.three;
  control.dollyToCursor = true;
}
