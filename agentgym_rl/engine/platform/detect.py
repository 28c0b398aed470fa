"""Detection of the CPU as the device of this process."""

from __future__ import annotations

import os
from functools import cache


@cache
def on_cpu() -> bool:
    """True when verl is to run on the CPU here.

    ``VERL_PLATFORM`` decides where it is set (recipes with ``engine=cpu`` set it to ``cpu``). Otherwise only a torch
    that was built without CUDA and ROCm counts, so that a driver without a GPU of its own in a GPU cluster is never
    mistaken for a CPU machine.
    """
    chosen = os.environ.get("VERL_PLATFORM", "").strip().lower()
    if chosen:
        return chosen == "cpu"
    import torch

    return torch.version.cuda is None and torch.version.hip is None and not hasattr(torch, "npu")
