"""Wordle: find a hidden word by the marks on your guesses."""

from collections.abc import Mapping
from pathlib import Path

from agentgym_rl.envs.core import Observation, OracleUnavailable, Step, Style, Task, TextEnv
from agentgym_rl.envs.texts import EnvTexts, read_texts
from agentgym_rl.envs.wordle import tasks
from agentgym_rl.envs.wordle.game import GUESSES, SOLVED, Game, solve

TEXTS = read_texts(__file__, EnvTexts)

INVALID: Mapping[Style, str] = {"agentgym": "invalid word", "compact": "invalid"}


class Wordle(TextEnv):
    """The Wordle of LMRL-Gym (Abdulhai et al. 2023, arXiv:2311.18232) with AgentGym's rules and words of our own.

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
        self._spec = TEXTS.spec(
            self.name, tasks.SPLITS if self._words is None else tasks.SEEDS, raw_reward_range=(-1.0, 0.0)
        )
        self._puzzle: tasks.Puzzle
        self._game: Game
        self._guesses = 0
        self._opening = ""

    def quote(self, instruction: str, opening: str) -> None:
        """AgentGym's client says the rules with the vocabulary in place of the first observation."""
        if "\n".join(self.words) not in opening:
            raise ValueError("instruction_of: its conversations list other words; give theirs by the option vocabulary")
        super().quote(instruction, opening)
        self._opening = opening

    def _opened(self, first: Observation) -> Observation:
        return Observation(self._opening) if self._opening else first

    @property
    def words(self) -> tuple[str, ...]:
        """The whole vocabulary."""
        return tasks.words() if self._words is None else self._words

    async def _reset(self, task: Task) -> Observation:
        self._puzzle = self._find(task)
        self._game = self._puzzle.game()
        self._guesses = 0
        return Observation(observe(self._puzzle, self.style))

    async def _step(self, action: str) -> Step:
        word = "".join(action.lower().split())
        valid = word in self._puzzle.words
        seen = self._game.mark(word) if valid else ""
        solved = seen == SOLVED
        self._guesses += 1
        over = solved or self._guesses == GUESSES
        text = " ".join(seen) if valid else INVALID[self.style]
        info = {"invalid": not valid, "raw_reward": float(solved) - 1}
        return Step(Observation(text), float(solved), terminated=over, info=info)

    def goal(self, task: Task) -> str:
        """The hidden word, and the words it is among."""
        return str(self._find(task))

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """Among how many words the hidden one is, such as ``words 40``."""
        if self._words is not None:
            return f"words {len(self._find(task).words)}"
        return tasks.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        """Guesses that are chosen by nothing but the marks.

        Raises:
            OracleUnavailable: with a vocabulary of one's own, they are more than a game has.
        """
        puzzle = self._find(task)
        guesses = solve(puzzle.game(), puzzle.words)
        if len(guesses) > GUESSES:
            raise OracleUnavailable(f"{task}: the oracle needs {len(guesses)} guesses, and a game has {GUESSES}")
        return [" ".join(word) for word in guesses]

    def _find(self, task: Task) -> tasks.Puzzle:
        index = self._index(task)
        return tasks.puzzle(index) if self._words is None else tasks.seeded(index, self._words)


def observe(puzzle: tasks.Puzzle, style: Style) -> str:
    """The observation before the first guess."""
    if style == "compact":
        return ", ".join(map(" ".join, puzzle.words)) if puzzle.listed else "any word"
    if puzzle.listed:
        return f"A new game begins. The hidden word is one of these {len(puzzle.words)}:\n{' '.join(puzzle.words)}"
    return f"A new game begins. The hidden word is one of {len(puzzle.words)} common English words."
