r"""AgentEvol (arXiv 2406.04151, section 4.2): explore, keep what the environment rewarded, learn; M rounds.

Round m explores with the present policy, which gives D_m, and maximises

.. math:: E_{(e,u,\tau) \sim D_s \cup D_m} [ r(e, u, \tau) \log \pi_\theta(\tau | e, u) ]

over the tokens of the responses, starting from the base weights, with the demonstrations D_s (reward 1). For binary
rewards this is supervised fine-tuning on successes.

Departures, each a key: ``restart_from=current`` goes on from the weights that explored; ``accumulate`` learns from
D_1 ... D_m; ``max_per_task`` keeps the shortest successes of a task, not all; ``keep_best`` undoes a round that lowers
validation success, or loses tasks; ``success_threshold`` keeps by the reward, ``filter=false`` keeps failures, too;
``search`` branches from failed episodes; ``hindsight`` relabels them (:mod:`.hindsight`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from agentgym_rl.algorithms.base import LOADED, Metrics, Needs, OnlineAlgorithm, Rollout, Run, Weights
from agentgym_rl.algorithms.bc import demonstrated
from agentgym_rl.algorithms.checks import at_least
from agentgym_rl.algorithms.config import OnlineConfig, operational, within
from agentgym_rl.algorithms.hindsight import Hindsight, HindsightConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.optimizer import SupervisedOptimizerConfig
from agentgym_rl.algorithms.rows import Row, Span, imitation
from agentgym_rl.algorithms.search import Branch, SearchConfig, search
from agentgym_rl.data.episode import Episode, shallow
from agentgym_rl.rollout.supervised import Example


class RestartFrom(StrEnum):
    """Weights that the learning of a round starts from."""

    BASE = "base"
    CURRENT = "current"


class Gate(StrEnum):
    """What undoes a round with ``keep_best``."""

    MEAN = "mean"
    FLIPS = "flips"


@dataclass(kw_only=True)
class AgentEvolConfig(OnlineConfig):
    """Keys of ``algorithm=agentevol``; ``steps`` are rounds."""

    steps: int = operational(3)
    """Rounds."""
    tasks_per_step: int = 400
    """Tasks that a round explores."""
    samples_per_task: int = 2
    """Episodes of a task in a round."""
    lr: float = 1e-5
    """Learning rate of a round's first pass; by default it falls linearly to a tenth."""
    epochs: int = 4
    """Passes of a round over demonstrations and successes."""
    optimizer: SupervisedOptimizerConfig = field(default_factory=SupervisedOptimizerConfig)
    """Schedule of the learning rate of a round, and AdamW's settings."""
    mini_batch_trajectories: int = 16
    """Trajectories of an update."""
    restart_from: RestartFrom = RestartFrom.BASE
    """Weights that the learning of a round starts from: base (as loaded, before cloning) or current."""
    accumulate: bool = False
    """Keep the successes of earlier rounds in the training set."""
    max_per_task: int = 1
    """Most successes (``filter=false``: episodes) kept of a task and round, the shortest first."""
    filter: bool = True
    """Learn successes, weighted by their reward; false: failures, too, all alike, to show what the reward is worth."""
    success_threshold: dict[str, float] = field(default_factory=dict)
    """By environment: keep episodes whose reward is greater. Others keep what their environment calls a success."""
    keep_best: bool = False
    """Undo a round that makes the validation panels worse, by ``gate``."""
    gate: Gate = Gate.MEAN
    """What is worse: a lower mean success (mean), or more than ``gate_losses`` tasks that were solved and are not any
    more, whatever others were won (flips). A task is solved if at least half of its episodes are."""
    gate_losses: int = 0
    """Most tasks that a round may lose with ``gate=flips``."""
    learn_invalid: bool = True
    """Also learn the turns of a success whose action was refused; false leaves them as context of those that mend them
    (AgentRefine, arXiv 2501.01702)."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Tree search for tasks on which all samples failed."""
    hindsight: HindsightConfig = field(default_factory=HindsightConfig)
    """Failed episodes as successes under the goals that they reached."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "mini_batch_trajectories", "max_per_task")
        at_least(self, 0, "gate_losses")

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = [f"search.{key}" for key in ("exploration", "branches", "resamples")]
        unsearched = {} if self.search.calls else dict.fromkeys(keys, "algorithm.search.calls=0 does not search")
        reasons = {**super().unused(off_policy=off_policy, environments=environments), **unsearched}
        reasons |= within("hindsight", self.hindsight.unused())
        if not self.filter:
            reasons["success_threshold"] = "algorithm.filter=false learns from every episode"
        if self.gate is Gate.MEAN:
            reasons["gate_losses"] = "algorithm.gate=mean compares the mean"
        if not self.keep_best:
            reasons |= dict.fromkeys(("gate", "gate_losses"), "algorithm.keep_best=false undoes no round")
        return reasons


@dataclass(frozen=True, slots=True)
class Success:
    """An episode worth learning from, with its tokens."""

    env: str
    item_id: str
    round: int
    reward: float
    responses: tuple[str, ...]
    segments: tuple[Example, ...]
    unlearned: tuple[tuple[Span, ...], ...]
    """Of each segment, the responses that are context alone."""


class AgentEvol(OnlineAlgorithm[AgentEvolConfig]):
    """A round is one unit of exploration and ``epochs`` units of learning."""

    Config = AgentEvolConfig

    def __init__(self, config: AgentEvolConfig) -> None:
        super().__init__(config)
        self.successes: list[Success] = []
        """Those that the next learning uses."""
        self.solved: set[str] = set()
        """Item ids of the tasks solved in any round."""
        self.hindsight = Hindsight(config.hindsight)
        self.explored_with = LOADED
        self.best: float | None = None
        """With ``keep_best``, validation success of the weights that were kept last."""
        self.held: frozenset[str] = frozenset()
        """With ``gate=flips``, the validation tasks that they solve."""

    @classmethod
    def needs(cls, config: AgentEvolConfig) -> Needs:
        return Needs(
            takes_demonstrations=True,
            loaded_weights=config.restart_from is RestartFrom.BASE,
            validation="algorithm.keep_best" if config.keep_best else None,
            full_context="algorithm.search" if config.search.calls else None,
            relabels="algorithm.hindsight.max_per_goal" if config.hindsight.max_per_goal else None,
            environments={"algorithm.success_threshold": config.success_threshold},
            by_environment="algorithm.success_threshold" if config.success_threshold else None,
            equal_updates={"algorithm.mini_batch_trajectories": config.mini_batch_trajectories},
        )

    @property
    def units(self) -> int:
        return self.steps * (1 + self.config.epochs)

    def begin(self, run: Run) -> None:
        self.best = run.validation_success
        if self.config.keep_best and (self.config.gate is Gate.FLIPS or self.best is None):
            self.best, self.held = run.validate("agentevol_round0"), run.solved

    def unit(self, run: Run, number: int) -> Metrics:
        number_of_round, phase = divmod(number, 1 + self.config.epochs)
        if phase == 0:
            return self.explore(run, number_of_round)
        metrics = self.learn(run, number_of_round, phase - 1)
        return metrics | self.validate(run, number_of_round) if self.ends_phase(number) else metrics

    def ends_phase(self, number: int) -> bool:
        return number % (1 + self.config.epochs) in (0, self.config.epochs)

    def explore(self, run: Run, number: int) -> Metrics:
        """Roll out the round's tasks, search where all samples failed, and keep the successes."""
        begun = time.monotonic()
        self.explored_with = run.weights()
        requests = [replace(request, tags={**request.tags, "round": number + 1}) for request in run.requests(number)]
        explored = run.rollouts(requests, f"round {number + 1}: explore", resumable=True)
        run.observe(explored)
        branches, searched = self.search(run, number, explored) if self.config.search.calls else ([], {})
        counted = [rollout for rollout in [*explored, *branches] if rollout.segments]
        kept, metrics = self.keep(number + 1, counted)
        successes = [rollout for rollout in kept if self.succeeded(rollout.episode)]
        run.save_demonstrations(f"round{number + 1}", successes)
        if self.config.hindsight.max_per_goal:
            metrics |= self.relabel(run, number + 1, counted)
        return metrics | searched | {"agentevol/round": number + 1, "agentevol/explore_s": time.monotonic() - begun}

    def search(self, run: Run, number: int, explored: Sequence[Rollout]) -> tuple[list[Rollout], Metrics]:
        """Search the tasks whose samples all failed; returns the branches that may be learned from."""

        def roll_out(branches: Sequence[Branch]) -> list[Rollout]:
            requests = [branch.request(round=number + 1) for branch in branches]
            return run.rollouts(requests, f"round {number + 1}: search", resumable=True)

        samples = [rollout for rollout in explored if rollout.segments]
        seed = f"{run.seed}:{number}"
        outcome = search(
            samples, roll_out, self.config.search, replayable=run.replayable, seed=seed, succeeded=self.succeeded
        )
        return outcome.kept, outcome.metrics()

    def keep(self, number: int, rollouts: Sequence[Rollout]) -> tuple[list[Rollout], Metrics]:
        """Filter the rollouts of a round. No two successes of a task have the same responses, whatever their round.

        Args:
            number: of the round.
            rollouts: all that count.

        Returns:
            The rollouts kept, and by environment ``agentevol/<env>/{explored,kept,new_tasks,tokens,seconds}``, the
            last summed over all episodes, and the size of the pool.
        """
        before = self.successes if self.config.accumulate else []
        seen = {(success.item_id, success.responses) for success in before}
        count: Counter[str] = Counter()
        successes: dict[int, Success] = {}
        for index, rollout in sorted(enumerate(rollouts), key=lambda numbered: len(numbered[1].episode.turns)):
            episode = rollout.episode
            responses = tuple(turn.response for turn in episode.turns)
            new = (episode.item_id, responses) not in seen and count[episode.item_id] < self.config.max_per_task
            if new and self.keeps(episode):
                seen.add((episode.item_id, responses))
                count[episode.item_id] += 1
                successes[index] = self._success(rollout, number, episode.reward if self.config.filter else 1.0)
        self.successes = [*before, *(successes[index] for index in sorted(successes))]
        metrics: Metrics = {"agentevol/kept": len(successes), "agentevol/pool": len(self.successes)}
        for env in sorted({rollout.episode.env for rollout in rollouts}):
            episodes = [rollout.episode for rollout in rollouts if rollout.episode.env == env]
            solved = {episode.item_id for episode in episodes if self.succeeded(episode)}
            metrics |= {
                f"agentevol/{env}/explored": len(episodes),
                f"agentevol/{env}/kept": sum(success.env == env for success in successes.values()),
                f"agentevol/{env}/new_tasks": len(solved - self.solved),
                f"agentevol/{env}/tokens": sum(episode.response_tokens for episode in episodes),
                f"agentevol/{env}/seconds": sum(episode.seconds for episode in episodes),
            }
            self.solved |= solved
        return [rollouts[index] for index in sorted(successes)], metrics

    def relabel(self, run: Run, number: int, rollouts: Sequence[Rollout]) -> Metrics:
        """Add the failed episodes of a round that reached other goals."""
        failed = [rollout.episode for rollout in rollouts if not self.succeeded(rollout.episode)]
        known = {(success.item_id, success.responses) for success in self.successes}
        learned = len(run.demonstrations) + len(self.successes)
        relabelled, metrics = self.hindsight.relabel(run, failed, learned, known)
        weight = self.config.hindsight.weight
        self.successes += [self._success(rollout, number, weight) for rollout in relabelled]
        return metrics

    def _success(self, rollout: Rollout, number: int, reward: float) -> Success:
        episode, segments = rollout.episode, tuple(rollout.segments)
        responses = tuple(turn.response for turn in episode.turns)
        context = rollout.unlearned(learn_invalid=self.config.learn_invalid)
        return Success(episode.env, episode.item_id, number, reward, responses, segments, context)

    def keeps(self, episode: Episode) -> bool:
        """True if an episode may be learned from."""
        return self.succeeded(episode) or (episode.ending.counts and not self.config.filter)

    def succeeded(self, episode: Episode) -> bool:
        """True if an episode has done what it should."""
        threshold = self.config.success_threshold.get(episode.env)
        return episode.ending.counts and (episode.success if threshold is None else episode.reward > threshold)

    def learn(self, run: Run, number: int, epoch: int) -> Metrics:
        """One pass over demonstrations and successes."""
        config, begun = self.config, time.monotonic()
        if epoch == 0 and config.restart_from is RestartFrom.BASE:
            run.restore(LOADED)
        metrics = run.learn(
            [*demonstrated(run), *self.rows(run.observation_weight)],
            CROSS_ENTROPY,
            lr=config.optimizer.rate(config.lr, epoch, config.epochs),
            mini_batch=config.mini_batch_trajectories,
            seed=f"{run.seed}:evolve:{number}",
            first_epoch=epoch,
        )
        return metrics | {"agentevol/learn_s": time.monotonic() - begun}

    def rows(self, observations: float = 0.0) -> list[Row]:
        """The successes, their loss scaled by the reward."""
        return [
            imitation(segment, success.reward, observations, context)
            for success in self.successes
            for segment, context in zip(success.segments, success.unlearned, strict=True)
        ]

    def validate(self, run: Run, number: int) -> Metrics:
        """Validate the round; with ``keep_best`` go back to its start if the gate says so."""
        success = run.validate(f"agentevol_round{number + 1}")
        if success is None:
            return {}
        metrics = {"agentevol/validation": success}
        if self.config.keep_best:
            worse, why = self.best is not None and success < self.best, f"lowered validation success to {success:.3f}"
            if self.config.gate is Gate.FLIPS:
                lost = len(self.held - run.solved)
                worse, why = lost > self.config.gate_losses, f"lost {lost} validation tasks"
                metrics["agentevol/lost"] = float(lost)
            metrics["agentevol/undone"] = float(worse)
            if worse:
                run.say(f"round {number + 1} {why}; undone")
                run.restore(self.explored_with)
            else:
                self.best, self.held = success, run.solved
        return metrics

    def state_dict(self) -> dict[str, Any]:
        successes = [
            {**shallow(success), "segments": [shallow(part) for part in success.segments]} for success in self.successes
        ]
        pool = {"solved": sorted(self.solved), "successes": successes}
        return {
            "best": self.best,
            "held": sorted(self.held),
            "goals": sorted(map(list, self.hindsight.goals)),
            "explored_with": self.explored_with.to_dict(),
            "pool": pool,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best, self.held = state["best"], frozenset(state["held"])
        self.hindsight.goals = {(env, goal) for env, goal in state["goals"]}
        self.explored_with = Weights.from_dict(state["explored_with"])
        self.solved, self.successes = set(state["pool"]["solved"]), []
        for saved in state["pool"]["successes"]:
            parts = {
                "responses": tuple(saved["responses"]),
                "segments": tuple(Example(**segment) for segment in saved["segments"]),
                "unlearned": tuple(tuple((start, end) for start, end in spans) for spans in saved["unlearned"]),
            }
            self.successes.append(Success(**{**saved, **parts}))
