// The answers on the picture, on the cards, and in a sentence.

import { COLOURS, box, corners, drawDetections, handles } from "/draw.js";
import { compose } from "/live.js";
import { $, composed, cover, report, state, sure } from "/state.js";

const RANGE = [-1.5, 3]; // of the score bars

const scaleOf = (canvas) => canvas.width / composed.width;

export function fit() {
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

export function drawStage() {
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
    const look = { line: 2 * line, selected, followed: shown.watched };
    drawDetections(ctx, scale, size, shown.detections, COLOURS[state.method], look);
  }
  if (state.hovered) box(ctx, scale, state.hovered, "#ddd", 2 * line, [2 * line, 2 * line]);
  if (cover.patch && state.tool === "drag") handles(ctx, scale, cover.patch, 1.5 * line);
  $("hint").hidden = !cover.empty;
}

export function drawCards() {
  for (const result of state.result.methods) {
    const card = document.querySelector(`[data-method="${result.method}"]`);
    if (!card) continue;
    const canvas = card.querySelector("canvas");
    const ctx = canvas.getContext("2d");
    ctx.drawImage(composed, 0, 0, canvas.width, canvas.height);
    const size = [composed.width, composed.height];
    const line = Math.max(1.2, canvas.width / 220);
    const look = { line, labels: false, followed: result.watched };
    drawDetections(ctx, scaleOf(canvas), size, result.detections, COLOURS[result.method], look);
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
  card.querySelector(".score").textContent = now ? sure(now) : "–";
  const status = card.querySelector(".status");
  const seen = Math.round(100 * (now?.visible_fraction ?? 1));
  status.textContent = !state.watched ? "none found" : !now?.reported ? "✗ lost" : `✓ ${seen}% seen`;
  status.classList.toggle("lost", !now?.reported);
}

// Which share of the blocks that a detection calls hidden lies under the cover.
function hiddenUnder(d) {
  const [x1, y1, x2, y2] = d.window;
  const [wide, high] = [(x2 - x1) / d.blocks[0].length, (y2 - y1) / d.blocks.length];
  const shares = [];
  for (const [r, row] of d.blocks.entries()) {
    for (const [c, block] of [...row].entries()) {
      const [x, y] = [x1 + c * wide, y1 + r * high];
      if (block === "h") shares.push(cover.share([x, y, x + wide, y + high], composed.width, composed.height));
    }
  }
  return shares.reduce((a, b) => a + b, 0) / Math.max(1, shares.length);
}

export function tell() {
  const { label, learnt } = state.setup.models[state.models];
  if (!state.watched && state.scene < 0 && !state.classes.length) {
    $("story").textContent = "No class is found in this photo. Choose a detector and lower the threshold, or try another photo.";
    return;
  }
  if (!state.watched) {
    $("story").textContent = state.scene >= 0 && learnt !== "scenes"
      ? `No ${label} is found in this drawn scene: the detector learnt from other pictures. Drop in a photo.`
      : `No ${label} is found here. Lower the threshold, or try another picture.`;
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
      ? `You have covered nothing of the ${label} yet, and every method finds it. Now cover a part of it.`
      : `You have covered nothing of the ${label} yet, and ${list(losers)} ${losers.length > 1 ? "miss" : "misses"} it already.`;
  } else {
    text = `${share}% of the ${label}’s box is covered. `;
    text += losers.length ? `${list(losers)} lost it` : "All methods still find it";
    text += losers.length && finders.length ? `; ${list(finders)} still ${finders.length > 1 ? "find" : "finds"} it` : "";
    const vis = found("VIS");
    const hidden = Math.round(100 * (1 - (vis?.visible_fraction ?? 1)));
    text += ". ";
    if (vis?.reported && hidden) {
      text += hiddenUnder(vis) >= 0.5 ? `VIS says that ${hidden}% is hidden, and where.`
        : `VIS calls ${hidden}% hidden, but most of that is not under your cover.`;
    } else if (vis?.reported) text += "VIS takes nothing for hidden.";
  }
  if ($("story").textContent !== text) $("story").textContent = text;
  document.body.dataset.covered = share;
}
