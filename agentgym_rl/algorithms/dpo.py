r"""Direct preference optimisation (DPO, arXiv 2305.18290) on a successful and a failed episode of the same task.

.. math:: L = - \log \sigma\Big(\beta \Big[\log \frac{\pi_\theta(\tau^+)}{\pi_{ref}(\tau^+)}
          - \log \frac{\pi_\theta(\tau^-)}{\pi_{ref}(\tau^-)}\Big]\Big)

with :math:`\log \pi(\tau)` summed over the tokens of the responses; observations have the same probability under both
policies and cancel. :math:`\beta` is ``algorithm.beta``.

Departures: the paper learns offline from fixed pairs with a fixed reference. Here each step rolls out the current
policy, which is also the reference of that step, as in iterative preference optimisation (arXiv 2404.19733). Success
takes the place of an annotator. The first update of a step therefore starts at a margin of 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from agentgym_rl.algorithms.base import Metrics, Needs, OnlineAlgorithm, Run
from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class DPOConfig(OnlineConfig):
    """Keys of ``algorithm=dpo``."""

    tasks_per_step: int = 64
    """Tasks of a step."""
    lr: float = 5e-7
    """Learning rate."""
    mini_batch_pairs: int = 16
    """Pairs of an update."""
    pairs_per_task: int = 2
    """Most pairs of a task and step."""
    beta: float = 0.1
    """How strongly the policy is tied to the reference."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "mini_batch_pairs", "pairs_per_task")
        above(self, 0, "beta")


class DPO(OnlineAlgorithm[DPOConfig]):
    """Roll out, pair, learn the preference."""

    Config = DPOConfig

    @classmethod
    def needs(cls, config: DPOConfig) -> Needs:
        return Needs(samples_per_task=2, full_context="algorithm=dpo", rows_together=2)

    def unit(self, run: Run, number: int) -> Metrics:
        config, seed = self.config, f"{run.seed}:dpo:{run.step}"
        rollouts = run.rollouts(run.requests(number), "rollouts")
        run.observe(rollouts)
        counted = [rollout for rollout in rollouts if rollout.segments]
        chosen = pairs([rollout.episode for rollout in counted], config.pairs_per_task, seed)
        metrics = {"dpo/pairs": float(len(chosen)), "dpo/updates": 0.0}
        if not chosen:
            run.say(f"dpo: step {number + 1} learned nothing: no task was both solved and failed")
            return metrics
        learned = run.learn(
            [row for pair in chosen for index in pair for row in counted[index].rows({})],
            Preference(PreferenceConfig(beta=config.beta)),
            lr=self.rate(number),
            mini_batch=min(config.mini_batch_pairs, len(chosen)),
            epochs=config.epochs,
            seed=seed,
        )
        return metrics | learned | {"actor/grad_norm": learned["dpo/grad_norm"], "actor/lr": learned["dpo/lr"]}


def pairs(episodes: Sequence[Episode], per_task: int, seed: str) -> list[tuple[int, int]]:
    """Indices of (preferred, rejected) episodes: the shortest success of a task and up to ``per_task`` of its failures.

    Among successes of equal length the first is taken. ``seed`` and the task draw the failures. Episodes that do not
    count are in no pair.
    """
    won: dict[str, list[int]] = defaultdict(list)
    lost: dict[str, list[int]] = defaultdict(list)
    for index, episode in enumerate(episodes):
        if episode.ending.counts:
            (won if episode.success else lost)[episode.item_id].append(index)
    chosen: list[tuple[int, int]] = []
    for task, winners in won.items():
        best = min(winners, key=lambda index: len(episodes[index].turns))
        losers = Random(f"{seed}:{task}").sample(lost[task], min(per_task, len(lost[task])))
        chosen += [(best, loser) for loser in losers]
    return chosen
