// Keys of the page: movement at a speed that fits the scene, and shortcuts. Not while someone types.

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
      if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
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
      // A focused button takes the space bar itself.
      if (event.key === " " && event.target.closest?.("button, [role=button], [role=option]")) return;
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

function typing(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
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
