"""An environment of your own: guess a number between 1 and 100; the answer is "higher" or "lower".

.venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_environment
agentgym-rl check guess --all
agentgym-rl play guess_7
"""

import re
from random import Random

from agentgym_rl.envs import EnvSpec, Observation, Step, Task, TextEnv
from agentgym_rl.envs.core import TaskNotFound

RULES = "Find a number between 1 and 100. Reply with `Action: guess <number>`."


class Guess(TextEnv):
    name = "guess"
    spec = EnvSpec(
        name=name, instructions={"agentgym": RULES, "compact": RULES}, max_turns=8, success_above=0.5,
        splits={"train": range(900), "test": range(900, 1000)}, licence="No data; numbers are drawn by index.",
    )  # fmt: skip
    secret = 0

    async def _reset(self, task: Task) -> Observation:
        self.secret = self.number(task)
        return Observation("I think of a number.")

    async def _step(self, action: str) -> Step:
        if (said := re.fullmatch(r"guess (\d{1,3})", action)) is None:
            return Step(Observation("Say: guess <number>."), 0.0, terminated=False, info={"invalid": True})
        if (guess := int(said[1])) != self.secret:
            return Step(Observation("Higher." if guess < self.secret else "Lower."), 0.0, terminated=False)
        return Step(Observation("Right."), 1.0, terminated=True)

    def number(self, task: Task) -> int:
        if not 0 <= task.index < 1000:
            raise TaskNotFound(f"{task} is not a task of guess: valid are guess_0 to guess_999")
        rng = Random(str(task))  # the same on every machine and in every process
        tens = 10 * rng.randrange(10)
        return tens + (10 if task.index in self.spec.splits["test"] else rng.randint(1, 9))  # in one split only

    def goal(self, task: Task) -> str:
        return f"guess {self.number(task)}"

    async def content(self, task: Task) -> str:
        return self.goal(task)  # all tasks begin alike

    def difficulty(self, task: Task) -> str:
        return f"guesses {len(self.oracle(task))}"

    def oracle(self, task: Task) -> list[str]:
        low, high, said = 1, 100, [50]
        while said[-1] != self.number(task):
            low, high = (said[-1] + 1, high) if said[-1] < self.number(task) else (low, said[-1] - 1)
            said.append((low + high) // 2)
        return [f"guess {number}" for number in said]
