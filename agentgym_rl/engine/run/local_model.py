"""Local models as policies: Hugging Face folders, hub ids and checkpoints of runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from agentgym_rl.envs.extras import missing, needs
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
        from agentgym_rl.engine.run import export
    return str(export.cached(export.find(policy))) if export.is_run(policy) else fetch(policy)


def local_model(name: str, options: ModelOptions, backend: str = "auto", sequences: int = 256) -> Policy:
    """A Hugging Face model or a run's checkpoint in this process; see :mod:`agentgym_rl.rollout.policies`."""
    folder = folder_of(name)
    assert folder is not None
    with needs(name, "cpu"):
        from agentgym_rl.engine.platform import vllm_cpu
        from agentgym_rl.engine.platform.detect import on_cpu
        from agentgym_rl.engine.verl.environment import environment
        from agentgym_rl.rollout.policies import vllm
        from agentgym_rl.rollout.policies.model import TransformersModel
    if backend == "vllm" and not vllm.installed():
        raise missing("backend=vllm", "vllm", "cpu")
    limits: dict[str, Any] = {
        "name": name, "temperature": options.temperature, "seed": options.seed,
        "prompt_tokens": options.prompt_tokens, "response_tokens": options.response_tokens,
        "template_arguments": options.template_arguments, "style": options.style, "prompts": options.prompts,
    }  # fmt: skip
    if backend == "transformers" or not vllm.installed():
        return TransformersModel(folder, **limits)
    os.environ.update(environment("cpu" if on_cpu() else "cuda"))
    vllm_cpu.register()
    return vllm.VllmModel(folder, cpu=on_cpu(), sequences=sequences, **limits)
