"""The episode loop: every ending, what is retried and what is not."""

import asyncio
import json
import threading
from typing import ClassVar

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs.actions import Action, parse_react
from agentgym_rl.envs.core import (
    ACKNOWLEDGEMENT,
    BlockingEnv,
    EnvUnavailable,
    Observation,
    OracleUnavailable,
    Step,
    Task,
)
from agentgym_rl.rollout.conversation import NoResponse, PolicyStopped, PromptTooLong, Response, Scripted, repeats
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.loop import run_attempt, run_episode
from agentgym_rl.rollout.policies import Oracle
from agentgym_rl.rollout.settings import RolloutSettings

TASK = Task("counter", 2)  # counts to 3
SOLUTION = ("Action: say 1", "Action: say 2", "Action: say 3")
ONCE = RolloutSettings(retries=0)


def scripted(*replies):
    """A conversation that gives these replies, then leaves."""
    rest = list(replies)

    def policy(messages):
        if not rest:
            raise PolicyStopped
        return rest.pop(0)

    return Scripted(policy)


def run(*replies, env=toy.Counter, task=TASK, settings=ONCE, conversation=None, **arguments):
    make_conversation = conversation or (lambda: scripted(*replies))
    return asyncio.run(run_episode(env, task, make_conversation, settings, **arguments))[0]


class Recorded(toy.Counter):
    """Keeps a list of the calls of all its sessions."""

    calls: ClassVar[list[str]] = []

    async def _reset(self, task):
        self.calls.append("reset")
        return await super()._reset(task)

    async def _step(self, action):
        self.calls.append(action)
        return await super()._step(action)

    async def _close(self):
        self.calls.append("close")


@pytest.fixture(autouse=True)
def forget_calls():
    Recorded.calls.clear()


def test_a_solved_task():
    episode = run("Thought: up\nAction: say 1", *SOLUTION[1:])
    assert (episode.ending, episode.success, episode.reward, episode.max_turns) == (Ending.TERMINATED, True, 1.0, 5)
    assert [turn.action for turn in episode.turns] == ["say 1", "say 2", "say 3"]
    assert [turn.reward for turn in episode.turns] == [0.0, 0.0, 1.0]
    assert [turn.observation for turn in episode.turns] == ["Right.", "Right.", "Done."]
    assert [message["role"] for message in episode.messages] == ["user", "assistant"] * 4
    assert [message["content"] for message in episode.messages[1:4]] == [
        ACKNOWLEDGEMENT,
        "Count to 3.",
        "Thought: up\nAction: say 1",
    ]
    assert (episode.env, episode.item_id, episode.attempts, episode.error) == ("counter", "counter_2", 1, None)


def test_compact_start_is_a_system_message():
    episode = run("hm", env=lambda: toy.Counter("compact"), max_turns=1)
    assert episode.messages[:2] == [{"role": "system", "content": "say N"}, {"role": "user", "content": "Count to 3."}]


def test_a_lost_task_counts():
    episode = run("Action: say 7")
    assert (episode.success, episode.ending, episode.ending.counts) == (False, Ending.TERMINATED, True)


def test_two_actions_in_a_reply_do_not_reach_the_world():
    episode = run("Action: say 1\nAction: say 2", "Action: say 1", env=Recorded, max_turns=2)
    assert Recorded.calls == ["reset", "say 1", "close"]
    assert (episode.turns[0].action, episode.turns[0].invalid, episode.turns[0].env_s) == (None, True, 0.0)
    assert "just one" in episode.turns[0].observation
    assert episode.messages[4]["content"] == episode.turns[0].observation


def test_the_turn_limit_is_the_episodes_then_the_settings_then_the_worlds():
    looks = ["Action: look"] * 9
    assert len(run(*looks).turns) == toy.Counter().spec.max_turns
    of_settings = RolloutSettings(max_turns=4)
    assert len(run(*looks, settings=of_settings).turns) == 4
    episode = run(*looks, settings=of_settings, max_turns=7)
    assert (len(episode.turns), episode.max_turns, episode.ending) == (7, 7, Ending.TURN_LIMIT)
    assert run(max_turns=0).error == "ValueError: max_turns is 0; give at least 1"


def test_the_last_turn_can_still_solve_the_task():
    assert run(*SOLUTION, max_turns=3).ending is Ending.TERMINATED


def test_a_world_that_truncates_is_at_its_own_turn_limit():
    class Closing(toy.Counter):
        async def _step(self, action):
            return Step(Observation("The hall closes."), 0.25, False, truncated=True)

    episode = run("Action: say 1", env=Closing)
    assert (episode.ending, episode.reward, len(episode.turns)) == (Ending.TURN_LIMIT, 0.25, 1)
    assert episode.turns[-1].observation == "The hall closes."


def test_the_reward_is_the_sum_over_turns():
    class Paying(toy.Counter):
        async def _step(self, action):
            step = await super()._step(action)
            return Step(step.observation, 0.25, step.terminated)

    episode = run(*SOLUTION, env=Paying)
    assert (episode.reward, episode.success) == (0.75, True)
    episode = run(*SOLUTION, env=Paying, max_turns=2)
    assert (episode.reward, episode.success) == (0.5, False)


def test_invalid_actions_in_a_row_end_an_episode_where_that_is_wanted():
    settings = RolloutSettings(invalid_limit=2, retries=0)
    replies = ["Action: dance", "Action: say 1", "Action: a\nAction: b", "Action: dance", "Action: say 2"]
    episode = run(*replies, settings=settings)
    assert (episode.ending, len(episode.turns)) == (Ending.INVALID_LIMIT, 4)
    assert episode.ending.counts
    assert run(*replies).ending is Ending.TURN_LIMIT


class Narrow(Scripted):
    """Has room for one observation, or for one reply."""

    def __init__(self, what):
        super().__init__(lambda messages: "Action: say 1" if len(messages) == 3 else "Action: say 2")
        self.what = what

    async def observe(self, observation):
        return False if self.what == "observation" else await super().observe(observation)

    async def respond(self):
        return None if self.what == "reply" and len(self.messages) > 3 else await super().respond()


@pytest.mark.parametrize(("what", "last"), [("observation", "assistant"), ("reply", "user")])
def test_a_full_context_ends_an_episode(what, last):
    episode = run(conversation=lambda: Narrow(what))
    assert (episode.ending, len(episode.turns), episode.messages[-1]["role"]) == (Ending.CONTEXT_LIMIT, 1, last)
    assert episode.ending.counts


class Dying(Recorded):
    async def _step(self, action):
        raise EnvUnavailable("the server is gone")


def test_a_dead_world_is_an_env_error_after_all_retries():
    episode = run(*SOLUTION, env=Dying, settings=RolloutSettings(retries=2), max_turns=4)
    assert (episode.ending, episode.attempts, episode.max_turns) == (Ending.ENV_ERROR, 3, 4)
    assert (episode.reward, episode.success, episode.turns, episode.messages) == (0.0, False, [], [])
    assert episode.error == "EnvUnavailable: the server is gone"
    assert Dying.calls == ["reset", "close"] * 3


def test_an_episode_is_retried_whole_with_a_fresh_world_and_conversation():
    class Flaky(Recorded):
        async def _step(self, action):
            step = await super()._step(action)
            if self.calls.count("reset") == 1 and action == "say 2":
                raise EnvUnavailable("once")
            return step

    conversations = []

    def conversation():
        conversations.append(scripted(*SOLUTION))
        return conversations[-1]

    episode, last = asyncio.run(run_episode(Flaky, TASK, conversation, RolloutSettings(retries=5)))
    assert (episode.ending, episode.attempts, episode.reward, episode.error) == (Ending.TERMINATED, 2, 1.0, None)
    assert Flaky.calls == ["reset", "say 1", "say 2", "close", "reset", "say 1", "say 2", "say 3", "close"]
    assert len(conversations) == 2 and last is conversations[1]
    assert last.messages == episode.messages


async def forever(*_):
    await asyncio.Event().wait()


@pytest.mark.parametrize("call", ["reset", "step"])
def test_a_world_that_does_not_answer_is_a_timeout(call):
    stuck = type("Stuck", (Recorded,), {call: forever})
    episode = run(*SOLUTION, env=stuck, settings=RolloutSettings(retries=1, step_seconds=0.02))
    assert (episode.ending, episode.attempts) == (Ending.TIMEOUT, 2)
    assert "EnvTimeout" in episode.error and call in episode.error and "0.02 s" in episode.error
    assert stuck.calls.count("close") == 2


def test_an_episode_that_takes_too_long_is_a_timeout():
    class Slow(Scripted):
        respond = forever

    settings = RolloutSettings(retries=1, episode_seconds=0.02)
    episode = run(env=Recorded, conversation=lambda: Slow(None), settings=settings)
    assert (episode.ending, episode.attempts) == (Ending.TIMEOUT, 2)
    assert episode.error == "TimeoutError: episode took longer than 0.02 s"
    assert Recorded.calls == ["reset", "close"] * 2


def test_a_request_the_server_dropped_is_aborted():
    class Dropped(Scripted):
        async def respond(self):
            return Response("", aborted=True)

    episode = run(env=Recorded, conversation=lambda: Dropped(None), settings=RolloutSettings(retries=1))
    assert (episode.ending, episode.attempts, episode.ending.counts) == (Ending.ABORTED, 2, False)
    assert Recorded.calls == ["reset", "close"] * 2


def test_a_task_that_the_environment_does_not_have_after_all_is_an_error_of_its_episode():
    episode = run(env=Recorded, task=Task("counter", 99), settings=RolloutSettings(retries=1))
    assert (episode.ending, episode.attempts) == (Ending.ENV_ERROR, 2)
    assert episode.error == "TaskNotFound: counter_99 is outside 0..49"


def test_a_prompt_that_does_not_fit_is_not_tried_again():
    class Cramped(Scripted):
        async def start(self, messages, parse):
            raise PromptTooLong("no room")

    episode = run(env=Recorded, conversation=lambda: Cramped(None), settings=RolloutSettings(retries=3))
    assert (episode.ending, episode.attempts, episode.error) == (Ending.PROMPT_LIMIT, 1, "PromptTooLong: no room")
    assert Recorded.calls == ["reset", "close"]


def test_a_policy_that_leaves_leaves_the_world_closed():
    with pytest.raises(PolicyStopped):
        run("Action: say 1", env=Recorded)
    assert Recorded.calls == ["reset", "say 1", "close"]


@pytest.mark.parametrize("hangs", [True, False])
def test_a_session_that_cannot_be_closed_does_not_undo_the_episode(hangs, caplog):
    class Lingering(toy.Counter):
        async def _close(self):
            if hangs:
                await forever()
            raise EnvUnavailable("gone already")

    episode = run(*SOLUTION, env=Lingering, settings=RolloutSettings(retries=1, step_seconds=0.5))
    assert (episode.ending, episode.attempts) == (Ending.TERMINATED, 1)
    assert "counter was left open" in caplog.text


def test_an_attempt_raises_and_leaves_the_session_open():
    with pytest.raises(EnvUnavailable):
        asyncio.run(run_attempt(Dying(), TASK, scripted(*SOLUTION), ONCE))
    assert Dying.calls == ["reset"]


def test_a_parser_that_fails_costs_a_turn_and_is_counted():
    def parse(response):
        if "say 2" in response:
            raise IndexError("no such group")
        return parse_react(response)

    episode = run("Action: say 1", "Action: say 2", "Action: look", parse=parse, max_turns=3)
    assert [turn.action for turn in episode.turns] == ["say 1", None, "look"]
    assert [turn.fault for turn in episode.turns] == [None, "IndexError: no such group", None]
    assert (episode.turns[1].invalid, episode.parser_faults, episode.ending) == (True, 1, Ending.TURN_LIMIT)
    assert Episode.from_dict(episode.to_dict()) == episode


def test_a_parser_that_repeats_half_a_surrogate_pair_ends_no_run(tmp_path, caplog):
    caplog.set_level("CRITICAL", "agentgym_rl.envs.formats")  # pytest's own workers cannot tell such a log

    def parse(response):
        raise ValueError(f"no such item {json.loads(response)}")

    episode = run('"\\ud83d"', parse=parse, max_turns=1)
    assert episode.turns[0].fault == "ValueError: no such item \ufffd"
    with Journal(tmp_path / "a.jsonl") as journal:
        journal.add("a", Entry(episode))


def test_whatever_an_error_says_can_be_stored():
    class Silent(Scripted):
        async def respond(self):
            raise NoResponse(Ending.REFUSED, "no \ud83d")

    assert run(conversation=lambda: Silent(None)).error == "no \ufffd"

    class Unsolvable(toy.Counter):
        def oracle(self, task):
            raise OracleUnavailable("no \ud83d")

    assert asyncio.run(Oracle().run(Unsolvable(), TASK, ONCE)).error == "no \ufffd"


@pytest.mark.parametrize("call", ["_reset", "_step"])
def test_a_time_limit_of_an_environments_own_is_told_in_its_words(call):
    async def late(*_):
        raise TimeoutError(110, "db.example:5432 does not answer")

    episode = run(*SOLUTION, env=type("Late", (toy.Counter,), {call: late}), settings=ONCE)
    assert episode.ending is Ending.ENV_ERROR
    assert "db.example:5432 does not answer" in episode.error and "longer than" not in episode.error


@pytest.mark.parametrize("call", ["_reset", "_step", "_close"])
def test_a_bug_of_an_environment_is_an_env_error(call, caplog):
    async def broken(*_):
        raise KeyError("lost")

    episode = run(*SOLUTION, env=type("Broken", (toy.Counter,), {call: broken}), settings=RolloutSettings(retries=1))
    assert "KeyError: 'lost'" in caplog.text
    if call == "_close":
        assert episode.ending is Ending.TERMINATED
    else:
        assert (episode.ending, episode.attempts) == (Ending.ENV_ERROR, 2)
        assert episode.error.startswith("EnvFault: ") and "KeyError: 'lost'" in episode.error


def test_what_an_episode_holds_can_be_encoded():
    class Echo(toy.Counter):
        async def _reset(self, task):
            return Observation("\ud83d")

        async def _step(self, action):
            if "die" in action:
                raise EnvUnavailable("gone \udc00")
            return Step(Observation(f"{action} \udc00"), 0.0, terminated=False)

    episode = run("Action: a \ud83d", env=Echo, parse=lambda text: Action(text), max_turns=1)
    assert episode.turns[0].observation == "Action: a \ufffd \ufffd"
    failed = run("die", env=Echo, parse=Action, max_turns=1)
    for played in (episode, failed):
        json.dumps(played.to_dict(), ensure_ascii=False).encode()


def test_watch_and_parse():
    seen = []
    run(
        "say 1",
        "say 2",
        max_turns=2,
        parse=Action,
        watch=lambda action, step: seen.append((action, step.observation.text)),
    )
    assert seen == [(None, "Count to 3."), ("say 1", "Right."), ("say 2", "Right.")]


def test_a_policy_sees_the_whole_conversation():
    lengths = []

    def policy(messages):
        lengths.append(len(messages))
        messages.clear()  # its own copy
        return "Action: look"

    run(conversation=lambda: Scripted(policy), max_turns=3)
    assert lengths == [3, 5, 7]


def test_a_blocking_world_does_not_hold_up_other_episodes():
    both_are_stepping = threading.Barrier(2)

    class Blocking(BlockingEnv):
        name = "counter"
        spec, goal, difficulty = toy.Counter.spec, toy.Counter.goal, toy.Counter.difficulty

        def _reset_blocking(self, task):
            return Observation("Go.")

        def _step_blocking(self, action):
            both_are_stepping.wait(timeout=20)  # breaks when one step waits for the other to end
            return Step(Observation("Done."), 1.0, True)

    async def two():
        episodes = (run_episode(Blocking, TASK, lambda: scripted("Action: go"), ONCE) for _ in range(2))
        return await asyncio.gather(*episodes)

    assert [episode.reward for episode, _ in asyncio.run(two())] == [1.0, 1.0]


REPLIES = st.sampled_from(["Action: say 1", "Action: say 2", "Action: say 3", "Action: look", "Action: a\nAction: b"])


@given(replies=st.lists(REPLIES | st.text(max_size=20), min_size=6, max_size=6), max_turns=st.integers(1, 6))
def test_what_holds_for_every_episode(replies, max_turns):
    episode = run(*replies, max_turns=max_turns)
    assert 1 <= len(episode.turns) <= max_turns
    assert [turn.response for turn in episode.turns] == replies[: len(episode.turns)]
    assert episode.reward == sum(turn.reward for turn in episode.turns)
    assert episode.success == (episode.turns[-1].observation == "Done.")
    assert (episode.ending is Ending.TERMINATED) == (episode.turns[-1].observation in ("Done.", "Wrong."))
    assert episode.ending in (Ending.TERMINATED, Ending.TURN_LIMIT)
    texts = [text for turn in episode.turns for text in (turn.response, turn.observation)]
    assert [message["content"] for message in episode.messages[3:]] == texts[:-1]


def test_a_prefix_is_replayed_without_asking_the_policy():
    rest = ["Action: say 2", "Action: say 3"]
    episode = run(conversation=lambda: Scripted(lambda messages: rest.pop(0), ["Action: say 1"]), env=Recorded)
    assert Recorded.calls == ["reset", "say 1", "say 2", "say 3", "close"]
    assert (episode.success, episode.prefix_turns, episode.calls) == (True, 1, 2)
    assert [turn.calls for turn in episode.turns] == [0, 1, 1]
    plain = run(*SOLUTION)
    assert episode.messages == plain.messages
    assert (plain.prefix_turns, plain.calls) == (0, 3)


def test_a_policy_is_asked_again_for_another_command_after_the_prefix_only():
    def conversation(*replies, prefix=("Action: say 1",), resamples=3):
        rest = list(replies)
        return lambda: Scripted(lambda messages: rest.pop(0), prefix, ["say 2", "a\nAction: b"], resamples)

    episode = run(conversation=conversation("Action: say 2", "Action: look", "Action: say 2", "Action: say 3"))
    assert [turn.action for turn in episode.turns] == ["say 1", "look", "say 2", "say 3"]
    assert [turn.calls for turn in episode.turns] == [0, 2, 1, 1]
    episode = run(conversation=conversation("Action: say 2", "Thought: x\nAction: say 2", "Action: say 3", resamples=1))
    assert [(turn.action, turn.calls) for turn in episode.turns] == [("say 1", 0), ("say 2", 2), ("say 3", 1)]


def test_a_reply_that_cannot_be_read_is_avoided_as_a_whole():
    twice = "Action: a\nAction: b"
    assert repeats(twice, [twice], parse_react) and not repeats(twice, ["a"], parse_react)
    assert repeats("Thought: up\nAction: say 1.", ["say 1"], parse_react)
    assert not repeats("Action: say 1", [], parse_react)


def test_episodes_from_before_calls_were_counted_can_be_read():
    data = run(*SOLUTION).to_dict()
    for turn in data["turns"]:
        del turn["calls"]
    again = Episode.from_dict(data)
    assert (again.calls, again.prefix_turns) == (3, 0)
