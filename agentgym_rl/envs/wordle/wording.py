"""Everything the agent reads, in each style."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.wordle.tasks import Puzzle

INSTRUCTIONS: Mapping[Style, str] = {
    "agentgym": (
        "You play Wordle: find a hidden word of five letters with at most six guesses, the fewer the better. Write a "
        'guess as its letters with spaces between them, such as "s h i r e". The answer to a guess is one mark for '
        'each of its letters, in order, such as "b y g g b":\n'
        '"b": the hidden word does not have this letter.\n'
        '"y": the hidden word has this letter, but not at this position.\n'
        '"g": the hidden word has this letter at this position.\n\n'
        'A guess that is not among the words of the game is answered with "invalid word" and counts, too. Let each '
        "guess agree with all marks you have seen.\n\n"
        "For example:\n"
        "Action: t r a i n\n"
        "b y y b b\n"
        'Now the word has an "r" that is not second and an "a" that is not third, and no "t", "i" or "n".\n'
        "Action: s o l a r\n"
        "g g g g g\n\n"
        "Answer in exactly this format:\nThought:\nyour reasoning\n\nAction:\nyour guess"
    ),
    "compact": "Guess the word. g right, y elsewhere, b absent. Reply `Action: s h i r e`.",
}

INVALID: Mapping[Style, str] = {"agentgym": "invalid word", "compact": "invalid"}


def spaced(letters: str) -> str:
    """Letters or marks as they are written."""
    return " ".join(letters)


def observe(puzzle: Puzzle, style: Style) -> str:
    """What is seen before the first guess."""
    if style == "compact":
        return ", ".join(map(spaced, puzzle.words)) if puzzle.listed else "any word"
    if puzzle.listed:
        return f"A new game begins. The hidden word is one of these {len(puzzle.words)}:\n{' '.join(puzzle.words)}"
    return f"A new game begins. The hidden word is one of {len(puzzle.words)} common English words."
