// What the comparison does when it is used: the axis of the charts, arms that are hidden, light or dark.

const charts = JSON.parse(by("data").textContent);
const hidden = new Set();

function draw() {
  pointAt(null);
  const axis = document.querySelector("[name=x]:checked")?.value;
  for (const figure of document.querySelectorAll("[data-chart]")) {
    figure.dataset.axis = axis;
    figure.replaceChildren(chart(charts[figure.dataset.chart], axis) || "");
  }
  switchArms();
}

function switchArms() {
  for (const line of document.querySelectorAll(".series")) line.classList.toggle("off", hidden.has(line.dataset.key));
}

for (const choice of document.querySelectorAll("[name=x]")) choice.addEventListener("change", draw);
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
draw();
