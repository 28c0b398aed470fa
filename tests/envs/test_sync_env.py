"""Environments without ``await``."""

import asyncio

import pytest

import agentgym_rl as ag
from agentgym_rl.envs.core import OracleUnavailable, ProtocolError, Task, TaskNotFound
from agentgym_rl.envs.sync import outside

pytestmark = pytest.mark.usefixtures("toys")


def test_an_episode():
    with ag.make("counter", style="compact") as env:
        assert env.actions is None and env.instruction == "say N"
        assert env.reset("counter_1") == "Count to 2."
        assert env.actions
        assert env.step("say 1") == ("Right.", 0.0, False, False, {})
        assert env.step("say 2") == ("Done.", 1.0, True, False, {})
        with pytest.raises(ProtocolError):
            env.step("say 3")
        assert env.reset(Task("counter", 1)) == env.reset(1) == "Count to 2."
        assert env.goal(1) == env.goal("counter_1")
        assert env.step("jump")[4]["invalid"]


def test_facts_of_a_task():
    env = ag.make("counter")
    assert env.oracle("counter_1") == env.env.oracle(Task("counter", 1))
    assert env.goal("counter_1") == env.env.goal(Task("counter", 1))
    assert 41 in env.spec.splits["test"]
    with pytest.raises(TaskNotFound):
        env.reset("counter_99")
    with pytest.raises(TaskNotFound, match="is not an item id"):
        env.reset("twelve")
    with pytest.raises(OracleUnavailable):
        ag.make("plain").oracle("plain_0")


def test_an_unknown_option_is_told():
    with pytest.raises(ValueError, match="counter has no option 'speed'; its options: style, hurry"):
        ag.make("counter", speed=3)
    assert "counter" in ag.available()


def test_it_runs_where_an_event_loop_runs_already():
    async def notebook():
        return ag.make("counter").reset("counter_0")

    assert asyncio.run(notebook()) == "Count to 1."


def test_outside_of_a_running_loop():
    async def started():
        return outside(lambda: asyncio.run(asyncio.sleep(0, "done")))

    assert asyncio.run(started()) == "done" == outside(lambda: asyncio.run(asyncio.sleep(0, "done")))
