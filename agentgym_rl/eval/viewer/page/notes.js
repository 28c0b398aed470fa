// Notes and tags on an episode, and the episode as text and as a file.

function noteForm(at) {
  const own = noteOf(at) ?? { note: "", tags: [] };
  if (!source.note) {
    return own.note || own.tags.length ? el("p", { class: "noted" }, [own.note, own.tags.join(", ")].filter(Boolean).join(" · ")) : null;
  }
  const said = el("span", { class: "muted", role: "status" });
  const note = el("textarea", { id: "note", rows: 2, placeholder: "What is to be seen here", "aria-label": "Note" }, own.note);
  const tags = el("input", { id: "tags", value: own.tags.join(", "), placeholder: "Tags, with commas", "aria-label": "Tags, with commas", autocomplete: "off" });
  const save = async (event) => {
    event.preventDefault();
    try {
      await source.note(at, { note: note.value, tags: tags.value.split(",") });
      said.textContent = "Kept beside the run";
      buildFilters();
      paint();
    } catch (error) {
      said.textContent = `Not kept: ${error.message}`;
    }
  };
  return el("details", { open: Boolean(own.note || own.tags.length) }, el("summary", null, "Note and tags"),
    el("form", { class: "note-form", on: { submit: save } }, note, tags, el("button", { id: "keep" }, "Keep"), said));
}

// The conversation as Markdown.
function asText(data) {
  const said = data.opening.map((message) => [message.role, message.content]);
  for (const one of data.turns) {
    said.push(["assistant", responseOf(one)], ["observation", one.observation]);
  }
  const head = `${data.item_id}, step ${data.step}: ${words(data.ending)}, ${data.counts ? `reward ${number(data.reward, 3)}, ` : ""}${data.turns.length} turns`;
  return [head, ...said.map(([role, text]) => `### ${role}\n\n${text}`)].join("\n\n") + "\n";
}

function responseOf(one) {
  return one.parts.flatMap((part) => part.tokens.map(([text]) => text)).join("");
}

async function copyEpisode(button, data) {
  try {
    await navigator.clipboard.writeText(asText(data));
    button.textContent = "Copied";
  } catch {
    button.textContent = "The browser refuses";
  }
}

// All that the page knows of an episode, without its pictures, as a JSON file.
function saveEpisode(data) {
  const { pictures, picture, ...episode } = data;
  const turns = episode.turns.map(({ picture: _, parts, ...one }) => ({ ...one, response: responseOf({ parts }), parts }));
  const text = JSON.stringify({ ...episode, turns }, null, 1);
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: `${data.item_id}-step${data.step}.json` });
  link.click();
  URL.revokeObjectURL(link.href);
}
