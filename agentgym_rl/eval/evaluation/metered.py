"""A model behind an API, with limits on what it may cost and how often it is asked."""

from __future__ import annotations

import asyncio
import time

from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.conversation import Reply
from agentgym_rl.rollout.policies.api import ChatModel


class BudgetSpent(ValueError):
    """The model has cost as much as it may."""


class Metered(ChatModel):
    """Asks only while there is money left, and no more often than allowed.

    Args:
        price: of a million prompt tokens and of a million completion tokens.
        max_cost: in the currency of the price; None is no limit. Requests that are under way when it is reached are
            still paid for.
        per_minute: most requests a minute; None is no limit beside the server's own, which are waited out.

    Raises:
        ValueError: a limit is out of range, or there is a limit on the cost without a price.
    """

    def __init__(
        self,
        name: str,
        *,
        temperature: float,
        turn_tokens: int,
        price: tuple[float, float] = (0, 0),
        max_cost: float | None = None,
        per_minute: float | None = None,
    ) -> None:
        if max_cost is not None and (max_cost <= 0 or not any(price)):
            raise ValueError(f"max_cost={max_cost:g} needs to be above 0, and a price, like price=0.15,0.60")
        if per_minute is not None and per_minute <= 0:
            raise ValueError(f"per_minute={per_minute:g} needs to be above 0")
        super().__init__(name, temperature=temperature, turn_tokens=turn_tokens)
        self.price, self.max_cost, self.per_minute = price, max_cost, per_minute
        self._next = 0.0

    @property
    def cost(self) -> float:
        return (self.usage.prompt_tokens * self.price[0] + self.usage.completion_tokens * self.price[1]) / 1e6

    async def reply(self, messages: list[Message], seed: int) -> Reply | None:
        """The model's next message; see :meth:`ChatModel.reply`.

        Raises:
            BudgetSpent: nothing was asked, as it would cost more than it may.
        """
        if self.max_cost is not None and self.cost >= self.max_cost:
            raise BudgetSpent(
                f"{self.name} has cost {self.cost:.2f}, of {self.max_cost:g} that it may; the same command with a "
                "greater max_cost= goes on"
            )
        if self.per_minute is not None:
            now = time.monotonic()
            self._next, wait = max(now, self._next) + 60 / self.per_minute, self._next - now
            await asyncio.sleep(max(0.0, wait))
        return await super().reply(messages, seed)
