"""Local models as policies: Hugging Face folders, hub ids and checkpoints of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentgym_rl.envs.extras import needs
from agentgym_rl.rollout import pretrained
from agentgym_rl.rollout.policies import ModelOptions, Policy, is_place


def folder_of(policy: str, fetch: Callable[[str], str] = pretrained.local) -> str | None:
    """The Hugging Face folder or hub id of a local model; None for another policy.

    A run's checkpoint is exported to the user's cache, and a model that has a name is fetched into it.

    Args:
        fetch: gives the folder of a model that has a name.

    Raises:
        FileNotFoundError, ValueError: there is no such run, checkpoint or folder, or the model cannot be fetched.
        MissingExtra: the engine, which reads checkpoints, is not installed.
    """
    if not is_place(policy):
        return None
    with needs(policy, "cpu"):
        from agentgym_rl.engine.recipe.checkpoint import find, is_run
        from agentgym_rl.engine.run.export import cached
    return str(cached(find(policy))) if is_run(policy) else fetch(policy)


def arguments(name: str, options: ModelOptions) -> dict[str, Any]:
    """Of a :class:`~agentgym_rl.rollout.policies.model.ModelPolicy` beside its folder."""
    return {
        "name": name, "temperature": options.temperature, "seed": options.seed,
        "prompt_tokens": options.prompt_tokens, "response_tokens": options.response_tokens,
        "template_arguments": options.template_arguments, "style": options.style, "prompts": options.prompts,
    }  # fmt: skip


def transformers_model(name: str, options: ModelOptions) -> Policy:
    """A Hugging Face model or a run's checkpoint in this process."""
    folder = folder_of(name)
    assert folder is not None
    with needs(name, "cpu"):
        from agentgym_rl.rollout.policies.model import TransformersModel
    return TransformersModel(folder, **arguments(name, options))
