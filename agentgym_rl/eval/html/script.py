"""What a page does when it is used; everything on it can be read without."""

SCRIPT = """
"use strict";
const point = document.getElementById("point");
let shown = null;

function show(dot) {
  if (shown) shown.classList.remove("shown");
  shown = dot;
  point.hidden = !dot;
  if (!dot) return;
  dot.classList.add("shown");
  point.textContent = dot.dataset.says;
  const at = dot.getBoundingClientRect(), box = point.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left - box.width / 2), innerWidth - box.width - 8);
  point.style.left = left + "px";
  point.style.top = (at.top > box.height + 16 ? at.top - box.height - 10 : at.bottom + 10) + "px";
}

const lines = chart =>
  [...chart.querySelectorAll(".series:not(.off)")].map(line => [...line.querySelectorAll("circle")]);

function nearest(dots, x, y) {
  let best = null, least = Infinity;
  for (const dot of dots) {
    const box = dot.getBoundingClientRect();
    const far = Math.hypot(box.left + box.width / 2 - x, (box.top + box.height / 2 - y) / 2);
    if (far < least) { least = far; best = dot; }
  }
  return best;
}

for (const chart of document.querySelectorAll(".chart")) {
  chart.addEventListener("pointermove", event => show(nearest(lines(chart).flat(), event.clientX, event.clientY)));
  chart.addEventListener("pointerleave", () => show(null));
  chart.addEventListener("focusout", () => show(null));
  chart.addEventListener("keydown", event => {
    const every = lines(chart);
    if (!every.length) return;
    if (event.key === "Escape") return show(null);
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const row = every.findIndex(line => line.includes(shown));
    if (row < 0) return show(every[0][0]);
    const place = every[row].indexOf(shown), last = every[row].length - 1;
    if (event.key === "ArrowRight") return show(every[row][Math.min(place + 1, last)]);
    if (event.key === "ArrowLeft") return show(every[row][Math.max(place - 1, 0)]);
    const to = (row + (event.key === "ArrowDown" ? 1 : every.length - 1)) % every.length;
    const box = shown.getBoundingClientRect();
    show(nearest(every[to], box.left + box.width / 2, box.top));
  });
}
addEventListener("scroll", () => shown && show(shown), {passive: true});

for (const chip of document.querySelectorAll(".chip")) {
  chip.addEventListener("click", () => {
    const on = chip.getAttribute("aria-pressed") !== "true";
    chip.setAttribute("aria-pressed", String(on));
    for (const line of document.querySelectorAll(`.series[data-key="${Number(chip.dataset.key)}"]`))
      line.classList.toggle("off", !on);
  });
}

const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement.style;
  const dark = root.colorScheme ? root.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.colorScheme = dark ? "light" : "dark";
});
"""
