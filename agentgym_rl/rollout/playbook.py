"""A playbook: numbered lessons in words, which a model reads before the first observation of an episode.

``agentgym-rl learn`` writes one (Training-Free GRPO, arXiv 2510.08191). The official code numbers a new lesson by the
length of the list, so that after a deletion it overwrites another one; here a number never comes again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentgym_rl.data.files import write_text
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.envs.tables import json_object

VERSION = 1
LONGEST = 100_000
"""Most characters of what a model reads of a playbook: more fills most contexts."""
CHARACTERS = 4
"""Characters that count as a token, whatever the model."""


class Form(StrEnum):
    """What lessons are about."""

    experiences = "experiences"
    """What told good attempts from bad ones (Training-Free GRPO)."""
    rules = "rules"
    """Rules of the world, and a strategy (after CEL)."""


HEADINGS = {
    Form.experiences: "Lessons from earlier attempts at such tasks:",
    Form.rules: "Rules of this world, and how to go about it, learned in earlier attempts:",
}


class Op(StrEnum):
    """What is done to a playbook."""

    add = "ADD"
    update = "UPDATE"
    delete = "DELETE"


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of a playbook."""

    op: Op
    text: str = ""
    """Of an addition or an update."""
    id: int = 0
    """Of the lesson that is updated or deleted."""


@dataclass(slots=True, kw_only=True)
class Lesson:
    """One sentence of a playbook."""

    id: int
    env: str
    text: str
    born: int
    """Step that added it."""
    changed: int
    """Step that wrote its present text."""
    groups: list[str] = field(default_factory=list)
    """Item ids of the tasks whose episodes led to it, once for each time."""
    episodes: int = 0
    """Episodes of later steps that had it."""
    successes: int = 0
    """How many of them were solved."""

    @property
    def use(self) -> tuple[int, float, int]:
        """Grows with the groups that led to it, then with the success of its episodes (0.5 before any), then with its
        number."""
        return len(self.groups), (self.successes + 1) / (self.episodes + 2), self.id


@dataclass(slots=True, kw_only=True)
class Playbook:
    """Lessons by environment, in the order of their numbers."""

    form: Form = Form.experiences
    lessons: list[Lesson] = field(default_factory=list)
    next_id: int = 1

    @classmethod
    def read(cls, file: str | Path) -> Playbook:
        """A playbook from its file.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it is none, or too long for any model.
        """
        if not Path(file).is_file():
            raise FileNotFoundError(f"{file} does not exist; give a playbook.json that `agentgym-rl learn` wrote")
        try:
            found = cls.from_dict(json_object(Path(file)))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is no playbook ({type(error).__name__}: {error})") from error
        for env, text in found.prompts().items():
            if len(text) > LONGEST:
                raise ValueError(f"{file} has {len(text):,} characters for {env}, more than {LONGEST:,}; shorten it")
        return found

    @classmethod
    def filled(cls, file: str | Path, key: str) -> Playbook:
        """A playbook with lessons, from the file that a key names.

        Raises:
            FileNotFoundError, ValueError: see :meth:`read`, or it has no lessons.
        """
        playbook = cls.read(file)
        if not playbook.lessons:
            raise ValueError(f"{key}={file} has no lessons; give one that has")
        return playbook

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Playbook:
        """The inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: it is not of this form.
        """
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}; this agentgym-rl reads {VERSION}")
        lessons = [Lesson(**{**lesson, "groups": list(lesson["groups"])}) for lesson in data["lessons"]]
        ids = [lesson.id for lesson in lessons]
        if len({*ids}) < len(ids) or max(ids, default=0) >= data["next_id"]:
            raise ValueError("two lessons have one number, or the next number is taken")
        if wrong := [
            lesson for lesson in lessons if not isinstance(lesson.text, str) or not isinstance(lesson.env, str)
        ]:
            raise ValueError(f"lesson {wrong[0].id} has no text or no environment")
        return cls(form=Form(data["form"]), lessons=lessons, next_id=data["next_id"])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"version": VERSION, **asdict(self), "form": self.form.value}

    def write(self, file: Path) -> None:
        """Write it, whole."""
        write_text(file, json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")

    def of(self, env: str) -> list[Lesson]:
        return [lesson for lesson in self.lessons if lesson.env == env]

    def listed(self, env: str) -> list[str]:
        """A line for each lesson of an environment."""
        return [f"[{lesson.id}] {lesson.text}" for lesson in self.of(env)]

    def text(self, env: str) -> str:
        """What a model reads in an environment; empty where no lesson is of it."""
        lines = self.listed(env)
        return "\n".join([HEADINGS[self.form], *lines]) if lines else ""

    def prompts(self, before: Mapping[str, str] | None = None) -> dict[str, str]:
        """:meth:`text` by environment, each after what a model reads before it."""
        first = before or {}
        envs = sorted({*first, *(lesson.env for lesson in self.lessons)})
        return {env: "\n\n".join(filter(None, [first.get(env), self.text(env)])) for env in envs}

    @property
    def digest(self) -> str:
        """Of all that models read, so that equal ones are one playbook."""
        return fingerprint(json.dumps(self.prompts(), sort_keys=True), 12)

    def apply(self, operation: Operation, env: str, step: int, group: str) -> bool:
        """Carry out an operation on the lessons of an environment.

        A text that is there already is not added again: its lesson gains the group.

        Args:
            group: item id of the task whose episodes led to it.

        Returns:
            Whether the lesson that it is about is there.
        """
        own = {lesson.id: lesson for lesson in self.of(env)}
        known = {_plain(lesson.text): lesson for lesson in own.values()}.get(_plain(operation.text))
        if operation.op is Op.add:
            if known is None:
                self.lessons.append(
                    Lesson(id=self.next_id, env=env, text=operation.text, born=step, changed=step, groups=[group])
                )
                self.next_id += 1
            else:
                known.groups.append(group)
            return True
        lesson = own.get(operation.id)
        if lesson is None:
            return False
        if operation.op is Op.delete or known not in (None, lesson):  # an update that says what another one does
            self.lessons.remove(lesson)
        if operation.op is Op.update:
            (known or lesson).groups.append(group)
            if known is None:
                lesson.text, lesson.changed = operation.text, step
        return True

    def cut(self, most: int, tokens: int) -> list[Lesson]:
        """Remove the least used lessons of each environment until the others are within the limits; returns them.

        Args:
            most: lessons of an environment.
            tokens: of what a model reads, with :data:`CHARACTERS` each.
        """
        gone = []
        for env in {lesson.env: None for lesson in self.lessons}:
            while (own := self.of(env)) and (len(own) > most or len(self.text(env)) > tokens * CHARACTERS):
                gone.append(min(own, key=lambda lesson: lesson.use))
                self.lessons.remove(gone[-1])
        return gone

    def observe(self, env: str, successes: int, episodes: int) -> None:
        """Count episodes that had the lessons of an environment."""
        for lesson in self.of(env):
            lesson.episodes += episodes
            lesson.successes += successes


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
