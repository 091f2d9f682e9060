// What lies around the image: connection, stored and shared views, keys, help, buttons. Messages: viewer/web/shell/messages.py

import { Divider } from "./divider.js";
import { EndCard } from "./end-card.js";
import { watchFocus } from "./focus.js";
import { Help } from "./help.js";
import { iconButton } from "./icons.js";
import { ImageBars } from "./image-bar.js";
import { Keeper } from "./keep.js";
import { fit, listen } from "./keys.js";
import { decodeView } from "./link.js";
import { Marks } from "./marks.js";
import { mend } from "./mend.js";
import { flatten, freeTouches, panelIsReady, togglePanel } from "./page.js";
import { Share } from "./share.js";
import { Status, element } from "./status.js";
import { Toolbar } from "./toolbar.js";

const POLICY_VIOLATION = 1008; // close code: the server does not want this connection again

let socket = null;
let attempts = 0;
let hello = null;
let state = {};
let values = {};
let cursor = [0.5, 0.5]; // on the image, in [0, 1]
let link = null; // view of the address, until it is shown
let problem = ""; // of the address, until it is reported

const style = element("link", "", document.head);
style.rel = "stylesheet";
style.href = "/luxel/shell.css";
const status = new Status();
const help = new Help();
const keeper = new Keeper(send);
const toolbar = new Toolbar(status.root, send);
const divider = new Divider(status.root, send);
const endCard = new EndCard(status.root, send);
const share = new Share(status.root, send, copyLink, (text) => status.notify(text));
window.luxelShell.openShare = () => share.open();
const marks = new Marks(status.root, send);
const bars = new ImageBars(status.root, send);
mend();
freeTouches();
readAddress();

function readAddress() {
  const fragment = window.luxelShell.fragment;
  if (!fragment) return;
  try {
    link = decodeView(fragment);
  } catch (error) {
    problem = `The link to a view was ignored: ${error.message}.`;
  }
}

function connect(key) {
  socket?.close();
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const mine = new WebSocket(`${scheme}://${location.host}/luxel/shell?key=${encodeURIComponent(key)}`);
  socket = mine;
  mine.onopen = () => (attempts = 0);
  mine.onmessage = ({ data }) => socket === mine && receive(JSON.parse(data));
  mine.onclose = ({ code }) => {
    if (socket !== mine) return;
    socket = null;
    keeper.pause();
    status.connected(false);
    if (code !== POLICY_VIOLATION && window.luxelShell.key === key)
      setTimeout(() => window.luxelShell.key === key && socket === null && connect(key), 500 * 2 ** Math.min(attempts++, 4));
  };
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function receive(message) {
  if (message.type === "hello") {
    hello = message;
    values = message.values;
    document.title = `${hello.name} – luxel`;
    status.connected(true);
    sendScheme();
    fit(hello);
    help.fit(hello);
    toolbar.fit(hello);
    endCard.fit(hello);
    if (hello.flat) flatten();
    keeper.restore(hello, link);
    if (problem) status.notify(problem, 8);
    link = null;
    problem = "";
    buttons.hidden = false;
    share.connected();
  } else if (message.type === "values") {
    values = message.values;
    keeper.take(values);
  } else if (message.type === "state") {
    state = message;
    status.show(state);
    keeper.takeTime(state.time);
  } else if (message.type === "toolbar") {
    toolbar.show(message);
    marks.answered();
    keeper.takeTools(message.active);
  } else if (message.type === "divider") {
    divider.show(message);
  } else if (message.type === "end") {
    endCard.show(message);
  } else if (message.type === "offer") {
    hello = { ...hello, ...message, type: "hello" };
    values = message.values;
    help.fit(hello);
    toolbar.fit(hello);
    keeper.reopen();
  } else if (message.type.startsWith("share")) {
    share.take(message);
  } else if (message.type === "marks") {
    marks.show(message);
  } else if (message.type === "bars") {
    bars.show(message);
  }
}

// What is behind the scene may follow the colours of the page.
function sendScheme() {
  send({ type: "scheme", dark: window.luxelShell.isDark() });
}

async function copyLink() {
  const address = keeper.link(hello?.times ? state.time : undefined, values["Show/Output"]);
  if (!address) return;
  try {
    await navigator.clipboard.writeText(address);
    status.notify("The link to this view is copied.");
  } catch {
    prompt("Link to this view:", address); // no clipboard outside of https and localhost
  }
}

function chooseOutput(index) {
  const output = hello?.outputs[index];
  if (output === undefined) return false;
  send({ type: "set", name: "Show/Output", value: output });
}

const shortcuts = {
  "?": () => help.toggle(),
  escape: () =>
    help.open ? help.close() : share.isOpen ? share.close() : endCard.open ? endCard.close() : toolbar.escape(),
  home: () => send({ type: "act", name: "reset" }),
  f: () => (hello?.flat ? false : send({ type: "focus", u: cursor[0], v: cursor[1], double: false })),
  h: () => togglePanel(),
  u: () => copyLink(),
  y: () => share.toggle(),
  " ": () => (hello?.trains ? send({ type: "act", name: "pause" }) : hello?.times ? send({ type: "act", name: "play" }) : false),
};
for (let i = 0; i < 10; i++) shortcuts[(i + 1) % 10] = () => chooseOutput(i); // 0 is the tenth
watchFocus(); // first: what Escape leaves is no shortcut
listen((key) => shortcuts[key] ?? toolbar.shortcut(key));

function onImage(event) {
  const canvas = window.__viserMutable?.canvas;
  if (!canvas?.parentElement?.contains(event.target)) return null;
  const box = canvas.getBoundingClientRect();
  const position = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  return position.every((x) => x >= 0 && x <= 1) ? position : null;
}
window.addEventListener(
  "pointermove",
  (event) => {
    const position = onImage(event);
    cursor = position ?? cursor;
    marks.move(position, event.buttons !== 0);
  },
  { passive: true },
);
let pressedAt = null; // CSS pixels, of a button on the image
window.addEventListener("pointerdown", (event) => (pressedAt = onImage(event) && event.button === 0 ? [event.clientX, event.clientY] : null), true);
window.addEventListener("pointerup", (event) => {
  const moved = pressedAt === null || Math.hypot(event.clientX - pressedAt[0], event.clientY - pressedAt[1]) > 3;
  if (!moved) marks.press(onImage(event));
}, true);
window.addEventListener("wheel", () => marks.clear(), { passive: true });
window.addEventListener("dblclick", (event) => {
  const position = onImage(event);
  if (position && !hello?.flat) send({ type: "focus", u: position[0], v: position[1], double: true });
});

const buttons = element("div", "luxel-buttons", status.root);
for (const [icon, title, action] of [
  ["reset", "Reset the view (Home)", shortcuts.home],
  ["share", "Share (Y)", shortcuts.y],
  ["link", "Copy a link to this view (U)", copyLink],
  ["scheme", "Light or dark", window.luxelShell.switchScheme],
  ["help", "Mouse, touch and keys (?)", shortcuts["?"]],
])
  iconButton(icon, title, action, buttons);
share.opener = buttons.querySelector("[title^=Share]");
buttons.hidden = true;

// The panel is shown once luxel's controls are in it and the folders of before are open, or a while after they came.
const LATEST = 2000; // ms after the key
let keyAt = null;
function reveal() {
  keyAt ??= window.luxelShell.key === null ? null : performance.now();
  const known = keyAt !== null && (hello !== null || performance.now() - keyAt > LATEST);
  if (known && panelIsReady()) requestAnimationFrame(window.luxelShell.reveal);
  else requestAnimationFrame(reveal);
}
reveal();

// What covers the image goes once the stream has drawn the view that the page is to show, or another one to which the user
// has turned; or where images come by other means, a while after the first.
let imageAt = null;
function uncover() {
  imageAt ??= state.shown ? performance.now() : null;
  const drawn = window.luxel.upToDate?.() && keeper.isThere();
  if (imageAt !== null && (drawn || performance.now() - imageAt > LATEST)) requestAnimationFrame(() => requestAnimationFrame(() => status.uncover()));
  else requestAnimationFrame(uncover);
}
uncover();

window.luxelShell.onscheme = sendScheme;
window.luxelShell.onkey = connect;
if (window.luxelShell.key !== null) connect(window.luxelShell.key);
