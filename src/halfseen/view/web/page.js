// The page: state, requests to the server, and what is drawn of the answers.

import { Cover } from "/cover.js";
import { COLOURS, box, corners, drawDetections, drawResponses, drawWindow, handles } from "/draw.js";

const $ = (id) => document.getElementById(id);
const SAYS = {
  BL: "A plain template: every block counts.",
  BLT: "Also knows the picture’s border.",
  VIS: "Knows hiding: blocks that do not fit may be hidden, each at a price.",
  "VIS+NMS": "And judges neighbours by what is visible of them.",
};
const SLIDERS = [
  ["threshold", "Threshold t", -1, 1.5, 0.05, "The lowest score that is reported."],
  ["alpha", "Togetherness α", 0, 0.3, 0.005, "How much hidden blocks must hang together."],
  ["shift", "Price of hiding u", -0.1, 0.1, 0.002, "Added to the learnt u: to the right hiding is cheaper."],
  ["overlap", "Overlap η", 0, 1, 0.05, "How much two reported objects may overlap."],
];
const RANGE = [-1.5, 2.0]; // of the score bars

const state = {
  setup: null, models: 0, settings: {}, method: "VIS",
  base: null, watched: null, scene: -1,
  request: null, result: null, before: null, selected: null, inspected: null, hovered: null,
  tool: "drag", version: 0, epoch: 0, drawn: -1, busy: false,
};
const cover = new Cover();
const composed = document.createElement("canvas");
const pixels = composed.getContext("2d", { willReadFrequently: true });

// Requests

async function ask(path, options) {
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

async function post(path, extra = {}) {
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

function compose(withCover = true) {
  pixels.drawImage(state.base, 0, 0);
  if (withCover) cover.draw(pixels);
}

// One request at a time; what changed meanwhile is asked for next, and nothing in between. What is
// urgent does not wait for the answer under way.
async function changed({ clean = false, urgent = false } = {}) {
  state.version++;
  document.body.dataset.version = state.version;
  if (clean) {
    state.before = null;
    state.epoch++;
  }
  drawStage();
  if (urgent) state.request?.abort();
  if (state.busy || !state.base) return;
  state.busy = true;
  while (state.drawn !== state.version) {
    try {
      await lookOnce();
      if (state.drawn === state.version) await inspectSelected();
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
  reselect();
  render();
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

// Drawing

const report = () => state.result?.methods.find((m) => m.method === state.method);
const scaleOf = (canvas) => canvas.width / composed.width;

function fit() {
  if (!state.base) return;
  for (const canvas of document.querySelectorAll("#picture, #stage, .card canvas")) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const wide = Math.max(1, Math.round(canvas.clientWidth * ratio));
    const high = Math.round((wide * composed.height) / composed.width);
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
    }
  }
}

function drawStage() {
  if (!state.base) return;
  compose();
  const picture = $("picture").getContext("2d");
  picture.drawImage(composed, 0, 0, $("picture").width, $("picture").height);
  const ctx = $("stage").getContext("2d");
  const scale = scaleOf($("stage"));
  const line = Math.max(1, $("stage").width / $("stage").clientWidth);
  ctx.clearRect(0, 0, ctx.canvas.width, ctx.canvas.height);
  if (state.watched) corners(ctx, scale, state.watched, 2 * line);
  const shown = report();
  if (shown) {
    const selected = state.selected?.method === state.method ? state.selected.index : -1;
    const size = [composed.width, composed.height];
    drawDetections(ctx, scale, size, shown.detections, COLOURS[state.method], { line: 2 * line, selected });
  }
  if (state.hovered) box(ctx, scale, state.hovered, "#ddd", 2 * line, [2 * line, 2 * line]);
  if (cover.patch && state.tool === "drag") handles(ctx, scale, cover.patch, 1.5 * line);
  $("hint").hidden = !cover.empty;
}

function render() {
  drawStage();
  drawCards();
  tell();
  listDetections();
}

function drawCards() {
  for (const result of state.result.methods) {
    const card = document.querySelector(`[data-method="${result.method}"]`);
    if (!card) continue;
    const canvas = card.querySelector("canvas");
    const ctx = canvas.getContext("2d");
    ctx.drawImage(composed, 0, 0, canvas.width, canvas.height);
    const size = [composed.width, composed.height];
    const line = Math.max(1.2, canvas.width / 220);
    drawDetections(ctx, scaleOf(canvas), size, result.detections, COLOURS[result.method], { line, labels: false });
    const was = state.before?.methods.find((m) => m.method === result.method)?.watched;
    bar(card, result.watched, was);
  }
}

function bar(card, now, was) {
  const place = (score) => 100 * Math.max(0, Math.min(1, (score - RANGE[0]) / (RANGE[1] - RANGE[0])));
  const score = now ? now.score : RANGE[0];
  card.dataset.score = now ? now.score : "";
  card.dataset.reported = Boolean(now?.reported);
  card.dataset.seen = now ? now.visible_fraction : "";
  card.querySelector(".fill").style.width = `${place(score)}%`;
  card.querySelector(".tick").style.left = `${place(state.settings.threshold)}%`;
  const ghost = card.querySelector(".ghost");
  ghost.hidden = !was;
  if (was) ghost.style.left = `${place(was.score)}%`;
  card.querySelector(".score").textContent = now ? now.score.toFixed(2) : "–";
  const status = card.querySelector(".status");
  const seen = Math.round(100 * (now?.visible_fraction ?? 1));
  status.textContent = !now?.reported ? "✗ lost" : seen < 100 ? `✓ ${seen}% seen` : "✓ found";
  status.classList.toggle("lost", !now?.reported);
}

function tell() {
  const label = state.setup.models[state.models].label;
  if (!state.watched) {
    $("story").textContent = `No ${label} is found here. Lower the threshold, or try another picture.`;
    return;
  }
  const share = Math.round(100 * cover.share(state.watched, composed.width, composed.height));
  const found = (name) => state.result.methods.find((m) => m.method === name)?.watched;
  const names = state.result.methods.map((m) => m.method);
  const finders = names.filter((name) => found(name)?.reported);
  const losers = names.filter((name) => !found(name)?.reported);
  const list = (words) => words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0];
  let text;
  if (cover.empty) {
    text = finders.length === names.length
      ? `Nothing covers the ${label}, and every method finds it. Now cover a part of it.`
      : `Nothing covers the ${label} yet. ${list(losers)} ${losers.length > 1 ? "miss" : "misses"} it already.`;
  } else {
    text = `${share}% of the ${label}’s box is covered. `;
    text += losers.length ? `${list(losers)} lost it` : "All methods still find it";
    text += losers.length && finders.length ? `; ${list(finders)} still ${finders.length > 1 ? "find" : "finds"} it` : "";
    const vis = found("VIS");
    if (vis?.reported && vis.visible_fraction < 1) {
      text += `. VIS says that ${Math.round(100 * (1 - vis.visible_fraction))}% is hidden, and where.`;
    } else text += ".";
  }
  if ($("story").textContent !== text) $("story").textContent = text;
  document.body.dataset.covered = share;
}

function listDetections() {
  const shown = report();
  $("found-method").textContent = state.method;
  const items = (shown?.detections ?? []).map((d) => {
    const button = element("button", { type: "button" }, [
      element("b", {}, [d.score.toFixed(2)]),
      ` ${d.label} · ${Math.round(100 * d.visible_fraction)}% seen`,
    ]);
    button.setAttribute("aria-pressed", state.selected?.method === state.method && state.selected.index === d.index);
    button.addEventListener("click", () => select(d));
    button.addEventListener("pointerenter", () => hover(d.full));
    button.addEventListener("pointerleave", () => hover(null));
    return element("li", {}, [button]);
  });
  if (shown && !items.length) items.push(element("li", { class: "none" }, ["None reaches the threshold."]));
  const focus = [...$("found").querySelectorAll("button")].indexOf(document.activeElement);
  $("found").replaceChildren(...items);
  if (focus >= 0) $("found").querySelectorAll("button")[focus]?.focus();
}

function hover(box) {
  state.hovered = box;
  drawStage();
}

// One detection taken apart

function select(detection) {
  state.selected = { method: state.method, index: detection.index, full: detection.full };
  render();
  inspectSelected().catch((error) => error.name === "AbortError" || complain(error.message));
}

// After a change the selected detection is the one that overlaps it most.
function reselect() {
  if (!state.selected) return;
  const own = state.result.methods.find((m) => m.method === state.selected.method);
  const near = (own?.detections ?? []).map((d) => [overlap(d.full, state.selected.full), d]);
  const [most, best] = near.reduce((a, b) => (b[0] > a[0] ? b : a), [0.3, null]);
  if (most > 0.3 && best) Object.assign(state.selected, { index: best.index, full: best.full });
  else state.selected = null;
}

function overlap(a, b) {
  const w = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const h = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  const shared = Math.max(0, w) * Math.max(0, h);
  return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared);
}

async function inspectSelected() {
  $("inspector").hidden = !state.selected;
  if (!state.selected) return;
  const { method, index } = state.selected;
  compose();
  const inspected = await post("/api/inspect", { method, index });
  if (state.selected?.index !== index || state.selected.method !== method) return;
  state.inspected = inspected;
  drawWindow($("window-view"), composed, inspected, COLOURS[method]);
  drawResponses($("response-view"), inspected);
  showSum(inspected);
  showNeighbours(inspected);
}

function showSum({ sum, detection }) {
  const rows = [
    ["bias b", sum.bias],
    [`${sum.visible_blocks} visible blocks`, sum.visible],
    [`${sum.hidden_blocks} hidden blocks × u = ${sum.u.toFixed(4)}`, sum.hidden_blocks * sum.u],
    [`${sum.outside_blocks} blocks outside × uₜ = ${sum.u_t.toFixed(4)}`, sum.outside_blocks * sum.u_t],
    [`${sum.edges} borders seen | hidden × −α = ${(-sum.alpha).toFixed(3)}`, -sum.edges * sum.alpha],
  ];
  const body = rows.map(([name, value]) => element("tr", {}, [
    element("th", { scope: "row" }, [name]), element("td", {}, [signed(value)]),
  ]));
  body.push(element("tr", { class: "total" }, [
    element("th", { scope: "row" }, ["score"]), element("td", {}, [signed(detection.score)]),
  ]));
  $("sum").querySelector("tbody").replaceChildren(...body);
}

function showNeighbours({ neighbours, suppressed, limit, method }) {
  const measure = method === "VIS+NMS" ? "of what both see is shared" : "of its box is inside this one";
  $("neighbours-title").textContent = suppressed
    ? `Suppressed neighbours: ${suppressed}` : "No neighbour was suppressed";
  $("neighbours").replaceChildren(...neighbours.map((d) => {
    const why = `${Math.round(100 * d.overlap)}% ${measure}: above η = ${Math.round(100 * limit)}%`;
    const item = element("button", { type: "button" }, [element("b", {}, [d.score.toFixed(2)]), ` ${why}`]);
    for (const on of ["pointerenter", "focus"]) item.addEventListener(on, () => hover(d.full));
    for (const off of ["pointerleave", "blur"]) item.addEventListener(off, () => hover(null));
    return element("li", {}, [item]);
  }));
}

const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);

// Covering: pointer, keyboard, and a demonstration

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

function startDrag(event) {
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
      else { state.selected = null; $("inspector").hidden = true; render(); }
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

function keyDown(event) {
  const names = state.setup?.models[state.models].methods ?? [];
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
  else if (names[Number(event.key) - 1]) { choose(names[Number(event.key) - 1]); return; }
  else return;
  event.preventDefault();
  stopShow();
  changed();
}

let showing = 0;
function stopShow() {
  cancelAnimationFrame(showing);
  showing = 0;
  $("show").textContent = "▶ Show me";
}

// A cover comes in from the side and stops over nearly half of the object.
function show() {
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

// Choosing

function choose(method) {
  state.method = method;
  for (const card of document.querySelectorAll(".card")) {
    const own = card.dataset.method === method;
    card.setAttribute("aria-checked", own);
    card.tabIndex = own ? 0 : -1;
  }
  if (state.selected && state.selected.method !== method) {
    state.selected = null;
    $("inspector").hidden = true;
  }
  if (state.result) render();
}

function makeCards() {
  const { methods } = state.setup.models[state.models];
  $("cards").replaceChildren(...methods.map((method) => {
    const card = element("div", { class: "card", role: "radio", "data-method": method }, [
      element("div", { class: "head" }, [element("b", {}, [method]), element("span", { class: "status" })]),
      element("canvas", { "aria-hidden": "true" }),
      element("div", { class: "meter" }, [
        element("span", { class: "fill" }), element("span", { class: "ghost", title: "before covering" }),
        element("span", { class: "tick", title: "threshold" }),
      ]),
      element("div", { class: "foot" }, [element("span", {}, [SAYS[method]]), element("span", { class: "score" })]),
    ]);
    card.style.setProperty("--own", COLOURS[method]);
    card.addEventListener("click", () => choose(method));
    card.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === " " || event.key === "Enter") choose(method);
      else if (step) {
        const next = methods[(methods.indexOf(method) + step + methods.length) % methods.length];
        choose(next);
        document.querySelector(`[data-method="${next}"]`).focus();
      } else return;
      event.preventDefault();
    });
    return card;
  }));
  choose(methods.includes(state.method) ? state.method : methods.at(-1));
  fit();
}

function makeSliders() {
  const own = state.setup.models[state.models];
  state.settings = { ...state.setup.settings, alpha: own.alpha };
  $("sliders").replaceChildren(...SLIDERS.map(([name, title, low, high, step, says]) => {
    const idle = ["alpha", "shift"].includes(name) && own.alpha === null;
    const input = element("input", {
      type: "range", id: `slider-${name}`, min: low, max: high, step, value: state.settings[name] ?? 0,
    });
    input.disabled = idle;
    const output = element("output", { for: input.id });
    const write = () => {
      const value = Number(input.value);
      output.textContent = name !== "shift" ? value.toFixed(step < 0.01 ? 3 : 2)
        : `${signed(value)} → ${own.u.map((u) => (u + value).toFixed(3)).join(", ")}`;
      input.setAttribute("aria-valuetext", output.textContent);
    };
    write();
    input.addEventListener("input", () => {
      state.settings[name] = Number(input.value);
      write();
      changed({ clean: true });
    });
    return element("div", { class: "slider" }, [
      element("label", { for: input.id }, [title]), output, input, element("small", {}, [says]),
    ]);
  }));
}

function setModels(number) {
  state.models = number;
  state.result = null;
  state.selected = null;
  makeSliders();
  makeCards();
  if (state.scene >= 0) setScene(state.scene);
  else if (state.base) { state.watched = null; changed({ clean: true }); }
}

function setPicture(bitmap, watched) {
  state.base = bitmap;
  state.watched = watched;
  state.result = state.selected = state.hovered = null;
  composed.width = bitmap.width;
  composed.height = bitmap.height;
  $("frame").style.aspectRatio = `${bitmap.width} / ${bitmap.height}`;
  cover.reset(bitmap.width, bitmap.height);
  stopShow();
  fit();
  changed({ clean: true });
}

let wanted = 0;
async function setScene(number) {
  const mine = ++wanted;
  state.scene = number;
  for (const [i, button] of [...$("scenes").children].entries()) {
    button.setAttribute("aria-checked", i === number);
    button.tabIndex = i === Math.max(0, number) ? 0 : -1;
  }
  if (number < 0) return;
  hush();
  try {
    const [picture, about] = await Promise.all([
      ask(`/api/scenes/${number}/picture.png`).then((r) => r.blob()).then((b) => createImageBitmap(b)),
      ask(`/api/scenes/${number}`).then((r) => r.json()),
    ]);
    if (mine !== wanted) return;
    const label = state.setup.models[state.models].label;
    setPicture(picture, about.objects.find((o) => o.label === label)?.full ?? null);
  } catch (error) {
    complain(error.message);
  }
}

async function setPhoto(file) {
  hush();
  if (!file) return;
  const most = state.setup.limits.upload_bytes;
  if (file.size > most) {
    complain(`${file.name}: ${(file.size / 2 ** 20).toFixed(1)} MiB is more than the limit of ${most / 2 ** 20} MiB.`);
    return;
  }
  const mine = ++wanted;
  try {
    const response = await ask("/api/photo", { method: "POST", body: file });
    const picture = await createImageBitmap(await response.blob());
    if (mine !== wanted) return;
    setScene(-1);
    setPicture(picture, null);
  } catch (error) {
    complain(`${file.name}: ${error.message.replace(/^photo: /, "")}`);
  }
}

function makeScenes() {
  const count = state.setup.scenes;
  $("scenes").replaceChildren(...Array.from({ length: count }, (_, number) => {
    const button = element("button", { type: "button", role: "radio", "aria-label": `Scene ${number + 1}` }, [
      element("img", { src: `/api/scenes/${number}/thumbnail.jpg`, alt: "", width: 88, height: 66 }),
    ]);
    button.addEventListener("click", () => setScene(number));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (number + step + count) % count;
      setScene(next);
      $("scenes").children[next].focus();
    });
    return button;
  }));
}

// Small things

function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function complain(line) {
  $("message").textContent = line;
  $("message").hidden = false;
}

function hush() {
  $("message").hidden = true;
}

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function saveJson() {
  const content = {
    settings: state.settings, models: state.setup.models[state.models].name,
    watched: state.watched, cover: cover.patches, ...state.result,
  };
  save(new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }), "halfseen.json");
}

function savePng() {
  const [picture, stage] = [$("picture"), $("stage")];
  const canvas = element("canvas", { width: picture.width, height: picture.height });
  const ctx = canvas.getContext("2d");
  ctx.drawImage(picture, 0, 0);
  ctx.drawImage(stage, 0, 0);
  canvas.toBlob((blob) => save(blob, `halfseen-${state.method}.png`));
}

function listen() {
  $("stage").addEventListener("pointerdown", startDrag);
  $("stage").addEventListener("keydown", keyDown);
  $("show").addEventListener("click", show);
  $("clear").addEventListener("click", () => { stopShow(); cover.clear(); changed(); });
  $("reset").addEventListener("click", () => { makeSliders(); changed({ clean: true }); });
  $("save-json").addEventListener("click", saveJson);
  $("save-png").addEventListener("click", savePng);
  $("models").addEventListener("change", (event) => setModels(Number(event.target.value)));
  $("photo").addEventListener("change", (event) => {
    setPhoto(event.target.files[0]);
    event.target.value = "";
  });
  $("follow").addEventListener("click", () => {
    state.watched = state.selected.full;
    changed({ clean: true });
  });
  for (const input of document.querySelectorAll("input[name=tool]")) {
    input.addEventListener("change", () => { state.tool = input.value; drawStage(); });
  }
  for (const input of document.querySelectorAll("input[name=texture]")) {
    input.addEventListener("change", () => {
      cover.texture = input.value;
      if (cover.patch) { cover.patch.texture = input.value; changed(); }
    });
  }
  let depth = 0;
  const files = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  window.addEventListener("dragenter", (e) => { if (files(e)) { depth++; $("drop").classList.add("on"); } });
  window.addEventListener("dragleave", (e) => { if (files(e) && --depth <= 0) $("drop").classList.remove("on"); });
  window.addEventListener("dragover", (e) => e.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    $("drop").classList.remove("on");
    if (event.dataTransfer.files.length) setPhoto(event.dataTransfer.files[0]);
  });
  new ResizeObserver(() => { fit(); if (state.result) render(); else drawStage(); }).observe($("frame"));
}

async function begin() {
  try {
    state.setup = await (await ask("/api/setup")).json();
  } catch (error) {
    complain(error.message);
    return;
  }
  $("models").replaceChildren(...state.setup.models.map((set, i) => element("option", { value: i }, [set.name])));
  listen();
  makeScenes();
  makeSliders();
  makeCards();
  setScene(0);
}

begin();
