// A canvas over the image on which strokes are drawn. It takes all pointer events, so that the camera does not move.

const LINE = "rgb(255, 184, 26)";
const FILL = "rgba(255, 184, 26, 0.25)";
const SIGNS = { add: "+", subtract: "\u2212" };

export class Overlay {
  canvas = document.createElement("canvas");
  #context = this.canvas.getContext("2d");
  #frame = 0;

  constructor(shape) {
    this.canvas.id = "luxel-strokes";
    Object.assign(this.canvas.style, {
      position: "absolute",
      inset: "0",
      width: "100%",
      height: "100%",
      zIndex: "2",
      touchAction: "none",
      cursor: shape === "brush" ? "none" : "crosshair",
    });
    imageCanvas()?.parentElement.append(this.canvas);
  }

  remove() {
    cancelAnimationFrame(this.#frame);
    this.canvas.remove();
  }

  // Whether pointer events go to the camera.
  set open(value) {
    this.canvas.style.pointerEvents = value ? "none" : "auto";
  }

  // Draws in the next frame.
  // strokes: those that are being drawn or sent; each has points in CSS pixels, a radius (0: lasso) and a mode.
  // pointer: null, or where the brush is: { x, y, radius, mode }.
  // drawing: the one of them that is being drawn, or null.
  draw(strokes, pointer, drawing) {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#paint(strokes, pointer, drawing));
  }

  #paint(strokes, pointer, drawing) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth * ratio, this.canvas.clientHeight * ratio].map(Math.round);
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
    const c = this.#context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.lineCap = c.lineJoin = "round";
    for (const stroke of strokes)
      if (stroke.corners && stroke === drawing) paintPolygon(c, stroke, pointer);
      else stroke.radius > 0 ? paintTrail(c, stroke) : paintOutline(c, stroke);
    if (pointer?.radius > 0) paintCircle(c, pointer);
    else if (pointer) paintSign(c, pointer, 12);
  }
}

// The canvas on which viser draws: the largest.
function imageCanvas() {
  const canvases = window.luxel.renderers.map((renderer) => renderer.domElement).filter((canvas) => canvas.isConnected);
  return canvases.sort((a, b) => b.clientWidth * b.clientHeight - a.clientWidth * a.clientHeight)[0] ?? null;
}

function trace(c, points) {
  c.beginPath();
  c.moveTo(...points[0]);
  for (const point of points) c.lineTo(...point);
}

function paintTrail(c, { points, radius }) {
  trace(c, points);
  c.lineWidth = 2 * radius;
  c.strokeStyle = FILL;
  c.stroke();
}

function paintOutline(c, { points }) {
  trace(c, points);
  c.fillStyle = FILL;
  c.fill("evenodd");
  dark(c, () => c.stroke(), 2);
}

// A polygon that is not closed: its corners, the first one larger, and the next side to the pointer.
function paintPolygon(c, { points }, pointer) {
  paintOutline(c, { points: pointer ? [...points, [pointer.x, pointer.y]] : points });
  points.forEach(([x, y], i) => {
    c.beginPath();
    c.arc(x, y, i === 0 ? 5 : 3, 0, 2 * Math.PI);
    c.fillStyle = LINE;
    c.fill();
  });
}

function paintCircle(c, pointer) {
  c.beginPath();
  c.arc(pointer.x, pointer.y, pointer.radius, 0, 2 * Math.PI);
  dark(c, () => c.stroke(), 1.5);
  paintSign(c, pointer, 0);
}

function paintSign(c, { x, y, mode }, aside) {
  const sign = SIGNS[mode];
  if (!sign) return;
  c.font = "bold 18px sans-serif";
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillStyle = LINE;
  c.strokeStyle = "rgba(0, 0, 0, 0.7)";
  c.lineWidth = 3;
  c.strokeText(sign, x + aside, y - aside);
  c.fillText(sign, x + aside, y - aside);
}

// A line with a dark border, which is visible on any image.
function dark(c, stroke, width) {
  c.strokeStyle = "rgba(0, 0, 0, 0.6)";
  c.lineWidth = width + 2;
  stroke();
  c.strokeStyle = LINE;
  c.lineWidth = width;
  stroke();
}
