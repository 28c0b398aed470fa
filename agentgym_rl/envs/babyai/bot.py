"""minigrid's own bot, for the few tasks on which the solvers go round in circles."""

from typing import Any

from minigrid.core.actions import Actions
from minigrid.utils.baby_ai_bot import BabyAIBot, DisappearedBoxError

from agentgym_rl.envs.babyai.commands import CHECK, OWN, Rules
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.babyai.walker import Ended, Stuck, Walker

_MAX_SEARCHES = 1500


class _BoundedBot(BabyAIBot):  # type: ignore[misc]
    """The bot with a bound, since it searches for ever when nothing is left to explore."""

    def _breadth_first_search(self, *args: Any, **options: Any) -> Any:
        if self.bfs_counter > _MAX_SEARCHES:
            raise Stuck("minigrid's bot searches without end")
        return super()._breadth_first_search(*args, **options)


def solve_with_bot(index: int, rules: Rules = OWN) -> list[str]:
    """The bot's solution of a task in our commands.

    Raises:
        Stuck: it has none, or one that our commands cannot follow.
    """
    walker = Walker(index, rules)
    try:
        _follow(walker, _primitives(rules.level(index)))
    except Ended as end:
        if end.success:
            return walker.commands
    raise Stuck("minigrid's bot ended without success")


def _primitives(level: Level) -> list[Actions]:
    try:
        bot = _BoundedBot(level.minigrid)
        actions: list[Actions] = []
        while True:
            action = Actions(bot.replan())
            actions.append(action)
            outcome = level.execute((action,))
            if outcome.over or action == Actions.done:
                return actions
    except (AssertionError, IndexError, DisappearedBoxError) as error:
        raise Stuck(f"minigrid's bot fails: {error!r}") from None


def _follow(walker: Walker, primitives: list[Actions]) -> None:
    """Do the longest command that stands for the next primitives, until all are done."""
    done = 0
    while done < len(primitives):
        fitting = {
            command: len(plan)
            for command, plan in walker.options.items()
            if command != CHECK and plan == tuple(primitives[done : done + len(plan)])
        }
        command = max(fitting, key=lambda name: fitting[name], default=primitives[done].name)
        done += fitting.get(command, 1)
        walker.do(command)
