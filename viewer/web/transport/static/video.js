// Decodes the video that the stream sends on slow links.

// By the server's names: how WebCodecs names them. The H.264 level is the highest; the stream itself says its own.
const CODECS = { h264: "avc1.640033", vp8: "vp8" };
const COLOURS = { primaries: "bt709", transfer: "bt709", matrix: "bt709", fullRange: false };
const PATIENCE = 2000; // milliseconds that a frame may take

// The codecs that this browser decodes, in the server's names.
export async function videoCodecs() {
  if (!("VideoDecoder" in globalThis)) return [];
  const known = await Promise.all(
    Object.entries(CODECS).map(async ([name, codec]) => {
      try {
        return (await VideoDecoder.isConfigSupported({ codec, optimizeForLatency: true })).supported ? [name] : [];
      } catch {
        return [];
      }
    }),
  );
  return known.flat();
}

// Decodes frames one after the other; the calls of decode must not overlap.
export class VideoFrames {
  #decoder = null;
  #codec = null;
  #waiting = null; // { resolve, reject } of the frame that is being decoded

  // The VideoFrame of a frame of video, to be closed by the caller; null for one whose forerunners are missing.
  async decode(bytes, codec, key, number) {
    if (key && (this.#decoder === null || this.#codec !== codec)) this.#open(codec);
    if (this.#decoder === null || this.#codec !== codec) return null;
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting = { resolve, reject };
        timer = setTimeout(() => reject(new Error("the decoder gives no frame")), PATIENCE);
        this.#decoder.decode(new EncodedVideoChunk({ type: key ? "key" : "delta", timestamp: number, data: bytes }));
      });
    } catch (error) {
      this.close();
      throw error;
    } finally {
      clearTimeout(timer);
      this.#waiting = null;
    }
  }

  #open(codec) {
    this.close();
    const mine = new VideoDecoder({
      output: (frame) => (this.#decoder === mine && this.#waiting ? this.#waiting.resolve(frame) : frame.close()),
      error: (error) => this.#decoder === mine && this.#waiting?.reject(error),
    });
    mine.configure({ codec: CODECS[codec], colorSpace: COLOURS, optimizeForLatency: true });
    this.#decoder = mine;
    this.#codec = codec;
  }

  // Forgets what was decoded; the next frame must need none before it.
  close() {
    if (this.#decoder !== null && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
  }
}
