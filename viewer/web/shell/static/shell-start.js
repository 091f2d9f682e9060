// Runs before viser's own script, which would take a fragment of the address for a part of the server's name.
"use strict";
(() => {
  const PANEL = 324; // width of viser's panel and its edge, CSS pixels
  const narrow = matchMedia("(max-width: 36em)"); // as viser decides
  const shell = { fragment: location.hash.slice(1), key: null, onkey: null };
  // The server calls this through viser; shell.js, which is loaded later, takes the key.
  shell.open = (key) => {
    shell.key = key;
    shell.onkey?.(key);
  };
  shell.isNarrow = () => narrow.matches;
  // Of the image, which the panel leaves of the window at first, CSS pixels.
  shell.canvasWidth = () => Math.max(1, innerWidth - (narrow.matches ? 0 : PANEL));
  window.luxelShell = shell;
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  // viser connects again only while the window has the focus; a window next to another one should, too.
  document.hasFocus = () => document.visibilityState === "visible";
})();
