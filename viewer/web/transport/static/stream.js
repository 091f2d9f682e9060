// Sends the camera of every frame that viser draws to the image stream.

import { isEmpty, isMainView, readCamera, sameCamera } from "./camera.js";
import { lieUnder, makeCanvas } from "./canvas.js";
import { StreamClient, now } from "./client.js";

const canvas = makeCanvas();
const client = openClient();
let newest = null; // camera of the last frame
let moves = 0; // cameras that the client has
let drawn = 0; // of them that the last image shows

// The client of the stream: in a worker if the browser can draw there.
function openClient() {
  const shown = (move) => (drawn = move);
  if (!("OffscreenCanvas" in window && "transferControlToOffscreen" in canvas)) return new StreamClient(canvas, shown);
  const worker = new Worker("/luxel/worker.js", { type: "module", name: "luxel" });
  worker.onmessage = ({ data }) => shown(data);
  const offscreen = canvas.transferControlToOffscreen();
  worker.postMessage({ canvas: offscreen }, [offscreen]);
  const remote = (call) => (...given) => worker.postMessage({ call, given });
  return { connect: remote("connect"), move: remote("move"), drop: remote("drop") };
}

function connect(key) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  client.connect(`${scheme}://${location.host}/luxel/stream?key=${encodeURIComponent(key)}`);
}

// Reads the camera whenever this renderer draws viser's main view. A view without anything in it is rendered once: clearing
// and blending an empty canvas in every frame would cost a machine without a GPU most of its time.
function observe(renderer) {
  const { render, setPixelRatio } = renderer;
  let clear = null; // whether the canvas is empty; null: nothing was drawn yet
  let ratio = null; // of pixels, that the canvas has yet to take on
  renderer.setPixelRatio = function (value) {
    if (clear) ratio = value; // viser changes it with every motion; each change makes a new canvas
    else setPixelRatio.call(this, value);
  };
  renderer.render = function (scene, camera, ...rest) {
    if (!isMainView(renderer, camera)) {
      clear = false;
      renderer.domElement.style.opacity = "";
      return render.call(this, scene, camera, ...rest);
    }
    const at = now();
    lieUnder(canvas, renderer.domElement);
    const read = readCamera(renderer, camera);
    if (read !== null && (newest === null || !sameCamera(read, newest))) client.move((newest = read), at, ++moves);
    // Nothing of viser's is visible yet, and its shaders take a while to compile.
    if (document.documentElement.classList.contains("luxel-starting")) return;
    const empty = isEmpty(scene);
    if (ratio !== null && !(empty && clear)) {
      setPixelRatio.call(this, ratio);
      ratio = null;
    }
    if (!(empty && clear)) render.call(this, scene, camera, ...rest);
    if (empty !== clear) renderer.domElement.style.opacity = empty ? "0" : ""; // invisible ones are not blended
    clear = empty;
  };
}

window.luxel.upToDate = () => moves > 0 && drawn === moves; // whether the image shows the newest camera
window.luxel.drop = () => client.drop(); // for tests
window.luxel.renderers.forEach(observe);
window.luxel.onrenderer = observe;
window.luxel.onkey = connect;
if (window.luxel.key !== null) connect(window.luxel.key);
