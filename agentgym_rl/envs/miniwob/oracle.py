"""Solutions, found by playing: ``oracle.js`` reads the page for what is to be done next."""

from functools import lru_cache
from pathlib import Path

from agentgym_rl.envs.browser.chromium import CHROMIUM
from agentgym_rl.envs.browser.commands import FORMS, read
from agentgym_rl.envs.browser.session import View
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.envs.miniwob.episode import Episode

MAX_COMMANDS = 60

_PLANS = Path(__file__).with_name("oracle.js").read_text(encoding="utf-8")


@lru_cache(maxsize=4096)
def solve(name: str, seed: int, mode: str) -> tuple[str, ...]:
    """The commands that solve a task; blocks for up to seconds.

    Raises:
        OracleUnavailable: there is no plan for the task, or it does not succeed.
        MissingExtra, EnvUnavailable, EnvTimeout: see :class:`.Episode`.
    """
    return CHROMIUM.call_blocking(_solve(name, seed, mode))


async def _solve(name: str, seed: int, mode: str) -> tuple[str, ...]:
    episode = await Episode.open()
    try:
        goal, view = await episode.start(name, seed, mode, limited=False)
        await episode.session.evaluate(f"([task, goal]) => ({_PLANS})(task, goal)", [name, goal])
        commands: list[str] = []
        while len(commands) < MAX_COMMANDS and (command := await _next(episode, view)):
            commands.append(command)
            status, view = await episode.act(read(command, FORMS))
            if status.over:
                if status.raw <= 0:
                    break
                return tuple(commands)
    finally:
        await episode.session.close()
    raise OracleUnavailable(f"the oracle has no solution of {name}, seed {seed}")


async def _next(episode: Episode, view: View) -> str | None:
    """The next command, with the id by which the page shows the element; None where the plan has ended."""
    step = await episode.session.evaluate("agentgymNext()")
    if step is None:
        return None
    command, middle, values = step
    arguments = [f"[{argument}]" for argument in values]
    if middle is not None:
        ids = {element.node: element.id for element in view.elements}
        targets = [ids[node] for node in await episode.session.nodes("agentgymTarget") if node in ids]
        if not targets:
            command, arguments = "mouse_click", [f"[{middle[0]}]", f"[{middle[1]}]"]
        else:
            arguments.insert(0, f"[{targets[0]}]")
    return " ".join([command, *arguments])
