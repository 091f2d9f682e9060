// Light or dark: as the browser has it, or as was chosen with the switch. viser sets its own scheme when it starts and when
// the server's arrives; this runs before the first paint and holds on to ours.
"use strict";
(() => {
  const SCHEMES = ["auto", "light", "dark"];
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: light)");
  let scheme = "auto";
  try {
    scheme = localStorage.getItem("luxel-scheme");
  } catch {
    // blocked: the browser's
  }
  if (!SCHEMES.includes(scheme)) scheme = "auto";

  const now = () => (scheme === "auto" ? (preferred.matches ? "light" : "dark") : scheme);
  const apply = () => {
    if (root.getAttribute("data-mantine-color-scheme") !== now()) root.setAttribute("data-mantine-color-scheme", now());
  };
  window.luxelShell.isDark = () => now() === "dark";
  window.luxelShell.onscheme = null; // shell.js, which is loaded later, is called after changes

  // Chooses the other scheme.
  window.luxelShell.switchScheme = () => {
    const other = now() === "dark" ? "light" : "dark";
    scheme = other === (preferred.matches ? "light" : "dark") ? "auto" : other;
    try {
      localStorage.setItem("luxel-scheme", scheme);
    } catch {
      // the choice ends with the page
    }
    apply();
    window.luxelShell.onscheme?.();
  };
  preferred.addEventListener("change", () => {
    apply();
    window.luxelShell.onscheme?.();
  });
  new MutationObserver(apply).observe(root, { attributes: true, attributeFilter: ["data-mantine-color-scheme"] });
  apply();
})();
