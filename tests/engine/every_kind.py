"""An algorithm whose every unit has updates of all kinds, on rows of both kinds; for ``test_interleaved.py``."""

from dataclasses import dataclass, field

from agentgym_rl.algorithms.base import Metrics, Needs, OnlineAlgorithm, Run
from agentgym_rl.algorithms.config import PolicyGradientConfig
from agentgym_rl.algorithms.grpo import relative
from agentgym_rl.algorithms.losses.clipped import ClippedConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.losses.turn import Turn
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.rows import PerToken, imitation


@dataclass(kw_only=True)
class EveryKindConfig(PolicyGradientConfig):
    """Keys of ``algorithm=every_kind``."""

    loss: VanillaConfig = field(default_factory=VanillaConfig)


class EveryKind(OnlineAlgorithm[EveryKindConfig]):
    """Imitate, learn from a batch, prefer, and learn from rollouts with their tokens."""

    Config = EveryKindConfig

    @classmethod
    def needs(cls, config: EveryKindConfig) -> Needs:
        return Needs(samples_per_task=2)

    def unit(self, run: Run, number: int) -> Metrics:
        config, metrics = self.config, dict[str, float]()
        rollouts = [rollout for rollout in run.rollouts(run.requests(number), "rollouts") if rollout.segments]
        advantages = relative([rollout.episode.reward for rollout in rollouts], by_std=True)
        best, worst = (rollouts[advantages.index(most(advantages))] for most in (max, min))
        for batch in run.batches(number):
            metrics |= run.learn([imitation(best.segments[0], 0.5, 0.1)], CROSS_ENTROPY, lr=config.lr, mini_batch=1)
            rewards = relative([rollout.episode.reward for rollout in batch], by_std=True)
            rows = [
                row for rollout, reward in zip(batch, rewards, strict=True)
                for row in rollout.rows({"advantage": [reward] * len(rollout.episode.turns), "observation": 0.1})
            ]  # fmt: skip
            metrics |= run.learn(rows, Turn(ClippedConfig()), lr=config.lr, mini_batch=4, epochs=2)
        pair = [*best.rows({}), *worst.rows({})]
        metrics |= run.learn(pair, Preference(PreferenceConfig()), lr=config.lr, mini_batch=1)
        rows = []
        for rollout, advantage in zip(rollouts, advantages, strict=True):
            (tokens,) = rollout.segments
            rows += rollout.rows({"advantage": PerToken([advantage] * len(tokens.input_ids)), "observation": 0.1})
        learned = run.learn(rows, Vanilla(VanillaConfig(entropy=0.01)), lr=config.lr, mini_batch=8, epochs=2)
        return metrics | {f"every_kind/{name.partition('/')[2]}": value for name, value in learned.items()}
