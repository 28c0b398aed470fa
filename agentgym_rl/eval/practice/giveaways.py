"""Sentences that give a panel's tasks away: they would be remembered, not learned from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentgym_rl.envs.core import EnvError, Task, TextEnv

SHORTEST = 3
"""Characters of a word that can be an answer: fewer say too little ("no", "42")."""

_WORD = re.compile(r"\w+")
_SPELT = re.compile(r"\b(\w) (?=\w\b)")


@dataclass(frozen=True, slots=True)
class Giveaways:
    """The words of goals and answers, which no sentence may have all at once."""

    goals: tuple[frozenset[str], ...] = ()
    """Of each task its goal's words; without numbers, and marks such as ``619c3cea``, where the others tell it from
    other goals. Nothing where all tasks have one goal."""
    answers: tuple[frozenset[str], ...] = ()
    """Of each task with an oracle the words of the last command that no command of another task has."""

    @classmethod
    def of(cls, tasks: Iterable[tuple[TextEnv, Task]]) -> Giveaways:
        """Those of tasks, each with a session that knows it."""
        return cls.of_solutions((env.goal(task), solution_of(env, task)) for env, task in tasks)

    @classmethod
    def of_solutions(cls, tasks: Iterable[tuple[str, Sequence[str]]]) -> Giveaways:
        """Those of goals, each with the commands of its oracle; none where there is no oracle."""
        pairs = [(goal, tuple(solution)) for goal, solution in tasks]
        goals = {words(goal) for goal, _ in pairs}
        letters = Counter(map(_letters, goals))
        solutions = {solution for _, solution in pairs if solution}
        used = Counter(word for solution in solutions for word in {word for line in solution for word in words(line)})
        answers = {
            frozenset(word for word in words(solution[-1]) if used[word] == 1 and len(word) >= SHORTEST)
            for solution in solutions
        }
        shortened = {short if letters[short := _letters(goal)] == 1 and len(short) > 1 else goal for goal in goals}
        return cls(tuple(shortened) if len(goals) > 1 else (), tuple(answers - {frozenset()}))

    def of_goal(self, sentence: str) -> bool:
        """Whether it has all words of a task's goal."""
        in_sentence = words(sentence)
        return any(goal <= in_sentence for goal in self.goals)

    def of_answer(self, sentence: str) -> bool:
        """Whether it has all words that are the answer of one task alone."""
        in_sentence = words(sentence)
        return any(answer <= in_sentence for answer in self.answers)


def words(text: str) -> frozenset[str]:
    """The words of a text in lower case; letters that are spelt make one."""
    return frozenset(_WORD.findall(_SPELT.sub(r"\1", text.casefold())))


def _letters(tokens: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in tokens if word.isalpha())


def solution_of(env: TextEnv, task: Task) -> tuple[str, ...]:
    """The commands of the oracle; none where there is none."""
    try:
        return tuple(env.oracle(task))
    except EnvError:
        return ()
