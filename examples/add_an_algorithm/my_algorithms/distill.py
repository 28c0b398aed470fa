r"""On-policy distillation: the policy learns from a teacher on its own episodes.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=distill algorithm.teacher=runs/other/checkpoints/global_step_20

The advantage of a token is the teacher's log-probability of it less the policy's own,

.. math:: A_t = \log \pi_{teacher}(a_t | s_t) - \log \pi_{old}(a_t | s_t),

so that the expected update lowers the reverse KL divergence to the teacher. Rewards take no part. The numbers of tokens
stay with the engine: the loss reads the stream that ``Run.score`` has written beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omegaconf import MISSING

from agentgym_rl.algorithms.base import Metrics, Needs, OnlineAlgorithm, Run
from agentgym_rl.algorithms.config import PolicyGradientConfig
from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.model import Model

if TYPE_CHECKING:
    from torch import Tensor


class ReverseKL(Vanilla):
    """PPO's loss, with a teacher for the advantages."""

    streams = frozenset({"teacher"})

    def __call__(self, tokens: Tokens) -> Tensor:
        return super().__call__(taught(tokens))

    def clipped(self, tokens: Tokens) -> Tensor:
        return super().clipped(taught(tokens))

    def metrics(self, tokens: Tokens) -> Mapping[str, Tensor]:
        return {"reverse_kl": -taught(tokens).advantages}


def taught(tokens: Tokens) -> Tokens:
    """The tokens with their advantages."""
    return replace(tokens, streams={"advantage": tokens.streams["teacher"] - tokens.old_log_prob})


@dataclass(kw_only=True)
class DistillConfig(PolicyGradientConfig):
    """Keys of ``algorithm=distill``."""

    teacher: str = MISSING
    """A checkpoint of a run or a Hugging Face folder of the policy's size and vocabulary; or ``loaded``."""
    loss: VanillaConfig = field(default_factory=VanillaConfig)
    """PPO's, whose advantages are those above."""


class Distill(OnlineAlgorithm[DistillConfig]):
    """Roll out, score with the teacher, learn."""

    Config = DistillConfig

    @classmethod
    def needs(cls, config: DistillConfig) -> Needs:
        return Needs(models={"teacher": Model(start=config.teacher, key="algorithm.teacher"), **config.loss.models})

    def unit(self, run: Run, number: int) -> Metrics:
        config, loss = self.config, ReverseKL(self.config.loss)
        lr, size = self.rate(number), config.mini_batch_tasks
        for batch in run.batches(number):
            rows = run.score([row for rollout in batch for row in rollout.rows({})], by="teacher", name="teacher")
            run.learn(rows, loss, lr=lr, mini_batch=size, epochs=config.epochs)
        return {}
