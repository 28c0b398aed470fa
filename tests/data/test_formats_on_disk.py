"""Files of item ids and trajectories, from one published format to another."""

import json

import pyarrow
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.parquet import read_table
from sweep import swept
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.data import agenttraj
from agentgym_rl.data.convert import FORMATS, Record, keep, read
from agentgym_rl.data.files import rows, write_parquet
from agentgym_rl.data.panels import label, read_item_ids, sample, write_item_ids
from agentgym_rl.envs import make


def conversation(*replies, item_id="textcraft_1"):
    turns = [{"from": "human", "loss": None, "value": "Rules."}, {"from": "gpt", "loss": False, "value": "OK."}]
    for number, reply in enumerate(replies):
        turns.append({"from": "human", "loss": None, "value": f"seen {number}"})
        turns.append({"from": "gpt", "loss": True, "value": reply})
    return {"item_id": item_id, "conversations": turns}


def put(path, entries):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A data set as the hub has it, found under ``owner/name`` beside the working folder."""
    folder = tmp_path / "AgentGym" / "AgentTraj-L"
    folder.mkdir(parents=True)
    put(folder / "textcraft_train.json", [conversation("a", "b"), conversation("c", item_id="textcraft_2")])
    monkeypatch.chdir(tmp_path)
    return "AgentGym/AgentTraj-L:textcraft_train.json"


def test_the_hub_and_the_disk_give_the_same(hub, tmp_path):
    here = tmp_path / "AgentGym" / "AgentTraj-L" / "textcraft_train.json"
    assert agenttraj.read(hub) == agenttraj.read(here)
    with pytest.raises(FileNotFoundError, match=r"AgentTraj-L:other\.json cannot be loaded"):
        rows("AgentGym/AgentTraj-L:other.json")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", "x", "kind is not known"),
        ("a.jsonl", "{\n", "line 1: not JSON"),
        ("a.jsonl", "1\n\xff\n", r"a\.jsonl, line 2: not UTF-8 \(byte 0\)"),
        ("a.jsonl", "1\n" + "[" * 200_000 + "\n", "line 2: JSON nested too deeply"),
        ("a.json", "[1,\xff]", r"not UTF-8 \(byte 3\); save it"),
        ("a.json", "[" * 200_000, "JSON nested too deeply"),
        ("a.json", "[" + "9" * 5000 + "]", "not JSON that can be read"),
        ("a.json", "{}", "expected a list, found dict"),
        ("a.jsonl.zst", "x", "not compressed JSON lines"),
        ("a.parquet", "x", "not a parquet file"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, says):
    (tmp_path / name).write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match=says) as caught:
        rows(tmp_path / name)
    assert name in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json does not exist"):
        rows(tmp_path / "nowhere.json")


def test_half_a_surrogate_pair_in_a_trajectory_is_named(tmp_path):
    entry = conversation("a \ud83d", "b")
    with pytest.raises(ValueError, match=r"entry 2: 'value' of message \d holds half a surrogate pair"):
        agenttraj.read(put(tmp_path / "a.json", [conversation("a", "b"), entry]))


def test_agentevals_ids_name_tasks(tmp_path):
    ids = ["textcraft_12", "lmrlgym_maze_3", "lmrlgym_wordle_7", "tool_sheet_4", "weather_9"]
    tasks = read_item_ids(put(tmp_path / "a.json", [{"item_id": item_id} for item_id in ids]))
    assert [str(task) for task in tasks] == ["textcraft_12", "maze_3", "wordle_7", "sheet_4", "weather_9"]
    write_item_ids(tmp_path / "b.json", tasks)
    assert read_item_ids(tmp_path / "b.json") == tasks
    with pytest.raises(ValueError, match="entry 1: 'item_id' is 7, not a text such as 'textcraft_12'"):
        read_item_ids(put(tmp_path / "number.json", [{"item_id": 7}]))
    with pytest.raises(ValueError, match="entry 2: has no 'item_id'"):
        read_item_ids(put(tmp_path / "c.json", [{"item_id": "maze_1"}, {"id": 3}]))
    with pytest.raises(ValueError, match="entry 1: 'maze' is not an item id"):
        read_item_ids(put(tmp_path / "d.json", [{"item_id": "maze"}]))


def test_a_file_of_ids_stands_for_a_split(tmp_path):
    path = put(
        tmp_path / "maze_test.json", [{"item_id": f"maze_{n}"} for n in (30, 7, 30, 8)] + [{"item_id": "todo_1"}]
    )
    maze = make("maze")
    assert [task.index for task in sample(maze, str(path))] == [7, 8, 30]
    hard = [task.index for task in sample(maze, str(path)) if maze.difficulty(task) == "steps 9-12"]
    assert 0 < len(hard) < 3
    assert [task.index for task in sample(maze, str(path), difficulty=["steps 9*"])] == hard
    assert label(str(path), n=2) == "maze_test-n2-seed0"
    with pytest.raises(ValueError, match="lists no task of textcraft, only of maze, todo"):
        sample(make("textcraft"), str(path))


def test_an_unknown_task_in_a_file_of_ids_is_told_before_any_work(tmp_path):
    path = put(tmp_path / "b.json", [{"item_id": f"maze_{n}"} for n in (30, 25, 7)])
    with pytest.raises(ValueError, match=r"b\.json, entry 2: maze has no task 25: valid are"):
        sample(make("maze"), str(path))


def test_repeated_item_ids_are_counted(tmp_path, caplog):
    ids = ["maze_30", "todo_1", "maze_7", "lmrlgym_maze_30", "maze_30", "todo_1"]
    path = put(tmp_path / "twice.json", [{"item_id": item_id} for item_id in ids])
    for _ in range(2):  # said once
        assert len(sample(make("maze"), str(path))) == 2
    assert caplog.messages == [f"{path}: 2 entries repeat a task of maze and are left out; 2 tasks remain"]


def episode(reward, item_id="textcraft_1", ending="turn_limit", reply="a"):
    message = {"role": "assistant", "content": reply}
    return {
        "env": "textcraft", "item_id": item_id, "ending": ending, "reward": reward, "success": reward == 1,
        "max_turns": 3, "messages": [{"role": "system", "content": "r"}, {"role": "user", "content": "o"}, message],
        "turns": [{"response": reply, "action": reply, "observation": "x", "reward": reward, "invalid": False,
                   "tokens": [0, 1]}],
    }  # fmt: skip


def test_a_runs_episodes_become_trajectories(tmp_path):
    path = tmp_path / "step.jsonl.zst"
    lines = [episode(1.0), episode(0.0), episode(0.0, ending="env_error")]
    path.write_bytes(zstandard.ZstdCompressor().compress("\n".join(json.dumps(line) for line in lines).encode()))
    records = read(path)
    assert [(record.reward, record.success) for record in records] == [(1.0, True), (0.0, False)]
    assert records[0].trajectory.loss == (None, None, True)
    assert [record.reward for record in keep(records, successes=True)] == [1.0]


def test_an_episode_without_a_response_does_not_end_a_conversion_for_training(tmp_path):
    """An API refused its first request; with its outcome it counts, but there is nothing to learn from it."""
    refused = {**episode(0.0, "textcraft_2", "refused"), "messages": [{"role": "user", "content": "o"}], "turns": []}
    path = put(tmp_path / "a.json", [episode(1.0), refused])
    for form, kept in (("agenttraj.json", 1), ("verl.parquet", 1), ("inference.jsonl", 2)):
        words = ["convert", str(path), str(tmp_path / form), "--to", form.partition(".")[0]]
        result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        assert result.exit_code == 0 and f"{kept} of 2 trajectories" in result.stdout
        assert ("left out: 1 without a response to train on, such as textcraft_2" in result.stdout) == (kept == 1)


def test_the_shortest_of_a_task_is_one_with_a_response(tmp_path):
    refused = {**episode(0.0, ending="refused"), "messages": [{"role": "user", "content": "o"}], "turns": []}
    path = put(tmp_path / "a.json", [refused, episode(1.0)])
    words = ["convert", str(path), str(tmp_path / "b.json"), "--to", "agenttraj", "--per-task", "1"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert agenttraj.read(tmp_path / "b.json")[0].first_trained


def test_what_is_written_is_not_read_the_next_time(tmp_path):
    put(tmp_path / "5²3.json", [episode(1.0)])

    def convert(out):
        words = ["convert", str(tmp_path), str(tmp_path / out), "--to", "agenttraj"]
        return CliRunner().invoke(app, words, env={"COLUMNS": "400"})

    assert convert("../all.json").exit_code == 0
    for inside in ("all.json", "sub/all.json"):
        refused = convert(inside)
        assert refused.exit_code == 2 and "write it elsewhere" in refused.stderr
        assert not (tmp_path / inside).exists()


def test_what_the_oracle_could_not_play_is_left_out(tmp_path):
    unplayed = {**episode(0.0, "textcraft_2"), "messages": [], "turns": []}
    assert len(read(put(tmp_path / "a.json", [episode(1.0), unplayed]))) == 1


def test_a_bad_entry_is_named(tmp_path):
    path = put(tmp_path / "a.json", [conversation("a"), {"item_id": "x"}])
    with pytest.raises(ValueError, match=r"a\.json, entry 2: .*'conversations'"):
        read(path)
    with pytest.raises(ValueError, match="entry 1"):
        read(put(tmp_path / "b.json", ["text"]))


def test_equal_conversations_count_once_and_short_ones_come_first():
    texts = [("a", "b"), ("a", "b"), ("c",), ("d", "e", "f")]
    records = [Record(agenttraj.decode(conversation(*text)), 1.0, True) for text in texts]
    assert [len(record.trajectory.messages) for record in keep(records, per_task=2)] == [4, 6]
    assert len(keep(records)) == 4


def test_inference_output_is_agentgyms_and_comes_back(tmp_path):
    records = [Record(agenttraj.decode(conversation("a")), 0.5, False)]
    FORMATS["inference"](tmp_path / "a.jsonl", records)
    (line,) = (tmp_path / "a.jsonl").read_text().splitlines()
    assert json.loads(line) == {**conversation("a"), "reward": 0.5, "success": 0}
    assert read(tmp_path / "a.jsonl") == records
    with pytest.raises(ValueError, match="textcraft_1 has no reward"):
        FORMATS["inference"](tmp_path / "b.jsonl", [Record(records[0].trajectory)])
    assert not (tmp_path / "b.jsonl").exists()


def test_verl_learns_just_what_is_flagged(tmp_path, monkeypatch):
    """verl's own data set reads the file, and its loss mask covers the replies and nothing else."""
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    from agentgym_rl.engine.recipe.config import TinyModelConfig
    from agentgym_rl.engine.run import tiny

    path = tmp_path / "new" / "a.parquet"
    FORMATS["verl"](path, [Record(agenttraj.decode(conversation("first reply", "second")))])
    model = tiny.build(
        tmp_path / "model", TinyModelConfig(vocabulary=300, prompt_tokens=64, response_tokens=64), ["x"], 0
    )
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    config = OmegaConf.create({"max_length": 128, "truncation": "error", "pad_mode": "no_padding"})
    row = MultiTurnSFTDataset(str(path), tokenizer, config)[0]
    learnt = tokenizer.decode([token for token, mask in zip(row["input_ids"], row["loss_mask"], strict=True) if mask])
    assert learnt == "first reply<|im_end|>\nsecond<|im_end|>\n"
    (entry,) = read_table(path).to_pylist()
    assert entry["messages"][0] == {"role": "user", "content": "Rules.\n\nseen 0"}


@pytest.mark.parametrize("target", ["verl", "trl"])
def test_a_response_that_is_not_trained_on_is_never_trained_on_nor_lost(tmp_path, target):
    late, early = conversation("a", "b"), conversation("a", "b")
    late["conversations"][5]["loss"] = early["conversations"][3]["loss"] = False
    with pytest.raises(ValueError, match="textcraft_1 has a response that is not trained on, message 6"):
        FORMATS[target](tmp_path / "b.parquet", [Record(agenttraj.decode(late))])
    if target == "verl":
        with pytest.raises(ValueError, match="textcraft_1 has a response that is not trained on, message 2"):
            FORMATS[target](tmp_path / "b.parquet", [Record(agenttraj.decode(early))])
    else:
        FORMATS[target](tmp_path / "b.parquet", [Record(agenttraj.decode(early))])
        assert read(tmp_path / "b.parquet") == [Record(agenttraj.decode(early))]


def test_trl_gets_prompt_and_completion(tmp_path):
    FORMATS["trl"](tmp_path / "a.parquet", [Record(agenttraj.decode(conversation("a", "b")), 1.0, True)])
    (entry,) = rows(tmp_path / "a.parquet")
    assert [message["role"] for message in entry["prompt"]] == ["user", "assistant", "user"]
    assert [message["content"] for message in entry["completion"]] == ["a", "seen 1", "b"]
    assert (entry["item_id"], entry["reward"]) == ("textcraft_1", 1.0)


def test_pairs_are_best_against_worst(tmp_path):
    made = [("a", 1.0, "textcraft_1"), ("b", 0.0, "textcraft_1"), ("c", 0.5, "textcraft_1"), ("d", 1.0, "textcraft_2")]
    records = [Record(agenttraj.decode(conversation(text, item_id=task)), reward) for text, reward, task in made]
    assert FORMATS["preference"](tmp_path / "a.json", records) == 2
    (pair,) = json.loads((tmp_path / "a.json").read_text())
    assert (pair["id"], len(pair["prompt"])) == (1, 3)
    assert (pair["chosen"][0]["value"], pair["rejected"][0]["value"]) == ("a", "b")
    with pytest.raises(ValueError, match="no task has both"):
        FORMATS["preference"](tmp_path / "b.json", records[3:])


@pytest.mark.parametrize(
    ("item_id", "kept"),
    [
        ("sciworld_3", {93: False, 99: False, 99.5: True, 100: True}),
        ("babyai_3", {0: False, 0.01: True, 0.93: True, 1.0: True}),
        ("textcraft_3", {0: False, 0.9: False, 1: True}),
        ("webshop_3", {0.99: False, 1.0: True}),
    ],
)
def test_success_in_inference_output_is_by_agentgyms_thresholds(tmp_path, item_id, kept):
    """Whatever ``success`` says, which AgentGym sets for a reward of 1 only."""
    lines = [conversation("a", item_id=item_id) | {"reward": reward, "success": int(reward == 1)} for reward in kept]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    records = read(path)
    assert [record.success for record in records] == list(kept.values())
    assert all(0 <= record.reward <= 1 for record in records)
    FORMATS["inference"](tmp_path / "b.jsonl", records)
    assert [json.loads(line)["reward"] for line in (tmp_path / "b.jsonl").read_text().splitlines()] == list(kept)
    assert read(tmp_path / "b.jsonl") == records


def test_an_environment_takes_its_own_of_a_mixed_file(tmp_path):
    ids = ["webshop_1", "lmrlgym_maze_2", "maze_3", "alfworld_4"]
    mix = put(tmp_path / "mix.json", [conversation("a", item_id=item_id) for item_id in ids])
    assert [trajectory.item_id for trajectory in agenttraj.of_env(mix, "maze")] == ["lmrlgym_maze_2", "maze_3"]
    with pytest.raises(ValueError, match="no trajectory of babyai, only of alfworld, maze, webshop"):
        agenttraj.of_env(mix, "babyai")


def api_messages(*texts):
    """Messages as AgentGym's API evaluation and AgentGym-RL log them."""
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(("rules", "OK.", *texts))]


def test_the_folder_of_openai_eval_is_read(tmp_path):
    for number, reward in ((2, 1), (10, 0)):
        messages = [{**message, "reasoning_content": None} for message in api_messages("see", f"go {number}", "end")]
        messages[3]["reasoning_content"] = "hm"
        entry = {"conversations": messages, "item_id": f"textcraft_{number}", "reward": reward, "success": reward}
        (tmp_path / f"textcraft_{number}.json").write_text(json.dumps(entry, indent=4))
    records = read(tmp_path)
    assert [(record.trajectory.item_id, record.reward, record.success) for record in records] == [
        ("textcraft_2", 1.0, True),
        ("textcraft_10", 0.0, False),
    ]
    assert records[0].trajectory.messages[-2] == {"role": "assistant", "content": "<think>\nhm\n</think>\n\ngo 2"}
    assert records[0].trajectory.loss == (None, False, None, True, None)
    assert read(tmp_path / "textcraft_2.json") == records[:1]
    with pytest.raises(FileNotFoundError, match="has no JSON files"):
        read(put(tmp_path / "empty" / "x.txt", []).parent)


def test_the_rollout_logs_of_agentgym_rl_are_read_in_order_of_their_steps(tmp_path):
    for step, reward in ((10, 93.0), (9, 100.0)):
        entry = {"item_id": step, "conversations": api_messages("see", "go"), "reward": reward}
        put(tmp_path / f"step{step}" / "0.json", [entry])
    records = read(tmp_path, env="sciworld")
    assert [(record.trajectory.item_id, record.reward, record.success) for record in records] == [
        ("sciworld_9", 1.0, True),
        ("sciworld_10", 0.93, False),
    ]
    with pytest.raises(ValueError, match=r"0\.json, entry 1: the task is 9, a number .* add --env NAME"):
        read(tmp_path)


def test_pairs_come_back(tmp_path):
    good, bad = (agenttraj.decode(conversation(text, item_id="maze_1")) for text in "ab")
    made = [Record(good, 1.0), Record(bad, 0.0)]
    FORMATS["preference"](tmp_path / "a.json", made)
    better, worse = read(tmp_path / "a.json")
    pairs = json.loads((tmp_path / "a.json").read_text())
    theirs = put(tmp_path / "theirs.json", [{key: pair[key] for key in pair if key != "item_id"} for pair in pairs])
    assert read(theirs, env="maze") == [better, worse]
    assert (better.trajectory, better.reward, better.success) == (made[0].trajectory, None, True)
    assert (worse.trajectory, worse.success) == (made[1].trajectory, False)
    FORMATS["preference"](tmp_path / "b.json", [better, worse])
    assert (tmp_path / "b.json").read_text() == (tmp_path / "a.json").read_text()
    with pytest.raises(ValueError, match="inference output needs one"):
        FORMATS["inference"](tmp_path / "c.jsonl", [better])


def spoken(*texts, system=False):
    roles = ("user", "assistant")
    rules = [{"role": "system", "content": "Rules."}] if system else []
    return [*rules, *({"role": roles[at % 2], "content": text} for at, text in enumerate(texts))]


RESPONSES = st.sampled_from(["Action: move up", "move up", "Ok.", '{"name": "move", "arguments": {"direction": "up"}}'])


@st.composite
def told(draw):
    """Entries of role and content, as OpenAI's, TRL's and axolotl's data have them."""
    texts = [text for _ in range(draw(st.integers(1, 3))) for text in (draw(st.text(max_size=9)), draw(RESPONSES))]
    messages = spoken(*texts, *draw(st.sampled_from([[], ["end"]])), system=draw(st.booleans()))
    return {
        "item_id": f"maze_{draw(st.integers(0, 99))}",
        "messages": messages,
        "reward": draw(st.sampled_from([0, 1])),
    }


@given(st.lists(told(), min_size=1, max_size=3))
@settings(max_examples=swept(30), deadline=None)
def test_every_conversion_keeps_all_messages_and_what_is_learned(tmp_path_factory, entries):
    folder = tmp_path_factory.mktemp("told")
    records = read(put(folder / "a.json", entries))
    for record, entry in zip(records, entries, strict=True):
        assert [*record.trajectory.messages] == entry["messages"]
        ours = [loss for loss in record.trajectory.loss if loss is not None]
        assert all(ours) or (not ours[0] and entry["messages"][1]["content"] == "Ok.")
    for target, name in (
        ("agenttraj", "b.json"),
        ("inference", "b.jsonl"),
        ("trl", "b.parquet"),
        ("verl", "c.parquet"),
    ):
        taken = [record for record in records if False not in record.trajectory.loss or target != "verl"]
        taken = [record for record in taken if True in record.trajectory.loss or target not in ("verl", "trl")]
        FORMATS[target](folder / name, taken)
        again = read(folder / name)
        assert [record.trajectory for record in again] == [record.trajectory for record in taken]
        if target != "agenttraj":
            assert again == taken


def test_roles_and_contents_lose_nothing_on_their_way_to_verl(tmp_path):
    messages = spoken("Goal: b", "Action: inventory", "You have: nothing", "Action: get 1 b", system=True)
    source = put(tmp_path / "a.json", [{"item_id": "textcraft_1", "messages": messages[at:]} for at in (0, 1)])
    FORMATS["verl"](tmp_path / "a.parquet", read(source))
    assert [row["messages"] for row in rows(tmp_path / "a.parquet")] == [messages, messages[1:]]


def test_rewards_come_back_on_their_scale(tmp_path):
    records = [Record(agenttraj.decode(conversation("a", item_id="sciworld_3")), 0.93, False)]
    for target in ("verl", "trl", "inference"):
        FORMATS[target](path := tmp_path / f"a.{'jsonl' if target == 'inference' else 'parquet'}", records)
        assert [row["reward"] for row in rows(path)] == [93.0]
        assert [(record.reward, record.success) for record in read(path)] == [(0.93, False)]


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ({"reward": "1.0"}, r"'reward' is '1\.0', expected a number"),
        ({"reward": float("nan")}, "'reward' is nan, expected a number"),
        ({"reward": 10**400}, "'reward' is 10+, expected a number"),
        ({"reward": [1]}, r"'reward' is \[1\], expected a number"),
        ({"reward": 1, "success": "false"}, "'success' is 'false', expected true or false"),
    ],
)
def test_an_outcome_that_is_a_text_is_named(tmp_path, outcome, says):
    for entry in (conversation("a"), conversation("a", item_id="mine_1"), episode(1.0)):
        with pytest.raises(ValueError, match=rf"a\.json, entry 1: {says}"):
            read(put(tmp_path / "a.json", [entry | outcome]))


def test_pairs_of_trls_are_read(tmp_path):
    pair = {"extra_info": {"id": "maze_1"}, "prompt": spoken("Go."), "chosen": spoken("x", "a")[1:]}
    better, worse = read(put(tmp_path / "a.json", [pair | {"rejected": spoken("x", "b")[1:]}]))
    assert (better.success, worse.success) == (True, False)
    assert worse.trajectory == agenttraj.decode({"item_id": "maze_1", "messages": spoken("Go.", "b")})
    with pytest.raises(ValueError, match="'prompt' of the entry is null, expected a list"):
        read(put(tmp_path / "b.json", [pair | {"prompt": None, "rejected": []}]))


def test_item_ids_may_be_in_extra_info(tmp_path):
    path = tmp_path / "rl.parquet"
    write_parquet(path, pyarrow.Table.from_pylist([{"prompt": spoken("x"), "extra_info": {"item_id": "maze_7"}}]))
    assert [str(task) for task in read_item_ids(path)] == ["maze_7"]
