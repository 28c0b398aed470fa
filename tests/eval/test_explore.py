"""``agentgym-rl explore`` as it is typed: a real MCP server, a scripted explorer and writer behind an API."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from agentgym_rl.api.exploration import ExploreRequest
from agentgym_rl.cli import app
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.eval.practice import backward
from agentgym_rl.eval.practice.backward import Idea
from agentgym_rl.rollout.answers import Unreadable

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))
sys.path.insert(0, str(Path(__file__).parents[1] / "envs"))

from chat_server import ChatServer, samples, serving
from test_mcp import NOTES, over_http

COUNT = {"instruction": "Keep a note A and a note B. How many are there then?", "calls": [1, 2, 3], "answer": 2}
KEEP = {"instruction": "Keep notes called {title} and b, without a text.", "calls": [1, 2], "state": 3}
TASKS = [Task("mcp", index) for index in range(20)]
KEYS = ("rollouts=2", "retries=0")
KEYS_OF_IDEAS = ("instruction", "calls", "answer", "state")
EXACT = '{"why": "It does.", "exact": true}'


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def url():
    with over_http() as place:
        yield place


def kind(body):
    prompt = body["messages"][0]["content"]
    starts = {"Somebody used": "backward", "These tools are": "judge"}
    return next((name for start, name in starts.items() if prompt.startswith(start)), "episode")


class Scripted(ChatServer):
    """Keeps two notes, looks at them, asks for the process, and ends; then writes and judges as a test says.

    The first note is called after the number of its episode; ``first`` has other first calls, by number.
    """

    def __init__(self, *answers, judge=EXACT):
        super().__init__(self.said)
        self.answers, self.judge, self.first, self.seed = list(answers), judge, {}, 0

    def said(self, messages):
        if (what := kind(self.body)) == "episode":
            return self.act(sum(message["role"] == "assistant" for message in messages) - 1)  # one is canned
        if what == "judge":
            return self.judge if isinstance(self.judge, str) else self.judge(messages[0]["content"])
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        title = re.search(r'"title": "(\w+)"', messages[0]["content"])[1]
        return answer if isinstance(answer, str) else json.dumps(answer).replace("{title}", title)

    def act(self, turn):
        number = samples(*TASKS, run=self.seed)[self.body["seed"]]
        calls = [
            ("add_note", {"note": {"title": f"n{number}"}}),
            ("add_note", {"note": {"title": "b"}}),
            ("notes", {}),
            ("process", {}),
            ("fly", {}),
            ("finish", {"answer": "seen"}),
        ]
        name, arguments = self.first.get(number, calls[0]) if turn == 0 else calls[turn]
        return f"Thought: So.\n\nAction: {name} with Action Input: {json.dumps(arguments)}"

    def asked(self, what):
        return [body["messages"][0]["content"] for body in self.requests if kind(body) == what]


def words(name, place, *arguments):
    defaults = ["mcp", f"options.mcp.server={place}", f"policy={name}", f"writer={name}", "out=tasks.jsonl", *KEYS]
    return list({word.partition("=")[0]: word for word in [*defaults, *arguments]}.values())


def explore(server, place, *arguments):
    with serving(server) as name:
        return CliRunner().invoke(app, ["explore", *words(name, place, *arguments)], env={"COLUMNS": "150"})


def written(file="tasks.jsonl"):
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


@pytest.mark.slow
def test_what_happened_becomes_tasks_that_are_solved(url):
    server = Scripted([COUNT, KEEP])
    result = explore(server, url, "test=0.5", "price=1,1")
    assert result.exit_code == 0, result.output
    notes = [["add_note", {"note": {"title": "n0"}}], ["add_note", {"note": {"title": "b"}}]]
    count, *lines = written()
    assert count == {
        "instruction": COUNT["instruction"], "difficulty": "3 calls", "check": {"answer": 2},
        "plan": [*notes, ["notes", {}], ["finish", {"answer": 2}]], "split": "train",
    }  # fmt: skip
    assert lines[0] == {
        "instruction": "Keep notes called n0 and b, without a text.", "difficulty": "2 calls",
        "check": {"state": {"tool": "notes", "arguments": {}}, "equals": {"n0": "", "b": ""}},
        "plan": [*notes, ["finish", {"answer": "done"}]], "split": "train",
    }  # fmt: skip
    assert [line["split"] for line in lines] == ["train", "test"], "a split has all tasks of an episode"
    assert "2 episodes, 4 ideas; 1 twice" in result.stdout and "written: tasks.jsonl (2 train, 1 test)" in result.stdout
    assert f"{len(server.requests)} calls" in result.stdout
    assert "ended: rollouts=2 is reached before tasks=50" in result.stdout
    assert not Path("tasks.jsonl.partial.jsonl").exists()
    options = [f"options.mcp.server={url}", "options.mcp.tasks=tasks.jsonl"]
    played = CliRunner().invoke(app, ["eval", "panel=mcp:train,mcp:test", "policy=oracle", *options, "out=evals"])
    assert played.exit_code == 0 and "100.0" in played.output, played.output


@pytest.mark.slow
def test_a_judge_reads_what_was_done_and_nothing_of_the_writer(url):
    server = Scripted([COUNT, KEEP], judge=lambda prompt: EXACT.replace("true", str("n0" in prompt).lower()))
    result = explore(server, url, "concurrency=1")
    assert result.exit_code == 0, result.output
    assert "3 not exact" not in result.stdout and len(written()) == 2, result.stdout
    question, change = server.asked("judge")[:2]
    assert "They answered: 2" in question and "notes {} gave" not in question
    assert "Then notes {} gave: {" in change and "process" not in change.partition("They did this")[2]
    assert not any("wrote" in prompt or "Write at most" in prompt for prompt in server.asked("judge"))


@pytest.mark.parametrize(
    ("idea", "reason"),
    [
        ({"instruction": "How many notes are there after b?", "calls": [2, 3], "answer": 1}, "other on replay"),
        ({"instruction": "Keep an empty note n0.", "calls": [1], "state": 3}, "other on replay"),
        ({"instruction": "Use add_note for n0.", "calls": [1], "answer": "kept"}, "with a call"),
        ({"instruction": "Call notes() after A and B.", "calls": [1, 2, 3], "answer": 2}, "with a call"),
        ({"instruction": "Keep A and B, so 2 notes. How many?", "calls": [1, 2, 3], "answer": 2}, "with the answer"),
        ({"instruction": "How many? " * 100, "calls": [1, 2, 3], "answer": 2}, "too long"),
        ({"instruction": "Keep an empty note n0.", "calls": [1], "state": 2}, "not solved on replay"),
        ({"instruction": "Keep an empty note n0.", "calls": [1], "state": 4}, "solved by nothing"),
    ],
)  # fmt: skip
def test_what_does_not_count_is_told(url, idea, reason):
    result = explore(Scripted([idea]), url, "rollouts=1", "retries=1")
    assert result.exit_code == 2 and f"tasks.jsonl is not written: no task of 1 counts (1 {reason})" in result.stderr
    assert "with a greater rollouts= the same command goes on" in result.stderr
    assert not Path("tasks.jsonl").exists()


def test_more_ideas_than_asked_are_left_out(url):
    result = explore(Scripted([COUNT, KEEP]), url, "ideas=1", "rollouts=1")
    assert result.exit_code == 0 and "1 too many" in result.stdout and len(written()) == 1


def test_no_task_of_a_panel_is_written_or_told(url):
    """Their instruction, their calls or their goal in other words."""
    held_out = {**COUNT, "plan": [["add_note", {"note": {"title": "z"}}]], "check": {"answer": 2}}
    Path("panel.jsonl").write_text(json.dumps({key: held_out[key] for key in ("instruction", "plan", "check")}))
    server = Scripted([COUNT, KEEP])
    result = explore(server, url, "options.mcp.tasks=panel.jsonl", "rollouts=1")
    assert result.exit_code == 0 and "1 twice" in result.stdout and len(written()) == 1
    assert not any(COUNT["instruction"] in json.dumps(body) for body in server.requests if kind(body) != "judge")


@pytest.mark.slow
def test_later_explorers_begin_elsewhere_and_are_told_of_known_tasks(url, monkeypatch):
    monkeypatch.setattr("agentgym_rl.eval.practice.explore.ROUND", 1)
    server = Scripted([COUNT], [KEEP], [])
    result = explore(server, url, "rollouts=8", "test=0", "max_turns=3")
    assert result.exit_code == 0 and "4 episodes" in result.stdout, result.output
    assert "ended: the last 2 rounds of episodes had no new task" in result.stdout
    first = [body["messages"][2]["content"] for body in server.requests if kind(body) == "episode"][::3]
    tools = [re.search(r"begin with (\w+)", prompt)[1] for prompt in first]
    assert tools == ["add_note", "process", "process", "process"], "of those used least"
    assert "Others have done" not in first[0]


@pytest.mark.slow
def test_an_explorer_is_told_of_tasks_of_its_split(url, monkeypatch):
    monkeypatch.setattr("agentgym_rl.eval.practice.explore.ROUND", 4)
    server = Scripted([COUNT], [KEEP], [])
    assert explore(server, url, "rollouts=8", "test=0.5", "max_turns=3", "concurrency=1").exit_code == 0
    first = [body["messages"][2]["content"] for body in server.requests if kind(body) == "episode"][::3]
    suggested = [prompt.partition("do something else: ")[2].removesuffix("\nGive me one action.") for prompt in first]
    assert suggested == [""] * 6 + [COUNT["instruction"], KEEP["instruction"].replace("{title}", "n1")]
    assert "begin with notes" in first[6] and "begin with add_note" in first[7]


@pytest.mark.slow
def test_tasks_that_are_enough_end_it(url, monkeypatch):
    monkeypatch.setattr("agentgym_rl.eval.practice.explore.ROUND", 2)
    server = Scripted([COUNT, KEEP])
    result = explore(server, url, "tasks=1", "rollouts=40", "--json")
    assert result.exit_code == 0 and len(written()) == 1
    assert json.loads(result.stdout) == {
        "out": "tasks.jsonl", "tasks": 1, "rollouts": 2, "ideas": 4, "refused": {"twice": 1},
    }  # fmt: skip


def test_unreadable_answers_are_asked_three_times(url):
    server = Scripted("I would rather not.")
    result = explore(server, url, "rollouts=1")
    assert result.exit_code == 2 and "no task of 0 counts (1 unreadable)" in result.stderr
    assert len(server.asked("backward")) == 3
    other = explore(server, url, "seed=1")
    assert other.exit_code == 2 and "interrupted command with another seed" in other.stderr
    server.answers = ["Hm.", [COUNT]]
    again = explore(server, url, "rollouts=2")
    assert again.exit_code == 0 and len(written()) == 1, "more episodes go on"
    assert len(server.asked("backward")) == 5


@pytest.mark.slow
def test_a_writer_that_loops_ends(url, monkeypatch):
    monkeypatch.setattr("agentgym_rl.eval.practice.explore.ROUND", 1)
    result = explore(Scripted([COUNT] * 3), url, "rollouts=100")
    assert result.exit_code == 0 and len(written()) == 1, result.output
    assert "ended: the last 2 rounds" in result.stdout and "3 episodes" in result.stdout


def test_a_setup_precedes_episodes_and_tasks(url):
    setup = [["add_note", {"note": {"title": "a"}}]]
    Path("setup.json").write_text(json.dumps(setup))
    three = {**COUNT, "answer": 3}
    result = explore(
        Scripted([COUNT, {**KEEP, "instruction": "Keep n0 and b."}, three]), url, "setup=setup.json", "rollouts=1"
    )
    assert result.exit_code == 0, result.output
    first, second = written()
    assert first["setup"] == second["setup"] == setup
    assert second["check"]["equals"] == {"a": "", "n0": "", "b": ""}


def test_a_world_without_tasks_is_given_up(url, monkeypatch):
    monkeypatch.setattr("agentgym_rl.eval.practice.explore.ROUND", 1)
    result = explore(Scripted([]), url, "rollouts=100")
    assert (
        result.exit_code == 2 and "(none was written) after 2 episodes; try another policy or writer" in result.stderr
    )


@pytest.mark.slow
def test_episodes_in_which_the_server_failed_are_lost(url):
    server = Scripted([COUNT, KEEP])
    server.first = {1: ("process", {"wait": 5})}
    hanging = "options.mcp.timeout=0.5"
    most = explore(server, url, hanging, "min_counted=0.9", "out=other.jsonl")
    assert most.exit_code == 2 and "other.jsonl.partial.jsonl" in most.stderr, most.output
    result = explore(server, url, hanging)
    assert result.exit_code == 0 and len(written()) == 2, result.output


def test_a_replay_in_which_the_server_fails_is_told(url, monkeypatch):
    async def fails(*_):
        raise EnvUnavailable("gone")

    monkeypatch.setattr("agentgym_rl.eval.practice.replay.Replay.line", fails)
    failed = explore(Scripted([COUNT]), url, "rollouts=1")
    assert failed.exit_code == 2 and "(1 failed on replay)" in failed.stderr


def test_seed_and_temperature_reach_the_policy(url):
    server = Scripted([KEEP])
    server.seed = 5
    assert explore(server, url, "rollouts=1", "seed=5", "temperature=0.3").exit_code == 0
    assert {body["temperature"] for body in server.requests if kind(body) == "episode"} == {0.3}
    assert {body["temperature"] for body in server.requests if kind(body) != "episode"} == {0.7}
    assert "n0" in written()[0]["instruction"]


@pytest.mark.slow
def test_a_killed_command_asks_nothing_twice_and_writes_the_same(url):
    """The process is killed while a question of the judge waits for its answer."""
    server = Scripted([COUNT, KEEP])
    with serving(server) as name:
        arguments = words(name, url, "concurrency=1")
        code = f"from agentgym_rl.cli import app; app(['explore', *{arguments!r}])"
        process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        answer = server.say

        def deadly(messages):
            if kind(server.body) == "judge":
                os.kill(process.pid, signal.SIGKILL)
                process.wait(10)
                server.say = answer
            return answer(messages)

        server.say = deadly
        assert process.wait(120) == -signal.SIGKILL
        assert json.loads(Path("tasks.jsonl.partial.jsonl").read_text().splitlines()[-1])
        del server.requests[-1]
        result = CliRunner().invoke(app, ["explore", *arguments])
    assert result.exit_code == 0, result.output
    assert f"{len(server.requests)} calls" in result.stdout, "what was used before the kill counts"
    straight = Scripted([COUNT, KEEP])
    assert explore(straight, url, "concurrency=1", "out=straight.jsonl").exit_code == 0
    sent, once = ([[body["messages"], body["seed"]] for body in api.requests] for api in (server, straight))
    assert sent == once
    assert Path("tasks.jsonl").read_bytes() == Path("straight.jsonl").read_bytes()


def test_files_that_are_there_or_written(url):
    from agentgym_rl.data.files import alone

    Path("tasks.jsonl").write_text("mine\n")
    server = Scripted([COUNT])
    there = explore(server, url)
    assert there.exit_code == 2 and "tasks.jsonl exists; choose another out=, or delete it" in there.stderr
    assert Path("tasks.jsonl").read_text() == "mine\n"
    with alone(Path(), "other.jsonl"):
        two = explore(server, url, "out=other.jsonl")
    assert two.exit_code == 2 and "another process writes other.jsonl; wait for it" in two.stderr
    assert server.requests == []


@pytest.mark.slow
def test_a_writer_that_is_down_ends_it_and_a_greater_cost_goes_on(url):
    server = Scripted([COUNT])
    down = explore(server, url, "writer=openai:w@http://127.0.0.1:9/v1", "out=other.jsonl")
    assert down.exit_code == 2 and "openai:w@http://127.0.0.1:9/v1 cannot be reached" in down.stderr
    spent = explore(server, url, "price=1000,1000", "max_cost=0.1", "concurrency=1")
    assert spent.exit_code == 2 and "of 0.1 that it may; the same command with a greater max_cost= goes" in spent.stderr
    assert explore(server, url, "price=1000,1000", "max_cost=9", "concurrency=1").exit_code == 0


@pytest.mark.slow
def test_a_process_for_each_session():
    number = {"instruction": "Which number has it?", "calls": [4], "answer": 7}
    result = explore(Scripted([COUNT, number]), NOTES, "rollouts=1")
    assert result.exit_code == 0 and "1 other on replay" in result.stdout and len(written()) == 1, result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["options.mcp.server=no_such_command"], "MCP server 'no_such_command' does not start"),
        (["options.mcp.port=3"], "port"),
        (["options.textcraft.goals=3"], "options.textcraft has no effect: mcp is explored"),
        (["policy=oracle"], "policy=oracle neither reads nor writes; give openai:"),
        (["writer=random"], "writer=random neither reads nor writes"),
        (["out=tasks.json"], "tasks.json: give a file whose name ends with .jsonl"),
        (["setup=none.json"], "none.json"),
        (["test=2"], "test=2 is no share; give a number from 0 to 1"),
        (["tasks=0"], "tasks must be at least 1, got 0"),
        (["rollouts=0"], "rollouts must be at least 1"),
        (["ideas=0"], "ideas must be at least 1"),
        (["temperature=0"], "temperature must be greater than 0"),
        (["writer_price=3"], "writer_price= takes two numbers"),
        (["style=verl_agent"], "mcp has no style 'verl_agent'; choose agentgym or compact"),
        (["panel=mcp:train"], "unknown key 'panel'"),
        (["rollout=3"], "unknown key 'rollout'; did you mean rollouts=?"),
    ],
)
def test_wrong_arguments_say_what_helps(url, arguments, says):
    server = Scripted([COUNT])
    result = explore(server, url, *arguments)
    assert result.exit_code == 2 and says in result.stderr, result.output
    assert server.requests == [] and list(Path().iterdir()) == []


def test_what_is_missing_or_not_explored_is_said(url):
    for left_out, says in {
        "out": "out= is missing",
        "writer": "writer= is missing, such as",
        "policy": "policy= is missing, such as",
        "options.mcp.server": "options.mcp.server= is missing: the command or URL",
    }.items():
        arguments_left = [
            word for word in words("openai:m@http://127.0.0.1:9/v1", url) if not word.startswith(f"{left_out}=")
        ]
        result = CliRunner().invoke(app, ["explore", *arguments_left])
        assert result.exit_code == 2 and says in result.stderr, result.output
    result = CliRunner().invoke(app, ["explore", "maze", *words("openai:m@http://127.0.0.1:9/v1", url)[1:]])
    assert result.exit_code == 2 and "maze cannot be explored: it takes no file of tasks; give one of" in result.stderr


def test_help_names_every_key():
    text = CliRunner().invoke(app, ["explore", "--help"], env={"COLUMNS": "80"}).stdout
    for field in fields(ExploreRequest):
        assert field.name == "options" or f"{field.name}=" in text, field.name
    assert "options.mcp.server=" in text and max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "no JSON list"),
        ("[{]", "not JSON"),
        ("[3]", "3 is no object with either answer or state"),
        ([{"instruction": "x", "calls": [1]}], "either answer or state"),
        ([{"instruction": " ", "calls": [1], "answer": 1}], "no instruction"),
        ([{"instruction": "x", "calls": [], "answer": 1}], "calls other than some of 1 to 3"),
        ([{"instruction": "x", "calls": [4], "answer": 1}], "calls other than some of 1 to 3"),
        ([{"instruction": "x", "calls": [True], "answer": 1}], "calls other than"),
        ([{"instruction": "x", "calls": [2, 1], "answer": 1}], "in another order"),
        ([{"instruction": "x", "calls": [2], "state": 2}], "number of a later call"),
        ([{"instruction": "x", "calls": [2], "answer": {"a": 1}}], "no text, number or list"),
        ([{"instruction": "x", "calls": [2], "answer": ""}], "no text, number or list"),
        ('[{"instruction": "x", "calls": [2], "answer": NaN}]', "no text, number or list"),
    ],
)
def test_answers_that_are_not(answer, says):
    with pytest.raises(Unreadable, match=re.escape(says)):
        backward.read(answer if isinstance(answer, str) else json.dumps(answer), 3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 4) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS_OF_IDEAS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS_OF_IDEAS, JSON)) | JSON, max_size=3))
def test_any_answer_is_read_or_refused(answer):
    """What is read can be written, and its calls exist."""
    try:
        ideas = backward.read(json.dumps(answer), 3)
    except Unreadable:
        return
    for idea in ideas:
        assert json.dumps([idea.instruction, idea.answer], ensure_ascii=False).encode()
        assert idea.instruction.strip() and set(idea.calls) <= {1, 2, 3}


def test_half_a_surrogate_pair_is_replaced():
    (idea,) = backward.read(r'[{"instruction": "x \ud83d", "calls": [1], "answer": ["\ud83d"]}]', 1)
    assert (idea.instruction, idea.answer) == ("x \ufffd", ["\ufffd"])


def test_answers_that_are_read():
    ideas = [COUNT, {**KEEP, "instruction": "a\n b"}]
    ideas_read = backward.read(f"<think>[]</think>Here: {json.dumps(ideas)}", 3)
    assert ideas_read == [Idea(COUNT["instruction"], (1, 2, 3), 2), Idea("a b", (1, 2), state=3)]
    assert backward.read_judgement('So: {"exact": false}') is False
    for answer in ("yes", '{"exact": "yes"}'):
        with pytest.raises(Unreadable):
            backward.read_judgement(answer)


@pytest.mark.parametrize(
    ("instruction", "answer", "fault"),
    [
        ("How many notes are there?", 2, ""),
        ("Ask the notes tool.", 2, "with a call"),
        ("Read `notes`.", 2, "with a call"),
        ("Use ADD_NOTE.", 2, "with a call"),
        ("Are there two?", True, ""),
        ("Which of them are a, b and c?", ["a", "c"], "with the answer"),
        ("Which of them are a and b?", ["a", "c"], ""),
        ("At 08:30, what time is it?", "08:30", "with the answer"),
    ],
)
def test_what_gives_a_task_away(instruction, answer, fault):
    assert backward.fault(Idea(instruction, (1,), answer), ["notes", "add_note"]) == fault
