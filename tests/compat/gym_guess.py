"""A text environment of Gymnasium, and what we make of it."""

from __future__ import annotations

import string

import gymnasium
from gymnasium.spaces import Discrete, Text

from agentgym_rl.compat.gymnasium import text_env


class GuessLetter(gymnasium.Env):
    """Find a letter; 4 points at the first attempt, a point less for each further one, and -1 after the fourth."""

    observation_space = Text(40, charset=string.printable)
    action_space = Text(1, charset=string.ascii_lowercase)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.letter = "abcdef"[self.np_random.integers(6)]
        self.left = 4
        return "Which letter?", {"actions": [*"abcdef"]}

    def step(self, action):
        if action == self.letter:
            return "Right.", float(self.left), True, False, {}
        self.left -= 1
        return "Wrong.", -1.0 if not self.left else 0.0, False, not self.left, {"actions": [*"abcdef"]}


class Numbers(gymnasium.Env):
    observation_space = action_space = Discrete(2)


gymnasium.register("GuessLetter-v0", GuessLetter)
gymnasium.register("Numbers-v0", Numbers)

SPLITS = {"train": range(30), "test": range(30, 40)}
Guess = text_env("gymguess", "GuessLetter-v0", instruction="Find it.", splits=SPLITS, max_turns=4, best=4)
NoText = text_env("numbers", "Numbers-v0", instruction="", splits=SPLITS, max_turns=4)
