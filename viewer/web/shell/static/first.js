// Shows the view at which pages begin while viser's page and the connection are made, which takes a browser a second or
// more. It runs before the page is parsed, and the image needs no script to be shown: those of the page leave no time.
// A tab that has another view to show, from a link or from before a reload, does not ask for it.
"use strict";
(() => {
  const WAITS = [50, 100, 200, 400]; // ms until the server is asked again, while it renders
  const width = window.luxelShell.canvasWidth();
  const address = `/luxel/first.jpg?width=${width}&height=${innerHeight}${window.luxelShell.isDark() ? "&dark=1" : ""}`;
  const image = document.createElement("img");
  let removed = false;
  let asked = 0;

  window.luxelShell.removeFirst = () => {
    removed = true;
    image.remove();
    document.documentElement.classList.remove("luxel-has-image");
  };
  if (!window.luxelShell.hasOwnView) return;
  image.id = "luxel-first";
  image.alt = "";
  image.style.cssText = `position:fixed; left:0; top:0; width:${width}px; height:100%; object-fit:cover; z-index:1`;
  image.onload = () => {
    if (removed) return;
    document.documentElement.append(image); // whole: on a slow link it would come in strips
    document.documentElement.classList.add("luxel-has-image");
    requestAnimationFrame(() => performance.mark("luxel-first-image")); // of tests/bench/viewer/viewer_first_frame.py
  };
  image.onerror = () => again().catch(() => {}); // the page loads without it
  image.src = address;

  // The server has no image yet, or none at all, which an image element does not tell.
  async function again() {
    let answer = await fetch(address, { cache: "no-store" });
    while (answer.status === 202 && !removed) {
      await new Promise((resolve) => setTimeout(resolve, WAITS[Math.min(asked++, WAITS.length - 1)]));
      answer = await fetch(address, { cache: "no-store" });
    }
    if (answer.status !== 200 || removed) return;
    image.onerror = null;
    image.src = URL.createObjectURL(await answer.blob());
  }
})();
