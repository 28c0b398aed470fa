"""An algorithm, and the run that the engine offers it.

An algorithm is a class with a typed configuration, a statement of what it needs, and its units of work. A unit is the
step after which a run can stop and resume: a training step, or one phase of a round. The engine calls :meth:`unit` with
a :class:`Run`, and knows no algorithm by name.

Algorithms are found by the entry-point group ``agentgym_rl.algorithms``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from agentgym_rl.algorithms.config import AlgorithmConfig, OnlineConfig
from agentgym_rl.algorithms.losses.base import Loss
from agentgym_rl.algorithms.model import POLICY, Critic, Model, check
from agentgym_rl.algorithms.rows import Row, Span, Stream, imitation, unlearned
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.prefix import Prefix
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example

Metrics = dict[str, float]


# needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """One of verl's own advantage estimators."""

    name: str
    gamma: float = 1.0
    lam: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Requirements of an algorithm on engine and recipe, checked before anything starts."""

    estimator: Estimator | None = None
    """verl computes the advantages; without it the algorithm does."""
    models: Mapping[str, Model] = field(default_factory=dict)
    """Models beside the policy, by name; a critic among them, where there is one."""
    samples_per_task: int = 1
    """Fewest episodes of a task; at 2 or more, singleton groups leave the batch."""
    demonstrations: bool = False
    """It learns from demonstrations, and needs some."""
    takes_demonstrations: bool = False
    """It also learns from demonstrations where there are some."""
    cloning: bool = False
    """The run must clone demonstrations first."""
    validation: str | None = None
    """The key that needs a panel with ``role: validation``."""
    full_context: str | None = None
    """The key or algorithm that needs each episode in one segment (``rollout.context=full``, ``.thinking=keep``)."""
    replays: str | None = None
    """The key or algorithm whose episodes begin with a replay; every environment with training tasks must allow it."""
    relabels: str | None = None
    """The key that relabels episodes; every environment with training tasks must tell which goals they reached
    (:meth:`.TextEnv.achieved`)."""
    plans: str | None = None
    """The key that reads the commands of the oracle; every environment with training tasks must have one."""
    by_environment: str | None = None
    """The key or algorithm that goes by the names of environments, so that it cannot take parts that a mixture makes
    (:attr:`.Mixture.makes_parts`)."""
    playbook: str | None = None
    """The key of a playbook of its own, which takes no other beside it (``rollout.playbook``)."""
    loaded_weights: bool = False
    """It goes back to the weights as loaded."""
    equal_updates: Mapping[str, int] = field(default_factory=dict)
    """Sizes of updates by key; each must divide by the number of workers."""
    environments: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Names of environments by the key that has them; each must be one of the run."""
    writer: str | None = None
    """The key or algorithm that asks a writer (:meth:`Run.generate`); the run must have one."""
    whole_steps: str | None = None
    """The key or algorithm whose steps roll out all their tasks before they learn (``engine.mode=sync``)."""
    rows_together: int = 1
    """Rows of the full context length that must fit into one micro-batch."""

    def __post_init__(self) -> None:
        check(self.models)

    @property
    def critic(self) -> Critic | None:
        return next((model for model in self.models.values() if isinstance(model, Critic)), None)

    @property
    def swapped(self) -> dict[str, Model]:
        """The models that take the policy's place in its workers: all but the critic."""
        return {name: model for name, model in self.models.items() if not isinstance(model, Critic)}


# what a run hands out and takes in


@dataclass(slots=True, kw_only=True)
class Rollout:
    """One episode with its segments."""

    episode: Episode
    segments: Sequence[Example] = ()
    """The token sequences that were fed to the model, with loss weight 1 on its own tokens. Empty where the episode
    does not count, and in :meth:`Run.batches`, whose tokens stay with the engine."""
    group: str = ""
    """Rollouts of one request have the same group."""
    values: Sequence[float] = ()
    """The critic's value before each response; only in :meth:`Run.batches` of an algorithm that needs a critic."""
    key: str = ""
    """Tells it from the others of a step."""
    kept: Sequence[str] = ()
    """Where the engine keeps the tokens of each segment; only in :meth:`Run.batches`."""

    def rows(self, streams: Mapping[str, Stream]) -> list[Row]:
        """Each of its segments with these streams."""
        segments: Sequence[Example | str] = self.kept or self.segments
        return [Row(segment, streams, self.episode, number) for number, segment in enumerate(segments)]

    def imitation(self, weight: float = 1.0, observations: float = 0.0, *, learn_invalid: bool = True) -> list[Row]:
        """Each of its segments for the cross-entropy loss; see :func:`agentgym_rl.algorithms.rows.imitation`.

        Args:
            learn_invalid: also learn responses whose action was refused.
        """
        contexts = self.unlearned(learn_invalid=learn_invalid)
        return [
            imitation(segment, weight, observations, context)
            for segment, context in zip(self.segments, contexts, strict=True)
        ]

    def unlearned(self, *, learn_invalid: bool) -> tuple[tuple[Span, ...], ...]:
        """For each of its segments, what :func:`agentgym_rl.algorithms.rows.unlearned` gives."""
        return tuple(
            unlearned(self.episode, number, segment, learn_invalid=learn_invalid)
            for number, segment in enumerate(self.segments)
        )


def groups(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """The rollouts of each task, in the order of their first ones."""
    by_group: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        by_group.setdefault(rollout.group, []).append(rollout)
    return list(by_group.values())


@dataclass(slots=True, kw_only=True)
class Request:
    """A task to be rolled out."""

    task: Task
    samples: int = 1
    max_turns: int | None = None
    """Turn limit of its episodes; None takes the environment's."""
    temperature: float | None = None
    """Sampling temperature; None takes ``rollout.temperature``."""
    tags: Mapping[str, Any] = field(default_factory=dict)
    """Copied into its episodes."""
    prefix: Prefix | None = None
    """Responses to replay first; a replay can diverge, and takes an environment of :attr:`Run.replayable`."""
    preface: str = ""
    """Text before the first observation, after :meth:`Algorithm.prompt`."""
    prompt: str | None = None
    """In place of :meth:`Algorithm.prompt`; None leaves that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights that a run can go back to."""

    checkpoint: str | None
    """Name of the checkpoint; None for the weights as loaded."""
    origin: str | None
    """Name of the checkpoint that ``updates`` started from; None for the weights as loaded."""
    updates: tuple[tuple[int, float, int], ...] = ()
    """Number, learning rate and mini-batch of the updates that led from ``origin`` to these weights."""

    def to_dict(self) -> dict[str, Any]:
        return {"checkpoint": self.checkpoint, "origin": self.origin, "updates": [list(each) for each in self.updates]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Weights:
        return cls(
            checkpoint=data["checkpoint"],
            origin=data["origin"],
            updates=tuple((int(count), float(lr), int(size)) for count, lr, size in data["updates"]),
        )


LOADED = Weights(checkpoint=None, origin=None)
"""The weights as loaded, before cloning."""


Plan = Callable[[int, list[Request]], Sequence[Request]]
"""From the number of a step, and the requests that are drawn for it, to those that it takes."""
Keep = Callable[[list[Rollout]], bool]
"""True for a group whose rollouts a step learns from."""


class Run(Protocol):
    """All that the engine offers an algorithm."""

    @property
    def seed(self) -> int: ...

    @property
    def step(self) -> int:
        """The global step: units of all stages so far, this one included."""

    @property
    def response_tokens(self) -> int:
        """Most tokens of a segment after its prompt (``model.response_tokens``)."""

    @property
    def context(self) -> int:
        """Most tokens of a segment, those of its prompt included."""

    @property
    def demonstrations(self) -> Sequence[Rollout]:
        """Each demonstration as :meth:`encode` makes it."""

    @property
    def general(self) -> Sequence[Rollout]:
        """General conversations (``cloning.mix_file``), encoded as demonstrations are."""

    @property
    def observation_weight(self) -> float:
        """Weight of the supervised loss on tokens the model did not write (``cloning.observation_weight``)."""

    @property
    def learn_invalid(self) -> bool:
        """Whether responses of demonstrations whose action is refused are learned (``cloning.learn_invalid``)."""

    @property
    def replayable(self) -> Sequence[str]:
        """Environments in which a prefix of responses can be replayed."""

    @property
    def rules(self) -> RolloutSettings:
        """The rules that all episodes of the run share."""

    @property
    def pools(self) -> Mapping[str, Sequence[int]]:
        """Indices of the training tasks of each environment."""

    @property
    def panel_tasks(self) -> Mapping[str, Sequence[Task]]:
        """Tasks of all panels of each environment."""

    def environment(self, name: str) -> TextEnv:
        """A session of one's own in this process, to ask about tasks and to replay in."""

    def steps_left(self, episode: Episode) -> list[float] | None:
        """Fewest commands that still solve its task, before the first turn and after each.

        None where the environment cannot tell, see :meth:`.TextEnv.steps_left`.
        """

    def requests(self, number: int) -> list[Request]:
        """The tasks of step ``number`` (from 0): drawn from the mixture, with the curriculum's turn limits."""

    def request(self, number: int, task: Task, **fields: Any) -> Request:
        """A request for a task of one's own in step ``number``, with the curriculum's turn limit."""

    def batches(
        self, number: int, plan: Plan | None = None, *, keep: Keep | None = None, refills: int = 0
    ) -> Iterator[list[Rollout]]:
        """The rollouts of step ``number`` that count, as ``engine.mode`` delivers them: one batch, or mini-batches.

        ``plan`` makes the requests of a step of those that are drawn for it, as many. It is called when the episodes of
        the step begin; in asynchronous modes that is some steps ahead of ``number``. What replaces lost or filtered
        groups is drawn.

        ``keep`` says which groups of several episodes stay. Others leave the batch, and the step rolls out up to
        ``refills`` tasks in their place.

        A batch is empty where ``keep`` leaves nothing. After the last, the new weights go to the rollout servers, and
        mixture and curriculum observe all episodes.
        """

    def rollouts(self, requests: Sequence[Request], label: str, *, resumable: bool = False) -> list[Rollout]:
        """All rollouts of the requests, in their order, with the present weights.

        Args:
            label: names the work on the progress bar.
            resumable: keep finished rollouts in the unit's journal; after a stop, the same calls go on from there.
        """

    def encode(self, messages: Sequence[Message], task: Task) -> Rollout:
        """A conversation that the policy did not lead, tokenized as a demonstration of the task is.

        Its episode is a success with reward 1, and its segments have loss weight 1 on the responses after the first
        observation. Their log-probabilities are not known.

        Args:
            messages: from the instruction on, as :attr:`.Episode.messages` are; what follows the last response is left
                out.

        Raises:
            ContextTooSmall: it takes more tokens than the model's context.
            ValueError: user and assistant do not take turns, or there is no response.
        """

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Let mixture and curriculum take in the episodes of a step."""

    def learn(
        self,
        rows: Sequence[Row],
        loss: Loss[Any],
        *,
        lr: float,
        mini_batch: int,
        epochs: int = 1,
        updates: int | None = None,
        seed: str = "",
        first_epoch: int = 0,
        model: str = POLICY,
    ) -> Metrics:
        """Update the policy or another model; without rows nothing changes.

        Rows of a batch are learned from once, before the next batch is asked for; those left out leave it. Rows that
        have their tokens can be learned from at any time, in between, too.

        Args:
            lr: learning rate; :meth:`OnlineAlgorithm.rate` has that of the run's schedule.
            mini_batch: of an update: tasks, of rows of a batch; else rows, or pairs for a loss of pairs.
            epochs: passes over the rows.
            updates: of rows that have their tokens: so many mini-batches, in place of whole passes.
            seed: shuffles them, together with the number of the pass.
            first_epoch: number of the first pass.
            model: that learns; one of ``Needs.models`` with ``trained``. It can learn from rows of a batch until the
                policy has, as if they had their tokens, and as often as it likes; their scores must have been read.

        Returns:
            Losses and norms, means over the updates; of another model as ``<model>/<metric>``.

        Raises:
            ValueError: the loss cannot learn from these rows; says why.
        """

    def score(
        self, rows: Sequence[Row], by: str | Weights = POLICY, *, name: str, entropy: bool = False, read: bool = False
    ) -> list[Row]:
        """The rows with one more stream: the log-probability of each token that has a loss weight, 0 for the others.

        It is that at the temperature of rollouts. Of rows of a batch the numbers stay with the engine, for a loss that
        reads the stream.

        Args:
            by: whose: the policy's as it is, another model's of ``Needs.models``, or weights of this run, of which
                those as loaded need ``Needs.loaded_weights``.
            name: of the stream.
            entropy: add ``<name>_entropy``, the entropy of what stood before the token.
            read: bring the numbers here, as :class:`~agentgym_rl.algorithms.rows.PerToken`.

        Raises:
            ValueError: there is no such model, or a row is of an earlier batch.
        """

    def generate(
        self,
        conversations: Sequence[Sequence[Message]],
        *,
        samples: int = 1,
        temperature: float = 1.0,
        max_tokens: int = 512,
        by: Literal["policy", "writer"] = "policy",
    ) -> list[list[str]]:
        """Next messages of conversations of one's own, outside of any episode: ``samples`` of each, in their order.

        They are kept in the unit's journal. After a stop, the same questions have the same answers, and nobody is asked
        twice; within a unit, the same question again has another answer.

        Args:
            by: the policy, with the present weights; or the run's ``writer``, which :attr:`Needs.writer` asks for.

        Returns:
            Texts of at most ``max_tokens`` tokens. One is empty where the conversation does not fit into the context,
            or the API of the writer withholds it; these are counted (``generate/<by>_unanswered``).

        Raises:
            ValueError: the run has no writer; the writer's API takes no request, or ``writer.max_cost`` is spent.
            EnvError: the writer does not answer. What was answered before is kept.
        """

    def weights(self) -> Weights:
        """The weights saved last: as the stage began, or after a unit for which :meth:`Algorithm.ends_phase` holds."""

    def restore(self, weights: Weights) -> None:
        """Bring back weights, with the optimizer state that was saved with them; the weights as loaded have none."""

    def validate(self, label: str) -> float | None:
        """Roll out the validation panels; returns the mean sampled success, None without such panels."""

    @property
    def solved(self) -> frozenset[str]:
        """Tasks of validation panels that at least half of their sampled episodes solved, when last rolled out."""

    @property
    def validation_success(self) -> float | None:
        """Success on the validation panels at the end of the last finished stage."""

    def save_demonstrations(self, name: str, rollouts: Sequence[Rollout]) -> None:
        """Write episodes as AgentTraj JSON, ``successes/<env>_<name>.json``, which any run can clone."""

    def progress(self, label: str, done: int, total: int) -> None:
        """Show progress."""

    def say(self, text: str) -> None:
        """Print a line."""


# algorithms

C = TypeVar("C", bound=AlgorithmConfig)
Online = TypeVar("Online", bound=OnlineConfig)


class Algorithm(ABC, Generic[C]):
    """One algorithm of a run."""

    Config: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig

    def __init__(self, config: C) -> None:
        self.config = config

    @classmethod
    def needs(cls, config: C) -> Needs:
        """The requirements of a configuration."""
        return Needs()

    @property
    @abstractmethod
    def units(self) -> int:
        """How many units the stage has."""

    @property
    def steps(self) -> int:
        """Training steps of the stage; units where they are the same."""
        return self.units

    def prompt(self, env: str) -> str:
        """Text before the first observation that belongs to the policy, as a part of what it has learned.

        It is asked for whenever episodes begin: in training, on panels, and when the weights are saved, with which it
        goes to whoever evaluates or exports them. It may change between units. It counts in ``model.prompt_tokens``.
        """
        return ""

    def begin(self, run: Run) -> None:
        """Called when the stage begins, not when it resumes."""

    @abstractmethod
    def unit(self, run: Run, number: int) -> Metrics:
        """Do unit ``number`` (from 0); returns the algorithm's own metrics."""

    def ends_phase(self, number: int) -> bool:
        """True if the run is saved after this unit, whatever ``run.save_every`` says."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """The state that a resumed run needs beside the weights; JSON types."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, got {', '.join(sorted(state))}")


class OnlineAlgorithm(Algorithm[Online]):
    """An algorithm with steps or rounds; each is a unit where :attr:`units` says nothing else."""

    Config: ClassVar[type[OnlineConfig]] = OnlineConfig

    @property
    def units(self) -> int:
        return self.steps

    @property
    def steps(self) -> int:
        return self.config.steps

    def rate(self, number: int) -> float:
        """Learning rate of step ``number``, from 0, by the schedule of the configuration."""
        return self.config.optimizer.rate(self.config.lr, number, self.steps)
