"""Policies by name: one parser for every command that runs episodes.

=========================================  ===========================================================================
name                                       policy
=========================================  ===========================================================================
``oracle``, ``random``                     the environment's own solution; a uniform choice of actions
``human``                                  a person at the terminal; where a command offers it
``openai:<model>@<url>``                   a model behind an OpenAI-compatible API
``<folder>``, ``<owner>/<model>``          a Hugging Face model, from disk or the hub
``smollm2_135m``, ``smollm2_135m:hub``     a pretrained model by name (:mod:`agentgym_rl.rollout.pretrained`)
``<run>``, ``<run>:<stage>``, and          weights of a run of this package
``<run>/checkpoints/global_step_<n>``
=========================================  ===========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_rl.rollout import pretrained
from agentgym_rl.rollout.policies.base import Policy, Price, Usage
from agentgym_rl.rollout.policies.scripted import Human, Oracle, Random

__all__ = ["Human", "ModelOptions", "Oracle", "Policy", "Price", "Random", "Usage", "is_place", "open_policy"]

KNOWN = (
    f"oracle, random, a run (runs/NAME, runs/NAME:STAGE), a model's name ({', '.join(pretrained.NAMES)}), folder or "
    "hub id (OWNER/NAME), or openai:<model>@<url>"
)
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How a language model generates; other policies read the seed only."""

    temperature: float = 1.0
    """0 is greedy."""
    seed: int = 0
    prompt_tokens: int | None = None
    """Most tokens before the first response of a local model; None is half its context."""
    response_tokens: int | None = None
    """Most tokens from the first response on; None is what the context leaves."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of a local model's chat template."""
    style: str = "agentgym"
    """Wording of the episodes, which a local model's chat template must render."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What a model reads before the first observation, by environment."""
    price: Price = (0, 0)
    max_cost: float | None = None
    """Of an API, in the currency of the price."""
    per_minute: float | None = None
    """Most requests a minute of an API."""
    without: Sequence[str] = ()
    """Parameters that are not sent to an API."""


def is_place(name: str) -> bool:
    """Whether a policy is named by a place of weights rather than by a word or an address.

    Raises:
        FileNotFoundError: the place looks like one on this machine and does not exist.
        ValueError: no policy has such a name.
    """
    if name in ("oracle", "random", "human") or name.startswith("openai:"):
        return False
    if pretrained.find(name) is not None or Path(name).exists():
        return True
    run = name.rpartition(":")[0]
    if run and Path(run).is_dir():
        return True
    if "/" not in name:
        raise ValueError(f"policy {name!r} is unknown; choose {KNOWN}")
    if _ON_HUB.fullmatch(name) is None or name[0] == "." or name.startswith("runs/") or Path(name).parent.is_dir():
        raise FileNotFoundError(f"policy {name!r} does not exist; choose {KNOWN}")
    return True


def open_policy(name: str, options: ModelOptions, open_model: Callable[[str, ModelOptions], Policy]) -> Policy:
    """The policy with a name.

    Args:
        open_model: opens a place of weights; the caller knows the backends and what a run's checkpoint is.

    Raises:
        FileNotFoundError, ValueError: there is no such policy, or an option of an API is given for another policy.
        MissingExtra: the policy needs a package that is not installed.
    """
    asked = {"price": any(options.price), "max_cost": options.max_cost is not None,
             "per_minute": options.per_minute is not None, "without": bool(options.without)}  # fmt: skip
    if not name.startswith("openai:") and any(asked.values()):
        key = next(key for key, given in asked.items() if given)
        raise ValueError(f"{key} is for a model behind an API, not for policy {name!r}; leave it out")
    if is_place(name):
        return open_model(name, options)
    match name:
        case "oracle":
            return Oracle()
        case "random":
            return Random(options.seed)
        case "human":
            raise ValueError("policy 'human' is for `agentgym-rl play`")
    from agentgym_rl.rollout.policies.api import ChatModel

    model = ChatModel(
        name,
        temperature=options.temperature,
        seed=options.seed,
        price=options.price,
        max_cost=options.max_cost,
        per_minute=options.per_minute,
        without=options.without,
    )
    model.prompts = options.prompts
    return model
