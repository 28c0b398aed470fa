"""Wordle: find a hidden word by the marks on your guesses."""

from __future__ import annotations

from pathlib import Path

from agentgym_rl.envs.core import EnvSpec, Observation, ProtocolError, Step, Style, Task, TaskNotFound, TextEnv
from agentgym_rl.envs.tools import Tool
from agentgym_rl.envs.wordle import tasks, wording
from agentgym_rl.envs.wordle.game import GUESSES, SOLVED, Game
from agentgym_rl.envs.wordle.solver import solve

GUESS = Tool(
    "guess",
    "Guess the hidden word.",
    {"word": {"type": "string", "description": "its five letters, with or without spaces between them"}},
    commands=("{word}",),
)


class Wordle(TextEnv):
    """The Wordle of LMRL-Gym (Abdulhai et al. 2023, arXiv:2311.18232) as AgentGym plays it, with words of our own.

    The right guess earns 1 and ends the episode; so does, without reward, the sixth that is not. A guess outside the
    words of the game is ``invalid`` and counts, too. ``info`` holds ``invalid`` and ``raw_reward``, which is
    LMRL-Gym's: 0 for the right guess, -1 for any other.

    Args:
        style: wording of instruction and observations.
        vocabulary: a file of words, one a line, such as LMRL-Gym's ``tweet_words.txt``. Then tasks are AgentGym's: the
            index is the seed of a game in which the hidden word is drawn anew before each guess, from the words that
            agree with all marks so far.

    Raises:
        FileNotFoundError, ValueError: the file does not exist or holds no words.
    """

    name = "wordle"

    def __init__(self, style: Style = "agentgym", vocabulary: str | Path | None = None) -> None:
        super().__init__(style)
        self._words = None if vocabulary is None else tasks.read_words(vocabulary)
        self._spec = EnvSpec(
            name=self.name,
            instructions=wording.INSTRUCTIONS,
            splits=tasks.SPLITS if self._words is None else tasks.SEEDS,
            max_turns=8,
            success_above=0.99,
            tools=(GUESS,),
            raw_reward_range=(-1.0, 0.0),
            licence="Apache-2.0; words collected for this package; rules are facts of LMRL-Gym and AgentGym (both MIT)",
        )
        self._puzzle: tasks.Puzzle | None = None
        self._game: Game | None = None
        self._guesses = 0

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def words(self) -> tuple[str, ...]:
        """The whole vocabulary."""
        return tasks.words() if self._words is None else self._words

    async def _reset(self, task: Task) -> Observation:
        self._puzzle = self._find(task)
        self._game = self._puzzle.game()
        self._guesses = 0
        return Observation(wording.observe(self._puzzle, self.style))

    async def _step(self, action: str) -> Step:
        if self._puzzle is None or self._game is None:
            raise ProtocolError("wordle was stepped before a reset or after the end of the episode")
        word = "".join(action.lower().split())
        valid = word in self._puzzle.words
        seen = self._game.mark(word) if valid else ""
        solved = seen == SOLVED
        self._guesses += 1
        over = solved or self._guesses == GUESSES
        if over:
            self._puzzle = self._game = None
        text = wording.spaced(seen) if valid else wording.INVALID[self.style]
        info = {"invalid": not valid, "raw_reward": float(solved) - 1}
        return Step(Observation(text), float(solved), terminated=over, info=info)

    async def _close(self) -> None:
        self._puzzle = self._game = None

    def goal(self, task: Task) -> str:
        """The hidden word, and the words it is among."""
        return str(self._find(task))

    def difficulty(self, task: Task) -> str:
        """Among how many words the hidden one is, such as ``words 40``."""
        if self._words is not None:
            return f"words {len(self._find(task).words)}"
        return tasks.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        """The guesses of a player who sees nothing but the marks."""
        puzzle = self._find(task)
        return [wording.spaced(word) for word in solve(puzzle.game(), puzzle.words)]

    def _find(self, task: Task) -> tasks.Puzzle:
        index = self._index(task)
        return tasks.puzzle(index) if self._words is None else tasks.seeded(index, self._words)

    def _index(self, task: Task) -> int:
        if task.env != self.name:
            raise TaskNotFound(f"{task} is not a task of {self.name}")
        return task.index
