// The lanes of a timeline on a canvas: zoomed, moved and hovered. Below them the chart of what goes on at a time.

const data = JSON.parse(by("data").textContent);
const box = by("lanes"), canvas = box.querySelector("canvas"), spacer = box.querySelector("div");
const context = canvas.getContext("2d");
const AXIS = 22, ROW = data.lanes.length > 200 ? 9 : 18;
const gutter = () => Math.min(170, box.clientWidth / 4);
const whole = Math.max(...data.lanes.map(({spans}) => spans[spans.length - 1][1] + spans[spans.length - 1][2])) || 1;
let from = 0, to = whole;

const x = time => gutter() + (time - from) / (to - from) * (box.clientWidth - gutter());
const time = at => from + (at - gutter()) / (box.clientWidth - gutter()) * (to - from);

function view(start, length) {
  length = Math.min(whole, Math.max(length, whole * 1e-6));
  from = Math.min(Math.max(0, start), whole - length);
  to = from + length;
  draw();
}
const zoom = (factor, about) => view(about - (about - from) / factor, (to - from) / factor);

function draw() {
  const ratio = devicePixelRatio || 1, width = box.clientWidth;
  const height = Math.min(AXIS + ROW * data.lanes.length + 4, parseFloat(getComputedStyle(box).maxHeight) || 620);
  canvas.style.height = height + "px";
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  spacer.style.height = Math.max(0, AXIS + ROW * data.lanes.length + 4 - height) + "px";
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const [muted, grid, ...hues] = ["muted", "grid", ...data.colours].map((name) => getComputedStyle(probe(name)).color);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const step = roundStep(to - from, Math.max(2, (width - gutter()) / 110));
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.fillStyle = muted;
  for (const one of ticks(from, to, step)) {
    const shown = one.toFixed(digits) + " s", wide = context.measureText(shown).width;
    context.fillText(shown, Math.min(Math.max(x(one) - wide / 2, gutter()), width - wide - 4), AXIS / 2);
    context.fillStyle = grid;
    context.fillRect(x(one), AXIS, 1, height);
    context.fillStyle = muted;
  }
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  const first = Math.max(0, Math.floor(box.scrollTop / ROW));
  for (let row = first; row < data.lanes.length; row++) {
    const top = AXIS + row * ROW - box.scrollTop;
    if (top > height) break;
    const lane = data.lanes[row];
    for (const [kind, start, seconds] of lane.spans) {
      if (start > to || start + seconds < from) continue;
      const left = Math.max(x(start), gutter()), right = Math.min(x(start + seconds), width);
      context.fillStyle = hues[kind];
      context.fillRect(left, top + 1, Math.max(right - left, 0.5), ROW - 2);
    }
    if (ROW > 12 || row % 2 === 0) {
      context.fillStyle = muted;
      context.save();
      context.beginPath();
      context.rect(0, AXIS, gutter() - 6, height);
      context.clip();
      context.fillText(lane.name, 8, top + ROW / 2);
      context.restore();
    }
  }
  context.restore();
}

// An element of a colour of the palette: a canvas cannot read CSS variables.
const probes = {};
function probe(name) {
  if (!probes[name]) {
    const one = probes[name] = el("i", { hidden: true });
    one.style.color = `var(--${name})`;
    document.body.append(one);
  }
  return probes[name];
}

function says(event) {
  const at = canvas.getBoundingClientRect(), left = event.clientX - at.left, top = event.clientY - at.top;
  const lane = data.lanes[Math.floor((top - AXIS + box.scrollTop) / ROW)];
  if (top < AXIS || !lane) return "";
  if (left < gutter()) return lane.says;
  const now = time(left), slack = (to - from) / (box.clientWidth - gutter());
  const hit = lane.spans.find(([, start, seconds]) => now >= start && now <= start + seconds)
    || lane.spans.find(([, start, seconds]) => now >= start - slack && now <= start + seconds + slack);
  if (!hit) return lane.says;
  const [kind, start, seconds, label] = hit;
  return data.kinds[kind] + ", " + label + ": " + (1000 * seconds).toFixed(seconds < 0.01 ? 3 : 1) + " ms from "
    + start.toFixed(3) + " s\n" + lane.says;
}

let held = null;
canvas.addEventListener("pointermove", event => {
  if (held) {
    const per = (to - from) / (box.clientWidth - gutter());
    view(held.from - (event.clientX - held.x) * per, to - from);
    box.scrollTop = held.top - (event.clientY - held.y);
  }
  tell(says(event), new DOMRect(event.clientX, event.clientY, 1, 1));
});
canvas.addEventListener("pointerdown", event => {
  held = {x: event.clientX, y: event.clientY, from: from, top: box.scrollTop};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointerup", () => { held = null; });
canvas.addEventListener("pointercancel", () => { held = null; });
canvas.addEventListener("pointerleave", () => tell(null));
canvas.addEventListener("wheel", event => {
  if (!event.ctrlKey && !event.shiftKey && !event.altKey) return;
  event.preventDefault();
  const turned = event.deltaY || event.deltaX;
  zoom(turned < 0 ? 1.25 : 0.8, time(Math.max(gutter(), event.clientX - canvas.getBoundingClientRect().left)));
}, {passive: false});
canvas.addEventListener("dblclick", () => view(0, whole));
canvas.addEventListener("keydown", event => {
  const keys = {
    "+": () => zoom(2, (from + to) / 2), "=": () => zoom(2, (from + to) / 2), "-": () => zoom(0.5, (from + to) / 2),
    "0": () => view(0, whole), ArrowLeft: () => view(from - (to - from) / 8, to - from),
    ArrowRight: () => view(from + (to - from) / 8, to - from),
    ArrowUp: () => { box.scrollTop -= 3 * ROW; }, ArrowDown: () => { box.scrollTop += 3 * ROW; },
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
for (const button of document.querySelectorAll("[data-zoom]"))
  button.addEventListener("click", () => {
    const factor = Number(button.dataset.zoom);
    factor ? zoom(factor, (from + to) / 2) : view(0, whole);
  });
box.addEventListener("scroll", draw);
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
atWidth(by("concurrency"), (width) => by("concurrency").replaceChildren(chart({ ...data.concurrency, width }, "seconds") || ""));
