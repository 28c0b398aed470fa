// The list: there are elements for the rows in sight only.

const ROW = 54;
const MARKS = { solved: "✓", failed: "✕", uncounted: "!" };
let cursor = 0;

function showList() {
  by("spacer").style.height = `${view.length * ROW}px`;
  const open = rowOf(opened());
  cursor = open >= 0 ? open : Math.max(0, Math.min(cursor, view.length - 1));
  reveal();
  paint();
}

// The row of the list that an episode is in, or -1.
function rowOf(at) {
  return at < 0 ? -1 : view.findIndex((one) => one === at || samples.get(one)?.includes(at));
}

function paint() {
  const list = by("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(view.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
  const rows = [];
  for (let place = first; place < last; place++) rows.push(row(place));
  by("spacer").replaceChildren(...rows);
  const tasks = new Set([...view.slice(first, last), opened()].filter((at) => at >= 0).map((at) => named("item_id", at)));
  learnGoals([...tasks]).then((news) => { if (news) { paint(); showGoal(); } }, failGoals);
  if (view.length) list.setAttribute("aria-activedescendant", "row-" + cursor);
  else list.removeAttribute("aria-activedescendant");
}

// One row: the goal, or the task where that is not known; below it where the episode comes from and how it ended.
function row(place) {
  const at = view[place], all = samples.get(at) ?? [at];
  const columns = store.columns;
  const kind = result(at), task = named("item_id", at), goal = goals.get(task);
  const node = el("div", {
    id: "row-" + place, role: "option", class: "row" + (all.includes(opened()) ? " open" : ""), "data-at": at,
    "aria-selected": String(place === cursor), "aria-posinset": place + 1, "aria-setsize": view.length,
    on: { click: () => { cursor = place; go(episodePath(at)); } },
  },
    el("span", { class: "mark " + kind, "aria-label": RESULTS[kind], title: RESULTS[kind] }, MARKS[kind]),
    el("span", { class: "what" },
      el("span", { class: "name", title: goal ?? task }, goal ?? task),
      el("span", { class: "sub" }, goal ? task + " · " : null, sourceOf(at), all.length > 1 ? null : " · " + endingOf(at), noted(all))),
    el("span", { class: "numbers" },
      el("span", null, "step " + columns.step[at]),
      all.length > 1 ? squares(all)
        : el("span", { class: "sub" }, `${counts(at) ? number(columns.reward[at], 2) : "–"} · ${columns.turns[at]} turn${columns.turns[at] === 1 ? "" : "s"}`)));
  node.style.top = `${place * ROW}px`;
  return node;
}

// How an episode ended, where its mark does not say so.
function endingOf(at) {
  return result(at) === "failed" && named("ending", at) === "terminated" ? "lost" : words(named("ending", at));
}

// The samples of a task: how many are solved, and a square each.
function squares(all) {
  const counted = all.filter(counts), solved = counted.filter((at) => result(at) === "solved").length;
  const share = counted.length ? `${solved} of ${counted.length}` : "–";
  return el("span", { class: "sub", title: `${share} samples that count solved` }, share + " ",
    all.slice(0, 8).map((at) => el("i", { class: "tile " + result(at) })));
}

function noted(all) {
  const found = all.map(noteOf).filter(Boolean);
  return found.length ? el("b", { class: "noted" }, " ✎ " + found.flatMap((note) => note.tags).join(", ")) : null;
}

function move(by_) {
  if (!view.length) return;
  cursor = Math.max(0, Math.min(view.length - 1, cursor + by_));
  reveal();
  paint();
}

// Scroll so that the row under the cursor can be seen.
function reveal() {
  const list = by("list");
  const top = cursor * ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
}
