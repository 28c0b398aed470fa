"""Every key of a run's configuration has an effect: moving it moves something that can be observed.

The tree is walked for each algorithm, curriculum, mixture and kind of model. A key without an entry here fails;
`make test` moves every eighth.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("verl")

from omegaconf import OmegaConf
from sweep import thinned

from agentgym_rl.algorithms import algorithms, search
from agentgym_rl.algorithms.agentevol import AgentEvol
from agentgym_rl.algorithms.base import LOADED, Keep, Plan, Request, Rollout, groups
from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.curriculum.turn_limit import curricula
from agentgym_rl.algorithms.mixture import mixtures
from agentgym_rl.algorithms.restarts import START, Outcome, Starts
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.recipe import budget, gpus
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.digest import digest
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import evaluation, gpu_memory, metrics_log, run, session, stages, sweep, texts, tiny, train
from agentgym_rl.engine.verl.mapping import verl_config
from agentgym_rl.envs import Task
from agentgym_rl.rollout.playbook import Op, Operation, Playbook
from agentgym_rl.rollout.supervised import Example

pytestmark = pytest.mark.usefixtures("toy_recipes")

TWO = "+env=sibling"
"""A second environment."""
BASE = ("experiment=counter", TWO, "seed=0")
MADE = TemporaryDirectory()
ASYNC = "engine.mode=colocate_async"
TOKENS = Example([1] * 99, [0.0, *[1.0] * 98], 1)
"""Of every episode."""


# what can be observed


def verl(config: Config) -> Any:
    """verl's configuration."""
    return OmegaConf.to_container(verl_config(Resolved(config), "model", Path("run")), resolve=False)


def process(config: Config) -> Any:
    """Environment variables of the run's processes."""
    return session.variables(config.engine)


def draws(config: Config) -> Any:
    """Tasks, numbers of samples and turn limits of some steps, with made-up outcomes."""
    run = Resolved(config)
    mixture, curriculum = run.mixture, run.curriculum
    mixture.ask = lambda question: '[{"environment": "counter", "most": 3, "ink": "blue"}]'
    drawn_by_step = []
    for step in range(1, 7):
        drawn = mixture.draw(step, 8, 4)
        drawn_by_step.append([drawn, mixture.metrics(), [curriculum.max_turns(env, step) for env in config.envs]])
        episodes = [outcome(draw.task, sample, step) for draw in drawn for sample in range(draw.samples)]
        mixture.observe(episodes)
        curriculum.observe(episodes)
    return drawn_by_step


def evaluations(config: Config) -> Any:
    """The panels, with what is done with them, and the names of the stages."""
    run = Resolved(config)
    panels = {env: {label: panel.item_ids for label, panel in by_label.items()} for env, by_label in run.panels.items()}
    uses = {
        env: {label: (panel.samples, panel.role) for label, panel in w.panels.items()} for env, w in config.envs.items()
    }
    return panels, uses, stages.stage_names(run)


def evaluated(config: Config) -> Any:
    """The rows of an evaluation."""
    return evaluation.RunPanels(Resolved(config)).rows(None, step=3)


def prefaces(config: Config) -> Any:
    """What stands before first observations, and whether weights go by it."""
    run = Resolved(config)
    return run.preface(Task("counter", 4), run.algorithm), files(config)


def made(name: str) -> str:
    """A file with a lesson, which has its name, or with successes in two tasks with other goals."""
    file = Path(MADE.name) / name
    if name.endswith(".json"):
        book = Playbook()
        book.apply(Operation(Op.add, f"Begin with {file.stem}."), "counter", 1, "counter_1")
        book.write(file)
    else:
        solved = [replace(outcome(Task("counter", index), 0, 9), success=True) for index in (2, 3)]
        episode_store.write(file, solved)
    return str(file)


def files(config: Config) -> Any:
    """What tiny models and cloned weights are kept by."""
    return digest(config, cloned=False), digest(config, cloned=True), config.run.dir


def learning(config: Config) -> Any:
    """All that the stages ask of a run."""
    run = Recorder(config)
    for algorithm in (Cloning(config.cloning), algorithms()[config.algorithm.name](config.algorithm)):
        algorithm.begin(run)
        for number in range(algorithm.units):
            run.asked.append(algorithm.unit(run, number).keys())
    return run.asked, algorithms()[config.algorithm.name].needs(config.algorithm)


def relabelled(config: Config) -> Any:
    """What hindsight makes of episodes that count to 2, the first by a response that cannot be read, or to 1."""
    run, algorithm = Recorder(config), AgentEvol(config.algorithm)  # type: ignore[arg-type]
    responses = [("?", "say 1"), ("Action: say 1", "say 1")], ("Action: say 2", "say 2"), ("Action: say 9", "say 9")
    failed = []
    for first, *others in (
        (responses[0][0], *responses[1:]),
        (responses[0][1], *responses[1:]),
        (responses[0][1], responses[2]),
    ):
        turns = [Turn(response=text, action=action, observation="", reward=0.0, invalid=False)
                 for text, action in (first, *others)]  # fmt: skip
        failed.append(replace(outcome(Task("counter", 2), 0, 1), turns=turns, success=False))
    return run.asked, algorithm.relabel(run, 1, [Rollout(episode=each) for each in failed]), algorithm.rows()  # type: ignore[arg-type]


def scored(config: Config) -> Any:
    """Scores of starts that a group with other returns offered before one with equal returns began there."""
    starts, (lost, won) = Starts(config.algorithm.restarts), [outcome(Task("counter", 1), 0, 1) for _ in range(2)]  # type: ignore[attr-defined]
    lost.reward, won.reward = 0.0, 1.0
    starts.observe([Outcome(None, [lost, won], 0)], config.seed, 0)
    again = [replace(won, tags={START: key}) for key in starts.kept for _ in range(2)]
    starts.observe([Outcome(again[0].tags[START], again, 0)], config.seed, 1)
    return [start.score for start in starts.kept.values()]


def optimizers(config: Config) -> Any:
    """Settings of the updates of each stage."""
    run = Resolved(config)
    return [run.optimizer(stage) for stage in stages.stage_names(run)]


def outcome(task: Any, sample: int, step: int, replayed: Sequence[str] = ()) -> Episode:
    """An episode of two turns, after those that are replayed: more succeed as steps go by, and never those of every
    fourth task."""
    success = task.index % 4 > 0 and (task.index * 7 + sample * 5 + step * 3) % 11 < 2 + step
    responses = [*replayed, *[f"say {sample % 3}"] * (2 + sample % 2)]
    turns = [
        Turn(response=text, action=text, observation=f"seen {max(0, number - len(replayed)) or sample % 2}", reward=0.0,
             invalid=False, calls=int(number >= len(replayed)))
        for number, text in enumerate(responses)
    ]  # fmt: skip
    turns[-1].reward = float(success)
    messages = [{"role": "user", "content": "start"}]
    for turn in turns:
        messages += [{"role": "assistant", "content": turn.response}, {"role": "user", "content": turn.observation}]
    return Episode(
        env=task.env, item_id=str(task), ending=Ending.TERMINATED, reward=float(success) * (1 - sample / 10),
        success=success, max_turns=9, turns=turns, messages=messages[:-1], tags={"index": sample},
    )  # fmt: skip


class Recorder:
    """A run that writes down what it is asked for."""

    seed, step, replayable, validation_success = 0, 1, ("counter", "sibling"), 1.0

    def __init__(self, config: Config) -> None:
        self.config, self.asked = config, list[Any]()
        run = Resolved(config)
        self.mixture, self.curriculum = run.mixture, run.curriculum
        self.rules, self.pools, self.panel_tasks = run.rules, run.pools, run.panel_tasks
        self.environment = run.session
        self.demonstrations = [Rollout(episode=outcome(Task("counter", 0), 0, 1), segments=[TOKENS])]
        self.demonstrations[0].episode.turns[0].invalid = True
        self.observation_weight = config.cloning.observation_weight
        self.general = self.demonstrations if config.cloning.mix_file else []
        self.solved = frozenset[str]()
        self.learn_invalid = config.cloning.learn_invalid
        self.response_tokens, self.context = config.model.response_tokens, 999
        self.numbers = count()

    def requests(self, number: int) -> list[Request]:
        config: Any = self.config.algorithm
        drawn = self.mixture.draw(number, config.tasks_per_step, config.samples_per_task)
        return [self.request(number, draw.task, samples=draw.samples) for draw in drawn]

    def request(self, number: int, task: Any, **keys: Any) -> Request:
        return Request(**{"task": task, "max_turns": self.curriculum.max_turns(task.env, number + 1), **keys})

    def rollouts(self, requests: Sequence[Request], label: str, *, resumable: bool = False) -> list[Rollout]:
        self.asked.append([repr(request) for request in requests])
        rollouts = [
            Rollout(
                episode=replace(
                    outcome(request.task, next(self.numbers), 1, replays(request)), tags=dict(request.tags)
                ),
                segments=[TOKENS], group=f"{place}", values=[0.3, 0.2, 0.1],
            )
            for place, request in enumerate(requests) for _ in range(request.samples)
        ]  # fmt: skip
        for sample, rollout in enumerate(rollouts):
            for number, turn in enumerate(rollout.episode.turns):
                turn.tokens, turn.log_prob = (9 * number, 9 * number + 9), -1.0 - (sample + number) % 5
            rollout.episode.turns[0].invalid = sample % 3 == 2
            rollout.values = rollout.values[: len(rollout.episode.turns)]
        return rollouts

    def batches(
        self, number: int, plan: Plan | None = None, *, keep: Keep | None = None, refills: int = 0
    ) -> Iterator[list[Rollout]]:
        drawn = self.requests(number)
        rollouts = self.rollouts(drawn if plan is None else plan(number, drawn), "")
        self.asked.append((refills, [keep is None or keep(group) for group in groups(rollouts)]))
        for sample, rollout in enumerate(rollouts):
            rollout.episode.turns[-1].tokens = (9 * sample, 9 * sample + 9)
        yield rollouts

    def generate(self, conversations: Any, *, samples: int = 1, **options: Any) -> list[list[str]]:
        self.asked.append((repr(conversations), samples, options))
        return [[f"Instruction {len(self.asked)} {sample}." for sample in range(samples)] for _ in conversations]

    def encode(self, messages: Any, task: Task) -> Rollout:
        self.asked.append((messages, task))
        return self.demonstrations[0]

    def steps_left(self, episode: Episode) -> None:
        return None

    def score(self, rows: Sequence[Row], by: str = "policy", *, name: str, **options: Any) -> list[Row]:
        self.asked.append((repr(rows), by))
        numbers = [PerToken([-1 / (1 + (place + token * len(by)) % 7) for token in range(99)])
                   for place, _ in enumerate(rows)]  # fmt: skip
        more = [f"{name}_entropy"] if options.get("entropy") else []
        return [replace(row, streams={**row.streams, **dict.fromkeys([name, *more], values)})
                for row, values in zip(rows, numbers, strict=True)]  # fmt: skip

    def learn(self, rows: Sequence[Row], loss: Any, **passes: Any) -> dict[str, float]:
        self.asked.append((repr(rows), repr(loss), passes))
        return {"dpo/grad_norm": 1.0, "dpo/lr": 1.0}

    def weights(self) -> Any:
        return LOADED

    def restore(self, weights: Any) -> None:
        self.asked.append(("restore", weights))

    def validate(self, label: str) -> float:
        self.solved = frozenset({"a"} - self.solved)
        return 0.5

    def observe(self, rollouts: Any) -> None: ...
    def save_demonstrations(self, name: str, rollouts: Any) -> None: ...
    def progress(self, label: str, done: int, total: int) -> None: ...
    def say(self, text: str) -> None: ...


def replays(request: Request) -> list[str]:
    """What a request replays."""
    return [] if request.prefix is None else [response.text for response in request.prefix.responses]


def reads(module: ModuleType) -> Callable[[str], bool]:
    """For what only a running engine does: whether a module reads the key, by the syntax tree."""

    def is_read(key: str) -> bool:
        tree = ast.walk(ast.parse(inspect.getsource(module)))
        return key in {node.attr for node in tree if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}

    return is_read


# what to move, and where it shows

Entry = tuple[Any, ...]
"""The other value, what shows it, and overrides without which the key has no effect."""

OPTIMIZER: dict[str, Entry] = {
    "schedule": ("cosine", learning),
    "min_lr_ratio": (0.5, learning, "algorithm.optimizer.schedule=linear"),
    "warmup_steps": (1, learning),
    "weight_decay": (0.5, optimizers),
    "betas": ("[0.5,0.5]", optimizers),
    "clip_grad": (0.5, optimizers),
}
OF_PASSES: dict[str, Entry] = {
    **OPTIMIZER,
    "schedule": ("constant", learning, "cloning.epochs=2"),
    "min_lr_ratio": (0.5, learning, "cloning.epochs=2"),
}

KEYS: dict[str, Entry] = {
    "name": ("other", verl),
    "seed": (1, draws),
    "profile": (True, reads(stages)),
    "verl": ("{actor_rollout_ref: {actor: {optim: {optimizer: Adam}}}}", verl),
    "envs.counter.share": (0.2, draws),
    "envs.counter.split": ("test", draws),
    "envs.counter.difficulty": ("[length 1]", draws),
    "envs.counter.pool": (3, draws),
    "envs.counter.pool_seed": (1, draws, "envs.counter.pool=3"),
    "envs.counter.max_turns": (3, files),
    "envs.counter.curriculum": ("{type: fixed, rounds: [3]}", draws),
    "envs.counter.demonstrations": (5, files),
    "envs.counter.demonstrations_file": (__file__, files),
    "envs.counter.options": ("{style: compact}", files),
    "envs.counter.host": ("{kind: ray}", verl),
    "envs.counter.harness": ("{command: [python]}", verl),
    "envs.counter.panels.test.split": ("train", evaluations),
    "envs.counter.panels.test.n": (3, evaluations),
    "envs.counter.panels.test.difficulty": ("[length 1]", evaluations, "envs.counter.panels.test.n=2"),
    "envs.counter.panels.test.seed": (3, evaluations),
    "envs.counter.panels.test.samples": (2, evaluations),
    "envs.counter.panels.test.temperature": (0.4, evaluated),
    "envs.counter.panels.test.greedy": (False, evaluated),
    "envs.counter.panels.test.role": ("validation", evaluations),
    "rollout.style": ("agentgym", verl),
    "rollout.action_format": ("code_as_action", verl),
    "rollout.max_turns": (3, verl),
    "rollout.max_new_tokens": (25, verl),
    "rollout.context": ("window", verl),
    "rollout.keep_turns": (3, verl, "rollout.context=window"),
    "rollout.notes_tokens": (3, verl, "rollout.context=summary"),
    "rollout.thinking": ("strip", verl),
    "rollout.invalid_limit": (3, verl),
    "rollout.step_seconds": (3, verl),
    "rollout.episode_seconds": (3, verl),
    "rollout.retries": (3, verl),
    "rollout.temperature": (0.5, verl),
    "rollout.workers": (2, verl),
    "rollout.playbook": (made("playbook.json"), prefaces),
    "rollout.exemplars": (made("solved.parquet"), prefaces),
    "rollout.nearest": (1, prefaces, f"rollout.exemplars={made('solved.parquet')}"),
    "cloning.epochs": (2, learning),
    "cloning.lr": (0.1, learning),
    "cloning.mini_batch_trajectories": (2, learning),
    "cloning.observation_weight": (0.5, learning),
    "cloning.learn_invalid": (False, learning),
    "cloning.mix_file": ("talk.json", learning),
    "cloning.mix_share": (0.8, learning, "cloning.mix_file=talk.json"),
    **{f"cloning.optimizer.{key}": entry for key, entry in OF_PASSES.items()},
    "budget.episodes": (64, reads(budget)),
    "budget.tokens": (64, reads(stages)),
    "budget.updates": (64, reads(stages)),
    "engine.device": ("cuda", verl),
    "engine.mode": ("colocate_async", verl),
    "engine.ahead": (2, verl, ASYNC),
    "engine.stragglers": ("cap", verl, ASYNC),
    "engine.max_staleness": (3, verl, ASYNC, "engine.stragglers=partial"),
    "engine.workers": (2, verl),
    "engine.rollout_workers": (2, verl, "engine.mode=separate_async"),
    "engine.nodes": (2, verl),
    "engine.tensor_parallel": (2, verl),
    "engine.micro_tokens": (5000, verl),
    "engine.gradient_checkpointing": (False, verl, "engine=gpu"),
    "engine.compile": (False, verl, "engine=gpu"),
    "engine.gpu_gib": (24.0, reads(gpu_memory)),
    "engine.memory": ("16", reads(gpus)),
    "engine.max_sequences": (3, verl),
    "engine.memory_fraction": (0.3, verl, "engine=gpu"),
    "engine.kv_cache_gib": (0.5, verl),
    "engine.threads": (3, reads(session)),
    "engine.attention": ("flash_attention_2", verl, "engine=gpu"),
    "engine.dtype": ("bfloat16", verl),
    "engine.env": ("{NCCL_DEBUG: INFO}", process),
    "engine.ray_address": ("head:6379", reads(session)),
    "engine.start_seconds": (3, reads(session)),
    "engine.offload": (True, verl, "engine=gpu"),
    "engine.seeded": ("false", evaluated),
    "engine.verify_sync": ("always", verl),
    "logger.wandb": ("offline", reads(metrics_log)),
    "logger.project": ("mine", verl),
    "logger.group": ("mine", reads(sweep)),
    "logger.tensorboard": ("true", reads(metrics_log)),
    "writer.policy": ("openai:m@http://h/v1", reads(texts)),
    "writer.concurrency": (3, reads(texts)),
    "writer.price": ("[1,2]", reads(texts)),
    "writer.max_cost": (1, reads(texts)),
    "writer.per_minute": (1, reads(texts)),
    "run.dir": ("elsewhere", files),
    "run.eval_every": (3, reads(stages)),
    "run.save_every": (3, reads(stages)),
    "run.keep_checkpoints": (1, reads(run)),
    "run.max_hours": (1, reads(train)),
    "run.stop_seconds": (1, reads(train)),
    "run.control": (True, evaluations),
    "run.evaluate_untrained": (False, evaluations),
    "run.greedy": (False, reads(evaluation)),
    "run.min_counted": (0.5, reads(evaluation)),
    "run.min_counted_training": (0.9, reads(run)),
    "run.cache": ("kept", reads(tiny)),
    "run.resume": (False, reads(train)),
}

OF_ALL_MODELS: dict[str, Entry] = {
    "prompt_tokens": (64, verl),
    "response_tokens": (64, verl),
    "lora_rank": (4, verl),
    "train_layers": (1, verl),
    "lora_alpha": (8, verl, "model.lora_rank=4"),
    "target_modules": ("[q_proj]", verl, "model.lora_rank=4"),
}
OF_MODELS: dict[str, dict[str, Entry]] = {
    "tiny": {
        **{key: (64, files) for key in ("vocabulary", "width", "layers", "heads", "kv_heads", "mlp")},
        **OF_ALL_MODELS,
    },
    "hf": {
        "path": ("other", files, "model.path=one"),
        **{key: (*entry, "model.path=one") for key, entry in OF_ALL_MODELS.items()},
    },
}

ONLINE: dict[str, Entry] = {
    "steps": (3, learning),
    "tasks_per_step": (6, learning),
    "samples_per_task": (4, learning),
    "lr": (0.5, learning),
    "epochs": (2, learning),
    **{f"optimizer.{key}": entry for key, entry in OPTIMIZER.items()},
}
POLICY: dict[str, Entry] = {
    **ONLINE,
    "epochs": (2, verl),
    "mini_batch_tasks": (2, verl),
    "loss.name": ("gspo", learning),
    "loss.clip": (0.1, learning),
    "loss.clip_high": (0.3, learning),
    "loss.dual_clip": (5, learning),
    "loss.kl": (0.1, learning),
    "loss.kl_reference": ("loaded", lambda config: Resolved(config).needs, "algorithm.loss.kl=0.1"),
    "loss.entropy": (0.1, learning),
    "loss.aggregation": ("seq-mean-token-sum", verl),
    "observation_weight": (0.5, learning),
    "correction.kind": ("mis", verl),
    "correction.cap": (3, verl, ASYNC),
    "correction.bounds": ("[0.9,1.2]", verl, "algorithm.correction=geo_rs"),
    "shaping.invalid_action_penalty": (0.1, learning),
    "shaping.overlong_tokens": (500, learning),
    "shaping.overlong_turns": (8, learning),
    "shaping.overlong_penalty": (0.5, learning, "algorithm.shaping.overlong_turns=8"),
    "shaping.scale": (3, learning, "algorithm.shaping.overlong_turns=8"),
    "shaping.normalise": (True, learning, "algorithm.shaping.overlong_turns=8"),
}
GROUPS: dict[str, Entry] = {
    **POLICY,
    "groups.negative_weight": (0.5, learning),
    "groups.filter": (True, learning),
    "groups.refills": (3, learning, "algorithm.groups.filter=true"),
    "groups.min_reward_std": (0.6, learning, "algorithm.groups.filter=true"),
}
STEPS: dict[str, Entry] = {
    **GROUPS,
    "normalise_by_std": (False, learning),
    "episode_weight": (2, learning),
    "step_weight": (2, learning),
    "gamma": (0.5, learning),
}
GATE = ("algorithm.keep_best=true", "envs.counter.panels.test.role=validation")
THREE = "{counter: [First, Second, Third]}"
TEXTS = (f"algorithm.instructions={THREE}", "algorithm.steps=6")
WRITER = ("writer=openai:m@http://h/v1", "algorithm.proposals=1", "algorithm.prune_every=1")
LONG = ("algorithm.steps=12", "algorithm.samples_per_task=6", "curriculum=fixed")
BOOK = f"algorithm.guided.playbook={made('playbook.json')}"
OFF = ("algorithm.pool.size=0", "algorithm.entropy.keep=1")
OF_ALGORITHMS: dict[str, dict[str, Entry]] = {
    "bc": {},
    "grpo": {**GROUPS, "normalise_by_std": (False, learning)},
    "rloo": GROUPS,
    "reinforce_pp": {**POLICY, "gamma": (0.5, verl)},
    "ppo": {
        **POLICY,
        "level": ("turn", learning),
        "gamma": (0.5, verl),
        "lam": (0.5, verl),
        "critic_lr": (0.5, verl),
        "critic_weight_decay": (0.5, verl),
        "critic_warmup": (1, verl),
    },
    "gigpo": STEPS,
    "hgpo": {**STEPS, "history": (0, learning, "algorithm.samples_per_task=4"), "length_power": (0, learning)},
    "graphgpo": {**STEPS, "progress": (True, learning, "algorithm.normalise_by_std=false")},
    "pace": STEPS,
    "exit": {
        **GROUPS,
        "normalise_by_std": (False, learning),
        "base": ("rloo", learning),
        "episode_weight": (2, learning, "algorithm.base=gigpo"),
        "step_weight": (2, learning, "algorithm.base=gigpo"),
        "gamma": (0.5, learning, "algorithm.base=gigpo"),
        "restarts.share": (0.25, learning),
        "restarts.buffer": (1, learning),
        "restarts.per_task": (1, learning),
        "restarts.temperature": (0.1, learning, "algorithm.steps=6"),
        "restarts.staleness": (1.0, learning, "algorithm.steps=6"),
        "restarts.rate": (1.0, scored),
        "restarts.min_prefix": (2, learning),
        "restarts.max_age": (1, learning, "algorithm.steps=6"),
        "restarts.source": ("both", learning),
        "restarts.reverse_every": (1, learning, "algorithm.restarts.source=demonstrations", "algorithm.steps=6"),
        "restarts.turns": ("after", learning),
        "restarts.diverge": (1.0, learning),
    },
    "dart": {
        **GROUPS,
        **{
            key: (*entry, *OFF)
            for key, entry in GROUPS.items()
            if key.split(".")[-1] in ("kl", "kl_reference", "refills")
        },
        **{f"correction.{key}": (*GROUPS[f"correction.{key}"], *OFF) for key in ("kind", "cap", "bounds")},
        "epochs": (2, learning),
        "mini_batch_tasks": (2, learning),
        "normalise_by_std": (False, learning),
        "pool.size": (0, learning),
        "pool.source": ("both", learning),
        "pool.when": ("below", learning, *LONG),
        "pool.least": (3, learning, "algorithm.pool.when=below", *LONG),
        "limit.slack": (2, learning, *LONG),
        "limit.after": (9, learning, *LONG),
        "limit.probe": (1, learning, *LONG),
        "entropy.keep": (0.3, learning),
        "entropy.by": ("exact", learning),
        "importance_cap": (0.5, learning, "algorithm.pool.when=below", *LONG),
    },
    "guided": {
        **GROUPS,
        "normalise_by_std": (False, learning),
        "guided.playbook": (made("playbook.json"), learning),
        "guided.share": (1.0, learning, BOOK),
        "guided.learn": ("with", learning, BOOK),
        "guided.clip_high": (0.5, learning, BOOK),
    },
    "distill": {
        **POLICY,
        "teacher": ("policy", learning),
        "hint": ("none", learning, "algorithm.teacher=loaded"),
        "playbook": (made("two.json"), learning, "algorithm.hint=playbook", f"algorithm.playbook={made('one.json')}"),
    },
    "inspo": {
        **GROUPS,
        "normalise_by_std": (False, learning),
        "instructions": (THREE, learning),
        "population": (3, learning, *WRITER, f"algorithm.instructions={THREE}"),
        "tau": (9, learning, *TEXTS),
        "eta": (0.9, learning, *TEXTS),
        "floor": (1.0, learning, *TEXTS),
        "prune_every": (1, learning, *TEXTS, "algorithm.min_uses=1"),
        "min_uses": (1, learning, *TEXTS, "algorithm.prune_every=1"),
        "drop": (1, learning, *TEXTS, "algorithm.prune_every=3", "algorithm.min_uses=1"),
        "proposals": (2, learning, *WRITER),
        "episodes": (1, learning, *WRITER),
        "verify_tasks": (1, learning, *WRITER),
    },
    "istar": {
        **GROUPS,
        "step_weight": (2, learning),
        "beta": (0.5, learning),
        "baseline": ("first", learning),
        "scale_by_batch": (True, learning),
        "prm.start": ("loaded", learning),
        "prm.learns_first": (True, learning),
        "prm.lr": (0.5, learning),
        "prm.pairs_per_task": (1, learning, "algorithm.samples_per_task=6"),
        "prm.mini_batch_pairs": (1, learning, "algorithm.samples_per_task=6"),
        "prm.epochs": (2, learning),
    },
    "dpo": {
        **ONLINE,
        "mini_batch_pairs": (2, learning),
        "pairs_per_task": (1, learning, "algorithm.samples_per_task=6"),
        "beta": (0.5, learning),
    },
    "early_experience": {
        "epochs": (2, learning),
        "lr": (0.1, learning),
        "mini_batch_trajectories": (2, learning),
        **{f"optimizer.{key}": entry for key, entry in OPTIMIZER.items()},
        "optimizer.schedule": ("constant", learning),
        "optimizer.min_lr_ratio": (0.5, learning),
        "mode": ("both", learning),
        "reflection_share": (1.0, learning, "algorithm.mode=reflection"),
        "alternatives": (2, learning),
        "states": (1, learning),
        "include_expert": (False, learning),
        "temperature": (0.5, learning),
        "resamples": (1, learning),
        "iwm_epochs": (2, learning),
        "iwm_lr": (0.5, learning),
        "budget": ("extra", learning),
    },
    "agentevol": {
        **ONLINE,
        "mini_batch_trajectories": (2, learning),
        "restart_from": ("current", learning),
        "accumulate": (True, learning),
        "max_per_task": (2, learning, "algorithm.samples_per_task=6"),
        "filter": (False, learning, "algorithm.samples_per_task=6"),
        "success_threshold": ("{counter: 0.95, sibling: 0.95}", learning, "algorithm.samples_per_task=6"),
        "keep_best": (True, learning, "envs.counter.panels.test.role=validation"),
        "gate": ("flips", learning, *GATE),
        "gate_losses": (1, learning, *GATE, "algorithm.gate=flips"),
        "learn_invalid": (False, learning),
        "search.calls": (9, learning),
        "search.exploration": (9, reads(search)),
        "search.branches": (3, learning, "algorithm.search.calls=99"),
        "search.resamples": (1, reads(search)),
        "hindsight.max_per_goal": (1, relabelled),
        "hindsight.weight": (0.5, relabelled, "algorithm.hindsight.max_per_goal=1"),
        "hindsight.min_turns": (1, relabelled, "algorithm.hindsight.max_per_goal=1"),
        "hindsight.share": (0.1, relabelled, "algorithm.hindsight.max_per_goal=1"),
        "hindsight.verify": (False, relabelled, "algorithm.hindsight.max_per_goal=1"),
    },
}

OF_CURRICULA: dict[str, dict[str, Entry]] = {
    "fixed": {"rounds": ("[3]", draws)},
    "stepwise": {"rounds": ("[3,4]", draws), "steps": (1, draws)},
    "linear": {"rounds": ("[3,40]", draws), "steps": (1, draws)},
    "success_gated": {"rounds": ("[3,4]", draws), "threshold": (0.1, draws), "patience": (1, draws)},
}

OF_TASKS: dict[str, Entry] = {
    "tasks": ("task", draws),
    "floor": (0.9, draws, "mixture.tasks=task"),
    "temperature": (9, draws, "mixture.tasks=task"),
    "decay": (0.1, draws, "mixture.tasks=task"),
    "min_samples": (4, draws, "mixture.tasks=task", "algorithm.samples_per_task=4"),
    "max_samples": (4, draws, "mixture.tasks=task"),
}
CHANGING = ("mixture.every=1", "mixture.min_episodes=1", "mixture.population=8")
"""A population that changes after each step."""
OF_MIXTURES: dict[str, dict[str, Entry]] = {
    **dict.fromkeys(("fixed", "uniform", "proportional"), OF_TASKS),
    "dynamic": {**OF_TASKS, "value": ("failure", draws), "smoothing": (0.5, draws)},
    "frontier": {
        **OF_TASKS,
        "floor": (0.9, draws),
        "temperature": (9, draws),
        "decay": (0.1, draws),
        "population": (8, draws),
        "elite": (2, draws, *CHANGING),
        "every": (3, draws, *CHANGING),
        "min_episodes": (24, draws, *CHANGING),
        "novelty": (0.0, draws, "mixture.distance=0.3"),
        "distance": (0.9, draws),
        "crossover": (1.0, draws, *CHANGING),
        "mutate": ("writer", draws, *CHANGING),
        "held_out": ("{ink: [blue]}", draws, "envs.counter.options={ink: red}"),
    },
    "sequential": {**OF_TASKS, "steps": (2, draws), "order": ("[sibling,counter]", draws)},
}


def keys(node: Any, prefix: str = "") -> Iterator[str]:
    """The dotted keys below a node of the tree; a mapping that is no block is one key."""
    for field in fields(node):
        value, key = getattr(node, field.name), f"{prefix}{field.name}"
        if is_dataclass(value):
            yield from keys(value, f"{key}.")
        elif isinstance(value, dict) and value and all(is_dataclass(block) for block in value.values()):
            for name in value:
                yield from keys(value[name], f"{key}.{name}.")
        else:
            yield key


CHOICES = {
    "algorithm": (OF_ALGORITHMS, algorithms, "name"),
    "curriculum": (OF_CURRICULA, curricula, "type"),
    "mixture": (OF_MIXTURES, mixtures, "type"),
}


def test_there_is_an_entry_for_every_key():
    config = recipes.load(["experiment=counter"])
    chosen = {group: getattr(config, group) for group in (*CHOICES, "model")}
    common = {key for key in keys(config) if key.partition(".")[0] not in chosen}
    assert common == set(KEYS)
    for group, (tables, kinds, choice) in CHOICES.items():
        ours = {name for name, kind in kinds().items() if kind.__module__.startswith("agentgym_rl.")}
        assert set(tables) == ours
        for name, table in tables.items():
            assert {*keys(kinds()[name].Config())} - {choice} == set(table), (group, name)
    assert {*keys(config.model)} - {"path"} == set(OF_MODELS["tiny"])
    assert {*keys(recipes.load(["name=x", "model=hf", "model.path=x"]).model)} == set(OF_MODELS["hf"])


def moved(key: str, entry: Entry, *base: str) -> None:
    value, show, *needed = entry
    if getattr(show, "__qualname__", "").startswith("reads."):
        assert show(key.rpartition(".")[2]), f"{key} is read nowhere"
        return
    run = (*BASE, *base, *needed)
    after = text(
        show,
        changed(composed(*run), key, value)
        if "." in key and key != "algorithm.loss.name"
        else recipes.load([*run, f"++{key}={value}"]),
    )
    assert shown(show, *run) != after, f"moving {key} to {value} moves nothing"


@cache
def shown(show: Callable[[Config], Any], *overrides: str) -> str:
    return text(show, composed(*overrides))


def text(show: Callable[[Config], Any], config: Config) -> str:
    value = show(config)
    return repr(value.value if isinstance(value, Enum) else value)


@cache
def composed(*overrides: str) -> Config:
    return recipes.load([*overrides])


def changed(config: Config, key: str, value: Any) -> Config:
    """The same with another value; Hydra takes much longer to compose it."""
    values = node = recipes.to_dict(config)
    *path, last = key.split(".")
    for part in path:
        node = node[part]
    node[last] = OmegaConf.create(f"key: {value}").key
    return recipes.restore(values)


@pytest.mark.parametrize("key", thinned(KEYS, 8))
def test_a_key_of_every_run(key):
    moved(key, KEYS[key])


@pytest.mark.parametrize(("kind", "key"), thinned(((kind, key) for kind, keys in OF_MODELS.items() for key in keys), 8))
def test_a_key_of_a_model(kind, key):
    moved(f"model.{key}", OF_MODELS[kind][key], f"model={kind}")


def declared() -> Iterator[tuple[str, str, str]]:
    """Each key of algorithms, curricula and mixtures once: of those that inherit it with its entry, the first."""
    seen = set()
    for group, (tables, kinds, _) in CHOICES.items():
        for name, table in tables.items():
            for key, entry in table.items():
                if (declared := (declaring(kinds()[name].Config, key.partition(".")[0]), key, entry)) not in seen:
                    seen.add(declared)
                    yield group, name, key


def declaring(config: type, key: str) -> type:
    """The class of a configuration's bases that declares a key."""
    return next(base for base in config.__mro__ if key in inspect.get_annotations(base))


@pytest.mark.parametrize(("group", "name", "key"), thinned(declared(), 8))
def test_a_key_of_a_choice(group, name, key):
    moved(f"{group}.{key}", CHOICES[group][0][name][key], f"{group}={name}")


@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_every_key_is_operational_or_part_of_what_the_run_is(algorithm):
    config = recipes.load(["experiment=counter", f"algorithm={algorithm}"])
    identity = {*leaves(OmegaConf.to_container(OmegaConf.create(recipes.identity(config))))}
    operational = {
        key for key in keys(config) if not any(prefix == key or prefix.startswith(f"{key}.") for prefix in identity)
    }
    online = {"algorithm.steps"} if isinstance(config.algorithm, OnlineConfig) else set()
    assert operational == online | {
        "envs.counter.host", "rollout.workers", "profile", "budget.episodes", "budget.tokens", "budget.updates",
        *(f"engine.{key}" for key in (
            "rollout_workers", "tensor_parallel", "micro_tokens", "max_sequences", "memory_fraction", "kv_cache_gib",
            "threads", "ray_address", "start_seconds", "offload", "verify_sync", "attention", "env", "gpu_gib",
            "gradient_checkpointing", "memory", "compile",
        )),
        *(f"writer.{key}" for key in ("concurrency", "price", "max_cost", "per_minute")),
        *(f"logger.{key}" for key in ("wandb", "project", "group", "tensorboard")),
        *(f"run.{key}" for key in (
            "dir", "eval_every", "save_every", "keep_checkpoints", "max_hours", "stop_seconds", "min_counted",
            "min_counted_training", "cache", "resume",
        )),
    }  # fmt: skip


def leaves(tree: Any, prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
