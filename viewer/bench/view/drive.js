// Turns the camera of the viewer's page by one position in each animation frame. Without the stream, also measures when
// the image of each position is displayed: images carry their position as black and white cells (frames.py).
async ({ turn, bits, columns, rows, measure, warmup, seconds }) => {
  const viser = window.__viserMutable;
  const { readCamera } = await import("/luxel/camera.js?measure");
  const end = performance.now() + 1000 * (warmup + seconds);
  const from = performance.now() + 1000 * warmup;
  const drawnAt = new Map(); // by position: when the page drew the frame of its camera
  const latencies = [];
  const pixels = new Uint8Array(4);
  let last = -1;
  let shown = -1;
  let frames = 0;

  function before(renderer, camera) {
    const { matrix } = readCamera(renderer, camera);
    const angle = Math.atan2(matrix[7], matrix[3]) / (2 * Math.PI);
    const position = ((Math.round(angle * turn) % turn) + turn) % turn;
    if (position !== last) drawnAt.set(position, performance.now());
    last = position;
  }

  function after(renderer) {
    const gl = renderer.getContext();
    const { drawingBufferWidth: width, drawingBufferHeight: height } = gl;
    let position = 0;
    for (let k = 0; k < bits; k++) {
      const x = Math.floor(((k + 0.5) * width) / columns);
      gl.readPixels(x, Math.floor(height - height / (2 * rows)), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
      if (pixels[1] > 127) position |= 1 << k;
    }
    const now = performance.now();
    if (position !== shown && drawnAt.has(position) && now > from) latencies.push(now - drawnAt.get(position));
    shown = position;
  }

  if (measure) {
    const renderer = window.luxelBench.renderer;
    const render = renderer.render;
    renderer.render = function (scene, camera, ...rest) {
      const main = camera === viser.camera && renderer.getRenderTarget() === null;
      if (main) before(renderer, camera);
      render.call(this, scene, camera, ...rest);
      if (main) after(renderer);
    };
  }
  await new Promise((resolve) => {
    const step = (now) => {
      if (now > end) return resolve();
      if (now > from) frames += 1;
      viser.cameraControl.rotate((2 * Math.PI) / turn, 0, false);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  return { latencies, frames };
};
