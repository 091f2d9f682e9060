// Keys of the page: movement at a speed that fits the scene, and shortcuts. Not while someone types.

import { isPressed, typing } from "./focus.js";
import { controls } from "./view.js";

const MOVES = { KeyW: [0, 0, 1], KeyS: [0, 0, -1], KeyA: [-1, 0, 0], KeyD: [1, 0, 0], KeyQ: [0, -1, 0], KeyE: [0, 1, 0] };
const ARROWS = { ArrowLeft: [-1, 0, 0], ArrowRight: [1, 0, 0], ArrowUp: [0, 1, 0], ArrowDown: [0, -1, 0] };
const SPEED = 0.35; // radii of the scene a second
const FAST = 4; // times as fast with Shift

const pressed = new Set();
let fast = false;
let running = false;
let last = 0;
let scene = { radius: 1, flat: false };

// Takes radius (capture units) and flatness from the server's greeting.
export function fit(hello) {
  scene = { radius: hello.radius, flat: hello.flat };
}

// shortcut: gives what a key does: `event.key` in lower case, letters with "shift+" before them where Shift is held.
export function listen(shortcut) {
  window.addEventListener(
    "keydown",
    (event) => {
      if (typing(event.target) || (event.target.closest?.(".luxel-share") && event.key !== "Escape")) return;
      if (editsHistory(event)) return;
      if (event.ctrlKey || event.metaKey || event.altKey) return passToCommands(event);
      fast = event.shiftKey;
      if (move(event.code) !== undefined) {
        event.stopPropagation(); // viser would move, too, by 2 units a second whatever the scene is
        pressed.add(event.code);
        run();
        return;
      }
      const key = event.key.toLowerCase();
      const action = shortcut(event.shiftKey && /^[a-z]$/.test(key) ? `shift+${key}` : key);
      if (action === undefined || event.repeat) return;
      if (event.key === " " && isPressed(event.target)) return; // of who goes from control to control by keyboard
      if (action(event) !== false) event.preventDefault();
    },
    true,
  );
  window.addEventListener("keyup", (event) => {
    fast = event.shiftKey;
    pressed.delete(event.code);
  }, true);
  window.addEventListener("blur", () => pressed.clear());
}

const move = (code) => MOVES[code] ?? (scene.flat ? ARROWS[code] : undefined);

// Undo and redo are commands of the page, which viser takes at its root, and not from a focused control; Ctrl+Y is redo, too.
function editsHistory(event) {
  const key = event.key.toLowerCase();
  if (!event.isTrusted || !(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return false;
  if (key === "y" && event.shiftKey) return false;
  event.preventDefault();
  event.stopPropagation();
  const shiftKey = event.shiftKey || key === "y";
  const command = { key: shiftKey ? "Z" : "z", code: "KeyZ", ctrlKey: true, shiftKey, bubbles: true };
  document.documentElement.dispatchEvent(new KeyboardEvent("keydown", command));
  return true;
}

// viser moves by W A S D Q E whatever is held with them, so that Ctrl+A would select all and move: only its commands, which
// it takes at its root, get such a key.
function passToCommands(event) {
  if (!event.isTrusted || MOVES[event.code] === undefined) return;
  event.stopPropagation();
  const { key, code, ctrlKey, metaKey, altKey, shiftKey } = event;
  const command = new KeyboardEvent("keydown", { key, code, ctrlKey, metaKey, altKey, shiftKey, cancelable: true });
  if (!document.documentElement.dispatchEvent(command)) event.preventDefault();
}

function run() {
  if (running) return;
  running = true;
  last = performance.now();
  requestAnimationFrame(step);
}

function step(now) {
  const seconds = Math.min(0.1, (now - last) / 1e3);
  last = now;
  const control = controls();
  if (pressed.size === 0 || control === null) {
    running = false;
    return;
  }
  if (control.enabled) {
    // Near an image its size on the screen counts, not that of the scene.
    const reach = scene.flat ? control.distance : scene.radius;
    const by = SPEED * (fast ? FAST : 1) * reach * seconds;
    const [x, y, z] = [...pressed].map(move).reduce((sum, v) => sum.map((s, i) => s + v[i]), [0, 0, 0]);
    if (x || (scene.flat && y)) control.truck(x * by, scene.flat ? -y * by : 0, false);
    if (y && !scene.flat) control.elevate(y * by, false);
    if (z && scene.flat) control.dolly(z * by, false);
    else if (z) control.forward(z * by, false);
  }
  requestAnimationFrame(step);
}
