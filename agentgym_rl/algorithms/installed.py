"""Algorithms of other packages, found by the entry-point group ``agentgym_rl.algorithms``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from agentgym_rl.algorithms.core import Advantages, Algorithm

GROUP = "agentgym_rl.algorithms"

VERL = "verl.trainer.ppo.core_algos"
"""Where verl keeps its estimators; imported later, once the engine has set the environment."""


class Known(Mapping[str, Algorithm]):
    """Algorithms by name: ours, and those of installed packages, which are loaded when it is first looked into."""

    def __init__(self, *own: Algorithm) -> None:
        self._own = {algorithm.name: algorithm for algorithm in own}

    @cached_property
    def _all(self) -> dict[str, Algorithm]:
        return self._own | installed(self._own)

    def __getitem__(self, name: str) -> Algorithm:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def installed(taken: Collection[str]) -> dict[str, Algorithm]:
    """By name; verl learns of their estimators when it is imported.

    Args:
        taken: names that are not to be had.

    Raises:
        ValueError: an entry point gives no algorithm of its own name, or one without estimator, or its name is taken.
    """
    found: dict[str, Algorithm] = {}
    for point in entry_points(group=GROUP):
        algorithm: object = point.load()
        if not isinstance(algorithm, Algorithm) or algorithm.name != point.name:
            raise ValueError(f"entry point {point.name} = {point.value} must be an Algorithm with name={point.name!r}")
        if point.name in taken or point.name in found:
            raise ValueError(f"entry point {point.value}: there is an algorithm {point.name!r} already; rename yours")
        if algorithm.estimator is None:
            raise ValueError(
                f"algorithm {point.name!r} of {point.value} needs an estimator: verl's, or a name for its own"
            )
        if algorithm.advantages is not None:
            _register(algorithm.estimator, estimator(algorithm.advantages))
        found[point.name] = algorithm
    return found


def estimator(advantages: Advantages) -> Callable[..., tuple[Any, Any]]:
    """An advantage estimator as verl calls it: from tensors [episodes, tokens] to advantages and returns alike."""

    def estimate(token_level_rewards: Any, response_mask: Any, index: Sequence[str], **_: Any) -> tuple[Any, Any]:
        rows = response_mask.any(dim=-1).nonzero().flatten().tolist()  # rows without a token fill up the batch
        rewards = token_level_rewards.sum(dim=-1).tolist()
        worth = advantages([rewards[row] for row in rows], [str(index[row]) for row in rows])
        spread = token_level_rewards.new_zeros(response_mask.shape)
        for row, value in zip(rows, worth, strict=True):
            spread[row] = value * response_mask[row]
        return spread, spread

    return estimate


def _register(name: str, estimate: Callable[..., tuple[Any, Any]]) -> None:
    import wrapt  # brought by the engine's extras, which alone need this

    wrapt.register_post_import_hook(lambda core_algos: core_algos.register_adv_est(name)(estimate), VERL)
