// A view as the fragment of an address, for example
// #position=1,2,3&target=0,0,0&up=0,0,1&fov=0.9&time=0.5&output=depth
//
// position, target and up are in the world of the scene, fov is vertical in radians. There is no token in it, ever.

const MOST = 1e9; // largest coordinate
const LONGEST = 2000; // characters

// The fragment of a view {position, target, up, fov, time?, output?}.
export function encodeView(view) {
  const parts = ["position", "target", "up"].map((name) => `${name}=${view[name].map(short).join(",")}`);
  parts.push(`fov=${short(view.fov)}`);
  if (Number.isFinite(view.time)) parts.push(`time=${short(view.time)}`);
  if (view.output) parts.push(`output=${encodeURIComponent(view.output)}`);
  return parts.join("&");
}

// The view of a fragment without its #. Throws an Error whose message says what is wrong.
export function decodeView(fragment) {
  if (fragment.length > LONGEST) throw new Error("it is too long");
  const fields = new URLSearchParams(fragment);
  const view = {};
  for (const name of ["position", "target", "up"]) view[name] = vector(fields.get(name), name);
  view.fov = number(fields.get("fov"), "fov", 0.01, 3);
  const forward = view.target.map((x, i) => x - view.position[i]);
  if (length(forward) < 1e-9) throw new Error("position and target are the same");
  if (length(cross(forward, view.up)) < 1e-6 * length(forward) * length(view.up) || length(view.up) < 1e-9)
    throw new Error("up points along the direction of view");
  if (fields.has("time")) view.time = number(fields.get("time"), "time", -1e12, 1e12);
  if (fields.has("output")) view.output = fields.get("output").slice(0, 100);
  return view;
}

export const length = (v) => Math.hypot(...v);

export function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}

function short(x) {
  return Number(x.toPrecision(8)).toString();
}

function vector(text, name) {
  const parts = (text ?? "").split(",");
  if (parts.length !== 3) throw new Error(`${name} needs three numbers`);
  return parts.map((part) => number(part, name, -MOST, MOST));
}

function number(text, name, low, high) {
  const value = text === null || text.trim() === "" ? NaN : Number(text);
  if (!(value >= low && value <= high)) throw new Error(`${name} must be from ${low} to ${high}`);
  return value;
}
