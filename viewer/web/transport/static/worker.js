// Runs a StreamClient next to the page. The first message brings its canvas, each further one a call.

import { StreamClient } from "./client.js";

let client = null;

onmessage = ({ data }) => {
  if (data.canvas !== undefined) client = new StreamClient(data.canvas, (move) => postMessage(move));
  else client[data.call](...data.given);
};
