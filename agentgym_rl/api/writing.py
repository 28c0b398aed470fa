"""Policy and writer of the commands in which one writes about the episodes of the other."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from agentgym_rl.api.policies import LOCAL, open_policy
from agentgym_rl.api.request import Writing
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.rollout.policies import Policy, is_place
from agentgym_rl.rollout.policies.api import ChatModel

T = TypeVar("T")


def check_models(request: Writing) -> None:
    """Raises ValueError: policy or writer is none that reads or writes, or a key has no effect on them."""
    for key, name in {"policy": request.policy, "writer": request.writer}.items():
        if name in ("oracle", "random", "human"):
            raise ValueError(f"{key}={name} neither reads nor writes; give openai:<model>@<url> or a model")
    names = request.policy, request.writer
    policy_paid, writer_paid = (name.startswith("openai:") for name in names)
    for reason, holds, keys in (
        ("neither policy nor writer is a model behind an API", not (policy_paid or writer_paid),
         ("price", "max_cost", "without")),
        ("policy and writer are one model", request.policy == request.writer, ("writer_price", "writer_per_minute")),
        ("the writer is no model behind an API", not writer_paid, ("writer_price", "writer_per_minute")),
        ("the policy is no model behind an API", not policy_paid, ("per_minute",)),
        ("neither policy nor writer is a local model", not any(map(is_place, names)), LOCAL),
    ):  # fmt: skip
        if holds and (unread := request.given(*keys)):
            raise ValueError(f"{unread[0]}= has no effect: {reason}; leave it out")


def open_models(request: Writing, rules: Rules) -> tuple[Policy, Policy]:
    """Policy and writer, whose cost is limited together."""
    sequences = max(16, request.concurrency or 0)

    def opened(name: str, price: list[float], per_minute: float | None) -> Policy:
        paid = {"price": (price[0], price[1]), "max_cost": request.max_cost, "per_minute": per_minute,
                "without": request.without} if name.startswith("openai:") else {}  # fmt: skip
        return open_policy(
            name, rules, backend=request.backend if is_place(name) else "auto", sequences=sequences,
            temperature=request.temperature, seed=request.seed, **paid,
        )  # fmt: skip

    policy = opened(request.policy, request.price, request.per_minute)
    if request.writer == request.policy:
        return policy, policy
    writer = opened(request.writer, request.writer_price or request.price, request.writer_per_minute)
    if isinstance(policy, ChatModel) and isinstance(writer, ChatModel):
        policy.beside, writer.beside = [writer], [policy]
    return policy, writer


def distinct(policy: Policy, writer: Policy) -> list[Policy]:
    """Policy and writer; one where they are the same."""
    return list({id(model): model for model in (policy, writer)}.values())


async def closing_all(models: Sequence[Policy], work: Awaitable[T]) -> T:
    """The result of ``work``, after which the models are closed."""
    try:
        return await work
    finally:
        for model in models:
            await model.close()
