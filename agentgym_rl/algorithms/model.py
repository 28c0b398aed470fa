"""Models of a run beside the policy: a reference policy, a teacher, a reward model, a critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

POLICY, REFERENCE, CRITIC = "policy", "reference", "critic"
"""Names of the model that a run trains, of the reference policy of a KL loss, and of a critic."""
START, AS_LOADED = "start", "loaded"
"""Where a model begins: as the policy when the stage began, or with the weights as loaded, before cloning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Weights of the policy's architecture and vocabulary, which the workers keep on the host and swap in for use."""

    start: str = START
    """``start``, ``loaded``, or a folder: of a run (``<run>:<stage>`` at the end of a stage), of a checkpoint, or of a
    Hugging Face model."""
    trained: bool = False
    """Whether it learns (``Run.learn(..., model=name)``): weights and optimizer are saved with the run."""
    key: str = ""
    """The key that says ``start``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic(Model):
    """A value model: weights as the policy's, and a head.

    It has workers of its own, verl's, which keep and train it. It begins as the policy when the stage begins, and is
    saved and resumed with the run.
    """

    start: str = field(default=START, init=False)
    trained: bool = field(default=True, init=False)
    key: str = field(default="", init=False)
    lr: float
    weight_decay: float = 0.0
    warmup: int = 0
    """Steps of the stage that train the critic alone."""


def check(models: Mapping[str, Model]) -> None:
    """Raises ValueError: a name cannot be that of a folder, or is the policy's; or there are two critics."""
    for name in models:
        if name == POLICY or not name.isidentifier():
            raise ValueError(f"a model beside the policy cannot have the name {name!r}")
    if len(critics := [name for name, model in models.items() if isinstance(model, Critic)]) > 1:
        raise ValueError(f"a run has one critic at most, not {' and '.join(critics)}")
