"""The settings of an evaluation, which its result carries."""

from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.eval.evaluation.rules import Rules, digests
from agentgym_rl.eval.evaluation.suite import Suite
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.runner import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An evaluation before it runs. Equal plans give equal results, as far as the policy is deterministic."""

    suite: Suite
    policy: str
    """Name of the policy: a model with its address or folder."""
    weights: str = ""
    """See :attr:`agentgym_rl.rollout.policies.Policy.weights`."""
    rules: Rules = field(default_factory=Rules)
    samples: int = 1
    """Episodes of each task."""
    temperature: float = 0.0
    """Of a model's sampling; 0 is greedy."""
    seed: int = 0
    """Of sampling and of resampled intervals."""
    backend: str | None = None
    """What generates a local model's tokens: vllm or transformers."""
    exemplars: Exemplars | None = None
    """What the model reads of others' episodes."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples is {self.samples}; give at least 1")
        if self.temperature < 0:
            raise ValueError(f"temperature is {self.temperature:g}; give 0 (greedy) or more")

    @property
    def jobs(self) -> list[Job]:
        """The episodes, in the order of a result."""
        return [Job(task, number) for task in self.suite.tasks for number in range(self.samples)]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; two evaluations with equal ones may share their episodes."""
        shown = self.exemplars
        exemplars = {} if shown is None else {"exemplars": {"digest": shown.digest, "nearest": shown.nearest}}
        return {
            "policy": self.policy,
            "weights": self.weights,
            "backend": self.backend,
            "panel": self.suite.to_dict(),
            "samples": self.samples,
            "temperature": self.temperature,
            "seed": self.seed,
            "rules": self.rules.to_dict() | {"prompts": digests(self.rules.prompts)} | exemplars,
        }
