"""Whatever is raised wherever in an episode's life: as many episodes come back as were asked for, each with an ending.

Every kind of exception at every point goes through ``collect``, ``eval``, and the sampling of training in every mode,
which AgentEvol's rounds use, too. The TransferQueue is a dictionary, and the model a list of responses.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from contextvars import ContextVar
from itertools import product
from types import SimpleNamespace

import pytest
import toy
from fake_server import FakeServer
from jinja2 import TemplateError
from sweep import thinned

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import formats
from agentgym_rl.envs.core import EnvError, EnvTimeout, EnvUnavailable, TaskNotFound
from agentgym_rl.eval.evaluation import suite
from agentgym_rl.eval.evaluation.evaluate import EPISODES, evaluate
from agentgym_rl.eval.evaluation.plan import Plan
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.rollout import loop, runner
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.conversation import NoFurtherEpisode, PolicyStopped, PromptTooLong, Scripted
from agentgym_rl.rollout.loop import Aborted, run_episode
from agentgym_rl.rollout.policies import Policy
from agentgym_rl.rollout.settings import RolloutSettings

pytestmark = pytest.mark.usefixtures("toys")

POINTS = ("make", "reset", "render", "generate", "parse", "step", "observe", "close")
COSTS_A_TURN = ("parse", "close")
"""Where an exception costs a turn, or nothing."""
RAISED = (
    ValueError, KeyError, RuntimeError, OSError, AssertionError, MemoryError, RecursionError, TypeError, TimeoutError,
    TemplateError, EnvUnavailable, EnvTimeout, TaskNotFound, EnvError, Aborted, PromptTooLong, StopIteration,
    StopAsyncIteration,
)  # fmt: skip
FAULTS = [*product(POINTS, RAISED)]
"""A task's episode raises that of its index; tasks beyond the last fault are sound."""
SOUND = 4
ITEMS = [f"vast_{index}" for index in range(len(FAULTS) + SOUND)]
RULES = RolloutSettings(style="compact", retries=0, max_turns=3)

task_of = ContextVar("task_of", default="")
"""Item id of the episode under way."""


def fault_of(item_id):
    index = int(item_id.rpartition("_")[2])
    return FAULTS[index] if index < len(FAULTS) else ("", None)


def at(point):
    place, kind = fault_of(task_of.get()) if task_of.get() else ("", None)
    if point == place:
        raise kind("broken")


@pytest.fixture(autouse=True)
def breaking(monkeypatch):
    """Environment, parser and conversation raise what their episode should; a task has two turns."""
    monkeypatch.setattr(loop.log, "disabled", True)
    monkeypatch.setattr(formats.log, "disabled", True)
    broken = {"__init__": "make", "_reset": "reset", "_step": "step", "_close": "close"}
    for name, point in broken.items():
        monkeypatch.setattr(toy.Vast, name, raising(getattr(toy.Vast, name), point), raising=False)
    monkeypatch.setattr(toy.Vast, "target", lambda self, task: 2)
    read = loop.reader

    def reader(spec, action_format):
        parse = read(spec, action_format)
        return loop.guarded(lambda response: (at("parse"), parse(response))[1])

    monkeypatch.setattr(loop, "reader", reader)


def raising(method, point):
    def first_raises(self, *arguments, **named):
        at(point)
        return method(self, *arguments, **named)

    return first_raises


class Talk(Scripted):
    """Solves the task."""

    def __init__(self):
        super().__init__(
            lambda messages: f"Action: say {sum(message['role'] == 'assistant' for message in messages) + 1}"
        )

    async def start(self, messages, parse):
        at("render")
        await super().start(messages, parse)

    async def respond(self):
        at("generate")
        return await super().respond()

    async def observe(self, observation):
        at("observe")
        return await super().observe(observation)


class Breakable(Policy):
    name = "breakable"

    async def run(self, env, task, settings, sample=0, watch=None):
        task_of.set(str(task))
        return (await run_episode(lambda: toy.Vast("compact"), task, Talk, settings, watch=watch))[0]


def check(episodes, items=ITEMS):
    """One for each item, and all that was raised is said, and does not count."""
    assert sorted(episode.item_id for episode in episodes) == sorted(items)
    for episode in episodes:
        point, kind = fault_of(episode.item_id)
        assert episode.ending.counts == (point in ("", *COSTS_A_TURN)), (point, kind, episode)
        assert episode.success == (point in ("", "close"))
        assert bool(episode.error) != episode.ending.counts
    endings = {fault_of(episode.item_id): episode.ending for episode in episodes}
    assert endings["render", PromptTooLong] is Ending.PROMPT_LIMIT
    assert endings["render", TemplateError] is endings["generate", RuntimeError] is Ending.ROLLOUT_ERROR
    assert endings["make", KeyError] is endings["step", TypeError] is Ending.ENV_ERROR
    assert endings["generate", Aborted] is Ending.ABORTED


@pytest.fixture
def panel(tmp_path, monkeypatch):
    """All the tasks as a file; no number of failures in a row ends the work."""
    monkeypatch.setattr(runner, "PATIENCE", None)
    monkeypatch.setattr("agentgym_rl.rollout.collect.PATIENCE", None)
    monkeypatch.setattr("agentgym_rl.eval.evaluation.evaluate.PATIENCE", None)
    file = tmp_path / "items.json"
    file.write_text(json.dumps([{"item_id": item_id} for item_id in ITEMS]))
    return str(file)


FAILED = len(RAISED) * (len(POINTS) - len(COSTS_A_TURN))


def test_collect(tmp_path, panel):
    stored = tmp_path / "all.parquet"
    work = collect("vast", panel, tmp_path / "a.json", Breakable(), RULES, min_counted=0.1, episodes=stored)
    summary = asyncio.run(work)
    assert (summary.attempted, summary.failed) == (len(ITEMS), FAILED)
    check(episode_store.read(stored))
    with pytest.raises(EnvUnavailable, match=rf"only {len(ITEMS) - FAILED} of {len(ITEMS)} episodes of .*broken"):
        asyncio.run(collect("vast", panel, tmp_path / "b.json", Breakable(), RULES))
    assert not (tmp_path / "b.json").exists() and (tmp_path / "b.json.partial.jsonl").exists()


def test_eval(tmp_path, panel):
    rules = Rules(settings=RULES)
    plan = Plan(suite=suite.read(panel, rules), policy="breakable", rules=rules)
    evaluated = asyncio.run(evaluate(plan, Breakable(), tmp_path / "evaluated", concurrency=3))
    assert (len(evaluated.outcomes), len(evaluated.failures)) == (len(ITEMS), FAILED)
    check(episode_store.read(tmp_path / "evaluated" / EPISODES))
    with pytest.raises(EnvUnavailable, match=f"of {len(ITEMS)} episodes"):
        evaluated.check(0.95)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, asyncio.CancelledError, PolicyStopped, NoFurtherEpisode])
def test_what_ends_the_work_is_not_swallowed(tmp_path, panel, monkeypatch, raised):
    async def stop(self):
        raise raised

    monkeypatch.setattr(Talk, "respond", stop)
    with pytest.raises(raised):
        asyncio.run(collect("vast", panel, tmp_path / "a.json", Breakable(), RULES))


class Queue:
    """The TransferQueue as a dictionary of keys with tags and fields."""

    def __init__(self):
        self.tags, self.fields = defaultdict(dict), {}

    async def async_kv_put(self, key, partition_id, tag, fields=None):
        self.tags[partition_id].setdefault(key, {}).update(tag)
        self.fields[key] = {**self.fields.get(key, {}), **(fields or {})}

    async def async_kv_batch_put(self, keys, partition_id, fields, tags):
        assert len(keys) == len(fields)
        for number, (key, tag) in enumerate(zip(keys, tags, strict=True)):
            self.tags[partition_id][key], self.fields[key] = dict(tag), fields[number]

    def kv_list(self):
        return {partition: dict(tags) for partition, tags in self.tags.items()}

    def kv_clear(self, keys, partition_id):
        for key in keys:
            self.tags[partition_id].pop(key, None)

    def kv_batch_get(self, keys, partition_id, select_fields):
        from tensordict import NonTensorStack, TensorDict
        from torch.nested import as_nested_tensor

        if select_fields == ["episodes"]:
            packed = NonTensorStack(*(self.fields[key]["episodes"] for key in keys))
            return TensorDict({"episodes": packed}, batch_size=len(keys))
        columns = {name: [self.fields[key][name] for key in keys] for name in select_fields}
        import torch

        return {name: as_nested_tensor(rows, layout=torch.jagged) for name, rows in columns.items()}


@pytest.fixture
def queue(monkeypatch):
    tq = pytest.importorskip("transfer_queue")
    recording = Queue()
    for name in ("async_kv_put", "async_kv_batch_put", "kv_list", "kv_clear", "kv_batch_get"):
        monkeypatch.setattr(tq, name, getattr(recording, name))
    return recording


def rolled_out(tokenizer, queue, monkeypatch, partition, samples):
    """Every prompt as the agent-loop worker runs it, the real conversation included."""
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap

    from agentgym_rl.engine.verl.agent_loops import EarlyWorker
    from agentgym_rl.rollout.agent_loop import AgentGymLoop
    from agentgym_rl.rollout.tokens import TokenConversation

    for name, point in {"start": "render", "respond": "generate", "observe": "observe"}.items():
        monkeypatch.setattr(TokenConversation, name, raising(getattr(TokenConversation, name), point))

    class Server:
        """Solves a task of two turns."""

        async def generate(self, request_id, *, prompt_ids, sampling_params):
            command = "say 2" if "Right." in tokenizer.decode(prompt_ids) else "say 1"
            server = FakeServer([[*tokenizer.encode(f"Action: {command}"), tokenizer.eos_token_id]])
            return await server.generate(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)

    class Loop(AgentGymLoop):
        async def _episode(self, sampling_params, row):
            task_of.set(row["item_id"])
            return await super()._episode(sampling_params, row)

    rollout = {"prompt_length": 500, "response_length": 1000}
    worker = object.__new__(EarlyWorker)
    worker._episodes = Loop(
        trainer_config=DictConfigWrap(OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})),
        server_manager=Server(), tokenizer=tokenizer, processor=None, dataset_cls=None, hf_model_type="qwen2",
        data_config=DictConfigWrap(OmegaConf.create({"agentgym": {"style": "compact", "retries": 0, "max_turns": 3}})),
    )  # fmt: skip

    async def all_prompts():
        for uid, item_id in enumerate(ITEMS):
            queue.tags[partition][f"{uid:03d}"] = {"is_prompt": True, "status": "pending", "global_steps": 1}
            prompt = {"uid": f"{uid:03d}", "item_id": item_id, "global_steps": 1, "__rollout_n__": samples}
            await worker._run_prompt(prompt, {}, {"validate": partition == "val"})

    asyncio.run(all_prompts())


@pytest.mark.parametrize("mode", thinned(["sync", "colocate_async", "separate_async"], 3))
def test_training_in_every_mode(mode, tokenizer, queue, monkeypatch):
    from omegaconf import OmegaConf

    from agentgym_rl.engine.verl import buffer
    from agentgym_rl.engine.verl.sampler import Sampler

    kind = buffer.EpisodeBuffer if mode == "sync" else buffer.AsyncEpisodeBuffer
    replay = kind(mode, OmegaConf.create(), None, "wait", OmegaConf.create())
    learner = SimpleNamespace(metrics=SimpleNamespace(add_step_metrics=lambda *_: None))
    sampler = Sampler(SimpleNamespace(global_steps=1, replay_buffer=replay), None, None, learner, 0)
    rolled_out(tokenizer, queue, monkeypatch, "train", samples=2)
    with replay.exploring():  # as rollouts of AgentEvol and of evaluations are taken
        rollouts = sampler.take_finished("train", len(ITEMS))
    episodes = [rollout.episode for rollout in rollouts]
    check(episodes, ITEMS * 2)
    for rollout in rollouts:
        learnt = any(any(example.loss_weight) for example in rollout.segments)
        assert learnt == rollout.episode.ending.counts, "what does not count has no tokens to learn"

    rolled_out(tokenizer, queue, monkeypatch, "train", samples=2)
    batch, episodes_of_rows = sampler.next(len(ITEMS))
    check([*episodes_of_rows.values()], ITEMS * 2)
    assert {key.rpartition("_")[0] for key in batch.keys} == {
        key for key, episode in episodes_of_rows.items() if episode.ending.counts
    }


@pytest.mark.slow
def test_a_prompt_whose_rows_cannot_be_written_or_that_is_cancelled_finishes(tokenizer, queue, monkeypatch):
    import transfer_queue as tq
    from omegaconf import OmegaConf

    from agentgym_rl.engine.verl.buffer import EpisodeBuffer
    from agentgym_rl.rollout.agent_loop import AgentGymLoop

    async def full(keys, **_):
        raise OSError("no space")

    async def cancelled(self, sampling_params, **row):
        raise asyncio.CancelledError

    buffer = EpisodeBuffer("sync", OmegaConf.create(), None, "wait", OmegaConf.create())
    monkeypatch.setattr(tq, "async_kv_batch_put", full)
    rolled_out(tokenizer, queue, monkeypatch, "val", samples=2)
    buffer.sample(1, "val", len(ITEMS))
    episodes = buffer.take_episodes().values()
    assert len(episodes) == 2 * len(ITEMS) and {episode.error for episode in episodes} == {"OSError: no space"}

    monkeypatch.setattr(tq, "async_kv_batch_put", queue.async_kv_batch_put)
    monkeypatch.setattr(AgentGymLoop, "run", cancelled)
    rolled_out(tokenizer, queue, monkeypatch, "val", samples=2)
    buffer.sample(1, "val", len(ITEMS))
    episodes = buffer.take_episodes().values()
    assert len(episodes) == 2 * len(ITEMS) and {episode.ending for episode in episodes} == {Ending.ROLLOUT_ERROR}
