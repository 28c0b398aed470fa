"""A loss: a class with its keys, the streams that it reads, and its arithmetic on the tokens of an update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from agentgym_rl.algorithms.checks import at_least
from agentgym_rl.algorithms.losses.aggregation import Aggregation
from agentgym_rl.algorithms.model import REFERENCE, START, Model

if TYPE_CHECKING:
    from torch import Tensor  # recipes are composed without torch

MAX_LOG_RATIO = 20.0
"""Bound on the absolute logarithm of a probability ratio."""


@dataclass(kw_only=True)
class LossConfig:
    """Keys of ``algorithm.loss`` that every loss has. A subclass raises ValueError for a value that cannot work."""

    name: str = ""
    """The loss: vanilla (PPO), gspo, turn, cispo or sapo; see :mod:`agentgym_rl.algorithms.losses`."""
    aggregation: Aggregation = Aggregation.TOKEN_MEAN
    """How the losses of tokens become that of an update; see :mod:`agentgym_rl.algorithms.losses.aggregation`."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""
    kl: float = 0.0
    """Coefficient of the KL loss to the reference policy (k3, http://joschu.net/blog/kl-approx.html); 0 has none."""
    kl_reference: str = START
    """The reference policy: ``start`` (the policy as the stage began), ``loaded`` (the weights as loaded, before
    cloning), or the folder of a run, of a checkpoint, ``runs/<name>/checkpoints/global_step_<n>``, or of a model."""

    def __post_init__(self) -> None:
        at_least(self, 0, "kl")

    @property
    def models(self) -> Mapping[str, Model]:
        """The reference policy of the KL loss, where there is one."""
        return {REFERENCE: Model(start=self.kl_reference, key="algorithm.loss.kl_reference")} if self.kl else {}

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        return {} if self.kl else {"kl_reference": "algorithm.loss.kl=0 has no reference policy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The inputs of a loss; tensors of shape [rows, tokens]."""

    log_prob: Tensor
    """Of the policy that learns, with gradient."""
    old_log_prob: Tensor
    """Of the policy as the update began."""
    mask: Tensor
    """True on the tokens that it is the loss of: those that the model wrote."""
    streams: Mapping[str, Tensor] = field(default_factory=dict)
    """By name; also [rows, 1], where all tokens of a row have the same."""

    @property
    def advantages(self) -> Tensor:
        return self.streams["advantage"]

    @property
    def log_ratio(self) -> Tensor:
        return (self.log_prob - self.old_log_prob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


C = TypeVar("C", bound=LossConfig)


class Loss(ABC, Generic[C]):
    """A loss of the tokens of an update."""

    Config: ClassVar[type[LossConfig]] = LossConfig
    streams: ClassVar[frozenset[str]] = frozenset({"advantage"})
    """The :attr:`Tokens.streams` that it reads: streams of its rows (:mod:`agentgym_rl.algorithms.rows`), and ``turn``,
    the number of the turn of each token."""
    divided_by: ClassVar[str | None] = None
    """The stream whose sum stands for the number of tokens in ``aggregation``."""
    rows_together: ClassVar[int] = 1
    """How many consecutive rows it compares with each other. If more than 1, it is a mean over rows."""
    relative: ClassVar[bool] = True
    """It reads :attr:`Tokens.old_log_prob`."""
    temperature: ClassVar[float | None] = None
    """Of its log-probabilities; None takes that of rollouts."""
    label: ClassVar[str] = "actor"
    """Before the names of its metrics."""

    def __init__(self, config: C) -> None:
        self.config = config

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"

    @abstractmethod
    def __call__(self, tokens: Tokens) -> Tensor:
        """[rows, tokens]: the loss of each token; or [rows, 1], of each row."""

    def clipped(self, tokens: Tokens) -> Tensor:
        """[rows, tokens]: whether a bound on its ratio holds for a token; nowhere for a loss without one."""
        return tokens.mask.new_zeros(tokens.mask.shape).bool()

    def metrics(self, tokens: Tokens) -> Mapping[str, Tensor]:
        """By name, of each token or row as the loss: what is logged of it, summed up as the loss is."""
        return {}
