"""The 40 levels of ``levels.toml`` and AgentGym's numbering of tasks."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from agentgym_rl.envs.splits import Splits
from agentgym_rl.envs.tables import load

_TABLE = load(Path(__file__).with_name("levels.toml"), dict[str, tuple[str, ...]])
LEVEL_IDS = _TABLE["ids"]
"""Gymnasium ids of the levels."""

SMALL = frozenset(map(LEVEL_IDS.index, _TABLE["small"]))
"""Places of the levels with so few layouts that seeds of the splits repeat them."""

LEVELS = tuple(level_id.removeprefix("BabyAI-").rsplit("-v", 1)[0] for level_id in LEVEL_IDS)
"""Names of the levels in the same order, as :meth:`BabyAI.difficulty` gives them."""

MAX_INDEX = 10**9
"""The last task. Seeds have no bound, but a larger number is surely a mistake."""

SPLITS = Splits.read(__file__, "babyai").ranges
"""AgentGym's training and test tasks, then fresh ones: 500, 50 and 50 seeds of each level."""


def splits(levels: Collection[str]) -> Mapping[str, Sequence[int]]:
    """:data:`SPLITS` with the tasks of some levels.

    Raises:
        ValueError: one is unknown, or there is none.
    """
    if unknown := [level for level in levels if level not in LEVELS]:
        raise ValueError(f"level {unknown[0]!r} is unknown; choose among {', '.join(LEVELS)}")
    if not levels:
        raise ValueError(f"levels is empty; choose among {', '.join(LEVELS)}")
    chosen = [level in levels for level in LEVELS]
    return {
        split: tuple(index for index in indices if chosen[index % len(chosen)]) for split, indices in SPLITS.items()
    }


LAYERS = (range(0, 900), SPLITS["test_variants"], SPLITS["val_variants"], SPLITS["train_variants"])
"""The tasks of all splits. No task of one layer is laid out as one of an earlier layer is; AgentGym's come first, and
their own two splits have no layout in common."""


def earlier(index: int) -> list[int]:
    """The tasks whose layouts a task may not repeat: those of its level in earlier layers, if the level is small."""
    level, _ = level_and_seed(index)
    layer = next((place for place, indices in enumerate(LAYERS) if index in indices), 0)
    if level not in SMALL:
        return []
    return [task for indices in LAYERS[:layer] for task in indices if task % len(LEVEL_IDS) == level]


def level_and_seed(index: int) -> tuple[int, int]:
    """The place of the task's level in :data:`LEVEL_IDS` and its seed.

    The levels take turns: tasks 0 to 39 are every level with seed 0, tasks 40 to 79 with seed 1.
    """
    seed, level = divmod(index, len(LEVEL_IDS))
    return level, seed
