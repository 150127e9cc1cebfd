// The cover: textured patches that can be dragged, and paint. Textured, so that what lies under it
// is not merely missing but looks like something else.

export const TEXTURES = { leaves, bricks, cloth };
const TILE = 96;
const HANDLE = 14;
const SMALLEST = 12;
const BRUSH = 17;

export class Cover {
  constructor() {
    this.patches = [];
    this.chosen = -1;
    this.texture = "leaves";
    this.paint = document.createElement("canvas");
    this.painted = false;
    this.tiles = {};
    for (const [name, draw] of Object.entries(TEXTURES)) this.tiles[name] = tile(draw);
  }

  // For a picture of another size: nothing is covered.
  reset(width, height) {
    this.paint.width = width;
    this.paint.height = height;
    this.clear();
  }

  clear() {
    this.patches = [];
    this.chosen = -1;
    this.painted = false;
    this.paint.getContext("2d").clearRect(0, 0, this.paint.width, this.paint.height);
  }

  get empty() {
    return !this.patches.length && !this.painted;
  }

  add(x, y, w, h) {
    this.patches.push({ x, y, w, h, texture: this.texture });
    this.chosen = this.patches.length - 1;
    return this.patches[this.chosen];
  }

  remove() {
    if (this.chosen >= 0) this.patches.splice(this.chosen, 1);
    this.chosen = this.patches.length - 1;
  }

  get patch() {
    return this.patches[this.chosen] ?? null;
  }

  // What is under a point: the topmost patch, and whether its corner for resizing.
  at(x, y) {
    for (let i = this.patches.length - 1; i >= 0; i--) {
      const p = this.patches[i];
      const corner = Math.abs(x - p.x - p.w) < HANDLE && Math.abs(y - p.y - p.h) < HANDLE;
      if (corner || (x >= p.x && x < p.x + p.w && y >= p.y && y < p.y + p.h)) {
        return { index: i, corner };
      }
    }
    return null;
  }

  static resize(patch, w, h) {
    patch.w = Math.max(SMALLEST, w);
    patch.h = Math.max(SMALLEST, h);
  }

  stroke(from, to, erase) {
    const ctx = this.paint.getContext("2d");
    ctx.save();
    ctx.globalCompositeOperation = erase ? "destination-out" : "source-over";
    ctx.strokeStyle = ctx.createPattern(this.tiles[this.texture], "repeat");
    ctx.lineWidth = 2 * BRUSH;
    ctx.lineCap = "round";
    ctx.beginPath();
    ctx.moveTo(from.x, from.y);
    ctx.lineTo(to.x + 0.01, to.y);
    ctx.stroke();
    ctx.restore();
    if (!erase) this.painted = true;
  }

  // Draws the cover over a picture of the same size.
  draw(ctx) {
    for (const p of this.patches) {
      ctx.save();
      ctx.translate(Math.round(p.x), Math.round(p.y));
      ctx.fillStyle = ctx.createPattern(this.tiles[p.texture], "repeat");
      ctx.fillRect(0, 0, Math.round(p.w), Math.round(p.h));
      ctx.restore();
    }
    if (this.painted) ctx.drawImage(this.paint, 0, 0);
  }

  // The share of a box that is covered.
  share(box, width, height) {
    const [x1, y1] = [Math.max(0, Math.round(box[0])), Math.max(0, Math.round(box[1]))];
    const w = Math.min(width, Math.round(box[2])) - x1;
    const h = Math.min(height, Math.round(box[3])) - y1;
    if (this.empty || w <= 0 || h <= 0) return 0;
    const canvas = new OffscreenCanvas(w, h);
    const ctx = canvas.getContext("2d", { willReadFrequently: true });
    ctx.translate(-x1, -y1);
    this.draw(ctx);
    const data = ctx.getImageData(0, 0, w, h).data;
    let covered = 0;
    for (let i = 3; i < data.length; i += 4) covered += data[i] > 127;
    return covered / (w * h);
  }
}

function tile(draw) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = TILE;
  draw(canvas.getContext("2d"), random(7));
  return canvas;
}

// Repeatable random numbers (mulberry32): the same cover on every machine.
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// Calls `draw` so that what crosses an edge comes back on the other side.
function wrapped(ctx, x, y, draw) {
  for (const dx of [-TILE, 0, TILE]) {
    for (const dy of [-TILE, 0, TILE]) {
      ctx.save();
      ctx.translate(x + dx, y + dy);
      draw();
      ctx.restore();
    }
  }
}

function leaves(ctx, next) {
  ctx.fillStyle = "#1f3a1c";
  ctx.fillRect(0, 0, TILE, TILE);
  for (let i = 0; i < 90; i++) {
    const light = i / 90;
    const [x, y, turn, long] = [next() * TILE, next() * TILE, next() * Math.PI, 6 + next() * 5];
    const [hue, bright] = [88 + next() * 30, 17 + 27 * light + next() * 7];
    wrapped(ctx, x, y, () => {
      ctx.rotate(turn);
      ctx.fillStyle = `hsl(${hue} 46% ${bright}%)`;
      ctx.strokeStyle = `hsl(${hue} 50% ${bright * 0.5}%)`;
      ctx.beginPath();
      ctx.moveTo(-long, 0);
      ctx.quadraticCurveTo(0, -long * 0.75, long, 0);
      ctx.quadraticCurveTo(0, long * 0.75, -long, 0);
      ctx.fill();
      ctx.stroke();
    });
  }
}

function bricks(ctx, next) {
  ctx.fillStyle = "#cfc6b8";
  ctx.fillRect(0, 0, TILE, TILE);
  for (let row = 0; row < 8; row++) {
    for (let col = 0; col < 4; col++) {
      const x = col * 24 + (row % 2) * 12;
      const tone = `hsl(${10 + next() * 10} ${40 + next() * 15}% ${34 + next() * 14}%)`;
      for (const shift of [0, -TILE]) {
        ctx.fillStyle = tone;
        ctx.fillRect(x + shift + 1, row * 12 + 1, 22, 10);
      }
    }
  }
}

function cloth(ctx) {
  ctx.fillStyle = "#efe6d8";
  ctx.fillRect(0, 0, TILE, TILE);
  ctx.fillStyle = "rgb(33 60 114 / 0.62)";
  for (let at = 0; at < TILE; at += 16) {
    ctx.fillRect(at, 0, 8, TILE);
    ctx.fillRect(0, at, TILE, 8);
  }
  ctx.fillStyle = "rgb(178 44 48 / 0.85)";
  for (let at = 4; at < TILE; at += 32) {
    ctx.fillRect(at, 0, 2, TILE);
    ctx.fillRect(0, at, TILE, 2);
  }
}
