"""What the base class does for every environment."""

import asyncio
import threading

import pytest
import toy
from forks import in_a_fork, needs_fork

from agentgym_rl.envs import item_ids
from agentgym_rl.envs.core import (
    BlockingEnv,
    EnvFault,
    EnvUnavailable,
    Observation,
    ProtocolError,
    Step,
    Task,
    TaskNotFound,
    in_thread,
)

TASK = Task("counter", 1)


class Failing(toy.Counter):
    closed = 0

    async def _step(self, action):
        if action == "fail":
            raise EnvUnavailable("gone")
        return await super()._step(action)

    async def _close(self):
        self.closed += 1


class Paid(toy.Counter):
    """Gives a reward of one's choice, for ever."""

    reward = 0.0

    async def _step(self, action):
        return Step(Observation(""), self.reward, terminated=False)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 10**400, -0.1, 1.5, -1e-9, 1 + 1e-9])
def test_a_reward_is_between_0_and_1(reward):
    async def main():
        env = Paid()
        env.reward = reward
        await env.reset(TASK)
        with pytest.raises(EnvFault, match=r"Paid\._step gives the reward .*; rewards are in \[0, 1\]"):
            await env.step("say 1")

    asyncio.run(main())


def test_the_rewards_of_an_episode_sum_to_1_at_most():
    async def main():
        env = Paid()
        env.reward = 0.1
        for _ in range(2):  # each episode has its own sum
            await env.reset(TASK)
            for _ in range(10):  # tenths sum to 1 but for rounding
                await env.step("say 1")
        with pytest.raises(EnvFault, match=r"the rewards of Paid\._step sum to 1\.1; .*raw_reward"):
            await env.step("say 1")

    asyncio.run(main())


def test_calls_out_of_order_raise():
    async def main():
        env = toy.Counter()
        with pytest.raises(ProtocolError, match="counter: step before reset or after the end"):
            await env.step("say 1")
        await env.reset(TASK)
        for action in ("say 1", "say 2"):
            step = await env.step(action)
        assert step.terminated
        with pytest.raises(ProtocolError):
            await env.step("say 1")
        await env.reset(TASK)
        await env.close()
        with pytest.raises(ProtocolError):
            await env.step("say 1")
        await env.close()
        assert (await env.reset(TASK)).text == "Count to 2."

    asyncio.run(main())


def test_an_iterator_that_ends_in_a_thread_does_not_hang_the_caller():
    async def main():
        async with asyncio.timeout(1):
            await in_thread(next, iter(()))

    with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
        asyncio.run(main())
    assert isinstance(raised.value.__cause__, StopIteration)


def test_a_step_that_was_given_up_changes_no_later_episode():
    """It goes on in its thread; a reset waits for its end, closing does not."""
    go_on, did = threading.Event(), []

    class Slow(BlockingEnv):
        name, spec = "counter", toy.Counter().spec
        goal = difficulty = oracle = None

        def _reset_blocking(self, task):
            did.append("reset")
            return Observation("0")

        def _step_blocking(self, action):
            if action == "slow":
                go_on.wait(5)
            did.append(action)
            return Step(Observation("1"), 0.0, terminated=False)

        def _close_blocking(self):
            did.append("close")

    async def main():
        env = Slow()
        await env.reset(TASK)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await env.step("slow")
        await env.close()
        again = asyncio.create_task(env.reset(TASK))
        await asyncio.sleep(0.02)
        go_on.set()
        await again
        await env.step("quick")

    asyncio.run(main())
    assert did == ["reset", "close", "slow", "reset", "quick"]


def test_a_task_of_another_environment_is_refused_and_the_episode_goes_on():
    async def main():
        env = toy.Counter()
        await env.reset(TASK)
        with pytest.raises(TaskNotFound, match="maze_1 is not a task of counter"):
            await env.reset(Task("maze", 1))
        assert (await env.step("say 1")).observation.text == "Right."
        with pytest.raises(TaskNotFound):
            await env.reset(Task("counter", 10**6))
        with pytest.raises(ProtocolError):  # a reset that fails leaves no episode
            await env.step("say 2")

    asyncio.run(main())


def test_a_failed_step_leaves_the_episode_and_every_close_reaches_the_environment():
    async def main():
        env = Failing()
        await env.reset(TASK)
        with pytest.raises(EnvUnavailable):
            await env.step("fail")
        assert (await env.step("say 1")).observation.text == "Right."
        await env.close()
        await env.close()
        assert env.closed == 2

    asyncio.run(main())


def in_a_thread():
    assert asyncio.run(in_thread(int, "3")) == 3


@needs_fork
def test_a_forked_process_has_threads_of_its_own():
    in_a_thread()
    assert in_a_fork(in_a_thread) == 0


@pytest.mark.parametrize(
    ("item_id", "task"),
    [
        ("textcraft_12", ("textcraft", 12)),
        ("lmrlgym_maze_3", ("maze", 3)),
        ("tool_weather_7", ("weather", 7)),
        ("tool_shop_3", ("tool_shop", 3)),
        ("lmrlgym_chess_3", ("lmrlgym_chess", 3)),
        ("tool_weather_2_7", ("tool_weather_2", 7)),
        ("a_world_of_yours_0", ("a_world_of_yours", 0)),
        (
            "look_at_obj_in_light-AlarmClock-None-DeskLamp-301_trial_T20190907_174127_043461",
            ("alfworld", 0),
        ),
        ("textcraft", None),
        ("textcraft_x", None),
        ("Textcraft_1", None),
        (f"textcraft_{'9' * 5000}", None),
        ("textcraft_٣", None),
        ("", None),
    ],
)
def test_item_ids(item_id, task):
    assert item_ids.read(item_id) == task
    if task is None:
        with pytest.raises(TaskNotFound, match="is not an item id"):
            Task.parse(item_id)
    else:
        assert Task.parse(item_id) == Task(*task)
