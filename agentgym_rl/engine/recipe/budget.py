"""Training budgets: an experiment fixes one, so that algorithms compare."""

from __future__ import annotations

from collections.abc import Collection

from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.optimizer import Schedule, SupervisedOptimizerConfig
from agentgym_rl.engine.recipe.config import Config, Mode
from agentgym_rl.engine.recipe.schema import RecipeError

STEPS, EPISODES = "algorithm.steps", "budget.episodes"


def settle(config: Config, given: Collection[str]) -> None:
    """Set ``algorithm.steps`` so that the steps take ``budget.episodes``, as nearly as whole steps can.

    Args:
        given: keys of the command line. Its ``algorithm.steps`` goes before the budget of a recipe.

    Raises:
        RecipeError: the command line, or the recipe, has both; or the learning rate falls towards a last step that
            ``budget.tokens`` or ``budget.updates`` leave open, or episodes of later steps are under way at it.
    """
    budget, algorithm = config.budget, config.algorithm.online
    if algorithm is None:
        return
    _check_open_end(config)
    if budget.episodes is None:
        return
    if STEPS in given:
        if EPISODES in given:
            raise RecipeError(f"{STEPS} and {EPISODES} both say how long the run trains; give one")
        return
    steps = max(1, round(budget.episodes / _a_step(algorithm)))
    if algorithm.steps not in (steps, type(algorithm).steps):
        raise RecipeError(
            f"{STEPS}={algorithm.steps} of the recipe has no effect: {EPISODES}={budget.episodes} are {steps} steps of "
            f"{_a_step(algorithm)} episodes; take one of them out"
        )
    algorithm.steps = steps


def line(config: Config) -> str | None:
    """By how much the steps differ from the budget; None where they do not."""
    budget, algorithm = config.budget, config.algorithm.online
    if budget.episodes is None or algorithm is None:
        return None
    spent = algorithm.steps * _a_step(algorithm)
    if spent == budget.episodes:
        return None
    steps = f"{algorithm.steps} step{'s' if algorithm.steps != 1 else ''} of {_a_step(algorithm)}"
    return f"budget: {spent:,} instead of {budget.episodes:,} training episodes ({steps})"


def _check_open_end(config: Config) -> None:
    algorithm = config.algorithm.online
    open_end = next((key for key in ("tokens", "updates") if getattr(config.budget, key) is not None), None)
    if open_end is None or algorithm is None:
        return
    by_steps = not isinstance(algorithm.optimizer, SupervisedOptimizerConfig)  # whose schedule is of a round's passes
    if by_steps and algorithm.optimizer.schedule is not Schedule.CONSTANT:
        raise RecipeError(
            f"algorithm.optimizer.schedule={algorithm.optimizer.schedule} falls towards the last step, which "
            f"budget.{open_end} leaves open; choose constant, or {EPISODES}"
        )
    if config.algorithm.policy_gradient is not None and config.engine.mode is not Mode.SYNC:
        raise RecipeError(
            f"engine.mode={config.engine.mode} rolls out beyond the last step, which budget.{open_end} leaves open; "
            f"choose sync, or {EPISODES}"
        )


def _a_step(algorithm: OnlineConfig) -> int:
    return algorithm.tasks_per_step * algorithm.samples_per_task
