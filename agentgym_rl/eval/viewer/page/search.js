// Search in what was said and done: the server has an index of all episodes.

let said = null; // places of the episodes that contain the text; null where none is searched for
let asked = ""; // the text of the newest search; null after one that failed

function searchField() {
  if (!source.search) return null;
  return el("input", {
    id: "f-said", type: "search", placeholder: "Said or done", autocomplete: "off",
    "aria-label": "Text in observations, responses and thoughts: press Enter",
    title: "Text in observations, responses and thoughts; Enter searches (f)",
    on: { change: (event) => change("said", event.target.value.trim()), search: (event) => change("said", event.target.value.trim()) },
  });
}

// Learn which episodes contain the text of the filter; whether that is news.
async function search() {
  const text = wanted.said;
  if (text === asked) return false;
  asked = text;
  if (!text || !source.search) return (said = null), true;
  by("count").textContent = "Searching; the first search reads all episodes…";
  let rows;
  try {
    rows = await source.search(text);
  } catch (error) {
    if (text !== asked) return false; // a newer search is under way
    asked = said = null;
    throw error;
  }
  if (text !== asked) return false;
  said = new Set(Object.entries(rows).flatMap(([file, own]) => own.map((row) => find(file, row))));
  return true;
}

// What the index finds: the words in their order, the last one perhaps continued.
function pattern() {
  const found = wanted.said.match(/[\p{L}\p{N}]+/gu);
  return found && new RegExp("(?<![\\p{L}\\p{N}])" + found.join("[^\\p{L}\\p{N}]+"), "iu");
}

// Mark the turns of an open episode that contain the text.
function markHits() {
  const text = pattern();
  const of = (node) => [...node.querySelectorAll(".response, .observation pre")].some((one) => text?.test(one.textContent));
  for (const node of document.querySelectorAll(".episode :is(.turn, .prompt)")) node.classList.toggle("hit", of(node));
}

// Mark them, and go to the first.
function showHits() {
  markHits();
  const first = document.querySelector(".turn.hit");
  if (first) step(Number(first.id.slice(5)) - turn);
}
