// The view at which the page begins: that of a link, the one that this tab had of the scene, or the scene's own, for which
// luxelStart has what luxel.viewer.web.navigate.start_pose needs. viser asks the address for its first camera; it gets this
// one, so that no frame is ever drawn from another place.
"use strict";
(() => {
  const shell = window.luxelShell;
  const start = window.luxelStart;
  const VECTORS = { initialCameraPosition: "position", initialCameraLookAt: "target", initialCameraUp: "up" };

  // The scene's own view in a window of so many pixels: {position, target, up, fov}.
  shell.startView = (width, height) => {
    const aspect = width / height;
    const half = Math.min(start.half * Math.max(1, start.own / aspect), Math.max(start.half, start.widened));
    const back = Math.max(1, (start.half * Math.min(1, start.own)) / (half * aspect));
    const position = start.position.map((x, i) => start.target[i] + back * (x - start.target[i]));
    return { position, target: start.target, up: start.up, fov: 2 * Math.atan(half) };
  };
  if (!start) return;

  const own = shell.startView(shell.canvasWidth(), innerHeight);
  const first = viewOf(shell.fragment) ?? viewOf(stored()) ?? own;
  shell.hasOwnView = first === own;
  const get = URLSearchParams.prototype.get;
  URLSearchParams.prototype.get = function (name) {
    const value = get.call(this, name);
    if (value !== null || !name.startsWith("initialCamera")) return value;
    if (name in VECTORS) return first[VECTORS[name]].join(",");
    return name === "initialCameraFov" ? String(first.fov) : null;
  };

  function stored() {
    try {
      return JSON.parse(sessionStorage.getItem(`luxel-${start.scene}`))?.view;
    } catch {
      return "";
    }
  }

  // As link.js writes views; null for anything else, which shell.js reports.
  function viewOf(fragment) {
    const fields = new URLSearchParams(fragment || "");
    const view = { fov: Number(fields.get("fov") || NaN) };
    for (const name of Object.values(VECTORS)) view[name] = (fields.get(name) ?? "").split(",").map(Number);
    const whole = Object.values(VECTORS).every((name) => view[name].length === 3 && view[name].every(Number.isFinite));
    return whole && view.fov > 0 ? view : null;
  }
})();
