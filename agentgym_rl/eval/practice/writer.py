"""Asking a writer what the episodes of a group teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.tables import load
from agentgym_rl.eval.practice.asking import Asking, gathered, user
from agentgym_rl.rollout.answers import Unreadable, json_in
from agentgym_rl.rollout.playbook import Form, Op, Operation
from agentgym_rl.rollout.transcripts import transcript

TRANSCRIPT = 12_000
"""Most characters of an attempt that the writer reads; the middle of a longer one is left out."""
LONGEST = 400
"""Most characters of a lesson: a writer that loops writes longer ones."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What a writer is asked."""

    summary: str
    operations: str
    again: str
    contrast: dict[str, str]
    """By the form of the playbook."""
    judge: dict[str, str]


WORDING = load(Path(__file__).with_name("wording.toml"), Wording)


@dataclass(kw_only=True)
class Questions:
    """The questions of a step."""

    asking: Asking
    form: Form
    most: int
    """Lessons of a group."""
    rewards: bool
    """Whether the writer is told what was solved."""

    async def lessons(self, group: Sequence[Episode], had: Sequence[str]) -> str:
        """What told the good episodes of a group from the bad ones; empty where the writer has no answer.

        Args:
            had: the lessons that they had.
        """
        summaries = await gathered(self._summary(episode, had) for episode in group)
        if not all(summaries):
            return ""
        question = WORDING.contrast[self.form].format(
            count=len(group), env=group[0].env, most=self.most,
            judge=WORDING.judge["rewarded" if self.rewards else "unrewarded"],
            summaries="\n\n".join(f"Attempt {at}:\n{summary}" for at, summary in enumerate(summaries, start=1)),
        )  # fmt: skip
        return await self.asking.ask(f"contrast {group[0].item_id}", [user(question)])

    async def operations(self, env: str, group: str, had: Sequence[str], new: str) -> list[Operation]:
        """How new lessons change a list; none where the answer cannot be read."""
        question = WORDING.operations.format(env=env, lessons="\n".join(had) or "(empty)", new=new)
        return await self.asking.readable(f"operations {group}", question, read, WORDING.again) or []

    async def _summary(self, episode: Episode, had: Sequence[str]) -> str:
        outcome = f"Outcome: {'solved' if episode.success else 'not solved'}, reward {episode.reward:g}."
        question = WORDING.summary.format(
            env=episode.env, lessons="\n".join(had) or "(none)", transcript=_attempt(episode),
            outcome=outcome if self.rewards else "",
        )  # fmt: skip
        summary = await self.asking.ask(f"summary {episode.item_id} {episode.tags['sample']}", [user(question)])
        return f"{summary}\n{outcome}" if summary and self.rewards else summary


def read(answer: str) -> list[Operation]:
    """The operations in an answer; those that do nothing are left out.

    Raises:
        Unreadable: there is no JSON list of such objects; says why.
    """
    items = json_in(answer, "[", "]", "list")
    return [operation for item in items if (operation := _operation(item)) is not None]


def _operation(item: Any) -> Operation | None:
    if not isinstance(item, dict) or str(item.get("op")).upper() not in ("NONE", *Op):
        raise Unreadable(f"{str(item)[:80]} has no op of ADD, UPDATE, DELETE, NONE")
    name, text, number = str(item["op"]).upper(), item.get("text", ""), str(item.get("id", 0))
    if name == "NONE":
        return None
    op = Op(name)
    if op is not Op.delete and not (isinstance(text, str) and text.strip()):
        raise Unreadable(f"{name} has no text")
    if op is not Op.add and not (number.isdecimal() and number.isascii() and len(number) < 10):
        raise Unreadable(f"{name} has no id of a lesson")
    written = "" if op is Op.delete else " ".join(text.split())
    return Operation(op, written, 0 if op is Op.add else int(number))


def _attempt(episode: Episode) -> str:
    """The conversation of an episode to its last observation, without what the model read of a playbook."""
    last = [{"role": "user", "content": turn.observation} for turn in episode.turns[-1:]]
    return transcript([*episode.without_preface, *last], TRANSCRIPT)
