"""Number formats and kernels that this machine has."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FACTS = Path("/proc/cpuinfo")
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Linux's words for products of matrices in bfloat16: two of x86, and Arm's."""


@cache
def has_bfloat16(facts: Path = FACTS) -> bool:
    """True if it has arithmetic for bfloat16; False where the system has no file ``facts``.

    Without it torch computes in bfloat16, too, but far slower than in float32.
    """
    if not facts.is_file():
        return False
    words = re.findall(r"^(?:flags|Features)\s*:(.*)$", facts.read_text(), re.MULTILINE)
    return bool(words) and all(BFLOAT16 & set(line.split()) for line in words)


def has_flash_attention() -> bool:
    """True if the package flash-attn is installed."""
    return find_spec("flash_attn") is not None
