"""Environments without ``await``."""

import asyncio
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import agentgym_rl as ag
from agentgym_rl.envs import sync
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
        assert env.reset(Task("counter", 1)) == env.reset(1) == env.reset(np.int64(1)) == "Count to 2."
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_callers_that_come_at_once_share_a_loop_and_a_forked_process_has_its_own(monkeypatch):
    async def running():
        return asyncio.get_running_loop()

    def ask(_):
        together.wait()
        return sync.wait(running())

    monkeypatch.setattr(sync, "_LOOPS", {})
    new_event_loop = asyncio.new_event_loop
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: (time.sleep(0.01), new_event_loop())[1])
    together = threading.Barrier(8)
    with ThreadPoolExecutor(8) as threads:
        (loop,) = set(threads.map(ask, range(8)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        os._exit(0 if sync.wait(running()) is not loop else 1)
    assert os.waitpid(child, 0)[1] == 0
    loop.call_soon_threadsafe(loop.stop)


def test_outside_of_a_running_loop():
    async def started():
        return outside(lambda: asyncio.run(asyncio.sleep(0, "done")))

    assert asyncio.run(started()) == "done" == outside(lambda: asyncio.run(asyncio.sleep(0, "done")))
