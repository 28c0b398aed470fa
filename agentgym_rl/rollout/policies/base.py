"""What every policy is: something that runs an episode of a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Message, Task, TextEnv
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.loop import Watch
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.texts import Written

Price = tuple[float, float]
"""Of a million prompt tokens and of a million completion tokens."""


@dataclass(slots=True)
class Usage:
    """Calls and tokens of a language model."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Count one call."""
        self.calls += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    def cost(self, price: Price) -> float:
        """In the currency of the price."""
        return (self.prompt_tokens * price[0] + self.completion_tokens * price[1]) / 1e6

    def to_dict(self, price: Price = (0, 0)) -> dict[str, Any]:
        """Calls, tokens and, where there is a price, what they cost."""
        counts = {"calls": self.calls, "prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return counts | ({"price": round(self.cost(price), 6)} if any(price) else {})


class Policy(ABC):
    """Runs episodes, any number at once, in sessions that it is given."""

    name: str
    """Identifies it in journals and results: of a model with its folder or address."""
    weights: str = ""
    """Changes with what is behind the name: weights on disk, or the files of a program; empty where nobody can tell."""
    usage: Usage | None = None
    """Counted up while a language model generates; None for a policy without one."""
    backend: str | None = None
    """What generates a local model's tokens: vllm or transformers."""
    temperature: float | None = None
    """At which a language model samples; None for a policy without one."""
    seed: int | None = None
    """Of its draws, beside task and sample; None for a policy that draws nothing by a seed."""
    prompt_tokens: int | None = None
    """Most tokens before the first response of a local model."""
    response_tokens: int | None = None
    """Most tokens from there on."""
    own_context: bool = False
    """It holds the conversation itself: ``context`` of the rules hides no turn from its model."""
    prompts: Mapping[str, str] = MappingProxyType({})
    """What its model reads before the first observation, by environment; one without a model reads nothing."""

    exemplars: Exemplars | None = None
    """Solved episodes that its model reads after that."""

    def preface(self, env: TextEnv, task: Task) -> str:
        """What its model reads before the first observation of a task."""
        solved = "" if self.exemplars is None else self.exemplars.text(env, task)
        return "\n\n".join(filter(None, [self.prompts.get(task.env), solved]))

    @abstractmethod
    async def run(
        self, env: TextEnv, task: Task, settings: RolloutSettings, sample: int = 0, watch: Watch | None = None
    ) -> Episode:
        """Run an episode of a task in a session, see :func:`agentgym_rl.rollout.loop.run_episode`.

        Args:
            sample: number of the episode among those of its task; each draws from a seed of its own.
        """

    async def write(self, messages: Sequence[Message], *, seed: int, temperature: float, max_tokens: int) -> Written:
        """See :class:`agentgym_rl.rollout.texts.Writer`; only a language model, or a function, writes texts."""
        raise ValueError(f"policy {self.name!r} chooses actions, and writes no texts")

    async def close(self) -> None:  # noqa: B027 (most policies hold nothing)
        """Stop what the policy started; it starts again with the next episode."""
