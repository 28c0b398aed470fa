"""The 40 levels and AgentGym's numbering of tasks."""

from __future__ import annotations

LEVEL_IDS = (
    "BabyAI-GoToRedBallGrey-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToRedBallNoDists-v0",
    # AgentGym names v0, which current minigrid refuses because its room size was wrong.
    "BabyAI-GoToObjS6-v1",
    "BabyAI-GoToLocalS8N7-v0",
    "BabyAI-GoToObjMazeS7-v0",
    "BabyAI-GoToImpUnlock-v0",
    "BabyAI-GoToSeqS5R2-v0",
    "BabyAI-GoToRedBlueBall-v0",
    "BabyAI-GoToDoor-v0",
    "BabyAI-GoToObjDoor-v0",
    "BabyAI-Open-v0",
    "BabyAI-OpenRedDoor-v0",
    "BabyAI-OpenDoorLoc-v0",
    "BabyAI-OpenRedBlueDoorsDebug-v0",
    "BabyAI-OpenDoorsOrderN4Debug-v0",
    "BabyAI-Pickup-v0",
    "BabyAI-UnblockPickup-v0",
    "BabyAI-PickupLoc-v0",
    "BabyAI-PickupDistDebug-v0",
    "BabyAI-PickupAbove-v0",
    "BabyAI-PutNextLocalS6N4-v0",
    "BabyAI-PutNextS7N4Carrying-v0",
    "BabyAI-Unlock-v0",
    "BabyAI-UnlockLocalDist-v0",
    "BabyAI-KeyInBox-v0",
    "BabyAI-UnlockPickupDist-v0",
    "BabyAI-BlockedUnlockPickup-v0",
    "BabyAI-UnlockToUnlock-v0",
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-FindObjS7-v0",
    "BabyAI-KeyCorridorS6R3-v0",
    "BabyAI-OneRoomS20-v0",
    "BabyAI-MoveTwoAcrossS8N9-v0",
    "BabyAI-SynthS5R2-v0",
    "BabyAI-SynthLoc-v0",
    "BabyAI-SynthSeq-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-BossLevel-v0",
    "BabyAI-BossLevelNoUnlock-v0",
)
"""Gymnasium ids of the levels, in AgentGym's order; its level 1 is the first."""

LEVELS = tuple(level_id.removeprefix("BabyAI-").rsplit("-v", 1)[0] for level_id in LEVEL_IDS)
"""Names of the levels in the same order, as :meth:`BabyAI.difficulty` gives them."""

EASY_LEVELS = (
    "GoToRedBallGrey",
    "GoToRedBall",
    "GoToRedBallNoDists",
    "GoToObjS6",
    "GoToLocalS8N7",
    "GoToRedBlueBall",
    "OpenRedDoor",
    "PickupLoc",
    "PickupDistDebug",
)
"""Levels played in one room that the expert solves with 1 or 2 commands in the median (tasks 0 to 899)."""

MAX_INDEX = 10**9
"""The last task; seeds are unbounded, but a larger number is surely a mistake."""

VARIANT_SEEDS = 500
"""Seeds of each level in the split ``train_variants``."""

HELD_OUT_SEEDS = 50
"""Seeds of each level in the splits ``val_variants`` and ``test_variants``."""


def level_and_seed(index: int) -> tuple[int, int]:
    """The place of the task's level in :data:`LEVEL_IDS` and the seed of its world.

    The levels take turns: tasks 0 to 39 are every level with seed 0, tasks 40 to 79 with seed 1.
    """
    seed, level = divmod(index, len(LEVEL_IDS))
    return level, seed


def splits() -> dict[str, range]:
    """AgentGym's 810 training and 90 test tasks, then three splits of fresh tasks that follow them."""
    train_end = 900 + VARIANT_SEEDS * len(LEVEL_IDS)
    val_end = train_end + HELD_OUT_SEEDS * len(LEVEL_IDS)
    test_end = val_end + HELD_OUT_SEEDS * len(LEVEL_IDS)
    return {
        "train": range(0, 810),
        "test": range(810, 900),
        "train_variants": range(900, train_end),
        "val_variants": range(train_end, val_end),
        "test_variants": range(val_end, test_end),
    }
