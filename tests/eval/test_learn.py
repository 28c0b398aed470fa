"""``agentgym-rl learn`` as it is typed, with a scripted policy and writer behind an API."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from unittest.mock import Mock

import pytest
import toy
from typer.testing import CliRunner

from agentgym_rl.api import practice, writing
from agentgym_rl.api.practice import LearnRequest
from agentgym_rl.cli import app
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.practice.giveaways import Giveaways
from agentgym_rl.eval.practice.writer import read
from agentgym_rl.rollout.answers import Unreadable
from agentgym_rl.rollout.playbook import Op, Operation, Playbook
from agentgym_rl.rollout.policies.scripted import Function

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from chat_server import ChatServer, samples, serving

pytestmark = pytest.mark.usefixtures("toys")

RULE = "Begin with one and go up by one."
ADD = json.dumps([{"op": "ADD", "text": RULE}])
GAMES = [*(Task("counter", index) for index in range(60)), *(Task("vast", index) for index in range(300_000, 300_010))]
SAMPLES = samples(*GAMES)
KEYS = ("samples=2", "tasks=3", "epochs=1", "retries=0")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def kind(body):
    prompt = body["messages"][0]["content"]
    starts = {"An agent acted": "summary", "These are": "contrast", "Keep a short": "operations"}
    return next((name for start, name in starts.items() if prompt.startswith(start)), "episode")


class Scripted(ChatServer):
    """Plays ``counter`` right where its prompt has the rule, or else in odd samples; writes what a test says."""

    def __init__(self, *written, lucky=lambda sample: sample % 2, **answers):
        super().__init__(self.said)
        self.written, self.answers, self.lucky = list(written), answers, lucky

    def said(self, messages):
        if (what := kind(self.body)) == "episode":
            turn = sum(message["role"] == "assistant" for message in messages)  # one is canned
            has_rule = any(RULE in message["content"] for message in messages)
            return f"Action: say {turn if has_rule or self.lucky(SAMPLES[self.body['seed']]) else 9}"
        if what == "operations":
            return self.written.pop(0) if len(self.written) > 1 else self.written[0]
        return self.answers.get(what, f"a {what}")

    def asked(self, what):
        return [body for body in self.requests if kind(body) == what]


def learn(server, *arguments, panel="counter:test:6", policy=None, writer=None):
    with serving(server) as name:
        words = [panel, f"policy={policy or name}", f"writer={writer or name}", "out=book", *KEYS, *arguments]
        words = list({word.partition("=")[0]: word for word in words}.values())
        return CliRunner().invoke(app, ["learn", *words], env={"COLUMNS": "150"})


def test_a_true_rule_raises_success():
    server = Scripted(ADD)
    result = learn(server, "validation=counter:train:4", "price=1,1")
    assert result.exit_code == 0, result.output
    assert "solved by step: 50.0%, 100.0%" in result.stdout
    assert "3 of 6 groups asked about; 3 ADD" in result.stdout
    assert re.search(r"counter.*0\.0 .*100\.0 .*\+100\.0", result.stdout), "without the rule sample 0 is no luck"
    (lesson,) = Playbook.read("book/playbook.json").lessons
    assert (lesson.text, lesson.born, len(lesson.groups), lesson.episodes, lesson.successes) == (RULE, 1, 3, 6, 6)
    assert Path("book/diffs/step001.diff").read_text().endswith(f"+counter [1] {RULE}\n")
    assert Path("book/diffs/step002.diff").read_text() == ""
    assert "with digest" not in result.stdout and Playbook.read("book/playbook.json").digest in result.stdout
    before = len(server.requests)
    again = learn(server, "validation=counter:train:4", "price=1,1")
    assert again.exit_code == 0 and len(server.requests) == before, "a finished course asks nothing"
    assert again.stdout == result.stdout


def test_a_validation_in_which_nothing_counts_is_an_error(monkeypatch):
    reset = toy.Counter.reset

    async def failing(self, task):
        if task.index < 40:
            raise EnvUnavailable("gone")
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", failing)
    server = Scripted(ADD, lucky=lambda sample: True)
    result = learn(server, "validation=counter:train:1", "--json", panel="counter:test:1")
    assert result.exit_code == 2 and json.loads(result.stdout)["out"] == "book", "what was learned is told all the same"
    assert "only 0 of 1 episodes of counter count (min_counted=0.95)" in result.stderr


def test_flat_groups_cost_no_question():
    server = Scripted(ADD, lucky=lambda sample: False)
    result = learn(server, "epochs=4")
    assert result.exit_code == 0, result.output
    assert "ended: no group of the last 2 steps had both outcomes; give other tasks" in result.stdout
    assert {kind(body) for body in server.requests} == {"episode"} and len(server.requests) == 12
    assert Playbook.read("book/playbook.json").lessons == []


def test_a_writer_judges_by_itself():
    server = Scripted("[]", lucky=lambda sample: False)
    assert learn(server, "rewards=false", "form=rules").exit_code == 0
    assert len(server.asked("contrast")) == 6
    texts = [body["messages"][0]["content"] for body in server.requests if kind(body) != "episode"]
    assert not any("Outcome" in text or "solved" in text for text in texts)
    assert all("rules of this world" in body["messages"][0]["content"] for body in server.asked("contrast"))


def test_unreadable_answers_are_asked_three_times():
    server = Scripted("I would rather not.")
    result = learn(server)
    assert result.exit_code == 0, result.output
    assert len(server.asked("operations")) == 18 and "6 unreadable" in result.stdout
    assert "There is" not in result.stdout
    last = server.asked("operations")[2]["messages"]
    assert [message["role"] for message in last] == ["user", "assistant", "user"]
    assert last[-1]["content"].startswith("That could not be read: there is no JSON list.")
    assert Playbook.read("book/playbook.json").lessons == []


def test_a_second_try_is_taken():
    assert learn(Scripted("Hm.", ADD)).exit_code == 0
    assert [lesson.text for lesson in Playbook.read("book/playbook.json").lessons] == [RULE]


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([{"op": "ADD", "text": "When asked to count to 2, say 1 and 2."}], "with a goal"),
        ([{"op": "ADD", "text": "go " * 200}], "too long"),
        ([{"op": "UPDATE", "id": 7, "text": "Else."}], "of no lesson"),
        ([{"op": "ADD", "text": f"Rule {number}."} for number in range(9)], "too many"),
    ],
)
def test_what_is_refused_is_counted(operations, reason):
    result = learn(Scripted(json.dumps(operations)), "tasks=6", "most=2")
    assert result.exit_code == 0 and re.search(rf"\d+ {reason}", result.stdout), result.output
    assert len(Playbook.read("book/playbook.json").lessons) == (2 if reason == "too many" else 0)


def test_giveaways():
    env = make("searchqa")
    tasks = [Task("searchqa", index) for index in list(env.spec.indices("test"))[:20]]
    giveaways = Giveaways.of((env, task) for task in tasks)
    for task in tasks:
        assert giveaways.of_goal(f"If asked: {env.goal(task)}, think."), task
    answers = [env.oracle(task)[-1].removeprefix("<answer> ").removesuffix(" </answer>") for task in tasks]
    particular = [answer for answer in answers if giveaways.of_answer(f"It is {answer}.")]
    assert len(particular) > 10 and not giveaways.of_answer("Answer with the name of the river or the year.")
    wordle = make("wordle")
    tasks = [Task("wordle", index) for index in list(wordle.spec.indices("test"))[:9]]
    spelt = Giveaways.of((wordle, task) for task in tasks)
    word = wordle.goal(tasks[0]).split()[1]
    assert spelt.of_answer(f"Try {word} first.") and spelt.of_answer(f"Try {' '.join(word)} first.")
    maze = make("maze")
    walks = Giveaways.of((maze, Task("maze", index)) for index in list(maze.spec.indices("test"))[:9])
    assert not walks.of_answer("If a wall is ahead, move up or move left.")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (f"<think>[1]</think>Here:\n```json\n{ADD}\n```", [Operation(Op.add, RULE)]),
        ('[{"op": "none"}, {"op": "delete", "id": "3"}]', [Operation(Op.delete, id=3)]),
        ('[{"op": "UPDATE", "id": 3, "text": "a\\n b"}]', [Operation(Op.update, "a b", 3)]),
    ],
)
def test_answers_that_are_read(answer, expected):
    assert read(answer) == expected


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "no JSON list"),
        ("[{]", "not JSON"),
        ("[" * 100_000 + "]", "nested too deeply"),
        ("[3]", "3 has no op"),
        ('[{"op": "ADD", "text": " "}]', "ADD has no text"),
        ('[{"op": "UPDATE", "id": "first", "text": "x"}]', "UPDATE has no id"),
        ('[{"op": "DELETE", "id": -1}]', "DELETE has no id"),
    ],
)
def test_answers_that_are_not(answer, says):
    with pytest.raises(Unreadable, match=says):
        read(answer)


@pytest.mark.slow
def test_a_killed_course_asks_nothing_twice(tmp_path):
    """The process is killed while its 25th request waits for an answer: all that was answered is kept."""
    server = Scripted(ADD)
    with serving(server) as name:
        words = ["counter:test:6", f"policy={name}", f"writer={name}", "out=book", "concurrency=1", *KEYS]
        code = f"from agentgym_rl.cli import app; app(['learn', *{words!r}])"
        process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        answer = server.say

        def deadly(messages):
            if len(server.requests) == 25:
                os.kill(process.pid, signal.SIGKILL)
                process.wait(10)
                server.say = answer
            return answer(messages)

        server.say = deadly
        assert process.wait(60) == -signal.SIGKILL
        assert json.loads(Path("book/journal/step001.jsonl").read_text().splitlines()[-1])
        del server.requests[-1]
        result = CliRunner().invoke(app, ["learn", *words])
    assert result.exit_code == 0, result.output
    assert f"{len(server.requests)} calls" in result.stdout, "what was used before the kill counts"
    straight = Scripted(ADD)
    assert learn(straight, "concurrency=1", "out=straight").exit_code == 0
    sent, once = ([[body["messages"], body["seed"]] for body in api.requests] for api in (server, straight))
    assert sent == once
    assert Playbook.read("book/playbook.json") == Playbook.read("straight/playbook.json")


def test_two_processes_cannot_write_one_playbook():
    from agentgym_rl.data.files import alone

    with alone(Path("book")):
        result = learn(Scripted(ADD))
    assert result.exit_code == 2 and "another process writes book; wait for it, or choose another out" in result.stderr


def test_a_writer_that_is_down_ends_it_and_its_return_goes_on():
    server = Scripted(ADD)
    down = learn(server, writer="openai:w@http://127.0.0.1:9/v1")
    assert down.exit_code == 2 and "openai:w@http://127.0.0.1:9/v1 cannot be reached" in down.stderr
    before = len(server.requests)
    other = learn(server)
    assert other.exit_code == 2 and "interrupted command with another writer" in other.stderr
    assert len(server.requests) == before


def test_the_cost_of_all_is_limited():
    server = Scripted(ADD)
    result = learn(server, "price=1000,1000", "max_cost=0.2", "concurrency=1")
    assert (
        result.exit_code == 2
        and "of 0.2 that it may; the same command with a greater max_cost= goes on" in result.stderr
    )
    assert len(server.requests) == 17, "0.012 each"
    assert learn(server, "price=1000,1000", "max_cost=9", "concurrency=1").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["policy=oracle"], "policy=oracle neither reads nor writes; give openai:"),
        (["writer=random"], "writer=random neither reads nor writes"),
        (["samples=1"], "samples must be at least 2, got 1"),
        (["temperature=0"], "temperature must be greater than 0"),
        (["form=songs"], "form=songs"),
        (["validation=counter:test"], "validation=counter:test has counter_4[0-9] of panel=counter:test:6; give other"),
        (["playbook=none.json"], "none.json does not exist"),
        (["writer_price=3"], "writer_price= takes two numbers"),
        (["wrter=x"], "unknown key 'wrter'; did you mean writer=?"),
        (["options.vast.ink=red"], "options.vast has no effect: no panel has a task of vast"),
        (["validation=vast:test:2"], "validation=vast:test:2 has no task of counter, which the lessons are of"),
        (["writer_price=1,1"], "writer_price= has no effect: policy and writer are one model"),
        (["writer_per_minute=9"], "writer_per_minute= has no effect: policy and writer are one model"),
    ],
)
def test_wrong_arguments_say_what_helps(arguments, says):
    server = Scripted(ADD)
    result = learn(server, *arguments)
    assert result.exit_code == 2 and re.search(says.replace("?", r"\?"), result.stderr), result.output
    assert server.requests == []


@pytest.mark.parametrize(
    ("policy", "writer", "given"),
    [("./model", "openai:gpt-4o@http://127.0.0.1:1/v1", {"price": [1.0, 1.0], "max_cost": 5.0, "without": ["seed"]}),
     ("openai:gpt-4o@http://127.0.0.1:1/v1", "./model", {"backend": "transformers", "prompt_tokens": 99})],
)  # fmt: skip
def test_the_validation_takes_no_key_of_the_writer(policy, writer, given, monkeypatch):
    """One of the two is a model behind an API, the other a local one."""
    asked = []
    Path("model").mkdir()
    monkeypatch.setattr(practice.evaluation, "prepare", lambda request, *_, **__: asked.append(request) or Mock())
    monkeypatch.setattr(practice.evaluation, "folder_of", lambda *_: None)
    monkeypatch.setattr(practice, "folder_of", lambda *_: None)
    monkeypatch.setattr(practice, "open_models", lambda *_: (Function(str), Function(str)))
    request = LearnRequest(
        panel="counter:train:2", validation="counter:test:2", policy=policy, writer=writer, out=Path("book"), **given
    )
    prepared = practice.prepare(request)
    Playbook().write(Path("book") / "playbook.json")
    list(prepared.validations())
    assert len(asked) == 2 and all(not evaluation.given(*given) for evaluation in asked)


def test_a_backend_is_that_of_the_local_model(monkeypatch):
    api, opened = "openai:gpt-4o@http://127.0.0.1:1/v1", {}

    def open_policy(name, rules, backend, **_):
        opened[name] = backend
        return Function(str)

    Path("model").mkdir()
    monkeypatch.setattr(writing, "open_policy", open_policy)
    request = LearnRequest(panel="counter:train:2", policy=api, writer="./model", backend="transformers")
    writing.open_models(request, Rules())
    assert opened == {api: "auto", "./model": "transformers"}


def test_options_of_an_environment_without_validation():
    options = ("options.vast.ink=red", "options.counter.ink=red")
    result = learn(Scripted(ADD), "validation=counter:train:2", *options, panel="counter:test:2,vast:test:1")
    assert result.exit_code == 0, result.output
    plan = json.loads(Path("book/validation/without/result.json").read_text())["plan"]
    assert plan["rules"]["options"] == {"counter": {"ink": "red"}}


def test_help_names_every_key():
    text = CliRunner().invoke(app, ["learn", "--help"], env={"COLUMNS": "80"}).stdout
    for field in fields(LearnRequest):
        assert field.name in ("panel", "options", "harness") or f"{field.name}=" in text, field.name
    assert "options.ENV.KEY=" in text and max(map(len, text.splitlines())) <= 80


def evaluated(server, *arguments):
    with serving(server) as name:
        words = ["panel=counter:test:6", f"policy={name}", "out=found", *arguments]
        return CliRunner().invoke(app, ["eval", *words], env={"COLUMNS": "150"})


def test_an_evaluation_with_and_without():
    playbook = Playbook()
    playbook.apply(Operation(Op.add, RULE), "counter", 1, "counter_1")
    playbook.write(Path("book.json"))
    server = Scripted(ADD, lucky=lambda sample: False)
    result = evaluated(server, "playbook=book.json")
    assert result.exit_code == 0, result.output
    assert "with the playbook against without" in result.stdout and "+100.0" in result.stdout
    plans = [json.loads(Path(place, "result.json").read_text())["plan"] for place in ("found", "found/without")]
    assert [list(plan["rules"]["prompts"]) for plan in plans] == [["counter"], []]
    other = evaluated(server, "playbook=book.json", "panel=vast:test:2", "out=b")
    assert other.exit_code == 2 and "panel= is given twice" in other.stderr


def test_both_evaluations_are_one_json_object():
    playbook = Playbook()
    playbook.apply(Operation(Op.add, RULE), "counter", 1, "counter_1")
    playbook.write(Path("book.json"))
    result = evaluated(Scripted(ADD, lucky=lambda seed: False), "playbook=book.json", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {name: evaluation["out"] for name, evaluation in found.items()} == {
        "without": "found/without",
        "with": "found",
    }


def test_an_empty_playbook_is_a_plain_evaluation():
    Playbook().write(Path("empty.json"))
    server = Scripted(ADD)
    assert evaluated(server, "playbook=empty.json").exit_code == 0
    half = len(server.requests) // 2
    bodies = [sorted(json.dumps(body) for body in part) for part in (server.requests[:half], server.requests[half:])]
    assert bodies[0] == bodies[1]
    with_playbook, plain = (json.loads(Path(place, "result.json").read_text()) for place in ("found", "found/without"))
    assert (with_playbook["plan"], with_playbook["outcomes"]) == (plain["plan"], plain["outcomes"])


def test_what_reads_no_playbook_is_refused():
    Playbook().write(Path("empty.json"))
    result = CliRunner().invoke(app, ["eval", "panel=counter:test:2", "policy=oracle", "playbook=empty.json"])
    assert result.exit_code == 2 and "policy=oracle reads nothing; leave playbook= out" in result.stderr


def test_a_playbook_that_cannot_be_read_is_told_before_any_episode():
    playbook = Playbook()
    playbook.apply(Operation(Op.add, RULE), "vast", 1, "vast_1")
    playbook.write(Path("other.json"))
    for file, says in {"none.json": "none.json does not exist", "other.json": "other.json is of vast, and"}.items():
        server = Scripted(ADD)
        result = evaluated(server, f"playbook={file}")
        assert result.exit_code == 2 and says in result.stderr, result.output
        assert server.requests == [] and not Path("found").exists()
