"""Backward construction: a writer says of calls that were made what they would be the answer to.

After Learn-by-interact (arXiv 2501.10893), and CuES (arXiv 2512.01311), whose tasks count only when they were done
again. Both ask a model whether that was so; here calls and results are compared.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.explorable import Call, Explorable
from agentgym_rl.envs.tables import load
from agentgym_rl.envs.tools import Tool
from agentgym_rl.envs.tooluse import wording
from agentgym_rl.eval.practice.giveaways import words
from agentgym_rl.rollout.answers import Unreadable, json_in

LONGEST = 600
"""Most characters of an instruction: a writer that loops writes longer ones."""
RESULT = 2_000
"""Most characters of a result that a writer reads."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What explorers and writers are asked."""

    curious: str
    curious_once: str
    done: str
    backward: str
    once: str
    judge: str
    answered: str
    changed: str
    again: str


WORDING = load(Path(__file__).with_name("backward.toml"), Wording)


@dataclass(frozen=True, slots=True)
class Made:
    """A call that a tool carried out."""

    name: str
    arguments: Mapping[str, Any]
    command: str
    observation: str
    """As the agent read it."""
    result: str

    @property
    def call(self) -> Call:
        return self.name, self.arguments

    @property
    def text(self) -> str:
        return f"{self.name} {json.dumps(self.arguments, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class Idea:
    """A task as a writer has it; calls are numbered from 1."""

    instruction: str
    calls: tuple[int, ...]
    answer: Any = None
    """Of a question."""
    state: int | None = None
    """Number of the call that shows a change."""

    def of(self, calls: Sequence[Made]) -> list[Made]:
        """Its calls."""
        return [calls[at - 1] for at in self.calls]


def made(episode: Episode, env: Explorable) -> list[Made]:
    """The calls of an episode that were carried out, in order, without what ended it."""
    turns = episode.turns[:-1] if episode.ending is Ending.TERMINATED else episode.turns
    calls = []
    for turn in turns:
        if turn.action is not None and not turn.invalid and (call := env.call(turn.action)):
            result = wording.result_in(turn.observation, env.style)
            calls.append(Made(*call, turn.action, turn.observation, result))
    return calls


def question(calls: Sequence[Made], tools: Sequence[Tool], most: int, once: bool = False) -> str:
    """Asks for at most ``most`` tasks.

    Args:
        once: see :attr:`agentgym_rl.envs.explorable.Explorable.by_one_call`.
    """
    text = WORDING.backward.format(tools=_described(tools), calls=_listed(calls), most=most)
    return text + WORDING.once if once else text


def judgement(idea: Idea, calls: Sequence[Made], tools: Sequence[Tool]) -> str:
    """Asks whether an instruction asks for what was done."""
    if idea.state is None:
        outcome = WORDING.answered.format(answer=json.dumps(idea.answer, ensure_ascii=False))
    else:
        shown = calls[idea.state - 1]
        outcome = WORDING.changed.format(call=shown.text, result=cut(shown.result, RESULT))
    return WORDING.judge.format(
        tools=_described(tools), instruction=idea.instruction, calls=_listed(idea.of(calls)),
        outcome=outcome,
    )  # fmt: skip


def read(answer: str, count: int) -> list[Idea]:
    """The tasks in an answer about ``count`` calls.

    Raises:
        Unreadable: there is no JSON list of tasks; says why.
    """
    return [_idea(item, count) for item in json_in(answer, "[", "]", "list")]


def read_judgement(answer: str) -> bool:
    """Whether an answer says that the instruction is exact.

    Raises:
        Unreadable: it does not say.
    """
    judgement = json_in(answer, "{", "}", "object")
    if not isinstance(judgement.get("exact"), bool):
        raise Unreadable('there is no "exact" that is true or false')
    return bool(judgement["exact"])


def fault(idea: Idea, names: Collection[str], once: bool = False) -> str:
    """Why a task does not count whatever it is worth; empty where nothing is wrong.

    Args:
        names: of the tools.
        once: see :func:`question`.
    """
    if once and (idea.state is not None or len(idea.calls) > 1):
        return "more than a question"
    if len(idea.instruction) > LONGEST:
        return "too long"
    if any(_names(idea.instruction, name) for name in names):
        return "with a call"
    if idea.state is None and _tells(idea.instruction, idea.answer):
        return "with the answer"
    return ""


def _idea(item: Any, count: int) -> Idea:
    shown = str(item)[:80]
    if not isinstance(item, dict) or ("answer" in item) == ("state" in item):
        raise Unreadable(f"{shown} is no object with either answer or state")
    instruction, calls, state = item.get("instruction"), item.get("calls"), item.get("state")
    if not isinstance(instruction, str) or not instruction.strip():
        raise Unreadable(f"{shown} has no instruction")
    if not isinstance(calls, list) or not calls or not all(_number(call, count) for call in calls):
        raise Unreadable(f"{shown} has calls other than some of 1 to {count}")
    if calls != sorted(set(calls)):
        raise Unreadable(f"{shown} has its calls in another order")
    if "state" in item and not (_number(state, count) and state > calls[-1]):
        raise Unreadable(f"{shown} has no state that is the number of a later call")
    if "answer" in item and not _is_answer(item["answer"]):
        raise Unreadable(f"{shown} has an answer that is no text, number or list of them")
    return Idea(" ".join(instruction.split()), tuple(calls), item.get("answer"), state)


def _number(value: Any, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= count


def _is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(not isinstance(item, list) and _is_answer(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (bool, int)) or (isinstance(value, str) and bool(value.strip()))


def _names(instruction: str, name: str) -> bool:
    """Whether a text speaks of a tool. A name that is a word of the language may be meant as that."""
    plain = name.isalpha() and name.islower()
    marked = rf"[`'\"]{re.escape(name)}[`'\"]|\b{re.escape(name)}\(|\b{re.escape(name)} tool\b"
    return re.search(marked if plain else rf"\b{re.escape(name)}\b", instruction, re.IGNORECASE) is not None


def _tells(instruction: str, answer: Any) -> bool:
    """Whether a text has all words of an answer; yes and no are in no text."""
    if isinstance(answer, bool):
        return False
    in_instruction = words(instruction)
    return all(words(str(item)) <= in_instruction for item in (answer if isinstance(answer, list) else [answer]))


def _described(tools: Sequence[Tool]) -> str:
    return "\n".join(f"- {tool.name}: {' '.join(tool.description.split())}" for tool in tools)


def _listed(calls: Sequence[Made]) -> str:
    return "\n\n".join(
        f"{number}. {call.text}\n{cut(call.result, RESULT)}" for number, call in enumerate(calls, start=1)
    )
