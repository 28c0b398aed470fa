"""The 40 levels of ``levels.toml`` and AgentGym's numbering of tasks."""

from __future__ import annotations

from pathlib import Path

from agentgym_rl.envs.tables import load

LEVEL_IDS = load(Path(__file__).with_name("levels.toml"), dict[str, tuple[str, ...]])["ids"]
"""Gymnasium ids of the levels."""

LEVELS = tuple(level_id.removeprefix("BabyAI-").rsplit("-v", 1)[0] for level_id in LEVEL_IDS)
"""Names of the levels in the same order, as :meth:`BabyAI.difficulty` gives them."""

MAX_INDEX = 10**9
"""The last task. Seeds have no bound, but a larger number is surely a mistake."""

SPLITS = {
    "train": range(0, 810),
    "test": range(810, 900),
    "train_variants": range(900, 20_900),
    "val_variants": range(20_900, 22_900),
    "test_variants": range(22_900, 24_900),
}
"""AgentGym's training and test tasks, then fresh ones: 500, 50 and 50 seeds of each level."""


def level_and_seed(index: int) -> tuple[int, int]:
    """The place of the task's level in :data:`LEVEL_IDS` and its seed.

    The levels take turns: tasks 0 to 39 are every level with seed 0, tasks 40 to 79 with seed 1.
    """
    seed, level = divmod(index, len(LEVEL_IDS))
    return level, seed
