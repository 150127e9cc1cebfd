// One look for detections: the object's blocks tinted, hidden ones dimmed and hatched, its
// background as it is; the whole object dashed, its visible part solid. What is less probable than not
// is a hairline, unless it is selected or followed. Coordinates are pixels of the picture; `scale`
// makes them the canvas's.

import { sure } from "/state.js";

export const COLOURS = { Rigid: "#d55e00", BL: "#d55e00", BLT: "#e69f00", VIS: "#56b4e9", "VIS+NMS": "#009e73" };
const FOR = [86, 180, 233];
const AGAINST = [230, 120, 20];

export function drawDetections(ctx, scale, size, detections, colour, options = {}) {
  const { line = 2, labels = true, selected = -1, followed = null } = options;
  const hatch = hatching(ctx, colour, Math.max(5, 3 * line));
  const meant = (d) => d.index === selected || String(d.window) === String(followed?.window);
  const weak = detections.filter((d) => d.probability < 0.5 && !meant(d));
  const drawn = detections.filter((d) => !weak.includes(d));
  ctx.canvas.dataset.detections = drawn.length;
  for (const d of weak) box(ctx, scale, d.visible, "#ddd", 0.3 * line, []);
  for (const d of [...drawn].reverse()) drawBlocks(ctx, scale, size, d, colour, hatch);
  for (const d of [...drawn].reverse()) {
    const bold = d.index === selected ? 1.8 : 1;
    box(ctx, scale, d.full, colour, line * 0.8 * bold, [line * 3, line * 2.2]);
    box(ctx, scale, d.visible, colour, line * bold, []);
  }
  const taken = [];
  if (labels) for (const d of drawn) label(ctx, scale, size, d, colour, taken);
}

function drawBlocks(ctx, scale, [width, height], d, colour, hatch) {
  const rows = d.blocks.length;
  const cols = d.blocks[0].length;
  const [x1, y1, x2, y2] = d.window;
  const [bw, bh] = [(x2 - x1) / cols, (y2 - y1) / rows];
  ctx.save();
  ctx.beginPath();
  const left = Math.max(0, d.full[0]), top = Math.max(0, d.full[1]);
  const right = Math.min(width, d.full[2]), bottom = Math.min(height, d.full[3]);
  ctx.rect(left * scale, top * scale, (right - left) * scale, (bottom - top) * scale);
  ctx.clip();
  // One letter a block: o object, g ground, h hidden, . outside the image.
  const own = (r, c) => d.blocks[r][c] === "o";
  const hidden = (r, c) => d.blocks[r][c] === "h";
  for (const [drawn, paints] of [[own, [[colour, 0.26]]], [hidden, [["#000", 0.5], [hatch, 0.95]]]]) {
    ctx.beginPath();
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        if (!drawn(r, c)) continue;
        // Whole canvas pixels, so that no seams show between blocks.
        const l = Math.round((x1 + c * bw) * scale), t = Math.round((y1 + r * bh) * scale);
        const w = Math.round((x1 + (c + 1) * bw) * scale) - l;
        ctx.rect(l, t, w, Math.round((y1 + (r + 1) * bh) * scale) - t);
      }
    }
    for (const [fill, opacity] of paints) {
      ctx.globalAlpha = opacity;
      ctx.fillStyle = fill;
      ctx.fill();
    }
  }
  ctx.restore();
}

export function box(ctx, scale, [x1, y1, x2, y2], colour, width, dash) {
  ctx.save();
  ctx.setLineDash(dash);
  for (const [stroke, wide] of [["rgb(0 0 0 / 0.45)", width + 2], [colour, width]]) {
    ctx.strokeStyle = stroke;
    ctx.lineWidth = wide;
    ctx.strokeRect(x1 * scale, y1 * scale, (x2 - x1) * scale, (y2 - y1) * scale);
  }
  ctx.restore();
}

// Above the box; where another label is, or there is no room, below it or lower and lower in it.
function label(ctx, scale, [width, height], d, colour, taken) {
  const seen = Math.round(100 * d.visible_fraction);
  const text = `${d.label} ${sure(d)}, ${seen}% seen`;
  const ratio = ctx.canvas.width / (ctx.canvas.clientWidth || ctx.canvas.width);
  const size = 13 * ratio;
  ctx.font = `600 ${size}px system-ui, sans-serif`;
  const w = ctx.measureText(text).width + size;
  const h = size * 1.5;
  const x = Math.max(0, Math.min(d.visible[0] * scale, width * scale - w));
  const above = d.visible[1] * scale - h;
  const lower = Array.from({ length: 6 }, (_, k) => d.visible[1] * scale + k * h);
  const places = [above, d.visible[3] * scale, ...lower].filter((at) => at >= 0 && at + h <= height * scale);
  const free = (at) => taken.every(([x1, y1, x2, y2]) => x >= x2 || x + w <= x1 || at >= y2 || at + h <= y1);
  const y = places.find(free) ?? places[0] ?? 0;
  taken.push([x, y, x + w, y + h]);
  ctx.fillStyle = colour;
  ctx.fillRect(x, y, w, h);
  ctx.fillStyle = luminance(colour) > 110 ? "#000" : "#fff";
  ctx.textBaseline = "middle";
  ctx.fillText(text, x + size / 2, y + h / 2 + 1);
}

function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b;
}

const tiles = new Map();
function hatching(ctx, colour, period) {
  const side = Math.round(period);
  const key = colour + side;
  if (!tiles.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = side;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(1, side / 4.5);
    for (const shift of [-side, 0, side]) {
      pen.beginPath();
      pen.moveTo(shift - 1, side + 1);
      pen.lineTo(shift + side + 1, -1);
      pen.stroke();
    }
    tiles.set(key, tile);
  }
  return ctx.createPattern(tiles.get(key), "repeat");
}

// Corner marks around the object whose score is followed.
export function corners(ctx, scale, [x1, y1, x2, y2], line) {
  const arm = Math.min(x2 - x1, y2 - y1) * scale * 0.12;
  for (const [stroke, wide] of [["rgb(0 0 0 / 0.6)", line + 2], ["#fff", line]]) {
    ctx.strokeStyle = stroke;
    ctx.lineWidth = wide;
    for (const [x, y, dx, dy] of [[x1, y1, 1, 1], [x2, y1, -1, 1], [x1, y2, 1, -1], [x2, y2, -1, -1]]) {
      ctx.beginPath();
      ctx.moveTo(x * scale + dx * arm, y * scale);
      ctx.lineTo(x * scale, y * scale);
      ctx.lineTo(x * scale, y * scale + dy * arm);
      ctx.stroke();
    }
  }
}

// The frame and the resizing corner of the chosen patch.
export function handles(ctx, scale, patch, line) {
  const [x, y] = [patch.x * scale, patch.y * scale];
  const [w, h] = [patch.w * scale, patch.h * scale];
  ctx.save();
  ctx.strokeStyle = "#fff";
  ctx.lineWidth = line;
  ctx.setLineDash([4 * line, 3 * line]);
  ctx.strokeRect(x, y, w, h);
  ctx.restore();
  ctx.fillStyle = "#fff";
  ctx.strokeStyle = "#000";
  ctx.lineWidth = line / 2;
  ctx.beginPath();
  ctx.arc(x + w, y + h, 4.5 * line, 0, 7);
  ctx.fill();
  ctx.stroke();
}

// The detection's own window, cut out of the picture, with its grid and the flags of its score.
export function drawWindow(canvas, picture, inspected, colour) {
  const d = inspected.detection;
  const { ctx, side, rows, cols } = grid(canvas, d);
  const [x1, y1, x2, y2] = d.window;
  ctx.fillStyle = "#777";
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(picture, x1, y1, x2 - x1, y2 - y1, 0, 0, cols * side, rows * side);
  const hatch = hatching(ctx, colour, 9);
  each(rows, cols, (r, c) => {
    if (inspected.outside[r][c] === "1") {
      ctx.fillStyle = "#777";
      ctx.fillRect(c * side, r * side, side, side);
    } else if (inspected.flags[r][c] === "h") {
      ctx.fillStyle = "rgb(0 0 0 / 0.5)";
      ctx.fillRect(c * side, r * side, side, side);
      ctx.fillStyle = hatch;
      ctx.fillRect(c * side, r * side, side, side);
    }
    ctx.strokeStyle = "rgb(255 255 255 / 0.28)";
    ctx.strokeRect(c * side + 0.5, r * side + 0.5, side, side);
  });
}

// w_i . B_i of every block, blue for and orange against the object; a dot where it is hidden.
export function drawResponses(canvas, inspected) {
  const d = inspected.detection;
  const { ctx, side, rows, cols } = grid(canvas, d);
  const most = Math.max(1e-6, ...inspected.responses.flat().map(Math.abs));
  each(rows, cols, (r, c) => {
    const value = inspected.responses[r][c];
    const part = Math.sqrt(Math.abs(value) / most);
    const tone = (value > 0 ? FOR : AGAINST).map((v) => Math.round(250 + (v - 250) * part));
    ctx.fillStyle = inspected.outside[r][c] === "1" ? "#777" : `rgb(${tone})`;
    ctx.fillRect(c * side, r * side, side - 1, side - 1);
    if (inspected.flags[r][c] === "h" && inspected.outside[r][c] !== "1") {
      ctx.fillStyle = "#000";
      ctx.beginPath();
      ctx.arc((c + 0.5) * side, (r + 0.5) * side, side * 0.13, 0, 7);
      ctx.fill();
    }
  });
}

function grid(canvas, d) {
  const rows = d.blocks.length;
  const cols = d.blocks[0].length;
  const side = Math.floor(480 / Math.max(rows, cols));
  canvas.width = cols * side;
  canvas.height = rows * side;
  return { ctx: canvas.getContext("2d"), side, rows, cols };
}

function each(rows, cols, visit) {
  for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) visit(r, c);
}
