"""Tiny environments for tests: one that keeps the contract, and one per way of breaking it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import takewhile
from math import inf
from typing import ClassVar

from agentgym_rl.envs.core import Achieved, EnvSpec, Observation, ProtocolError, Step, Task, TaskNotFound, TextEnv
from agentgym_rl.envs.knobs import Knob

SIZE = 50


class Counter(TextEnv):
    """``say N`` for the next number, from 1 to the target; task i has target ``i % 3 + 1``. One wrong number loses.

    Targets are at most ``most``. With the ink ``lead`` no number is right.
    """

    name: ClassVar[str] = "counter"
    knobs = (Knob("most", (1, 2, 3), nested=True), Knob("ink", ("red", "green", "blue", "lead"), ordered=False))

    def __init__(
        self, style: str = "agentgym", hurry: bool = False, most: int | None = None, ink: str | None = None
    ) -> None:
        super().__init__(style)  # type: ignore[arg-type]
        self.hurry, self.most, self.ink = hurry, most, ink
        self._next: int | None = None
        self._target = 0

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name=self.name,
            instructions={"agentgym": "Count up, one number a turn: say N.", "compact": "say N"},
            splits={"train": range(40), "test": range(40, SIZE)},
            max_turns=5,
            success_above=0.5,
            licence="none needed",
        )

    def target(self, task: Task) -> int:
        if not 0 <= task.index < SIZE:
            raise TaskNotFound(f"{task} is outside 0..{SIZE - 1}")
        return int(self._pursued.split()[-1]) if self._pursued else task.index % (self.most or 3) + 1

    async def _reset(self, task: Task) -> Observation:
        self._target = self.target(task)
        self._next = 1
        return Observation(f"Count to {self._target}.", self._possible())

    async def _step(self, action: str) -> Step:
        if self._next is None:
            raise ProtocolError("no task is being played; call reset first")
        word, _, number = action.partition(" ")
        if word != "say" or not number.isdecimal():
            return Step(Observation("I do not understand.", self._possible()), 0.0, False, info={"invalid": True})
        if int(number) != self._next or self.ink == "lead":
            self._next = None
            return Step(Observation("Wrong."), 0.0, True)
        self._next += 1
        if self._next > self._target:
            self._next = None
            return Step(Observation("Done."), 1.0, True)
        return Step(Observation("Right.", self._possible()), 0.0, False)

    def _possible(self) -> tuple[str, ...]:
        return ("say 1", "say 2", "say 3")

    def goal(self, task: Task) -> str:
        return f"count to {self.target(task)}"

    async def content(self, task: Task) -> str:
        return str(task)  # as if no two tasks were alike

    def difficulty(self, task: Task) -> str:
        return f"length {self.target(task)}"

    def oracle(self, task: Task) -> list[str]:
        return [f"say {number}" for number in range(1, self.target(task) + 1)]

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        right = takewhile(lambda pair: pair[1] == f"say {pair[0]}", enumerate(commands, start=1))
        counted = min(sum(1 for _ in right), task.index % 3)
        return Achieved(f"count to {counted}", counted) if counted else None

    def steps_left(self, task: Task, commands: Sequence[str]) -> list[float] | None:
        left = [float(target := self.target(task))]
        for command in commands:
            word, _, number = command.partition(" ")
            counts, due = word == "say" and number.isdecimal(), target - left[-1] + 1
            left.append(left[-1] if not counts else left[-1] - 1 if int(number) == due else inf)
        return left


class Drifting(Counter):
    """Words its observation differently each time."""

    name = "drifting"

    async def _reset(self, task: Task) -> Observation:
        first = await super()._reset(task)
        return Observation(f"{first.text} {random.random()}", first.actions)


class Repeating(Counter):
    """Has the same three games in both splits."""

    name = "repeating"

    async def content(self, task: Task) -> str:
        return await TextEnv.content(self, task)


class HashOrdered(Counter):
    """Lists words in the order of a set, which the hash seed decides."""

    name = "hash_ordered"

    async def _reset(self, task: Task) -> Observation:
        await super()._reset(task)
        return Observation(" ".join({"red", "green", "blue", "grey", "pink", "cyan", "lime", "teal"}))


class FalseOracle(Counter):
    """Its oracle counts backwards."""

    name = "false_oracle"

    def oracle(self, task: Task) -> list[str]:
        return ["say 9"]


class Boastful(Counter):
    """Says that a goal is reached one command too early."""

    name = "boastful"

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        achieved = super().achieved(task, commands)
        return None if achieved is None or achieved.upto_turn < 2 else Achieved(achieved.goal, achieved.upto_turn - 1)


class Generous(Counter):
    """Pays 2 for the last number."""

    name = "generous"

    async def _step(self, action: str) -> Step:
        step = await super()._step(action)
        return Step(step.observation, 2 * step.reward, step.terminated, info=step.info)


class Sibling(Counter):
    """Another environment, with the same tasks."""

    name = "sibling"


class Trickling(Counter):
    """Pays 0.4 for rubbish, over and over."""

    name = "trickling"

    async def _step(self, action: str) -> Step:
        step = await super()._step(action)
        return Step(step.observation, 0.4, False, info=step.info) if step.info.get("invalid") else step


class Endless(Counter):
    """Overrides what the base class enforces: it goes on after the end and before the start."""

    name = "endless"

    async def step(self, action: str) -> Step:  # type: ignore[misc]
        if self._next is None:
            return Step(Observation("Already done."), 0.0, True)
        return await super().step(action)


class Fragile(Counter):
    """Raises on an action it does not understand."""

    name = "fragile"

    async def _step(self, action: str) -> Step:
        if self._next is not None and not action.startswith("say"):
            raise KeyError(action)
        return await super()._step(action)


class Silent(Counter):
    """Does not say that an action was invalid."""

    name = "silent"

    async def _step(self, action: str) -> Step:
        step = await super()._step(action)
        return Step(step.observation, step.reward, step.terminated)


class Boundless(Counter):
    """Takes any index."""

    name = "boundless"

    def target(self, task: Task) -> int:
        return task.index % 3 + 1


class Shared(Counter):
    """Keeps its state on the class, so that sessions disturb each other."""

    name = "shared"
    _count: ClassVar[int] = 0

    async def _reset(self, task: Task) -> Observation:
        Shared._count = 0
        return await super()._reset(task)

    async def _step(self, action: str) -> Step:
        step = await super()._step(action)
        Shared._count += 1
        return Step(Observation(f"{Shared._count}: {step.observation.text}"), step.reward, step.terminated)


class Sticky(Counter):
    """Cannot be reset once closed."""

    name = "sticky"
    _closed = False

    async def _close(self) -> None:
        self._closed = True

    async def _reset(self, task: Task) -> Observation:
        if self._closed:
            raise RuntimeError("closed")
        return await super()._reset(task)


class Halved(Counter):
    """Has no test split and no compact instruction."""

    name = "halved"

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name=self.name,
            instructions={"agentgym": "Count."},
            splits={"train": range(40), "spare": ()},
            max_turns=5,
            success_above=0.5,
            licence="none needed",
        )


class Plain(Counter):
    """Has no oracle and lists no actions."""

    name = "plain"

    def _possible(self) -> tuple[str, ...]:
        return None  # type: ignore[return-value]

    def oracle(self, task: Task) -> list[str]:
        return TextEnv.oracle(self, task)


class Vast(Counter):
    """300,000 training tasks in a lazy split; counts how often it is asked for a goal."""

    name = "vast"
    goals: ClassVar[int] = 0

    @property
    def spec(self) -> EnvSpec:
        base = super().spec
        return EnvSpec(
            name=self.name,
            instructions=base.instructions,
            splits={"train": range(300_000), "test": range(300_000, 300_010)},
            max_turns=5,
            success_above=0.5,
        )

    def target(self, task: Task) -> int:
        return task.index % 3 + 1

    def goal(self, task: Task) -> str:
        Vast.goals += 1
        return super().goal(task)


WORLDS = [
    Boastful, Boundless, Counter, Drifting, Endless, FalseOracle, Fragile, Generous, Halved, HashOrdered, Plain,
    Repeating, Shared, Sibling, Silent, Sticky, Trickling, Vast,
]  # fmt: skip
