"""Collections are complete or absent, and can be gone on with."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest
import toy

from agentgym_rl.data import agenttraj, convert, episode_store
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import Action, ActionFormat, parse_react
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.formats import reader
from agentgym_rl.rollout.collect import NothingKept, collect
from agentgym_rl.rollout.conversation import NoResponse, Scripted
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.policies import Oracle, Policy, Random
from agentgym_rl.rollout.policies.scripted import NoActions
from agentgym_rl.rollout.settings import RolloutSettings

SETTINGS = {setting.name for setting in fields(RolloutSettings)}
LISTED = [Action(f"say {number}", f"My next action is: say {number}.") for number in (1, 2, 3)]

pytestmark = pytest.mark.usefixtures("toys")


def run(out, env="counter", split="test", **arguments):
    rules = {key: arguments.pop(key) for key in SETTINGS & arguments.keys()}
    return asyncio.run(collect(env, split, out, settings=RolloutSettings(**rules), **arguments))


def test_oracle_trajectories_in_agentgym_style(tmp_path):
    out = tmp_path / "new" / "counter_train.json"
    summary = run(out)
    assert (summary.attempted, summary.succeeded, summary.kept) == (10, 10, 10)
    assert summary.mean_turns == pytest.approx(2.0)  # targets of 40..49
    trajectories = agenttraj.read(out)
    assert [trajectory.item_id for trajectory in trajectories] == [f"counter_{index}" for index in range(40, 50)]
    first = trajectories[0]  # counts to 2
    assert first.loss == (None, False, None, True, None, True)
    reply = first.messages[3]["content"]
    assert reply.startswith("Thought:\n") and reply.endswith("\n\nAction:\nsay 1")
    assert sorted(p.name for p in out.parent.iterdir()) == [f".{out.name}.lock", out.name]


def test_oracle_trajectories_in_compact_style(tmp_path):
    run(tmp_path / "a.json", n=1, style="compact")
    entry = json.loads((tmp_path / "a.json").read_text())[0]
    assert entry["conversations"][0] == {"from": "system", "loss": None, "value": "say N"}
    assert entry["conversations"][2] == {"from": "gpt", "loss": True, "value": "Action: say 1"}


@pytest.mark.parametrize("action_format", list(ActionFormat))
def test_thoughts_of_the_environment_stand_before_the_oracles_actions(tmp_path, action_format):
    rules = RolloutSettings(style="compact", action_format=action_format)
    env = make("textcraft", style="compact", thoughts=True)
    options = {"thoughts": True}
    asyncio.run(collect("textcraft", "train", tmp_path / "a.json", settings=rules, n=5, options=options))
    for trajectory in agenttraj.read(tmp_path / "a.json"):
        task = Task.parse(trajectory.item_id)
        assert trajectory.messages[0]["content"].startswith(env.spec.instructions["compact"])
        parse = reader(env.spec, action_format)
        actions = [parse(message["content"]) for message in trajectory.messages if message["role"] == "assistant"]
        expected = zip(env.oracle(task), env.thoughts(task), strict=True)
        assert [(action.command, action.thought) for action in actions] == [*expected]


def test_only_successes_are_kept_by_default(tmp_path):
    summary = run(tmp_path / "a.json", split="train", policy=Random(0))
    assert 0 < summary.kept == summary.succeeded < summary.attempted == 40
    everything = run(tmp_path / "b.json", split="train", policy=Random(0), keep="all")
    assert (everything.kept, everything.succeeded) == (40, summary.succeeded)
    again = tmp_path / "c.json"
    run(again, split="train", policy=Random(0), keep="all")
    assert again.read_bytes() == (tmp_path / "b.json").read_bytes()


class Refused(Policy):
    """What a model behind an API does: the first sample of a task is refused before any response."""

    name, temperature = "refused", 1.0

    async def run(self, env, task, settings, sample=0, watch=None):
        def respond(messages):
            if sample == 0:
                raise NoResponse(Ending.REFUSED, "no")
            return "Action: say 9" if len(messages) < 4 else " "

        episode, _ = await run_episode(lambda: env, task, lambda: Scripted(respond), settings)
        return episode


def test_what_has_no_response_to_train_on_is_no_trajectory(tmp_path):
    """It would be the shortest of its task, and cloning would refuse the whole file."""
    stored = tmp_path / "all.parquet"
    summary = run(
        tmp_path / "a.json", policy=Refused(), keep="all", samples=2, per_task=1, episodes=stored, max_turns=2
    )
    assert (summary.attempted, summary.kept, summary.mean_turns) == (20, 10, 1.0)
    assert {trajectory.first_trained for trajectory in agenttraj.read(tmp_path / "a.json")} == {3}
    assert len(episode_store.read(stored)) == 20
    with pytest.raises(NothingKept, match=r"none of 10 episodes is kept: 0 solved \(10 refused\); no"):
        run(tmp_path / "b.json", policy=Refused(), keep="all")


def test_random_play_uses_the_listed_actions(tmp_path):
    run(tmp_path / "a.json", policy=Random(0), keep="all")
    for trajectory in agenttraj.read(tmp_path / "a.json"):
        for message, loss in zip(trajectory.messages, trajectory.loss, strict=True):
            assert not loss or parse_react(message["content"]) in LISTED


def test_without_listed_actions_and_oracle_chance_has_nothing_to_choose_from(tmp_path):
    with pytest.raises(NoActions, match="plain lists no actions and has no oracle"):
        run(tmp_path / "a.json", env="plain", policy=Random(0), keep="all", n=2)


def test_a_failing_oracle_and_no_oracle_yield_nothing(tmp_path):
    with pytest.raises(NothingKept, match=r"none of 10 episodes is kept: 0 solved \(10 terminated\); --keep all"):
        run(tmp_path / "a.json", env="false_oracle")
    assert run(tmp_path / "a.json", env="false_oracle", keep="all").kept == 10
    with pytest.raises(NothingKept, match=r"0 solved \(10 no solution\); plain has no oracle"):
        run(tmp_path / "b.json", env="plain", keep="all")
    assert not (tmp_path / "b.json").exists()


def test_an_oracle_that_stops_short_ends_the_episode(tmp_path, monkeypatch):
    monkeypatch.setattr(toy.Counter, "oracle", lambda self, task: ["say 1"])
    summary = run(tmp_path / "a.json", keep="all")
    assert (summary.attempted, summary.kept, summary.mean_turns) == (10, 10, 1.0)
    assert summary.succeeded == 3  # 42, 45 and 48 count to 1
    monkeypatch.setattr(toy.Counter, "oracle", lambda self, task: [])
    with pytest.raises(NothingKept):
        run(tmp_path / "b.json", keep="all")


def test_the_turn_limit_holds_for_the_oracle(tmp_path):
    summary = run(tmp_path / "a.json", max_turns=1, keep="all")
    assert (summary.kept, summary.mean_turns, summary.succeeded) == (10, 1.0, 3)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, EnvUnavailable])
def test_an_interrupted_collection_goes_on_to_the_same_file(tmp_path, monkeypatch, failure):
    run(tmp_path / "whole.json")
    out = tmp_path / "a.json"
    journal = tmp_path / "a.json.partial.jsonl"
    played: list[int] = []
    reset = toy.Counter.reset

    async def failing(self, task):
        if len(played) == 4:
            raise failure("now")
        played.append(task.index)
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", failing)
    with pytest.raises(failure):
        run(out)
    assert not out.exists()
    assert len(journal.read_text().splitlines()) == 5
    with journal.open("a") as file:
        file.write('{"item_id": "counter_4')  # a process that died while writing

    async def counting(self, task):
        played.append(task.index)
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", counting)
    run(out)
    assert played == list(range(40, 50))
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert not journal.exists()


def test_two_calls_cannot_write_one_file(tmp_path, monkeypatch):
    """Both would play every episode; nor can a second begin while the first writes what it kept."""
    out, write, refused = tmp_path / "a.json", convert.agenttraj_file, []

    def second(*_):
        with pytest.raises(ValueError, match=r"another process writes .*a\.json; wait for it"):
            pool.submit(run, out).result()
        refused.append(True)

    def writing(*arguments):
        second()
        write(*arguments)

    monkeypatch.setattr(convert, "agenttraj_file", writing)
    with ThreadPoolExecutor(1) as pool:
        assert run(out, n=2, progress=second).kept == 2
    assert len(refused) >= 3
    monkeypatch.setattr(convert, "agenttraj_file", write)
    assert run(out).kept == 10


def test_a_journal_of_other_settings_is_refused(tmp_path, monkeypatch):
    out = tmp_path / "a.json"

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(out, progress=stop)
    with pytest.raises(
        ValueError, match=r"a\.json\.partial\.jsonl holds .* another policy and policy_seed and seed; .*delete it"
    ):
        run(out, policy=Random(4), seed=4)
    with pytest.raises(ValueError, match="another panel"):
        run(out, n=3)
    with pytest.raises(ValueError, match="another max_new_tokens"):
        run(out, max_new_tokens=7)
    policy = Oracle()
    policy.temperature = 0.5
    with pytest.raises(ValueError, match="another temperature"):
        run(out, policy=policy)
    for key, value in {
        "backend": "vllm", "policy_seed": 3, "prompt_tokens": 9, "response_tokens": 9,
        "weights": "step 8", "prompts": {"counter": "Go."}, "exemplars": Exemplars({}, 2, "digest"),
    }.items():  # fmt: skip
        policy = Oracle()
        setattr(policy, key.removeprefix("policy_"), value)
        with pytest.raises(ValueError, match=f"another {key.removesuffix('s')}"):
            run(out, policy=policy)
    for key, value in {"invalid_limit": 2, "context": "window", "keep_turns": 5, "thinking": "strip"}.items():
        with pytest.raises(ValueError, match=f"another {key};"):
            run(out, **{key: value})
    with pytest.raises(KeyboardInterrupt):
        run(out, retries=5, step_seconds=7, progress=stop)
    assert run(out, keep="all").kept == 10


def test_a_split_that_repeats_a_task_gives_one_trajectory(tmp_path, monkeypatch):
    spec = toy.Counter().spec
    monkeypatch.setitem(spec.splits, "test", [41, 41, 42])
    monkeypatch.setattr(toy.Counter, "spec", spec)
    run(tmp_path / "a.json")
    assert [trajectory.item_id for trajectory in agenttraj.read(tmp_path / "a.json")] == ["counter_41", "counter_42"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"keep": "best"}, "keep 'best' is unknown; choose success, all"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"style": "loud"}, "style 'loud' is unknown"),
        ({"split": "dev"}, "no split 'dev'"),
    ],
)
def test_bad_arguments_leave_no_files(tmp_path, arguments, says):
    with pytest.raises(ValueError, match=says):
        run(tmp_path / "a.json", **arguments)
    assert list(tmp_path.glob("a.json*")) == []


def test_a_folder_is_no_output_file(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        run(tmp_path)
