// The list of detections, and one of them taken apart: its blocks, its sum, its neighbours.

import { COLOURS, drawResponses, drawWindow } from "/draw.js";
import { compose, post } from "/live.js";
import { drawStage } from "/show.js";
import { $, complain, composed, element, report, signed, state, sure } from "/state.js";

export function listDetections() {
  const shown = report();
  $("found-method").textContent = state.method;
  const items = (shown?.detections ?? []).map((d) => {
    const button = element("button", { type: "button" }, [
      element("b", {}, [sure(d)]),
      ` ${d.label}, ${Math.round(100 * d.visible_fraction)}% seen`,
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

export function select(detection) {
  state.selected = { method: state.method, index: detection.index, full: detection.full };
  drawStage();
  listDetections();
  inspectSelected().catch((error) => error.name === "AbortError" || complain(error.message));
}

export function deselect() {
  state.selected = null;
  $("inspector").hidden = true;
}

// After a change the selected detection is the one that overlaps it most.
export function reselect() {
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

export async function inspectSelected() {
  $("inspector").hidden = !state.selected;
  if (!state.selected) return;
  const { method, index } = state.selected;
  compose();
  const inspected = await post("/api/inspect", { method, index });
  if (state.selected?.index !== index || state.selected.method !== method) return;
  drawWindow($("window-view"), composed, inspected, COLOURS[method]);
  drawResponses($("response-view"), inspected);
  showSum(inspected);
  showNeighbours(inspected);
}

function showSum({ sum, detection, flags, window_score }) {
  const same = flags.join() === detection.blocks.join().replaceAll("g", "o");
  const seen = Math.round(100 * detection.visible_fraction);
  $("window-caption").textContent = "The window, and the blocks that its score counts as hidden. "
    + (same ? "" : `On the picture the mask head decides: ${seen}% seen.`);

  const rows = [
    ["bias b", sum.bias],
    [`${sum.visible_blocks} visible blocks`, sum.visible],
    [`${sum.hidden_blocks} hidden blocks × u = ${sum.u.toFixed(4)}`, sum.hidden_blocks * sum.u],
    [`${sum.outside_blocks} blocks outside × uₜ = ${sum.u_t.toFixed(4)}`, sum.outside_blocks * sum.u_t],
    [`${sum.edges} borders seen | hidden × −α = ${(-sum.alpha).toFixed(3)}`, -sum.edges * sum.alpha],
    ["votes of the neighbours it suppressed", detection.score - window_score],
  ];
  const body = rows.map(([name, value]) => element("tr", {}, [
    element("th", { scope: "row" }, [name]), element("td", {}, [signed(value)]),
  ]));
  body.push(element("tr", { class: "total" }, [
    element("th", { scope: "row" }, ["score reported"]), element("td", {}, [signed(detection.score)]),
  ]));
  $("sum").querySelector("tbody").replaceChildren(...body);
}

function showNeighbours({ neighbours, suppressed, limit, method }) {
  const measure = method === "VIS+NMS" ? "of what both see is shared" : "of its box is inside this one";
  $("neighbours-title").textContent = suppressed
    ? `Suppressed neighbours: ${suppressed}` : "No neighbour was suppressed";
  $("neighbours").replaceChildren(...neighbours.map((d) => {
    const why = `${Math.round(100 * d.overlap)}% ${measure}: above η = ${Math.round(100 * limit)}%`;
    const item = element("button", { type: "button" }, [element("b", {}, [sure(d)]), ` ${why}`]);
    for (const on of ["pointerenter", "focus"]) item.addEventListener(on, () => hover(d.full));
    for (const off of ["pointerleave", "blur"]) item.addEventListener(off, () => hover(null));
    return element("li", {}, [item]);
  }));
}
