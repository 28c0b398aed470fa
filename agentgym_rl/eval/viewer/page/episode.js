// One episode as a conversation.

const LEVELS = [0.9, 0.7, 0.5, 0.25, 0.1];
let turn = -1;

// 0 for a token of a probability of 0.9 or more, up to 5 for one below 0.1.
function level(logProb) {
  const p = Math.exp(logProb);
  return LEVELS.filter((limit) => p < limit).length;
}

function showEpisode(at, data) {
  turn = -1;
  document.title = `${data.item_id} · ${store.run}`;
  const same = sameTask(at).length;
  const times = timeline(data);
  by("main").replaceChildren(el("article", { class: "episode" + (data.pictures.length ? " pictured" : ""), "aria-label": "Episode of " + data.item_id },
    el("header", { class: "head" },
      el("div", { class: "title" },
        el("h2", null, data.item_id), badge(at),
        el("span", { class: "space" }),
        el("button", { type: "button", title: "Previous episode ([)", on: { click: () => neighbour(-1) } }, "‹ Previous"),
        el("button", { type: "button", title: "Next episode (])", on: { click: () => neighbour(1) } }, "Next ›"),
        el("button", { type: "button", id: "same", title: "The same task at other steps (s)", disabled: same < 2,
          on: { click: () => go(taskPath(data.item_id)) } }, `Same task (${number(same)})`),
        el("button", { type: "button", id: "copy", title: "Copy the conversation as Markdown", on: { click: (event) => copyEpisode(event.target, data) } }, "Copy"),
        el("button", { type: "button", id: "save", title: "Save the episode as JSON", on: { click: () => saveEpisode(data) } }, "Save")),
      el("p", { id: "goal" }),
      facts(at, data),
      data.error ? el("p", { class: "error", role: "note" }, data.error) : null,
      data.undrawn ? el("p", { class: "sub", role: "note" }, "No pictures: " + data.undrawn) : null,
      times.total > 0 ? latency(times) : null,
      legend(data),
      noteForm(at)),
    prompt(data),
    data.turns.map((one, place) => turnOf(data, one, place, times))));
  by("main").scrollTop = 0;
  showGoal();
  showHits();
}

function showGoal() {
  if (opened() >= 0 && by("goal")) by("goal").replaceChildren(visible(goals.get(named("item_id", opened())) ?? ""));
}

function badge(at) {
  return el("span", { class: "badge " + result(at) }, MARKS[result(at)] + " " + RESULTS[result(at)]);
}

function facts(at, data) {
  const began = data.began ? new Date(data.began * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC" : null;
  const shown = [
    ["environment", data.env], ["step", data.step], ["ending", words(data.ending)], ["reward", data.counts ? number(data.reward, 3) : null],
    ["turns", `${data.turns.length} of ${data.max_turns}`],
    ["tokens", data.response_tokens || data.prompt_tokens ? `${number(data.prompt_tokens)} prompt, ${number(data.response_tokens)} response` : null],
    ...Object.entries(data.tags).filter(([, value]) => value !== null && value !== "")
      .map(([key, value]) => [key, typeof value === "object" ? JSON.stringify(value) : value]),
    ["seed", data.seed], ["attempts", data.attempts > 1 ? data.attempts : null], ["began", began],
    ["file", `${named("file", at)}, row ${store.columns.row[at]}`],
  ];
  return el("dl", { class: "facts" }, shown.filter(([, value]) => value !== null)
    .map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
}

const CHANCES = ["0.9–1", "0.7–0.9", "0.5–0.7", "0.25–0.5", "0.1–0.25", "0–0.1"]; // as LEVELS

function legend(data) {
  const known = data.turns.some((one) => one.parts.some((part) => part.tokens.some(([, logProb]) => logProb !== null)));
  return el("p", { class: "legend muted" },
    known ? ["Probability of a token ", el("span", { class: "ramp" }, CHANCES.map((name, place) => el("span", { class: "token p" + place }, name))), " "]
      : "Log-probabilities of single tokens are not in this episode. ",
    el("span", { class: "masked sample" }, "grey"), data.counts
      ? " text is masked: the model reads it and does not learn to write it."
      : " text is masked. This episode does not count, so the model does not learn from it.");
}

function prompt(data) {
  const first = data.opening.length - 1;
  const rest = data.opening.slice(0, Math.max(0, first));
  return el("section", { class: "prompt", "aria-label": "Prompt" },
    rest.length ? el("details", null,
      el("summary", null, `Instruction${data.prompt_tokens ? ` · prompt of ${number(data.prompt_tokens)} tokens` : ""}`),
      rest.map((message) => el("div", { class: "message masked" }, el("span", { class: "role" }, message.role), el("pre", null, message.content)))) : null,
    first >= 0 ? el("div", { class: "block" },
      el("div", { class: "observation masked" }, el("span", { class: "role" }, "first observation"), el("pre", null, data.opening[first].content)),
      drawn(data, data.picture)) : null);
}

function drawn(data, place) {
  const enlarge = (event) => event.currentTarget.classList.toggle("full");
  const enter = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    enlarge(event);
  };
  return place === null ? null : el("figure", { title: "Press to enlarge", tabindex: 0, role: "button", on: { click: enlarge, keydown: enter } },
    picture(data.pictures[place], 340));
}

function turnOf(data, one, place, times) {
  const name = `Turn ${place + 1} of ${data.turns.length}`;
  return el("section", { class: "turn", id: "turn-" + place, "aria-label": name, tabindex: "-1", on: { click: () => mark(place) } },
    el("h3", null, place + 1, el("span", { class: "hidden" }, ` of ${data.turns.length}`)),
    el("div", { class: "block" },
      el("div", { class: "said" },
        one.notes ? el("div", { class: "notes" }, el("span", { class: "role" }, "the conversation was folded here; the model's notes"), el("pre", null, one.notes)) : null,
        el("div", { class: "response" + (data.counts ? "" : " masked") + (one.invalid || one.action === null ? " bad" : "") }, one.parts.map(part)),
        el("p", { class: "meta" }, meta(one), spent(times.turns[place], times.longest)),
        action(one),
        el("div", { class: "observation masked" },
          el("span", { class: "role" }, "observation",
            one.observation_tokens && one.shown ? ` · ${number(one.observation_tokens)} tokens` : null,
            one.shown ? null : " · not shown to the model"),
          el("pre", null, one.observation)),
        worth(one, data)),
      drawn(data, one.picture)));
}

function part(one) {
  const label = { thought: "thought", action: "action", other: null }[one.kind];
  return el("span", { class: "part " + one.kind, title: label, "data-kind": one.kind },
    one.tokens.map(([text, logProb]) => logProb === null ? el("span", { class: "token" }, text)
      : el("span", { class: "token p" + level(logProb), title: `log p ${number(logProb, 3)}, p ${number(Math.exp(logProb), 3)}` }, text)));
}

// What a turn was worth: its reward and, where an update learned from it, its advantage.
function worth(one, data) {
  if (!data.counts) return null;
  const signed = one.advantage === null ? null : (one.advantage > 0 ? "+" : "") + number(one.advantage, 3);
  return el("p", { class: "worth" }, el("span", { class: "reward" + (one.reward ? "" : " none") }, "reward " + number(one.reward, 3)),
    signed && el("span", { class: "advantage" + (one.advantage < 0 ? " bad" : "") }, "advantage " + signed));
}

// The action as the environment read it, where that differs from what was written or could not be done.
function action(one) {
  if (one.action === null) return el("p", { class: "command bad" }, "No action could be read from the response; the environment was not called." + (one.fault ? ` The parser failed: ${one.fault}` : ""));
  const written = one.parts.filter((part) => part.kind === "action").flatMap((part) => part.tokens.map(([text]) => text)).join("").trim();
  if (written === one.action) return one.invalid ? el("p", { class: "command bad" }, "not possible") : null;
  return el("p", { class: "command" + (one.invalid ? " bad" : "") }, el("span", { class: "role" }, one.invalid ? "not possible" : "taken as"),
    el("code", null, one.action === "" ? "(empty)" : one.action));
}

function meta(one) {
  const said = [];
  if (one.tokens) said.push(`${number(one.tokens)} tokens`);
  if (one.log_prob !== null) said.push(`log p ${number(one.log_prob, 2)}`);
  if (one.log_prob !== null && one.tokens) said.push(`${number(Math.exp(one.log_prob / one.tokens), 2)} a token`);
  if (one.finish_reason && one.finish_reason !== "stop") said.push(`stopped: ${one.finish_reason}`);
  if (one.calls === 0) said.push("replayed");
  if (one.calls > 1) said.push(`asked ${one.calls} times`);
  return said.join(" · ");
}

function mark(place) {
  if (turn >= 0) by("turn-" + turn)?.classList.remove("current");
  turn = place;
  by("turn-" + turn).classList.add("current");
}

function step(by_) {
  const all = document.querySelectorAll(".turn").length;
  if (!all || route.kind !== "episode") return false;
  mark(Math.max(0, Math.min(all - 1, turn + by_)));
  const node = by("turn-" + turn);
  const main = by("main");
  main.scrollTop += node.getBoundingClientRect().top - main.getBoundingClientRect().top - 12;
  node.focus({ preventScroll: true });
}
