// What a page of charts does when it is used: the axis of the charts, lines that are hidden, light or dark.

const charts = JSON.parse(by("data").textContent);
const boxes = document.querySelectorAll("[data-chart]");
const hidden = new Set();

function axis() {
  return document.querySelector("[name=x]:checked")?.value;
}

function draw(box) {
  const data = charts[box.dataset.chart], wide = Math.min(box.clientWidth, data.width);
  pointAt(null);
  box.dataset.axis = axis();
  box.replaceChildren(chart({ ...data, width: box.clientWidth, height: Math.max(200, (data.height * wide) / data.width) }, axis()) || el("p", { class: "note" }, "not known against " + axis()));
  switchArms();
}

function switchArms() {
  for (const line of document.querySelectorAll(".series")) line.classList.toggle("off", hidden.has(line.dataset.key));
}

for (const choice of document.querySelectorAll("[name=x]")) choice.addEventListener("change", () => boxes.forEach(draw));
for (const chip of document.querySelectorAll(".chip")) {
  chip.addEventListener("click", () => {
    const { key } = chip.dataset;
    if (!hidden.delete(key)) hidden.add(key);
    chip.setAttribute("aria-pressed", String(!hidden.has(key)));
    switchArms();
  });
}
by("theme").hidden = false;
by("theme").addEventListener("click", switchTheme);
boxes.forEach((box) => atWidth(box, () => draw(box)));
