// Stands in for the panel until luxel's controls are there: what viser shows before that is never painted.
"use strict";
(() => {
  const LINES = [40, 0, 88, 72, 80, 0, 64, 88, 76, 88, 0, 70, 84, 60]; // percent of the width; 0: a gap
  const root = document.documentElement;
  const skeleton = document.createElement("div");
  skeleton.id = "luxel-skeleton";
  skeleton.setAttribute("aria-hidden", "true");
  for (const width of LINES) {
    const line = document.createElement("i");
    if (width > 0) line.style.width = `${width}%`;
    else line.className = "luxel-gap";
    skeleton.append(line);
  }
  root.classList.add("luxel-starting");
  if (window.luxelStart) root.style.background = window.luxelStart[window.luxelShell.isDark() ? "dark" : "background"];
  root.append(skeleton);

  // Without shell.js, which would do it, the page of viser is better than none.
  addEventListener("load", () => {
    if (window.luxelShell.onkey !== null) return;
    window.luxelShell.reveal();
    window.luxelShell.removeFirst();
  });

  // Shows the panel instead.
  window.luxelShell.reveal = () => {
    if (!root.classList.contains("luxel-starting")) return;
    root.classList.remove("luxel-starting");
    skeleton.remove();
    performance.mark("luxel-panel");
  };
})();
