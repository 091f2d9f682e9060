// Runs before viser's own script and notes what the stream needs of it.
//
// three.js announces every renderer to the object that its developer tools would put at window.__THREE_DEVTOOLS__.
// The server calls window.luxel.connect(key) through viser; stream.js, which is loaded later, takes both.
"use strict";
(() => {
  const luxel = { key: null, renderers: [], onkey: null, onrenderer: null };
  luxel.connect = (key) => {
    luxel.key = key;
    luxel.onkey?.(key);
  };
  window.luxel = luxel;
  // viser's own light is an image, which the server turns off as soon as the page is connected; preparing it takes a
  // machine without a GPU longer than everything that luxel draws there.
  const { fetch } = window;
  window.fetch = (input, ...rest) =>
    String(input?.url ?? input).startsWith("data:image/jpeg") ? new Promise(() => {}) : fetch(input, ...rest);
  window.__THREE_DEVTOOLS__ ??= new EventTarget();
  window.__THREE_DEVTOOLS__.addEventListener("observe", ({ detail }) => {
    if (typeof detail?.render !== "function" || !(detail.domElement instanceof HTMLCanvasElement)) return;
    luxel.renderers.push(detail);
    luxel.onrenderer?.(detail);
  });
})();
