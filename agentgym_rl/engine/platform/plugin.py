"""verl's plugin entry point.

verl loads it while its own package is being imported and only logs a failure at debug level. So nothing of verl but
the platform registry is touched here; everything else waits until the module in question is imported. The trainer
asserts after start that this platform is the active one.
"""

from __future__ import annotations

import os
from types import ModuleType

import wrapt

from agentgym_rl.engine.platform import corrections, forked_engine
from agentgym_rl.engine.platform.detect import on_cpu


def register_agent_loop(module: ModuleType) -> None:
    """Make ``rollout.agent.default_agent_loop=agentgym`` known to every agent-loop worker."""
    module._agent_loop_registry["agentgym"] = {"_target_": "agentgym_rl.rollout.agent_loop.AgentGymLoop"}


def register() -> None:
    """Register our agent loop and correct verl; on a CPU also the ``cpu`` platform, and nowhere else."""
    # a package that vLLM's server imports raises the level of the root and of its handlers to this, or to ERROR
    os.environ.setdefault("SAGEMAKER_CONTAINER_LOG_LEVEL", "WARNING")
    wrapt.register_post_import_hook(register_agent_loop, "verl.experimental.agent_loop.agent_loop")
    cpu = on_cpu()
    corrections.install(on_cpu=cpu)
    forked_engine.register()
    if not cpu:
        return
    from verl.plugin.platform import platform_manager

    from agentgym_rl.engine.platform import vllm_alias
    from agentgym_rl.engine.platform.cpu import PlatformCPU

    platform_manager.PlatformRegistry.register("cpu")(PlatformCPU)
    active = platform_manager._current_platform
    if active is not None and active.device_name != "cpu":
        platform_manager.set_platform(PlatformCPU())
    vllm_alias.install()


register()  # verl loads the entry point without calling it
