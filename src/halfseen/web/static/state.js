// What the page knows, and the few things that all its parts use.

import { Cover } from "/cover.js";

export const state = {
  setup: null, models: 0, settings: {}, method: "VIS",
  base: null, watched: null, guess: false, scene: -1, classes: [],
  request: null, result: null, before: null, selected: null, hovered: null,
  tool: "drag", version: 0, epoch: 0, drawn: -1, busy: false,
};
export const cover = new Cover();
export const composed = document.createElement("canvas");
export const pixels = composed.getContext("2d", { willReadFrequently: true });

export const $ = (id) => document.getElementById(id);

// What the method shown on the picture reports.
export const report = () => state.result?.methods.find((m) => m.method === state.method);

export const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);

// How sure a detection is, as people read it: a probability, or the score of an uncalibrated model.
export const sure = (d) => d.probability === undefined ? d.score.toFixed(2)
  : `${Math.min(99, Math.max(1, Math.round(100 * d.probability)))}%`;

export function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function complain(line) {
  $("message").textContent = line;
  $("message").hidden = false;
}

export function hush() {
  $("message").hidden = true;
}
