"""The typed configuration of a run, behind the Hydra tree in ``recipes/``.

Unknown keys and wrong types are errors that name the key, raised before Ray starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from agentgym_rl.algorithms.mixture import MixtureSettings
from agentgym_rl.algorithms.scaling_inter import CurriculumSettings, RoundsControl
from agentgym_rl.algorithms.search import SearchSettings


@dataclass
class PanelConfig:
    """A frozen list of tasks to be evaluated on."""

    split: str = MISSING
    """Split of the world, or file of item ids, the tasks are drawn from."""
    n: int | None = None
    """Number of tasks, drawn without replacement by ``seed``; null takes the whole split."""
    difficulty: list[str] | None = None
    """Globs over difficulty labels; null takes all."""
    seed: int = 0
    """Seed of the drawing; part of the panel, never of the run."""
    samples: int = 1
    """Sampled episodes a task (temperature 1), beside the greedy one."""
    role: str = "test"
    """test: played at the end of stages only. validation: also every ``run.eval_every`` units and after each round of
    AgentEvol, where ``algorithm.keep_best`` chooses by it; so it is no panel to report."""


@dataclass
class WorldConfig:
    """One world of a run."""

    share: float = 1.0
    """Relative share of training episodes."""
    split: str = "train"
    """Split, or file of item ids, the training tasks are drawn from."""
    difficulty: list[str] | None = None
    """Globs over difficulty labels of training tasks; null takes all."""
    pool: int | None = None
    """Train on this many tasks of the split only, drawn by ``pool_seed``; null takes all."""
    pool_seed: int = 0
    max_turns: int | None = None
    """Turn limit; null takes the world's own."""
    curriculum: dict[str, Any] = field(default_factory=dict)
    """Keys in which the turn limit of its training episodes departs from the run's ``curriculum``."""
    panels: dict[str, PanelConfig] = field(default_factory=dict)
    """Validation panels by name."""
    experts: int = 0
    """Oracle trajectories for behaviour cloning, on tasks drawn from the training tasks."""
    expert_file: str | None = None
    """AgentTraj JSON to clone instead of oracle trajectories."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the world's own class."""
    host: dict[str, Any] = field(default_factory=dict)
    """Where its episodes run; see ``agentgym_rl.envs.hosts.HostSettings``."""


@dataclass
class RolloutConfig:
    """The rules of an episode; see ``agentgym_rl.rollout.settings.RolloutSettings``."""

    style: str = "agentgym"
    action_format: str = "react"
    turn_tokens: int = 512
    context: str = "full"
    keep_turns: int = 2
    notes_tokens: int = 128
    invalid_limit: int | None = None
    step_seconds: float = 60.0
    episode_seconds: float = 1800.0
    retries: int = 2
    temperature: float = 1.0
    """Sampling temperature of training episodes."""
    workers: int = 1
    """Agent-loop processes; each runs any number of episodes at once."""


@dataclass
class ModelConfig:
    """The policy."""

    path: str | None = None
    """Hugging Face folder or id; null builds the tiny model from this recipe."""
    prompt_tokens: int = 1024
    """Most tokens before the first reply."""
    response_tokens: int = 8192
    """Most tokens from the first reply on."""
    vocabulary: int = 1024
    """Tiny model: size of the byte-level BPE trained on the worlds' own text."""
    width: int = 96
    layers: int = 3
    heads: int = 3
    kv_heads: int = 1
    mlp: int = 288


@dataclass
class BCConfig:
    """Behaviour cloning on expert trajectories (supervised steps on action tokens)."""

    epochs: int = 0
    """Passes over the expert trajectories; 0 skips the stage."""
    lr: float = 1e-5
    """Learning rate at the start; falls linearly to a tenth."""
    batch: int = 16
    """Trajectories an update."""
    observation_weight: float = 0.0
    """Weight of the loss on tokens the model did not write; above 0 it also learns how the worlds talk."""


@dataclass
class AlgorithmConfig:
    """What is learnt online, and from what."""

    name: str = MISSING
    """bc | agentevol | grpo | ppo | rloo | reinforce_pp | gigpo | dpo; or one of an installed package."""
    steps: int = 0
    """Training steps (for agentevol: rounds of explore, filter, learn)."""
    tasks: int = 32
    """Tasks a step."""
    samples: int = 8
    """Episodes a task."""
    lr: float = 1e-6
    minibatch: int = 32
    """Tasks an update, of ``samples`` episodes each; trajectories an update (agentevol), pairs an update (dpo)."""
    epochs: int = 1
    """Passes over a step's batch."""
    kl_loss: float = 0.0
    """Coefficient of the KL loss to the reference policy (k3, ``low_var_kl``); 0 loads no reference."""
    entropy: float = 0.0
    clip: float = 0.2
    importance_cap: float = 2.0
    """Asynchronous: greatest importance weight of a token, between the weights that played and those that learn
    (truncated importance sampling); 0 uses no weights."""
    loss_aggregation: str = "token-mean"
    normalise_by_std: bool = True
    """GRPO: divide group advantages by their standard deviation."""
    critic_lr: float = 1e-5
    critic_warmup: int = 0
    """PPO: steps that train the critic alone."""
    gamma: float = 1.0
    lam: float = 1.0
    level: str = "token"
    """ppo: value and advantage a token, or a turn (``turn``)."""
    step_weight: float = 1.0
    """gigpo: weight of the step-level advantage."""
    beta: float = 0.1
    """dpo: strength of the tie to the policy that played."""
    pairs_per_task: int = 1
    """dpo: pairs of a successful and a failed episode a task and step."""
    restart_from: str = "base"
    """agentevol: weights a round's learning starts from: base (as loaded, before cloning) | current."""
    accumulate: bool = False
    """agentevol: successes of earlier rounds stay in the training set."""
    max_per_task: int = 1
    """agentevol: successes kept a task and round."""
    success_threshold: dict[str, float] = field(default_factory=dict)
    """agentevol: by world, keep episodes whose reward is greater; a world left out keeps its own successes."""
    keep_best: bool = False
    """agentevol: undo a round that lowers success on the validation panels."""
    rounds_ctrl: RoundsControl = field(default_factory=RoundsControl)
    """AgentGym-RL's keys of a curriculum."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """agentevol: tree search for tasks on which all samples failed."""


@dataclass
class EngineConfig:
    """Where it runs."""

    device: str = "cpu"
    """cpu | cuda."""
    mode: str = "sync"
    """sync: play a batch, learn from it. colocate_async: the next batches are played while an earlier one still has
    stragglers. separate_async: they are played on machines of their own while the workers learn."""
    ahead: int = 1
    """Asynchronous: steps whose episodes are under way before their turn."""
    stragglers: str = "wait"
    """Asynchronous: wait for the whole batch of a step; ``partial`` takes the tasks that finish first, of any step
    under way; ``cap`` also drops a task that comes too late, and plays another one."""
    max_staleness: int = 2
    """Asynchronous, partial and cap: most updates between the weights a task was begun with and those that learn."""
    workers: int = 1
    """FSDP workers on a node; each pairs with a share of a vLLM replica."""
    rollout_workers: int = 1
    """separate_async: workers of vLLM's own on a node."""
    nodes: int = 1
    tensor_parallel: int = 1
    """Workers a vLLM replica spans."""
    micro_tokens: int = 16384
    """Most tokens of a micro-batch on a worker."""
    max_sequences: int = 256
    """Most sequences a vLLM replica decodes at once."""
    memory_fraction: float = 0.5
    """Share of a GPU's memory that vLLM takes."""
    kv_cache_gib: float = 1.0
    """CPU: size of vLLM's KV cache."""
    threads: int | None = None
    """CPU: threads of a training worker; null shares the cores among the workers of a node."""
    ray_address: str | None = None
    """Address of a running Ray cluster; null starts one on this machine."""
    start_seconds: float = 300.0
    """The launch is given up when the workers are not ready after this time."""
    offload: bool = False
    """Keep weights and optimiser on the host between updates."""


@dataclass
class LoggerConfig:
    """Where metrics go, beside the run's own files."""

    wandb: str = "auto"
    """auto (online when WANDB_API_KEY is set, else offline) | online | offline | disabled."""
    project: str = "agentgym-rl"
    group: str | None = None


@dataclass
class RunConfig:
    """The run as a whole."""

    dir: str = "runs/${name}"
    """Folder of everything the run writes."""
    eval_every: int = 0
    """Training steps between evaluations; 0 evaluates at the end of each stage only."""
    save_every: int = 0
    """Training steps between checkpoints; 0 saves at the end of each stage and on Ctrl-C only."""
    control: bool = False
    """After training, spend the same number of updates on expert data alone from the same cloned weights."""
    evaluate_untrained: bool = True
    """Evaluate the weights as loaded."""
    greedy: bool = True
    """Play panels greedily too, beside the sampled episodes."""
    cache: str | None = None
    """Folder where the tiny model and cloned weights are kept for other runs of the same model, experts and seed."""
    resume: bool = True
    """Continue the run found in ``dir``; false refuses a folder that has one."""


@dataclass
class Config:
    """A run."""

    name: str = MISSING
    """Names the run; the default folder is ``runs/<name>``."""
    seed: int = 0
    worlds: dict[str, WorldConfig] = field(default_factory=dict)
    """Worlds by name."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    bc: BCConfig = field(default_factory=BCConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    curriculum: CurriculumSettings = field(default_factory=CurriculumSettings)
    mixture: MixtureSettings = field(default_factory=MixtureSettings)
    engine: EngineConfig = field(default_factory=EngineConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    run: RunConfig = field(default_factory=RunConfig)
    profile: bool = False
    """Draw a timeline of each unit's episodes, ``timeline/step<N>.html``; no part of what the run is."""
    verl: dict[str, Any] = field(default_factory=dict)
    """Any key of verl's own ``ppo_trainer`` configuration, set last."""
