"""Does the GPU installation import? Prints what is installed, and how many GPUs torch finds."""

import sys
from importlib.metadata import entry_points, version
from importlib.util import find_spec

import torch
import verl  # noqa: F401 - loads the platform plugin
import vllm

from agentgym_rl.engine.platform.detect import on_cpu
from agentgym_rl.engine.recipe.config import Device, EngineConfig

SHOWN = ("agentgym-rl", "verl", "torch", "transformers", "ray")

assert torch.version.cuda is not None, f"torch {torch.__version__} is not a CUDA build"
assert not on_cpu(), "the CPU platform is active; unset VERL_PLATFORM"
assert find_spec("cupy") is not None, "cupy is missing, over which engine.mode=separate_async sends weights"
assert entry_points(group="agentgym_rl.envs"), "the project's entry points are not registered"

versions = ", ".join(f"{name} {version(name)}" for name in SHOWN)
print(f"python {sys.version.split()[0]}, {versions}, vllm {vllm.__version__}, CUDA {torch.version.cuda}")
print(f"attention {EngineConfig(device=Device.CUDA).attends}; GPUs here: {torch.cuda.device_count()}")
