// Where episodes come from: the server that shows this page, or the scripts of an exported folder.

const CHUNK = CHUNK_SIZE;
const KEPT = 40;
const store = { count: 0, values: {}, columns: {}, run: "", first: new Map() };

const fromServer = {
  async index() {
    return ask("api/index");
  },
  async episode(at) {
    const place = new URLSearchParams({ file: named("file", at), row: store.columns.row[at] });
    return ask("api/episode?" + place);
  },
};

async function ask(address) {
  const answer = await fetch(address);
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
}

// The text of a column that holds codes; null where there is none.
function named(column, at) {
  const code = store.columns[column][at];
  return code < 0 ? null : store.values[column][code];
}

function counts(at) {
  return !["env_error", "timeout", "aborted"].includes(named("ending", at));
}

function result(at) {
  return counts(at) ? (store.columns.success[at] ? "solved" : "failed") : "uncounted";
}

function panelOf(at) {
  return named("panel", at) ?? "training";
}

// The place of an episode in the index, or -1.
function find(file, row) {
  const first = store.first.get(store.values.file.indexOf(file));
  const at = first === undefined ? -1 : first + row;
  return store.columns.row[at] === row ? at : -1;
}
