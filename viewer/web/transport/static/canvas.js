// The canvas under viser's that shows the images of the stream. viser's canvas is transparent where it draws nothing,
// so camera frustums, handles and panels stay on top.

export class StreamCanvas {
  #canvas = document.createElement("canvas");
  #context = this.#canvas.getContext("bitmaprenderer");

  constructor() {
    this.#canvas.id = "luxel-image";
    Object.assign(this.#canvas.style, {
      position: "absolute",
      inset: "0",
      width: "100%",
      height: "100%",
      zIndex: "-1",
      pointerEvents: "none",
    });
  }

  // Puts the canvas under that of viser, again if viser has made a new one.
  lieUnder(canvas) {
    const parent = canvas.parentElement;
    if (parent !== null && this.#canvas.parentElement !== parent) parent.prepend(this.#canvas);
  }

  // Shows an ImageBitmap, which is used up.
  show(bitmap) {
    if (this.#canvas.width !== bitmap.width) this.#canvas.width = bitmap.width;
    if (this.#canvas.height !== bitmap.height) this.#canvas.height = bitmap.height;
    this.#context.transferFromImageBitmap(bitmap);
  }
}

// An ImageBitmap of a JPEG or PNG file.
export async function decode(bytes, type) {
  if (type === "image/jpeg" && "ImageDecoder" in window) {
    const decoder = new ImageDecoder({ data: bytes, type });
    try {
      const { image } = await decoder.decode();
      const bitmap = await createImageBitmap(image);
      image.close();
      return bitmap;
    } finally {
      decoder.close();
    }
  }
  return createImageBitmap(new Blob([bytes], { type }));
}
