"""Models of a run beside the policy: a reference policy, a teacher, a reward model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

POLICY, REFERENCE = "policy", "reference"
"""Names of the model that a run trains, and of the reference policy of a KL loss."""
START, AS_LOADED = "start", "loaded"
"""Where a model begins: as the policy when the stage began, or with the weights as loaded, before cloning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Weights of the policy's architecture and vocabulary, which the workers keep on the host and swap in for use."""

    start: str = START
    """``start``, ``loaded``, or a folder: a checkpoint of a run, or a Hugging Face model."""
    trained: bool = False
    """Whether it learns (``Run.learn(..., model=name)``): weights and optimizer are saved with the run."""
    key: str = ""
    """The key that says ``start``."""


def check_names(models: Mapping[str, Model]) -> None:
    """Raises ValueError: a name cannot be that of a folder, or is the policy's."""
    for name in models:
        if name == POLICY or not name.isidentifier():
            raise ValueError(f"a model beside the policy cannot have the name {name!r}")
