// What the selected episodes add up to, while none is open.

const ENV_COLOURS = 6;

function envColour(env) {
  return "env" + ([...store.values.env].sort().indexOf(env) % ENV_COLOURS);
}

function showOverview() {
  const envs = new Map();
  for (const at of view) {
    const env = named("env", at);
    if (!envs.has(env)) envs.set(env, { n: 0, solved: 0, counted: 0, reward: 0, turns: 0, tokens: 0, endings: new Map(), steps: new Map() });
    const own = envs.get(env);
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
  const sorted = [...envs].sort((one, other) => (one[0] < other[0] ? -1 : 1));
  document.title = store.run;
  by("main").replaceChildren(el("div", { class: "overview" },
    el("h2", null, view.length === store.count ? "All episodes" : "Selected episodes"),
    el("p", { class: "muted" }, "Choose an episode on the left, or press j, k and Enter. Means are over the episodes that count; episodes that the infrastructure ended do not count."),
    sorted.length ? envTable(sorted) : el("p", { class: "empty" }, "No episode matches all filters."),
    sorted.length ? curves(sorted) : null));
}

function envTable(sorted) {
  const head = ["environment", "episodes", "solved", "", "reward", "turns", "tokens", "how they ended"];
  return el("div", { class: "scroll" }, el("table", { class: "envs" },
    el("thead", null, el("tr", null, head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", null, sorted.map(([env, own]) => {
      const mean = (sum, digits) => (own.counted ? number(sum / own.counted, digits) : "–");
      const bar = coloured(el("i", null), envColour(env));
      bar.style.width = own.counted ? `${(100 * own.solved) / own.counted}%` : "0";
      return el("tr", null,
        el("th", { scope: "row" }, coloured(el("i", { class: "dot" }), envColour(env)), env),
        el("td", null, number(own.n)),
        el("td", null, own.counted ? percent(own.solved / own.counted) : "–"),
        el("td", null, el("div", { class: "parts", "aria-hidden": "true" }, bar)),
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
  const lines = sorted.map(([env, own]) => {
    const points = binned(own.steps, first, last);
    return {
      label: env, key: env, colour: envColour(env), dashes: "-",
      x: { steps: points.map(([step]) => step) }, y: points.map(([, share]) => 100 * share),
      says: points.map(([step, share]) => `${env}: ${percent(share)} at step ${number(step)}`),
    };
  });
  const name = "Share solved in %, one line per environment; the table above has the totals";
  return el("section", null, el("h3", null, "Solved in %, by step of the weights"), chart(
    { name, axes: { steps: "step of the weights" }, top: 100, from: first, width: 720, height: 230, lines }, "steps"));
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
