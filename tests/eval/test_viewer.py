"""What the viewer shows of an episode, its server and its export; the page itself is tested in a browser."""

import base64
import gzip
import http.client
import json
import math
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from typer.testing import CliRunner
from viewer_episodes import HOSTILE, made, played, run_folder

from agentgym_rl.cli import app
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Turn
from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.envs import Task
from agentgym_rl.envs.babyai import BabyAI
from agentgym_rl.envs.picture import shade
from agentgym_rl.envs.textcraft.icons import FORMS, icon
from agentgym_rl.eval.html import style
from agentgym_rl.eval.html.palette import COLOURS
from agentgym_rl.eval.viewer import notes, server
from agentgym_rl.eval.viewer.assets import CHUNK, page, script
from agentgym_rl.eval.viewer.detail import detail, draw, encode
from agentgym_rl.eval.viewer.export import export
from agentgym_rl.eval.viewer.goals import goals
from agentgym_rl.eval.viewer.listing import listing
from agentgym_rl.eval.viewer.parts import parts
from agentgym_rl.eval.viewer.server import Viewer


def turn(response, action="x", **fields):
    return Turn(response=response, action=action, observation="", reward=0.0, invalid=False, **fields)


def kinds(shown):
    return [(part["kind"], "".join(text for text, _ in part["tokens"])) for part in parts(shown)]


@pytest.mark.parametrize(
    ("reply", "action", "expected"),
    [
        ("Thought:\nbecause\n\nAction:\ngo left", "go left",
         [("other", "Thought:\n"), ("thought", "because"), ("other", "\n\nAction:\n"), ("action", "go left")]),
        ("Action: go <left>\nand more", "go left",
         [("other", "Action: "), ("action", "go <left>"), ("other", "\nand more")]),
        ("Action:\nprint(1)\nprint(2)", "print(1)\nprint(2)",
         [("other", "Action:\n"), ("action", "print(1)\nprint(2)")]),
        ('{"thought": "a \\"b\\"", "function_name": "go", "arguments": {}}', "go",
         [("other", '{"thought": "'), ("thought", 'a \\"b\\"'), ("other", '", '),
          ("action", '"function_name": "go", "arguments": {}}')]),
        ('{"name": "go", "parameters": {}}', "go",
         [("other", "{"), ("action", '"name": "go", "parameters": {}}')]),
        ('so\n<tool_call>{"name": "go"}</tool_call>', "go",
         [("thought", "so\n"), ("other", "<tool_call>"), ("action", '{"name": "go"}'), ("other", "</tool_call>")]),
        ("```python\n# left is free\nmove('left')\n```", "move left",
         [("other", "```python\n"), ("thought", "# left is free"), ("other", "\n"), ("action", "move('left')"),
          ("other", "\n```")]),
        ("no idea", None, [("other", "no idea")]),
        ("", None, []),
    ],
)  # fmt: skip
def test_a_reply_is_cut_into_thought_and_action(reply, action, expected):
    assert kinds(turn(reply, action)) == expected


def test_tokens_keep_their_log_probabilities_and_their_order():
    pieces = ["Thought", ":\n", "be", "cause", "\n\n", "Action:", "\ngo", " left", "<|im_end|>"]
    read = turn("Thought:\nbecause\n\nAction:\ngo left", pieces=pieces, log_probs=[-0.1 * at for at in range(9)])
    sections = parts(read)
    assert [(part["kind"], [text for text, _ in part["tokens"]]) for part in sections] == [
        ("other", ["Thought", ":\n"]), ("thought", ["be", "cause"]), ("other", ["\n\n", "Action:"]),
        ("action", ["\ngo", " left"]), ("other", ["<|im_end|>"]),
    ]  # fmt: skip
    assert [log_prob for part in sections for _, log_prob in part["tokens"]] == read.log_probs


def test_replayed_tokens_have_no_log_probabilities():
    sections = parts(turn("Action: go", pieces=["Action", ":", " go"], calls=0))
    assert [token for part in sections for token in part["tokens"]] == [["Action", None], [":", None], [" go", None]]


def test_details_of_an_episode():
    details = detail(made(turns=2, text=HOSTILE))
    assert [message["role"] for message in details["opening"]] == ["system", "user"]
    first, last = details["turns"]
    assert (first["tokens"], first["observation_tokens"], last["observation_tokens"]) == (6, 14, 0)
    assert (first["shown"], last["shown"]) == (True, False)
    assert details["pictures"] == [] and details["picture"] is None
    assert json.loads(encode(details))["turns"][0]["observation"] == HOSTILE
    assert encode(details).isascii()


def test_an_observation_that_was_put_before_the_model_is_shown():
    episode = made(turns=1, ending=Ending.CONTEXT_LIMIT)
    episode.messages.append({"role": "user", "content": "one"})
    assert [shown["shown"] for shown in detail(episode)["turns"]] == [True]


def test_every_ending_that_counts_has_a_colour_of_its_own():
    (table,) = re.findall(r"const FAILURES = \{(.*?)\};", script(), re.DOTALL)
    looks = dict(re.findall(r'(\w+): \["(\w+)"', table))
    assert set(looks) == {ending.value for ending in Ending if ending.counts}
    assert len({*looks.values(), "green", "pale"}) == len(looks) + 2  # beside those of solved and not counted
    assert set(looks.values()) <= COLOURS.keys()
    (uncounted,) = re.findall(r'!\[(.*?)\]\.includes\(named\("ending", at\)\)', script())
    assert set(re.findall(r"\w+", uncounted)) == {ending.value for ending in Ending if not ending.counts}


def test_a_folded_conversation_shows_its_notes():
    episode = made(turns=2)
    episode.turns[1] = replace(episode.turns[1], segment=1, tokens=(0, 6), notes="one is done")
    first, last = detail(episode)["turns"]
    assert (first["notes"], last["notes"], first["observation_tokens"]) == ("", "one is done", 0)


def test_episodes_that_never_began_and_numbers_json_has_not():
    failed = detail(made(turns=0, messages=[], ending=Ending.ENV_ERROR, success=False, error="gone"))
    assert (failed["turns"], failed["opening"], failed["counts"]) == ([], [], False)
    assert failed["success"] is failed["reward"] is None
    odd = made(turns=1)
    odd.turns[0] = replace(odd.turns[0], log_prob=math.nan, log_probs=[math.nan, -math.inf])
    (only,) = json.loads(encode(detail(odd)))["turns"]
    assert only["log_prob"] is None and only["parts"][0]["tokens"][0][1] is None


def slots(picture):
    return picture.label.partition(". Goal")[0]


@pytest.mark.parametrize("style", ["compact", "agentgym"])
def test_textcrafts_inventory_follows_the_episode(style):
    episode = played("textcraft", 8, style)  # craft a dark oak boat from two logs
    pictures = draw(episode)
    assert len(pictures) == len(episode.turns) + 1
    assert slots(pictures[0]) == "Inventory: nothing"
    assert [turn.action for turn in episode.turns][:2] == [
        "get 2 dark oak log",
        "craft 4 dark oak planks using 1 dark oak log",
    ]
    assert slots(pictures[1]) == "Inventory: 2 dark oak log"
    assert slots(pictures[2]) == "Inventory: 1 dark oak log, 4 dark oak planks"
    assert pictures[0].label.endswith("Goal: 1 dark oak boat") and "1 dark oak boat" in slots(pictures[-1])
    texts = [dict(attributes).get("text") for name, attributes in pictures[2].shapes if name == "text"]
    assert {"+4", "\N{MINUS SIGN}1", "goal"} <= set(texts)


def test_what_textcraft_refused_changes_nothing():
    episode = played("textcraft", 8)
    episode.turns[1].observation = "Could not find enough items to craft dark oak planks"
    assert slots(draw(episode)[2]) == "Inventory: 2 dark oak log"


@pytest.mark.parametrize("name", ["", "!", "oak planks", "雪", "netherite ingot", *(min(words) for _, words in FORMS)])
def test_every_item_has_a_picture(name):
    assert icon(name, 0, 0) and shade("#808080", 2) == "#ffffff" and shade("#808080", 0) == "#000000"


@pytest.mark.parametrize("style", ["compact", "agentgym"])
def test_babyais_grid_follows_the_episode(style):
    episode = played("babyai", 2, style)
    pictures = draw(episode)
    assert len(pictures) == len(episode.turns) + 1 and None not in pictures
    env = BabyAI(style)
    env._reset_blocking(Task.parse(episode.item_id))
    for turn, picture in zip(episode.turns, pictures[1:], strict=True):
        env._step_blocking(turn.action)
        x, y, heading = env.level.pose
        assert f"column {x}, row {y}, faces {('right', 'down', 'left', 'up')[heading]}" in picture.label


def test_a_grid_that_is_not_the_episodes_is_not_drawn():
    episode = played("babyai", 7)
    episode.turns[0].observation = "You stand on the moon."
    assert [picture is None for picture in draw(episode)] == [False] + [True] * len(episode.turns)
    episode.messages[episode.start - 1]["content"] = "Goal: fly."
    assert set(draw(episode)) == {None}
    episode.item_id = "nobody knows"
    assert set(draw(episode)) == {None}


@pytest.mark.parametrize("style", ["compact", "agentgym"])
def test_webshops_pages_follow_the_episode(style):
    episode = played("webshop", 0, style)
    pictures = draw(episode)
    assert len(pictures) == len(episode.turns) + 1 and None not in pictures
    texts = [" ".join(text for _, each in picture.shapes if (text := dict(each).get("text"))) for picture in pictures]
    assert "Search" in texts[0] and "Total results" in texts[1] and "Buy Now" in texts[2] and "score" in texts[-1]
    kinds = [dict(each).get("class") for _, each in pictures[3].shapes]
    assert kinds.count("shop pressed") == 1
    episode.turns[2].observation = "another page"
    assert [picture is None for picture in draw(episode)] == [False] * 3 + [True] * (len(episode.turns) - 2)
    episode.item_id = "webshop_-1"
    assert set(draw(episode)) == {None}


def test_without_a_browser_the_viewer_says_so(monkeypatch):
    pytest.importorskip("playwright", reason="the extra webarena is not installed")
    from agentgym_rl.envs.browser.chromium import CHROMIUM

    CHROMIUM.call_blocking(CHROMIUM.give_up())
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/nowhere")
    details = detail(replace(made(), env="webarena", item_id="webarena_4"))
    assert details["pictures"] == [] and details["undrawn"].startswith("there is no Chromium: ")
    assert "\n" not in details["undrawn"] and detail(made())["undrawn"] is None


@pytest.mark.parametrize("env", ["maze", "of_another_package"])
def test_an_environment_that_draws_nothing_or_is_not_installed_has_no_pictures(env):
    episode = replace(played("textcraft", 8), env=env)
    assert list(draw(episode)) == [] and detail(episode)["pictures"] == []


@pytest.fixture
def viewer(tmp_path):
    viewer = Viewer(EpisodeStore(run_folder(tmp_path / "demo")))
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    yield viewer
    viewer.shutdown()
    viewer.server_close()


def get(viewer, path, timeout=20, **headers):
    connection = http.client.HTTPConnection(*viewer.server_address, timeout=timeout)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def test_the_server_searches(viewer, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    expected = {"step000000": [3], "step000010": [3], "step000020": [3]}
    assert json.loads(get(viewer, "/api/search?text=say+3")[1]) == expected
    answer, text = get(viewer, "/api/search?text=%21")
    assert answer.status == 400 and text.startswith("there is no word in '!'")


def test_the_server_answers(viewer, tmp_path):
    answer, text = get(viewer, "/api/index")
    index = json.loads(text)
    assert (index["run"], index["count"]) == ("demo", 18) and index == listing(viewer.stores[""])
    place = index["columns"]["row"][-1], index["values"]["file"][index["columns"]["file"][-1]]
    answer, text = get(viewer, f"/api/episode?file={place[1]}&row={place[0]}")
    assert json.loads(text)["turns"][0]["observation"] == HOSTILE
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    for path, kind in (("/", "text/html"), ("/viewer.js", "text/javascript"), ("/viewer.css", "text/css")):
        answer, text = get(viewer, path)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith(kind) and len(text) > 900
    episode_store.write(tmp_path / "demo" / "episodes" / "step000030.parquet", [made(step=30)])
    assert json.loads(get(viewer, "/api/index")[1])["count"] == 19


def test_the_list_of_a_run_that_is_gone_says_so(viewer, tmp_path):
    (tmp_path / "demo").rename(tmp_path / "moved")
    answer, text = get(viewer, "/api/index")
    assert answer.status == 500 and text.startswith(f"{tmp_path / 'demo'} does not exist")


def test_a_file_that_is_damaged_or_moved_is_not_an_episode_that_is_missing(viewer, tmp_path):
    file = tmp_path / "demo" / "episodes" / "step000010.parquet"
    file.write_bytes(file.read_bytes()[:2000])
    answer, text = get(viewer, "/api/episode?file=step000010&row=1")
    assert answer.status == 500 and text.startswith(f"{file}: not a parquet file that can be read")


def test_the_list_is_shown_while_an_environment_gets_ready(viewer, monkeypatch):
    asked, ready = threading.Event(), threading.Event()
    monkeypatch.setattr(server, "goals", lambda tasks, place: (asked.set(), ready.wait(20), {})[-1])
    goals_asked = threading.Thread(target=get, args=(viewer, "/api/goals?task=webshop_1"))
    goals_asked.start()
    try:
        assert asked.wait(20) and get(viewer, "/api/index", timeout=5)[0].status == 200
    finally:
        ready.set()
        goals_asked.join()


def test_the_list_says_why_a_run_learns_nothing(viewer, tmp_path):
    assert json.loads(get(viewer, "/api/index")[1])["findings"] == [], "it has no metrics"
    rows = [{"step": at, "stage/grpo": at, "run/units": 2, "actor/entropy": 0.0} for at in (1, 2)]
    (tmp_path / "demo" / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (finding,) = json.loads(get(viewer, "/api/index")[1])["findings"]
    assert finding.startswith("grpo is not learning: the entropy has collapsed to 0 nats")


def test_goals_of_tasks(viewer):
    text = get(viewer, "/api/goals?task=textcraft_3&task=babyai_1&task=hostile_7&task=x")[1]
    goals = json.loads(text)
    assert goals.keys() == {"textcraft_3", "babyai_1"} and goals["textcraft_3"].startswith("craft ")


def test_goals_are_those_of_a_runs_options(tmp_path):
    """By default the environment has other tasks of these ids, or none."""
    (tmp_path / "tasks.jsonl").write_text('{"goal": "Mend it."}\n')
    options = {"tasks": str(tmp_path / "tasks.jsonl")}
    config = {"envs": {"harness": {"options": options}}, "rollout": {}, "model": {}}
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text(json.dumps(config))
    (tmp_path / "result.json").write_text(json.dumps({"plan": {"rules": {"options": {"harness": options}}}}))
    for place in (tmp_path / "run", tmp_path / "run" / "episodes", tmp_path):
        assert goals(["harness_0", "harness_1", "counter_x"], place) == {"harness_0": "Mend it."}
    assert goals(["harness_0"], tmp_path / "elsewhere") == {}


def post(viewer, body, query="file=step000000&row=1", **headers):
    address = viewer.url.rstrip("/")
    connection = http.client.HTTPConnection(*viewer.server_address, timeout=20)
    connection.request("POST", f"/api/note?{query}", body, {"Origin": address, **headers})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_note_is_kept_beside_the_run(viewer, tmp_path):
    before = sorted(path.name for path in (tmp_path / "demo").rglob("*"))
    note = {"note": " odd ", "tags": ["b", "a ", "", "b"]}
    assert post(viewer, json.dumps(note))[0] == 200
    kept = {"step000000/1": {"note": "odd", "tags": ["b", "a"]}}
    assert json.loads((tmp_path / "demo.notes.json").read_text()) == kept
    assert json.loads(get(viewer, "/api/index")[1])["notes"] == kept
    assert sorted(path.name for path in (tmp_path / "demo").rglob("*")) == before, "a reader leaves the run alone"


def test_two_viewers_lose_no_note(tmp_path):
    folder = run_folder(tmp_path / "demo")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: notes.put(folder, "step000000", row, notes.Note(str(row))), range(40)))
    assert len(notes.read(folder)) == 40


@pytest.mark.parametrize(
    ("status", "body", "query", "headers"),
    [
        (403, "{}", "file=step000000&row=1", {"Origin": "http://evil.example"}),
        (403, "{}", "file=step000000&row=1", {"Host": "evil.example"}),
        (404, '{"note": "", "tags": []}', "file=step000000&row=99", {}),
        (404, '{"note": "", "tags": []}', "row=1", {}),
        (400, "{", "file=step000000&row=1", {}),
        (400, '{"note": 1, "tags": []}', "file=step000000&row=1", {}),
        (400, '{"note": "' + "x" * 10_001 + '", "tags": []}', "file=step000000&row=1", {}),
        (400, "x" * 100_001, "file=step000000&row=1", {}),
    ],
)
def test_notes_that_are_refused(viewer, tmp_path, status, body, query, headers):
    assert post(viewer, body, query, **headers)[0] == status
    assert not (tmp_path / "demo.notes.json").exists()


def test_notes_that_cannot_be_read(tmp_path):
    folder = run_folder(tmp_path / "demo")
    for kept, says in (("[]", "expected an object"), ('{"step000000/1": {"note": "odd"}}', "a note is")):
        (tmp_path / "demo.notes.json").write_text(kept)
        refused = run(folder, "--no-browser")
        assert refused.exit_code == 2 and f"demo.notes.json: {says}" in refused.stderr.replace("\n", "")


@pytest.mark.parametrize(
    "path",
    ["/x", "/../../etc/passwd", "/api/episode", "/api/episode?file=step000000&row=99", "/api/episode?file=..&row=0",
     "/api/episode?file=step000000&row=-1", "/api/episode?file=step000000&row=x"],
)  # fmt: skip
def test_the_server_gives_nothing_else(viewer, path):
    assert get(viewer, path)[0].status == 404


def test_other_sites_do_not_reach_the_server(viewer):
    assert get(viewer, "/api/index", Host=f"evil.example:{viewer.server_address[1]}")[0].status == 403
    assert viewer.server_address[0] == "127.0.0.1"


def test_runs_lie_behind_a_front_page(tmp_path):
    stores = {name: EpisodeStore(run_folder(tmp_path / name)) for name in ("run0", "run1")}
    viewer = Viewer(stores, front=lambda: "<!doctype html>both")
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    try:
        assert get(viewer, "/")[1] == "<!doctype html>both"
        assert [json.loads(get(viewer, f"/{name}/api/index")[1])["run"] for name in stores] == ["run0", "run1"]
        assert get(viewer, "/run1/")[1] == page("server")
        missing = ("/api/index", "/viewer.js", "/run2/", "/run2/api/index", "/run1", "/run1/x", "//api/index")
        assert [get(viewer, path)[0].status for path in missing] == [404] * len(missing)
    finally:
        viewer.shutdown()
        viewer.server_close()


def unpacked(text):
    return json.loads(gzip.decompress(base64.b64decode(text.partition('"')[2].partition('"')[0])))


def test_an_export_holds_every_episode(tmp_path):
    folder = run_folder(tmp_path / "demo")
    episode_store.write(folder / "episodes" / "step000001.parquet", [made(number) for number in range(2 * CHUNK)])
    store, out = EpisodeStore(folder), tmp_path / "out"
    heard = []
    assert export(store, out, progress=lambda done, total: heard.append((done, total))) == out / "index.html"
    index = unpacked((out / "data" / "index.js").read_text())
    chunks = [unpacked(path.read_text()) for path in sorted((out / "data" / "000").iterdir())]
    goals = unpacked((out / "data" / "goals.js").read_text())
    assert index == listing(store) and goals["babyai_1"].startswith("go to ") and heard[-1] == (118, 118)
    assert [len(chunk) for chunk in chunks] == [CHUNK, CHUNK, 18]
    everything = [entry for chunk in chunks for entry in chunk]
    items = [index["values"]["item_id"][code] for code in index["columns"]["item_id"]]
    assert [entry["item_id"] for entry in everything] == items
    assert everything[-1] == json.loads(encode(detail(store.open(store.query()[-1]))))
    assert not any(path.name.startswith(".") for path in out.rglob("*"))


def test_an_export_replaces_an_older_one_and_nothing_else(tmp_path):
    store = EpisodeStore(run_folder(tmp_path / "demo"))
    out = tmp_path / "out"
    (out / "data").mkdir(parents=True)
    with pytest.raises(ValueError, match="holds no exported viewer"):
        export(store, out)
    (out / "data").rmdir()
    export(store, out, pictures=False)
    (out / "data" / "000" / "000007.js").write_text("old")
    export(store, out, pictures=False)
    assert [path.name for path in (out / "data" / "000").iterdir()] == ["000000.js"]
    (last,) = (unpacked(path.read_text()) for path in (out / "data" / "000").iterdir())
    assert not any(entry["pictures"] for entry in last)


def test_the_page_names_no_other_place():
    text = page("server") + style() + script()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("):
        assert word not in text


def run(*arguments):
    return CliRunner().invoke(app, ["view", *map(str, arguments)])


def test_the_command_exports(tmp_path):
    result = run(run_folder(tmp_path / "demo"), "--html", tmp_path / "out", "--no-pictures")
    assert result.exit_code == 0 and "index.html: 18 episodes" in result.stdout.replace("\n", "")
    assert run(tmp_path / "nowhere").exit_code == 2
    refused = run(tmp_path / "demo", "--html", tmp_path / "out", "--no-browser")
    assert refused.exit_code == 2 and "needs no server" in refused.stderr
    refused = run(tmp_path / "demo", "--no-pictures", "--no-browser")
    assert refused.exit_code == 2 and "--no-pictures is of an exported folder; add --html FOLDER" in refused.stderr


def test_a_port_that_is_taken(viewer, tmp_path):
    result = run(tmp_path / "demo", "--port", viewer.server_address[1], "--no-browser")
    assert result.exit_code == 2 and "choose another --port" in result.stderr
