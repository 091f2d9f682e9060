// What of viser's own page is mended: its panel, what a drag does to an image field, what a finger does to the image.

import { controls } from "./view.js";

const PANEL = "viser-control-panel"; // viser's name of its main panel
const FOLDED = 70; // CSS pixels, that a folded sheet is lower than
let sheet = null; // of a narrow window
let collapses = 0;

// The sheet that viser shows instead of a panel on narrow windows: its title bar, or null.
function sheetHandle() {
  const icon = document.querySelector(".tabler-icon-cloud-check");
  for (let node = icon?.parentElement; node; node = node.parentElement)
    if (node.style.height === "3.5em" && node.style.cursor === "pointer") return node;
  return null;
}

// Whether luxel's controls are in the panel, at the right, or in the sheet of a narrow window, which is folded up first.
export function panelIsReady() {
  if (!window.luxelShell.isNarrow()) {
    const panel = document.querySelector("[data-testid=floating-panel][data-dock-side=right]");
    return panel?.querySelector("label, .tabler-icon-chevron-up, .tabler-icon-chevron-down") != null;
  }
  const handle = sheetHandle();
  if (handle === null) return false;
  if (sheet === null) {
    sheet = handle;
    while (sheet && getComputedStyle(sheet).position !== "fixed") sheet = sheet.parentElement;
    sheet.classList.add("luxel-sheet");
    handle.click();
  }
  return sheet.getBoundingClientRect().height < FOLDED;
}

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

// viser leaves pointers that its canvas has captured to handles in the scene, but a finger or a pen is captured by what it
// begins on: without that, a tap is a click of the active tool. A handle captures its pointer after this.
export function freeTouches() {
  const free = ({ target, pointerId }) => {
    if (target === window.__viserMutable?.canvas && target.hasPointerCapture(pointerId)) target.releasePointerCapture(pointerId);
  };
  window.addEventListener("pointerdown", free, { capture: true, passive: true });
}
