"""Evaluations are complete or can be gone on with; what the infrastructure did is never the agent's fault."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import toy

from agentgym_rl.data import episode_store
from agentgym_rl.data.files import alone
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.eval.evaluation import result, suite
from agentgym_rl.eval.evaluation.evaluate import EPISODES, PATIENCE, evaluate
from agentgym_rl.eval.evaluation.plan import Plan
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.evaluation.tables import tables
from agentgym_rl.rollout.policies import Oracle, Random
from agentgym_rl.rollout.policies.api import BudgetSpent, ChatModel, ModelRefused

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from chat_server import ChatServer

pytestmark = pytest.mark.usefixtures("toys")

JOURNAL = "result.json.partial.jsonl"


def plan_of(panel="counter:test", policy="random", retries=0, max_turns=None, **arguments):
    rules = Rules().but(retries=retries, max_turns=max_turns)
    return Plan(suite=suite.read(panel, rules), policy=policy, rules=rules, **arguments)


def run(folder, plan=None, policy=None, **arguments):
    plan = plan or plan_of(samples=3)
    return asyncio.run(evaluate(plan, policy or Random(plan.seed), folder, **arguments))


def figures(evaluated):
    """Everything of a result that has to be the same again."""
    return {key: value for key, value in evaluated.to_dict().items() if key != "cost"}


def test_a_result_is_whole_and_reads_back(tmp_path):
    evaluated = run(tmp_path / "a", plan_of(samples=3, panel="counter:test,vast:test:4"))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        ".lock",
        "episodes",
        "panel.json",
        "result.json",
    ]
    again = result.read(tmp_path / "a")
    assert figures(again) == figures(evaluated)
    data = json.loads((tmp_path / "a" / "result.json").read_text())
    assert data["plan"]["panel"]["n"] == len(data["outcomes"]) == 14
    assert set(data["envs"]) == {"counter", "vast"}
    assert set(data["difficulties"]["counter"]) == {"length 1", "length 2", "length 3"}
    assert set(data["passes"]["counter"]["pass@k"]) == {"1", "2", "3"}
    assert data["envs"]["counter"]["success"]["n"] == 10
    assert 0 < data["envs"]["counter"]["success"]["value"] < 1
    assert suite.read(str(tmp_path / "a" / "panel.json"), Rules()).digest == evaluated.digest


def test_two_processes_cannot_run_one_evaluation(tmp_path):
    """Both would pay for every episode, and one would end without its journal."""
    with alone(tmp_path), pytest.raises(ValueError, match=r"another process writes .*; wait for it"):
        run(tmp_path)
    run(tmp_path)
    assert not (tmp_path / JOURNAL).exists()


def test_a_part_that_is_down_is_no_part_of_a_mean(tmp_path, monkeypatch):
    """Nine tenths of the episodes count, and a tenth is an environment that is down."""

    async def failing(self, task):
        raise EnvUnavailable("gone")

    monkeypatch.setattr(toy.Vast, "reset", failing)
    evaluated = run(tmp_path, plan_of(samples=2, panel="counter:test,vast:test:1"))
    with pytest.raises(EnvUnavailable, match=r"only 0 of 2 episodes of vast count \(min_counted=0.5\).*gone"):
        evaluated.check(0.5)
    data = json.loads((tmp_path / "result.json").read_text())
    assert data["macro"]["success"] is data["envs"]["vast"]["success"] is None
    assert data["envs"]["counter"]["success"]["n"] == 10
    figures_of, passes_of = (table_rows(table) for table in tables(evaluated))
    assert figures_of["vast"] == ["0 of 1", "0", "-", "-", "-", "100.0 [20.7, 100.0]"]
    assert figures_of["mean of 2 environments"][:5] == ["10 of 11", "20", "-", "-", "-"]
    assert passes_of["vast"] == ["-"] * 4


def test_a_task_without_an_episode_that_counts_is_in_no_mean(tmp_path, monkeypatch):
    reset = toy.Counter.reset

    async def failing(self, task):
        if task.index == 43:
            raise EnvUnavailable("gone")
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", failing)
    evaluated = run(tmp_path, plan_of(samples=2))
    evaluated.check(0.9)
    figures_of, passes_of = (table_rows(table) for table in tables(evaluated))
    assert figures_of["counter"][:2] == ["9 of 10", "18"]
    assert all(cell.endswith("(9 of 10)") for cell in passes_of["counter"])


def table_rows(table):
    """Cells of each row by its first."""
    first, *rest = ([*column.cells] for column in table.columns)
    return {name.strip(): [*cells] for name, *cells in zip(first, *rest, strict=True)}


def test_the_episodes_are_stored_in_order_with_their_tags(tmp_path):
    run(tmp_path, concurrency=3)
    episodes = episode_store.read(tmp_path / EPISODES)
    played = [(episode.item_id, episode.tags["sample"]) for episode in episodes]
    assert played == [(f"counter_{index}", number) for index in range(40, 50) for number in range(3)]
    assert episodes[0].tags == {"panel": "test", "decoding": "greedy", "sample": 0}
    assert len(episode_store.EpisodeStore(tmp_path).query(env="counter")) == 30


def test_the_same_seed_gives_the_same_numbers_at_any_concurrency(tmp_path):
    first = figures(run(tmp_path / "a"))
    assert figures(run(tmp_path / "b", concurrency=7)) == first
    assert figures(run(tmp_path / "c", plan_of(samples=3, seed=1))) != first


def test_the_oracle_solves_all_and_a_task_without_one_is_failed(tmp_path):
    plan = plan_of(panel="counter:test,plain:test", policy="oracle")
    evaluated = run(tmp_path, plan, Oracle())
    envs = evaluated.envs()
    assert (envs["counter"].success.value, envs["plain"].success.value) == (1.0, 0.0)
    assert envs["plain"].episodes == 10
    assert result.macro(list(envs.values())).success.value == 0.5


def test_a_world_has_its_turn_limit(tmp_path):
    evaluated = run(tmp_path, plan_of(policy="oracle", max_turns=1), Oracle())
    assert evaluated.envs()["counter"].success.value == 0.3


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit])
def test_a_killed_evaluation_goes_on_to_the_same_result(tmp_path, monkeypatch, failure):
    uninterrupted = figures(run(tmp_path / "whole"))
    played: list[int] = []
    reset = toy.Counter.reset

    async def failing(self, task):
        if len(played) == 7:
            raise failure("now")
        played.append(task.index)
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", failing)
    with pytest.raises(failure):
        run(tmp_path / "a")
    assert not (tmp_path / "a" / "result.json").exists()
    with (tmp_path / "a" / JOURNAL).open("a") as file:
        file.write('{"key": "counter_4')  # a process that died while writing

    async def counting(self, task):
        played.append(task.index)
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", counting)
    assert figures(run(tmp_path / "a")) == uninterrupted
    assert len(played) == 30
    assert not (tmp_path / "a" / JOURNAL).exists()


def test_a_finished_evaluation_is_not_played_again(tmp_path, monkeypatch):
    first = run(tmp_path)

    async def never(self, task):
        raise AssertionError("played again")

    monkeypatch.setattr(toy.Counter, "reset", never)
    again = run(tmp_path)
    assert figures(again) == figures(first) and again.cost["seconds"] >= first.cost["seconds"]


def test_what_another_process_finishes_meanwhile_is_not_played_again(tmp_path, monkeypatch):
    first = []

    class Slow(LocalHost):
        async def check(self, env, options):
            if not first:
                first.append(await evaluate(plan_of(), Random(0), tmp_path))
                monkeypatch.setattr(toy.Counter, "reset", never)

    async def never(self, task):
        raise AssertionError("played again")

    again = run(tmp_path, plan_of(), Random(0), host=Slow())
    assert figures(again) == figures(first[0])


def test_failures_outside_the_agent_are_apart_and_played_again(tmp_path, monkeypatch):
    reset = toy.Counter.reset
    down = {41, 44}

    async def failing(self, task):
        if task.index in down:
            raise EnvUnavailable("gone")
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", failing)
    evaluated = run(tmp_path, plan_of(policy="oracle"), Oracle())
    score = evaluated.envs()["counter"]
    assert (score.success.value, score.success.n, score.error_rate.value) == (1.0, 8, 0.2)
    assert [failure["item_id"] for failure in evaluated.failures] == ["counter_41", "counter_44"]
    assert (evaluated.failures[0]["ending"], evaluated.failures[0]["error"]) == ("env_error", "EnvUnavailable: gone")
    down.clear()
    again = run(tmp_path, plan_of(policy="oracle"), Oracle())
    assert (again.envs()["counter"].success.n, again.failures) == (10, ())


def test_a_failure_that_was_played_again_before_a_stop_is_not_played_once_more(tmp_path, monkeypatch):
    reset, down, stops, played = toy.Counter.reset, {41, 44}, set(), []

    async def failing(self, task):
        if task.index in down:
            raise EnvUnavailable("gone")
        played.append(task.index)
        if task.index in stops:
            raise KeyboardInterrupt
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", failing)
    run(tmp_path, plan_of(policy="oracle"), Oracle())
    down.clear()
    stops.add(44)
    played.clear()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, plan_of(policy="oracle"), Oracle())
    stops.clear()
    assert run(tmp_path, plan_of(policy="oracle"), Oracle()).envs()["counter"].success.n == 10
    assert played == [41, 44, 44]


def test_an_episode_is_retried_before_it_counts_as_failed(tmp_path, monkeypatch):
    reset, fell = toy.Counter.reset, set()

    async def once(self, task):
        if task.index not in fell:
            fell.add(task.index)
            raise EnvUnavailable("gone")
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", once)
    evaluated = run(tmp_path, plan_of(policy="oracle", retries=1), Oracle())
    assert evaluated.envs()["counter"].error_rate.value == 0.0
    assert {episode.attempts for episode in episode_store.read(tmp_path / EPISODES)} == {2}


def test_when_nothing_works_the_evaluation_stops_and_keeps_what_it_has(tmp_path, monkeypatch):
    async def failing(self, task):
        raise EnvUnavailable("gone")

    monkeypatch.setattr(toy.Counter, "reset", failing)
    with pytest.raises(
        EnvUnavailable, match=f"{PATIENCE} episodes in a row failed .* EnvUnavailable: gone; .* goes on"
    ):
        run(tmp_path, plan_of(panel="counter:train"))
    monkeypatch.undo()
    assert not (tmp_path / "result.json").exists()


def test_another_evaluation_in_the_folder_is_refused(tmp_path, monkeypatch):
    run(tmp_path / "a")
    with pytest.raises(ValueError, match="another seed; choose another out="):
        run(tmp_path / "a", plan_of(samples=3, seed=4))

    async def failing(self, task):
        raise KeyboardInterrupt

    monkeypatch.setattr(toy.Counter, "reset", failing)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "b")
    with pytest.raises(ValueError, match="another samples and temperature"):
        run(tmp_path / "b", plan_of(samples=2, temperature=1.0))


def test_other_weights_behind_a_name_are_another_evaluation(tmp_path):
    run(tmp_path, plan_of(weights="step 4"))
    run(tmp_path, plan_of(weights="step 4"))
    with pytest.raises(ValueError, match="another weights; choose another out="):
        run(tmp_path, plan_of(weights="step 8"))


def test_a_result_from_before_weights_were_kept_is_that_of_a_policy_without_any(tmp_path):
    run(tmp_path)
    file = tmp_path / "result.json"
    kept = json.loads(file.read_text())
    del kept["plan"]["weights"]
    file.write_text(json.dumps(kept))
    run(tmp_path)
    file.write_text(json.dumps(kept))
    with pytest.raises(ValueError, match="another weights"):
        run(tmp_path, plan_of(samples=3, weights="step 4"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_bad_arguments_leave_no_files(tmp_path, arguments, says):
    concurrency = {key: arguments.pop(key) for key in ("concurrency",) if key in arguments}
    with pytest.raises(ValueError, match=says):
        run(tmp_path / "a", plan_of(**arguments), **concurrency)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("text", "says"), [("{}", "not the result"), ("no", "not JSON"), ('{"version": 9}', "9")])
def test_what_is_no_result_is_told(tmp_path, text, says):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(ValueError, match=says):
        result.read(tmp_path)
    with pytest.raises(FileNotFoundError, match="folder of a finished evaluation"):
        result.read(tmp_path / "nothing")


# models behind an API


def count(messages):
    replies = sum(message["role"] == "assistant" for message in messages)
    return f"Action: say {replies + (messages[0]['role'] != 'user')}"


def ask(server, folder, concurrency=2, price=(1000.0, 10000.0), plan=None, **limits):
    async def work(name):
        model = ChatModel(name, temperature=0, price=price, **limits)
        return await evaluate(plan or plan_of(policy="some/model"), model, folder, concurrency=concurrency, price=price)

    return asyncio.run(server.during(work))


def test_an_api_is_played_and_its_cost_told(tmp_path):
    evaluated = ask(ChatServer(count), tmp_path, concurrency=5)
    assert evaluated.envs()["counter"].success.value == 1.0
    calls = 20  # lengths 2, 3, 1, ... of ten tasks
    assert evaluated.cost | {"seconds": 0} == {
        "seconds": 0, "calls": calls, "prompt_tokens": 10 * calls, "completion_tokens": 2 * calls, "price": 0.6,
    }  # fmt: skip


def test_an_api_may_cost_so_much_and_the_budget_counts_on(tmp_path):
    server = ChatServer(count)
    with pytest.raises(BudgetSpent, match=r"has cost 0\.3000, of 0\.3 that it may; .* greater max_cost= goes on"):
        ask(server, tmp_path, concurrency=1, max_cost=0.3)
    assert len(server.requests) == 10
    with pytest.raises(BudgetSpent):
        ask(server, tmp_path, concurrency=1, max_cost=0.27)
    assert len(server.requests) == 10
    evaluated = ask(server, tmp_path, max_cost=5.0)
    assert evaluated.envs()["counter"].success.value == 1.0
    assert 20 <= len(server.requests) <= 23  # an episode that was cut off is played from its start
    assert evaluated.cost["calls"] == len(server.requests)


def test_an_api_is_asked_no_more_often_than_allowed(tmp_path):
    import time

    begun = time.monotonic()
    ask(ChatServer(count), tmp_path, concurrency=10, per_minute=60 * 40)
    assert time.monotonic() - begun > 19 / 40


def test_limits_make_sense():
    name = "openai:m@http://localhost/v1"
    with pytest.raises(ValueError, match="needs to be above 0, and a price"):
        ChatModel(name, temperature=0, max_cost=3)
    with pytest.raises(ValueError, match="per_minute=0 needs"):
        ChatModel(name, temperature=0, per_minute=0)


def test_a_refusal_ends_the_evaluation(tmp_path):
    with pytest.raises(ModelRefused, match="no such key"):
        ask(ChatServer(count, *[(401, "no such key")] * 5), tmp_path)


def test_what_the_api_ended_is_counted_by_kind_and_kept(tmp_path):
    faults = [None, None, None, None, (400, "odd"), None, (200, b"<html>"), (500, "Context size has been exceeded.")]
    server = ChatServer(count, *faults)
    evaluated = ask(server, tmp_path, concurrency=1)
    assert evaluated.endings == {"terminated": 7, "refused": 1, "malformed": 1, "context_limit": 1}
    assert sorted(stopped["ending"] for stopped in evaluated.stopped) == ["context_limit", "malformed", "refused"]
    assert all(stopped["error"].startswith("openai:some/model@") for stopped in evaluated.stopped)
    assert (evaluated.failures, evaluated.envs()["counter"].success.value) == ((), 0.7)
    requests = len(server.requests)
    assert result.read(tmp_path) == evaluated
    again = ask(server, tmp_path)
    assert (
        replace(again, cost=again.cost | {"seconds": evaluated.cost["seconds"]}) == evaluated
    )  # its seconds are added
    assert len(server.requests) == requests  # none is paid again


def test_a_refusal_after_the_replies_of_an_earlier_call_ends_its_own_episode(tmp_path):
    server = ChatServer(count, None, (402, "pay"))
    with pytest.raises(ModelRefused, match="no credit"):
        ask(server, tmp_path)
    server.faults = [(400, "odd")]
    assert ask(server, tmp_path).endings == {"refused": 1, "terminated": 9}


def test_an_oracle_without_a_way_was_ended_by_no_api(tmp_path):
    evaluated = run(tmp_path, plan_of("plain:test:2", "oracle"), Oracle())
    assert (evaluated.endings, evaluated.stopped) == ({"turn_limit": 2}, ())


def test_reasons_to_stop_refusals_and_empty_replies_are_counted(tmp_path):
    def reply(finish_reason, **message):
        return 200, json.dumps({"choices": [{"message": message, "finish_reason": finish_reason}]}).encode()

    odd = [reply("length", content=None), reply("stop", content=None, refusal="I will not."), reply(3, content="")]
    server = ChatServer(count, *odd)
    evaluated = ask(server, tmp_path, concurrency=1)
    assert evaluated.finish_reasons == {"length": 1, "refusal": 1, "stop": len(server.requests) - 3}
    assert evaluated.empty_replies == 2
    assert result.read(tmp_path) == evaluated


def test_rate_limits_are_waited_out(tmp_path):
    evaluated = ask(ChatServer(count, (429, "slow"), (503, "busy"), (429, "slow")), tmp_path)
    assert (evaluated.failures, evaluated.envs()["counter"].success.value) == ((), 1.0)
