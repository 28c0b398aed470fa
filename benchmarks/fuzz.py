"""Hostile replies for every parser and every environment: what raises, what is slow, what keeps memory.

    python benchmarks/fuzz.py                                   # a million replies for each parser and environment
    python benchmarks/fuzz.py --only function_calling maze --replies 1000 --actions 1000

Prints one line a target and ends with status 1 where a call raised or took more CPU than ``--limit``. The same seed
gives the same replies.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression

import psutil
from options import some_or_none

from agentgym_rl.envs import Task, TextEnv, available, env_class, make
from agentgym_rl.envs.actions import Action, ActionFormat, InvalidAction
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.envs.formats import ECHO, Parse, reader, write
from agentgym_rl.envs.openenv import OpenEnv
from agentgym_rl.envs.probe import GARBAGE
from agentgym_rl.envs.tools import Tool

PIECES = (
    *GARBAGE,
    *("Action:", "Thought:", "</think>", "<think>", "```", "```python\n", "```sql\n", "<search>", "</search>"),
    *("<answer>", "</answer>", "\ud83d", "\ude00", "\\ud83d", "\u2028", "\x00", "\r", "\\\r\n", "\ufeff", "\u202e"),
    *("{", "}", "[", "]", "(", ")", '"', "'", "\\", ",", ":", ";", "--", "/*", "#", "\n", " ", "\t", "=", "*", "%s"),
    *("null", "true", "NaN", "-Infinity", "1e999", "2j", "b'x'", "...", "None", "{1, 2}", "0x" + "f" * 3600),
    *("9" * 5000, "[" * 1000, "]" * 1000, "{" * 300, '{"a":' * 300, "(" * 250, "-" * 5000, " " * 5000, "\n" * 5000),
    *("é" * 3000, "Action: " * 500, "a," * 2000, "lambda: ", "*args", "**{}", "f'{x}'", "{0}"),
    *("select ", " from ", "=SUM(A1:ZZ9999)"),
    *("A1", "9999-99-99", "0000-00-00", "1" * 400, "-1", "3.0", "1e400", "0b" + "1" * 400),
)  # fmt: skip
"""What a reply may have put into it."""

LONGEST = 6_000
"""Most characters of an observation after an action."""

IN_A_BROWSER = {"miniwob": 300, "webarena": 300}
"""Most actions of environments that take tenths of a second for one, in processes whose CPU is not counted."""

TASKS = 100
"""Tasks of each split in which an environment is tried."""

EDITS = (0, 1, 1, 2, 3, 6)
"""How many changes a reply gets, each equally often."""


def hostile(rng: random.Random, known: Sequence[str]) -> str:
    """A reply that resembles one of ``known``, more or less."""
    draw = rng.random  # three times as fast as randint and choice, which cost more than most parsers
    seeds = known if known and draw() < 0.8 else PIECES
    text = seeds[int(draw() * len(seeds))]
    for _ in range(EDITS[int(draw() * len(EDITS))]):
        at, to = int(draw() * (len(text) + 1)), int(draw() * (len(text) + 1))
        if at > to:
            at, to = to, at
        match int(draw() * 5):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                text = text[:to] + text[at:]
            case 2:
                text = text[:at] + PIECES[int(draw() * len(PIECES))] + text[to:]
            case _:
                text = text[:at] + PIECES[int(draw() * len(PIECES))] + text[at:]
    if draw() < 0.001:
        text *= rng.randint(2, 1 + 100_000 // (len(text) + 1)) if len(text) < 50_000 else 1
    return text


@dataclass(slots=True)
class Report:
    """What the calls of one target did."""

    target: str
    calls: int = 0
    cpu: float = 0.0
    slowest: float = 0.0
    """CPU of the slowest call, in seconds, all threads of this process together."""
    slowest_of: str = ""
    faults: dict[str, str] = field(default_factory=dict)
    """The first reply that raised each kind of error, or gave a wrong result."""
    memory: list[tuple[int, int]] = field(default_factory=list)
    """How many calls there had been, and resident bytes then."""

    def call(self, reply: str, seconds: float) -> None:
        self.calls += 1
        self.cpu += seconds
        if seconds > self.slowest:
            self.slowest, self.slowest_of = seconds, reply

    @property
    def slope(self) -> float:
        """Growth of memory over the second half, in bytes a call: least squares."""
        half = self.memory[len(self.memory) // 2 :]
        return linear_regression(*zip(*half, strict=True)).slope if len(half) > 1 else 0.0

    def __str__(self) -> str:
        return (
            f"{self.target:36} {self.calls:>9,} {1e6 * self.cpu / max(1, self.calls):>9.0f} "
            f"{1e3 * self.slowest:>11.1f} {self.slope:>12.1f} {len(self.faults):>7}"
        )


HEAD = f"{'target':36} {'calls':>9} {'mean, us':>9} {'slowest, ms':>11} {'bytes a call':>12} {'faults':>7}"


async def nothing() -> None:
    pass


async def drive(
    report: Report,
    reply: Callable[[], str],
    use: Callable[[str], Awaitable[str | None]],
    count: int,
    seconds: float,
    ready: Callable[[], Awaitable[None]] = nothing,
) -> Report:
    """Call ``use``, which gives what is wrong with the result, with up to ``count`` replies for at most ``seconds``.

    Before each call, ``ready`` prepares it at no cost to the report.
    """
    gc.collect()
    gc.freeze()  # what other targets left is not traversed again during these calls
    process, end = psutil.Process(), time.monotonic() + seconds
    for number in range(count):
        if number % max(1, count // 40) == 0 or number % 500 == 0:
            if time.monotonic() > end:
                break
            report.memory.append((number, process.memory_info().rss))
        await ready()
        text = reply()
        begun = time.process_time()
        try:
            wrong = await use(text)
        except Exception as error:  # noqa: BLE001 - what is looked for
            wrong = f"{type(error).__name__}: {str(error)[:80]}"
        report.call(text, time.process_time() - begun)
        if wrong is not None:
            report.faults.setdefault(wrong, text)
    return report


Reader = tuple[Parse, list[str]]
"""A parser, and replies that it can read."""


def parsers() -> dict[str, list[Reader]]:
    """The parsers of all environments: of each way to read ReAct one, of the other formats those of every tool set."""
    readers: dict[str, list[Reader]] = {}
    commands = ("look", "finish", "move left", "get 1 oak log")
    for name in available():
        if name in ("mcp", "openenv"):  # what they take is that of a server
            continue
        spec = make(name).spec
        for form in spec.action_formats:
            if form is ActionFormat.REACT:
                key = f"{spec.read.__module__.removeprefix('agentgym_rl.envs.')}.{spec.read.__name__}"
                replies = [write(spec, form, command, thought) for command in commands for thought in ("", "I think")]
                readers.setdefault(key, [(reader(spec, form), replies)])
            else:
                replies = [_called(form, tool) for tool in spec.tools]
                readers.setdefault(form.value, []).append((reader(spec, form), replies))
    return readers


def _called(action_format: ActionFormat, tool: Tool) -> str:
    arguments = {name: 1 if "integer" in str(schema) else "x" for name, schema in tool.parameters.items()}
    if action_format is ActionFormat.FUNCTION_CALLING:
        return json.dumps({"thought": "so", "function_name": tool.name, "arguments": arguments})
    return f"```python\n# so\n{tool.name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})\n```"


def wrong_action(action: Action | InvalidAction) -> str | None:
    """What no parser may give."""
    if isinstance(action, InvalidAction):
        if action.fault is not None:
            return action.fault[:100]
        action.observation.encode()
        return "a long observation" if len(action.observation) > ECHO else None
    action.command.encode()
    action.thought.encode()
    return None


async def fuzz_parser(name: str, readers: list[Reader], count: int, seconds: float, seed: int = 0) -> Report:
    rng = random.Random(f"{seed} {name}")
    parse, known = readers[0]

    def reply() -> str:
        nonlocal parse, known
        parse, known = rng.choice(readers)
        return hostile(rng, known)

    async def use(reply: str) -> str | None:
        return wrong_action(parse(reply))

    return await drive(Report(name), reply, use, count, seconds)


async def fuzz_env(name: str, count: int, seconds: float, seed: int = 0) -> Report:
    """Hostile actions in random tasks of an environment, mixed with the oracle's."""
    rng, env = random.Random(f"{seed} {name}"), make(name)
    known: list[str] = []
    steps_left = 0

    splits = {split: indices for split, indices in env.spec.splits.items() if split not in env.spec.unavailable}
    tasks = [Task(name, index) for indices in splits.values() for index in indices[:TASKS]]
    known_of: dict[Task, list[str]] = {}

    async def begin() -> None:
        nonlocal known, steps_left
        task = rng.choice(tasks)
        first = await env.reset(task)
        if task not in known_of:
            known_of[task] = [*(first.actions or ()), *_oracle(env, task), "look"]
        known, steps_left = known_of[task], rng.randint(1, 40)

    async def use(action: str) -> str | None:
        nonlocal steps_left
        step = await env.step(action)
        steps_left = 0 if step.done else steps_left - 1
        step.observation.text.encode()
        if not 0 <= step.reward <= 1:
            return f"a reward of {step.reward}"
        return "a long observation" if len(step.observation.text) > LONGEST else None

    async def ready() -> None:
        if steps_left <= 0:
            await begin()

    await begin()
    await env.step(known[0])  # what is loaded once is no cost of an action
    steps_left = 0
    report = await drive(Report(name), lambda: hostile(rng, known), use, count, seconds, ready)
    await env.close()
    return report


def _oracle(env: TextEnv, task: Task) -> list[str]:
    if env.name in ("babyai", "sciworld"):  # theirs take long
        return ["go forward", "turn left", "pick up", "look around", "open door"]
    try:
        return env.oracle(task)
    except OracleUnavailable:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=some_or_none, default=1_000_000, help="for each parser; 0: no parser")
    parser.add_argument("--actions", type=some_or_none, default=1_000_000, help="for each environment; 0: none")
    parser.add_argument("--seconds", type=float, default=3600, help="most for one target")
    parser.add_argument("--limit", type=float, default=100, help="most CPU of a call, in milliseconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="targets whose names contain one of these")
    args = parser.parse_args()

    def wanted(name: str) -> bool:
        return not args.only or any(part in name for part in args.only)

    failed = False
    targets = {
        name: lambda name=name, readers=readers: fuzz_parser(name, readers, args.replies, args.seconds, args.seed)
        for name, readers in parsers().items()
        if args.replies and wanted(name)
    }
    for name in available() if args.actions else ():
        count = min(args.actions, IN_A_BROWSER.get(name, args.actions))
        if wanted(name) and not issubclass(env_class(name), OpenEnv) and (name != "sciworld" or shutil.which("java")):
            targets[name] = lambda name=name, count=count: fuzz_env(name, count, args.seconds, args.seed)
    for part in args.only:
        if not any(part in name for name in targets):
            parser.error(f"--only {part}: no target of this machine has it in its name")
    if not targets:
        parser.error("--replies 0 --actions 0 leave no target")
    print(HEAD, flush=True)
    for target in targets.values():
        report = asyncio.run(target())
        print(report, flush=True)
        for kind, reply in report.faults.items():
            print(f"    {kind}: {reply[:100]!r} ({len(reply)} characters)")
        if report.slowest > args.limit / 1e3:
            print(f"    slow: {report.slowest_of[:100]!r} ({len(report.slowest_of)} characters)")
        failed |= bool(report.faults) or report.slowest > args.limit / 1e3
    sys.exit(failed)


if __name__ == "__main__":
    main()
