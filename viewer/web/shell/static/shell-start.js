// Runs before viser's own script, which would take a fragment of the address for a part of the server's name.
"use strict";
(() => {
  const shell = { fragment: location.hash.slice(1), key: null, onkey: null };
  // The server calls this through viser; shell.js, which is loaded later, takes the key.
  shell.open = (key) => {
    shell.key = key;
    shell.onkey?.(key);
  };
  window.luxelShell = shell;
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  // viser connects again only while the window has the focus; a window next to another one should, too.
  document.hasFocus = () => document.visibilityState === "visible";
})();
