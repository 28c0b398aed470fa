"""verl's estimators on hand-made episodes, configured as a run would."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

MASKS = [
    # two turns with an observation between them; the third is shorter and padded
    [1, 1, 0, 0, 1],
    [1, 0, 1, 1, 1],
    [1, 0, 1, 0, 0],
]
LAST = [4, 4, 2]
"""Place of each episode's last token, where its reward stands."""


@cache
def settings_of(algorithm: str, overrides: tuple[str, ...]) -> Any:
    """verl's ``algorithm`` block of a run."""
    from agentgym_rl.engine.recipe import compose as recipes
    from agentgym_rl.engine.recipe.resolved import Resolved
    from agentgym_rl.engine.verl.mapping import verl_config

    config = recipes.load(["name=x", f"algorithm={algorithm}", *overrides])
    return verl_config(Resolved(config), "m", Path("run")).algorithm


@pytest.fixture
def estimate() -> Callable[..., tuple[list[list[float]], list[list[float]]]]:
    """``estimate(algorithm, rewards, uids, *overrides)``: advantages and returns of three episodes of two turns."""
    pytest.importorskip("verl")

    def run(algorithm: str, rewards: list[float], uids: list[str], *overrides: str) -> Any:
        import numpy as np
        import torch
        from tensordict import TensorDict
        from verl.protocol import DataProto
        from verl.trainer.ppo.ray_trainer import compute_advantage

        settings = settings_of(algorithm, overrides)
        scores = torch.zeros(3, 5)
        scores[range(3), LAST] = torch.tensor(rewards)
        rows = {"token_level_rewards": scores, "response_mask": torch.tensor(MASKS)}
        data = DataProto(batch=TensorDict(rows, batch_size=3), non_tensor_batch={"uid": np.array(uids, dtype=object)})
        data = compute_advantage(
            data,
            adv_estimator=settings.adv_estimator,
            gamma=settings.gamma,
            lam=settings.lam,
            config=settings,
        )
        return data.batch["advantages"].tolist(), data.batch["returns"].tolist()

    return run
