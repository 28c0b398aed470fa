// Where an episode's time went.

const KINDS = ["reset", "wait", "generate", "parse", "step"];
const MEANING = {
  reset: "the environment's reset", wait: "between them: building prompts, waiting for the processor",
  generate: "waiting for the model's response", parse: "reading the action", step: "the environment's step",
};

// Segments in order, per turn and in all. Episodes without clock times have no waiting.
function timeline(data) {
  const clock = data.began > 0;
  const all = data.reset_s > 0 ? [{ kind: "reset", s: data.reset_s, turn: -1 }] : [];
  let at = data.reset_s || 0;
  const turns = data.turns.map((one, place) => {
    const own = [
      { kind: "wait", s: clock ? Math.max(0, one.began_s - at) : 0 }, { kind: "generate", s: one.model_s || 0 },
      { kind: "parse", s: one.parse_s || 0 }, { kind: "step", s: one.env_s || 0 },
    ].map((segment) => ({ ...segment, turn: place }));
    at += sum(own);
    all.push(...own);
    return own;
  });
  return { all, turns, total: sum(all), longest: Math.max(0, ...turns.map(sum)) };
}

function sum(segments) {
  return segments.reduce((total, segment) => total + segment.s, 0);
}

function latency(times) {
  const totals = KINDS.map((kind) => [kind, sum(times.all.filter((segment) => segment.kind === kind))]).filter(([, s]) => s > 0);
  return el("div", { class: "latency" },
    el("div", { class: "parts", role: "img", "aria-label": "Time: " + totals.map(([kind, s]) => `${kind} ${seconds(s)}`).join(", ") },
      segments(times.all, times.total)),
    el("p", { class: "meta" }, el("strong", null, seconds(times.total)), totals.map(([kind, s]) =>
      el("span", { class: "key", title: MEANING[kind] }, el("i", { class: "dot kind-" + kind }), `${kind} ${seconds(s)}`))));
}

function segments(list, whole) {
  return list.filter((segment) => segment.s > whole / 2000).map((segment) => {
    const node = el("i", { class: "kind-" + segment.kind,
      title: (segment.turn < 0 ? "" : `turn ${segment.turn + 1}: `) + `${segment.kind} ${seconds(segment.s)}` });
    node.style.width = `${(100 * segment.s) / whole}%`;
    return node;
  });
}

// The bar of one turn; bars of an episode have one scale.
function spent(own, longest) {
  if (!(longest > 0)) return null;
  const said = own.filter((segment) => segment.s > 0).map((segment) => `${segment.kind} ${seconds(segment.s)}`).join(", ");
  return el("span", { class: "spent", title: said }, el("span", { class: "parts small", "aria-hidden": "true" }, segments(own, longest)), seconds(sum(own)));
}
