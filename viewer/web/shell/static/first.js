// Shows the view at which pages begin while viser's page and the connection are made, which takes a browser a second or
// more. It runs before the page is parsed, and the image needs no script to be shown: those of the page leave no time.
// A tab that has another view to show, from a link or from before a reload, does not ask for it.
"use strict";
(() => {
  const PANEL = 324; // width of viser's panel and its edge, CSS pixels
  const WAITS = [50, 100, 200, 400]; // ms until the server is asked again, while it renders
  const width = innerWidth - (matchMedia("(max-width: 36em)").matches ? 0 : PANEL); // as viser decides
  const address = `/luxel/first.jpg?width=${Math.max(1, width)}&height=${innerHeight}`;
  const image = document.createElement("img");
  let removed = false;
  let asked = 0;

  window.luxelShell.removeFirst = () => {
    removed = true;
    image.remove();
    document.documentElement.classList.remove("luxel-has-image");
  };
  if (hasOtherView()) return;
  image.id = "luxel-first";
  image.alt = "";
  image.style.cssText = `position:fixed; left:0; top:0; width:${width}px; height:100%; object-fit:cover; z-index:1`;
  image.onload = () => {
    document.documentElement.classList.add("luxel-has-image");
    requestAnimationFrame(() => performance.mark("luxel-first-image")); // of tests/bench/viewer/viewer_first_frame.py
  };
  image.onerror = () => again().catch(() => {}); // the page loads without it
  image.src = address;
  document.documentElement.append(image);

  // The server has no image yet, or none at all, which an image element does not tell.
  async function again() {
    image.remove();
    let answer = await fetch(address, { cache: "no-store" });
    while (answer.status === 202 && !removed) {
      await new Promise((resolve) => setTimeout(resolve, WAITS[Math.min(asked++, WAITS.length - 1)]));
      answer = await fetch(address, { cache: "no-store" });
    }
    if (answer.status !== 200 || removed) return;
    image.onerror = null;
    image.src = URL.createObjectURL(await answer.blob());
    document.documentElement.append(image);
  }

  function hasOtherView() {
    if (window.luxelShell.fragment) return true;
    try {
      return Object.keys(sessionStorage).some((key) => key.startsWith("luxel-"));
    } catch {
      return false;
    }
  }
})();
