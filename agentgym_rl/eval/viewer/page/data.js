// Where episodes come from: the server that shows this page, or the scripts of an exported folder.

const CHUNK = CHUNK_SIZE;
const KEPT = 40;
const store = { count: 0, values: {}, columns: {}, run: "", notes: {}, first: new Map(), stages: [] };

const fromServer = {
  async index() {
    return ask("api/index");
  },
  async episode(at) {
    const place = new URLSearchParams({ file: named("file", at), row: store.columns.row[at] });
    return ask("api/episode?" + place);
  },
  async goals(tasks) {
    return ask("api/goals?" + new URLSearchParams(tasks.map((task) => ["task", task])));
  },
  async search(text) {
    return ask("api/search?" + new URLSearchParams({ text }));
  },
  async note(at, note) {
    const place = new URLSearchParams({ file: named("file", at), row: store.columns.row[at] });
    store.notes = await ask("api/note?" + place, { method: "POST", body: JSON.stringify(note) });
  },
};

async function ask(address, options) {
  const answer = await fetch(address, options);
  if (!answer.ok) throw new Error((await answer.text()) || answer.statusText);
  return answer.json();
}

const fromFiles = {
  async index() {
    return load("data/index.js");
  },
  async episode(at) {
    const chunk = Math.floor(at / CHUNK);
    const folder = String(Math.floor(chunk / 1000)).padStart(3, "0");
    const all = await load(`data/${folder}/${String(chunk).padStart(6, "0")}.js`);
    return all[at % CHUNK];
  },
  async goals() {
    return load("data/goals.js");
  },
  note: null, // a page from a file can only be read
  search: null, // and has no index
};

// Scripts of an export call this with gzip-compressed JSON as base64.
window.agentgym = (content) => { document.currentScript.content = content; };
const loading = new Map();

function load(address) {
  if (!loading.has(address)) {
    const promise = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = () => { script.remove(); resolve(unpacked(script.content)); };
      script.onerror = () => { script.remove(); loading.delete(address); reject(new Error(`${address} cannot be read`)); };
      document.head.append(script);
    });
    loading.set(address, promise);
    if (loading.size > KEPT) loading.delete(loading.keys().next().value);
  }
  return loading.get(address);
}

async function unpacked(content) {
  const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

const source = document.body.dataset.source === "server" ? fromServer : fromFiles;

async function loadIndex() {
  Object.assign(store, await source.index());
  store.first = new Map();
  store.columns.file.forEach((file, at) => { if (!store.first.has(file)) store.first.set(file, at); });
  store.stages = stagesOf(store.values.file);
  goalsFailed = false;
}

// What the evaluations in files are of: "bc", "agentevol round1"; with the step where a stage is evaluated repeatedly.
function stagesOf(files) {
  const found = files.map((file) => /^val_(.+)_step0*(\d+)$/.exec(file));
  const of = new Map();
  for (const one of found) if (one) of.set(one[1], (of.get(one[1]) || 0) + 1);
  return found.map((one, place) => (one ? words(one[1]) + (of.get(one[1]) > 1 ? " " + one[2] : "") : words(files[place])));
}

// Goals of tasks, once they are known: the page asks for those of the rows in sight.
const goals = new Map();
let goalsFailed = false; // they could not be read, and are asked for again with the next index

async function learnGoals(tasks) {
  const asked = goalsFailed ? [] : tasks.filter((task) => !goals.has(task));
  if (!asked.length) return false;
  for (const task of asked) goals.set(task, null);
  const learned = await source.goals(asked).catch((error) => {
    goalsFailed = true;
    for (const task of asked) goals.delete(task);
    throw error;
  });
  for (const [task, goal] of Object.entries(learned)) goals.set(task, goal);
  return true;
}

function failGoals(error) {
  by("count").textContent = `Goals cannot be read: ${error.message}`; // the episodes can
}

function placeOf(at) {
  return `${named("file", at)}/${store.columns.row[at]}`;
}

function noteOf(at) {
  return store.notes[placeOf(at)];
}

// The text of a column that holds codes; null where there is none.
function named(column, at) {
  const code = store.columns[column][at];
  return code < 0 ? null : store.values[column][code];
}

function counts(at) {
  return !["env_error", "timeout", "aborted", "prompt_limit", "rollout_error"].includes(named("ending", at));
}

function result(at) {
  return counts(at) ? (store.columns.success[at] ? "solved" : "failed") : "uncounted";
}

function panelOf(at) {
  return named("panel", at) ?? "training";
}

// Where an episode comes from, in words.
function sourceOf(at) {
  const panel = named("panel", at);
  const greedy = named("decoding", at) === "greedy" ? " · greedy" : "";
  return panel === null ? "training" + greedy : `${store.stages[store.columns.file[at]]} · ${words(panel)}${greedy}`;
}

// The place of an episode in the index, or -1.
function find(file, row) {
  const first = store.first.get(store.values.file.indexOf(file));
  const at = first === undefined ? -1 : first + row;
  return store.columns.row[at] === row ? at : -1;
}
