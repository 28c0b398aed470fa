"""``ag.evaluate``."""

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest
import toy

import agentgym_rl as ag
from agentgym_rl.api.policies import function
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.playbook import Op, Operation, Playbook
from agentgym_rl.rollout.policies import Random
from agentgym_rl.rollout.policies.scripted import Function
from agentgym_rl.rollout.settings import RolloutSettings

numpy = pytest.importorskip("numpy")
pytest.importorskip("pandas")
pytest.importorskip("scipy")
pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def count_up(messages):
    replies = sum(message["role"] == "assistant" for message in messages) - 1  # the first acknowledges the instruction
    return f"Thought: next.\nAction: say {replies + 1}"


def test_a_name_is_evaluated_as_the_command_does():
    evaluation = ag.evaluate("oracle", "counter:test,plain:test:4")
    assert evaluation.success.n == 2 and evaluation.success.value == 0.5, (
        "the mean of two environments; plain has no oracle"
    )
    table = evaluation.table.set_index(["env", "difficulty"])
    assert table.loc[("counter", "all"), "success"] == 1 and table.loc[("counter", "all"), "success_low"] < 1
    assert table.loc[("counter", "length 2"), "tasks"] == 4
    assert len(evaluation.episodes) == 14 == len(evaluation.records)
    assert str(evaluation).startswith(
        f"oracle on panel {evaluation.result.digest}: success 50.0% (mean of 2 environments), 95% interval "
    )
    assert evaluation.folder.parent == Path("evals") / evaluation.result.digest
    again = ag.Evaluation.read(evaluation.folder)
    assert again.result.outcomes == evaluation.result.outcomes and again.records == evaluation.records


def test_it_is_short_in_a_notebook():
    evaluation = ag.evaluate("oracle", "counter:test,plain:test:4")
    assert repr(evaluation) == f"<Evaluation: {evaluation}>" and len(repr(evaluation)) < 200
    html = evaluation._repr_html_()
    assert "<td>counter</td><td>all</td><td>10</td><td>10</td><td>1.000 [" in html
    assert html.count("<tr>") == 1 + len(evaluation.table) and len(html) < 2000


def test_a_function_is_evaluated_and_kept_only_when_asked():
    evaluation = ag.evaluate(count_up, "counter:test")
    assert (evaluation.success.value, evaluation.folder) == (1.0, None)
    assert not Path("evals").exists()
    assert evaluation.records[0].messages[3]["content"] == "Thought: next.\nAction: say 1"
    lazy = ag.evaluate(lambda messages: "Action: wait", "counter:test:3", max_turns=2, out="kept")
    assert lazy.success.value == 0 and set(lazy.episodes["turns"]) == {2}
    assert lazy.folder == Path("kept") and (lazy.folder / "result.json").is_file()


def test_a_function_that_waits_keeps_no_other_episode_waiting():
    """Each call waits until three run at once."""
    three = threading.Barrier(3, timeout=10)

    def together(messages):
        three.wait()
        return "Action: say 9"

    evaluation = ag.evaluate(together, "counter:test:3", concurrency=3, max_turns=1, retries=0)
    assert set(evaluation.episodes["turns"]) == {1}


def test_a_function_that_takes_too_long_ends_its_episode():
    over = threading.Event()
    policy, task = Function(lambda messages: over.wait(10) or ""), Task("counter", 1)
    settings = RolloutSettings(episode_seconds=0.2, retries=0)
    try:
        assert asyncio.run(policy.run(make("counter"), task, settings)).ending is Ending.TIMEOUT
    finally:
        over.set()


def test_a_function_that_writes_keeps_nobody_waiting():
    three = threading.Barrier(3, timeout=10)
    policy = Function(lambda messages: str(three.wait()))

    async def write():
        return await asyncio.gather(*(policy.write([], seed=0, temperature=1, max_tokens=9) for _ in range(3)))

    assert sorted(written.text for written in asyncio.run(write())) == ["0", "1", "2"]


def test_a_policy_is_evaluated():
    evaluation = ag.evaluate(Random(3), "counter:test", samples=3, temperature=1)
    assert evaluation.result.samples == 3 and len(evaluation.episodes) == 30
    assert evaluation.reward.ci95[0] <= evaluation.reward.value <= evaluation.reward.ci95[1]
    assert {*evaluation.episodes["sample"]} == {0, 1, 2}


def test_a_policy_reads_what_it_has_to_read(tmp_path):
    """Its own prompts, then the playbook; its exemplars where none are asked for. The policy stays as it was."""
    policy, book = Function(count_up), Playbook()
    policy.prompts = {"counter": "Begin with one."}
    book.apply(Operation(Op.add, "Go on with two."), "counter", 1, "counter_1")
    book.write(tmp_path / "book.json")
    alone = ag.evaluate(policy, "counter:test:2")
    assert {record.preface for record in alone.records} == {"Begin with one."}
    for _ in range(2):
        both = ag.evaluate(policy, "counter:test:2", playbook=tmp_path / "book.json")
        assert {record.preface for record in both.records} == {f"Begin with one.\n\n{book.text('counter')}"}
    assert policy.prompts == {"counter": "Begin with one."}

    class Shown(Exemplars):
        def text(self, env, task):
            return "Example"

    policy.exemplars = Shown({}, 2, "digest")
    shown = ag.evaluate(policy, "counter:test:2")
    assert {record.preface for record in shown.records} == {"Begin with one.\n\nExample"}
    assert shown.result.plan["rules"]["exemplars"] == {"digest": "digest", "nearest": 2}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"max_cost": 1.0, "price": (1, 1)}, "max_cost= has no effect"),
        ({"per_minute": 3.0}, "per_minute= has no effect"),
        ({"without": ["seed"]}, "without= has no effect"),
        ({"backend": "vllm"}, "backend= has no effect"),
        ({"prompt_tokens": 100}, "prompt_tokens= has no effect"),
    ],
)
def test_what_an_open_policy_would_ignore_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        ag.evaluate(count_up, "counter:test:2", **arguments)


def test_the_temperature_of_a_policy_is_its_own():
    policy = Function(count_up)
    policy.temperature = 0.7
    evaluation = ag.evaluate(policy, "counter:test:2")
    assert evaluation.result.plan["temperature"] == 0.7
    assert {record.tags["decoding"] for record in evaluation.records} == {"sampled"}
    for temperature in (1, 0):
        with pytest.raises(ValueError, match=rf"temperature={temperature} has no effect: count_up samples at 0\.7"):
            ag.evaluate(policy, "counter:test:2", temperature=temperature)


def test_another_function_of_the_same_name_has_a_result_of_its_own():
    def saying(word):
        def agent(messages):
            return f"Action: say {word}"

        return agent

    first = ag.evaluate(saying("1"), "counter:test:2", out="kept")
    assert ag.evaluate(saying("1"), "counter:test:2", out="kept").result.plan == first.result.plan

    def agent(messages):
        return "Action: say 1 again"

    for other in (agent, saying("2")):
        with pytest.raises(ValueError, match="weights"):
            ag.evaluate(other, "counter:test:2", out="kept")


def test_functions_are_told_apart_by_what_they_were_given():
    def say(word, messages):
        return f"Action: say {word}"

    def bound(word):
        return lambda messages, word=word: say(word, messages)

    def named(word):
        return lambda messages, *, word=word: say(word, messages)

    for given in (bound, named, lambda word: partial(say, word), lambda word: partial(say, word=word)):
        assert function(given("1")).weights == function(given("1")).weights
        assert len({function(given(word)).weights for word in ("1", "2", 1, 0.5)}) == 4
    assert function(partial(count_up)).weights != function(partial(say)).weights
    assert function(partial(say, a=1, b=2)).weights != function(partial(say, b=1, a=2)).weights


def test_functions_are_told_apart_without_their_source():
    def made(text):
        names = {}
        exec(text, names)
        return function(names["agent"]).weights

    texts = ["agent = lambda m: 'a'", "agent = lambda m: 'b'", "agent = lambda m: [n for n in 'b']"]
    assert len({made(text) for text in texts}) == 3 and made(texts[0]) == made(texts[0])

    class Agent:
        def __call__(self, messages):
            return "Action: say 1"

    assert function(Agent()).weights == function(Agent()).weights != function(count_up).weights
    assert function(print).weights == function(len).weights, "nobody can tell"


def test_progress_is_told():
    progress = []
    ag.evaluate("oracle", "counter:test:3", progress=lambda done, total: progress.append((done, total)))
    assert progress == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_options_and_rules_are_taken():
    evaluation = ag.evaluate("oracle", "counter:test:3", options={"counter": {"hurry": True}}, style="compact")
    assert evaluation.result.plan["rules"]["options"] == {"counter": {"hurry": True}}
    assert evaluation.result.plan["rules"]["settings"]["style"] == "compact"


def test_numbers_of_numpy_are_taken():
    numbers = {"samples": numpy.int64(2), "temperature": numpy.float32(1), "price": numpy.array([0.5, 1.0])}
    assert len(ag.evaluate(count_up, "counter:test:3", **numbers).records) == 6


def test_texts_are_taken_as_they_are(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for out, folder in {"${seed}": "${seed}", "half${": "half${", "~/kept": tmp_path / "kept"}.items():
        assert ag.evaluate("oracle", "counter:test:3", out=out).folder == Path(folder)


def test_a_policy_may_be_a_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        ag.evaluate(tmp_path, "counter:test:3")


async def awaited(messages):
    return "Action: say 1"


@pytest.mark.parametrize("policy", [None, awaited])
def test_what_returns_no_response_is_refused(policy):
    with pytest.raises(ValueError, match="give a name, or a function, not an async one, that returns the response"):
        ag.evaluate(policy, "counter:test:3")


def test_it_runs_in_a_notebook():
    async def cell():
        return ag.evaluate("oracle", "counter:test:3").success.value

    assert asyncio.run(cell()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"polcy": "oracle"}, "unknown key 'polcy'; did you mean policy=.; known are"),
        ({"samples": "many"}, "samples=many is not a whole number"),
        ({"min_counted": 95}, "min_counted=95 is no share"),
        ({"options": {"counter": {"speed": 1}}}, "counter has no option 'speed'"),
        ({"samples": 0}, "samples is 0"),
        ({"out": 5}, "out=5 is not a path"),
    ],
)
def test_mistakes_are_told(arguments, says):
    with pytest.raises(ValueError, match=says):
        ag.evaluate("oracle", "counter:test", **arguments)
    assert not Path("evals").exists()


def test_too_few_episodes_that_count_are_an_error(monkeypatch):
    async def failing(self, task):
        raise EnvUnavailable("gone")

    monkeypatch.setattr(toy.Counter, "reset", failing)
    with pytest.raises(EnvUnavailable, match="only 0 of 3 episodes of counter count"):
        ag.evaluate("oracle", "counter:test:3", retries=0)
