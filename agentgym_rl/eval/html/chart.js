// The charts of every page: lines, bands and stacked areas as SVG. html/chart.py says what a chart consists of.

const MARGIN = { left: 46, right: 16, top: 10, bottom: 42 };
const MOST = 150; // points that a line is drawn with
const DASHES = { "-": null, "--": "7 4", ":": "2 3", "-.": "7 3 2 3" };

// The round number (1, 2 or 5 times a power of ten) that divides a span into about "count" parts.
function roundStep(span, count, whole) {
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power * count >= span * 0.999);
  return whole ? Math.max(1, Math.ceil(step)) : step;
}

function ticks(from, to, step) {
  const first = Math.ceil(from / step - 1e-9), last = Math.floor(to / step + 1e-4);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => (first + place) * step);
}

// 1.5M, 2k, 150, 0.25.
function short(value) {
  const [size, unit] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([one]) => value >= one) || [1, ""];
  return Number((value / size).toPrecision(4)) + unit;
}

// Places of at most MOST of "count" points, evenly spaced, the first and the last among them.
function thinned(count) {
  if (count <= MOST) return Array.from({ length: count }, (_, place) => place);
  return Array.from({ length: MOST }, (_, place) => Math.round((place * (count - 1)) / (MOST - 1)));
}

function greatest(lists) {
  return lists.reduce((most, values) => values.reduce((one, other) => Math.max(one, other), most), -Infinity);
}

// The chart against one of its axes; null where no line has that axis.
function chart(data, axis) {
  const lines = data.lines.filter((line) => line.x[axis]);
  if (!lines.length) return null;
  const { width, height } = data, right = width - MARGIN.right, base = height - MARGIN.bottom;
  const from = data.from ?? 0;
  const to = Math.max(greatest(lines.map((line) => line.x[axis])), from) || 1;
  const x = (value) => round(MARGIN.left + ((right - MARGIN.left) * (value - from)) / (to - from || 1));
  const y = (value) => round(base - ((base - MARGIN.top) * value) / data.top);
  const grid = ticks(0, data.top, roundStep(data.top, 5, data.whole)).map((tick) => [
    svg("line", { x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick), class: "grid" }),
    svg("text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick))]);
  const steps = ticks(from, to, roundStep(to - from || 1, 6, axis !== "minutes" && axis !== "seconds"));
  const marks = steps.map((tick) => svg("text", { x: x(tick), y: base + 18, "text-anchor": "middle" }, short(tick)));
  const label = svg("text", { x: (MARGIN.left + right) / 2, y: height - 6, "text-anchor": "middle" }, data.axes[axis]);
  const drawn = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "chart", tabindex: 0, role: "img",
    "aria-label": `${data.name}, by ${data.axes[axis]}; the arrow keys step through the points`,
  }, svg("g", { "aria-hidden": "true" }, grid, marks, label), lines.map((line) => series(line, axis, x, y)));
  walk(drawn);
  return drawn;
}

function round(value) {
  return Math.round(10 * value) / 10;
}

function series(line, axis, x, y) {
  const chosen = line.filled ? line.y.map((_, place) => place) : thinned(line.y.length);
  const xs = chosen.map((place) => x(line.x[axis][place]));
  const path = (values) => {
    const points = chosen.map((place, at) => [xs[at], y(values[place])]);
    if (!line.stepped) return points;
    return points.flatMap((point, at) => (at + 1 < points.length ? [point, [xs[at + 1], point[1]]] : [point]));
  };
  const listed = (points) => points.map((point) => point.join(",")).join(" ");
  const band = line.band && xs.length > 1 ? svg("polygon", {
    points: listed([...path(line.band[1]), ...path(line.band[0]).reverse()]), class: line.filled ? "area" : "band",
  }) : null;
  const dots = line.filled ? [] : chosen.map((place, at) => {
    const dot = svg("circle", { cx: xs[at], cy: y(line.y[place]), r: 3, class: line.hollow ? "hollow" : null });
    dot.dataset.says = line.says[place] ?? "";
    return dot;
  });
  const middle = line.filled ? null
    : svg("polyline", { points: listed(path(line.y)), class: "line", "stroke-dasharray": DASHES[line.dashes] });
  const node = svg("g", { class: "series" + (xs.length > 30 ? " crowded" : "") }, band, middle, dots);
  Object.assign(node.dataset, { key: line.key, label: line.label });
  return coloured(node, line.colour);
}

let shown = null;

function pointAt(dot) {
  shown?.classList.remove("shown");
  shown = dot;
  shown?.classList.add("shown");
  tell(dot && dot.dataset.says, dot?.getBoundingClientRect());
}

function nearest(dots, x, y) {
  let best = null, least = Infinity;
  for (const dot of dots) {
    const box = dot.getBoundingClientRect();
    const far = Math.hypot(box.left + box.width / 2 - x, (box.top + box.height / 2 - y) / 2);
    if (far < least) { least = far; best = dot; }
  }
  return best;
}

// Say what a point is under the pointer, and step through the points with the arrow keys.
function walk(drawn) {
  const lines = () => [...drawn.querySelectorAll(".series:not(.off)")]
    .map((line) => [...line.querySelectorAll("circle")]).filter((dots) => dots.length);
  drawn.addEventListener("pointermove", (event) => pointAt(nearest(lines().flat(), event.clientX, event.clientY)));
  drawn.addEventListener("pointerleave", () => pointAt(null));
  drawn.addEventListener("focusout", () => pointAt(null));
  drawn.addEventListener("keydown", (event) => {
    const all = lines();
    if (!all.length) return;
    if (event.key === "Escape") return pointAt(null);
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    event.stopPropagation();
    const row = all.findIndex((line) => line.includes(shown));
    if (row < 0) return pointAt(all[0][0]);
    const place = all[row].indexOf(shown), last = all[row].length - 1;
    if (event.key === "ArrowRight") return pointAt(all[row][Math.min(place + 1, last)]);
    if (event.key === "ArrowLeft") return pointAt(all[row][Math.max(place - 1, 0)]);
    const to = (row + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length;
    const box = shown.getBoundingClientRect();
    pointAt(nearest(all[to], box.left + box.width / 2, box.top));
  });
}
addEventListener("scroll", () => shown && pointAt(shown), { passive: true });
