// The page: what can be chosen, and what happens then.

import { COLOURS } from "/draw.js";
import { keyDown, show, startDrag, stopShow } from "/hand.js";
import { deselect, inspectSelected, listDetections, reselect } from "/inspect.js";
import { ask, changed, compose, hooks, post } from "/live.js";
import { drawCards, drawStage, fit, tell } from "/show.js";
import { $, complain, composed, cover, element, hush, signed, state, sure } from "/state.js";

const SAYS = {
  Rigid: "The templates of VIS, but every block counts.",
  BL: "A plain template: every block counts.",
  BLT: "Also knows the picture’s border.",
  VIS: "Knows hiding: blocks that do not fit may be hidden, each at a price.",
  "VIS+NMS": "And judges neighbours by what is visible of them.",
};
const SLIDERS = [
  ["threshold", "Threshold t", -1, 1.5, 0.05, "The lowest score that is reported."],
  ["alpha", "Togetherness α", 0, 0.3, 0.005, "How much hidden blocks must hang together."],
  ["shift", "Price of hiding u", -0.05, 0.05, 0.001, "Added to the learnt u: to the right hiding is cheaper."],
  ["overlap", "Overlap η", 0, 1, 0.05, "How much two reported objects may overlap."],
];

function render() {
  drawStage();
  drawCards();
  tell();
  listDetections();
}

hooks.stage = drawStage;
hooks.settled = inspectSelected;
hooks.answer = () => {
  reselect();
  render();
};

function choose(method) {
  state.method = method;
  for (const card of document.querySelectorAll(".card")) {
    const own = card.dataset.method === method;
    card.setAttribute("aria-checked", own);
    card.tabIndex = own ? 0 : -1;
  }
  if (state.selected?.method !== method) deselect();
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
    input.addEventListener("settings", write);
    input.addEventListener("input", () => {
      state.settings[name] = Number(input.value);
      write();
      changed({ clean: true });
    });
    return element("div", { class: "slider" }, [
      element("label", { for: input.id }, [title]), output, input, element("small", {}, [says]),
    ]);
  }));
  writeSliders();
}

function writeSliders() {
  for (const [name] of SLIDERS) {
    const input = $(`slider-${name}`);
    input.value = state.settings[name] ?? 0;
    input.dispatchEvent(new Event("settings"));
  }
}

function useModels(number) {
  state.models = number;
  state.result = null;
  state.selected = null;
  $("models").value = number;
  makeSliders();
  makeCards();
}

function setModels(number) {
  const found = state.classes.find((row) => row.models === number);
  if (found) { chooseClass(found); return; }
  useModels(number);
  markClass(null);
  if (state.scene >= 0) setScene(state.scene);
  else if (state.base) { state.watched = null; changed({ clean: true }); }
}

// Of a photo: one chip for each class that was found, the surest first.
function showClasses(rows) {
  state.classes = rows;
  $("classes").hidden = !rows.length;
  $("classes").replaceChildren(...rows.map((row) => {
    const text = `${row.label} ${sure(row)}${row.count > 1 ? ` × ${row.count}` : ""}`;
    const chip = element("button", { type: "button", role: "radio", "aria-checked": false }, [text]);
    chip.addEventListener("click", () => chooseClass(row));
    return chip;
  }));
}

function markClass(row) {
  for (const [i, chip] of [...$("classes").children].entries()) {
    chip.setAttribute("aria-checked", state.classes[i] === row);
  }
}

// Its model looks at the picture from now on, down to the weakest object that was counted.
function chooseClass(row) {
  useModels(row.models);
  markClass(row);
  state.settings.threshold = Math.min(state.settings.threshold, Math.floor(20 * row.lowest) / 20);
  writeSliders();
  state.watched = row.full;
  changed({ clean: true });
}

function showPicture(bitmap) {
  state.base = bitmap;
  state.result = state.selected = state.hovered = null;
  composed.width = bitmap.width;
  composed.height = bitmap.height;
  $("frame").style.aspectRatio = `${bitmap.width} / ${bitmap.height}`;
  cover.reset(bitmap.width, bitmap.height);
  document.body.dataset.version = ++state.version;
  stopShow();
  fit();
  drawStage();
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
  if (state.classes.length) { // the models that were chosen for a photo
    showClasses([]);
    useModels(0);
  }
  try {
    const [picture, about] = await Promise.all([
      ask(`/api/scenes/${number}/picture.png`).then((r) => r.blob()).then((b) => createImageBitmap(b)),
      ask(`/api/scenes/${number}`).then((r) => r.json()),
    ]);
    if (mine !== wanted) return;
    const { label, learnt } = state.setup.models[state.models];
    showPicture(picture);
    state.watched = about.objects.find((o) => o.label === label)?.full ?? null;
    state.guess = learnt !== "scenes";
    changed({ clean: true });
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
    const photo = wanted;
    showPicture(picture);
    showClasses([]);
    state.watched = null;
    $("story").textContent = "Looking for every class…";
    compose(false);
    const rows = await post("/api/classes");
    if (photo !== wanted) return;
    showClasses(rows);
    if (rows.length) chooseClass(rows[0]);
    else changed({ clean: true });
  } catch (error) {
    complain(`${file.name}: ${error.message.replace(/^photo: /, "")}`);
  }
}

function makeScenes() {
  const count = state.setup.scenes;
  $("scenes").replaceChildren(...Array.from({ length: count }, (_, number) => {
    const button = element("button", { type: "button", role: "radio", "aria-label": `Scene ${number + 1}` }, [
      element("img", { alt: "", width: 80, height: 60 }),
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

// One after another, so that nobody waits for them: scenes are drawn when they are first asked for.
async function loadThumbnails() {
  for (const [number, image] of [...$("scenes").querySelectorAll("img")].entries()) {
    image.src = `/api/scenes/${number}/thumbnail.jpg`;
    await image.decode().catch(() => {});
  }
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
  $("stage").addEventListener("keydown", (event) => {
    const method = state.setup.models[state.models].methods[Number(event.key) - 1];
    if (method) choose(method);
  });
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
  $("scenes").addEventListener("scroll", showMore);
  new ResizeObserver(showMore).observe($("scenes"));
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

// The strip of scenes fades at the end behind which there are more.
function showMore() {
  const strip = $("scenes");
  strip.classList.toggle("more", strip.scrollLeft + strip.clientWidth < strip.scrollWidth - 4);
  strip.classList.toggle("before", strip.scrollLeft > 4);
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
  await setScene(0);
  await loadThumbnails();
  showMore();
}

begin();
