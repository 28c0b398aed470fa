"""Our environments in Gymnasium, and its text environments here."""

import asyncio
import multiprocessing

import pytest
from sweep import thinned

from agentgym_rl.envs import Task, available, env_class
from agentgym_rl.envs.check import check
from agentgym_rl.envs.core import ProtocolError, TaskNotFound

gymnasium = pytest.importorskip("gymnasium")
checker = pytest.importorskip("gymnasium.utils.env_checker")
TextGym = pytest.importorskip("agentgym_rl.compat.gymnasium").TextGym


def test_every_environment_is_registered():
    for name in available():
        if not name.startswith("gym"):
            spec = gymnasium.spec(f"agentgym_rl/{name}-v0")
            assert (spec.entry_point, spec.kwargs) == ("agentgym_rl.compat.gymnasium:TextGym", {"name": name})


@pytest.mark.parametrize("name", thinned(["textcraft", "maze", "wordle", "weather", "searchqa", "alfworld"], 3))
@pytest.mark.filterwarnings("error::UserWarning")
def test_gymnasiums_checker_and_ours_find_no_fault(name):
    env = gymnasium.make(f"agentgym_rl/{name}-v0", render_mode="ansi")
    checker.check_env(env.unwrapped)
    env.close()
    assert check(name, "train", n=2).passed


def test_an_episode():
    env = gymnasium.make("agentgym_rl/textcraft-v0", style="compact", render_mode="ansi")
    seen, info = env.reset(options={"task": "textcraft_12"})
    assert (info["task"], info["goal"]) == ("textcraft_12", "craft arrow") and info["instruction"]
    assert env.render() == seen
    *first, last = env.unwrapped.session.oracle("textcraft_12")
    for command in first:
        _, reward, terminated, truncated, _ = env.step(command)
        assert (reward, terminated, truncated) == (0, False, False)
    assert env.step(last)[1:4] == (1.0, True, False)
    with pytest.raises(ProtocolError):
        env.step(last)


def test_a_task_may_be_its_number_and_a_split_must_have_one(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"goal": "be brief", "split": "test"}\n{"goal": "be polite", "split": "test"}\n')
    env = TextGym("harness", "test", tasks=str(path))
    assert {env.reset(seed=seed, options={"task": 0})[1]["task"] for seed in range(4)} == {"harness_0"}
    with pytest.raises(ValueError, match="harness train has no task; its splits: train, test"):
        TextGym("harness", tasks=str(path))


def test_a_seed_draws_a_task_of_the_split():
    env = TextGym("textcraft", split="test")
    drawn = [env.reset(seed=seed)[1]["task"] for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1] and len(set(drawn)) > 2
    assert all(Task.parse(task).index in env.session.spec.splits["test"] for task in drawn)
    assert env.reset(seed=0)[1]["task"] == drawn[0] and env.reset()[1]["task"] != drawn[0]


def test_the_turn_limit_truncates_and_possible_actions_are_told():
    env = TextGym("babyai", max_turns=2) if "babyai" in available() else pytest.skip("no babyai")
    pytest.importorskip("minigrid")
    _, info = env.reset(seed=0)
    assert "turn left" in info["actions"]
    assert env.step("turn left")[2:4] == (False, False)
    _, _, terminated, truncated, info = env.step("xyzzy")
    assert (terminated, truncated, info["invalid"]) == (False, True, True)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [({"task": "maze_1"}, TaskNotFound, "maze_1"), ({"level": 3}, ValueError, "no option 'level'; its option is")],
)
def test_what_reset_cannot_do_is_told(options, error, says):
    with pytest.raises(error, match=says):
        TextGym("textcraft").reset(options=options)


def test_an_unknown_split_or_option_is_told():
    with pytest.raises(ValueError, match="no split 'dev'; its splits: train, test"):
        TextGym("textcraft", split="dev")
    with pytest.raises(ValueError, match="textcraft has no option 'loud'"):
        TextGym("textcraft", loud=True)
    with pytest.raises(ValueError, match="max_turns is 0; give at least 1"):
        TextGym("textcraft", max_turns=0)


def _plays(_: int) -> str:
    env = TextGym("textcraft")
    env.reset(seed=0)
    return env.step("inventory")[0]


def test_environments_run_in_forked_processes():
    here = _plays(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_plays, [0, 1]).get(60) == [here, here]


@pytest.mark.parametrize(("mode", "arguments"), [("sync", {}), ("async", {"shared_memory": False})])
def test_vector_environments(mode, arguments):
    envs = gymnasium.make_vec("agentgym_rl/textcraft-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=arguments)
    seen, _ = envs.reset(seed=[0, 1])
    assert len(seen) == 2 and seen[0] != seen[1]
    seen, rewards, *_ = envs.step(["inventory", "inventory"])
    assert all("not carrying" in observation for observation in seen) and [*rewards] == [0, 0]
    envs.close()


@pytest.mark.slow
def test_a_text_environment_of_gymnasium_keeps_our_contract(guess):
    report = check(guess)
    assert report.passed, [finding for finding in report.findings if finding.passed is False]
    assert report["deterministic across processes"].passed and report["garbage is an observation"].passed


def test_its_rewards_are_shares_of_the_best(guess):
    env = env_class(guess)()

    async def play(task, actions):
        first = await env.reset(Task(guess, task))
        return first, [await env.step(action) for action in actions]

    first, _ = asyncio.run(play(3, "c"))
    letter = next(letter for letter in "abcdef" if asyncio.run(play(3, letter))[1][0].terminated)
    assert first.actions == tuple("abcdef")
    assert asyncio.run(play(3, letter))[1][0].reward == 1.0
    wrong = next(other for other in "abcdef" if other != letter)
    *_, late = asyncio.run(play(3, [wrong, letter]))[1]
    assert (late.reward, late.info["raw_reward"]) == (0.75, 3.0)
    lost = asyncio.run(play(3, wrong * 4))[1][-1]
    assert (lost.reward, lost.info["raw_reward"], lost.truncated) == (0.0, -1.0, True)
    refused = asyncio.run(play(3, ["xy"]))[1][0]
    assert refused.info["invalid"] and refused.reward == 0


def test_only_environments_of_texts_are_taken(guess):
    import gym_guess

    with pytest.raises(ValueError, match="best is 0; give the largest return"):
        gym_guess.text_env("x", "x", instruction="", splits={}, max_turns=1, best=0)
    env = gym_guess.NoText()
    for _ in range(2):  # also in an episode that is tried again
        with pytest.raises(ValueError, match="numbers has a space Discrete"):
            asyncio.run(env.reset(Task("numbers", 0)))
