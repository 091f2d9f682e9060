// What shows the images of the stream: a canvas under viser's, which is transparent where it draws nothing, so that
// camera frustums, handles and panels stay on top.

import { VideoFrames } from "./video.js";

// A new canvas element; its size on the page is that of viser's canvas.
export function makeCanvas() {
  const canvas = document.createElement("canvas");
  canvas.id = "luxel-image";
  Object.assign(canvas.style, {
    position: "absolute",
    inset: "0",
    width: "100%",
    height: "100%",
    zIndex: "-1",
    pointerEvents: "none",
  });
  return canvas;
}

// Puts a canvas under that of viser, again if viser has made a new one.
export function lieUnder(canvas, above) {
  const parent = above.parentElement;
  if (parent !== null && canvas.parentElement !== parent) parent.prepend(canvas);
}

// Decodes JPEG and PNG files and frames of video onto a canvas of a page or of a worker. The calls must not overlap.
export class Screen {
  #canvas;
  #context;
  #video = new VideoFrames();
  #pixels = null; // ImageData of the last size, used again: memory for each image would cost as much as its decoding
  #direct = "ImageDecoder" in globalThis;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false }); // opaque: the browser need not blend it
  }

  // Shows a frame of video, unless its forerunners are missing or `isCurrent` is false once it is decoded.
  async showVideo(bytes, codec, key, number, isCurrent) {
    const frame = await this.#video.decode(bytes, codec, key, number);
    if (frame === null) return;
    try {
      if (!isCurrent()) return;
      this.#fit(frame.displayWidth, frame.displayHeight);
      this.#context.drawImage(frame, 0, 0);
    } finally {
      frame.close();
    }
  }

  // Forgets the frames of video so far.
  endVideo() {
    this.#video.close();
  }

  // Shows a file; false if `isCurrent` is false once it is decoded.
  async show(bytes, type, isCurrent) {
    if (type === "image/jpeg" && this.#direct) {
      try {
        return await this.#showDirectly(bytes, type, isCurrent);
      } catch (error) {
        if (error.name !== "NotSupportedError" && !(error instanceof TypeError)) throw error;
        this.#direct = false; // a browser that decodes but does not convert
      }
    }
    const bitmap = await createImageBitmap(new Blob([bytes], { type }));
    const shown = isCurrent();
    if (shown) {
      this.#fit(bitmap.width, bitmap.height);
      this.#context.drawImage(bitmap, 0, 0);
    }
    bitmap.close();
    return shown;
  }

  // An ImageBitmap of a Blob passes through other processes; this does not. Without a GPU it takes half the time.
  async #showDirectly(bytes, type, isCurrent) {
    const decoder = new ImageDecoder({ data: bytes, type });
    try {
      const { image } = await decoder.decode();
      const { width, height } = image.visibleRect;
      if (this.#pixels?.width !== width || this.#pixels?.height !== height) this.#pixels = new ImageData(width, height);
      try {
        await image.copyTo(this.#pixels.data, { format: "RGBA" });
      } finally {
        image.close();
      }
      if (!isCurrent()) return false;
      this.#fit(width, height);
      this.#context.putImageData(this.#pixels, 0, 0);
      return true;
    } finally {
      decoder.close();
    }
  }

  #fit(width, height) {
    if (this.#canvas.width !== width) this.#canvas.width = width;
    if (this.#canvas.height !== height) this.#canvas.height = height;
  }
}
