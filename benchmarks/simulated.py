"""A run whose episodes nobody plays: what :mod:`scale` measures. Imports verl and Ray, as an engine's driver does.

Real are the TransferQueue, the agent-loop processes with all that they do once an episode has ended, the replay buffer,
the trainer, algorithm, mixture, curriculum, and the files of a run. Simulated are the responses (random words of a
fixed number of tokens), and the training workers, which only write random log-probabilities into the queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from scale import GROUP, NODE
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import to_dict
from agentgym_rl.engine.run.folder import RunFolder, State
from agentgym_rl.engine.run.metrics_log import MetricsLog
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.engine.run.stages import Stages
from agentgym_rl.engine.verl.agent_loops import EarlyManager, EarlyWorker
from agentgym_rl.engine.verl.drift import response_fields
from agentgym_rl.engine.verl.mapping import verl_config
from agentgym_rl.engine.verl.modes import SyncTrainer
from agentgym_rl.rollout.agent_loop import AgentGymLoop
from agentgym_rl.rollout.folding import Segment
from agentgym_rl.rollout.recorder import EpisodeRecorder

TURNS, TOKENS, PROMPT = 20, 150, 400
"""Turns of an episode, tokens of each unless told otherwise, and tokens before the first response."""
TEMPLATES = 32
"""Different episodes of a process; tasks, rewards and times differ between all."""
WORDS = [f"{verb}{noun}" for verb in ("get", "craft", "open", "put", "go", "look", "take") for noun in range(60)]


def split(tokens: int) -> tuple[int, int]:
    """Tokens of response and observation of a turn."""
    return 2 * tokens // 3, tokens - 2 * tokens // 3


def template(rng: Random, tokens: int) -> tuple[Episode, Segment]:
    """An episode with texts and log-probabilities of its tokens, so many a turn."""
    written, others = split(tokens)
    turns, messages = [], [{"role": "user", "content": _text(rng, PROMPT)}]
    for number in range(TURNS):
        begin = number * tokens
        pieces = _text(rng, written).split(" ")
        response, observation = " ".join(pieces), _text(rng, others)
        turns.append(
            Turn(
                response=response, action=pieces[-1], observation=observation, reward=0.0, invalid=False,
                tokens=(begin, begin + written), log_prob=-50.0, pieces=[f" {piece}" for piece in pieces],
                log_probs=[-rng.random() for _ in pieces], model_s=rng.random(), env_s=0.01,
            )
        )  # fmt: skip
        messages += [{"role": "assistant", "content": response}, {"role": "user", "content": observation}]
    episode = Episode(
        env="textcraft", item_id="", ending=Ending.TURN_LIMIT, reward=0.0, success=False, max_turns=TURNS,
        messages=messages[:-1], turns=turns, prompt_tokens=PROMPT, response_tokens=TURNS * tokens,
    )  # fmt: skip
    mask = ([1] * written + [0] * others) * TURNS
    del mask[-others:]  # a response ends with a token of the model's
    ids = [rng.randrange(1000) for _ in range(PROMPT + len(mask))]
    return episode, Segment(ids[:PROMPT], ids[PROMPT:], mask, [-rng.random() * bit for bit in mask])


def _text(rng: Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


class SimulatedLoop(AgentGymLoop):
    """Hands over an episode at once."""

    def __init__(self, recorder: EpisodeRecorder, seed: int, tokens: int = TOKENS) -> None:
        self.recorder, self.rng, self.tokenizer = recorder, Random(seed), SimpleNamespace(eos_token_id=0)
        self.templates = [template(self.rng, tokens) for _ in range(TEMPLATES)]

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[Any]:
        episode, segment = self.rng.choice(self.templates)
        success = self.rng.random() < 0.5
        last = replace(episode.turns[-1], reward=float(success))
        episode = replace(
            episode, item_id=row["item_id"], reward=float(success), success=success, turns=[*episode.turns[:-1], last],
            ending=Ending.TERMINATED if success else Ending.TURN_LIMIT, began=time.time(),
        )  # fmt: skip
        return self._outputs(episode, row, SimpleNamespace(segments=[segment], weights={0}))  # type: ignore[arg-type]


class SimulatedWorker(EarlyWorker):
    """An agent-loop process."""

    def __init__(self, config: DictConfig, *_: Any) -> None:
        tq.init()
        self.config, self.background_tasks, self._recorder = config, set(), EpisodeRecorder()
        self.over = self.ended = 0.0

    def plan(self, over: float, tokens: int) -> None:
        """From now on, groups end evenly over so many seconds, with episodes of so many tokens a turn."""
        self.over, self._episodes = over, SimulatedLoop(self._recorder, 0, tokens)

    def arrived(self) -> float:
        """When the last group was in the queue, by ``time.perf_counter``, which all processes of a machine share."""
        return self.ended

    async def _run_prompt(self, prompt: dict[str, Any], *arguments: Any, **named: Any) -> None:
        await asyncio.sleep(Random(prompt["uid"]).random() * self.over)
        await super()._run_prompt(prompt, *arguments, **named)
        self.ended = time.perf_counter()

    def log_probs(self, batch: KVBatchMeta, part: int = 128) -> None:
        """As training workers would: log-probabilities of the rows of a batch, and what follows from them."""
        for begin in range(0, len(batch.keys), part):
            keys, tags = batch.keys[begin : begin + part], batch.tags[begin : begin + part]
            rows = torch.nested.as_nested_tensor([-torch.rand(tag["seq_len"]) for tag in tags], layout=torch.jagged)
            outputs = TensorDict({"log_probs": rows, "entropy": rows}, batch_size=len(keys))
            read = ["response_mask", "rollout_log_probs"]
            data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=read)
            fields = response_fields(outputs, data, batch.extra_info["correction"], lambda total, count: total / count)
            tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields)


class SimulatedManager(EarlyManager):
    """The agent-loop processes of a run."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.agent_loop_workers_class = ray.remote(num_cpus=0)(SimulatedWorker)

    def plan(self, over: float, tokens: int) -> None:
        ray.get([worker.plan.remote(over, tokens) for worker in self.agent_loop_workers])

    def arrived(self) -> float:
        return max(ray.get([worker.arrived.remote() for worker in self.agent_loop_workers]))


class SimulatedGroup:
    """The training workers, seen from the driver. Like those of verl they answer no earlier than they have written."""

    def __init__(self, manager: SimulatedManager) -> None:
        self.worker = manager.agent_loop_workers[0]

    def compute_log_prob(self, batch: KVBatchMeta) -> KVBatchMeta:
        ray.get(self.worker.log_probs.remote(batch))
        return batch

    def update_actor(self, batch: KVBatchMeta) -> dict[str, Any]:
        return {"metrics": {"mfu": 0.4, "grad_norm": 1.0}}

    def set_loss_fn(self, loss: Any) -> None: ...

    def set_optimizer(self, *settings: Any) -> None: ...


class SimulatedTrainer(SyncTrainer):
    """Has no weights to send."""

    def __init__(self, config: DictConfig, workers: int, manager: SimulatedManager) -> None:
        super().__init__(config)
        self.global_steps, self.agent_loop_manager = 0, manager
        self.actor_rollout_wg = SimulatedGroup(manager)
        self.tokenizer = SimpleNamespace(eos_token_id=0)
        self.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: workers)
        self.checkpoint_manager = SimpleNamespace(sleep_replicas=lambda: None)
        self.weights.sync = self.synced

    def synced(self, step: int | None = None) -> None:
        self.timing_raw["update_weights"], self.weights.synced = 0.0, True


def settings(episodes: int, gpus: int, overrides: Sequence[str] = ()) -> list[str]:
    """A GRPO run on nodes of eight GPUs, four updates a step."""
    workers = min(gpus, NODE)
    return [
        "name=scale", "env=textcraft", "algorithm=grpo", "engine=gpu", "model=qwen2.5-3b", "mixture=dynamic",
        "curriculum=growing", f"engine.nodes={gpus // workers}", f"engine.workers={workers}",
        f"algorithm.tasks_per_step={episodes // GROUP}", f"algorithm.samples_per_task={GROUP}",
        f"algorithm.mini_batch_tasks={max(1, episodes // GROUP // 4)}", "algorithm.steps=1000",
        "model.prompt_tokens=512", "model.response_tokens=4096", "cloning.epochs=0", "logger.wandb=disabled",
        *overrides,
    ]  # fmt: skip


@contextmanager
def engine(overrides: Sequence[str], units: int | None = None) -> Iterator[SimulatedManager]:
    """Queue, with so many storage units or as many as the run would have, and agent-loop processes on a running Ray."""
    config = _verl(recipes.load(overrides), Path())
    storage = config.transfer_queue.backend.SimpleStorage
    storage.num_data_storage_units = units or storage.num_data_storage_units
    tq.init(config.transfer_queue)
    try:
        yield SimulatedManager.start(config)
    finally:
        tq.close()


def _verl(config: Config, folder: Path) -> DictConfig:
    resolved = verl_config(Resolved(config), "simulated", folder)
    OmegaConf.resolve(resolved)
    return resolved


@contextmanager
def stage(manager: SimulatedManager, folder: Path, overrides: Sequence[str]) -> Iterator[Stages]:
    """The stages of a run, ready for ``_unit``."""
    config = recipes.load([*overrides, f"run.dir={folder}"])
    home = RunFolder(folder, "", resume=False)
    log = MetricsLog(folder, to_dict(config), 0)
    try:
        trainer = SimulatedTrainer(_verl(config, folder), config.engine.nodes * config.engine.workers, manager)
        yield Stages(
            EngineRun(
                resolved=Resolved(config), trainer=trainer, folder=home, state=State(), log=log,
                encoder=None, demonstrations=[],
                bar=lambda *_: None, say=lambda _: None, stop=lambda: False,
            ),
            None,
        )  # fmt: skip
    finally:
        log.close()
