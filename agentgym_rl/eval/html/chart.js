// The charts of every page as SVG: lines, bands, points with intervals, stacked areas and stacked bars. html/chart.py
// says what a chart consists of. A place in a chart can be read by pointer and by arrow keys, and pressed where the page
// gives it something to do.

const MARGIN = { left: 40, right: 14, top: 26, bottom: 42 };
const MOST = 150; // points that a line is drawn with
const DASHES = { "-": null, "--": "7 4", ":": "2 3", "-.": "7 3 2 3" };
const LETTER = 6.4; // about the width of one, in pixels
const SMALL = 0.87; // size of names that are close together

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

// 1.5M, 2k, 150, 0.25, 5e-4.
function short(value) {
  if (value && Math.abs(value) < 0.001) return Number(value.toPrecision(3)).toExponential();
  const [size, unit] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([one]) => Math.abs(value) >= one) || [1, ""];
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

function round(value) {
  return Math.round(10 * value) / 10;
}

// The chart against one of its axes; null where no line has that axis.
function chart(data, axis) {
  const lines = data.lines.filter((line) => line.x[axis]);
  if (!lines.length) return null;
  const names = data.names?.length ? data.names : null;
  const { right, base, slant, height } = room(data, names, data.axes[axis]);
  const from = names ? -0.5 : data.from ?? 0;
  const to = names ? names.length - 0.5 : Math.max(greatest(lines.map((line) => line.x[axis])), from) || 1;
  const x = (value) => round(MARGIN.left + ((right - MARGIN.left) * (value - from)) / (to - from || 1));
  const bottom = data.bottom ?? 0;
  const y = (value) => round(base - ((base - MARGIN.top) * (value - bottom)) / (data.top - bottom));
  const steps = ticks(from, to, roundStep(to - from || 1, right / 90, axis !== "minutes" && axis !== "seconds"));
  const marks = names ? placeNames(names, x, base, slant, right)
    : steps.map((tick) => svg("text", { x: x(tick), y: base + 18, "text-anchor": "middle" }, short(tick)));
  const references = Object.entries(data.references ?? {}).map(([name, value]) => reference(name, y(value), right));
  return framed({ ...data, height }, data.axes[axis], y, { right, marks }, [references, lines.map((line) => series(line, axis, x, y, data))]);
}

// Bars on top of each other: columns of parts {key, label, colour, share, says}, each as high as its share in percent.
function bars(data) {
  const names = data.columns.map((column) => column.label);
  const { right, base, slant, height } = room(data, names, data.x_label);
  const wide = (right - MARGIN.left) / names.length, gap = Math.min(3, wide / 6);
  const x = (place) => round(MARGIN.left + wide * (place + 0.5));
  const y = (share) => round(base - ((base - MARGIN.top) * share) / 100);
  const kinds = new Map();
  data.columns.forEach((column, place) => {
    let floor = 0;
    for (const part of column.parts) {
      const bar = svg("rect", { class: "mark", x: round(x(place) - wide / 2 + gap), y: y(floor + part.share),
        width: round(Math.min(wide - 2 * gap, 64)), height: round(Math.max(0, y(floor) - y(floor + part.share))) });
      if (wide - 2 * gap > 64) bar.setAttribute("x", round(x(place) - 32));
      bar.classList.toggle("chosen", part.chosen === true);
      bar.dataset.says = part.says;
      if (data.press) bar.press = () => data.press(column, part);
      floor += part.share;
      if (!kinds.has(part.key)) kinds.set(part.key, coloured(svg("g", { class: "series" }), part.colour));
      kinds.get(part.key).append(bar);
    }
  });
  const some = data.columns.some((column) => column.parts.some((part) => part.chosen));
  const drawn = framed({ ...data, height, top: 100, whole: true }, data.x_label, y,
    { right, marks: placeNames(names, x, base, slant, right) }, [...kinds.values()]);
  drawn.classList.toggle("narrowed", some);
  return drawn;
}

// Where the plot ends, and whether names of places are written at a slant, below it, because they would not fit.
function room(data, names, title) {
  const right = data.width - MARGIN.right, most = (lengths) => lengths.reduce((one, other) => Math.max(one, other), 0);
  const longest = names ? most(names.flatMap((name) => name.split(" ").map((word) => word.length))) : 0;
  const slant = names !== null && names.length <= 12 && SMALL * LETTER * longest > (right - MARGIN.left) / names.length - 2;
  const rows = names && !slant ? most(names.map((name) => name.split(" ").length)) : 1;
  const base = data.height - MARGIN.bottom + (title ? 0 : 16) - 14 * (rows - 1);
  return { right, base, slant, height: data.height + (slant ? 0.6 * LETTER * most(names.map((name) => name.length)) : 0) };
}

// Names of places: word below word, at a slant, or only some of many.
function placeNames(names, x, base, slant, right) {
  const longest = names.flatMap((name) => name.split(" ")).reduce((most, word) => Math.max(most, word.length), 4);
  const every = Math.ceil((names.length * LETTER * (SMALL * longest + 1)) / (right - MARGIN.left));
  return names.map((name, place) => {
    if (slant) {
      const [left, top] = [x(place) + 4, base + 16];
      return svg("text", { x: left, y: top, "text-anchor": "end", transform: `rotate(-35 ${left} ${top})` }, name);
    }
    if (names.length > 12 && place % every) return null;
    return svg("text", { y: base + 18, "text-anchor": "middle", class: names.length > 4 ? "small" : null },
      name.split(" ").map((word, row) => svg("tspan", { x: x(place), dy: row ? 14 : 0 }, word)));
  });
}

// Grid, titles of the axes, and what is in the chart; the whole answers to pointer and keys.
function framed(data, xTitle, y, { right, marks }, inside) {
  const { width, height } = data;
  const bottom = data.bottom ?? 0;
  const grid = ticks(bottom, data.top, roundStep(data.top - bottom, 5, data.whole)).map((tick) => [
    svg("line", { x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick), class: "grid" }),
    svg("text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick))]);
  const titles = [
    data.y_label ? svg("text", { x: 0, y: 11, class: "title" }, data.y_label) : null,
    svg("text", { x: (MARGIN.left + right) / 2, y: height - 6, "text-anchor": "middle", class: "title" }, xTitle)];
  const drawn = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "chart", tabindex: 0, role: data.press ? "group" : "img",
    "aria-label": `${data.name}, by ${xTitle || "name"}; the arrow keys step through the points`
      + (data.press ? ", Enter shows their episodes" : ""),
  }, svg("g", { "aria-hidden": "true" }, grid, marks, titles), inside);
  walk(drawn);
  return drawn;
}

// A line at one height, such as the success of a policy that does not learn.
function reference(name, y, right) {
  return svg("g", { class: "reference" }, svg("line", { x1: MARGIN.left, x2: right, y1: y, y2: y }),
    svg("text", { x: right, y: y < MARGIN.top + 12 ? y + 13 : y - 5, "text-anchor": "end" }, name));
}

function series(line, axis, x, y, data) {
  const chosen = line.filled ? line.y.map((_, place) => place) : thinned(line.y.length);
  const xs = chosen.map((place) => x(line.x[axis][place]));
  const path = (values) => {
    const points = chosen.map((place, at) => [xs[at], y(values[place])]);
    if (!line.stepped) return points;
    return points.flatMap((point, at) => (at + 1 < points.length ? [point, [xs[at + 1], point[1]]] : [point]));
  };
  const listed = (points) => points.map((point) => point.join(",")).join(" ");
  const band = line.band && !line.whiskers && xs.length > 1 ? svg("polygon", {
    points: listed([...path(line.band[1]), ...path(line.band[0]).reverse()]), class: line.filled ? "area" : "band",
  }) : null;
  const whiskers = line.band && line.whiskers ? chosen.map((place, at) => svg("line", {
    x1: xs[at], x2: xs[at], y1: y(line.band[0][place]), y2: y(line.band[1][place]), class: "whisker" })) : [];
  const dots = line.filled ? [] : chosen.map((place, at) => {
    const dot = pointOf(line, xs[at], y(line.y[place]));
    dot.dataset.says = line.says[place] ?? `${line.label}: ${short(line.y[place])} · ${data.axes[axis]} ${short(line.x[axis][place])}`;
    if (data.press) dot.press = () => data.press(line, place);
    return dot;
  });
  const middle = line.filled || line.loose ? null
    : svg("polyline", { points: listed(path(line.y)), class: "line", "stroke-dasharray": DASHES[line.dashes] });
  const crowded = xs.length > 30 && !line.loose ? " crowded" : "";
  const node = svg("g", { class: "series" + crowded + (line.faint ? " faint" : "") }, band, middle, whiskers, dots);
  Object.assign(node.dataset, { key: line.key, label: line.label });
  return coloured(node, line.colour);
}

function pointOf(line, x, y) {
  const shape = { class: line.hollow ? "mark hollow" : "mark" };
  if (!line.diamond) return svg("circle", { cx: x, cy: y, r: line.faint ? 2 : line.whiskers ? 4 : 3, ...shape });
  return svg("path", { d: `M${x} ${y - 5}l5 5-5 5-5-5Z`, ...shape });
}

// What the lines, points or parts of a chart are called: [{label, colour, shape, hollow}].
function keyList(entries) {
  return el("ul", { class: "key-list" }, entries.map(({ label, colour, shape, hollow }) => el("li", null,
    coloured(el("i", { class: `swatch ${shape ?? ""} ${hollow ? "hollow" : ""}` }), colour), label)));
}

// Draw into a box when it has a width, and again when that changes.
function atWidth(box, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (!box.clientWidth || box.clientWidth === width) return;
    width = box.clientWidth;
    draw(width);
  }).observe(box);
  return box;
}

let shown = null;

function pointAt(mark) {
  shown?.classList.remove("shown");
  shown = mark;
  shown?.classList.add("shown");
  tell(mark && mark.dataset.says, mark?.getBoundingClientRect());
}

function nearest(marks, x, y) {
  let best = null, least = Infinity;
  for (const mark of marks) {
    const box = mark.getBoundingClientRect();
    const far = Math.hypot(box.left + box.width / 2 - x, (box.top + box.height / 2 - y) / 2);
    if (far < least) { least = far; best = mark; }
  }
  return best;
}

// Say what a mark is under the pointer, step through the marks with the arrow keys, press them.
function walk(drawn) {
  const lines = () => [...drawn.querySelectorAll(".series:not(.off, .faint)")]
    .map((line) => [...line.querySelectorAll(".mark")]).filter((marks) => marks.length);
  const under = (event) => event.target.closest("rect.mark") ?? nearest(lines().flat(), event.clientX, event.clientY);
  drawn.addEventListener("pointermove", (event) => pointAt(under(event)));
  drawn.addEventListener("pointerleave", () => pointAt(null));
  drawn.addEventListener("focusout", () => pointAt(null));
  drawn.addEventListener("click", (event) => under(event)?.press?.());
  drawn.addEventListener("keydown", (event) => {
    const all = lines();
    if (!all.length) return;
    if (event.key === "Escape") return pointAt(null);
    const pressed = event.key === "Enter" && all[0][0].press;
    if (!pressed && !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    event.stopPropagation();
    if (pressed) return shown ? shown.press() : pointAt(all[0][0]);
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
addEventListener("scroll", () => shown && pointAt(shown), { passive: true, capture: true });
