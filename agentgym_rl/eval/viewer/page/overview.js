// What the selected episodes come to, while none is open.

const ENV_COLOURS = 6;

function envClass(env) {
  return "world-" + ([...store.values.env].sort().indexOf(env) % ENV_COLOURS);
}

function showOverview() {
  const worlds = new Map();
  for (const at of view) {
    const env = named("env", at);
    if (!worlds.has(env)) worlds.set(env, { n: 0, solved: 0, counted: 0, reward: 0, turns: 0, tokens: 0, endings: new Map(), steps: new Map() });
    const own = worlds.get(env);
    own.n++;
    const ending = named("ending", at);
    own.endings.set(ending, (own.endings.get(ending) || 0) + 1);
    if (!counts(at)) continue;
    const step = store.columns.step[at];
    if (!own.steps.has(step)) own.steps.set(step, [0, 0]);
    own.steps.get(step)[0] += store.columns.success[at];
    own.steps.get(step)[1]++;
    own.counted++;
    own.solved += store.columns.success[at];
    own.reward += store.columns.reward[at];
    own.turns += store.columns.turns[at];
    own.tokens += tokens(at);
  }
  const sorted = [...worlds].sort((one, other) => (one[0] < other[0] ? -1 : 1));
  document.title = store.run;
  by("main").replaceChildren(el("div", { class: "overview" },
    el("h2", null, view.length === store.count ? "All episodes" : "Selected episodes"),
    el("p", { class: "muted" }, "Choose an episode on the left, or press j, k and Enter. Means are over the episodes that count: those that the infrastructure ended do not."),
    sorted.length ? worldTable(sorted) : el("p", { class: "empty" }, "No episode has all that the filters ask for."),
    sorted.length ? curves(sorted) : null));
}

function worldTable(sorted) {
  const head = ["world", "episodes", "solved", "", "reward", "turns", "tokens", "how they ended"];
  return el("div", { class: "scroll" }, el("table", { class: "worlds" },
    el("thead", null, el("tr", null, head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", null, sorted.map(([env, own]) => {
      const mean = (sum, digits) => (own.counted ? number(sum / own.counted, digits) : "–");
      const bar = el("span", { class: "fill " + envClass(env) });
      bar.style.width = own.counted ? `${(100 * own.solved) / own.counted}%` : "0";
      return el("tr", null,
        el("th", { scope: "row" }, el("i", { class: "dot " + envClass(env) }), env),
        el("td", null, number(own.n)),
        el("td", null, own.counted ? percent(own.solved / own.counted) : "–"),
        el("td", null, el("span", { class: "bar", "aria-hidden": "true" }, bar)),
        el("td", null, mean(own.reward, 2)), el("td", null, mean(own.turns, 1)), el("td", null, mean(own.tokens, 0)),
        el("td", { class: "muted" }, [...own.endings].sort((one, other) => other[1] - one[1])
          .map(([ending, n]) => `${words(ending)} ${percent(n / own.n)}`).join(", ")));
    }))));
}

// Share solved by step of the weights; steps are drawn together where there are many.
function curves(sorted) {
  const all = sorted.flatMap(([, own]) => [...own.steps.keys()]);
  const first = all.reduce((least, step) => Math.min(least, step), Infinity);
  const last = all.reduce((most, step) => Math.max(most, step), -Infinity);
  if (!(last > first)) return null;
  const [width, height, left, base] = [720, 200, 46, 170];
  const x = (step) => left + ((step - first) / (last - first)) * (width - left - 12);
  const y = (share) => base - share * (base - 12);
  const shapes = [0, 0.5, 1].flatMap((share) => [
    ["line", { x1: left, x2: width - 12, y1: y(share), y2: y(share), class: "gridline" }],
    ["text", { x: left - 8, y: y(share) + 4, "text-anchor": "end", class: "tick", text: percent(share) }]]);
  for (const step of [first, last]) shapes.push(["text", { x: x(step), y: base + 20, "text-anchor": step === first ? "start" : "end", class: "tick", text: "step " + step }]);
  for (const [env, own] of sorted) {
    const points = binned(own.steps, first, last).map(([step, share]) => [x(step), y(share)]);
    if (points.length > 1) shapes.push(["path", { d: "M" + points.map((point) => point.join(" ")).join("L"), class: "curve " + envClass(env) }]);
    for (const [cx, cy] of points) shapes.push(["circle", { cx, cy, r: 3, class: "point " + envClass(env) }]);
  }
  return el("section", null, el("h3", null, "Solved, by step of the weights"),
    picture({ width, height, shapes, label: "Share solved by step, a line a world; the table above has the totals" }, width));
}

function binned(steps, first, last) {
  const size = Math.max(1, Math.ceil((last - first + 1) / 60));
  const bins = new Map();
  for (const [step, [solved, n]] of steps) {
    const place = Math.floor((step - first) / size);
    const [sum, of, total] = bins.get(place) || [0, 0, 0];
    bins.set(place, [sum + solved, of + n, total + step * n]);
  }
  return [...bins].sort((one, other) => one[0] - other[0]).map(([, [solved, n, total]]) => [total / n, solved / n]);
}
