// Is it learning, and how does it fail? The charts and figures of the selected episodes, while none is open.

const ENV_COLOURS = 6;
const COLUMNS = 40; // most bars of a chart
const POINTS = 60; // most points of a line
const FAILURES = {
  terminated: ["lost", "lost"], invalid_limit: ["vermilion", "invalid limit"], turn_limit: ["limit", "turn limit"],
  context_limit: ["cut", "context limit"], refused: ["blue", "refused"], malformed: ["pink", "malformed reply"],
};
const METRICS = { success: "success", reward: "reward" };
let metric = "success";

function envColour(env) {
  return "env" + ([...store.values.env].sort().indexOf(env) % ENV_COLOURS);
}

function showOverview() {
  pointAt(null);
  document.title = store.run;
  const training = scope.filter((at) => named("panel", at) === null);
  const evaluated = scope.filter((at) => named("panel", at) !== null);
  const switching = by("main").querySelector(".either :focus");
  by("main").replaceChildren(el("div", { class: "overview" },
    el("div", { class: "title" }, el("h2", null, "Is it learning, and how does it fail?"), el("span", { class: "space" }), switchMetric()),
    el("p", { class: "sub" }, factsOf(training, evaluated)),
    store.findings.map((finding) => el("p", { class: "error" }, finding)),
    scope.length ? null : el("p", { class: "empty" }, "No episode matches all filters."),
    el("div", { class: "pair" },
      training.length ? half("", "Training", `${metric} over steps`, trainingChart(training)) : null,
      evaluated.length ? half("evaluated", "Evaluations", `${metric} on each panel, by stage`, panelChart(evaluated)) : null,
      training.length ? half("failing", "How training episodes end", "press a part to list it", endingChart(training, binsOf(training), false)) : null,
      evaluated.length ? half("failing evaluated", "How evaluations end", "press a part to list it", endingChart(evaluated, stagesIn(evaluated), true)) : null),
    scope.length ? envTable(scope) : null));
  if (switching) by("main").querySelector(".either [aria-pressed=true]").focus({ preventScroll: true });
}

function half(kind, title, note, { draw, entries, says }) {
  const box = el("div", null);
  let focused = document.activeElement?.closest(".half")?.dataset.title === title; // it is drawn anew
  atWidth(box, (width) => {
    box.replaceChildren(draw({ width, height: width < 420 ? 176 : 224 }) || "");
    if (focused) box.querySelector(".chart")?.focus({ preventScroll: true });
    focused = false;
  });
  return el("section", { class: "half " + kind, "data-title": title }, el("h3", null, title, el("small", null, note)), keyList(entries),
    box, el("p", { class: "meta" }, says));
}

function factsOf(training, evaluated) {
  const steps = training.length ? span(training.map((at) => store.columns.step[at])) : null;
  const parts = [`${number(scope.length)} episodes`,
    steps && `${number(training.length)} of training, steps ${steps[0]} to ${steps[1]}`,
    evaluated.length && `${number(evaluated.length)} of ${new Set(evaluated.map((at) => store.columns.file[at])).size} evaluations`];
  const left = scope.filter((at) => !counts(at)).length;
  return parts.filter(Boolean).join(" · ") + (left ? ` · ${number(left)} ended by the infrastructure, which do not count` : "");
}

function span(values) {
  return values.reduce(([least, most], one) => [Math.min(least, one), Math.max(most, one)], [Infinity, -Infinity]);
}

function switchMetric() {
  return el("span", { class: "either", role: "group", "aria-label": "What the charts show" }, Object.keys(METRICS).map((name) =>
    el("button", { type: "button", "aria-pressed": String(metric === name), on: { click: () => { metric = name; showOverview(); } } }, name)));
}

// Means of the episodes that count, by task: a task weighs the same however many of its episodes count.
function byTask(places, value) {
  const tasks = new Map();
  for (const at of places.filter(counts)) {
    const own = tasks.get(store.columns.item_id[at]) ?? [0, 0];
    tasks.set(store.columns.item_id[at], [own[0] + value(at), own[1] + 1]);
  }
  return [...tasks.values()].map(([sum, n]) => sum / n);
}

function average(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// Mean over tasks with its 95% interval; null where no episode counts.
function estimate(places) {
  const values = byTask(places, (at) => store.columns[metric][at]);
  if (!values.length) return null;
  const [low, high] = shareInterval(values);
  return { mean: average(values), low, high, n: places.filter(counts).length, tasks: values.length };
}

const shownAs = (value) => (metric === "success" ? percent(value) : number(value, 2));

function told(what, one) {
  return `${what}: ${metric} ${shownAs(one.mean)}, 95% interval ${shownAs(one.low)} to ${shownAs(one.high)}\nn = ${number(one.n)} episodes of ${number(one.tasks)} tasks`;
}

function scale() {
  return metric === "success" ? { top: 100, y_label: "success, %", by: 100 } : { top: 1, y_label: "reward", by: 1 };
}

function grouped(places, key) {
  const found = new Map();
  for (const at of places) {
    const own = key(at);
    if (!found.has(own)) found.set(own, []);
    found.get(own).push(at);
  }
  return [...found].sort((one, other) => TASK_ORDER.compare(String(one[0]), String(other[0])));
}

function lineOf(label, colour, points, by_, more) {
  return {
    label, key: label, colour, dashes: "-", x: { steps: points.map((one) => one.x) }, y: points.map((one) => by_ * one.mean),
    band: [points.map((one) => by_ * one.low), points.map((one) => by_ * one.high)], says: points.map((one) => one.says), points, ...more,
  };
}

// Steps drawn together where there are many: [{first, last, places}].
function binsOf(places, most = COLUMNS) {
  const [first, last] = span(places.map((at) => store.columns.step[at]));
  const size = Math.max(1, Math.ceil((last - first + 1) / most));
  return grouped(places, (at) => Math.floor((store.columns.step[at] - first) / size)).map(([, own]) => {
    const [from, to] = span(own.map((at) => store.columns.step[at]));
    return { label: from === to ? String(from) : `${from}-${to}`, places: own };
  });
}

function trainingChart(places) {
  const { top, y_label, by: by_ } = scale();
  const lines = grouped(places, (at) => named("env", at)).map(([env, own]) => {
    const points = binsOf(own, POINTS).map((bin) => {
      const found = estimate(bin.places);
      const x = bin.places.reduce((sum, at) => sum + store.columns.step[at], 0) / bin.places.length;
      return found && { ...found, ...bin, x, says: told(`${env}, step ${bin.label}`, found) };
    }).filter(Boolean);
    return lineOf(env, envColour(env), points, by_, { whiskers: points.length < 2 });
  }).filter((line) => line.points.length);
  const from = lines.reduce((least, line) => Math.min(least, ...line.x.steps), Infinity);
  const data = {
    name: `Training: ${metric}, a line for each environment`, axes: { steps: "training step" }, lines, top, y_label, from,
    press: (line, place) => narrow({ panel: "training", step: line.points[place].label, line: line.label }),
  };
  return {
    draw: (size) => (lines.length ? chart({ ...data, ...size }, "steps") : null),
    entries: lines.map((line) => ({ label: line.label, colour: line.colour, shape: "stroke" })),
    says: "Bands are 95% intervals over tasks.",
  };
}

// Files of evaluations in the order of their steps.
function stagesIn(places) {
  const { file, step } = store.columns;
  return grouped(places, (at) => file[at]).map(([, own]) => ({ file: file[own[0]], step: step[own[0]], places: own }))
    .sort((one, other) => one.step - other.step || TASK_ORDER.compare(store.values.file[one.file], store.values.file[other.file]))
    .map((one) => ({ ...one, label: store.stages[one.file] }));
}

function fileOf(stage) {
  return store.values.file[stage.file];
}

function panelChart(places) {
  const { top, y_label, by: by_ } = scale(), stages = stagesIn(places);
  const greedy = new Set(places.map((at) => named("decoding", at))).size > 1;
  const title = (at) => `${named("env", at)}: ${words(named("panel", at))}` + (greedy ? `, ${named("decoding", at)}` : "");
  const series = grouped(places, title), seen = new Map();
  const lines = series.map(([label, own], number_) => {
    const env = named("env", own[0]), of = seen.get(env) || 0;
    seen.set(env, of + 1);
    const points = stages.map((stage, place) => {
      const found = estimate(stage.places.filter((at) => title(at) === label));
      const x = place + (0.5 * (number_ - (series.length - 1) / 2)) / series.length;
      return found && { ...found, x, stage, says: told(`${stage.label}, ${label}`, found) };
    }).filter(Boolean);
    return lineOf(label, envColour(env), points, by_, { whiskers: true, loose: true, hollow: of % 2 === 1, diamond: of % 4 > 1 });
  }).filter((line) => line.points.length);
  const data = {
    name: `Evaluations: ${metric}, points for each panel`, axes: { steps: "" }, lines, top, y_label,
    names: stages.map((stage) => stage.label),
    press: (line, place) => {
      const [panel, env, decoding] = ["panel", "env", "decoding"].map((column) => named(column, places.find((at) => title(at) === line.label)));
      narrow({ panel, line: env, decoding: (greedy && decoding) || "", file: fileOf(line.points[place].stage) });
    },
  };
  return {
    draw: (size) => (lines.length ? chart({ ...data, ...size }, "steps") : null),
    entries: lines.map(({ label, colour, hollow, diamond }) => ({ label, colour, hollow, shape: diamond ? "diamond" : "round" })),
    says: "Bars are 95% intervals. Stages are not joined: they are different weights.",
  };
}

// How episodes end: solved, failed by ending, or not counted; in the order in which the parts lie on each other.
function partsOf(places) {
  const found = new Map();
  for (const at of places) {
    const kind = result(at), key = kind === "failed" ? named("ending", at) : kind;
    found.set(key, (found.get(key) || 0) + 1);
  }
  return found;
}

function lookOf(key) {
  return { solved: ["green", "solved"], uncounted: ["pale", "not counted"], ...FAILURES }[key] ?? ["lost", words(key)];
}

function filterOf(key) {
  return key in RESULTS ? { result: key } : { result: "failed", ending: key };
}

function endingChart(places, bins, evaluations) {
  const order = ["solved", ...Object.keys(FAILURES), "uncounted"], all = partsOf(places);
  const keys = order.filter((key) => all.has(key)).concat([...all.keys()].filter((key) => !order.includes(key)));
  const what = (bin) => (evaluations ? bin.label : `step ${bin.label}`);
  const filters = (bin, key) => ({ ...filterOf(key), ...(evaluations ? { file: fileOf(bin) } : { panel: "training", step: bin.label }) });
  const chosen = (bin, key) => Object.entries({ ending: "", ...filters(bin, key) }).every(([name, value]) => wanted[name] === value);
  const columns = bins.map((bin) => {
    const n = partsOf(bin.places);
    return { ...bin, parts: keys.filter((key) => n.has(key)).map((key) => ({
      key, colour: lookOf(key)[0], share: (100 * n.get(key)) / bin.places.length, chosen: chosen(bin, key),
      says: `${what(bin)}: ${lookOf(key)[1]} ${percent(n.get(key) / bin.places.length)}\n${number(n.get(key))} of ${number(bin.places.length)} episodes` })) };
  });
  const data = {
    name: evaluations ? "How evaluations end" : "How training episodes end", x_label: evaluations ? "" : "training step",
    y_label: "episodes, %", columns, press: (column, part) => narrow(filters(column, part.key)),
  };
  return {
    draw: (size) => bars({ ...data, ...size }),
    entries: keys.map((key) => ({ label: `${lookOf(key)[1]} ${percent(all.get(key) / places.length)}`, colour: lookOf(key)[0] })),
  };
}

function envTable(places) {
  const head = ["environment", "episodes", "solved", "reward", "turns", "tokens", "how they ended"];
  const rows = grouped(places, (at) => `${named("env", at)} ${named("panel", at) === null ? "" : words(named("panel", at))}`);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures by environment" }, el("table", { class: "envs" },
    el("thead", null, el("tr", null, head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", null, rows.map(([, own]) => {
      const env = named("env", own[0]), panel = named("panel", own[0]), counted = own.some(counts);
      const mean = (of, digits) => (counted ? number(average(byTask(own, of)), digits) : "–");
      const { success, reward, turns } = store.columns;
      return el("tr", null,
        el("th", { scope: "row" }, coloured(el("i", { class: "dot" }), envColour(env)), env, el("small", null, panel === null ? "training" : words(panel))),
        el("td", null, number(own.length)),
        el("td", null, counted ? percent(average(byTask(own, (at) => success[at]))) : "–"),
        el("td", null, mean((at) => reward[at], 2)), el("td", null, mean((at) => turns[at], 1)), el("td", null, mean(tokens, 0)),
        el("td", { class: "muted" }, [...partsOf(own)].sort((one, other) => other[1] - one[1])
          .map(([key, n]) => `${lookOf(key)[1]} ${percent(n / own.length)}`).join(", ")));
    }))));
}
