"""The ``cpu`` platform: verl's device interface over ``torch.cpu`` and gloo."""

from __future__ import annotations

import platform
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase

from agentgym_rl.engine.platform.detect import on_cpu


def _nothing(*_: Any, **__: Any) -> None:
    """Stand-in for operations on streams, caches and IPC, which a CPU has not: does nothing."""


def _resident(*_: Any, **__: Any) -> int:
    """Memory of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def _device_module() -> types.ModuleType:
    """``torch.cpu`` with the rest of what verl asks of ``torch.cuda``; memory figures are those of the process."""
    module = types.ModuleType("agentgym_rl.engine.platform.torch_cpu", "torch.cpu, answering like torch.cuda")
    module.__dict__.update({name: getattr(torch.cpu, name) for name in dir(torch.cpu) if not name.startswith("__")})
    module.__dict__.update(
        memory_allocated=_resident,
        memory_reserved=_resident,
        max_memory_allocated=_resident,
        max_memory_reserved=_resident,
        mem_get_info=lambda *_: (psutil.virtual_memory().available, psutil.virtual_memory().total),
        get_device_name=lambda *_: platform.processor() or platform.machine(),
        get_rng_state=lambda *_: torch.get_rng_state(),
        set_rng_state=lambda state, *_: torch.set_rng_state(state),
        set_device=_nothing,
        synchronize=_nothing,
        empty_cache=_nothing,
        ipc_collect=_nothing,
        reset_peak_memory_stats=_nothing,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
    )
    return module


class PlatformCPU(PlatformBase):  # type: ignore[misc]
    """Ray is started with as many *logical* GPUs as there are workers, so verl's placement stays as it is."""

    _module = _device_module()

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> types.ModuleType:
        return self._module

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return on_cpu()

    def current_device(self) -> str:
        """verl hands this to ``.to(...)``, where an index would mean an accelerator."""
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """A CPU has one device."""

    def synchronize(self, device_index: int | None = None) -> None:
        """CPU work is synchronous."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The CPU allocator has no settings."""

    def empty_cache(self) -> None:
        """The CPU allocator has no cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """No device profiler."""

    def profiler_stop(self) -> None:
        """No device profiler."""

    def cudart(self) -> None:
        return None
