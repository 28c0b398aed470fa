"""The result of an evaluation, on disk as ``result.json``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.data.files import write_text
from agentgym_rl.data.written_by import package_version
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.plan import Plan
from agentgym_rl.eval.evaluation.scores import Measure, Outcome, Score, env_of, macro, passes, score
from agentgym_rl.rollout.counted import Count, check_counted

NAME = "result.json"
VERSION = 1
BY_API = (Ending.CONTEXT_LIMIT, Ending.REFUSED, Ending.MALFORMED)
"""Endings of episodes that an answer of the model's API ended, which have its words as their error."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a plan. Everything but ``cost`` depends on the episodes alone."""

    plan: Mapping[str, Any]
    """As :meth:`Plan.to_dict` gives it."""
    outcomes: tuple[Outcome, ...]
    """One a task, in the plan's order."""
    failures: tuple[Mapping[str, Any], ...]
    """Episodes that failed outside the agent, with the error; they are in no figure but ``error_rate``."""
    cost: Mapping[str, Any]
    """Seconds it took, the model's calls and tokens, and their price."""
    parser_faults: int = 0
    """Responses that a parser failed on, which is a bug of it (:attr:`agentgym_rl.data.episode.Turn.fault`)."""
    endings: Mapping[str, int] = field(default_factory=dict)
    """Episodes by ending."""
    finish_reasons: Mapping[str, int] = field(default_factory=dict)
    """Replies by why the model stopped, as far as its API says."""
    empty_replies: int = 0
    """Replies without a word."""
    stopped: tuple[Mapping[str, Any], ...] = ()
    """Episodes that count and that an answer of the model's API ended, with its words."""

    @classmethod
    def of(cls, plan: Plan, episodes: Sequence[Episode], cost: Mapping[str, Any]) -> Result:
        """The result of a plan from its episodes, in the plan's order."""
        each, level = plan.samples, plan.suite.difficulties
        outcomes = [
            Outcome.of(str(task), level[str(task)], episodes[at * each : (at + 1) * each])
            for at, task in enumerate(plan.suite.tasks)
        ]
        turns = [turn for episode in episodes for turn in episode.turns]
        return cls(
            plan=plan.to_dict(),
            outcomes=tuple(outcomes),
            failures=tuple(
                _ended(episode) | {"attempts": episode.attempts} for episode in episodes if not episode.ending.counts
            ),
            cost=dict(cost),
            parser_faults=sum(episode.parser_faults for episode in episodes),
            endings=dict(Counter(episode.ending.value for episode in episodes)),
            finish_reasons=dict(Counter(turn.finish_reason for turn in turns if turn.finish_reason is not None)),
            empty_replies=sum(not turn.response.strip() for turn in turns),
            stopped=tuple(
                _ended(episode) for episode in episodes if episode.ending in BY_API and episode.error is not None
            ),
        )

    @property
    def digest(self) -> str:
        """Of all the panels together."""
        return str(self.plan["panel"]["digest"])

    def check(self, min_counted: float) -> None:
        """Raises EnvUnavailable: less than this share of an environment's episodes count, or none."""
        errors = {env_of(failure["item_id"]): str(failure["error"]) for failure in reversed(self.failures)}
        parts = {
            env: Count(sum(len(outcome.counted) for outcome in outcomes), len(outcomes) * self.samples, errors.get(env))
            for env, outcomes in self.by_env.items()
        }
        check_counted(parts, min_counted)

    @property
    def samples(self) -> int:
        return int(self.plan["samples"])

    @property
    def by_env(self) -> dict[str, list[Outcome]]:
        envs: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            envs.setdefault(outcome.env, []).append(outcome)
        return envs

    def score(self, outcomes: Sequence[Outcome]) -> Score:
        """The figures of some of the outcomes."""
        return score(outcomes, self._seed)

    def envs(self) -> dict[str, Score]:
        return {env: self.score(outcomes) for env, outcomes in self.by_env.items()}

    def difficulties(self) -> dict[str, dict[str, Score]]:
        """Figures by environment and difficulty, sorted by difficulty."""
        scores: dict[str, dict[str, Score]] = {}
        for env, outcomes in self.by_env.items():
            for level in sorted({outcome.difficulty for outcome in outcomes}):
                scores.setdefault(env, {})[level] = self.score(
                    [outcome for outcome in outcomes if outcome.difficulty == level]
                )
        return scores

    def passes(self) -> dict[str, dict[str, dict[int, Measure]]]:
        """See :func:`.scores.passes`, by environment."""
        return {env: passes(outcomes, self.samples, self._seed) for env, outcomes in self.by_env.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: plan, every figure, the outcome of each task."""
        envs = self.envs()
        content = {
            "version": VERSION,
            "agentgym-rl": package_version(),
            "plan": self.plan,
            "macro": macro(list(envs.values())),
            "envs": envs,
            "difficulties": self.difficulties(),
            "passes": self.passes(),
            "failures": self.failures,
            "parser_faults": self.parser_faults,
            "endings": self.endings,
            "finish_reasons": self.finish_reasons,
            "empty_replies": self.empty_replies,
            "stopped": self.stopped,
            "cost": self.cost,
            "outcomes": self.outcomes,
        }
        plain: dict[str, Any] = json.loads(json.dumps(content, default=asdict))
        return plain

    def write(self, folder: Path) -> Path:
        """Write ``result.json``, whole."""
        file = folder / NAME
        write_text(file, json.dumps(self.to_dict(), indent=1) + "\n")
        return file

    @property
    def _seed(self) -> str:
        return f"{self.plan['seed']} {self.digest}"


def read(place: str | Path) -> Result:
    """A result from its folder or file.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it was not written by an evaluation, or by another version.
    """
    file = Path(place) / NAME if Path(place).is_dir() else Path(place)
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist; give the folder of a finished evaluation")
    try:
        data = json_object(file)
        if data["version"] != VERSION:
            raise ValueError(f"{file} has version {data['version']}; this agentgym-rl reads {VERSION}: upgrade it")
        outcomes = tuple(
            Outcome(
                outcome["item_id"],
                outcome["difficulty"],
                tuple(outcome["success"]),
                tuple(outcome["reward"]),
                tuple(outcome["turns"]),
            )
            for outcome in data["outcomes"]
        )
        same = ("plan", "cost", "parser_faults", "endings", "finish_reasons", "empty_replies")
        return Result(
            outcomes=outcomes,
            failures=tuple(data["failures"]),
            stopped=tuple(data["stopped"]),
            **{name: data[name] for name in same},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not the result of an evaluation ({error})") from error


def _ended(episode: Episode) -> dict[str, Any]:
    """Which episode it is, and what ended it."""
    return {
        "item_id": episode.item_id, "sample": episode.tags["sample"], "ending": episode.ending.value,
        "error": episode.error,
    }  # fmt: skip
