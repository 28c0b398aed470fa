"""Stages of its own: rounds of three units, each resumable: explore, prefer, imitate.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=prefer_then_imitate

A round rolls out its tasks once, then learns twice from them: preferences between a success and a failure of a task
(DPO's loss), then the successes of all rounds so far. What exploration found is the algorithm's state: a run that stops
between two units goes on with the next one.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agentgym_rl.algorithms.base import Metrics, Needs, OnlineAlgorithm, Run
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.dpo import pairs
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.rows import Row, imitation
from agentgym_rl.rollout.supervised import Example


@dataclass(kw_only=True)
class PreferThenImitateConfig(OnlineConfig):
    """Keys of ``algorithm=prefer_then_imitate``; ``steps`` are rounds."""

    mini_batch: int = 8
    """Pairs or successes of an update."""
    beta: float = 0.1
    """How strongly the preference units tie the policy to the one that explored."""


class PreferThenImitate(OnlineAlgorithm[PreferThenImitateConfig]):
    """Unit 3k explores, 3k + 1 learns preferences, 3k + 2 imitates."""

    Config = PreferThenImitateConfig

    def __init__(self, config: PreferThenImitateConfig) -> None:
        super().__init__(config)
        self.pairs: list[tuple[Example, Example]] = []
        self.successes: list[Example] = []

    @classmethod
    def needs(cls, config: PreferThenImitateConfig) -> Needs:
        return Needs(samples_per_task=2, full_context="algorithm=prefer_then_imitate", rows_together=2)

    @property
    def units(self) -> int:
        return 3 * self.steps

    def unit(self, run: Run, number: int) -> Metrics:
        phases = (self.explore, self.prefer, self.imitate)
        return phases[number % 3](run, number // 3)

    def ends_phase(self, number: int) -> bool:
        return True

    def explore(self, run: Run, number: int) -> Metrics:
        rollouts = run.rollouts(run.requests(number), "explore", resumable=True)
        run.observe(rollouts)
        counted = [rollout for rollout in rollouts if rollout.segments]
        tokens = [rollout.segments[0] for rollout in counted]
        chosen = pairs([rollout.episode for rollout in counted], 1, f"{run.seed}:{number}")
        self.pairs = [(tokens[preferred], tokens[rejected]) for preferred, rejected in chosen]
        self.successes += [rollout.segments[0] for rollout in counted if rollout.episode.success]
        return {"prefer/pairs": len(self.pairs), "prefer/successes": len(self.successes)}

    def prefer(self, run: Run, number: int) -> Metrics:
        rows = [Row(example, {}) for pair in self.pairs for example in pair]
        loss, size = Preference(PreferenceConfig(beta=self.config.beta)), min(self.config.mini_batch, len(self.pairs))
        lr, seed = self.rate(number), f"{run.seed}:prefer:{number}"
        return run.learn(rows, loss, lr=lr, mini_batch=size, epochs=self.config.epochs, seed=seed)

    def imitate(self, run: Run, number: int) -> Metrics:
        demonstrated = [example for each in run.demonstrations for example in each.segments]
        rows = [imitation(example) for example in (*demonstrated, *self.successes)]
        lr, seed = self.rate(number), f"{run.seed}:imitate"
        return run.learn(rows, CROSS_ENTROPY, lr=lr, mini_batch=self.config.mini_batch, seed=seed, first_epoch=number)

    def state_dict(self) -> dict[str, Any]:
        pairs_found = [[asdict(preferred), asdict(rejected)] for preferred, rejected in self.pairs]
        return {"pairs": pairs_found, "successes": [asdict(example) for example in self.successes]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.pairs = [(Example(**preferred), Example(**rejected)) for preferred, rejected in state["pairs"]]
        self.successes = [Example(**saved) for saved in state["successes"]]
