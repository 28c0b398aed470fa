// The filters, and the episodes that match them.

const ASKED = 200; // most goals that are asked for at once
const RESULTS = { solved: "solved", failed: "failed", uncounted: "not counted" };
const ORDERS = {
  file: "as stored", failures: "failures first", newest: "newest first", varied: "most varied tasks", step: "by step",
  reward: "by reward", turns: "by turns", tokens: "by tokens", item_id: "by task",
};
const wanted = {
  env: "", ending: "", result: "", panel: "", step: "", file: "", line: "", decoding: "", tag: "", task: "", said: "",
  order: "file", down: "", single: "",
}; // line: the environment of a line that was pressed in a chart
const NARROWING = ["env", "ending", "result", "panel", "step", "file", "line", "decoding", "tag", "task", "said"];
let view = []; // a place for each row of the list: an episode, or the first of the samples of a task
let samples = new Map(); // all episodes of a row, by its place
let matching = 0; // episodes that match all filters
let scope = []; // those that match what is not about how they ended: the charts show them

function tokens(at) {
  return store.columns.prompt_tokens[at] + store.columns.response_tokens[at];
}

function buildFilters() {
  const form = by("filters");
  const words = el("input", {
    id: "f-task", type: "search", placeholder: "Task, goal, note, file or error", "aria-label": "Task, goal, note, file or error", autocomplete: "off",
    title: "Press / to come here", on: { input: (event) => change("task", event.target.value) },
  });
  const step = el("input", {
    id: "f-step", type: "text", placeholder: "Step: 12 or 10-40", "aria-label": "Step, or range of steps", autocomplete: "off",
    inputmode: "numeric", on: { input: (event) => change("step", event.target.value) },
  });
  const panels = tally((at) => panelOf(at));
  form.replaceChildren(
    words,
    searchField() ?? "",
    choice("env", "All environments", tally((at) => named("env", at))),
    choice("result", "Any result", tally(result), RESULTS),
    choice("ending", "Any ending", tally((at) => named("ending", at))),
    choice("panel", "Any panel", panels),
    step,
    ...(tags().length ? [choice("tag", "Any tag", tags().map((tag) => [tag, null]))] : []),
    el("div", { class: "order" },
      choice("order", null, Object.keys(ORDERS).map((key) => [key, null]), ORDERS),
      el("button", { id: "f-down", type: "button", title: "Turn the order round", "aria-label": "Turn the order round",
        on: { click: () => change("down", wanted.down ? "" : "1") } }, "↑"),
      el("button", { id: "f-single", type: "button", title: "One row for all samples of a task in a step (g)",
        on: { click: () => change("single", wanted.single ? "" : "1") } }, "Group")),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  showFilters();
}

function tags() {
  return [...new Set(Object.values(store.notes).flatMap((note) => note.tags))].sort();
}

function tally(of) {
  const found = new Map();
  for (let at = 0; at < store.count; at++) found.set(of(at), (found.get(of(at)) || 0) + 1);
  return [...found].sort((one, other) => (one[0] < other[0] ? -1 : 1));
}

function choice(key, any, options, labels) {
  const label = { env: "Environment", result: "Result", ending: "Ending", panel: "Panel", tag: "Tag", order: "Order" }[key];
  return el("select", { id: "f-" + key, "aria-label": label, on: { change: (event) => change(key, event.target.value) } },
    any === null ? null : el("option", { value: "" }, any),
    options.map(([value, n]) => el("option", { value },
      (labels ? labels[value] : key === "tag" ? value : words(value)) + (n === null ? "" : ` (${number(n)})`))));
}

function change(key, value) {
  wanted[key] = value;
  if (key === "env") wanted.line = "";
  showFilters();
  reselect();
  remember();
  searchThenSelect();
  if (key === "said") markHits();
}

// What the page does not know yet: where a text is said, and the goals of all tasks, which the text filter looks at, too.
function searchThenSelect() {
  search().then((news) => { if (news) reselect(); }, (error) => { reselect(); fail(`This cannot be searched for: ${error.message}`); });
  if (wanted.task.trim()) learnAllGoals().then((news) => { if (news) reselect(); }, failGoals);
}

async function learnAllGoals() {
  const tasks = store.values.item_id;
  let news = false;
  for (let at = 0; at < tasks.length; at += ASKED) news = (await learnGoals(tasks.slice(at, at + ASKED))) || news;
  return news;
}

// Take the filters of an address; whether one has changed.
function takeFilters(filters) {
  const before = query();
  for (const key of Object.keys(wanted)) wanted[key] = filters.get(key) ?? (key === "order" ? "file" : "");
  return query() !== before;
}

// Narrow the list to what was pressed in a chart; pressed again, show everything.
function narrow(filters) {
  const none = { result: "", ending: "", step: "", panel: "", file: "", line: "", decoding: "" }, set = { ...none, ...filters };
  const same = Object.entries(set).every(([key, value]) => wanted[key] === value);
  Object.assign(wanted, same ? none : set);
  if (innerWidth <= NARROW && !same) location.hash = "#/list" + query();
  showFilters();
  reselect();
  remember();
}

function clearFilters() {
  for (const key of NARROWING) wanted[key] = "";
  showFilters();
  reselect();
  remember();
  searchThenSelect();
  markHits();
}

function showFilters() {
  for (const key of [...NARROWING, "order"]) {
    const field = by("f-" + key);
    if (!field) continue;
    if (field.value !== wanted[key]) field.value = wanted[key];
    field.classList.toggle("set", key !== "order" && wanted[key] !== "");
  }
  by("f-down").textContent = wanted.down ? "↓" : "↑";
  by("f-single").setAttribute("aria-pressed", String(!wanted.single));
  by("clear").hidden = !NARROWING.some((key) => wanted[key] !== "");
  by("f-step").setAttribute("aria-invalid", String(steps() === null));
}

// First and last step of the filter; null where it cannot be read.
function steps() {
  const text = wanted.step.trim();
  if (text === "") return [-Infinity, Infinity];
  const found = /^(\d+)(?:\s*[-–:]\s*(\d+))?$/.exec(text);
  return found ? [Number(found[1]), Number(found[2] ?? found[1])] : null;
}

// Find the episodes that match, and put them into order.
function select() {
  const columns = store.columns;
  const code = (column) => (wanted[column] === "" ? null : store.values[column].indexOf(wanted[column]));
  const env = code("env");
  const ending = code("ending"), file = code("file");
  const [first, last] = steps() ?? [-Infinity, Infinity];
  const text = wanted.task.trim().toLowerCase();
  const including = (column) => store.values[column].map((one) => one.toLowerCase().includes(text));
  const [tasks, files, errors] = text ? ["item_id", "file", "error"].map(including) : [[], [], []];
  const wished = text ? store.values.item_id.map((task) => (goals.get(task) ?? "").toLowerCase().includes(text)) : [];
  const noted = (at) => (noteOf(at)?.note ?? "").toLowerCase().includes(text);
  const found = [];
  scope = [];
  for (let at = 0; at < store.count; at++) {
    if (env !== null && columns.env[at] !== env) continue;
    if (said && !said.has(at)) continue;
    if (wanted.tag && !noteOf(at)?.tags.includes(wanted.tag)) continue;
    if (text && !tasks[columns.item_id[at]] && !wished[columns.item_id[at]] && !files[columns.file[at]]
      && !errors[columns.error[at]] && !noted(at)) continue;
    scope.push(at);
    if (ending !== null && columns.ending[at] !== ending) continue;
    if (file !== null && columns.file[at] !== file) continue;
    if (columns.step[at] < first || columns.step[at] > last) continue;
    if (wanted.result && result(at) !== wanted.result) continue;
    if (wanted.panel && panelOf(at) !== wanted.panel) continue;
    if (wanted.line && named("env", at) !== wanted.line) continue;
    if (wanted.decoding && named("decoding", at) !== wanted.decoding) continue;
    found.push(at);
  }
  sort(found);
  matching = found.length;
  gather(found);
  const source = [file === null ? "" : store.stages[file], wanted.line, wanted.decoding].filter(Boolean).join(", ");
  const rows = (source && ` of ${source}`) + (view.length < matching ? `, ${number(view.length)} groups` : "");
  by("count").replaceChildren(visible(
    (matching === store.count ? `${number(store.count)} episodes` : `${number(matching)} of ${number(store.count)} episodes`) + rows));
  showList();
}

// The same where another address is not shown next, which draws the first page anyway.
function reselect() {
  select();
  if (atStart()) showOverview();
}

// A row for all samples of a task by the same weights, where the first of them stands; or one for each episode.
function gather(found) {
  samples = new Map();
  if (wanted.single) return void (view = found);
  const { item_id, file, step } = store.columns, rows = new Map();
  for (const at of found) {
    const key = `${item_id[at]} ${file[at]} ${step[at]}`;
    if (rows.has(key)) samples.get(rows.get(key)).push(at);
    else { rows.set(key, at); samples.set(at, [at]); }
  }
  view = [...rows.values()];
}

const TASK_ORDER = new Intl.Collator("en", { numeric: true });

function sort(found) {
  const { item_id, step } = store.columns;
  if (wanted.order === "item_id") {
    const rank = new Map([...store.values.item_id].sort(TASK_ORDER.compare).map((task, place) => [task, place]));
    found.sort((one, other) => rank.get(named("item_id", one)) - rank.get(named("item_id", other)) || one - other);
  } else if (wanted.order === "failures") {
    const rank = { failed: 0, uncounted: 1, solved: 2 };
    found.sort((one, other) => rank[result(one)] - rank[result(other)] || step[other] - step[one] || one - other);
  } else if (wanted.order === "newest") {
    found.sort((one, other) => step[other] - step[one] || one - other);
  } else if (wanted.order === "varied") {
    const spread = variance(found);
    found.sort((one, other) => spread.get(item_id[other]) - spread.get(item_id[one]) || item_id[one] - item_id[other] || one - other);
  } else if (wanted.order !== "file") {
    const key = wanted.order === "tokens" ? tokens : (at) => store.columns[wanted.order][at] ?? -1; // what does not count has no reward
    found.sort((one, other) => key(one) - key(other) || one - other);
  }
  if (wanted.down) found.reverse();
}

// Variance of success over the episodes of each task that count: 0.25 where half of them are solved.
function variance(found) {
  const sums = new Map();
  for (const at of found) {
    const own = sums.get(store.columns.item_id[at]) ?? [0, 0];
    if (counts(at)) { own[0] += store.columns.success[at]; own[1]++; }
    sums.set(store.columns.item_id[at], own);
  }
  return new Map([...sums].map(([task, [solved, n]]) => [task, n ? (solved / n) * (1 - solved / n) : 0]));
}
