"""The typed configuration of a run, behind the Hydra tree in ``recipes/``.

Unknown keys, wrong types and values that cannot work are errors that name the key, raised before Ray starts. A field
marked :func:`~agentgym_rl.algorithms.config.operational` does not change what is learned, and a run resumes with
another value of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import MISSING

from agentgym_rl.algorithms.bc import EPOCHS, CloningConfig
from agentgym_rl.algorithms.config import AlgorithmConfig, operational
from agentgym_rl.algorithms.curriculum.turn_limit import CurriculumConfig
from agentgym_rl.algorithms.mixture import MixtureConfig
from agentgym_rl.engine.recipe.processor import has_bfloat16, has_flash_attention
from agentgym_rl.rollout.settings import RolloutSettings


def _least(block: object, least: float, *keys: str) -> None:
    """Check values that may be None.

    Raises:
        ValueError: a value is less than ``least``; names the key.
    """
    for key in keys:
        value = getattr(block, key)
        if value is not None and value < least:
            raise ValueError(f"{key} must be at least {least:g}, got {value}")


class Role(StrEnum):
    """The use of a panel."""

    TEST = "test"
    VALIDATION = "validation"


@dataclass(kw_only=True)
class PanelConfig:
    """A frozen list of tasks to be evaluated on."""

    split: str = MISSING
    """Split of the environment, or file of item ids, the tasks are drawn from."""
    n: int | None = None
    """Number of tasks, drawn without replacement by ``seed``; null takes the whole split."""
    difficulty: list[str] | None = None
    """Globs over difficulty labels; null takes all."""
    seed: int = 0
    """Seed of the draw; part of the panel, never of the run."""
    samples: int = 1
    """Sampled episodes of a task, beside the greedy one."""
    temperature: float = 1.0
    """Of the sampled episodes."""
    greedy: bool | None = None
    """Also a greedy episode of each task; null takes ``run.greedy``."""
    role: Role = Role.TEST
    """test: evaluated at the end of stages. validation: also every ``run.eval_every`` units, and where an algorithm
    chooses weights by it; so it is no panel to report. Without one, ``run.eval_every`` evaluates all panels."""

    def __post_init__(self) -> None:
        _least(self, 1, "n", "samples")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be greater than 0, got {self.temperature:g}; greedy=true samples at 0")


@dataclass(kw_only=True)
class EnvConfig:
    """One environment of a run."""

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
    """Turn limit; null takes the environment's own."""
    curriculum: dict[str, Any] = field(default_factory=dict)
    """Keys in which its curriculum departs from that of the run; ``type`` chooses another one."""
    panels: dict[str, PanelConfig] = field(default_factory=dict)
    """Panels by name."""
    demonstrations: int = 0
    """Number of oracle trajectories for behaviour cloning, on tasks drawn from the training tasks."""
    demonstrations_file: str | None = None
    """AgentTraj JSON to clone instead of oracle trajectories."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the environment's own class."""
    host: dict[str, Any] = field(default_factory=dict, metadata={"operational": True})
    """Where its episodes run; see ``agentgym_rl.envs.hosts.HostSettings``."""
    harness: dict[str, Any] = field(default_factory=dict)
    """The program that plays its episodes, through the gateway; see ``agentgym_rl.rollout.harness.settings.Harness``.
    Without one, the model plays them itself."""

    def __post_init__(self) -> None:
        _least(self, 1, "pool", "max_turns")
        _least(self, 0, "demonstrations")

    @property
    def has_demonstrations(self) -> bool:
        """True if there is something to clone."""
        return bool(self.demonstrations or self.demonstrations_file)


@dataclass(kw_only=True)
class RolloutConfig(RolloutSettings):
    """The rules of an episode, and the rollouts of training."""

    temperature: float = 1.0
    """Sampling temperature of training episodes."""
    playbook: str | None = None
    """A playbook of ``agentgym-rl learn``, which stands before the first observation of all episodes, also where the
    weights are evaluated later."""
    exemplars: str | None = None
    """A file of episodes: its successes in the ``nearest`` tasks by goal, never the episode's own task, stand before
    the first observation of all episodes. They do not go with the weights; give them to ``eval``, too."""
    nearest: int = 2
    """How many of them (``exemplars``)."""
    workers: int | None = operational(None)
    """Agent-loop processes of all nodes; each runs any number of episodes at once. null takes 1 on a CPU; on GPUs one
    for every 128 episodes of a step, at least 8, at most 32 a node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _least(self, 0, "temperature")
        _least(self, 1, "workers")


@dataclass(kw_only=True)
class ModelConfig:
    """The policy."""

    path: str | None = None
    """Hugging Face folder or id, or the name of a pretrained model; null builds the tiny model from this recipe."""
    prompt_tokens: int = 1024
    """Most tokens before the first response."""
    response_tokens: int = 8192
    """Most tokens from the first response on."""
    lora_rank: int = 0
    """Rank of the LoRA adapters that learn in place of the weights (arXiv 2106.09685); 0 trains the weights."""
    lora_alpha: int = 16
    """LoRA: the product of an adapter's matrices counts lora_alpha / lora_rank times."""
    target_modules: list[str] | None = None
    """LoRA: names of the layers that have an adapter; null takes every linear layer but the output head."""
    train_layers: int | None = None
    """How many of the last decoder layers learn; embeddings, norm and head then stay as they are. null trains all."""

    @property
    def context(self) -> int:
        """Most tokens of an episode."""
        return self.prompt_tokens + self.response_tokens

    def __post_init__(self) -> None:
        _least(self, 1, "prompt_tokens", "response_tokens", "lora_alpha", "train_layers")
        _least(self, 0, "lora_rank")
        if self.lora_rank and self.train_layers is not None:
            raise ValueError(
                f"train_layers={self.train_layers} trains weights, lora_rank={self.lora_rank} adapters; set one of them"
            )
        if self.target_modules == []:
            raise ValueError("target_modules names no layer; null takes every linear layer but the output head")


@dataclass(kw_only=True)
class TinyModelConfig(ModelConfig):
    """``model=tiny``: a Qwen2 of about 0.4M parameters and a tokenizer, built from environments and seed."""

    prompt_tokens: int = 256
    """Most tokens before the first response."""
    response_tokens: int = 512
    """Most tokens from the first response on."""
    vocabulary: int = 1024
    """Size of the byte-level BPE trained on the environments' own text."""
    width: int = 96
    layers: int = 3
    heads: int = 3
    kv_heads: int = 1
    mlp: int = 288

    def __post_init__(self) -> None:
        super().__post_init__()
        _least(self, 1, "vocabulary", "width", "layers", "heads", "kv_heads", "mlp")
        if self.path is not None:
            raise ValueError("path is no key of the tiny model; choose model=<folder or id>")


@dataclass(kw_only=True)
class PretrainedModelConfig(ModelConfig):
    """``model=hf``, or ``model=<folder or id>``."""

    path: str = MISSING
    """Hugging Face folder or id, or the name of a pretrained model (``smollm2_135m``, ``smollm2_135m:hub``)."""


class Device(StrEnum):
    """The hardware that trains and generates."""

    CPU = "cpu"
    CUDA = "cuda"


class Mode(StrEnum):
    """How rollouts and updates share time and machines.

    sync: roll out a batch, learn from it. colocate_async: the next batches are rolled out while an earlier one still
    has stragglers. separate_async: rollouts run on machines of their own while the workers learn.
    """

    SYNC = "sync"
    COLOCATE_ASYNC = "colocate_async"
    SEPARATE_ASYNC = "separate_async"


class Stragglers(StrEnum):
    """How an asynchronous step treats tasks that take long.

    wait: takes its own batch whole. partial: takes the tasks that finish first, of any step under way. cap: also drops
    a task that comes too late and rolls out another one.
    """

    WAIT = "wait"
    PARTIAL = "partial"
    CAP = "cap"


class Attention(StrEnum):
    """Attention kernels of training workers on GPUs, all but sdpa without a mask.

    auto: flash_attention_2 where the package flash-attn is installed, else varlen. varlen: PyTorch's FlashAttention,
    all rows of a micro-batch at once; packed where it has no kernel. packed: row by row. sdpa: with a mask of all the
    tokens of a micro-batch, whose memory grows with their square.
    """

    AUTO = "auto"
    FLASH_ATTENTION_2 = "flash_attention_2"
    VARLEN = "varlen"
    PACKED = "packed"
    SDPA = "sdpa"


class Dtype(StrEnum):
    """Number format of training workers and vLLM on a CPU.

    auto: bfloat16 where the processor of this machine has arithmetic for it, else float32. Weights that learn, their
    gradients and the optimizer's moments are float32 in any case.
    """

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class VerifySync(StrEnum):
    """Which syncs of weights are followed by a look at the log-probabilities of a fixed text on both sides.

    first: all until one that has moved them further than the tolerance. always: all. never: none.
    """

    FIRST = "first"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(kw_only=True)
class EngineConfig:
    """Where a run trains."""

    device: Device = Device.CPU
    """cpu or cuda."""
    mode: Mode = Mode.SYNC
    """sync, colocate_async or separate_async."""
    ahead: int = 1
    """Asynchronous: steps whose episodes are under way before their turn."""
    stragglers: Stragglers = Stragglers.WAIT
    """Asynchronous: wait, partial or cap."""
    max_staleness: int = 2
    """Asynchronous, partial and cap: most updates between the weights a task was begun with and those that learn."""
    workers: int = 1
    """FSDP workers on a node; each pairs with a share of a vLLM replica. Checkpoints are of this many workers."""
    rollout_workers: int = operational(1)
    """separate_async: workers of vLLM's own on a node."""
    nodes: int = 1
    tensor_parallel: int = operational(1)
    """Workers a vLLM replica spans."""
    micro_tokens: int | None = operational(16384)
    """Most tokens of a micro-batch on a worker; on a CPU a longer episode is one by itself. GPU: null takes as many as
    fit by the estimate that the launch prints."""
    gradient_checkpointing: bool | None = operational(None)
    """GPU: compute activations again in the backward pass; null does so where they would not fit."""
    gpu_gib: float | None = operational(None)
    """GPU: memory of the smallest one, for the estimate; null asks this machine's."""
    memory: str | None = operational(None)
    """One GPU: auto, which asks this machine's, or GB; model and model.lora_rank are chosen to fit, unless given."""
    max_sequences: int = operational(256)
    """Most sequences a vLLM replica decodes at once."""
    memory_fraction: float = operational(0.5)
    """GPU: share of its memory that vLLM takes."""
    kv_cache_gib: float = operational(1.0)
    """CPU: size of vLLM's KV cache."""
    threads: int | None = operational(None)
    """CPU: threads of a training worker; null shares the cores among the workers of a node."""
    dtype: Dtype = Dtype.FLOAT32
    """CPU: float32, bfloat16, or auto: bfloat16 where the processor has arithmetic for it."""
    attention: Attention = operational(Attention.AUTO)  # noqa: RUF009
    """GPU: auto, flash_attention_2, varlen, packed or sdpa, in training workers."""
    compile: bool = operational(True)
    """GPU: training workers compile layers and log-probabilities; the first update of a machine waits for it."""
    ray_address: str | None = operational(None)
    """Address of a running Ray cluster; null starts one on this machine."""
    start_seconds: float = operational(300.0)
    """The launch fails when the GPUs have not joined, or the workers are not ready, after this time."""
    env: dict[str, str] = field(default_factory=dict, metadata={"operational": True})
    """Environment variables of every process on every node, e.g. NCCL_SOCKET_IFNAME."""
    offload: bool = operational(False)
    """GPU: keep weights and optimizers, a critic's too, in host memory between updates."""
    seeded: bool | None = None
    """sync: each response is sampled with a seed of its own, which follows from the run's seed, the step, the task, the
    sample and the turn, not from the order in which vLLM takes requests; null does so on a CPU."""
    verify_sync: VerifySync = operational(VerifySync.FIRST)  # noqa: RUF009
    """first, always or never: whether vLLM really has the weights that learn is looked at after a sync."""

    def __post_init__(self) -> None:
        _least(self, 1, "ahead", "max_staleness", "workers", "rollout_workers", "nodes", "tensor_parallel")
        _least(self, 1, "micro_tokens", "max_sequences", "threads")
        for key in ("kv_cache_gib", "start_seconds", "memory_fraction", "gpu_gib"):
            if (value := getattr(self, key)) is not None and not value > 0:
                raise ValueError(f"{key} must be greater than 0, got {value}")
        if self.memory_fraction > 1:
            raise ValueError(f"memory_fraction={self.memory_fraction:g} is no share; give a number up to 1")
        if self.ray_address not in (None, "auto") and not re.fullmatch(r"[^/]+:\d+", self.ray_address):
            raise ValueError(
                f"ray_address={self.ray_address} is no address of a cluster; give HOST:PORT of its head node, 6379 by "
                "default, or auto on one of its nodes; a client of Ray (ray://) cannot train"
            )
        if self.device is Device.CPU and self.micro_tokens is None:
            raise ValueError("micro_tokens=null is chosen on GPUs only; give a number, e.g. 4096")
        if self.stragglers is not Stragglers.WAIT and self.max_staleness < self.ahead:
            raise ValueError(
                f"max_staleness={self.max_staleness} leaves no time for tasks that are begun engine.ahead={self.ahead} "
                "steps before; it must be at least as large"
            )

    @property
    def own_rollout_workers(self) -> int:
        """Workers on a node that only vLLM has."""
        return self.rollout_workers if self.mode is Mode.SEPARATE_ASYNC else 0

    @property
    def off_policy(self) -> bool:
        """True if rollouts are off-policy: stale weights, or vLLM in bfloat16."""
        return self.mode is not Mode.SYNC or self.bfloat16

    @property
    def seeds_responses(self) -> bool:
        """True if each response is sampled with a seed of its own."""
        seeded = self.device is Device.CPU if self.seeded is None else self.seeded
        return seeded and self.mode is Mode.SYNC

    @property
    def bfloat16(self) -> bool:
        """True if training workers and vLLM compute in bfloat16, as they always do on GPUs."""
        if self.device is Device.CUDA or self.dtype is Dtype.BFLOAT16:
            return True
        return self.dtype is Dtype.AUTO and has_bfloat16()

    @property
    def attends(self) -> Attention:
        """The attention kernel of training workers."""
        if self.device is Device.CPU:
            return Attention.PACKED
        if self.attention is not Attention.AUTO:
            return self.attention
        return Attention.FLASH_ATTENTION_2 if has_flash_attention() else Attention.VARLEN


class WandB(StrEnum):
    """Where W&B's files go."""

    AUTO = "auto"
    ONLINE = "online"
    OFFLINE = "offline"
    DISABLED = "disabled"


@dataclass(kw_only=True)
class LoggerConfig:
    """Where metrics go, beside the run's own files."""

    wandb: WandB = operational(WandB.AUTO)  # noqa: RUF009
    """auto (online when WANDB_API_KEY is set, else offline), online, offline or disabled."""
    project: str = operational("agentgym-rl")
    group: str | None = operational(None)
    tensorboard: bool = operational(False)
    """Also write TensorBoard's events, into ``tensorboard/`` of the run's folder."""


@dataclass(kw_only=True)
class BudgetConfig:
    """Budget of the algorithm's stage, the same for all algorithms; at most one key.

    Episodes of a group filter's refills and of a tree search come on top, as ``compare`` counts them.
    """

    episodes: int | None = operational(None)
    """Training episodes; ``algorithm.steps`` follows, to the nearest whole step."""
    tokens: int | None = operational(None)
    """Tokens of training episodes; the stage ends after the step that spends them, or after ``algorithm.steps``."""
    updates: int | None = operational(None)
    """Updates of the policy; the stage ends after the step that makes them, or after ``algorithm.steps``."""

    def __post_init__(self) -> None:
        _least(self, 1, "episodes", "tokens", "updates")
        budgets = [f"budget.{key}={value}" for key, value in vars(self).items() if value is not None]
        if len(budgets) > 1:
            raise ValueError(f"{' and '.join(budgets)}: a run has one budget; null takes out the other")

    def spent(self, tokens: int, updates: int) -> bool:
        """True if a budget of tokens or updates is spent."""
        return any(
            most is not None and spent >= most for spent, most in ((tokens, self.tokens), (updates, self.updates))
        )


@dataclass(kw_only=True)
class WriterConfig:
    """Who writes texts for an algorithm or a mixture that asks for some."""

    policy: str | None = None
    """A language model as ``eval`` names it: ``openai:<model>@<url>``, or a folder, hub id or run, which transformers
    runs in the trainer's process. ``writer=NAME`` means the same."""
    concurrency: int = operational(16)
    """Most requests at once."""
    price: list[float] = field(default_factory=lambda: [0.0, 0.0], metadata={"operational": True})
    """API: of a million prompt tokens and of a million completion tokens."""
    max_cost: float | None = operational(None)
    """API: most that the run may cost, in the currency of the price; a run that has spent it ends, and goes on with
    more."""
    per_minute: float | None = operational(None)
    """API: most requests a minute."""

    def __post_init__(self) -> None:
        _least(self, 1, "concurrency")
        if len(self.price) != 2:
            raise ValueError(f"price={self.price} is not that of prompt and of completion tokens, like [0.15,0.6]")


@dataclass(kw_only=True)
class RunConfig:
    """The run as a whole."""

    dir: str = operational("runs/${name}")
    """Folder of everything the run writes."""
    eval_every: int = operational(0)
    """Units between evaluations of the validation panels, or of all where there is none: training steps, passes of
    cloning, explorations and passes of AgentEvol; 0 evaluates at the end of each stage only."""
    save_every: int = operational(25)
    """Units between checkpoints; 0 saves at the end of each stage and on Ctrl-C only."""
    keep_checkpoints: int | None = operational(3)
    """How many of the newest checkpoints stay, beside those at the ends of stages and those that the run still needs;
    null keeps all."""
    max_hours: float | None = operational(None)
    """The run saves and ends after the step during which it has run for this long; null has no limit."""
    stop_seconds: float = operational(600.0)
    """After SIGTERM or SIGUSR1 the present step may take this long; then the run ends at its last checkpoint."""
    control: bool = False
    """Afterwards, spend as many updates on demonstrations alone, from the weights where learning started."""
    evaluate_untrained: bool = True
    """Evaluate the weights as loaded."""
    greedy: bool = True
    """Evaluate panels greedily too, beside the sampled episodes."""
    min_counted: float = operational(0.95)
    """Share of the episodes of each environment and panel of an evaluation that must count; where more fail outside
    the agent, or all, the run ends with an error."""
    min_counted_training: float = operational(0.5)
    """The same for the episodes of each environment in a training step."""
    cache: str | None = operational(None)
    """Folder where the tiny model and cloned weights are kept for other runs of the same settings, seed and code."""
    resume: bool = operational(True)
    """Continue the run found in ``dir``; false refuses a folder that has one."""

    def __post_init__(self) -> None:
        _least(self, 0, "eval_every", "save_every")
        _least(self, 1, "keep_checkpoints")
        for key in ("max_hours", "stop_seconds"):
            if (value := getattr(self, key)) is not None and not value > 0:
                raise ValueError(f"{key} must be greater than 0, got {value}")
        for key in ("min_counted", "min_counted_training"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"run.{key}={getattr(self, key):g} is no share; give a number from 0 to 1")


@dataclass(kw_only=True)
class Config:
    """A run."""

    name: str = MISSING
    """Names the run; the default folder is ``runs/<name>``."""
    seed: int = 0
    envs: dict[str, EnvConfig] = field(default_factory=dict)
    """Environments by name."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    model: ModelConfig = field(default_factory=TinyModelConfig)
    """The keys of the chosen kind of model."""
    cloning: CloningConfig = field(default_factory=CloningConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    """The keys of the chosen algorithm."""
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    """The keys of the chosen curriculum."""
    mixture: MixtureConfig = field(default_factory=MixtureConfig)
    """The keys of the chosen mixture."""
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    writer: WriterConfig = field(default_factory=WriterConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    run: RunConfig = field(default_factory=RunConfig)
    profile: bool = operational(False)
    """Draw a timeline of each unit's episodes, ``timeline/step<N>.html``."""
    verl: dict[str, Any] = field(default_factory=dict)
    """Keys of verl's ``ppo_trainer`` configuration, set last."""

    def __post_init__(self) -> None:
        _least(self, 0, "seed")
        if self.cloning.epochs is None:
            self.cloning.epochs = EPOCHS if any(env.has_demonstrations for env in self.envs.values()) else 0
