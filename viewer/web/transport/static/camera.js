// The camera of the frame that viser draws, in the world of the scene.

// Whether this renderer draws viser's main view with this camera now.
export function isMainView(renderer, camera) {
  const viser = window.__viserMutable;
  return (
    viser !== undefined &&
    camera === viser.camera &&
    renderer.domElement.isConnected &&
    renderer.getRenderTarget() === null
  );
}

// Camera to world [3, 4] in rows with OpenCV axes (x right, y down, z forward), vertical field of view in radians, and
// the size of the canvas in device pixels. Null if viser does not say how its world lies in that of three.js.
export function readCamera(renderer, camera) {
  const root = window.__viserSceneTree?.getState()?.[""];
  if (!root?.wxyz) return null;
  const pose = window.__viserMutable.nodePoseData?.[""];
  const offset = pose?.position ?? root.position ?? [0, 0, 0];
  camera.updateMatrixWorld();
  const e = camera.matrixWorld.elements; // by columns; three.js looks along -z with y up
  const turn = rotation(root.wxyz); // from the scene's world to that of three.js, by rows
  const columns = [
    [e[0], e[1], e[2]],
    [-e[4], -e[5], -e[6]],
    [-e[8], -e[9], -e[10]],
    [e[12] - offset[0], e[13] - offset[1], e[14] - offset[2]],
  ];
  const matrix = [];
  for (let row = 0; row < 3; row++)
    for (const v of columns) matrix.push(turn[0][row] * v[0] + turn[1][row] * v[1] + turn[2][row] * v[2]);
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const { width, height } = sizeOf(renderer.domElement);
  return {
    matrix,
    fov: (camera.fov * Math.PI) / 180,
    width: Math.max(1, Math.round(width * ratio)),
    height: Math.max(1, Math.round(height * ratio)),
  };
}

const sizes = new WeakMap();
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) sizes.set(target, { width: target.clientWidth, height: target.clientHeight });
});

// The size of a canvas in CSS pixels. Asking the canvas itself in every frame would lay out the page each time.
function sizeOf(canvas) {
  if (!sizes.has(canvas)) {
    sizes.set(canvas, { width: canvas.clientWidth, height: canvas.clientHeight });
    resized.observe(canvas);
  }
  return sizes.get(canvas);
}

// Whether a scene has nothing that three.js would draw, wherever the camera looks.
export function isEmpty(scene) {
  // Without an image in it, viser's background still costs a shader run for each pixel.
  const behind = window.__viserMutable.backgroundMaterial;
  if (behind?.uniforms?.enabled) behind.visible = behind.uniforms.enabled.value;
  return scene.background === null && !hasDrawable(scene);
}

function hasDrawable(object) {
  if (!object.visible) return false;
  if (object.isMesh || object.isLine || object.isPoints || object.isSprite) {
    const shown = [object.material].flat().some((material) => material?.visible);
    if (shown && object.count !== 0 && object.geometry?.instanceCount !== 0) return true;
  }
  return object.children.some(hasDrawable);
}

export function sameCamera(a, b) {
  return (
    a.fov === b.fov &&
    a.width === b.width &&
    a.height === b.height &&
    a.matrix.every((value, i) => value === b.matrix[i])
  );
}

// Rotation matrix of a quaternion w, x, y, z, by rows.
function rotation([w, x, y, z]) {
  const s = 2 / (w * w + x * x + y * y + z * z);
  return [
    [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
    [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
    [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
  ];
}
