// The camera of viser's page, read and set in the world of the scene.

import { cross, length } from "./link.js";

// viser's camera controls, or null before they are there.
export function controls() {
  return window.__viserMutable?.cameraControl ?? null;
}

// Position, target, up direction and vertical field of view (radians); null before viser has a scene.
export function readView() {
  const control = controls();
  const world = frame();
  if (control === null || world === null) return null;
  const camera = control.camera;
  return {
    position: world.out(camera.position.toArray()),
    target: world.out(control.getTarget(camera.position.clone()).toArray()),
    up: world.turnOut(camera.up.toArray()),
    fov: (camera.fov * Math.PI) / 180,
  };
}

// Puts the camera there at once; viser sends it to the server as if it had been dragged there. False: too early.
export function applyView(view) {
  const control = controls();
  const world = frame();
  if (control === null || world === null) return false;
  const camera = control.camera;
  const up = world.turnIn(view.up);
  const size = length(up);
  camera.up.set(...up.map((x) => x / size));
  control.updateCameraUp();
  control.setPosition(...world.in(view.position), false);
  control.setTarget(...world.in(view.target), false);
  camera.fov = (view.fov * 180) / Math.PI;
  camera.updateProjectionMatrix();
  control.update(0);
  window.__viserMutable.requestRender();
  window.__viserMutable.sendCamera?.();
  return true;
}

export function sameView(a, b) {
  if (!a || !b) return a === b;
  const scale = length(a.position.map((x, i) => x - a.target[i]));
  const near = (p, q, size) => p.every((x, i) => Math.abs(x - q[i]) <= 1e-5 * size);
  return (
    near(a.position, b.position, scale) &&
    near(a.target, b.target, scale) &&
    near(a.up, b.up, 1) &&
    Math.abs(a.fov - b.fov) < 1e-5
  );
}

// Between the world of the scene ("out") and that of three.js ("in"), which viser turns so that up is y.
function frame() {
  const root = window.__viserSceneTree?.getState()?.[""];
  if (!root?.wxyz) return null;
  const offset = window.__viserMutable.nodePoseData?.[""]?.position ?? root.position ?? [0, 0, 0];
  const [w, ...axis] = root.wxyz;
  // v + 2 w (axis x v) + 2 axis x (axis x v)
  const turn = (v, sign) => {
    const once = cross(axis, v).map((x) => 2 * sign * x);
    const twice = cross(axis, once).map((x) => sign * x);
    return v.map((x, i) => x + w * once[i] + twice[i]);
  };
  return {
    in: (v) => turn(v, 1).map((x, i) => x + offset[i]),
    out: (v) => turn(v.map((x, i) => x - offset[i]), -1),
    turnIn: (v) => turn(v, 1),
    turnOut: (v) => turn(v, -1),
  };
}
