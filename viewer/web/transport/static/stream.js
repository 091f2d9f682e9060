// Sends the camera of every frame that viser draws, and shows the images that come back. The messages are described in
// viewer/web/wire.py.

import { isEmpty, isMainView, readCamera, sameCamera } from "./camera.js";
import { StreamCanvas, decode } from "./canvas.js";

const HEADER = 24; // bytes before an image
const MOST_WAITING = 2048; // bytes that may wait to be sent before a camera is held back
const POLICY_VIOLATION = 1008; // close code: the server does not want this connection again

const canvas = new StreamCanvas();
let socket = null;
let attempts = 0;
let newest = null; // camera of the last frame
let newestAt = 0; // when it was drawn
let sent = null; // camera that the server has
let sequence = 0;
const sentAt = new Map(); // when the frame was drawn whose camera was sent, by sequence
let shownImage = 0;

function connect(key) {
  socket?.close();
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const mine = new WebSocket(`${scheme}://${location.host}/luxel/stream?key=${encodeURIComponent(key)}`);
  mine.binaryType = "arraybuffer";
  socket = mine;
  mine.onopen = () => {
    attempts = 0;
    sent = null;
    shownImage = 0;
    sentAt.clear();
    newestAt = performance.now();
    sendCamera();
  };
  mine.onmessage = ({ data }) => receive(mine, data);
  mine.onclose = ({ code }) => {
    if (socket !== mine) return;
    socket = null;
    if (code !== POLICY_VIOLATION && window.luxel.key === key)
      setTimeout(() => window.luxel.key === key && socket === null && connect(key), 500 * 2 ** Math.min(attempts++, 4));
  };
}

// Sends the newest camera if it changed; on a slow link it waits for the next frame.
function sendCamera() {
  if (socket?.readyState !== WebSocket.OPEN || newest === null) return;
  if (sent !== null && sameCamera(newest, sent)) return;
  if (socket.bufferedAmount > MOST_WAITING) {
    requestAnimationFrame(sendCamera);
    return;
  }
  sent = newest;
  sequence += 1;
  sentAt.set(sequence, newestAt);
  socket.send(JSON.stringify({ type: "camera", sequence, ...newest }));
}

async function receive(from, data) {
  const header = new DataView(data, 0, HEADER);
  const shows = header.getUint32(8, true);
  const image = header.getUint32(12, true);
  const type = header.getUint8(1) & 2 ? "image/png" : "image/jpeg";
  const began = performance.now();
  let bitmap = null;
  try {
    bitmap = await decode(new Uint8Array(data, HEADER), type);
  } catch (error) {
    console.warn("luxel: an image could not be decoded", error);
  }
  const decoded = performance.now();
  if (from !== socket) return;
  if (bitmap !== null && image > shownImage) {
    shownImage = image;
    canvas.show(bitmap);
  }
  const time = sentAt.get(shows);
  for (const number of sentAt.keys()) if (number <= shows) sentAt.delete(number);
  const latency = time === undefined ? null : performance.now() - time;
  if (from.readyState === WebSocket.OPEN)
    from.send(JSON.stringify({ type: "drawn", image, decode: decoded - began, latency }));
}

// Reads the camera whenever this renderer draws viser's main view. A view without anything in it is drawn once: clearing
// and blending an empty canvas in every frame would cost a machine without a GPU most of its time.
function observe(renderer) {
  const render = renderer.render;
  let clear = false; // whether the canvas is empty
  renderer.render = function (scene, camera, ...rest) {
    if (!isMainView(renderer, camera)) {
      clear = false;
      renderer.domElement.style.opacity = "";
      return render.call(this, scene, camera, ...rest);
    }
    canvas.lieUnder(renderer.domElement);
    newest = readCamera(renderer, camera) ?? newest;
    newestAt = performance.now();
    sendCamera();
    const empty = isEmpty(scene);
    if (!(empty && clear)) render.call(this, scene, camera, ...rest);
    if (empty !== clear) renderer.domElement.style.opacity = empty ? "0" : ""; // invisible ones are not blended
    clear = empty;
  };
}

window.luxel.socket = () => socket; // for tests
window.luxel.renderers.forEach(observe);
window.luxel.onrenderer = observe;
window.luxel.onkey = connect;
if (window.luxel.key !== null) connect(window.luxel.key);
