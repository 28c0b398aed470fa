// The filters, and the episodes that match them.

const RESULTS = { solved: "solved", failed: "failed", uncounted: "not counted" };
const ORDERS = { file: "in order", step: "by step", reward: "by reward", turns: "by turns", tokens: "by tokens", item_id: "by task" };
const wanted = { env: "", ending: "", result: "", panel: "", step: "", task: "", order: "file", down: "" };
const NARROWING = ["env", "ending", "result", "panel", "step", "task"];
let view = [];

function tokens(at) {
  return store.columns.prompt_tokens[at] + store.columns.response_tokens[at];
}

function buildFilters() {
  const form = by("filters");
  const search = el("input", {
    id: "f-task", type: "search", placeholder: "Task, file or error", "aria-label": "Task, file or error", autocomplete: "off",
    title: "Press / to come here", on: { input: (event) => change("task", event.target.value) },
  });
  const step = el("input", {
    id: "f-step", type: "text", placeholder: "Step: 12 or 10-40", "aria-label": "Step, or range of steps", autocomplete: "off",
    inputmode: "numeric", on: { input: (event) => change("step", event.target.value) },
  });
  const panels = tally((at) => panelOf(at));
  form.replaceChildren(
    search,
    choice("env", "All environments", tally((at) => named("env", at))),
    choice("result", "Any result", tally(result), RESULTS),
    choice("ending", "Any ending", tally((at) => named("ending", at))),
    choice("panel", "Any panel", panels),
    step,
    el("div", { class: "order" },
      choice("order", null, Object.keys(ORDERS).map((key) => [key, null]), ORDERS),
      el("button", { id: "f-down", type: "button", title: "Turn the order round", "aria-label": "Turn the order round",
        on: { click: () => change("down", wanted.down ? "" : "1") } }, "↑")),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  showFilters();
}

function tally(of) {
  const found = new Map();
  for (let at = 0; at < store.count; at++) found.set(of(at), (found.get(of(at)) || 0) + 1);
  return [...found].sort((one, other) => (one[0] < other[0] ? -1 : 1));
}

function choice(key, any, options, labels) {
  const label = { env: "Environment", result: "Result", ending: "Ending", panel: "Panel", order: "Order" }[key];
  return el("select", { id: "f-" + key, "aria-label": label, on: { change: (event) => change(key, event.target.value) } },
    any === null ? null : el("option", { value: "" }, any),
    options.map(([value, n]) => el("option", { value },
      (labels ? labels[value] : words(value)) + (n === null ? "" : ` (${number(n)})`))));
}

function change(key, value) {
  wanted[key] = value;
  showFilters();
  select();
  remember();
}

function clearFilters() {
  for (const key of NARROWING) wanted[key] = "";
  showFilters();
  select();
  remember();
}

function showFilters() {
  for (const key of ["env", "result", "ending", "panel", "step", "task", "order"]) {
    const field = by("f-" + key);
    if (field.value !== wanted[key]) field.value = wanted[key];
    field.classList.toggle("set", key !== "order" && wanted[key] !== "");
  }
  by("f-down").textContent = wanted.down ? "↓" : "↑";
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

// Fill "view" with the places of the episodes that match, in order.
function select() {
  const columns = store.columns;
  const code = (column) => (wanted[column] === "" ? null : store.values[column].indexOf(wanted[column]));
  const env = code("env");
  const ending = code("ending");
  const [first, last] = steps() ?? [-Infinity, Infinity];
  const search = wanted.task.trim().toLowerCase();
  const matching = (column) => store.values[column].map((text) => text.toLowerCase().includes(search));
  const [tasks, files, errors] = search ? ["item_id", "file", "error"].map(matching) : [[], [], []];
  const found = [];
  for (let at = 0; at < store.count; at++) {
    if (env !== null && columns.env[at] !== env) continue;
    if (ending !== null && columns.ending[at] !== ending) continue;
    if (columns.step[at] < first || columns.step[at] > last) continue;
    if (wanted.result && result(at) !== wanted.result) continue;
    if (wanted.panel && panelOf(at) !== wanted.panel) continue;
    if (search && !tasks[columns.item_id[at]] && !files[columns.file[at]] && !errors[columns.error[at]]) continue;
    found.push(at);
  }
  sort(found);
  view = found;
  by("count").replaceChildren(visible(
    view.length === store.count ? `${number(store.count)} episodes` : `${number(view.length)} of ${number(store.count)} episodes`));
  showList();
}

const TASK_ORDER = new Intl.Collator("en", { numeric: true });

function sort(found) {
  if (wanted.order === "item_id") {
    const rank = new Map([...store.values.item_id].sort(TASK_ORDER.compare).map((task, place) => [task, place]));
    found.sort((one, other) => rank.get(named("item_id", one)) - rank.get(named("item_id", other)) || one - other);
  } else if (wanted.order !== "file") {
    const key = wanted.order === "tokens" ? tokens : (at) => store.columns[wanted.order][at];
    found.sort((one, other) => key(one) - key(other) || one - other);
  }
  if (wanted.down) found.reverse();
}
