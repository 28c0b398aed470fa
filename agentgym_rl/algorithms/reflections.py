"""Reflections on demonstrations: why an expert's action is better than another, told from what followed either."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_rl.algorithms.base import Run
from agentgym_rl.algorithms.restarts import task_of
from agentgym_rl.algorithms.rows import PerToken, Row, span
from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.conversation import ContextTooSmall
from agentgym_rl.rollout.transcripts import transcript

LONGEST = 8000
"""Most characters that the writer reads of what came before."""
QUESTION = """An agent met this:

{before}

It answered:

{expert}

which led to:

{after}

Another answer, in its place:

{response}

leads to:

{observation}

Write the first answer again, in the same format and with the same action. Its thought says why this action is better
than the other, from what can be known before either is taken. Answer with its text alone."""
OVER = "(the end)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another response at a state of a demonstration, and what followed."""

    demonstration: int
    """Place among the run's."""
    turn: int
    response: str
    observation: str

    def before(self, run: Run) -> list[Message]:
        """The conversation up to the state."""
        episode = run.demonstrations[self.demonstration].episode
        return episode.messages[: episode.start + 2 * self.turn]

    def question(self, run: Run) -> list[Message]:
        """What a writer is asked."""
        expert = run.demonstrations[self.demonstration].episode.turns[self.turn]
        text = QUESTION.format(
            before=transcript(self.before(run), LONGEST),
            expert=expert.response,
            after=expert.observation or OVER,
            response=self.response,
            observation=self.observation or OVER,
        )
        return [{"role": "user", "content": text}]

    def reflection(self, run: Run, answer: str) -> Row | None:
        """A row of the answer at the state; None where it has another action than the expert's, or does not fit."""
        expert = run.demonstrations[self.demonstration].episode
        if not answer.strip():
            return None
        try:
            encoded = run.encode([*self.before(run), {"role": "assistant", "content": answer}], task_of(expert))
        except ContextTooSmall:
            return None
        turn, segment = encoded.episode.turns[-1], encoded.segments[-1]
        if turn.invalid or turn.action != expert.turns[self.turn].action:
            return None
        start, end = span(segment, turn)
        weights = [float(start <= at < end) for at in range(len(segment.input_ids))]
        return Row(segment, {"cross_entropy": PerToken(weights)})


def asked(run: Run, alternatives: list[Alternative]) -> list[Row]:
    """The rows of a writer's answers, of those that can be learned from."""
    answers = run.generate([each.question(run) for each in alternatives], by="writer") if alternatives else []
    rows = [each.reflection(run, text) for each, (text,) in zip(alternatives, answers, strict=True)]
    return [row for row in rows if row is not None]
