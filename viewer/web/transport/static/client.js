// The page's end of the image stream: sends cameras, decodes and shows the images that come back. It runs in a worker,
// so that an image never waits for the page's own work; in the page where the browser cannot draw in workers. The
// messages are described in viewer/web/transport/wire.py.

import { Screen } from "./canvas.js";
import { videoCodecs } from "./video.js";

const HEADER = 24; // bytes before an image
const MAX_WAITING = 2048; // bytes that may wait to be sent before a camera is held back
const RETRY = 10; // milliseconds after which a delayed camera is tried again
const KEY = 4; // flag of a frame of video that needs none before it
const VIDEO = [null, "h264", "vp8"]; // codecs by number
const POLICY_VIOLATION = 1008; // close code: the server does not want this connection again

export class StreamClient {
  #screen;
  #url = null;
  #socket = null;
  #attempts = 0;
  #newest = null; // { camera, at, move }: the last one, when its frame began, milliseconds since 1970, and its number
  #sent = null; // the one that the server has
  #delayed = false;
  #sequence = 0;
  #sentAt = new Map(); // `at` of the cameras that were sent, by sequence
  #moves = new Map(); // their numbers, by sequence
  #shown;
  #arrived = []; // image messages that are not yet decoded
  #decoding = false;
  #codecs = videoCodecs(); // promise of the video codecs that work here

  // shown: called with the number of the camera that an image shows, once it is on the canvas.
  constructor(canvas, shown) {
    this.#shown = shown;
    this.#screen = new Screen(canvas);
  }

  // Connects to the server, instead of an earlier connection; again whenever the connection breaks.
  connect(url) {
    this.#url = url;
    this.#socket?.close();
    const mine = new WebSocket(url);
    mine.binaryType = "arraybuffer";
    this.#socket = mine;
    mine.onopen = () => {
      this.#attempts = 0;
      this.#sent = null;
      this.#sentAt.clear();
      this.#moves.clear();
      if (this.#newest !== null) this.#newest.at = now();
      this.#screen.endVideo();
      this.#sendCamera();
      this.#offerVideo(mine);
    };
    mine.onmessage = ({ data }) => {
      this.#arrived.push({ from: mine, data });
      if (!this.#decoding) this.#showArrived();
    };
    mine.onclose = ({ code }) => {
      if (this.#socket !== mine) return;
      this.#socket = null;
      if (code !== POLICY_VIOLATION)
        setTimeout(
          () => this.#url === url && this.#socket === null && this.connect(url),
          500 * 2 ** Math.min(this.#attempts++, 4),
        );
    };
  }

  // Takes the camera of a new frame of the page.
  move(camera, at, move) {
    this.#newest = { camera, at, move };
    this.#sendCamera();
  }

  // Breaks the connection, as a bad network would.
  drop() {
    this.#socket?.close();
  }

  // Sends the newest camera; on a slow link it waits.
  #sendCamera() {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.#newest === null || this.#newest === this.#sent) return;
    if (this.#socket.bufferedAmount > MAX_WAITING) {
      if (!this.#delayed) setTimeout(() => ((this.#delayed = false), this.#sendCamera()), RETRY);
      this.#delayed = true;
      return;
    }
    this.#sent = this.#newest;
    this.#sequence += 1;
    this.#sentAt.set(this.#sequence, this.#newest.at);
    this.#moves.set(this.#sequence, this.#newest.move);
    this.#socket.send(JSON.stringify({ type: "camera", sequence: this.#sequence, ...this.#newest.camera }));
  }

  // Tells the server which video it may send.
  async #offerVideo(socket) {
    const video = await this.#codecs;
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "decoders", video }));
  }

  // Shows what has arrived and what arrives meanwhile, one after the other: of images the newest, of video all frames.
  async #showArrived() {
    this.#decoding = true;
    while (this.#arrived.length > 0) {
      const { from, data } = this.#arrived.shift();
      if (from !== this.#socket || (this.#arrived.length > 0 && codecOf(data) === null)) continue;
      await this.#show(from, data);
    }
    this.#decoding = false;
  }

  async #show(from, data) {
    const header = new DataView(data, 0, HEADER);
    const sequence = header.getUint32(8, true);
    const image = header.getUint32(12, true);
    const flags = header.getUint8(1);
    const codec = codecOf(data);
    const bytes = new Uint8Array(data, HEADER);
    const isCurrent = () => from === this.#socket;
    const began = performance.now();
    try {
      if (codec === null) await this.#screen.show(bytes, flags & 2 ? "image/png" : "image/jpeg", isCurrent);
      else await this.#screen.showVideo(bytes, codec, (flags & KEY) !== 0, image, isCurrent);
    } catch (error) {
      console.warn("luxel: an image could not be decoded", error);
      if (codec !== null && isCurrent()) {
        this.#codecs = this.#codecs.then((names) => names.filter((name) => name !== codec));
        this.#offerVideo(from);
      }
    }
    if (from !== this.#socket) return;
    const decode = performance.now() - began;
    const at = this.#sentAt.get(sequence);
    if (this.#moves.has(sequence)) this.#shown(this.#moves.get(sequence));
    for (const number of this.#moves.keys()) if (number < sequence) this.#moves.delete(number);
    for (const number of this.#sentAt.keys()) if (number <= sequence) this.#sentAt.delete(number);
    const latency = at === undefined ? null : Math.max(0, now() - at);
    if (from.readyState === WebSocket.OPEN) from.send(JSON.stringify({ type: "drawn", image, decode, latency }));
  }
}

// The video codec of an image message; null for a JPEG or PNG file.
function codecOf(data) {
  return VIDEO[new DataView(data, 0, HEADER).getUint16(6, true)] ?? null;
}

// Milliseconds since 1970, finer than Date.now(); the same in the page and in its workers.
export function now() {
  return performance.timeOrigin + performance.now();
}
