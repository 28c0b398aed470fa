// The list: there are elements for the rows in sight only.

const ROW = 54;
const MARKS = { solved: "✓", failed: "✕", uncounted: "!" };
let cursor = 0;

function showList() {
  by("spacer").style.height = `${view.length * ROW}px`;
  const open = view.indexOf(opened());
  cursor = open >= 0 ? open : Math.max(0, Math.min(cursor, view.length - 1));
  reveal();
  paint();
  if (route.kind === "overview") showOverview();
}

function paint() {
  const list = by("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(view.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
  const rows = [];
  for (let place = first; place < last; place++) rows.push(row(place));
  by("spacer").replaceChildren(...rows);
  if (view.length) list.setAttribute("aria-activedescendant", "row-" + cursor);
  else list.removeAttribute("aria-activedescendant");
}

function row(place) {
  const at = view[place];
  const columns = store.columns;
  const kind = result(at);
  const node = el("div", {
    id: "row-" + place, role: "option", class: "row" + (at === opened() ? " open" : ""), "data-at": at,
    "aria-selected": String(place === cursor), "aria-posinset": place + 1, "aria-setsize": view.length,
    on: { click: () => { cursor = place; go(episodePath(at)); } },
  },
    el("span", { class: "mark " + kind, "aria-label": RESULTS[kind], title: RESULTS[kind] }, MARKS[kind]),
    el("span", { class: "what" },
      el("span", { class: "name" }, named("item_id", at)),
      el("span", { class: "sub" }, panelOf(at), named("decoding", at) === "greedy" ? " · greedy" : null, " · " + words(named("ending", at)))),
    el("span", { class: "numbers" },
      el("span", null, "step " + columns.step[at]),
      el("span", { class: "sub" }, `${number(columns.reward[at], 2)} · ${columns.turns[at]} turn${columns.turns[at] === 1 ? "" : "s"}`)));
  node.style.top = `${place * ROW}px`;
  return node;
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
