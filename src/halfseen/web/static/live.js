// Requests to the server: what each method makes of the picture with its cover.

import { $, complain, composed, cover, pixels, state } from "/state.js";

// Called when something changed, when an answer has come, and when nothing is left to ask.
export const hooks = { stage() {}, answer() {}, async settled() {} };

export async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is “halfseen serve” still running?");
  }
  if (response.ok) return response;
  const text = await response.text();
  let line = text;
  try { line = JSON.parse(text).error; } catch { /* not ours: shown as it is */ }
  throw new Error(line || `The server answered ${response.status}.`);
}

export async function post(path, extra = {}) {
  const { width, height } = composed;
  const query = new URLSearchParams({ width, height, models: state.models, ...extra });
  for (const [name, value] of Object.entries(state.settings)) {
    if (value !== null) query.set(name, value);
  }
  const body = pixels.getImageData(0, 0, width, height).data;
  state.request = new AbortController();
  const response = await ask(`${path}?${query}`, { method: "POST", body, signal: state.request.signal });
  return response.json();
}

export function compose(withCover = true) {
  pixels.drawImage(state.base, 0, 0);
  if (withCover) cover.draw(pixels);
}

// One request at a time; what changed meanwhile is asked for next, and nothing in between. What is
// urgent does not wait for the answer under way.
export async function changed({ clean = false, urgent = false } = {}) {
  state.version++;
  document.body.dataset.version = state.version;
  if (clean) {
    state.before = null;
    state.epoch++;
  }
  hooks.stage();
  if (urgent) state.request?.abort();
  if (state.busy || !state.base) return;
  state.busy = true;
  while (state.drawn !== state.version) {
    try {
      await lookOnce();
      if (state.drawn === state.version) await hooks.settled();
    } catch (error) {
      if (error.name === "AbortError") continue;
      state.drawn = state.version;
      complain(error.message);
    }
  }
  state.busy = false;
}

async function lookOnce() {
  const { version, epoch } = state;
  const watched = state.watched ? { watched: state.watched.join(",") } : {};
  if (!state.before) {
    compose(false);
    const before = await post("/api/look", watched);
    if (epoch !== state.epoch) return;
    // An object of a drawn scene that somebody's own detector does not know is not "lost".
    if (state.guess && !before.methods.some((m) => m.watched?.reported)) state.watched = null;
    state.guess = false;
    if (!state.watched && follow(before)) return lookOnce();
    state.before = before;
  }
  if (cover.empty) {
    state.result = state.before;
  } else {
    compose();
    const start = performance.now();
    const result = await post("/api/look", watched);
    if (epoch !== state.epoch) return;
    state.result = result;
    $("speed").textContent = `${Math.round(performance.now() - start)} ms`;
  }
  compose();
  hooks.answer();
  state.drawn = version;
  document.body.dataset.drawn = version;
}

// In a photo nobody has said which object is meant: the best that is found.
function follow(result) {
  const methods = result.methods.filter((m) => m.detections.length);
  const best = methods.find((m) => m.method === "VIS") ?? methods[0];
  if (!best) return false;
  state.watched = best.detections.reduce((a, b) => (b.score > a.score ? b : a)).full;
  return true;
}
