"""``agentgym-rl play``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym_rl.api.policies import open_policy
from agentgym_rl.cli import common
from agentgym_rl.cli.policy import Backend, rules_for
from agentgym_rl.envs.core import EnvUnavailable, OracleUnavailable
from agentgym_rl.rollout.conversation import PolicyStopped

if TYPE_CHECKING:
    from agentgym_rl.envs.core import Message, Step


class Reading(StrEnum):
    """How a line of input becomes an action."""

    raw = "raw"
    react = "react"
    function_calling = "function_calling"
    code_as_action = "code_as_action"
    tags = "tags"


def command(
    item_id: Annotated[str, typer.Argument(help="Task, such as textcraft_12.")],
    policy: Annotated[
        str, typer.Option(help="human: you, or actions from a pipe, one a line; or any policy of `eval`.")
    ] = "human",
    style: Annotated[
        str | None,
        typer.Option(
            help="Wording: agentgym, compact, or verl_agent where there is one; left out, that of the policy's rules."
        ),
    ] = None,
    action_format: Annotated[
        Reading, typer.Option(help="raw: a line is the action itself; else a response in a format.")
    ] = Reading.raw,
    max_turns: common.MaxTurns = None,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 0,
    temperature: common.Temperature = 0,
    backend: Backend = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a step; turn 0 is the start.")] = False,
    host: common.Host = None,
    address: common.Address = None,
    token_env: common.Token = None,
    option: common.Options = None,
) -> None:
    """Solve a task yourself, pipe in actions, or watch a policy. Exit status 0 when the task is solved, 1 when not."""
    from agentgym_rl.envs import Task
    from agentgym_rl.envs.actions import Action, ActionFormat
    from agentgym_rl.rollout.policies import Human

    task = Task.parse(item_id)
    raw = action_format is Reading.raw
    chosen = None if raw else ActionFormat(action_format)
    opener = common.place(host, address, token_env)
    rules = rules_for(policy, style=style, action_format=chosen, max_turns=max_turns)
    settings = rules.of_env(task.env)
    options = common.env_options(task.env, option, settings.style.value)
    env = opener.open(task.env, options)
    human = policy == "human"
    model = None if human else open_policy(policy, rules, backend=backend, temperature=temperature, seed=seed)
    screen: JsonLines | Terminal = JsonLines(item_id) if as_json else Terminal(env, task, human)
    player = model or Human(screen.ask, (lambda line: Action(line.strip())) if raw else None)
    steps: list[Step] = []

    def watch(action: str | None, step: Step) -> None:
        if action is None:
            steps.clear()  # a policy's episode may be retried
        else:
            steps.append(step)
        screen.show(action, step)

    async def run() -> bool:
        """Whether the episode ran to its end."""
        try:
            await opener.check(task.env, options)
            episode = await player.run(env, task, settings, watch=watch)
        except PolicyStopped:
            return False
        finally:
            await env.close()
            await opener.close()
            await player.close()
        if not episode.ending.counts:
            raise EnvUnavailable(f"{task} could not run: {episode.error}")
        if episode.error is not None:
            typer.echo(f"{episode.ending.value}: {episode.error}", err=True)
        return bool(steps)

    ended = asyncio.run(run())
    solved = env.spec.success(sum(step.reward for step in steps))
    screen.end(solved, ended, steps)
    raise typer.Exit(0 if solved else 1)


class JsonLines:
    """Lines come from standard input, JSON goes to standard output."""

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        self.turn = 0
        self.console = common.console()  # ends the command when nobody reads on

    def ask(self, messages: list[Message]) -> str:
        return _line()

    def show(self, action: str | None, step: Step) -> None:
        if action is None:
            self.turn = 0
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
        common.say(self.console, json.dumps(record, ensure_ascii=False, default=str))
        self.turn += 1

    def end(self, solved: bool, ended: bool, steps: list[Step]) -> None:
        """The exit status is the outcome."""


class Terminal:
    """A terminal. Actions that no person typed here are printed, so that a recording reads like a session."""

    def __init__(self, env: Any, task: Any, human: bool) -> None:
        from rich.console import Console
        from rich.markup import escape

        self.console = Console(highlight=False, emoji=False)
        self.env = env
        self.task = task
        self.human = human
        self.taken: list[str] = []
        self.possible: tuple[str, ...] | None = None
        self.console.rule(escape(f"{task}: {env.goal(task)} ({env.difficulty(task)})"))
        for message in env.spec.conversation_start(env.style):
            if message["role"] != "assistant":
                self.console.print(message["content"], style="dim", markup=False)
        help_text = "? lists actions, hint shows the oracle's next action, quit leaves." if human else ""
        self.console.print(f"\n{help_text}\n", style="italic")

    def ask(self, messages: list[Message]) -> str:
        while True:
            self._prompt()
            try:
                line = _line()
            except PolicyStopped:
                self.console.print()
                raise
            if not sys.stdin.isatty():
                self.console.print(line, markup=False)
            word = line.strip().lower()
            if word in ("quit", "exit"):
                raise PolicyStopped
            if word == "?":
                listed = self.possible or ["This environment does not list its actions."]
                self.console.print("\n".join(listed), markup=False)
            elif word == "hint":
                self.console.print(self._hint(), style="yellow", markup=False)
            elif word:
                return line

    def show(self, action: str | None, step: Step) -> None:
        self.possible = step.observation.actions
        if action is None:
            self.taken.clear()
        else:
            if not self.human:
                self._prompt()
                self.console.print(action, markup=False)
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
            why = "stopped by the environment" if steps[-1].truncated else "no turns left"
        reward = sum(step.reward for step in steps)
        self.console.print(f"{outcome}, {why} after {len(steps)} turns, reward {reward:g}")

    def _prompt(self) -> None:
        self.console.print(f"[bold]{len(self.taken) + 1}>[/bold] ", end="")

    def _hint(self) -> str:
        try:
            plan = self.env.oracle(self.task)
        except OracleUnavailable as error:
            return str(error)
        done = len(self.taken)
        if plan[:done] == self.taken and done < len(plan):
            return str(plan[done])
        return "You went another way than the oracle, which from the start does: " + "; ".join(plan)


def _line() -> str:
    """The next line of standard input. Ctrl-C ends the wait; asyncio's handler would go on waiting.

    Raises:
        PolicyStopped: there is none.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        line = sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, handler)
    if not line:
        raise PolicyStopped
    return line.rstrip("\r\n")
