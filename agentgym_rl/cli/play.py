"""``agentgym-rl play``."""

from __future__ import annotations

import asyncio
import json
import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym_rl.cli.common import (
    AddressOption,
    HostOption,
    MaxTurns,
    Options,
    StyleOption,
    TokenOption,
    place,
    world_options,
)

if TYPE_CHECKING:
    from agentgym_rl.envs.core import Step


class Reading(str, Enum):
    """How a line of input becomes an action."""

    raw = "raw"
    react = "react"
    function_calling = "function_calling"
    code_as_action = "code_as_action"


def command(
    item_id: Annotated[str, typer.Argument(help="Task to play, such as textcraft_12.")],
    style: StyleOption = "agentgym",
    action_format: Annotated[
        Reading, typer.Option("--action-format", help="A line is the action itself, or a reply in this format.")
    ] = Reading.raw,
    max_turns: MaxTurns = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a step; turn 0 is the start.")] = False,
    host: HostOption = None,
    address: AddressOption = None,
    token_env: TokenOption = None,
    option: Options = None,
) -> None:
    """Play a task yourself, or pipe in actions, one a line. Exit status 0 when the task is solved, 1 when not."""
    from agentgym_rl.envs import Task
    from agentgym_rl.envs.actions import Action, ActionFormat
    from agentgym_rl.rollout.conversation import Scripted, StopPlaying
    from agentgym_rl.rollout.loop import attempt
    from agentgym_rl.rollout.settings import RolloutSettings

    task = Task.parse(item_id)
    at = place(host, address, token_env)
    env = at.open(task.env, world_options(task.env, option, style))
    player: Script | Person = Script(item_id) if as_json else Person(env, task)
    steps: list[Step] = []

    def watch(action: str | None, step: Step) -> None:
        if action is not None:
            steps.append(step)
        player.watch(action, step)

    async def session() -> bool:
        """Whether it was played to its end."""
        raw = action_format is Reading.raw
        settings = RolloutSettings(action_format=ActionFormat.REACT if raw else ActionFormat(action_format.value))
        parse = (lambda line: Action(line.strip())) if raw else None
        try:
            await at.check(task.env)
            await attempt(env, task, Scripted(player.reply), settings, max_turns, parse, watch)
        except StopPlaying:
            return False
        finally:
            await env.close()
            await at.close()
        return True

    ended = asyncio.run(session())
    solved = env.spec.success(sum(step.reward for step in steps))
    player.end(solved, ended, steps)
    raise typer.Exit(0 if solved else 1)


class Script:
    """Lines come from standard input, JSON goes to standard output."""

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        self.turn = 0

    def reply(self, messages: list[dict[str, str]]) -> str:
        return _line()

    def watch(self, action: str | None, step: Step) -> None:
        record = {
            "item_id": self.item_id,
            "turn": self.turn,
            "action": action,
            "observation": step.observation.text,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "info": dict(step.info),
        }
        typer.echo(json.dumps(record, ensure_ascii=False, default=str))
        self.turn += 1

    def end(self, solved: bool, ended: bool, steps: list[Step]) -> None:
        """All has been said."""


class Person:
    """Somebody at a terminal; what is piped in is echoed, so that a recording reads like a session."""

    def __init__(self, env: Any, task: Any) -> None:
        from rich.console import Console

        self.console = Console(highlight=False)
        self.env = env
        self.task = task
        self.taken: list[str] = []
        self.possible: tuple[str, ...] | None = None
        self.console.rule(f"{task}: {env.goal(task)} ({env.difficulty(task)})")
        for message in env.spec.conversation_start(env.style):
            if message["role"] != "assistant":
                self.console.print(message["content"], style="dim", markup=False)
        self.console.print("\n? lists actions, hint tells what the oracle would do, quit leaves.\n", style="italic")

    def reply(self, messages: list[dict[str, str]]) -> str:
        from agentgym_rl.rollout.conversation import StopPlaying

        while True:
            self.console.print(f"[bold]{len(self.taken) + 1}>[/bold] ", end="")
            try:
                line = _line()
            except StopPlaying:
                self.console.print()
                raise
            if not sys.stdin.isatty():
                self.console.print(line, markup=False)
            word = line.strip().lower()
            if word in ("quit", "exit"):
                raise StopPlaying
            if word == "?":
                self.console.print("\n".join(self.possible or ["This world does not list its actions."]), markup=False)
            elif word == "hint":
                self.console.print(self._hint(), style="yellow", markup=False)
            elif word:
                return line

    def watch(self, action: str | None, step: Step) -> None:
        self.possible = step.observation.actions
        if action is not None:
            self.taken.append(action)
        self.console.print(step.observation.text, style="red" if step.info.get("invalid") else "cyan", markup=False)
        if step.reward:
            self.console.print(f"reward {step.reward:g}", style="green")
        self.console.print()

    def end(self, solved: bool, ended: bool, steps: list[Step]) -> None:
        outcome = "[green]solved[/green]" if solved else "[red]not solved[/red]"
        if not ended:
            why = "left"
        elif steps[-1].terminated:
            why = "over"
        else:
            why = "stopped by the world" if steps[-1].truncated else "no turns left"
        reward = sum(step.reward for step in steps)
        self.console.print(f"{outcome}, {why} after {len(steps)} turns, reward {reward:g}")

    def _hint(self) -> str:
        from agentgym_rl.envs.core import OracleUnavailable

        try:
            plan = self.env.oracle(self.task)
        except OracleUnavailable as error:
            return str(error)
        done = len(self.taken)
        if plan[:done] == self.taken and done < len(plan):
            return str(plan[done])
        return "You went another way than the oracle, which from the start does: " + "; ".join(plan)


def _line() -> str:
    """The next line of standard input.

    Raises:
        StopPlaying: there is none.
    """
    from agentgym_rl.rollout.conversation import StopPlaying

    line = sys.stdin.readline()
    if not line:
        raise StopPlaying
    return line.rstrip("\r\n")
