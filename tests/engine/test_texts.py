"""Texts that an algorithm asks of the policy or of a writer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentgym_rl.algorithms.base import Needs
from agentgym_rl.algorithms.grpo import GRPO
from agentgym_rl.data.episode import Ending
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.preflight import check_config
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.run.folder import Interrupted, RunFolder, State
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.engine.run.texts import ServedPolicy, Texts, open_writer, texts_of
from agentgym_rl.rollout.conversation import NoResponse
from agentgym_rl.rollout.policies import ModelOptions, open_policy
from agentgym_rl.rollout.policies.api import BudgetSpent
from agentgym_rl.rollout.policies.scripted import Function

sys.path.append(str(Path(__file__).parents[1] / "rollout"))
from chat_server import ChatServer
from fake_server import FakeServer

QUESTIONS = [[{"role": "user", "content": f"question {number}"}] for number in range(8)]


def answer(messages):
    return messages[-1]["content"].replace("question", "answer")


def texts(file, writer, most=3, **fields):
    made = Texts(writers={"writer": (writer, most)}, **fields)
    made.begin(file, "0:1")
    return made


def generate(made, questions=QUESTIONS, progress=lambda done, total: None, **options):
    return made.generate(questions, "writer", progress=progress, **options)


def served(server, work):
    """What ``work`` returns in a thread of its own, given the name of a server's model."""
    pytest.importorskip("openai")
    return asyncio.run(server.during(lambda name: asyncio.to_thread(work, name)))


def api(name, **options):
    return open_policy(name, ModelOptions(**options), None)


def test_several_are_asked_at_once_and_their_answers_have_the_order_of_the_questions(tmp_path):
    server, shown = ChatServer(answer), []

    def work(name):
        made = texts(tmp_path / "j", api(name), price=(1.0, 2.0))
        answers = generate(made, samples=2, temperature=0.5, max_tokens=7, progress=lambda *seen: shown.append(seen))
        return answers, made.end()

    answers, metrics = served(server, work)
    assert answers == [[f"answer {number}"] * 2 for number in range(8)]
    assert 1 < server.most <= 3 and shown == [(finished, 16) for finished in range(1, 17)]
    assert {(request["temperature"], request["max_completion_tokens"]) for request in server.requests} == {(0.5, 7)}
    assert len({request["seed"] for request in server.requests}) == 16
    assert metrics == {
        "generate/writer_calls": 16, "generate/writer_prompt_tokens": 160, "generate/writer_completion_tokens": 32,
        "generate/writer_unanswered": 0, "generate/writer_cost": (160 + 2 * 32) / 1e6,
    }  # fmt: skip


KILLED = """
import os
from pathlib import Path
from agentgym_rl.engine.run.texts import Texts
from agentgym_rl.rollout.policies import ModelOptions, open_policy
texts = Texts(writers={{"writer": (open_policy({name!r}, ModelOptions(), None), 1)}})
texts.begin(Path({file!r}), "0:1")
texts.generate({questions}, "writer", progress=lambda done, total: os._exit(9) if done == 5 else None)
"""


@pytest.mark.slow
def test_a_unit_that_was_killed_asks_nothing_twice(tmp_path):
    server, file = ChatServer(answer), tmp_path / "j"

    def work(name):
        script = KILLED.format(name=name, file=str(file), questions=QUESTIONS)
        killed = subprocess.run([sys.executable, "-c", script], env=os.environ, check=False, timeout=300)
        before = len(server.requests)
        model = api(name)
        answers = generate(texts(file, model, usage=model.usage))
        return killed.returncode, before, answers, model.usage.calls

    code, before, answers, calls = served(server, work)
    assert code == 9 and before in (5, 6), "one may be under way"
    assert answers == [[f"answer {number}"] for number in range(8)]
    times = Counter(request["messages"][-1]["content"] for request in server.requests)
    assert all(times[f"question {number}"] == 1 for number in (*range(5), 6, 7))
    assert calls == 8, "what was paid for before the kill counts"


def test_the_same_question_has_another_answer_in_a_unit_and_the_same_after_a_stop(tmp_path):
    numbers = iter(range(9))
    writer = Function(lambda messages: f"{next(numbers)}")
    made = texts(tmp_path / "j", writer, most=1)
    first = [generate(made, QUESTIONS[:1]) for _ in range(3)]
    assert first == [[["0"]], [["1"]], [["2"]]]
    made.end()
    again = texts(tmp_path / "j", writer)
    assert [generate(again, QUESTIONS[:1]) for _ in range(4)] == [*first, [["3"]]]
    assert generate(again, QUESTIONS[:1], temperature=0.5) == [["4"]], "asked in another way"
    assert again.end()["generate/writer_calls"] == 5


def test_a_stop_keeps_what_is_under_way(tmp_path):
    server, stop = ChatServer(answer), [True]

    def work(name):
        with pytest.raises(Interrupted):
            generate(texts(tmp_path / "j", api(name), stop=lambda: stop[0]))
        before, stop[0] = len(server.requests), False
        assert generate(texts(tmp_path / "j", api(name))) == [[f"answer {number}"] for number in range(8)]
        return before

    assert served(server, work) < 8
    assert len(server.requests) == 8


def test_what_is_withheld_is_empty_and_counted(tmp_path):
    refusal = (400, "content_filter: no")

    def work(name):
        made = texts(tmp_path / "j", api(name), most=1)
        return generate(made), made.end()

    answers, metrics = served(ChatServer(answer, None, refusal), work)
    assert answers[:3] == [["answer 0"], [""], ["answer 2"]]
    assert metrics["generate/writer_unanswered"] == 1 and metrics["generate/writer_calls"] == 8


@pytest.mark.slow
def test_a_limit_on_the_cost_is_that_of_the_whole_run(tmp_path, toy_recipes):
    """Answers cost 12 each. What was spent in earlier units, and in a unit before a stop, counts."""
    server = ChatServer(answer)

    def unit(name, state, step, limit, questions):
        config = recipes.load(["experiment=counter"])
        config.writer.policy, config.writer.price, config.writer.max_cost = name, [1e6, 1e6], limit
        config.writer.concurrency = 1
        resolved = Resolved(config)
        trainer = SimpleNamespace(learner=SimpleNamespace(), sampler=None)
        run = EngineRun(
            resolved=resolved, trainer=trainer, folder=RunFolder(tmp_path / "run", "id", resume=True), state=state,
            log=None, encoder=None, demonstrations=[], bar=lambda *_: None, say=None, stop=lambda: False,
            texts=texts_of(
                resolved, trainer, None, writer=open_writer(resolved), spent=state.written, stop=lambda: False
            ),
        )  # fmt: skip
        state.global_step = step - 1
        run.begin_unit("grpo", 1)
        try:
            return run.generate(QUESTIONS[:questions], by="writer")
        finally:
            run.end_unit()

    def work(name):
        state = State()
        unit(name, state, 1, 100, 3)
        assert state.written == {"calls": 3, "prompt_tokens": 30, "completion_tokens": 6}
        with pytest.raises(BudgetSpent, match=r"has cost 60\.0000, of 50 that it may"):
            unit(name, State(written=state.written), 2, 50, 8)
        return unit(name, State(written=state.written), 2, 1000, 8)

    assert served(server, work) == [[f"answer {number}"] for number in range(8)]
    assert len(server.requests) == 3 + 8


def test_the_policy_is_asked_by_tokens(tmp_path):
    server, woken = FakeServer([[1, 2, 3]]), []
    builder = SimpleNamespace(build_initial_tokens=lambda messages: list(messages[-1]["content"].encode()))
    trainer = SimpleNamespace(
        get_llm_client=lambda: server, tokenizer=SimpleNamespace(decode=lambda ids, **_: f"{ids}"),
        weights=SimpleNamespace(ensure_synced=lambda: woken.append(True)),
    )  # fmt: skip

    def ask(context, **options):
        return asyncio.run(ServedPolicy(trainer, builder, context, **options).write(
            QUESTIONS[0], seed=5, temperature=0.5, max_tokens=9
        ))  # fmt: skip

    written = ask(12, seeded=True)
    assert (written.text, written.prompt_tokens, written.completion_tokens) == ("[1, 2]", 10, 2)
    assert server.requests[0].prompt == list(b"question 0")
    assert server.requests[0].sampling == {
        "temperature": 0.5, "top_p": 1.0, "top_k": -1, "max_tokens": 2, "seed": 5
    }  # fmt: skip
    ask(99, seeded=False)
    assert "seed" not in server.requests[1].sampling
    with pytest.raises(NoResponse, match="10 tokens fills the context of 10") as full:
        ask(10, seeded=True)
    assert full.value.ending is Ending.CONTEXT_LIMIT


def test_who_cannot_be_asked_is_refused(tmp_path):
    with pytest.raises(ValueError, match="by='writer' cannot be asked: the run has policy"):
        Texts(writers={"policy": (Function(answer), 1)}).generate([], "writer", progress=lambda *_: None)


@pytest.mark.parametrize(
    ("algorithm", "writer", "says"),
    [
        ("asks", [], r"algorithm=asks asks a writer; set writer=openai:<model>@<url>"),
        ("asks", ["writer=oracle"], "writer=oracle writes no texts"),
        ("asks", ["writer=openai:m@http://h/v1", "writer.price=[1]"], r"price=\[1.0\] is not that of prompt and of"),
        ("asks", ["writer.max_cost=3"], "writer.max_cost has no effect: there is no writer"),
        (
            "grpo",
            ["writer=openai:m@http://h/v1"],
            r"writer.policy has no effect: neither algorithm=grpo nor mixture=\w+ asks one",
        ),
        ("asks", ["writer=openai:m@http://h/v1"], None),
    ],
)
def test_a_writer_is_looked_at_before_anything_starts(toy_recipes, monkeypatch, algorithm, writer, says):
    if algorithm == "asks":
        monkeypatch.setattr(GRPO, "needs", classmethod(lambda cls, config: Needs(writer="algorithm=asks")))

    def checked():
        config = recipes.load(["experiment=counter", "algorithm=grpo", *writer])
        check_config(Resolved(config))
        return config

    if says is None:
        assert checked().writer.policy == "openai:m@http://h/v1"
        return
    with pytest.raises(RecipeError, match=says):
        checked()
