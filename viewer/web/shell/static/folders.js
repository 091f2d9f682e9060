// The folders of the panel: viser makes them anew whenever the panel comes back, each as it was at first. They get the
// state that they had, and the panel its scroll position.

const CHEVRON = "svg.tabler-icon-chevron-up, svg.tabler-icon-chevron-down";
const SETTLED = 300; // ms after which a scroll position is the user's, and not that of a panel that goes
const TRIES = 20; // at a scroll position, while opened folders get their height
const FORGOTTEN = 5000; // ms after which a panel that comes back differently begins anew

let known = []; // whether each folder is open, in their order
let gone = null; // the same from when the panel went, and when it came back
let scroll = 0;
let scrolling = 0; // timer

// The headings of all folders, from top to bottom.
export function headings() {
  return [...document.querySelectorAll("#root .mantine-Paper-root > .mantine-Paper-root:has(> svg)")].filter((node) =>
    node.querySelector(CHEVRON),
  );
}

// Whether a folder is open, by its heading.
export const isOpen = (heading) => heading.querySelector("svg.tabler-icon-chevron-up") !== null;

// Opens a folder by its name, as soon as it is there, and brings it into sight; not in the sheet of a narrow window, which
// covers the image, and in which a folder that opens while the sheet is folded stays empty.
export async function openFolder(name, tries = TRIES) {
  if (window.luxelShell.isNarrow()) return;
  const heading = headings().find((node) => node.textContent.trim() === name);
  if (heading === undefined) {
    if (tries > 0) return new Promise((done) => setTimeout(() => done(openFolder(name, tries - 1)), 100));
    return;
  }
  if (!isOpen(heading)) heading.click();
  setTimeout(() => heading.scrollIntoView({ block: "start", behavior: "smooth" }), 200); // it unfolds
}

// Notes the state of the folders, or gives it back; called whenever something has changed.
export function followFolders() {
  const found = headings();
  if (found.length === 0) {
    if (known.length > 0) gone ??= { states: known, scroll, at: null };
    return;
  }
  if (gone !== null) {
    gone.at ??= performance.now();
    if (found.length === gone.states.length) restore(found, gone);
    else if (performance.now() - gone.at < FORGOTTEN) return;
    gone = null;
  }
  known = headings().map(isOpen);
}

function restore(found, { states, scroll: top }) {
  found.forEach((heading, i) => isOpen(heading) !== states[i] && heading.click());
  scrollTo(top, TRIES);
}

function scrollTo(top, tries) {
  const node = scroller();
  node?.scrollTo(0, top);
  if ((node === null || Math.abs(node.scrollTop - top) > 1) && tries > 0) setTimeout(scrollTo, 100, top, tries - 1);
}

// The element that scrolls the folders.
function scroller() {
  let node = headings()[0] ?? null;
  while (node && !(node.scrollHeight > node.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(node).overflowY)))
    node = node.parentElement;
  return node;
}

document.addEventListener(
  "scroll",
  ({ target }) => {
    clearTimeout(scrolling);
    scrolling = setTimeout(() => target.isConnected && target === scroller() && (scroll = target.scrollTop), SETTLED);
  },
  { capture: true, passive: true },
);
