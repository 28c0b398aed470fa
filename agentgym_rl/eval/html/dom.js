// Elements. Whatever an episode says becomes a text node or an attribute's value, never markup.

const SVG = "http://www.w3.org/2000/svg";
// Without tab, line feed, and the selectors that say whether the character before is drawn in colour.
const HIDDEN = /(?![\t\n\ufe0e\ufe0f])[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/u;

function by(id) {
  return document.getElementById(id);
}

// An element with attributes ("on" holds listeners; null and false leave one out) and children: nodes, text, arrays.
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(node, child);
    else if (child instanceof Node) node.append(child);
    else if (child !== null && child !== undefined && child !== false) node.append(visible(String(child)));
  }
}

// Text with characters that cannot be seen, or that turn the direction of writing, made visible.
function visible(text) {
  const whole = document.createDocumentFragment();
  let rest = text;
  for (let at = rest.search(HIDDEN); at >= 0; at = rest.search(HIDDEN)) {
    const code = rest.codePointAt(at);
    const name = "U+" + code.toString(16).toUpperCase().padStart(4, "0");
    const mark = document.createElement("span");
    mark.className = "control";
    mark.title = name;
    mark.textContent = code < 32 ? String.fromCharCode(0x2400 + code) : name;
    whole.append(rest.slice(0, at), mark);
    rest = rest.slice(at + (code > 0xffff ? 2 : 1));
  }
  whole.append(rest);
  return whole;
}

const SHAPES = new Set(["rect", "circle", "ellipse", "line", "path", "text", "image"]);
const ATTRIBUTES = new Set([
  "x", "y", "width", "height", "rx", "ry", "cx", "cy", "r", "x1", "y1", "x2", "y2", "d", "class",
  "fill", "fill-opacity", "stroke", "stroke-width", "text-anchor", "href",
]);

// An SVG element; null and undefined leave an attribute out.
function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  append(node, children);
  return node;
}

// A picture of an environment's state, as data: {label, width, height, shapes: [[name, attributes], ...]}.
function picture(data, limit) {
  const scale = Math.min(1, (limit || 520) / data.width);
  const shapes = data.shapes.filter(([name]) => SHAPES.has(name)).map(([name, attributes]) => {
    const known = Object.entries(attributes).filter(([key, value]) => ATTRIBUTES.has(key) && (key !== "href" || value.startsWith("data:image/")));
    const node = svg(name, Object.fromEntries(known));
    if ("text" in attributes) node.textContent = attributes.text;
    return node;
  });
  return svg("svg", {
    viewBox: `0 0 ${data.width} ${data.height}`, width: data.width * scale, height: data.height * scale,
    class: "picture", role: "img", "aria-label": data.label,
  }, shapes);
}

// Give an element a colour of the palette.
function coloured(node, colour) {
  node.style.setProperty("--hue", `var(--${colour})`);
  return node;
}

// Show a text near a place on the screen (a DOMRect), or hide it where there is none.
function tell(text, place) {
  const point = by("point");
  point.hidden = !text;
  if (!text) return;
  point.textContent = text;
  const box = point.getBoundingClientRect();
  const middle = (place.left + place.right - box.width) / 2;
  point.style.left = Math.min(Math.max(8, middle), innerWidth - box.width - 8) + "px";
  point.style.top = (place.top > box.height + 16 ? place.top - box.height - 10 : place.bottom + 10) + "px";
}

function isDark() {
  const chosen = document.documentElement.style.colorScheme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Switch between light and dark; the name of the new one.
function switchTheme() {
  return (document.documentElement.style.colorScheme = isDark() ? "light" : "dark");
}

function number(value, digits) {
  if (value === null || value === undefined) return "–";
  const options = { minimumFractionDigits: digits || 0, maximumFractionDigits: digits || 0 };
  return value.toLocaleString("en", options).replace("-", "−");
}

function seconds(value) {
  if (value >= 10) return number(value, 1) + " s";
  if (value >= 0.01) return number(value, 2) + " s";
  return number(value * 1000, 1) + " ms";
}

function percent(share) {
  return number(100 * share, share > 0 && share < 0.1 ? 1 : 0) + "%";
}

function words(name) {
  return name.replaceAll("_", " ");
}
