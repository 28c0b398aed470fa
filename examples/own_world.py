"""A world of one's own in some fifty lines: guess a number between 1 and 100, told whether to go higher or lower.

Run it: the oracle plays, and some rules of the contract are asserted. docs/add-a-world.md tells how to install a world,
after which `agentgym-rl check` tries all rules and `agentgym-rl train` can name it.
"""

import asyncio
import re
from random import Random

from agentgym_rl.data.conversation import Scripted
from agentgym_rl.data.play import play
from agentgym_rl.data.policies import OraclePolicy
from agentgym_rl.data.settings import RolloutSettings
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.core import EnvSpec, Observation, ProtocolError, Step, TaskNotFound

INSTRUCTION = "Find a number between 1 and 100. Reply with `Action: guess <number>`."


class Guess(TextEnv):
    name = "guess"
    spec = EnvSpec(
        name=name,
        instructions={"agentgym": INSTRUCTION, "compact": INSTRUCTION},
        splits={"train": range(0, 900), "test": range(900, 1000)},
        max_turns=8,
        success_above=0.5,
        licence="No data; the numbers are drawn by the task's index.",
    )

    secret: int | None = None

    async def reset(self, task: Task) -> Observation:
        self.secret = self._number(task)
        return Observation("I think of a number between 1 and 100.")

    async def step(self, action: str) -> Step:
        if self.secret is None:
            raise ProtocolError("guess was stepped before a reset or after the end")
        said = re.fullmatch(r"guess (\d{1,3})", action)
        if said is None:
            return Step(Observation("Say: guess <number>."), 0.0, terminated=False, info={"invalid": True})
        guess, secret = int(said[1]), self.secret
        if guess != secret:
            return Step(Observation("Higher." if guess < secret else "Lower."), 0.0, terminated=False)
        self.secret = None
        return Step(Observation("Right."), 1.0, terminated=True)

    async def close(self) -> None:
        self.secret = None

    def goal(self, task: Task) -> str:
        return f"guess {self._number(task)}"

    def difficulty(self, task: Task) -> str:
        return "easy" if self._number(task) in (25, 50, 75) else "hard"

    def oracle(self, task: Task) -> list[str]:
        low, high, guesses = 1, 100, [50]
        while guesses[-1] != self._number(task):
            low, high = (guesses[-1] + 1, high) if guesses[-1] < self._number(task) else (low, guesses[-1] - 1)
            guesses.append((low + high) // 2)
        return [f"guess {number}" for number in guesses]

    def _number(self, task: Task) -> int:
        if task.env != self.name or not 0 <= task.index < 1000:
            raise TaskNotFound(f"{task} is not a task of {self.name}")
        return Random(str(task)).randint(1, 100)  # the same on every machine and in every process


async def main() -> None:
    world = Guess("compact")
    for index in world.spec.splits["test"]:
        task = Task("guess", index)
        oracle = Scripted(OraclePolicy(world.oracle(task), world))
        episode, _ = await play(lambda: Guess("compact"), task, lambda oracle=oracle: oracle, RolloutSettings())
        assert episode.success, f"the oracle does not solve {task}"
        assert 0.0 <= episode.reward <= 1.0
    for turn in episode.turns:
        print(f"{turn.response:20s} -> {turn.observation}")

    assert await world.reset(task) == await Guess("compact").reset(task), "the same task differs between sessions"
    assert (await world.step("qwzx")).info["invalid"], "nonsense must be an observation, marked invalid"
    try:
        await world.reset(Task("guess", 10**15))
        raise AssertionError("an unknown task was accepted")
    except TaskNotFound:
        print("solved all of", len(world.spec.splits["test"]), "test tasks; the contract holds")


if __name__ == "__main__":
    asyncio.run(main())
