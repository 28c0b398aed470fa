"""One name for a policy, whatever the command."""

import asyncio

import pytest
import toy

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.conversation import PolicyStopped
from agentgym_rl.rollout.policies import Human, ModelOptions, Oracle, Random, is_place, open_policy
from agentgym_rl.rollout.policies.scripted import NoActions, RandomScript
from agentgym_rl.rollout.settings import RolloutSettings

SETTINGS = RolloutSettings(retries=0)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    (tmp_path / "model").mkdir()


@pytest.mark.parametrize("name", ["oracle", "random", "human", "openai:m@http://x/v1"])
def test_words_and_addresses(name):
    assert not is_place(name)


PLACES = "model ./model runs/demo runs/demo:bc Qwen/Qwen3-0.6B a.b/c_d-e smollm2_135m smollm2_135m:hub"


@pytest.mark.parametrize("name", PLACES.split())
def test_places(name):
    assert is_place(name)


@pytest.mark.parametrize("name", ["runs/dmo", "runs/dmo:bc", "./modell", "/nowhere/model", "a/b/c", "../model"])
def test_a_local_place_that_is_not_there_is_told_at_once(name):
    with pytest.raises(FileNotFoundError, match=f"policy '{name}' does not exist; choose oracle, random, a run"):
        open_policy(name, ModelOptions(), lambda *_: pytest.fail("opened"))


def test_a_word_that_is_no_policy():
    with pytest.raises(ValueError, match="policy 'expert' is unknown; choose oracle, random, a run"):
        is_place("expert")


def test_names_become_policies():
    opened = []
    options = ModelOptions(seed=3)
    assert isinstance(open_policy("oracle", options, None), Oracle)
    assert open_policy("random", options, None).seed == 3
    open_policy("runs/demo:bc", options, lambda *arguments: opened.append(arguments) or Oracle())
    assert opened == [("runs/demo:bc", options)]
    with pytest.raises(ValueError, match="for `agentgym-rl play`"):
        open_policy("human", options, None)


def actions(policy, **arguments):
    episode = asyncio.run(policy.run(toy.Counter(), Task("counter", 2), SETTINGS, **arguments))
    return [turn.action for turn in episode.turns]


def test_random_actions_depend_on_seed_task_and_sample():
    assert actions(Random(1)) == actions(Random(1))
    drawn = {tuple(actions(Random(seed), sample=sample)) for seed in range(4) for sample in range(4)}
    assert len(drawn) > 1
    script = RandomScript("counter_2", toy.Counter(), ActionFormat.react, list)
    script.watch(None, asyncio.run(first()))
    unseeded = [script([]) for _ in actions(Random())]
    assert [text.rpartition("\n")[2] for text in unseeded] == actions(Random())


def test_random_actions_are_the_same_after_a_failed_attempt(monkeypatch):
    step, fails = toy.Counter.step, iter([False, True])

    async def flaky(self, action):
        if next(fails, False):
            raise EnvUnavailable("gone")
        return await step(self, action)

    settings = RolloutSettings(style="compact", max_turns=8)

    def drawn():
        episode = asyncio.run(Random(1).run(toy.Counter(), Task("counter", 2), settings))
        return episode.attempts, [turn.action for turn in episode.turns]

    _, undisturbed = drawn()
    monkeypatch.setattr(toy.Counter, "step", flaky)
    assert drawn() == (2, undisturbed)


def test_where_no_actions_are_listed_those_of_other_tasks_are_drawn():
    env, task, settings = make("textcraft", style="compact"), Task("textcraft", 12), RolloutSettings(style="compact")
    policy = Random()
    episodes = [asyncio.run(policy.run(env, task, settings, sample=sample)) for sample in range(8)]
    actions = {turn.action for episode in episodes for turn in episode.turns}
    assert len(actions) > 8 and all(command.startswith(("craft ", "get ")) for command in actions)
    again = asyncio.run(Random().run(make("textcraft", style="compact"), task, settings))
    assert [turn.action for turn in again.turns] == [turn.action for turn in episodes[0].turns]


def test_without_actions_and_oracle_there_is_nothing_to_draw():
    with pytest.raises(NoActions, match="plain lists no actions and has no oracle, so that there is nothing to choose"):
        asyncio.run(Random().run(toy.Plain(), Task("plain", 2), SETTINGS))


async def first():
    from agentgym_rl.envs.core import Step

    return Step(await toy.Counter().reset(Task("counter", 2)), 0.0, terminated=False)


def test_a_policy_is_watched():
    for policy in (Oracle(), Random(0), Human(iter_of("Action: say 1", "Action: say 9"), None)):
        seen = []
        actions(policy, watch=lambda action, step, seen=seen: seen.append(action))
        assert seen[0] is None and len(seen) > 1


def iter_of(*lines):
    rest = list(lines)
    return lambda messages: rest.pop(0)


def test_a_person_may_leave():
    def leave(messages):
        raise PolicyStopped

    with pytest.raises(PolicyStopped):
        actions(Human(leave, None))


def test_the_oracle_passes_over_what_it_cannot_solve():
    episode = asyncio.run(Oracle().run(toy.Plain(), Task("plain", 2), RolloutSettings(max_turns=3)))
    assert (episode.success, episode.messages, episode.turns, episode.max_turns) == (False, [], [], 3)
    assert episode.ending.counts


class LosesItsThirdStep(toy.Counter):
    """A server that is gone for a moment."""

    calls = 0

    async def _step(self, action):
        self.calls += 1
        if self.calls == 3:
            raise EnvUnavailable("gone")
        return await super()._step(action)


def test_the_oracle_begins_again_where_the_environment_failed():
    settings = RolloutSettings(retries=1)
    episode = asyncio.run(Oracle().run(LosesItsThirdStep(), Task("counter", 2), settings))
    assert episode.success and episode.attempts == 2


class PlaysToFindItsWay(toy.Counter):
    """An oracle in a browser that is gone for a moment."""

    tries = 0

    def oracle(self, task):
        self.tries += 1
        if self.tries < 3:
            raise EnvUnavailable("the browser is gone")
        return super().oracle(task)


def test_an_oracle_whose_infrastructure_fails_is_no_unsolved_task():
    env = PlaysToFindItsWay()
    episode = asyncio.run(Oracle().run(env, Task("counter", 2), RolloutSettings(retries=1)))
    assert not episode.ending.counts and (episode.attempts, episode.turns) == (2, [])
    assert episode.error == "EnvUnavailable: the browser is gone"
    assert asyncio.run(Oracle().run(env, Task("counter", 2), SETTINGS)).success
