// Covering the object: by pointer, by keyboard, and by itself.

import { Cover } from "/cover.js";
import { deselect, select } from "/inspect.js";
import { changed } from "/live.js";
import { drawStage } from "/show.js";
import { $, composed, cover, report, state } from "/state.js";

function pointOf(event) {
  const area = $("stage").getBoundingClientRect();
  return {
    x: ((event.clientX - area.left) * composed.width) / area.width,
    y: ((event.clientY - area.top) * composed.height) / area.height,
  };
}

function detectionAt({ x, y }) {
  const inside = (d) => x >= d.full[0] && x < d.full[2] && y >= d.full[1] && y < d.full[3];
  return report()?.detections.find(inside);
}

export function startDrag(event) {
  if (!state.base || event.button) return;
  stopShow();
  $("stage").setPointerCapture(event.pointerId);
  const start = pointOf(event);
  let last = start, moved = false, patch = null, mode = "new";
  const hit = state.tool === "drag" ? cover.at(start.x, start.y) : null;
  if (hit) {
    cover.chosen = hit.index;
    patch = cover.patch;
    mode = hit.corner ? "resize" : "move";
  }
  const move = (e) => {
    const point = pointOf(e);
    if (!moved && Math.hypot(point.x - start.x, point.y - start.y) < 3) return;
    moved = true;
    if (state.tool !== "drag") cover.stroke(last, point, state.tool === "erase");
    else if (mode === "move") {
      patch.x += point.x - last.x;
      patch.y += point.y - last.y;
    } else if (mode === "resize") Cover.resize(patch, point.x - patch.x, point.y - patch.y);
    else {
      patch ??= cover.add(start.x, start.y, 1, 1);
      Object.assign(patch, {
        x: Math.min(start.x, point.x), y: Math.min(start.y, point.y),
        w: Math.abs(point.x - start.x), h: Math.abs(point.y - start.y),
      });
    }
    last = point;
    changed();
  };
  const end = (e) => {
    for (const [name, listener] of [["pointermove", move], ["pointerup", end], ["pointercancel", end]]) {
      $("stage").removeEventListener(name, listener);
    }
    if (moved) {
      if (e.type === "pointerup") move(e);
      changed({ urgent: true });
      return;
    }
    if (state.tool !== "drag") {
      cover.stroke(start, start, state.tool === "erase");
      changed();
    } else if (!hit) {
      cover.chosen = -1;
      const found = detectionAt(start);
      if (found) select(found);
      else {
        deselect();
        drawStage();
      }
    } else drawStage();
  };
  $("stage").addEventListener("pointermove", move);
  $("stage").addEventListener("pointerup", end);
  $("stage").addEventListener("pointercancel", end);
}

function addPatch() {
  const [x1, y1, x2, y2] = state.watched ?? [0, 0, composed.width / 2, composed.height / 2];
  return cover.add(x1 - 4, y1 - 4, 0.45 * (x2 - x1), y2 - y1 + 8);
}

export function keyDown(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const step = composed.width / 60;
  if (event.key in arrows) {
    const patch = cover.patch ?? (cover.chosen = cover.patches.length - 1, cover.patch) ?? addPatch();
    const [dx, dy] = arrows[event.key].map((d) => d * step);
    if (event.shiftKey) Cover.resize(patch, patch.w + dx, patch.h + dy);
    else { patch.x += dx; patch.y += dy; }
  } else if (event.key.toLowerCase() === "c") addPatch();
  else if (event.key === "Delete" || event.key === "Backspace") cover.remove();
  else return;
  event.preventDefault();
  stopShow();
  changed();
}

let showing = 0;
export function stopShow() {
  cancelAnimationFrame(showing);
  showing = 0;
  $("show").textContent = "▶ Show me";
}

// A cover comes in from the side and stops over nearly half of the object.
export function show() {
  if (showing) return stopShow();
  if (!state.watched) return;
  const [x1, y1, x2, y2] = state.watched;
  const wide = x2 - x1;
  cover.clear();
  const patch = cover.add(-0.55 * wide, y1 - 6, 0.55 * wide, y2 - y1 + 12);
  const [from, to] = [x1 - 0.75 * wide, x1 - 0.09 * wide];
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const started = performance.now();
  $("show").textContent = "■ Stop";
  const frame = (now) => {
    const part = still ? 1 : Math.min(1, (now - started) / 3000);
    patch.x = from + (to - from) * (1 - (1 - part) ** 2);
    changed();
    if (part < 1) showing = requestAnimationFrame(frame);
    else stopShow();
  };
  showing = requestAnimationFrame(frame);
}
