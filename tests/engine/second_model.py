"""Distillation of the policy, and a reward model that learns beside it; for ``test_models.py``."""

import os
from dataclasses import replace

from agentgym_rl.algorithms.base import Metrics, Needs, Run, groups
from agentgym_rl.algorithms.distill import Distill
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.model import Model


class SecondModel(Distill):
    """After each step of the policy, a reward model learns to tell a group's best episode from its worst."""

    @classmethod
    def needs(cls, config) -> Needs:
        needs = super().needs(config)
        return replace(needs, models={**needs.models, "prm": Model(trained=True)}, rows_together=2)

    def unit(self, run: Run, number: int) -> Metrics:
        if number == 1 and os.environ.get("KILLED"):
            raise SystemExit("killed")
        metrics = super().unit(run, number)
        rollouts = [rollout for rollout in run.rollouts(run.requests(number), "rollouts") if rollout.segments]
        pairs = []
        for group in groups(rollouts):
            best, worst = (of(group, key=lambda rollout: rollout.episode.reward) for of in (max, min))
            if best.episode.reward > worst.episode.reward:
                pairs += [*best.rows({}), *worst.rows({})]
        before = run.score(pairs, by="prm", name="prm", read=True, entropy=True)
        preference = Preference(PreferenceConfig())
        metrics |= run.learn(pairs, preference, lr=1e-3, mini_batch=4, epochs=2, seed=f"{number}", model="prm")
        after = run.score(run.score(before, by="prm", name="learned", read=True), name="policy")
        return metrics | {
            "prm/pairs": len(pairs) / 2, "prm/before": margin(before, "prm"), "prm/after": margin(after, "learned"),
            "prm/policy": margin(after, "policy"), "prm/entropy": sum(after[0].streams["prm_entropy"]),
        }  # fmt: skip


def margin(rows, name) -> float:
    """By how much better rows have greater log-probabilities."""
    sums = [
        sum(value * weight for value, weight in zip(row.streams[name], row.segment.loss_weight, strict=True))
        for row in rows
    ]
    return sum(better - worse for better, worse in zip(sums[::2], sums[1::2], strict=True))
