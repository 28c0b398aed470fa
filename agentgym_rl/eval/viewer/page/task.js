// The same task at several steps, side by side.

const BESIDE = 6;
const SQUARES = 2000; // most of a task
let chosen = { task: null, places: [] };

// Every episode of an episode's task, by step.
function sameTask(at) {
  const code = store.columns.item_id[at];
  const found = [];
  store.columns.item_id.forEach((other, place) => { if (other === code) found.push(place); });
  return found.sort((one, other) => store.columns.step[one] - store.columns.step[other] || one - other);
}

// A few of many, first and last among them.
function spread(all, n) {
  if (all.length <= n) return [...all];
  return Array.from({ length: n }, (_, place) => all[Math.round((place * (all.length - 1)) / (n - 1))]);
}

async function showTask(task) {
  const code = store.values.item_id.indexOf(task);
  const all = code < 0 ? [] : sameTask(store.columns.item_id.indexOf(code)), squares = spread(all, SQUARES);
  if (!all.length) return fail(`There is no episode of ${task}.`);
  if (chosen.task !== task) chosen = { task, places: spread(squares, BESIDE) };
  const here = pathShown(), whose = squares.length < all.length ? `Squares of ${number(squares.length)} of the episodes` : "One square per episode";
  const details = await Promise.all(chosen.places.map((at) => source.episode(at)));
  if (pathShown() !== here) return;
  document.title = `${task} · ${store.run}`;
  by("main").replaceChildren(el("article", { class: "task", "aria-label": `${task} across steps` },
    el("div", { class: "title" }, el("h2", null, task), el("span", { class: "muted" }, `${number(all.length)} episodes, ${number(chosen.places.length)} shown`)),
    el("p", { class: "muted" }, `${whose}, in order of the step of the weights. Press a square to show or hide its episode. An action that differs from the one on its left is marked.`),
    el("div", { class: "squares", role: "group", "aria-label": "Episodes of this task" }, squares.map((at) => square(at, task))),
    el("div", { class: "scroll" }, sideBySide(chosen.places, details))));
}

function square(at, task) {
  const on = chosen.places.includes(at);
  const says = `step ${store.columns.step[at]}, ${panelOf(at)}, ${RESULTS[result(at)]}`;
  return el("button", { type: "button", class: "square " + result(at), "data-at": at, "aria-pressed": String(on), "aria-label": says, title: says,
    on: { click: () => toggle(at, task) } });
}

function toggle(at, task) {
  const rest = chosen.places.filter((place) => place !== at);
  if (rest.length === chosen.places.length) rest.push(at);
  chosen.places = rest.sort((one, other) => store.columns.step[one] - store.columns.step[other] || one - other);
  showTask(task).then(() => by("main").querySelector(`.square[data-at="${at}"]`)?.focus({ preventScroll: true }));
}

function sideBySide(places, details) {
  const longest = details.reduce((most, data) => Math.max(most, data.turns.length), 0);
  const head = places.map((at, column) => el("th", { scope: "col" },
    el("a", { href: "#" + episodePath(at) + query() }, `step ${store.columns.step[at]}`), badge(at),
    el("span", { class: "sub" }, `${panelOf(at)}${named("decoding", at) ? " · " + named("decoding", at) : ""}`),
    el("span", { class: "sub" }, words(named("ending", at)) + (counts(at) ? ` · reward ${number(details[column].reward, 2)}` : ""))));
  const rows = Array.from({ length: longest }, (_, place) => el("tr", null,
    el("th", { scope: "row" }, place + 1),
    details.map((data, column) => cell(data.turns[place], column ? details[column - 1].turns[place] : null))));
  const ends = details.map((data) => data.turns.at(-1)?.picture ?? data.picture);
  const last = ends.some((place) => place !== null) ? el("tr", null, el("th", { scope: "row" }, "end"),
    ends.map((place, column) => el("td", null, place === null ? null : picture(details[column].pictures[place], 280)))) : null;
  return el("table", { class: "beside" },
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "turn"), head)), el("tbody", null, rows, last));
}

function cell(one, left) {
  if (!one) return el("td", { class: "none" });
  const said = one.action ?? one.parts.flatMap((part) => part.tokens.map(([text]) => text)).join("");
  const differs = left && left.action !== one.action;
  return el("td", { class: differs ? "differs" : null },
    el("code", { class: one.invalid || one.action === null ? "bad" : null }, said || "(empty)"),
    one.reward ? el("span", { class: "reward" }, "reward " + number(one.reward, 2)) : null,
    el("p", { class: "masked clipped" }, one.observation));
}
