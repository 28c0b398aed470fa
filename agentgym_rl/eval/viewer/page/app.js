// Addresses, keys, and the start. "#/", "#/list" (for narrow windows, which show one thing at a time),
// "#/episode/<file>/<row>" and "#/task/<item id>", with the filters behind a "?".

const NARROW = 820; // pixels; as in the style sheet
let route = { kind: "overview" };

function opened() {
  return route.kind === "episode" ? route.at : -1;
}

function atStart() {
  return route.kind === "overview" || route.kind === "list";
}

// The address without the filters, which may change while what it names is loaded.
function pathShown() {
  return location.hash.split("?")[0];
}

function episodePath(at) {
  return `/episode/${encodeURIComponent(named("file", at))}/${store.columns.row[at]}`;
}

function taskPath(task) {
  return "/task/" + encodeURIComponent(task);
}

function query() {
  const set = Object.entries(wanted).filter(([key, value]) => value !== "" && !(key === "order" && value === "file"));
  return set.length ? "?" + new URLSearchParams(set) : "";
}

function go(path) {
  const hash = "#" + path + query();
  if (location.hash === hash) show();
  else location.hash = hash;
}

// Put the filters into the address without leaving the page.
function remember() {
  history.replaceState(null, "", "#" + (location.hash.slice(1).split("?")[0] || "/") + query());
  linkPlaces();
}

// The links above the page keep the filters.
function linkPlaces() {
  for (const link of document.querySelectorAll("#places a")) {
    link.href = "#" + link.dataset.path + query();
    if (link.dataset.path === { overview: "/", list: "/list" }[route.kind]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function readAddress() {
  const [path, search] = location.hash.slice(1).split("?");
  const [, kind, first, second] = path.split("/").map(decoded);
  const filters = new URLSearchParams(search || "");
  if (kind === "episode") route = { kind, at: find(first, Number(second)) };
  else if (kind === "task") route = { kind, task: first };
  else route = { kind: kind === "list" ? "list" : "overview" };
  return filters;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function fail(message) {
  by("main").replaceChildren(el("p", { class: "error", role: "alert" }, message));
}

async function show() {
  readAddress();
  document.body.dataset.shows = route.kind;
  linkPlaces();
  if (route.kind === "episode") {
    if (route.at < 0) return fail("There is no such episode here.");
    const row = rowOf(route.at);
    if (row >= 0) cursor = row;
  }
  pointAt(null);
  reveal();
  paint();
  const here = pathShown();
  try {
    if (atStart()) showOverview();
    else if (route.kind === "task") await showTask(route.task);
    else {
      const data = await source.episode(route.at);
      if (pathShown() === here) showEpisode(route.at, data);
    }
  } catch (error) {
    if (pathShown() === here) fail(`This cannot be shown: ${error.message}`);
  }
}

// Another address, by a link, the browser's buttons or typed.
function goThere() {
  if (takeFilters(readAddress())) {
    showFilters();
    select();
    searchThenSelect();
  }
  return show();
}

function neighbour(by_) {
  if (!view.length) return;
  cursor = Math.max(0, Math.min(view.length - 1, cursor + by_));
  go(episodePath(view[cursor]));
}

const KEYS = [
  ["j k or ↓ ↑", "next and previous in the list"], ["Enter", "open the episode"], ["n p or → ←", "next and previous turn"],
  ["] [", "next and previous episode"], ["s", "the same task at other steps"], ["Escape", "back to the overview"],
  ["/", "filter by text"], ["f", "search in what was said and done"], ["g", "group the samples of a task, or not"], ["e", "note on the episode"], ["l", "shade tokens by log-probability, or not"], ["d", "light or dark"],
  ["r", "look for new episodes"], ["?", "these keys"],
];

function help() {
  const dialog = by("help");
  dialog.replaceChildren(el("h2", { id: "help-title" }, "Keys"),
    el("dl", null, KEYS.map(([key, does]) => el("div", null, el("dt", null, key), el("dd", null, does)))),
    el("button", { type: "button", on: { click: () => dialog.close() } }, "Close"));
  dialog.showModal();
}

function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch { /* a page from a file may have no storage */ }
}

function kept(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function turnTheme() {
  keep("agentgym-theme", switchTheme());
}

function turnShading() {
  const off = document.body.classList.toggle("unshaded");
  by("shade").setAttribute("aria-pressed", String(!off));
}

async function refresh() {
  await loadIndex();
  chosen = { task: null, places: [] };
  buildFilters();
  by("training").hidden = !store.trained;
  by("total").textContent = `${number(store.count)} episodes`;
  asked = "";
  said = null; // the episodes have other places now
  select();
  searchThenSelect();
  await show();
}

const inMain = () => by("main").contains(document.activeElement) && document.activeElement !== document.body;
const ACTIONS = {
  j: () => move(1), k: () => move(-1), ArrowDown: () => inMain() ? false : move(1), ArrowUp: () => inMain() ? false : move(-1),
  PageDown: () => inMain() ? false : move(10), PageUp: () => inMain() ? false : move(-10),
  Home: () => inMain() ? false : move(-view.length), End: () => inMain() ? false : move(view.length),
  Enter: () => { if (view.length) { go(episodePath(view[cursor])); by("main").focus({ preventScroll: true }); } },
  n: () => step(1), p: () => step(-1), ArrowRight: () => step(1), ArrowLeft: () => step(-1),
  e: () => { if (route.kind === "episode") { by("main").querySelector("details:has(#note)")?.setAttribute("open", ""); by("note")?.focus(); } },
  "]": () => neighbour(1), "[": () => neighbour(-1),
  s: () => { if (route.kind === "episode" && route.at >= 0) go(taskPath(named("item_id", route.at))); },
  Escape: () => { go(innerWidth <= NARROW && route.kind !== "list" ? "/list" : "/"); by("list").focus(); },
  g: () => change("single", wanted.single ? "" : "1"),
  "/": () => by("f-task").focus(), f: () => by("f-said")?.focus(), "?": help, l: turnShading, d: turnTheme, r: () => { refresh().catch((error) => fail(`New episodes cannot be read: ${error.message}`)); },
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || by("help").open) return;
  const target = event.target;
  if (target.closest("input, select, textarea")) {
    if (event.key === "Escape" || (event.key === "Enter" && ["f-task", "f-said"].includes(target.id))) { target.blur(); by("list").focus(); event.preventDefault(); }
    return;
  }
  if (event.key === "Enter" && target.closest("button, a, summary, figure")) return;
  const act = ACTIONS[event.key];
  if (act && act() !== false) event.preventDefault();
}

async function start() {
  document.documentElement.style.colorScheme = kept("agentgym-theme") || "";
  await loadIndex();
  by("run").replaceChildren(visible(store.run));
  by("training").hidden = !store.trained;
  by("total").textContent = `${number(store.count)} episodes`;
  takeFilters(readAddress());
  buildFilters();
  select();
  searchThenSelect();
  by("list").addEventListener("scroll", paint, { passive: true });
  addEventListener("resize", paint);
  addEventListener("hashchange", goThere);
  document.addEventListener("keydown", onKey);
  by("theme").addEventListener("click", turnTheme);
  by("shade").addEventListener("click", turnShading);
  by("keys").addEventListener("click", help);
  by("clear").addEventListener("click", clearFilters);
  await show();
}

start().catch((error) => fail(`The episodes cannot be loaded: ${error.message}`));
