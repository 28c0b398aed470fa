"""``agentgym-rl explore``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.cli import common
from agentgym_rl.cli.policy import fetched, spent

if TYPE_CHECKING:
    from agentgym_rl.api.exploration import Prepared
    from agentgym_rl.eval.practice.exploration import Explored


def command(
    env: common.EnvName,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="policy=, writer=, out= and any of the keys above."),
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Write tasks for an environment that has none; ``explore.txt`` is its help."""
    from agentgym_rl.api.exploration import ExploreRequest, prepare
    from agentgym_rl.api.request import read

    prepared = prepare(env, read(arguments or [], ExploreRequest), fetched)
    with common.resumable(prepared.out), common.phases("exploring") as progress:
        prepared.explorer.progress = progress
        explored = prepared.run()
    if as_json:
        counts = {name: explored.counts[name] for name in ("rollouts", "ideas")}
        report = {"out": prepared.out, "tasks": len(explored.lines), **counts, "refused": explored.refused}
        common.print_json(report)
        return
    _tell(prepared, explored)


def _tell(prepared: Prepared, explored: Explored) -> None:
    from agentgym_rl.eval.practice.explore import FLAT_ROUNDS

    screen, counts, asked = common.console(160), explored.counts, prepared.explorer.exploration
    common.say(
        screen,
        f"{counts['rollouts']} episodes, {counts['ideas']} ideas; {common.counts(explored.refused) or 'none refused'}",
    )
    if explored.flat == FLAT_ROUNDS:
        common.say(screen, f"ended: the last {FLAT_ROUNDS} rounds of episodes had no new task")
    elif len(explored.lines) < asked.tasks:
        common.say(screen, f"ended: rollouts={asked.rollouts} is reached before tasks={asked.tasks}")
    for line in spent(prepared.models):
        common.say(screen, line)
    splits = Counter(line["split"] for line in explored.lines)
    common.say(screen, f"written: {prepared.out} ({common.counts(splits)})")
