"""Does the installation work on this machine's CPU? Prints what is installed."""

import sys
from ctypes.util import find_library
from importlib.metadata import distributions, entry_points, version

import torch
import verl  # noqa: F401 - loads the platform plugin
import vllm
from verl.plugin.platform import get_platform

SHOWN = ("agentgym-rl", "verl", "torch", "transformers", "ray")
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec"}

device = get_platform().device_name
assert device == "cpu", f"verl's active platform is {device!r}, not 'cpu'"
assert torch.version.cuda is None, f"torch {torch.__version__} is a CUDA build"
environments = sorted(point.name for point in entry_points(group="agentgym_rl.envs"))
assert environments, "the project's entry points are not registered"
unwanted = LEFT_OUT & {distribution.name for distribution in distributions()}
assert not unwanted, f"{', '.join(sorted(unwanted))} must not be installed beside a CPU torch"

versions = ", ".join(f"{name} {version(name)}" for name in SHOWN)
print(f"      python {sys.version.split()[0]}, {versions}, vllm {vllm.__version__}; platform {device}")
print(f"      environments {environments}")
if find_library("tcmalloc_minimal") is None:
    print("      updates take less time with tcmalloc: apt install libtcmalloc-minimal4 (docs/engine.md)")
