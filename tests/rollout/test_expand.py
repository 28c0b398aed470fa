"""Instructions in other words, kept only where they hold."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from chat_server import ChatServer
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data import agenttraj
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.collect import NothingKept
from agentgym_rl.rollout.expand import essential, expand, fault, stated
from agentgym_rl.rollout.policies.api import ChatModel


def run(out, answers, env="textcraft", **arguments):
    answers = iter(answers)
    server = ChatServer(lambda messages: next(answers)(messages[-1]["content"].splitlines()[-1]))

    async def work(name):
        return await expand(env, "train", out, ChatModel(name, temperature=1), **arguments)

    return asyncio.run(server.during(work)), server


def kindly(line):
    return f"Please would you {line.removeprefix('Goal: ')}"


def test_a_rewording_is_the_trajectory_with_another_instruction(tmp_path):
    summary, server = run(tmp_path / "a.json", [kindly], n=1)
    assert (summary.asked, summary.kept, summary.rejected) == (1, 1, {})
    (trajectory,) = agenttraj.read(tmp_path / "a.json")
    goal = server.requests[0]["messages"][-1]["content"].splitlines()[-1]
    assert goal.startswith("Goal: craft")
    observation = trajectory.messages[2]["content"]
    assert kindly(goal) in observation and goal not in observation
    assert trajectory.loss[-1] is True
    assert not (tmp_path / "a.json.partial.jsonl").exists()


def test_no_two_rewordings_are_asked_for_with_one_seed(tmp_path):
    _, server = run(tmp_path / "a.json", [kindly] * 6, n=3, variants=2)
    assert len({request["seed"] for request in server.requests}) == 6


def test_a_rewording_that_was_cut_is_not_kept(tmp_path):
    class Cut(ChatModel):
        async def respond(self, messages, seed, max_tokens):
            response = await super().respond(messages, seed, max_tokens)
            return replace(response, finish_reason="length")

    async def work(name):
        await expand("textcraft", "train", tmp_path / "a.json", Cut(name, temperature=1), n=1)

    server = ChatServer(lambda messages: kindly(messages[-1]["content"].splitlines()[-1]))
    with pytest.raises(NothingKept, match="1 cut at 256 tokens"):
        asyncio.run(server.during(work))


def test_what_does_not_hold_is_not_kept(tmp_path):
    answers = [lambda line: line, lambda line: "make something", lambda line: "two\nlines", kindly, kindly]
    summary, _ = run(tmp_path / "a.json", answers, n=1, variants=5)
    assert (summary.asked, summary.kept) == (5, 1)
    assert summary.rejected == {
        "not reworded": 1, "loses a name, number or quotation": 1, "not one line": 1, "said before": 1,
    }  # fmt: skip


def test_an_expansion_without_a_rewording_is_an_error_and_no_file(tmp_path):
    with pytest.raises(NothingKept, match=r"a\.json is not written, no rewording of 2 tasks is kept: 2 not reworded"):
        run(tmp_path / "a.json", [lambda line: line] * 2, n=2)
    assert [path.name for path in tmp_path.iterdir()] == [".a.json.lock"]


def test_an_expansion_goes_on_where_it_stopped(tmp_path):
    out = tmp_path / "a.json"
    uninterrupted, _ = run(tmp_path / "whole.json", [kindly] * 4, n=4)
    server = ChatServer(lambda messages: kindly(messages[-1]["content"].splitlines()[-1]))
    server.dies_after = 2

    async def work(name):
        model = ChatModel(name, temperature=1, retries=0)
        with pytest.raises(EnvUnavailable, match=r"only 2 of 4 episodes .* did not answer.*the same command"):
            await expand("textcraft", "train", out, model, n=4)
        server.dies_after = None
        return await expand("textcraft", "train", out, model, n=4)

    assert asyncio.run(server.during(work)) == uninterrupted
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert len(server.requests) == 4 + 2


def test_two_calls_cannot_write_one_file(tmp_path):
    refused = []

    def second(*_):
        with pytest.raises(ValueError, match=r"another process writes .*a\.json; wait for it"):
            pool.submit(run, tmp_path / "a.json", [kindly] * 2, n=2).result()
        refused.append(True)

    with ThreadPoolExecutor(1) as pool:
        summary, _ = run(tmp_path / "a.json", [kindly] * 2, n=2, progress=second)
    assert summary.kept == 2 and refused


@pytest.mark.parametrize("min_counted", [1.0, 0.75, 0.0])
def test_a_task_that_fails_stops_no_other(tmp_path, min_counted):
    server = ChatServer(lambda messages: kindly(messages[-1]["content"].splitlines()[-1]), (500, "gone"))

    async def work(name):
        model = ChatModel(name, temperature=1, retries=0)
        return await expand("textcraft", "train", tmp_path / "a.json", model, n=4, min_counted=min_counted)

    if min_counted > 0.75:
        with pytest.raises(EnvUnavailable, match="only 3 of 4"):
            asyncio.run(server.during(work))
        assert not (tmp_path / "a.json").exists()
    else:
        summary = asyncio.run(server.during(work))
        assert (summary.asked, summary.kept, summary.failed) == (4, 3, 1)
    assert len(server.requests) == 4


def test_what_the_api_refuses_is_not_kept_and_the_rest_is(tmp_path):
    server = ChatServer(
        lambda messages: kindly(messages[-1]["content"].splitlines()[-1]), None, (400, "odd"), (200, b"")
    )

    async def work(name):
        return await expand("textcraft", "train", tmp_path / "a.json", ChatModel(name, temperature=1), n=4)

    summary = asyncio.run(server.during(work))
    assert (summary.kept, summary.rejected) == (2, {"refused": 1, "malformed": 1})


def test_the_line_that_states_the_goal_is_found():
    observation = "Recipes:\ncraft 4 stick using 2 planks\n\nGoal: craft 2 oak door"
    assert stated(observation, "craft 2 oak door") == "Goal: craft 2 oak door"


def test_names_numbers_and_quotations_must_stay():
    line = 'Rename "old list" to "new", then buy 3 red apples at 10:30'
    essentials = essential(line, ["buy apples", "wait"])
    assert essentials == {'"old list"', '"new"', "buy", "apples", "3", "10:30"}
    assert fault('At 10:30 buy 3 apples of red and call "OLD LIST" "new"', line, essentials) is None
    assert fault("At 10:30 buy 3 apples", line, essentials) == "loses a name, number or quotation"


@given(st.text(min_size=1), st.text())
def test_a_line_keeps_what_is_essential_of_itself(line, command):
    line = " ".join(line.split()) or "x"
    assert fault(f"{line} please", line, essential(line, [command])) is None
